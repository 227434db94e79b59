"""Plans and states for people: coloured on a terminal, plain lines elsewhere. For programs: JSON."""

import dataclasses
import json
from collections.abc import Sequence

from rich.text import Text

from partitioner.diff import SIZES, Change
from partitioner.options import Color
from partitioner.plan import Action, Verb
from shipper.jetstream.stream_status import PartitionStatus, Status
from shipper.stream_source import origin_of
from shipper.table_printer import (
    BAD,
    CHANGED,
    GOOD,
    REMOVED,
    REPLACED,
    SAME,
    fitted,
    print_lines,
    print_signed,
    standard_output,
)
from shipper.units import counted, format_bytes, format_duration

SIGNS = {
    Verb.CREATE: GOOD,
    Verb.UPDATE: CHANGED,
    Verb.REPLACE: REPLACED,
    Verb.DELETE: REMOVED,
    Verb.REFUSE: BAD,
    Verb.KEEP: SAME,
}
PAST = {Verb.CREATE: "created", Verb.UPDATE: "updated", Verb.REPLACE: "created again", Verb.DELETE: "deleted"}
FULL_PERCENT = 70  # above it the collector purges messages that producers may still want replayed
DEAD_LETTERS_PERCENT = 80
COLUMNS = ("partition", "stream", "messages", "bytes", "max", "full", "first", "last", "pending", "ack pending", "lag")


def print_plan(actions: Sequence[Action], color: Color = "auto") -> None:
    """Print a line for each action with a change or a reason, a line for each field that changes, and the totals."""
    console = standard_output(color=None if color == "auto" else color == "always")
    for action in actions:
        if action.verb is Verb.KEEP and not action.reason:
            continue
        flag = f" [{action.flag}]" if action.flag else ""
        reason = f": {action.reason}{flag}" if action.reason else ""
        print_signed(console, SIGNS[action.verb], f"{action.verb.value} {action.title}{reason}")
        for change in action.changes:
            before, after = _values(change)
            line = Text.assemble("    ", (change.field, "bold"), " ", (before, "red"), " → ", (after, "green"))
            console.print(line, soft_wrap=True)
    counts = {verb: sum(action.verb is verb for action in actions) for verb in Verb}
    parts = [f"{count} to {verb.value}" for verb, count in counts.items() if count and verb is not Verb.KEEP]
    console.print(", ".join(parts) or "nothing to do", highlight=False)


def done_line(action: Action) -> str:
    """One line for a person about an action that was carried out."""
    details = "; ".join(f"{change.field} {' → '.join(_values(change))}" for change in action.changes)
    if action.entry:
        details = f"hosts follow it: partitions 0 to {action.config['partitions'] - 1}"
    elif action.verb is Verb.CREATE and not action.consumer:
        origin = origin_of(action.config)
        details = f"sourced from {origin.domain}" if origin else ", ".join(action.config.get("subjects", ()))
    return f"{PAST[action.verb]} {action.title}" + (f" ({details})" if details else "")


def plan_json(actions: Sequence[Action]) -> str:
    """The plan for programs: each action, and whether anything would change."""
    shown = [
        {
            "verb": action.verb.value,
            "stream": action.stream,
            "consumer": action.consumer or None,
            "entry": action.entry or None,
            "changes": [dataclasses.asdict(change) for change in action.changes],
            "reason": action.reason,
            "flag": action.flag,
        }
        for action in actions
    ]
    return json.dumps({"v": 1, "changes": any(action.changing for action in actions), "actions": shown}, indent=2)


def print_status(status: Status) -> None:
    """A table of the partitions, and lines about dead letters and what the server gave up, if there are some."""
    console = standard_output()
    lines = fitted(
        console,
        COLUMNS,
        [_cells(each) for each in status.partitions],
        numbers=frozenset(COLUMNS) - {"stream"},
        give_up=("first", "last", "max", "ack pending", "bytes", "pending"),
        boxed=console.is_terminal,
    )
    print_lines(console, lines)
    for each in status.partitions:
        if each.top_host:
            crowded = (
                f"{each.stream} is {each.percent_full:.0f}% full: {each.top_host_percent:.0f}% of its messages are of"
            )
            hint = "docs/operations/troubleshooting.md, one host exceeds its limits"
            console.print(Text(f"{crowded} {each.top_host} ({hint})", style="yellow"), soft_wrap=True)
        if each.site:
            console.print(Text(_site_line(each), style="red" if each.is_site_away else ""), soft_wrap=True)
    if status.dead_letters:
        full = status.dead_letters_full or 0
        drops = f", which is {full:.0f}% full and drops its oldest at 100%" if full >= DEAD_LETTERS_PERCENT else ""
        waiting = counted(status.dead_letters, "dead letter waits", "dead letters wait")
        console.print(Text(f"{waiting} in stream DLQ{drops} (fshipper dlq ls)", style="red"), soft_wrap=True)
    if status.advisories:
        given_up = f"the server gave up delivering {counted(status.advisories, 'message')} (fshipper dlq ls)"
        console.print(Text(given_up, style="red"), soft_wrap=True)


def _site_line(each: PartitionStatus) -> str:
    """The origin of a stream's messages, and the stream's lag."""
    if each.site_silent is None:
        return f"{each.stream} is sourced from {each.site}, which has not answered yet"
    heard = f"last contact {format_duration(each.site_silent)} ago"
    behind = (
        "the link is down, or the site" if each.is_site_away else f"{counted(each.site_lag or 0, 'message')} of lag"
    )
    return f"{each.stream} is sourced from {each.site}: {behind}, {heard}"


def _values(change: Change) -> tuple[str, str]:
    """Before and after, for people; two sizes with the same short form are shown in bytes."""
    both = (change.before, change.after)
    if change.field in SIZES and all(isinstance(size, int) and size > 0 for size in both):
        before, after = map(format_bytes, both)
        if before != after:
            return before, after
    before, after = map(json.dumps, both)
    return before, after


def _cells(each: PartitionStatus) -> list[Text]:
    full = "-" if each.percent_full is None else f"{each.percent_full:.1f}%"
    lag = "no consumer" if each.lag is None else str(each.lag)
    return [
        Text(str(each.partition)),
        Text(each.stream),
        Text(str(each.messages)),
        Text(format_bytes(each.bytes)),
        Text(format_bytes(each.max_bytes) if each.max_bytes > 0 else "no limit"),
        Text(full, style="red" if (each.percent_full or 0) > FULL_PERCENT else ""),
        Text(str(each.first_seq)),
        Text(str(each.last_seq)),
        Text("-" if each.pending is None else str(each.pending)),
        Text("-" if each.ack_pending is None else str(each.ack_pending)),
        Text(lag, style="yellow" if each.lag is None or each.lag else "green"),
    ]
