"""What the server may lose by its own report: its version, its sync setting, its servers and the replicas.

The sync setting is only on the monitoring port (`/varz`): no request over NATS shows it to an account that is not the
system's. Without that port it is "not known", never assumed.
"""

import asyncio
import enum
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from shipper.jetstream.connection import Connection, tls_context
from shipper.jetstream.server_version import LACKING, OLDEST, SYNCED, Version, version_in
from shipper.settings import NatsSettings
from shipper.units import counted, exact_seconds, format_duration, printable

ALWAYS = 0.0
"""Seconds of the sync interval of a server that syncs each message before it acknowledges it."""
MONITOR_SECONDS = 1.0
"""Maximum seconds for the whole answer of a monitoring port."""
MOST_MONITORS = 16
MOST_ANSWER_BYTES = 1024 * 1024
NANOSECONDS = 1_000_000_000
UNQUOTED_SECONDS = 86_400.0
"""From this sync interval on it was a mistake: without quotes the server reads `2m` as 2,000,000 seconds."""
UNQUOTED_HINT = '; a time needs quotes there ("2m"): without them 2m are 2,000,000 s'


class ServerReport(NamedTuple):
    """The settings of one server, from its monitoring port."""

    server_id: str
    version: Version | None
    sync_seconds: float | None  #: `ALWAYS`, or the interval; None: it has no JetStream
    servers: int | None  #: of its cluster, with JetStream


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """What is known of the connected server and of its cluster; None: not known."""

    version: Version | None = None  #: the oldest of those that were read
    cluster: str = ""  #: empty: a server of its own
    sync_seconds: float | None = None  #: the longest of those that were read; `ALWAYS`: each message
    servers: int | None = None
    servers_read: int = 0  #: those whose sync setting was read

    @property
    def is_sync_known(self) -> bool:
        """Whether the sync setting of every server was read, or one that is not `always`."""
        has_read_all = not self.cluster or self.servers_read == self.servers
        return self.sync_seconds is not None and (has_read_all or self.sync_seconds > ALWAYS)


class Verdict(enum.StrEnum):
    """The durability in one word, for scripts; the worst that is known counts."""

    TOO_OLD = "too_old"  #: the server is older than `OLDEST`
    LAZY = "lazy_sync"  #: it acknowledges messages before it syncs them
    UNSYNCED = "old_server"  #: it is older than `SYNCED`: `always` is not always
    ONE_REPLICA = "one_replica"  #: a stream has one replica, and there are servers for more
    UNKNOWN = "not_known"  #: its sync setting cannot be read
    DURABLE = "durable"  #: a power loss costs nothing


