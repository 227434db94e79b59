"""A move for people: who goes where, how even it is before and behind, how far it is. For programs: values for JSON."""

import dataclasses
import sys
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from partitioner.move.drive import Progress
from partitioner.move.plan import Plan, loads, skew
from shipper.tables import print_lines, rendered
from shipper.units import counted, format_bytes

MOST_LINES = 40


def print_plan(plan: Plan) -> None:
    """The plan as a person reads it."""
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 160)
    moves = plan.moves
    console.print(Text(_head(plan, len(moves)), style="bold"), soft_wrap=True)
    for move in moves[:MOST_LINES]:
        line = f"  {move.host}: partition {move.before} → {move.after} ({format_bytes(move.bytes)} in the streams)"
        console.print(Text(line), soft_wrap=True)
    if len(moves) > MOST_LINES:
        console.print(f"  and {counted(len(moves) - MOST_LINES, 'more host')}")
    for number in plan.creates:
        console.print(Text(f"+ create the stream of partition {number}", style="green"))
    for number in plan.retires:
        console.print(Text(f"- retire the stream of partition {number}, once all of it is archived", style="red"))
    print_lines(console, rendered(console, _table(plan)))


def plan_json(plan: Plan) -> dict[str, Any]:
    """The plan for programs."""
    before, after = loads(plan.before, plan.weights), loads(plan.after, plan.weights)
    return {
        "changes": plan.changes,
        "version": plan.after.version,
        "before": plan.before.partitions,
        "after": plan.after.partitions,
        "overrides": dict(plan.after.overrides),
        "slots": bool(plan.after.slots),
        "moves": [dataclasses.asdict(move) for move in plan.moves],
        "creates": list(plan.creates),
        "retires": list(plan.retires),
        "skew": {"before": round(skew(before.values()), 3), "after": round(skew(after.values()), 3)},
        "bytes": {"before": before, "after": after},
    }


def progress_line(progress: Progress) -> str:
    """How far it is, in one line."""
    parts = [f"{progress.moved} of {progress.hosts} hosts are where they belong"]
    parts += [f"{len(progress.away)} do not answer"] if progress.away else []
    parts += [f"to be retired: partition {', '.join(map(str, progress.retiring))}"] if progress.retiring else []
    return "; ".join(parts)


def _head(plan: Plan, moving: int) -> str:
    if not plan.is_new:
        return f"the map (version {plan.after.version}) says {counted(plan.after.partitions, 'partition')} already"
    return (
        f"{plan.before.partitions} → {counted(plan.after.partitions, 'partition')}"
        f" (version {plan.after.version} of the map): {moving} of {counted(len(plan.weights), 'host')} move"
    )


def _table(plan: Plan) -> Table:
    before, after = loads(plan.before, plan.weights), loads(plan.after, plan.weights)
    table = Table(box=None, header_style="bold")
    for name in ("partition", "bytes before", "bytes after"):
        table.add_column(name, justify="right", no_wrap=True)
    for number in sorted(before.keys() | after.keys()):
        cells = [format_bytes(sums[number]) if number in sums else "-" for sums in (before, after)]
        table.add_row(str(number), *cells)
    table.add_row("skew", f"{skew(before.values()):.2f}", f"{skew(after.values()):.2f}")
    return table
