"""`fshipper report show`: a report that was made, in the terminal. Starts neither Spark nor Java.

The report in at most 20 lines: for a terminal, or a mail that somebody reads on the way.
"""

import os
import re
from collections.abc import Iterator
from typing import Annotated

import typer

from shipper.errors import ConfigError, Unavailable, UsageError
from spark_analytics import open_locations
from spark_analytics.report.model import Facts, State
from spark_analytics.report.number_format import clean, count, percent, rounded, size
from spark_analytics.storage.locations import Location

_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def show(
    out: Annotated[
        str, typer.Option(envvar="SHIPPER_REPORT", help="Where the reports are: a path or a URI.")
    ] = "report",
    date: Annotated[str, typer.Option(help="Day (UTC): YYYY-MM-DD, or latest.")] = "latest",
    as_json: Annotated[bool, typer.Option("--json", help="Print report.json as it is.")] = False,
    directory: Annotated[str, typer.Argument(help="The same as --out.", show_default=False)] = "",
) -> None:
    """Show a report that was made, without Spark."""
    if directory and out not in {directory, "report", os.environ.get("SHIPPER_REPORT")}:
        raise UsageError("the reports are named twice", hint="give their directory as an argument or with --out")
    with open_locations.reached(directory or out) as (where,):
        path = found(where, date)
        content = path.read_bytes()
    if as_json:
        typer.echo(content.decode(), nl=False)
        return
    from spark_analytics.report import json_export  # noqa: PLC0415 - pydantic takes a moment, --help needs none

    typer.echo(as_text(json_export.from_text(content, str(path))))


def found(out: Location, date: str) -> Location:
    """The `report.json` of a day.

    Raises:
        UsageError: `date` is no day.
        ConfigError: nothing was ever reported under `out`.
        Unavailable: that day was not reported; says which were.
    """
    if date != "latest" and not _DATE.fullmatch(date):
        raise UsageError(f"{date!r} is no day", hint="give --date as YYYY-MM-DD or latest; days are UTC")
    known = sorted(path.parent.name for path in out.glob("[0-9]*-[0-9]*-[0-9]*/report.json"))
    if not known:
        raise ConfigError(f"there is no report in {out}", hint="make one with `fshipper report`, or name its --out")
    day = known[-1] if date == "latest" else date
    if day not in known:
        raise Unavailable(
            f"{day} was not reported in {out}; the last ones are {', '.join(known[-7:])}",
            hint=f"make it with `fshipper report --date {day}`",
        )
    return out / day / "report.json"


MOST_LINES = 20
MOST_COLUMNS = 160
OF_LITTLE_USE = frozenset({"patterns", "logins", "web", "talkers"})
"""What gives way to the names of what is missing when the archive does not hold what it should."""


def as_text(facts: Facts) -> str:
    """The summary, without a newline at its end; no control character of a log reaches the terminal."""
    state = facts.verdict.state
    broken = state in {State.DAMAGED, State.GAPS}
    rows = [(name, said) for name, said in _rows(facts) if not (broken and name in OF_LITTLE_USE)]
    lines = [
        f"fshipper report for {facts.date}: {state.value}",
        f"  {facts.verdict.headline}",
        *_findings(facts, MOST_LINES - len(rows) - 6),
        "",
        *(f"  {name:<10}{said}" for name, said in rows),
        "",
        f"  page      {facts.run.out}/{facts.date}/report.html",
        f"  took      {facts.run.seconds:.1f} s with Spark {facts.run.spark_version} on {facts.run.master}",
    ]
    return "\n".join(clean(line, MOST_COLUMNS) for line in lines)


def _findings(facts: Facts, most: int) -> list[str]:
    found = facts.verdict.findings
    if len(found) <= most:
        return [f"  - {finding.text}" for finding in found]
    told = [f"  - {finding.text}" for finding in found[: most - 1]]
    return [*told, f"  - and {len(found) - len(told)} more, on the page"]


def _rows(facts: Facts) -> Iterator[tuple[str, str]]:
    whole, errors, account = facts.totals, facts.errors, facts.completeness
    yield "lines", f"{whole.lines:,} in {size(whole.bytes)}, stored in {size(whole.bytes_stored)}"
    yield (
        "archive",
        (
            f"{account.segments_read:,} of {count(account.segments, 'segment')} read,"
            f" {account.lines_counted:,} of {count(account.lines_manifest, 'line')} counted"
        ),
    )
    yield (
        "hosts",
        (
            f"{whole.hosts:,} in {count(whole.partitions, 'partition')}; {facts.hosts.silent_count:,} silent,"
            f" {facts.hosts.new_count:,} new, {facts.hosts.unusual_count:,} with an unusual volume"
        ),
    )
    usual = f", usually {percent(errors.median_rate)}" if errors.median_rate is not None else ""
    yield (
        "errors",
        f"{errors.errors:,} lines, {percent(errors.rate)}{usual}; risen in {count(errors.risen_count, 'log file')}",
    )
    yield (
        "patterns",
        f"{facts.patterns.distinct:,}; {facts.patterns.new_count:,} new, {facts.patterns.surging_count:,} surging",
    )
    if failed := next((kind for kind in facts.auth.kinds if kind.kind == "failed_password"), None):
        top = facts.auth.top_remotes[:1]
        most = f", most from {top[0].key} ({top[0].failed:,})" if top else ""
        before = f", usually {rounded(failed.median)}" if failed.median is not None else ""
        addresses = count(facts.auth.remotes, "address")
        yield "logins", f"{count(failed.times, 'failed password')}{before}, from {addresses}{most}"
    if facts.web:
        shares = ", ".join(f"{row.status_class} {percent(row.share)}" for row in facts.web.statuses)
        yield "web", f"{count(facts.web.requests, 'request')}: {shares}"
    talkers = [f"{row.host} {percent(row.share_of_bytes)}" for row in facts.hosts.largest[:3]]
    if talkers:
        yield "talkers", ", ".join(talkers)
    if not facts.history.enough:
        yield "history", facts.history.text


def in_a_line(facts: Facts) -> str:
    """A day in one line, for a run over many of them."""
    whole = facts.totals
    said = (
        f"{facts.date}  {facts.verdict.state.value:<9}  {whole.lines:>14,} lines  {size(whole.bytes):>10}"
        f"  {count(whole.hosts, 'host')}  {facts.verdict.headline}"
    )
    return clean(said, MOST_COLUMNS)
