"""The least rights that each role needs, as NATS subjects. What is not here is refused by the server."""

import enum
import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

from partitioner.options import TAIL
from shipper.subjects import (
    ADVISORIES,
    BUCKET_STREAM,
    COLLECTOR,
    DEAD_LETTERS,
    MONITOR_API,
    MOVER,
    USER_INFO,
    beat_subject,
    beats_stream,
    bucket_subject,
    control_ask,
    control_down,
    control_up,
    map_key,
)


class AccountLimits(NamedTuple):
    """What one account may use of the server at any time, so that one key takes no memory or descriptors of others.

    None: only the server's own limit.
    """

    connections: int
    subscriptions: int | None  #: of one connection
    payload_bytes: int | None  #: of one message, with its headers
    links: int = 0  #: leaf nodes


ANSWERS = 16
"""Replies that a role may send to one request that it receives."""
ANSWER_SECONDS = 60
_MONITOR_VERBS = (
    "INFO",
    "STREAM.NAMES",
    "STREAM.LIST",
    "STREAM.INFO.*",
    "CONSUMER.INFO.*.*",
    "CONSUMER.NAMES.*",
    "CONSUMER.LIST.*",
)


class Role(enum.StrEnum):
    """The role of a user."""

    HOST = "host"
    COLLECTOR = "collector"
    PARTITIONER = "partitioner"
    READER = "reader"
    EDGE = "edge"
    MONITOR = "monitor"


LIMITS = {
    # A producer has one connection with 3 subscriptions. The others are for `--once` and `validate --connect` next to
    # it, and for connections that broke and that the server has not noticed yet. Answers that a client does not read
    # wait in the server, up to `max_pending` for each connection.
    Role.HOST: AccountLimits(connections=4, subscriptions=16, payload_bytes=1024 * 1024),
    # A site subscribes for each of its hosts; the streams that are sourced from it limit the size of messages. Its
    # servers may be several, and each may have an old link that is not noticed yet.
    Role.EDGE: AccountLimits(connections=8, subscriptions=None, payload_bytes=None, links=8),
    Role.MONITOR: AccountLimits(connections=64, subscriptions=64, payload_bytes=1024 * 1024),  # all monitors together
}
"""Limits of the accounts that belong to a host, a site, or the monitors. The programs of the centre have none.

The payload is `max_msg_size` of the streams in deploy/nats/stream.json: they take no larger message.
"""

RESERVED = frozenset({MOVER, "fshipper", *(role.value for role in Role)})
"""Names that no host may have: programs use them on the bus."""


class HostReads(enum.StrEnum):
    """What a host with an account of its own may read of what is stored of it."""

    ALL = "all"  #: its newest message of lines, too, as producers of older versions must
    HEARTBEATS = "heartbeats"  #: one request of 80 bytes never makes the server copy a block of lines


class Rights(NamedTuple):
    """Subjects, which may hold wildcards, that a user may publish to (but `never`) and subscribe to."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    never: tuple[str, ...] = ()
    deaf: tuple[str, ...] = ()  #: subjects that the user may not subscribe to, even if `subscribe` includes them


def rights(role: Role, name: str, *, prefix: str) -> Rights:
    """What `name` may do as `role` where lines travel on `<prefix>.p<N>.<host>`.

    A host's partition is one token (*), so that a move to another partition needs no new rights.
    """
    match role:
        case Role.HOST:
            return _host(name, prefix)
        case Role.COLLECTOR:
            return _collector(prefix)
        case Role.PARTITIONER:
            return _partitioner(prefix)
        case Role.READER:
            return _reader(prefix)
        case Role.EDGE:
            return _edge(prefix)
        case Role.MONITOR:
            return _monitor()


def own_account_rights(name: str, *, prefix: str, reads: HostReads) -> Rights:
    """The rights of a host in an account of its own: the usual ones, and the request for its account's name."""
    host = _host(name, prefix, reads)
    return host._replace(publish=(*host.publish, USER_INFO))


def _host(name: str, prefix: str, reads: HostReads = HostReads.ALL) -> Rights:
    """Its own lines, the newest of them, control messages with its collector, and the map; nothing of other hosts."""
    return Rights(
        publish=(
            f"{prefix}.*.{name}",
            control_up(name),
            f"$JS.API.DIRECT.GET.*.{prefix}.*.{name}"
            if reads is HostReads.ALL
            else f"$JS.API.DIRECT.GET.{beats_stream(prefix)}.{beat_subject(prefix, name)}",
            f"$JS.API.DIRECT.GET.{BUCKET_STREAM}.{bucket_subject(map_key(prefix))}",
        ),
        subscribe=(f"_INBOX_{name}.>", control_down(name), control_ask(name)),
    )


