"""Push consumers for subscribers without JetStream, such as `nats sub`. Pure.

They read what line mode ships (`produce --encoding plain`): a message a line. While its target has no subscriber, a
push consumer pauses; it continues from there when one subscribes.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from partitioner.topology import DesiredStream
from shipper.errors import UsageError

TAIL = "TAIL"
ACK_POLICIES = ("none", "explicit")


def target_of(target: str, partition: int) -> str:
    """The subject on which the lines of a partition arrive."""
    return f"{target}.p{partition}"


def checked_target(target: str, *, prefix: str) -> str:
    """`target`, if lines may be sent there. Raises UsageError: it is no subject, or the streams would take them."""
    tokens = target.split(".")
    if not all(tokens) or any(char in target for char in " \t*>") or tokens[0].startswith("$"):
        raise UsageError(f"--push {target!r} is no subject", hint="write for example --push out.logs")
    if tokens[0] == prefix:
        raise UsageError(f"--push {target}: the streams take all of {prefix}.p<N>.>", hint="begin with another word")
    return target


def push_consumer(target: str, partition: int, *, ack: str) -> dict[str, Any]:
    """The push consumer of a partition's stream.

    `ack`: none, as who only subscribes acknowledges nothing; explicit for those that answer each message.
    """
    return {
        "durable_name": TAIL,
        "deliver_subject": target_of(target, partition),
        "deliver_policy": "all",
        "ack_policy": ack,
        "replay_policy": "instant",
    }


def with_push(wanted: Iterable[DesiredStream], target: str, *, ack: str) -> list[DesiredStream]:
    """`wanted` with a push consumer on each partition's stream."""
    return [
        each
        if each.partition is None
        else replace(each, consumers=(*each.consumers, push_consumer(target, each.partition, ack=ack)))
        for each in wanted
    ]
