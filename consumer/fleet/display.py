"""The fleet as JSON, which the status page draws, and as text: two tables and a list of problems."""

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from consumer.fleet.host_table import TROUBLED, HostState, HostStatus, counts
from consumer.fleet.snapshot import Fleet, Partition, rate_of
from shipper import units
from shipper.control import MAX_PACE_SECONDS, USUAL_DELAY_SECONDS
from shipper.table_printer import STACK, fitted
from shipper.units import counted, format_bytes, format_duration

VERSION = 1
"""Version of the JSON. New fields keep the number; changed or removed fields change it."""


def fleet_json(fleet: Fleet) -> dict[str, Any]:
    """All of it: sizes in bytes, durations in seconds, `at` in seconds since 1970, `time` the same in ISO 8601."""
    return {
        "v": VERSION,
        "at": round(fleet.at, 3),
        "time": f"{dt.datetime.fromtimestamp(fleet.at, dt.UTC):%Y-%m-%dT%H:%M:%SZ}",
        "well": fleet.is_well,
        "verdict": str(fleet.verdict),
        "problems": [problem._asdict() for problem in fleet.problems],
        "counts": {str(state): count for state, count in counts(fleet.hosts).items()},
        "rate_bytes": round(fleet.rate),
        "lag": fleet.lag,
        "hosts": [host_json(host) for host in fleet.hosts],
        "partitions": [partition_json(partition) for partition in fleet.partitions],
        "dead_letters": fleet.dead_letters,
        "dead_letters_percent_full": fleet.dead_letters_full,
        "advisories": fleet.advisories,
        "doubled_bytes": fleet.doubled,
        "durability": durability_json(fleet),
        "notes": [*fleet.notes, *fleet.warnings],
    }


def durability_json(fleet: Fleet) -> dict[str, Any] | None:
    """What the server may lose; null if it was not read."""
    return fleet.durability.to_json() if fleet.durability else None


def host_json(host: HostStatus) -> dict[str, Any]:
    """One host. Fields that come from a heartbeat are null if there was none."""
    beat = host.beat
    return {
        "host": host.name,
        "state": str(host.state),
        "why": host.why,
        "heard_seconds_ago": None if host.age is None else round(host.age, 1),
        "last_line_seconds_ago": None if host.last_line is None else round(host.last_line, 1),
        "partition": host.partition,
        "version": beat.version if beat else None,
        "up_seconds": beat.up if beat else None,
        "files": beat.files if beat else None,
        "unreadable_files": beat.unreadable if beat else None,
        "backlog_bytes": beat.backlog if beat else None,
        "backlog_seconds": beat.backlog_age if beat else None,
        "backlog_files": beat.backlog_files if beat else None,
        "rate_bytes": round(rate_of(host)) if beat else None,
        "shipped_bytes": beat.shipped if beat else None,
        "held_bytes": beat.held if beat else None,
        "delay_seconds": beat.delay or None if beat else None,
        "trouble": beat.trouble if beat else "",
        "behind": [
            {"file": each.file, "offset": each.offset, "bytes": each.behind, "seconds": each.age} for each in beat.worst
        ]
        if beat
        else [],
    }


def partition_json(partition: Partition) -> dict[str, Any]:
    """One partition with its stream's numbers."""
    return asdict(partition.status) | {
        "collector": partition.collector,
        "hosts": partition.hosts,
        "rate_bytes": round(partition.rate),
        "archived_messages_per_second": None if partition.read_rate is None else round(partition.read_rate, 1),
        "why": partition.why,
    }


def printable(value: Any) -> Any:
    """`value` with every text made printable: a host chooses its name, which may contain control characters."""
    if isinstance(value, str):
        return units.printable(value)
    if isinstance(value, list):
        return [printable(each) for each in value]
    if isinstance(value, dict):
        return {key: printable(each) for key, each in value.items()}
    return value


STYLES = {
    HostState.DEAD: "bold red",
    HostState.STUCK: "bold yellow",
    HostState.UNKNOWN: "cyan",
    HostState.SHIPPING: "green",
    HostState.QUIET: "dim",
    HostState.ENDED: "dim",
    HostState.SHARED: "bold red",
}
HOST_COLUMNS = ("host", "state", "heard", "last line", "partition", "files", "backlog", "age", "rate", "version", "why")
PARTITION_COLUMNS = ("partition", "lag", "in", "archived", "full", "hosts", "collector", "why")
RIGHT = frozenset(
    {"heard", "last line", "partition", "files", "backlog", "age", "rate", "lag", "in", "archived", "full", "hosts"}
)
NAMED_VERSIONS = 5
NO_HOST = "no host has sent anything yet: start `fshipper produce` on a host, or name another server (NATS_URL)"