def _collector(prefix: str) -> Rights:
    """Reads every stream by its own consumer, purges what is archived; publishes no line of any host."""
    api = "$JS.API"
    return Rights(
        publish=(
            f"{api}.STREAM.NAMES",
            f"{api}.STREAM.INFO.*",
            f"{api}.STREAM.PURGE.*",
            f"{api}.STREAM.CREATE.{BUCKET_STREAM}",
            f"{api}.STREAM.CREATE.{beats_stream(prefix)}",
            f"{api}.CONSUMER.INFO.*.{COLLECTOR}",
            f"{api}.CONSUMER.MSG.NEXT.*.{COLLECTOR}",
            f"{api}.CONSUMER.RESET.*.{COLLECTOR}",
            f"{api}.DIRECT.GET.>",
            "$JS.*.API.STREAM.INFO.*",  # of edge sites, over their leaf links
            "$JS.*.API.STREAM.PURGE.*",
            "$JS.*.API.DIRECT.GET.*",
            f"$JS.ACK.*.{COLLECTOR}.>",
            f"$JS.ACK.*.*.*.{COLLECTOR}.>",  # with domain and account, as a server of a cluster may write it
            "$KV.fshipper.>",
            "dlq.>",
            "ctl.down.>",
        ),
        subscribe=("_INBOX_collector.>", "ctl.up.>"),
    )


def _partitioner(prefix: str) -> Rights:
    """Creates, changes and removes streams; `dlq requeue` sends a repaired line where it belongs."""
    return Rights(
        publish=(
            "$JS.API.>",
            "$JS.SNAPSHOT.>",
            "$KV.fshipper.>",
            "dlq.>",
            f"{prefix}.>",
            "ctl.down.>",
            control_up(MOVER),
        ),
        subscribe=("_INBOX_partitioner.>", "$JS.EVENT.ADVISORY.>", "ctl.up.>"),
    )


def _reader(prefix: str) -> Rights:
    """Reads lines by consumers of its own, and states; stores and removes no line, and touches no other consumer.

    A wildcard is a whole token, so the right to make consumers of any name on any stream is the rule. The consumers of
    the collector and the streams without lines are the exception.
    """
    api = "$JS.API"
    closed = (BUCKET_STREAM, beats_stream(prefix), DEAD_LETTERS, ADVISORIES)
    consumers = [f"{api}.CONSUMER.{verb}" for verb in ("CREATE", "DELETE", "MSG.NEXT")]
    return Rights(
        publish=(
            f"{api}.STREAM.NAMES",
            f"{api}.STREAM.INFO.*",
            f"{api}.CONSUMER.INFO.>",
            *(f"{verb}.*.*" for verb in consumers),
            control_ask(">"),  # so that hosts send early what is followed
        ),
        subscribe=("_INBOX_reader.>",),
        never=(
            *(f"{verb}.*.{name}" for verb in consumers for name in (COLLECTOR, TAIL)),
            *(f"{verb}.{stream}.*" for verb in consumers for stream in closed),
        ),
    )


def _edge(prefix: str) -> Rights:
    """The server of an edge site in the account of the streams, as files before version 2 of the roster have it.

    It publishes heartbeats, questions, answers and what is sourced, and no line of any host. It may subscribe to
    everything in that account: `fshipper hosts migrate` gives each site an account of its own.
    """
    return Rights(
        publish=(
            f"{prefix}.beat.>",
            control_up(">"),
            "_INBOX_collector.>",
            "_INBOX_partitioner.>",
            "$JS.S.*",  # where a server lets sources be delivered
            "$JSC.R.*",  # and the reply subject of its requests for them
        ),
        subscribe=(">",),
    )


def _monitor() -> Rights:
    """Reads states, heartbeats, leases, dead letters and the offsets of producers. It can change nothing.

    It has no right to create consumers: a consumer delivers to any subject of the account of the streams.
    """
    return Rights(
        publish=(*(f"{MONITOR_API}.{verb}" for verb in _MONITOR_VERBS), "$JS.API.DIRECT.GET.*", control_ask(">")),
        subscribe=("_INBOX_monitor.>",),
    )


