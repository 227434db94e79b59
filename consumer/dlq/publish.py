"""A message that nobody can apply: kept whole, with the reason and where it came from."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence

from consumer.commit.applier import Dead
from shipper import events
from shipper.ports import Inbox
from shipper.subjects import dead_letter_subject

MAX_REASON = 500
MAX_PAYLOAD_BYTES = 960 * 1024
"""With the headers below the 1 MiB that a server takes by default: what it refuses would be tried for ever."""

MAX_HEADER_BYTES = 48 * 1024
"""Of 64 KiB; the rest is for what is added here."""

AT_ONCE = 16
"""Each may be nearly 1 MiB, and all of them are in the socket's buffer."""

FULL_BYTES = 16 * 1024 * 1024
"""Payload bytes of dead letters that one host has in full each hour, in each partition; of more, the first bytes."""
CUT_BYTES = 1024
FULL_SECONDS = 3600.0
MAX_HOSTS = 20_000

_NAME = re.compile(r"[!-9;-~]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_TOKEN = re.compile(r"[^\s.*>\x00-\x20\x7f]+(\.[^\s.*>\x00-\x20\x7f]+)*")


class Shares:
    """How much of the dead letters each host had lately, so that one host does not push those of others out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = clock()
        self._taken: Counter[str] = Counter()
        self.cut = 0  #: dead letters that were cut

    def most(self, host: str, octets: int) -> int:
        """How many of `octets` are kept."""
        if self._clock() - self._since >= FULL_SECONDS or len(self._taken) > MAX_HOSTS:
            self._taken.clear()
            self._since = self._clock()
        if self._taken[host] + octets <= FULL_BYTES:
            self._taken[host] += octets
            return MAX_PAYLOAD_BYTES
        self.cut += 1
        events.dead_letter_cut(host=host)
        return CUT_BYTES


async def keep_all(inbox: Inbox, letters: Sequence[Dead], *, stream: str, shares: Shares | None = None) -> None:
    """Copy all of `letters` and wait until they are stored; a host that has more than its share has them cut.

    Some at a time: a host that sends only poison is not to hold up the others for a round trip each.
    """
    for first in range(0, len(letters), AT_ONCE):
        some = letters[first : first + AT_ONCE]
        kept = await asyncio.gather(
            *(keep(inbox, dead, stream=stream, most=_most(dead, shares)) for dead in some), return_exceptions=True
        )
        for outcome in kept:
            if isinstance(outcome, BaseException):
                raise outcome


def _most(dead: Dead, shares: Shares | None) -> int:
    return shares.most(dead.host, len(dead.delivery.payload)) if shares else MAX_PAYLOAD_BYTES


async def keep(inbox: Inbox, dead: Dead, *, stream: str, most: int = MAX_PAYLOAD_BYTES) -> None:
    """Copy `dead` to the dead letters and wait until it is stored; a second copy is dropped there."""
    delivery = dead.delivery
    headers = {
        **_kept(delivery.headers),
        "Nats-Msg-Id": f"{stream}:{delivery.sequence}:{delivery.time_ns}",
        "Dlq-Reason": _text(dead.reason)[:MAX_REASON],
        "Dlq-Stream": stream,
        "Dlq-Seq": str(delivery.sequence),
        "Dlq-Subject": _text(delivery.subject),
    }
    if len(delivery.payload) > most:
        headers["Dlq-Cut"] = str(len(delivery.payload))
    host = dead.host if _TOKEN.fullmatch(dead.host) else "unknown"
    await inbox.dead_letter(dead_letter_subject(stream, host), headers, delivery.payload[:most])


def _kept(headers: dict[str, str]) -> dict[str, str]:
    """The message's own headers. Those of JetStream would have an effect again (`Nats-Expected-...`): renamed."""
    kept: dict[str, str] = {}
    size = 0
    for name, value in headers.items():
        size += len(name) + len(value.encode("utf-8", "replace")) + 16
        if _NAME.fullmatch(name) and size <= MAX_HEADER_BYTES:
            kept[f"Dlq-{name}" if name.lower().startswith("nats-") else name] = _CONTROL.sub(" ", value)
    return kept


def _text(value: str) -> str:
    return _CONTROL.sub(" ", value).encode("ascii", "backslashreplace").decode()