UPGRADE = f"upgrade nats-server to {SYNCED} or later"
HINTS = {
    Verdict.TOO_OLD: UPGRADE,
    Verdict.LAZY: "set `sync_interval: always` in the server's jetstream block; `fshipper server`: leave out --sync",
    Verdict.UNSYNCED: UPGRADE,
    Verdict.ONE_REPLICA: "give the streams more replicas: fshipper partition apply --replicas 3",
    Verdict.UNKNOWN: "set NATS_MONITOR to the monitoring port of each server, as http://HOST:8222",
    Verdict.DURABLE: "",
}
"""The next step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Durability:
    """What a power loss may cost, and a lost disk."""

    verdict: Verdict
    text: str  #: one line: the facts, and what they may cost
    hint: str  #: the next step; empty: none
    server_version: str | None
    sync: str | None  #: `always`, or the interval as `2m`
    sync_seconds: float | None  #: 0: always
    servers: int | None
    replicas: int | None  #: the fewest of any partition's stream

    @property
    def is_at_risk(self) -> bool:
        """Whether something should be changed."""
        return self.verdict not in {Verdict.DURABLE, Verdict.UNKNOWN}

    @property
    def warning(self) -> str:
        """The line with the next step; empty where nothing should be changed."""
        return f"{self.text} ({self.hint})" if self.is_at_risk else ""

    def to_json(self) -> dict[str, Any]:
        """All of it, for `--json`."""
        return asdict(self) | {"verdict": str(self.verdict)}


# -- what it means --------------------------------------------------------------------------------------------------


def judge(facts: ServerFacts, replicas_of_streams: Iterable[int]) -> Durability:
    """The durability of streams with so many replicas (none: not known) on such a server."""
    replicas = min(replicas_of_streams, default=None)
    servers = facts.servers if facts.cluster else 1
    has_more = replicas == 1 and (servers is None or servers > 1)
    verdict = _verdict(facts, has_more=has_more)
    version = str(facts.version) if facts.version else None
    sync = None if facts.sync_seconds is None else "always" if not facts.sync_seconds else _interval(facts.sync_seconds)
    known = [f"nats-server {version or '(version not known)'}", f"sync {sync or 'not known'}"]
    if sync and not facts.is_sync_known:
        known[-1] += f" on {facts.servers_read} of {servers or 'several'}"
    if servers is not None:
        known.append(counted(servers, "server"))
    elif facts.cluster:
        known.append(f"cluster {printable(facts.cluster)}")
    if replicas is not None:
        known.append(counted(replicas, "replica"))
    costs = [_power_loss(facts, replicas or 1)]
    if replicas is not None:
        costs.append(_lost_disk(replicas, has_more=has_more))
    if verdict is Verdict.TOO_OLD:
        costs = [f"it is older than {OLDEST}, and {LACKING}"]
    return Durability(
        verdict=verdict,
        text=f"{', '.join(known)}: {', '.join(costs)}",
        hint=HINTS[verdict] + (UNQUOTED_HINT if _is_mistake(facts.sync_seconds or ALWAYS) else ""),
        server_version=version,
        sync=sync,
        sync_seconds=facts.sync_seconds,
        servers=servers,
        replicas=replicas,
    )


def _verdict(facts: ServerFacts, *, has_more: bool) -> Verdict:
    version, sync = facts.version, facts.sync_seconds
    holds = {
        Verdict.TOO_OLD: version is not None and version < OLDEST,
        Verdict.LAZY: bool(sync),
        Verdict.UNSYNCED: sync == ALWAYS and version is not None and version < SYNCED,
        Verdict.ONE_REPLICA: has_more,
        Verdict.UNKNOWN: not facts.is_sync_known or version is None,
    }
    return next((verdict for verdict, true in holds.items() if true), Verdict.DURABLE)


def _power_loss(facts: ServerFacts, replicas: int) -> str:
    if not facts.is_sync_known or facts.version is None:
        return "what a power loss may cost is not known"
    if sync := facts.sync_seconds:
        where = "of several servers together " if replicas > 1 else ""
        return f"a power loss {where}may cost up to {format_duration(sync)} of acknowledged lines"
    if facts.version < SYNCED:
        return f"a power loss may cost acknowledged lines, because before {SYNCED} not every write is synced"
    return "a power loss costs no acknowledged line"


def _lost_disk(replicas: int, *, has_more: bool) -> str:
    if replicas > 1:
        return "a lost disk costs nothing"
    return f"a lost disk costs what is not archived{' of the partitions on it' if has_more else ''}"


def _is_mistake(sync_seconds: float) -> bool:
    return sync_seconds >= UNQUOTED_SECONDS


def _interval(seconds: float) -> str:
    return format_duration(seconds) if _is_mistake(seconds) else exact_seconds(seconds)


# -- how it is read -------------------------------------------------------------------------------------------------


def replicas_in(config: Mapping[str, Any]) -> int:
    """The replicas of the stream with this configuration."""
    return int(config.get("num_replicas") or 1)


async def server_facts(connection: Connection, settings: NatsSettings) -> ServerFacts:
    """What the connected server reports, and the monitoring ports that can be reached. Never fails, takes a second."""
    info = connection.client.server_info
    cluster = str(info.get("cluster") or "")
    urls = settings.monitors[:MOST_MONITORS]
    answers = await asyncio.gather(*(_varz(url, settings) for url in urls))
    reports = [_report(each) for each in answers if each is not None and _is_of(each, info, cluster)]
    found = {each.server_id: each for each in reports}.values()  # a server may have answered at two addresses
    versions = [version for version in (version_in(info.get("version")), *(each.version for each in found)) if version]
    return ServerFacts(
        version=min(versions, default=None),
        cluster=cluster,
        sync_seconds=max((each.sync_seconds for each in found if each.sync_seconds is not None), default=None),
        servers=max((each.servers for each in found if each.servers), default=None),
        servers_read=sum(each.sync_seconds is not None for each in found),
    )


def _is_of(varz: Mapping[str, Any], info: Mapping[str, Any], cluster: str) -> bool:
    """Whether it is the connected server, or one of its cluster: another one may listen there."""
    if varz.get("server_id") == info.get("server_id"):
        return True
    others = varz.get("cluster")
    return bool(cluster) and isinstance(others, dict) and others.get("name") == cluster


def _report(varz: Mapping[str, Any]) -> ServerReport:
    jetstream = _dict(varz.get("jetstream"))
    config = _dict(jetstream.get("config"))
    interval = config.get("sync_interval")
    sync = interval / NANOSECONDS if isinstance(interval, int) and interval > 0 else None
    size = _dict(jetstream.get("meta")).get("cluster_size")
    return ServerReport(
        server_id=str(varz.get("server_id")),
        version=version_in(varz.get("version")),
        sync_seconds=ALWAYS if config.get("sync_always") is True else sync,
        servers=size if isinstance(size, int) and size > 0 else None,
    )


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


async def _varz(url: str, settings: NatsSettings) -> dict[str, Any] | None:
    """What the monitoring port at `url` answers in `MONITOR_SECONDS`; None: nothing that can be used."""
    parts = urlsplit(url)
    host, path = parts.hostname or "", parts.path.rstrip("/")
    secured = tls_context(settings) if parts.scheme == "https" else None
    writer = None
    try:
        async with asyncio.timeout(MONITOR_SECONDS):
            reader, writer = await asyncio.open_connection(host, parts.port, ssl=secured, limit=MOST_ANSWER_BYTES)
            writer.write(f"GET {path}/varz HTTP/1.0\r\nHost: {parts.netloc}\r\n\r\n".encode())
            await reader.readuntil(b"\r\n\r\n")
            content = json.loads(await _rest(reader))
    except (OSError, EOFError, ValueError, RecursionError, asyncio.LimitOverrunError):
        return None
    finally:
        if writer is not None:
            writer.transport.abort()
    return content if isinstance(content, dict) else None


async def _rest(reader: asyncio.StreamReader) -> bytes:
    """What follows until the end. Raises ValueError: it is too much."""
    received = bytearray()
    while more := await reader.read(65536):
        received += more
        if len(received) > MOST_ANSWER_BYTES:
            raise ValueError
    return bytes(received)
