"""Dead letters and advisories as values, and their printable form. Pure.

Any client may have written a dead letter, so its texts are escaped. An advisory is the server's message that it
stopped delivering a message to a collector, which should never happen.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shipper import units
from shipper.model import Delivery, Stored
from shipper.subjects import dead_letter_subject

KINDS = {
    "io.nats.jetstream.advisory.v1.max_deliver": "delivered too often",
    "io.nats.jetstream.advisory.v1.terminated": "terminated by a client",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Advisory:
    """The server stopped delivering message `sequence` of `stream`."""

    time_ns: int
    stream: str
    sequence: int
    consumer: str
    deliveries: int
    why: str


def read_advisory(message: Delivery) -> Advisory | None:
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


OWN = ("Dlq-Reason", "Dlq-Stream", "Dlq-Seq", "Dlq-Subject", "Dlq-Cut")
"""What the collector adds to a message's own headers."""
SIZE = "Nats-Msg-Size"
"""Header with the length of the payload in listings without payloads."""
SHOWN_BYTES = 1024
_ROW_BYTES = 16
_SUBJECT = re.compile(r"dlq\.([^.]+)\.(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One dead letter. Its texts are as they came over the network: show them through `printable`."""

    sequence: int  #: its number in the stream of dead letters
    time_ns: int  #: when it was stored as a dead letter
    host: str
    stream: str  #: stream of the message; empty: no collector wrote the letter
    origin_sequence: str  #: its sequence there
    reason: str
    headers: Mapping[str, str]  #: the message's own
    bytes: int  #: of the payload that is kept
    cut_from: int = 0  #: bytes of the whole payload, where only its beginning is kept


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """Which letters are selected; an empty text selects all."""

    host: str = ""
    stream: str = ""
    reason: str = ""  #: a part of the reason, in any case

    @property
    def pattern(self) -> str:
        """The subjects of the letters that may be selected, as filters for the server."""
        return dead_letter_subject(self.stream or "*", self.host or ">")

    def takes(self, letter: Letter) -> bool:
        """Whether a letter of these subjects is selected."""
        return self.reason.casefold() in letter.reason.casefold()


def read_letter(message: Delivery | Stored) -> Letter:
    """The letter of a message of the stream of dead letters, with its payload or a header with the length of that."""
    place, headers = _SUBJECT.fullmatch(message.subject), message.headers
    return Letter(
        sequence=message.sequence,
        time_ns=message.time_ns,
        host=place[2] if place else "unknown",
        stream=headers.get("Dlq-Stream", ""),
        origin_sequence=headers.get("Dlq-Seq", ""),
        reason=headers.get("Dlq-Reason", ""),
        headers={name: value for name, value in headers.items() if name not in OWN and not name.startswith("Nats-")},
        bytes=_number(headers.get(SIZE, "")) or len(message.payload),
        cut_from=_number(headers.get("Dlq-Cut", "")),
    )


def printable(text: str) -> str:
    """`text` with everything escaped that a terminal might take for a command, or not show; a backslash, too."""
    return units.printable(text.replace("\\", "\\\\"))


def dump(payload: bytes, at_most: int = SHOWN_BYTES) -> list[str]:
    """The beginning of a payload as lines of offset, hexadecimal digits and ASCII, as `hexdump -C` has them."""
    lines = []
    for start in range(0, min(len(payload), at_most), _ROW_BYTES):
        row = payload[start : min(start + _ROW_BYTES, at_most)]
        text = "".join(chr(octet) if 0x20 <= octet < 0x7F else "." for octet in row)  # noqa: PLR2004 - ASCII
        lines.append(f"{start:08x}  {row.hex(' '):<47}  |{text}|")
    if len(payload) > at_most:
        lines.append(f"{at_most:08x}  ... {len(payload) - at_most} bytes more (--raw writes all)")
    return lines


def letter_json(letter: Letter) -> dict[str, Any]:
    """A letter for programs."""
    return {
        "kind": "letter",
        "number": letter.sequence,
        "time_ns": letter.time_ns,
        "host": letter.host,
        "stream": letter.stream,
        "sequence": _number(letter.origin_sequence),
        "reason": letter.reason,
        "bytes": letter.bytes,
        "cut_from": letter.cut_from or None,
        "file": letter.headers.get("Log-File"),
    }


def _number(text: str) -> int:
    return int(text) if re.fullmatch(r"[0-9]{1,19}", text) else 0
