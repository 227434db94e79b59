"""The fleet as JSON: what `fshipper status --json` prints and the status page draws."""

import datetime as dt
from dataclasses import asdict
from typing import Any

from consumer.fleet.fleet import Fleet, Partition, rate_of
from consumer.fleet.table import Host, counts

VERSION = 1
"""Of the JSON; a field is added under the same number, and changed or removed under another."""


def fleet_json(fleet: Fleet) -> dict[str, Any]:
    """All of it; sizes in bytes, durations in seconds, `at` in seconds since 1970, `time` the same in ISO 8601."""
    return {
        "v": VERSION,
        "at": round(fleet.at, 3),
        "time": f"{dt.datetime.fromtimestamp(fleet.at, dt.UTC):%Y-%m-%dT%H:%M:%SZ}",
        "well": fleet.is_well,
        "counts": {str(state): count for state, count in counts(fleet.hosts).items()},
        "rate_bytes": round(fleet.rate),
        "lag": fleet.lag,
        "hosts": [host_json(host) for host in fleet.hosts],
        "partitions": [partition_json(partition) for partition in fleet.partitions],
        "dead_letters": fleet.dead_letters,
        "dead_letters_percent_full": fleet.dead_letters_full,
        "advisories": fleet.advisories,
        "doubled_bytes": fleet.doubled,
        "notes": list(fleet.notes),
    }


def host_json(host: Host) -> dict[str, Any]:
    """One host; what only a heartbeat tells is null where there was none."""
    beat = host.beat
    return {
        "host": host.name,
        "state": str(host.state),
        "why": host.why,
        "heard_seconds_ago": None if host.age is None else round(host.age, 1),
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
    """`value` with every text such that no terminal obeys it, and none looks like another: names are anybody's."""
    if isinstance(value, str):
        return value if value.isprintable() else "".join(map(_shown, value))
    if isinstance(value, list):
        return [printable(each) for each in value]
    if isinstance(value, dict):
        return {key: printable(each) for key, each in value.items()}
    return value


def _shown(char: str) -> str:
    return char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode("ascii")
