"""What must be done so that the streams are as they should be: wanted minus actual, as values. Pure.

Which changes of a stream would destroy lines, and which ones the server refuses. Pure.
"""

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from partitioner.diff import NANOSECONDS, Change, Json, differences, merged
from partitioner.topology import DesiredStream
from shipper.stream_source import origin_of
from shipper.subjects import COLLECTOR, partition_of_stream
from shipper.units import counted, format_bytes

SAFE_FOR_LINES: Mapping[str, tuple[Any, str]] = {
    "discard": ("new", "drops the oldest lines when the stream is full, read or not"),
    "retention": ("limits", "drops lines when they are acknowledged, or when no consumer is there"),
    "storage": ("file", "keeps the lines in memory only"),
    "persist_mode": ("default", "acknowledges lines before they are written: kill -9 of the server loses them"),
    "no_ack": (False, "never acknowledges a line to its producer"),
    "sealed": (False, "takes no more lines, and cannot be undone"),
}
"""For a partition's stream: the only value of a field that keeps every line, and what the others do."""

NEVER_UPDATED = {
    "stream": {"name", "storage", "persist_mode"},
    "consumer": {"ack_policy", "deliver_policy", "replay_policy", "max_waiting", "mem_storage"}
    | {"opt_start_seq", "opt_start_time"},
}


def unsafe_settings(changes: Sequence[Change]) -> Iterator[str]:
    """Why these settings would lose lines from a partition's stream from now on."""
    for change in changes:
        safe, effect = SAFE_FOR_LINES.get(change.field, (None, ""))
        if effect and (change.after or safe) != safe:
            yield f"{change.field} {change.after!r} {effect}"


def losses(changes: Sequence[Change], info: Mapping[str, Any]) -> Iterator[str]:
    """Why these changes would lose messages that the stream of `info` holds, or cut producers off from it."""
    state = info["state"]
    for change in changes:
        match change.field:
            case "max_bytes" if 0 < change.after < state["bytes"]:
                yield f"max_bytes {format_bytes(change.after)} is less than the {format_bytes(state['bytes'])} stored"
            case "max_msgs" if 0 < change.after < state["messages"]:
                yield f"max_msgs {change.after} is less than the {state['messages']} stored"
            case "max_msgs_per_subject" if change.after > 0 and state["messages"]:
                yield f"max_msgs_per_subject {change.after} may be less than what is stored for a host"
            case "max_age" if change.after > 0 and (age := _oldest_seconds(info)) > change.after / NANOSECONDS:
                yield f"max_age {change.after / NANOSECONDS:.0f} s would drop messages that are {age:.0f} s old"
            case "subjects":
                gone = sorted(set(change.before or ()) - set(change.after or ()))
                if gone:
                    yield f"producers that publish on {', '.join(gone)} would find no stream"


def impossible(changes: Sequence[Change], kind: str) -> Iterator[str]:
    """Why the server would refuse these changes of a stream or consumer: `kind`."""
    for change in changes:
        if change.field in NEVER_UPDATED[kind]:
            yield f"the server cannot change {change.field} ({change.before} to {change.after}) of an existing {kind}"
        elif change.field == "retention" and "workqueue" in {change.before, change.after}:
            yield f"the server cannot change retention from {change.before} to {change.after}"


def _oldest_seconds(info: Mapping[str, Any]) -> float:
    """Age of the oldest message at the moment of `info`, by the server's own clock; 0 when there is none."""
    if not info["state"]["messages"]:
        return 0.0
    seen = datetime.fromisoformat(info["ts"])
    return (seen - datetime.fromisoformat(info["state"]["first_ts"])).total_seconds()


ALLOW_DATA_LOSS = "--allow-data-loss"
RECREATE_CONSUMERS = "--recreate-consumers"
PRUNE = "--prune"