# -- accounts: what passes from one to another --------------------------------------------------------------------


class AccountExport(NamedTuple):
    """One export of an account, which another account imports."""

    subject: str
    kind: str = "service"  #: or "stream"
    many: bool = False  #: a question has several answers
    local: str = ""  #: its name in the account that imports it, if it is another; `$1` is the first wildcard


class AccountExports(NamedTuple):
    """What passes between the account of the streams and another one."""

    to_streams: tuple[AccountExport, ...]  #: services of the account of the streams that the other one imports
    from_other: tuple[AccountExport, ...]  #: what the account of the streams imports from the other one


def streams_exports(prefix: str) -> tuple[AccountExport, ...]:
    """What the account of the streams offers to all accounts that `fshipper hosts` writes."""
    return (
        AccountExport(f"{prefix}.>"),
        AccountExport(control_up(">")),
        AccountExport("$JS.API.DIRECT.GET.*.>"),  # one message of one subject: hosts
        *(AccountExport(f"$JS.API.{verb}") for verb in _MONITOR_VERBS),
        AccountExport("$JS.API.DIRECT.GET.*", many=True),  # any message, and batches: the monitor
    )


def host_exports(name: str, *, prefix: str, reads: HostReads) -> AccountExports:
    """A host sends exactly the requests that it has the right to, and receives those addressed to it."""
    return AccountExports(
        tuple(AccountExport(subject) for subject in _host(name, prefix, reads).publish),
        (AccountExport(control_down(name)), AccountExport(control_ask(name))),
    )


def spare_exports(prefix: str) -> AccountExports:
    """The account of a host whose name is not known yet; the rights of its user hold it to its own subjects."""
    return AccountExports(
        (AccountExport(f"{prefix}.>"), AccountExport(control_up(">")), AccountExport("$JS.API.DIRECT.GET.*.>")),
        (AccountExport(control_down(">")), AccountExport(control_ask(">"))),
    )


def monitor_exports() -> AccountExports:
    """The monitor sends requests and receives none. Requests to producers go to their accounts directly."""
    verbs = tuple(AccountExport(f"$JS.API.{verb}", local=f"{MONITOR_API}.{_numbered(verb)}") for verb in _MONITOR_VERBS)
    return AccountExports((*verbs, AccountExport("$JS.API.DIRECT.GET.*")), ())


def _numbered(subject: str) -> str:
    """`subject` with `$1`, `$2` ... for its wildcards."""
    numbers = itertools.count(1)
    return re.sub(r"\*", lambda _: f"${next(numbers)}", subject)


def edge_exports(domain: str, hosts: Sequence[str], *, prefix: str) -> AccountExports:
    """A site's server sends heartbeats and questions of its hosts, and is sourced from; `hosts`: names or patterns."""
    names = tuple(hosts) or (">",)
    return AccountExports(
        tuple(AccountExport(subject) for name in names for subject in (beat_subject(prefix, name), control_up(name))),
        (
            *(AccountExport(subject) for name in names for subject in (control_down(name), control_ask(name))),
            AccountExport(f"$JS.{domain}.API.>"),
            AccountExport("$JS.FC.>"),  # flow control of what is sourced
            AccountExport("$JS.S.*", kind="stream"),  # and where it is delivered
        ),
    )


def edge_rights(domain: str, hosts: Sequence[str], others: Sequence[str], *, prefix: str) -> Rights:
    """What a site's server may do in its own account. `others`: hosts that are not its own, where it named none."""
    names = tuple(hosts) or (">",)
    beats = [beat_subject(prefix, name) for name in names]
    inboxes = [_inbox(name) for name in hosts] if hosts else ["*.>"]
    return Rights(
        publish=(*beats, *map(control_up, names), "$JS.S.*", "_R_.>"),
        subscribe=(
            "_R_.>",
            *inboxes,
            *map(control_down, names),
            *map(control_ask, names),
            f"$JS.{domain}.API.>",
            "$JS.FC.>",
        ),
        never=tuple(subject for host in others for subject in (beat_subject(prefix, host), control_up(host))),
        deaf=tuple(subject for host in others for subject in (control_down(host), control_ask(host))),
    )


def _inbox(host: str) -> str:
    """Where answers to a host arrive; a wildcard is a whole token, so `*.ship.example.net` is one of any prefix."""
    return f"{host}.>" if host.startswith("*") else f"_INBOX_{host}.>"