def tables(out: Console, fleet: Fleet, hosts: Sequence[HostStatus], *, limit: int) -> RenderableType:
    """The tables in the width of `out`: the chosen `hosts`, at most `limit` (0: all), the partitions, and totals."""
    shown = hosts[:limit] if limit else hosts
    parts: list[RenderableType] = []
    if shown:
        parts += fitted(
            out,
            HOST_COLUMNS,
            [_host_cells(host) for host in shown],
            numbers=RIGHT,
            wrapped="why",
            above=("host", "why"),
            give_up=("version", "age", "files", "rate", "last line", "partition", "heard", STACK, "backlog"),
            boxed=out.is_terminal,
        )
    if left := len(hosts) - len(shown):
        parts.append(Text(f"… and {counted(left, 'more host')}, none of them worse (--limit 0 shows all)", style="dim"))
    listed = {host.name for host in hosts}
    if ended := sum(host.state is HostState.ENDED and host.name not in listed for host in fleet.hosts):
        parts.append(Text(f"{counted(ended, 'host')} ended as requested (--state ended shows them)", style="dim"))
    if not hosts and not ended:
        parts.append(Text("no host is known that fits" if fleet.hosts else NO_HOST))
    parts.append(Text())
    parts += fitted(
        out,
        PARTITION_COLUMNS,
        [_partition_cells(each) for each in fleet.partitions],
        numbers=RIGHT,
        wrapped="why",
        above=("partition", "collector", "why"),
        give_up=("in", "archived", "full", "hosts", STACK),
        boxed=out.is_terminal,
    )
    parts.append(Text())
    return Group(*parts, *_sum(fleet))


def _sum(fleet: Fleet) -> list[Text]:
    found = counts(fleet.hosts)
    states = ", ".join(f"{count} {state}" for state, count in found.items() if count) or "none yet"
    moving = f"{format_bytes(fleet.rate)}/s · lag {counted(fleet.lag, 'message')}"
    lines = [
        Text(printable(f"{each.what}: {each.why}" if each.kind == "partition" else each.why), style="bold red")
        for each in fleet.problems
        if each.kind not in {"host", "duplicates"}
    ]
    lines.append(Text(f"{counted(len(fleet.hosts), 'host')}: {states} · {moving}"))
    delays = [host.beat.delay for host in fleet.hosts if host.beat]
    if paced := [delay for delay in delays if USUAL_DELAY_SECONDS < delay <= MAX_PACE_SECONDS]:
        delay = f"lines of {counted(len(paced), 'host')} are sent after up to {format_duration(max(paced))}"
        lines.append(Text(f"{delay}: collectors request it, because they receive many small blocks", style="dim"))
    if fleet.unknown_hosts:
        unknown = f"{fleet.unknown_hosts} of {counted(len(fleet.hosts), 'host')}"
        lines.append(Text(f"whether lines wait on {unknown} is not known: they send no heartbeats", style="cyan"))
    versions = Counter(host.beat.version for host in fleet.hosts if host.beat)
    if len(versions) > 1:
        named = ", ".join(f"{printable(name)} ({count})" for name, count in versions.most_common(NAMED_VERSIONS))
        lines.append(Text(f"versions: {named}"))
    if fleet.dead_letters:
        waiting = counted(fleet.dead_letters, "dead letter waits", "dead letters wait")
        lines.append(Text(f"{waiting} (fshipper dlq ls)", style="red"))
    if fleet.advisories:
        given_up = counted(fleet.advisories, "message")
        lines.append(Text(f"the server gave up delivering {given_up} (fshipper dlq ls)", style="red"))
    if fleet.doubled:
        doubled = f"{fleet.doubled:,} bytes are in the archive twice"
        lines.append(Text(f"{doubled} (fshipper audit --repair-duplicates)", style="red"))
    if durability := fleet.durability:
        lines.append(Text(durability.warning or durability.text, style="yellow" if durability.is_at_risk else "dim"))
    return lines + [Text(note, style="yellow") for note in (*fleet.notes, *fleet.warnings)]


def _host_cells(host: HostStatus) -> list[Text]:
    beat, style, cells = host.beat, STYLES[host.state], ["-"] * 5
    if beat is not None:
        cells = [
            f"{beat.files}",
            format_bytes(beat.backlog) if beat.backlog else "-",
            format_duration(beat.backlog_age) if beat.backlog else "-",
            f"{format_bytes(rate)}/s" if (rate := rate_of(host)) else "-",
            beat.version,
        ]
    last = "-" if host.last_line is None else format_duration(host.last_line)
    heard = "never" if host.age is None else format_duration(host.age)
    partition = "-" if host.partition is None else str(host.partition)
    return [
        Text(printable(host.name)),
        Text(str(host.state), style=style),
        *(Text(printable(cell)) for cell in (heard, last, partition, *cells)),
        Text(printable(host.why), style=style if host.state in {*TROUBLED, HostState.UNKNOWN} else ""),
    ]


def _partition_cells(partition: Partition) -> list[Text]:
    status = partition.status
    lag = "no consumer" if status.lag is None else str(status.lag)
    return [
        Text(str(status.partition)),
        Text(lag, style="green" if status.lag == 0 else "yellow"),
        Text(f"{format_bytes(partition.rate)}/s" if partition.rate else "-"),
        Text("-" if partition.read_rate is None else f"{partition.read_rate:.1f} msg/s"),
        Text("-" if status.percent_full is None else f"{status.percent_full:.1f}%"),
        Text(str(partition.hosts)),
        Text(printable(partition.collector) or "-"),
        Text(printable(partition.why), style="yellow"),  # below the table each cause is one red line
    ]
