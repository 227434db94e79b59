"""The verdict on a day: its state, and every finding as a sentence."""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spark_analytics.metrics.statistics import median
from spark_analytics.report import events
from spark_analytics.report.completeness import kind_state
from spark_analytics.report.content import BAD_LEVELS, MIN_RISE
from spark_analytics.report.inputs import Account, PasswordSignIn, Trouble
from spark_analytics.report.model import (
    TROUBLES,
    Auth,
    Completeness,
    Errors,
    Finding,
    History,
    Hosts,
    Judgement,
    Patterns,
    State,
    Totals,
    Verdict,
    Volume,
    Web,
)
from spark_analytics.report.number_format import clean, clock, count, listed, percent, rounded, size, times

NAMED = 3
"""Number of examples that a finding names; the lists of the report have more."""

SKEWED = 2.0
"""Skew of a partition from which on there is a finding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictInput:
    """The facts that the verdict is made from."""

    account: Account
    history: History
    totals: Totals
    completeness: Completeness
    hosts: Hosts
    errors: Errors
    patterns: Patterns
    auth: Auth
    web: Web | None
    volume: Volume


SECTIONS = {
    "silent": "hosts", "new_host": "hosts", "unusual_volume": "hosts", "skew": "volume", "error_rate": "errors",
    "new_pattern": "patterns", "surging_pattern": "patterns", "back_pattern": "patterns", "gone_pattern": "patterns",
    "event": "events", "sign_in": "sign-ins", "auth": "sign-ins", "web_errors": "web", "empty": "volume",
}  # fmt: skip
"""The section of the page with the details of each kind of finding; of others `completeness`."""


def verdict(given: VerdictInput) -> Verdict:
    """State, findings and both judgements of the day, worst first."""
    order = list(State)
    archive = [*_archive(given), *_of_silent_hosts(given)]
    content = list(_content(given))
    findings = [
        dataclasses.replace(finding, of_archive=of_archive, section=SECTIONS.get(finding.kind, "completeness"))
        for of_archive, group in ((True, archive), (False, content))
        for finding in group
    ]
    findings.sort(key=lambda finding: order.index(finding.state))
    state = min((given.completeness.state, *(f.state for f in findings)), key=order.index)
    return Verdict(
        state=state,
        headline=_headline(state, given, findings),
        findings=tuple(findings),
        complete=_complete(given, archive),
        attention=_attention(given, content),
    )


def _headline(state: State, given: VerdictInput, findings: Sequence[Finding]) -> str:
    wanting = sum(finding.state is State.ATTENTION for finding in findings)
    calm = "nothing stands out" if given.history.enough else "the history is too short to know what is usual"
    return {
        State.DAMAGED: "The archive does not hold what its manifests list",
        State.GAPS: f"{count(given.account.gap_bytes, 'byte')} known to be lost"
        if given.account.gap_bytes
        else "Something is known to be lost",
        State.DOUBLED: f"The totals count {_doubled(given.account)} twice",
        State.OPEN: "Complete so far, the day is not closed yet"
        if is_whole_so_far(given.account)
        else "The day is not closed yet",
        State.ATTENTION: f"Everything is there; {_worth_checking(wanting)}",
        State.COMPLETE: f"Every line that was listed was counted; {calm}",
    }[state]


def _worth_checking(number: int) -> str:
    return f"{count(number, 'thing')} {'is' if number == 1 else 'are'} worth checking"


def is_whole_so_far(account: Account) -> bool:
    """Whether everything that collectors stored is sealed and listed, although the day may get more lines."""
    unlisted = account.trouble_counts.get("unregistered", 0)
    return not (account.open_files or account.torn_manifests or unlisted)


_WORDS = {
    State.COMPLETE: "complete",
    State.ATTENTION: "complete, hosts silent",
    State.OPEN: "open",
    State.GAPS: "data lost",
    State.DOUBLED: "counted twice",
    State.DAMAGED: "archive damaged",
}


def _complete(given: VerdictInput, findings: Sequence[Finding]) -> Judgement:
    account, state = given.account, given.completeness.state
    if state is State.OPEN and is_whole_so_far(account):
        lines = count(account.lines_counted, "line")
        text = f"All {lines} sealed so far are counted; the day is not closed, so more may follow"
        return Judgement(state=State.OPEN, word="complete so far", text=text)
    if state is State.OPEN:
        text = "The day is not closed, and not all of it is sealed and counted"
        return Judgement(state=state, word=_WORDS[state], text=text)
    if state is not State.COMPLETE:
        return Judgement(state=state, word=_WORDS[state], text=_headline(state, given, findings))
    lines = count(account.lines_counted, "listed line")
    whole = f"The {lines} is" if account.lines_counted == 1 else f"All {lines} are"
    text = f"{whole} counted: no byte is missing, none is there twice"
    silent = given.hosts.silent_count
    if silent:
        text += f"; {count(silent, 'host')} that usually {'writes was' if silent == 1 else 'write were'} silent"
    worst = State.ATTENTION if any(finding.state is State.ATTENTION for finding in findings) else State.COMPLETE
    return Judgement(state=worst, word=_WORDS[worst] if silent else "complete", text=text)


def _attention(given: VerdictInput, findings: Sequence[Finding]) -> Judgement:
    wanting = sum(finding.state is State.ATTENTION for finding in findings)
    if wanting:
        return Judgement(state=State.ATTENTION, word="yes", text=_worth_checking(wanting))
    if given.history.enough:
        days = count(len(given.history.days), "day")
        return Judgement(state=State.COMPLETE, word="no", text=f"Nothing stands out against the {days} before")
    text = "Nothing stands out by itself; there are too few days to compare with"
    return Judgement(state=State.COMPLETE, word="no", text=text)


def _doubled(account: Account) -> str:
    return f"{count(account.doubled_bytes, 'byte')} and {count(account.doubled_lines, 'line')}"


# -- the archive --------------------------------------------------------------------------------------------------

_TEXTS = {
    "missing": ("segment", "listed but not on disk"),
    "truncated": ("segment", "cut off"),
    "differs": ("manifest line", "with other numbers than its segment has"),
    "unreadable": ("manifest line", "that cannot be read"),
    "unregistered": ("sealed file", "on disk that no manifest lists, not counted here"),
    "offset_gap": ("log file", "with bytes between two spans that no segment holds"),
    "doubled": ("log file", "with bytes that an earlier segment holds, too"),
    "gap": ("log file", "with bytes lost before the collector could have them, recorded as gaps"),
}


def _archive(given: VerdictInput) -> Iterator[Finding]:
    account = given.account
    for kind in (*TROUBLES, *sorted(account.trouble_counts.keys() - TROUBLES.keys())):
        if number := account.trouble_counts.get(kind, 0):
            rows = [trouble for trouble in account.troubles if trouble.kind == kind]
            noun, text = _TEXTS.get(kind, ("trouble", f"of kind {kind}"))
            yield _finding(kind, kind_state(kind, account), f"{count(number, noun)} {text}", rows, number)
    if account.doubled_bytes:
        text = f"all totals count {_doubled(account)} twice until you run fshipper audit --repair-duplicates"
        yield Finding(kind="repair", state=State.DOUBLED, text=text)
    yield from _notes(account)


def _finding(kind: str, state: State, text: str, rows: Sequence[Trouble], number: int) -> Finding:
    examples = [_described(row) for row in rows[:NAMED]]
    sentence = f"{text}: {listed(examples, number)}" if examples else text
    return Finding(kind=kind, state=state, text=sentence, names=tuple(row.path or row.file for row in rows[:NAMED]))


def _described(row: Trouble) -> str:
    """The description of one trouble."""
    # The day is in the report's title and the partition on its page: host and segment are enough.
    where = clean(row.path.rpartition("host=")[2] or f"{row.host} {row.file}")
    if row.kind in {"gap", "offset_gap", "doubled"}:
        detail = f"{clean(row.host)} {clean(row.file)}"
        return f"{detail} ({clean(row.detail, 120)})" if row.detail else detail
    if row.kind in {"missing", "truncated", "differs"}:
        listing = f"{count(row.lines_manifest, 'line')} and {count(row.bytes_manifest, 'byte')} listed"
        return f"{where} (its log file: {listing}, {row.lines_counted:,} and {row.bytes_counted:,} counted)"
    return f"{where} ({clean(row.detail, 120)})" if row.detail else where


def _notes(account: Account) -> Iterator[Finding]:
    collectors = [clean(name, 80) for name in account.open_collectors[:NAMED]]
    number = len(account.open_collectors)
    if number:
        have = "has" if number == 1 else "have"
        text = f"{count(number, 'collector')} {have} not closed the day: {listed(collectors, number)}"
        yield Finding(kind="open_collector", state=State.OPEN, text=text, names=account.open_collectors[:NAMED])
    if number := len(account.removed_hosts):
        removed = [clean(name, 80) for name in account.removed_hosts[:NAMED]]
        text = f"retention removed the day of {count(number, 'host')}, which no total counts: {listed(removed, number)}"
        yield Finding(kind="removed_host", state=State.ATTENTION, text=text, names=account.removed_hosts[:NAMED])
    open_size = size(account.open_bytes)
    rows = (
        ("open_file", State.OPEN, account.open_files, "file", f"still open with {open_size}, not counted here"),
        ("torn", State.OPEN, len(account.torn_manifests), "manifest", "cut off in the last line, which is ignored"),
        ("repeated", State.COMPLETE, account.repeated_lines, "manifest line", "repeated for a path; the last holds"),
        ("duplicate", State.COMPLETE, account.duplicates, "block", "sent twice and dropped"),
        ("join", State.COMPLETE, account.joins, "newline", "added by the collector between two unterminated sources"),
    )  # fmt: skip
    for kind, state, number, noun, text in rows:
        if number:
            yield Finding(kind=kind, state=state, text=f"{count(number, noun)} {text}")


# -- line content -------------------------------------------------------------------------------------------------


def _content(given: VerdictInput) -> Iterator[Finding]:
    if not given.totals.lines:
        yield Finding(kind="empty", state=State.ATTENTION, text="not one line was archived on this day")
    yield from _of_auth(given)
    yield from _of_hosts(given)
    yield from _of_patterns(given)
    yield from _of_errors(given)
    yield from _of_web(given)


def _of_silent_hosts(given: VerdictInput) -> Iterator[Finding]:
    hosts = given.hosts
    if hosts.silent_count:
        named = [
            f"{clean(h.host, 80)} (since {clock(h.last_arrival)})" if h.last_arrival else clean(h.host, 80)
            for h in hosts.silent[:NAMED]
        ]
        text = f"{count(hosts.silent_count, 'host')} silent: {listed(named, hosts.silent_count)}"
        yield Finding(
            kind="silent", state=State.ATTENTION, text=text, names=tuple(h.host for h in hosts.silent[:NAMED])
        )


def _of_hosts(given: VerdictInput) -> Iterator[Finding]:
    hosts = given.hosts
    if hosts.new_count and given.history.enough:
        named = [clean(host.host, 80) for host in hosts.new[:NAMED]]
        text = f"{count(hosts.new_count, 'host')} not seen before: {listed(named, hosts.new_count)}"
        yield Finding(kind="new_host", state=State.COMPLETE, text=text, names=tuple(h.host for h in hosts.new[:NAMED]))
    if hosts.unusual_count:
        named = [f"{clean(host.host, 80)} ({times(host.factor)})" for host in hosts.unusual[:NAMED]]
        text = f"{count(hosts.unusual_count, 'host')} far from the usual volume: {listed(named, hosts.unusual_count)}"
        names = tuple(host.host for host in hosts.unusual[:NAMED])
        yield Finding(kind="unusual_volume", state=State.COMPLETE, text=text, names=names)
    if given.volume.partition_skew >= SKEWED:
        largest = max(given.volume.partitions, key=lambda day: day.bytes)
        text = f"partition {largest.partition} has {times(largest.skew)} its even share of the bytes"
        yield Finding(kind="skew", state=State.COMPLETE, text=text, names=(str(largest.partition),))


def _of_errors(given: VerdictInput) -> Iterator[Finding]:
    errors = given.errors
    if not errors.risen_count:
        return
    named = [
        f"{clean(r.host, 80)} {clean(r.file, 80)} ({percent(r.rate)}, usually {percent(r.median_rate)})"
        for r in errors.risen[:NAMED]
    ]
    found = listed(named, errors.risen_count)
    text = f"error rate above all days before in {count(errors.risen_count, 'log file')}: {found}"
    names = tuple(f"{r.host} {r.file}" for r in errors.risen[:NAMED])
    yield Finding(kind="error_rate", state=State.ATTENTION, text=text, names=names)


def _of_patterns(given: VerdictInput) -> Iterator[Finding]:
    patterns = given.patterns
    for event in patterns.events:
        example = f"“{clean(event.example or event.template, 100)}”"
        text = f"{events.NAMES.get(event.kind, event.kind)}: {count(event.lines, 'line')}, {example}"
        yield Finding(kind="event", state=State.ATTENTION, text=text, names=(event.kind,))
    if not given.history.enough:  # on the first days every pattern is new
        return
    kinds = (
        ("new_pattern", "new", patterns.new_bad_count, patterns.new),
        ("surging_pattern", "surging", patterns.surging_bad_count, patterns.surging),
    )
    for kind, word, number, rows in kinds:
        bad = [row for row in rows if row.level in BAD_LEVELS]
        if number:
            example = f": “{clean(bad[0].template, 100)}”, {count(bad[0].lines, 'line')}" if bad else ""
            names = tuple(row.pattern_id for row in bad[:NAMED])
            text = f"{count(number, f'{word} error or warning pattern')}{example}"
            yield Finding(kind=kind, state=State.ATTENTION, text=text, names=names)
    if patterns.back:
        one, number = patterns.back[0], patterns.back_count
        text = f"{count(number, 'pattern')} back: “{clean(one.template, 100)}”, last seen on {one.last_seen}"
        names = tuple(row.pattern_id for row in patterns.back[:NAMED])
        yield Finding(kind="back_pattern", state=State.ATTENTION, text=text, names=names)
    if patterns.gone:
        lost, number = patterns.gone[0], patterns.gone_count
        usual = rounded(lost.median_lines)
        text = f"{count(number, 'pattern')} gone: “{clean(lost.template, 100)}”, usually {usual} lines"
        names = tuple(row.pattern_id for row in patterns.gone[:NAMED])
        yield Finding(kind="gone_pattern", state=State.ATTENTION, text=text, names=names)


def _of_auth(given: VerdictInput) -> Iterator[Finding]:
    auth = given.auth
    if auth.after_failures_count:
        named = [sign_in_text(entry) for entry in auth.after_failures[:NAMED]]
        number = auth.after_failures_count
        text = f"{count(number, 'password')} accepted after failures: {listed(named, number)}"
        names = tuple(entry.remote for entry in auth.after_failures[:NAMED])
        yield Finding(kind="sign_in", state=State.ATTENTION, text=text, names=names)
    risen = [change for change in auth.kinds if change.risen]
    if risen:
        named = [f"{row.kind.replace('_', ' ')} {row.times:,} (usually {rounded(row.median)})" for row in risen]
        text = f"more than usual in authentication: {', '.join(named)}"
        yield Finding(kind="auth", state=State.ATTENTION, text=text, names=tuple(row.kind for row in risen))


def sign_in_text(entry: PasswordSignIn) -> str:
    """Who signed in where, and the failures before; no cause."""
    failed = count(entry.failed, "failed password")
    when = f"{clock(entry.failed_first)} to {clock(entry.failed_last)}"
    who = f"{clean(entry.user, 80)} from {clean(entry.remote, 80)} on {clean(entry.host, 80)}"
    return f"{who} at {clock(entry.at or entry.last)} ({failed} of this user and address, {when})"


def _of_web(given: VerdictInput) -> Iterator[Finding]:
    if given.web is None:
        return
    failing = next((row for row in given.web.statuses if row.status_class == "5xx"), None)
    if failing is None or failing.median is None or failing.requests < 20:  # noqa: PLR2004
        return
    usual = _shares(given.web, failing.before)
    middle = median(usual) or 0.0
    if failing.share >= MIN_RISE * middle and failing.share > max(usual, default=0.0):
        text = f"{percent(failing.share)} of the web requests failed (5xx), usually {percent(middle)}"
        yield Finding(kind="web_errors", state=State.ATTENTION, text=text, names=("5xx",))


def _shares(web: Web, failing: Sequence[int]) -> list[float]:
    whole = [sum(row.before[day] for row in web.statuses) for day in range(len(failing))]
    return [part / total for part, total in zip(failing, whole, strict=True) if total]
