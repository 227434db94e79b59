"""What a message of the stream is: a block, one plain line, or the marker of a host that moved. Pure."""

from typing import NamedTuple

from shipper import codec, control
from shipper.errors import Poison
from shipper.model import Block, Delivery
from shipper.subjects import parse_log_subject

MAX_OFFSET = (1 << 53) - 1
"""Maximum offset in a source: 8 PiB. No file is longer, and every reader of JSON represents sums up to it exactly."""


class MoveMarker(NamedTuple):
    """The last message of a host in its old partition."""

    version: int  #: of the partition map by which the host moves


def host_of(delivery: Delivery) -> str:
    """The host that published a message. Raises Poison: the subject names none."""
    return parse_log_subject(delivery.subject).host


def parse(delivery: Delivery) -> Block | MoveMarker | None:
    """What a message contains; None: the payload is one plain line. Raises Poison: its headers are invalid."""
    if control.is_republished(delivery.headers):
        raise Poison("nats-server sent it as a copy of a stored message: no host published it on this subject")
    if (version := codec.leaves(delivery.headers)) is not None:
        return MoveMarker(version)
    if codec.is_plain(delivery.headers):
        return None
    block = codec.from_headers(delivery.headers)
    if block.span.end + block.gap > MAX_OFFSET:
        raise Poison(f"Log-Span {block.span} with Log-Gap {block.gap} leads beyond what any file can hold")
    if block.handoff is not None and block.handoff.offset > MAX_OFFSET:
        raise Poison(f"Log-Handoff {block.handoff.offset} is beyond what any file can hold")
    return block
