"""The verdict on a day: its state, and every finding as a sentence.

The sentence of a finding names who, what, when and how much. It is made here, once: page, list of days, week, terminal,
mail and chat show the same one.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from spark_analytics.archive.inventory import MAX_TEXT_RATIO
from spark_analytics.metrics import events
from spark_analytics.metrics.statistics import median
from spark_analytics.report.completeness import kind_state
from spark_analytics.report.content import BAD_LEVELS, MIN_RISE
from spark_analytics.report.inputs import Account, Evidence, KnownEvent, PasswordSignIn, PatternCount, Place, Trouble
from spark_analytics.report.model import TROUBLES, Facts, Finding, Judgement, Severity, State, Verdict
from spark_analytics.report.number_format import clean, count, listed, percent, rounded, size, times
from spark_analytics.report.trends import trend_of
from spark_analytics.report.zone_times import Clock

NAMED = 3
"""Number of examples that a finding names. The lists of the report have more."""

SKEWED = 2.0
"""Skew of a partition from which on there is a finding."""

SECTIONS = {
    **dict.fromkeys(("silent", "new_host", "unusual_volume"), "hosts"),
    **dict.fromkeys(("skew", "untimed", "empty"), "volume"),
    **dict.fromkeys(("error_rate", "fatal"), "errors"),
    **dict.fromkeys(("new_pattern", "surging_pattern", "back_pattern", "gone_pattern"), "patterns"),
    **dict.fromkeys(("sign_in", "auth", "failed_passwords", "break_in"), "sign-ins"),
    "event": "events",
    "web_errors": "web",
}
"""The section of the page with the details of each kind of finding, `completeness` for others."""


SEVERITIES = {
    "sign_in": Severity.ACT,
    **dict.fromkeys(("silent", "empty", "removed_host", "left_out_host", "repair"), Severity.LOOK),
    **dict.fromkeys(("auth", "failed_passwords", "break_in", "fatal", "error_rate", "web_errors"), Severity.LOOK),
    **dict.fromkeys(("new_pattern", "surging_pattern", "back_pattern"), Severity.LOOK),
}
"""The severity of each kind of finding. Events have theirs in `events`, troubles of the archive by their state: damaged
and lost bytes have the highest one, doubled ones the next. All others are notes."""

_OF_STATE = {State.DAMAGED: Severity.ACT, State.GAPS: Severity.ACT, State.DOUBLED: Severity.LOOK}


def verdict(evidence: Evidence, facts: Facts) -> Verdict:
    """State, severity, findings and both judgements of the day, worst first, from the other `facts`."""
    account, states, severities = evidence.account, list(State), list(Severity)
    archive = [_judged(finding, of_archive=True) for finding in _archive(account)]
    content = [_judged(finding, of_archive=False) for finding in _content(evidence, facts)]
    content = [dataclasses.replace(one, trend=trend_of(one, evidence, facts)) for one in content]
    findings = [*archive, *content]
    findings.sort(key=lambda one: (states.index(one.state), severities.index(one.severity)))
    state = min((facts.completeness.state, *(one.state for one in findings)), key=states.index)
    return Verdict(
        state=state,
        headline=_headline(state, account, facts, findings),
        findings=tuple(findings),
        complete=_complete(account, facts, archive),
        attention=_attention(facts, content),
        severity=_worst(findings),
    )


def _judged(finding: Finding, *, of_archive: bool) -> Finding:
    section = SECTIONS.get(finding.kind, "completeness")
    return dataclasses.replace(finding, of_archive=of_archive, section=section, severity=severity_of(finding))


def severity_of(finding: Finding) -> Severity:
    """The severity of a finding, by its state, else by its kind."""
    if finding.state in _OF_STATE:
        return _OF_STATE[finding.state]
    if finding.kind == "event":
        return Severity(events.severity(finding.names[0]))
    return SEVERITIES.get(finding.kind, Severity.NOTE)


def _worst(findings: Sequence[Finding]) -> Severity:
    return min((finding.severity for finding in findings), key=list(Severity).index, default=Severity.NOTE)


def _headline(state: State, account: Account, facts: Facts, findings: Sequence[Finding]) -> str:
    calm = "nothing stands out" if facts.history.enough else "the history is too short to know what is usual"
    lost = f"{count(account.gap_bytes, 'byte')} known" if account.gap_bytes else "Something is known"
    so_far = "Complete so far, the" if is_whole_so_far(account) else "The"
    first = next((finding.text for finding in findings if finding.state is State.ATTENTION), "")
    return {
        State.DAMAGED: "The archive does not hold what its manifests list",
        State.GAPS: f"{lost} to be lost",
        State.DOUBLED: f"The totals count {_doubled(account)} twice",
        State.OPEN: f"{so_far} day is not closed yet",
        State.ATTENTION: f"Every line that was listed was counted; {_worth_checking(findings) or first}",
        State.COMPLETE: f"Every line that was listed was counted; {calm}",
    }[state]


def _worth_checking(findings: Sequence[Finding]) -> str:
    """The number of findings in the lines that need attention, as a sentence, which is empty without one."""
    number = sum(finding.state is State.ATTENTION and not finding.of_archive for finding in findings)
    return f"{count(number, 'thing')} {'is' if number == 1 else 'are'} worth checking" if number else ""


def is_whole_so_far(account: Account) -> bool:
    """Whether everything that collectors stored is sealed and listed, although the day may get more lines."""
    unlisted = account.trouble_counts.get("unregistered", 0)
    return not (account.open_files or account.torn_manifests or unlisted)


_WORDS = {
    State.COMPLETE: "complete",
    State.ATTENTION: "complete",
    State.OPEN: "open",
    State.GAPS: "data lost",
    State.DOUBLED: "counted twice",
    State.DAMAGED: "archive damaged",
}


def _complete(account: Account, facts: Facts, findings: Sequence[Finding]) -> Judgement:
    state, lines, silent = facts.completeness.state, account.lines_counted, facts.hosts.silent_count
    word = _WORDS[state]
    if state is State.OPEN and is_whole_so_far(account):
        word = "complete so far"
        text = f"All {count(lines, 'line')} sealed so far are counted; the day is not closed, so more may follow"
    elif state is State.OPEN:
        text = "The day is not closed, and not all of it is sealed and counted"
    elif state is not State.COMPLETE:
        text = _headline(state, account, facts, findings)
    else:
        whole = f"{'The' if lines == 1 else 'All'} {count(lines, 'listed line')} {'is' if lines == 1 else 'are'}"
        text = f"{whole} counted: no byte is missing, none is there twice"
        if silent:
            text += f"; {count(silent, 'host')} that usually {'writes was' if silent == 1 else 'write were'} silent"
        if any(finding.state is State.ATTENTION for finding in findings):
            state = State.ATTENTION
    return Judgement(state=state, word=word, text=text)


def _attention(facts: Facts, findings: Sequence[Finding]) -> Judgement:
    if found := _worth_checking(findings):
        severity = _worst(findings)
        return Judgement(state=State.ATTENTION, word=severity.value, text=found, severity=severity)
    text = "Nothing stands out by itself; there are too few days to compare with"
    if facts.history.enough:
        text = f"Nothing stands out against the {count(len(facts.history.days), 'day')} before"
    return Judgement(state=State.COMPLETE, word="no", text=text)


def _doubled(account: Account) -> str:
    return f"{count(account.doubled_bytes, 'byte')} and {count(account.doubled_lines, 'line')}"


def _naming(
    kind: str, state: State, text: str, number: int, examples: Sequence[tuple[str, str]], **more: Any
) -> Finding:
    """A finding about `number` things whose sentence ends with the first of them: (shown text, name)."""
    shown = listed([example for example, _ in examples], number)
    names = tuple(name for _, name in examples)
    return Finding(kind=kind, state=state, text=f"{text}: {shown}" if shown else text, names=names, **more)


def _span(clock: Clock, first: str | None, last: str | None) -> str:
    """`, 15:02 to 15:40`, or nothing if no line has a time."""
    if not first:
        return ""
    return f", {clock(first)}" + (f" to {clock(last)}" if clock(last) != clock(first) else "")


def _where(places: Sequence[Place]) -> str:
    """The hosts of places, those with most lines first: `web1, web2 and 3 more`."""
    hosts = list(dict.fromkeys(place.host for place in places))
    return listed([clean(host, 80) for host in hosts[:NAMED]], len(hosts))


def _about(places: Sequence[Place]) -> dict[str, Any]:
    """The fields of a finding about lines at `places`."""
    return {
        "hosts": tuple(dict.fromkeys(place.host for place in places)),
        "file": places[0].file if places else "",
        "first": min((place.first for place in places if place.first), default=None),
        "last": max((place.last for place in places if place.last), default=None),
    }


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


def _archive(account: Account) -> Iterator[Finding]:
    for kind in (*TROUBLES, *sorted(account.trouble_counts.keys() - TROUBLES.keys())):
        if number := account.trouble_counts.get(kind, 0):
            rows = [trouble for trouble in account.troubles if trouble.kind == kind][:NAMED]
            noun, text = _TEXTS.get(kind, ("trouble", f"of kind {kind}"))
            examples = [(_described(row), row.path or row.file) for row in rows]
            yield _naming(kind, kind_state(kind, account), f"{count(number, noun)} {text}", number, examples)
    if account.doubled_bytes:
        text = f"all totals count {_doubled(account)} twice until you run fshipper audit --repair-duplicates"
        yield Finding(kind="repair", state=State.DOUBLED, text=text)
    yield from _notes(account)


def _described(row: Trouble) -> str:
    """The description of one trouble."""
    # The day is in the report's title and the partition on its page: host and segment are enough.
    where = clean(row.path.rpartition("host=")[2] or f"{row.host} {row.file}")
    if row.kind in {"missing", "truncated", "differs"}:
        listing = f"{count(row.lines_manifest, 'line')} and {count(row.bytes_manifest, 'byte')} listed"
        return f"{where} (its log file: {listing}, {row.lines_counted:,} and {row.bytes_counted:,} counted)"
    if row.kind in {"gap", "offset_gap", "doubled"}:
        where = f"{clean(row.host)} {clean(row.file)}"
    return f"{where} ({clean(row.detail, 120)})" if row.detail else where


def _notes(account: Account) -> Iterator[Finding]:
    have = "has" if len(account.open_collectors) == 1 else "have"
    large = f"with over {MAX_TEXT_RATIO:,} bytes of text in a stored byte"
    for kind, state, names, noun, text in (
        ("open_collector", State.OPEN, account.open_collectors, "collector", f"{{}} {have} not closed the day"),
        (
            "removed_host",
            State.ATTENTION,
            account.removed_hosts,
            "host",
            "retention removed the day of {}, which no total counts",
        ),
        ("left_out_host", State.ATTENTION, account.left_out_hosts, "host", f"no total counts {{}} {large}"),
    ):
        if number := len(names):
            examples = [(clean(name, 80), name) for name in names[:NAMED]]
            yield _naming(kind, state, text.format(count(number, noun)), number, examples)
    open_size = size(account.open_bytes)
    for kind, state, number, noun, text in (
        ("open_file", State.OPEN, account.open_files, "file", f"still open with {open_size}, not counted here"),
        ("torn", State.OPEN, len(account.torn_manifests), "manifest", "cut off in the last line, which is ignored"),
        ("repeated", State.COMPLETE, account.repeated_lines, "manifest line", "repeated for a path; the last holds"),
        ("duplicate", State.COMPLETE, account.duplicates, "block", "sent twice and dropped"),
        ("join", State.COMPLETE, account.joins, "newline", "added by the collector between two unterminated sources"),
    ):
        if number:
            yield Finding(kind=kind, state=state, text=f"{count(number, noun)} {text}")


# -- line content -------------------------------------------------------------------------------------------------


def _content(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    if not facts.totals.lines:
        yield Finding(kind="empty", state=State.ATTENTION, text="not one line was archived on this day")
    yield from _of_auth(facts)
    yield from _of_events(facts)
    yield from _of_silent_hosts(facts)
    yield from _of_errors(facts)
    yield from _of_web(facts)
    if facts.history.enough:
        yield from _of_patterns(facts)
    else:
        yield from _without_history(evidence, facts)
    yield from _of_hosts(facts)


def _of_silent_hosts(facts: Facts) -> Iterator[Finding]:
    if number := facts.hosts.silent_count:
        examples = [
            (clean(one.host, 80) + (f" (since {facts.clock(one.last_arrival)})" if one.last_arrival else ""), one.host)
            for one in facts.hosts.silent[:NAMED]
        ]
        hosts = tuple(one.host for one in facts.hosts.silent)
        yield _naming("silent", State.ATTENTION, f"{count(number, 'host')} silent", number, examples, hosts=hosts)


MANY_FAILED_PASSWORDS = 100
"""Failed passwords of a day without history from which on there is a finding."""


def _without_history(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    """What needs no day before: many failed passwords, warnings of sshd, fatal lines."""
    times = {kind.kind: kind.times for kind in facts.auth.kinds}
    failed = times.get("failed_password", 0)
    if failed >= MANY_FAILED_PASSWORDS:
        plain = f"{count(failed, 'failed password')} from {count(facts.auth.remotes, 'address')}"
        plain += _most([(top.key, top.failed) for top in facts.auth.top_hosts], "on")
        yield Finding(
            kind="failed_passwords",
            state=State.ATTENTION,
            text=plain + _most([(top.key, top.failed) for top in facts.auth.top_remotes], "from"),
            plain=plain,
            hosts=tuple(top.key for top in facts.auth.top_hosts),
            lines=failed,
        )
    if warned := times.get("breakin_warning", 0):
        text = f"{count(warned, 'line')} of sshd with POSSIBLE BREAK-IN ATTEMPT"
        yield Finding(kind="break_in", state=State.ATTENTION, text=text, lines=warned)
    if evidence.fatal_hosts:
        fatal = sum(lines for _, lines in evidence.fatal_hosts)
        yield Finding(
            kind="fatal",
            state=State.ATTENTION,
            text=f"{count(fatal, 'fatal line')}{_most(evidence.fatal_hosts, 'on')}",
            hosts=tuple(host for host, _ in evidence.fatal_hosts),
            lines=fatal,
        )


def _most(entries: Sequence[tuple[str, int]], word: str) -> str:
    """`, most on web1 (349)`, or `, on web1` where it is the only one."""
    if not entries:
        return ""
    name, number = entries[0]
    return f", most {word} {clean(name, 80)} ({number:,})" if len(entries) > 1 else f", {word} {clean(name, 80)}"


def _of_hosts(facts: Facts) -> Iterator[Finding]:
    hosts, volume = facts.hosts, facts.volume
    if (number := hosts.new_count) and facts.history.enough:
        examples = [(clean(one.host, 80), one.host) for one in hosts.new[:NAMED]]
        text = f"{count(number, 'host')} not seen before"
        about = tuple(one.host for one in hosts.new)
        yield _naming("new_host", State.COMPLETE, text, number, examples, hosts=about)
    if number := hosts.unusual_count:
        text = f"{count(number, 'host')} far from the usual volume"
        examples = [(f"{clean(one.host, 80)} ({times(one.factor)})", one.host) for one in hosts.unusual[:NAMED]]
        about = tuple(one.host for one in hosts.unusual)
        yield _naming("unusual_volume", State.COMPLETE, text, number, examples, hosts=about)
    if number := volume.untimed_count:
        text = f"no time that can be read in {count(number, 'log file')} with {count(volume.untimed_lines, 'line')}"
        examples = [
            (f"{clean(one.host, 80)} {clean(one.file, 80)} ({one.lines:,})", f"{one.host} {one.file}")
            for one in volume.untimed[:NAMED]
        ]
        about = tuple(dict.fromkeys(one.host for one in volume.untimed))
        yield _naming("untimed", State.COMPLETE, text, number, examples, hosts=about, lines=volume.untimed_lines)
    if volume.partition_skew >= SKEWED:
        largest = max(volume.partitions, key=lambda day: day.bytes)
        text = f"partition {largest.partition} has {times(largest.skew)} its even share of the bytes"
        yield Finding(kind="skew", state=State.COMPLETE, text=text, names=(str(largest.partition),))


def _of_errors(facts: Facts) -> Iterator[Finding]:
    if number := facts.errors.risen_count:
        rows = facts.errors.risen
        examples = [
            (
                f"{clean(r.host, 80)} {clean(r.file, 80)} ({percent(r.rate)}, usually {percent(r.median_rate)})",
                f"{r.host} {r.file}",
            )
            for r in rows[:NAMED]
        ]
        text = f"error rate above all days before in {count(number, 'log file')}"
        about = {"hosts": tuple(dict.fromkeys(row.host for row in rows)), "file": rows[0].file}
        yield _naming("error_rate", State.ATTENTION, text, number, examples, **about)


def _of_events(facts: Facts) -> Iterator[Finding]:
    """A finding for each host of a kind of event, up to `NAMED`, or one for all of them on more hosts."""
    for event in facts.patterns.events:
        if len({place.host for place in event.places}) > NAMED or not event.places:
            yield _on_many_hosts(event, facts.clock)
            continue
        for place in event.places:
            who, span = clean(place.host, 80), _span(facts.clock, place.first, place.last)
            number = count(place.lines, "line")
            yield Finding(
                kind="event",
                state=State.ATTENTION,
                text=f"{who}: {events.named(event.kind, clean(place.subject, 60))}, {number}{span}",
                plain=f"{who}: {events.named(event.kind, '')}, {number}{span}",
                names=(event.kind, place.subject),
                lines=place.lines,
                **_about((place,)),
            )


def _on_many_hosts(event: KnownEvent, clock: Clock) -> Finding:
    about = _about(event.places)
    what = events.named(event.kind, "")
    hosts = f" on {count(len(about['hosts']), 'host')} ({_where(event.places)})" if event.places else ""
    text = f"{what}{hosts}, {count(event.lines, 'line')}{_span(clock, about['first'], about['last'])}"
    return Finding(kind="event", state=State.ATTENTION, text=text, names=(event.kind,), lines=event.lines, **about)


def _of_patterns(facts: Facts) -> Iterator[Finding]:
    patterns = facts.patterns
    for word, number, rows in (
        ("new", patterns.new_bad_count, patterns.new),
        ("surging", patterns.surging_bad_count, patterns.surging),
    ):
        if number:
            bad = [row for row in rows if row.level in BAD_LEVELS]
            yield _of_pattern(
                f"{word}_pattern", f"{count(number, f'{word} error or warning pattern')}", "", bad, facts.clock
            )
    if patterns.back:
        last_seen = f", last seen on {patterns.back[0].last_seen}"
        yield _of_pattern(
            "back_pattern", f"{count(patterns.back_count, 'pattern')} back", last_seen, patterns.back, facts.clock
        )
    if patterns.gone:
        lost = patterns.gone[0]
        plain = f"{count(patterns.gone_count, 'pattern')} gone, usually {rounded(lost.median_lines)} lines"
        names = tuple(row.pattern_id for row in patterns.gone[:NAMED])
        text = f"{plain}: “{clean(lost.template, 100)}”"
        yield Finding(kind="gone_pattern", state=State.COMPLETE, text=text, plain=plain, names=names)


def _of_pattern(kind: str, what: str, more: str, rows: Sequence[PatternCount], clock: Clock) -> Finding:
    """A finding about patterns whose sentence has the first of them: where, when, how often, and its text."""
    names = tuple(row.pattern_id for row in rows[:NAMED])
    if not rows:
        return Finding(kind=kind, state=State.ATTENTION, text=f"{what}{more}", names=names)
    first, about = rows[0], _about(rows[0].places)
    where = f"{_where(first.places)}: " if first.places else ""
    how_much = f"{count(first.lines, 'line')}{_span(clock, about['first'], about['last'])}"
    plain = f"{what}; {where}{how_much}{more}"
    about["hosts"] = tuple(dict.fromkeys(place.host for row in rows for place in row.places))
    about["lines"] = first.lines
    text = f"{plain}: “{clean(first.template, 100)}”"
    return Finding(kind=kind, state=State.ATTENTION, text=text, plain=plain, names=names, **about)


def _of_auth(facts: Facts) -> Iterator[Finding]:
    auth = facts.auth
    if number := auth.after_failures_count:
        entries, first = auth.after_failures, auth.after_failures[0]
        examples = [(sign_in_text(entry, facts.clock), entry.remote) for entry in entries[:NAMED]]
        text, at = f"{count(number, 'password')} accepted after failures", first.at or first.last
        hosts = tuple(dict.fromkeys(entry.host for entry in entries))
        plain = f"{text} on {listed([clean(host, 80) for host in hosts[:NAMED]], len(hosts))}"
        plain += f", at {facts.clock(at)} after {count(first.failed, 'failed password')}"
        about: dict[str, Any] = {"hosts": hosts, "first": first.failed_first, "last": at}
        yield _naming("sign_in", State.ATTENTION, text, number, examples, plain=plain, **about)
    risen = [change for change in auth.kinds if change.risen]
    if risen:
        named = [f"{row.kind.replace('_', ' ')} {row.times:,} (usually {rounded(row.median)})" for row in risen]
        where = _most([(top.key, top.failed) for top in auth.top_hosts], "on")
        text = f"more than usual in authentication: {', '.join(named)}{where}"
        hosts_of = tuple(top.key for top in auth.top_hosts)
        yield Finding(
            kind="auth", state=State.ATTENTION, text=text, names=tuple(row.kind for row in risen), hosts=hosts_of
        )


def sign_in_text(entry: PasswordSignIn, clock: Clock) -> str:
    """Who signed in where, and the failures before, without a cause."""
    failed = count(entry.failed, "failed password")
    when = f"{clock(entry.failed_first)} to {clock(entry.failed_last)}"
    who = f"{clean(entry.user, 80)} from {clean(entry.remote, 80)} on {clean(entry.host, 80)}"
    return f"{who} at {clock(entry.at or entry.last)} ({failed} of this user and address, {when})"


def _of_web(facts: Facts) -> Iterator[Finding]:
    if facts.web is None:
        return
    statuses = facts.web.statuses
    failing = next((row for row in statuses if row.status_class == "5xx"), None)
    if failing is None or failing.median is None or failing.requests < 20:  # noqa: PLR2004
        return
    whole = [sum(row.before[day] for row in statuses) for day in range(len(failing.before))]
    usual = [part / total for part, total in zip(failing.before, whole, strict=True) if total]
    middle = median(usual) or 0.0
    if failing.share >= MIN_RISE * middle and failing.share > max(usual, default=0.0):
        text = f"{percent(failing.share)} of the web requests failed (5xx), usually {percent(middle)}"
        yield Finding(kind="web_errors", state=State.ATTENTION, text=text, names=("5xx",))
