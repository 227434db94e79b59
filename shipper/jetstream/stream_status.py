"""The fill level of each partition's stream and the lag of its collector; a collector's rights suffice."""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from shipper.errors import Poison, StreamMissing
from shipper.jetstream.admin import Admin
from shipper.jetstream.connection import Connection
from shipper.jetstream.direct_get import direct_batch
from shipper.jetstream.durability import Durability, ServerFacts, judge, replicas_in, server_facts
from shipper.settings import NatsSettings
from shipper.stream_source import origin_of
from shipper.subjects import (
    ADVISORIES,
    COLLECTOR,
    DEAD_LETTERS,
    parse_log_subject,
    partition_of_stream,
    partition_subjects,
)

MAX_PARALLEL_REQUESTS = 32
NANOSECONDS = 1_000_000_000
CROWDED_PERCENT = 80.0
"""Of a stream's max_bytes: from here on the status names the host that has the most messages in it. Up to 70 % the
collector keeps what is archived."""
SITE_AWAY_SECONDS = 60.0
"""Seconds without contact before a site counts as away: after a cut link the server may take 40 s to source again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """One partition at one moment; the consumer's numbers are None when there is no consumer."""

    partition: int
    stream: str
    messages: int
    bytes: int
    max_bytes: int  #: -1: no limit
    percent_full: float | None
    first_seq: int
    last_seq: int
    pending: int | None = None  #: messages that no collector got yet
    ack_pending: int | None = None  #: messages that a collector got and has not acknowledged
    lag: int | None = None  #: both together: what is not yet safe in the archive
    ack_floor: int | None = None  #: stream sequence up to which everything is acknowledged
    waiting: int | None = None  #: pull requests that wait; 0: no collector is connected
    top_host: str = ""  #: host with the most messages, of a stream that is filled to `CROWDED_PERCENT`
    top_host_percent: float | None = None  #: of the messages; the server does not count bytes by host
    site: str = ""  #: domain of the edge site that it is sourced from
    site_lag: int | None = None  #: messages that only the site had, at its last contact
    site_silent: float | None = None  #: seconds since the last contact; None: none since the server started
    replicas: int = 1

    @property
    def is_site_away(self) -> bool:
        """Whether there is a site without recent contact; a site sends every second."""
        return bool(self.site) and (self.site_silent is None or self.site_silent > SITE_AWAY_SECONDS)


@dataclass(frozen=True, slots=True)
class Status:
    """All partitions in their order, and the numbers of dead letters and advisories (None: no such stream)."""

    partitions: tuple[PartitionStatus, ...]
    dead_letters: int | None
    dead_letters_full: float | None = None  #: percent of the stream's limit; at 100 the oldest are dropped
    advisories: int | None = None  #: messages that the server gave up delivering


FACTS_SECONDS = 60.0
"""Seconds between two readings of the server's settings, which change only at its restart or reload."""


class DurabilityReader:
    """Reads what the server may lose; its settings at most once a minute."""

    def __init__(self, settings: NatsSettings) -> None:
        self._settings = settings
        self._read: tuple[Connection, float, ServerFacts] | None = None  # and until when they count

    async def read(self, connection: Connection, found: Status) -> Durability:
        """The durability of the partitions in `found`."""
        if self._read is None or self._read[0] is not connection or time.monotonic() >= self._read[1]:
            facts = await server_facts(connection, self._settings)
            self._read = connection, time.monotonic() + FACTS_SECONDS, facts
        return judge(self._read[2], [each.replicas for each in found.partitions])


def partition_status(partition: int, stream: Mapping[str, Any], consumer: Mapping[str, Any] | None) -> PartitionStatus:
    """The numbers of one partition from the server's raw answers."""
    state, max_bytes = stream["state"], stream["config"].get("max_bytes", -1)
    read = consumer and {
        "pending": consumer["num_pending"],
        "ack_pending": consumer["num_ack_pending"],
        "lag": consumer["num_pending"] + consumer["num_ack_pending"],
        "ack_floor": consumer["ack_floor"]["stream_seq"],
        "waiting": consumer["num_waiting"],
    }
    return PartitionStatus(
        partition=partition,
        stream=stream["config"]["name"],
        messages=state["messages"],
        bytes=state["bytes"],
        max_bytes=max_bytes,
        percent_full=_percent_full(stream),
        first_seq=state["first_seq"],
        last_seq=state["last_seq"],
        **(read or {}),
        **_site(stream),
        replicas=replicas_in(stream["config"]),
    )


