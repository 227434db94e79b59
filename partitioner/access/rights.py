"""The least rights that each role needs, as NATS subjects. What is not here is refused by the server."""

import enum
from typing import NamedTuple

from partitioner.push import TAIL
from shipper.bucket import BUCKET_STREAM, map_key, to_subject
from shipper.subjects import COLLECTOR, MOVER, beats_stream, control_down, control_up

ANSWERS = 16
"""Answers that a role may send to one question that it was asked."""
ANSWER_SECONDS = 60


class Role(enum.StrEnum):
    """What somebody is on the bus."""

    HOST = "host"
    COLLECTOR = "collector"
    PARTITIONER = "partitioner"
    READER = "reader"
    EDGE = "edge"


class Rights(NamedTuple):
    """Subjects, which may hold wildcards, that a user may publish to (but `never`) and subscribe to."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    never: tuple[str, ...] = ()


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
            return _reader()
        case Role.EDGE:
            return _edge(prefix)


def _host(name: str, prefix: str) -> Rights:
    """Its own lines, the last of them, the word with its collector, and the map. Nobody else's, and no streams."""
    return Rights(
        publish=(
            f"{prefix}.*.{name}",
            control_up(name),
            f"$JS.API.DIRECT.GET.*.{prefix}.*.{name}",
            f"$JS.API.DIRECT.GET.{BUCKET_STREAM}.{to_subject(map_key(prefix))}",
        ),
        subscribe=(f"_INBOX_{name}.>", control_down(name)),
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


def _reader() -> Rights:
    """Reads lines by consumers of its own, and states; stores and removes no line, and touches no other consumer.

    A wildcard is a whole token, so the right to make consumers of any name is the rule, and ours are the exception.
    """
    api = "$JS.API"
    consumers = [f"{api}.CONSUMER.{verb}.*" for verb in ("CREATE", "DELETE", "MSG.NEXT")]
    return Rights(
        publish=(
            f"{api}.STREAM.NAMES",
            f"{api}.STREAM.INFO.*",
            f"{api}.CONSUMER.INFO.>",
            *(f"{verb}.>" for verb in consumers),
        ),
        subscribe=("_INBOX_reader.>",),
        never=tuple(f"{verb}.{name}{rest}" for verb in consumers for name in (COLLECTOR, TAIL) for rest in ("", ".>")),
    )


def _edge(prefix: str) -> Rights:
    """The server of an edge site, as a leaf node: its hosts' heartbeats and questions, answers, and what is sourced.

    No line of any host, so that nothing is stored in the centre twice, or under another site's hosts. It may hear
    what it likes: the inboxes of its hosts have no name in common.
    """
    return Rights(
        publish=(
            f"{prefix}.beat.>",
            control_up(">"),
            "_INBOX_collector.>",
            "_INBOX_partitioner.>",
            "$JS.S.*",  # where a server lets sources be delivered
            "$JSC.R.*",  # and where it wants the answer when it asks for them
        ),
        subscribe=(">",),
    )
