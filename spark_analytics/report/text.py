"""The report as text of at most 20 lines: for the terminal and for mail."""

from collections.abc import Iterator

from spark_analytics.report.model import Facts, State
from spark_analytics.report.number_format import clean, count, percent, rounded, size

MAX_LINES = 20
MAX_COLUMNS = 160
LESS_IMPORTANT = frozenset({"patterns", "logins", "web", "talkers"})
"""Rows that are left out if the archive is incomplete, so that the names of what is missing fit."""


def as_text(facts: Facts) -> str:
    """The summary without a final newline and without control characters of log text."""
    state = facts.verdict.state
    broken = state in {State.DAMAGED, State.GAPS}
    rows = [(name, text) for name, text in _rows(facts) if not (broken and name in LESS_IMPORTANT)]
    findings, most = [f"  - {finding.text}" for finding in facts.verdict.findings], MAX_LINES - len(rows) - 6
    if len(findings) > most:
        findings[most - 1 :] = [f"  - and {len(findings) - most + 1} more, on the page"]
    lines = [
        f"fshipper report for {facts.date}: {facts.verdict.word}",
        f"  {facts.verdict.headline}",
        *findings,
        "",
        *(f"  {name:<10}{text}" for name, text in rows),
        "",
        f"  page      {facts.run.out}/{facts.date}/report.html",
        f"  took      {facts.run.seconds:.1f} s with Spark {facts.run.spark_version} on {facts.run.master}",
    ]
    return "\n".join(clean(line, MAX_COLUMNS) for line in lines)


def _rows(facts: Facts) -> Iterator[tuple[str, str]]:
    whole, errors, account = facts.totals, facts.errors, facts.completeness
    hosts, patterns = facts.hosts, facts.patterns
    yield "lines", f"{whole.lines:,} in {size(whole.bytes)}, stored in {size(whole.bytes_stored)}"
    read = f"{account.segments_read:,} of {count(account.segments, 'segment')} read"
    yield "archive", f"{read}, {account.lines_counted:,} of {count(account.lines_manifest, 'line')} counted"
    there = f"{whole.hosts:,} in {count(whole.partitions, 'partition')}; {hosts.silent_count:,} silent"
    yield "hosts", f"{there}, {hosts.new_count:,} new, {hosts.unusual_count:,} with an unusual volume"
    usual = f", usually {percent(errors.median_rate)}" if errors.median_rate is not None else ""
    risen = f"risen in {count(errors.risen_count, 'log file')}"
    yield "errors", f"{errors.errors:,} lines, {percent(errors.rate)}{usual}; {risen}"
    yield "patterns", f"{patterns.distinct:,}; {patterns.new_count:,} new, {patterns.surging_count:,} surging"
    if failed := next((kind for kind in facts.auth.kinds if kind.kind == "failed_password"), None):
        top = facts.auth.top_remotes[:1]
        most = f", most from {top[0].key} ({top[0].failed:,})" if top else ""
        before = f", usually {rounded(failed.median)}" if failed.median is not None else ""
        addresses = count(facts.auth.remotes, "address")
        yield "logins", f"{count(failed.times, 'failed password')}{before}, from {addresses}{most}"
    if facts.web:
        shares = ", ".join(f"{row.status_class} {percent(row.share)}" for row in facts.web.statuses)
        yield "web", f"{count(facts.web.requests, 'request')}: {shares}"
    if hosts.largest:
        yield "talkers", ", ".join(f"{row.host} {percent(row.share_of_bytes)}" for row in hosts.largest[:3])
    yield "times", facts.clock.sentence
    if not facts.history.enough:
        yield "history", facts.history.text


def in_a_line(facts: Facts) -> str:
    """A day in one line, for a run over several days."""
    whole = facts.totals
    line = (
        f"{facts.date}  {facts.verdict.word:<9}  {whole.lines:>14,} lines  {size(whole.bytes):>10}"
        f"  {count(whole.hosts, 'host')}  {facts.verdict.headline}"
    )
    return clean(line, MAX_COLUMNS)