def _site(stream: Mapping[str, Any]) -> dict[str, Any]:
    origin = origin_of(stream["config"])
    if origin is None:
        return {}
    source: Mapping[str, Any] = next(iter(stream.get("sources") or []), {})
    silent = int(source.get("active", -1))
    return {
        "site": origin.domain,
        "site_lag": int(source.get("lag", 0)) if silent >= 0 else None,
        "site_silent": round(silent / NANOSECONDS, 1) if silent >= 0 else None,
    }


async def status(admin: Admin, *, subject: str) -> Status:
    """The current state of the streams of `subject`."""
    names = await admin.names()
    numbers = {name: number for name in names if (number := partition_of_stream(subject, name)) is not None}
    partitions: list[PartitionStatus] = []
    there = list(numbers.items())
    for first in range(0, len(there), MAX_PARALLEL_REQUESTS):
        requests = (_one(admin, name, number, subject) for name, number in there[first : first + MAX_PARALLEL_REQUESTS])
        partitions += [each for each in await asyncio.gather(*requests) if each is not None]
    dead, given_up = [await admin.stream(name) if name in names else None for name in (DEAD_LETTERS, ADVISORIES)]
    return Status(
        tuple(sorted(partitions, key=lambda each: each.partition)),
        dead_letters=int(dead["state"]["messages"]) if dead else None,
        dead_letters_full=_percent_full(dead) if dead else None,
        advisories=int(given_up["state"]["messages"]) if given_up else None,
    )


async def _one(admin: Admin, name: str, number: int, subject: str) -> PartitionStatus | None:
    """A partition's status; None: its stream was deleted meanwhile."""
    info = await admin.stream(name)
    if info is None:
        return None
    found = partition_status(number, info, await admin.consumer(name, COLLECTOR))
    if (found.percent_full or 0.0) < CROWDED_PERCENT:
        return found
    try:
        counts = await admin.subjects(name, partition_subjects(subject, number))
        top, messages = max(counts.items(), key=lambda each: each[1], default=("", 0))
        host = parse_log_subject(top).host
        if not host.isprintable():  # any user chooses names, and no terminal may interpret them
            host = host.encode("unicode_escape", "surrogatepass").decode("ascii")
    except (Poison, StreamMissing):
        return found
    return replace(found, top_host=host, top_host_percent=round(100 * messages / sum(counts.values()), 1))


def _percent_full(stream: Mapping[str, Any]) -> float | None:
    held, most = stream["state"]["bytes"], stream["config"].get("max_bytes", -1)
    return round(100 * held / most, 1) if most > 0 else None


SAMPLE_BYTES = 64 * 1024 * 1024
"""Maximum bytes of payload that a sample reads."""
SAMPLE_SECONDS = 10.0
"""Maximum seconds for one request."""
SAMPLE_BATCH = {"batch": 256, "max_bytes": 2 * 1024 * 1024}
"""Of one request: what is in memory here."""


async def newest_sizes(connection: Connection, stream: str, *, last: int, messages: int) -> Counter[str]:
    """Bytes of payload by subject, of the `messages` newest ones up to sequence `last`; fewer, where some are gone.

    It reads whole messages. nats-server 2.15 ends with a panic when a consumer with `headers_only` comes to a message
    whose header block has one byte, and any client of a server without accounts may publish such a message.

    Raises StreamMissing, SessionLost.
    """
    sizes: Counter[str] = Counter()
    first = max(1, last - messages + 1)
    while first <= last and sizes.total() < SAMPLE_BYTES:
        batch = await direct_batch(connection, stream, {"seq": first, **SAMPLE_BATCH}, within=SAMPLE_SECONDS)
        if not batch:
            break
        for found in batch:
            if found.sequence <= last:
                sizes[found.subject] += len(found.payload)
        first = batch[-1].sequence + 1
    return sizes