class Verb(enum.Enum):
    """What to do with a stream or a consumer."""

    CREATE = "create"
    UPDATE = "update"
    REPLACE = "replace"  #: delete and create again
    DELETE = "delete"
    KEEP = "keep"
    REFUSE = "refuse"  #: not done, because of the reason; the flag, if any, allows it


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One step of a plan, about `consumer` or the `entry` of `stream`, or about the stream itself."""

    verb: Verb
    stream: str
    consumer: str = ""
    entry: str = ""  #: key in the bucket that `stream` holds
    config: Mapping[str, Any] = field(default_factory=dict)  #: what to send
    changes: tuple[Change, ...] = ()
    reason: str = ""
    flag: str = ""

    @property
    def title(self) -> str:
        """What it is about: `stream LOGS_0`, `consumer collector on LOGS_0`, `partition map map.logs`."""
        if self.entry:
            return f"partition map {self.entry}"
        return f"consumer {self.consumer} on {self.stream}" if self.consumer else f"stream {self.stream}"

    @property
    def changing(self) -> bool:
        """Whether carrying it out changes anything on the server."""
        return self.verb not in {Verb.KEEP, Verb.REFUSE}

    @property
    def keeps(self) -> bool:
        """Whether the stream or consumer is as it should be."""
        return self.verb is Verb.KEEP

    @property
    def only_adds(self) -> bool:
        """Whether it touches nothing that exists."""
        return self.verb in {Verb.CREATE, Verb.KEEP}


@dataclass(frozen=True, slots=True)
class ActualStream:
    """A stream as the server describes it, and its consumers by name."""

    stream: Json
    consumers: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedChanges:
    """The changes that flags of the command allow."""

    data_loss: bool = False
    recreate_consumers: bool = False
    prune: bool = False


def plan(
    wanted: Sequence[DesiredStream],
    actual: Mapping[str, ActualStream],
    *,
    subject: str,
    allowed: AllowedChanges | None = None,
) -> list[Action]:
    """The actions in the order of their execution; those on surplus partitions come last.

    Streams of other applications are ignored.
    """
    allowed = allowed or AllowedChanges()
    actions: list[Action] = []
    for each in wanted:
        found = actual.get(each.name)
        actions.append(_create(each, allowed) if found is None else _update(each, found.stream, allowed))
        if found is None and actions[-1].verb is Verb.REFUSE:
            continue  # there is no stream for the consumers
        for config in each.consumers:
            known = found.consumers.get(str(config["durable_name"])) if found else None
            actions.append(_consumer(each.name, config, known, allowed))
    return [*actions, *_surplus(wanted, actual, subject, allowed)]


def _create(each: DesiredStream, allowed: AllowedChanges) -> Action:
    risks = list(unsafe_settings(differences(each.stream, {}))) if each.partition is not None else []
    if risks and not allowed.data_loss:
        return _refused(each.name, (), "; ".join(risks), ALLOW_DATA_LOSS)
    return Action(verb=Verb.CREATE, stream=each.name, config=each.stream)


def _update(each: DesiredStream, info: Json, allowed: AllowedChanges) -> Action:
    stays = each.partition is None and _stays_on_one_server(each.stream, info["config"])
    wanted = {**each.stream, "num_replicas": 1} if stays else each.stream
    changes = differences(wanted, info["config"])
    if not changes:
        return Action(verb=Verb.KEEP, stream=each.name, reason=STAYS if stays else "")
    refused = list(impossible(changes, "stream"))
    origin = origin_of(info["config"])
    if origin and each.partition is not None and origin_of(each.stream) is None:
        refused.append(f"it is sourced from {origin.domain}; hosts that ship to this server need another partition")
    if refused:
        return _refused(each.name, changes, "; ".join(refused))
    risks = [*losses(changes, info), *(unsafe_settings(changes) if each.partition is not None else ())]
    if risks and not allowed.data_loss:
        return _refused(each.name, changes, "; ".join(risks), ALLOW_DATA_LOSS)
    return Action(verb=Verb.UPDATE, stream=each.name, changes=changes, config=merged(wanted, info["config"]))


STAYS = "it keeps 1 replica: the server replicates no stream that was created with persist_mode async"


def _stays_on_one_server(wanted: Mapping[str, Any], actual: Mapping[str, Any]) -> bool:
    """Whether the server would refuse more replicas: it replicates no asynchronous stream, and changes none."""
    return actual.get("persist_mode") == "async" and int(wanted.get("num_replicas") or 1) > 1


def _consumer(stream: str, config: Mapping[str, Any], info: Json | None, allowed: AllowedChanges) -> Action:
    name = str(config["durable_name"])
    if info is None:
        return Action(verb=Verb.CREATE, stream=stream, consumer=name, config=config)
    changes = differences(config, info["config"])
    if not changes:
        return Action(verb=Verb.KEEP, stream=stream, consumer=name)
    refused = "; ".join(impossible(changes, "consumer"))
    if refused and not allowed.recreate_consumers:
        reason = f"{refused} (creating it again loses no line: the collector's journal knows where to go on)"
        return _refused(stream, changes, reason, RECREATE_CONSUMERS, consumer=name)
    verb = Verb.REPLACE if refused else Verb.UPDATE
    return Action(verb=verb, stream=stream, consumer=name, changes=changes, config=merged(config, info["config"]))


def _surplus(
    wanted: Sequence[DesiredStream], actual: Mapping[str, ActualStream], subject: str, allowed: AllowedChanges
) -> Iterator[Action]:
    """Streams of partitions >= N. They stay without --prune: a forgotten --partitions deletes nothing."""
    names = {each.name for each in wanted}
    numbers = {name: partition_of_stream(subject, name) for name in actual if name not in names}
    ours = sorted((number, name) for name, number in numbers.items() if number is not None)
    for number, name in ours:
        messages = actual[name].stream["state"]["messages"]
        if not allowed.prune:
            origin = origin_of(actual[name].stream["config"])
            asked = f", and no --edge names {origin.domain}" if origin else ""
            reason = f"partition {number} is not wanted any more{asked}"
            yield Action(verb=Verb.KEEP, stream=name, reason=reason, flag=PRUNE)
        elif messages and not allowed.data_loss:
            known = actual[name].consumers.get(COLLECTOR)
            unread = known["num_pending"] + known["num_ack_pending"] if known else f"(no {COLLECTOR}) all"
            reason = f"it holds {counted(messages, 'message')}, {unread} not yet acknowledged by a collector"
            yield _refused(name, (), reason, ALLOW_DATA_LOSS)
        else:
            yield Action(verb=Verb.DELETE, stream=name)


def _refused(stream: str, changes: tuple[Change, ...], reason: str, flag: str = "", *, consumer: str = "") -> Action:
    return Action(verb=Verb.REFUSE, stream=stream, consumer=consumer, changes=changes, reason=reason, flag=flag)
