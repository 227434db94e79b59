"""What the server says when it gives up delivering a message to a collector, which it never should. Pure."""

import json
from dataclasses import dataclass
from typing import Any

from shipper.model import Delivery

KINDS = {
    "io.nats.jetstream.advisory.v1.max_deliver": "delivered too often",
    "io.nats.jetstream.advisory.v1.terminated": "terminated by a client",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Advisory:
    """The server will not hand out message `sequence` of `stream` again."""

    time_ns: int
    stream: str
    sequence: int
    consumer: str
    deliveries: int
    why: str


def read(message: Delivery) -> Advisory | None:
    """The advisory in a message; None where it is none, or cannot be read."""
    try:
        said = json.loads(message.payload)
        reason = f": {said['reason']}" if said.get("reason") else ""
        return Advisory(
            time_ns=message.time_ns,
            stream=str(said["stream"]),
            sequence=int(said["stream_seq"]),
            consumer=str(said["consumer"]),
            deliveries=int(said.get("deliveries", 0)),
            why=KINDS[said["type"]] + reason,
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def to_json(advisory: Advisory) -> dict[str, Any]:
    """An advisory for programs."""
    return {
        "kind": "advisory",
        "time_ns": advisory.time_ns,
        "stream": advisory.stream,
        "sequence": advisory.sequence,
        "consumer": advisory.consumer,
        "deliveries": advisory.deliveries,
        "why": advisory.why,
    }
