"""Publishes dead letters: a message that cannot be applied, with the reason and its origin."""

import asyncio
import re
from collections.abc import Sequence

from consumer.commit.batch import DeadLetter
from shipper.ports import Inbox
from shipper.subjects import dead_letter_subject

MAX_REASON = 500
MAX_PAYLOAD_BYTES = 960 * 1024
"""Maximum bytes of a payload: with headers it is below 1 MiB, the server's default limit. A refusal would repeat."""

MAX_HEADER_BYTES = 48 * 1024
"""Maximum bytes of the original headers, of 64 KiB; the rest is for headers that are added here."""

AT_ONCE = 16
"""Maximum letters in flight. Each may be nearly 1 MiB, and all of them are in the socket's buffer."""

CUT_BYTES = 1024
CUT_HEADER_BYTES = 2048
"""Bytes of the payload and of the headers of a dead letter that is not kept whole."""

_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
"""A name that nats-py sends; with another one it raises, and the session would end at this message every time."""
_CONTROLS = re.compile(r"(nats-.*|dlq-.*|status|description)", re.IGNORECASE | re.DOTALL)
"""Names that have a meaning for JetStream, for clients of NATS, or in a dead letter."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_TOKEN = re.compile(r"[^\s.*>\x00-\x20\x7f]+(\.[^\s.*>\x00-\x20\x7f]+)*")


async def keep_all(inbox: Inbox, letters: Sequence[DeadLetter], *, stream: str) -> None:
    """Copy all of `letters` and wait until they are stored.

    Several are in flight at a time, so that a host that sends only invalid messages does not delay the others.
    """
    for first in range(0, len(letters), AT_ONCE):
        some = letters[first : first + AT_ONCE]
        kept = await asyncio.gather(*(keep(inbox, dead, stream=stream) for dead in some), return_exceptions=True)
        for outcome in kept:
            if isinstance(outcome, BaseException):
                raise outcome


async def keep(inbox: Inbox, dead: DeadLetter, *, stream: str) -> None:
    """Copy `dead` to the dead letters and wait until it is stored. A second copy is dropped there."""
    delivery = dead.delivery
    headers = {
        **_kept(delivery.headers, MAX_HEADER_BYTES if dead.is_whole else CUT_HEADER_BYTES),
        "Nats-Msg-Id": f"{stream}:{delivery.sequence}:{delivery.time_ns}",
        "Dlq-Reason": _text(dead.reason)[:MAX_REASON],
        "Dlq-Stream": stream,
        "Dlq-Seq": str(delivery.sequence),
        "Dlq-Subject": _text(delivery.subject),
    }
    most = MAX_PAYLOAD_BYTES if dead.is_whole else CUT_BYTES
    if len(delivery.payload) > most:
        headers["Dlq-Cut"] = str(len(delivery.payload))
    host = dead.host if _TOKEN.fullmatch(dead.host) else "unknown"
    await inbox.dead_letter(dead_letter_subject(stream, host), headers, delivery.payload[:most])


def _kept(headers: dict[str, str], most: int) -> dict[str, str]:
    """The message's own headers. Those with a meaning (`Nats-Expected-...`, `Status`) are renamed: all are data."""
    kept: dict[str, str] = {}
    size = 0
    for name, value in headers.items():
        size += len(name) + len(value.encode("utf-8", "replace")) + 16
        if _NAME.fullmatch(name) and size <= most:
            kept[f"Dlq-{name}" if _CONTROLS.fullmatch(name) else name] = _CONTROL.sub(" ", value)
    return kept


def _text(value: str) -> str:
    return _CONTROL.sub(" ", value).encode("ascii", "backslashreplace").decode()
