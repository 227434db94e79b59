"""What `tail` and `replay` do with a fleet's log: the last lines, all of them, at some speed, and what comes."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass

from consumer.reading.fleetlog import FleetLog
from consumer.reading.piece import Last, Piece
from consumer.reading.receiving import Receiver
from consumer.reading.sieve import Sieve
from consumer.reading.wanted import Wanted
from shipper.layout import NANOSECONDS

FIRST_WINDOW_SECONDS = 10
WIDER = 8
WIDEST_SECONDS = 14 * 86400


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast what is stored is told: a second of it in `1 / factor` seconds; 0: as fast as it goes."""

    factor: float = 0.0

    def due(self, since_first_ns: int) -> float:
        """Seconds behind the first piece at which one is due that was stored so much later."""
        return since_first_ns / NANOSECONDS / self.factor if self.factor else 0.0


async def tell_stored(log: FleetLog, wanted: Wanted, sieve: Sieve, receiver: Receiver, *, pace: Pace) -> None:
    """Everything that is stored and meant, oldest first."""
    first_ns, begun = None, time.monotonic()
    async for piece in log.stored(wanted.since_ns, wanted.until_ns):
        for each in sieve.take(piece):
            if first_ns is None:
                first_ns, begun = each.time_ns, time.monotonic()
            await _until(begun + pace.due(each.time_ns - first_ns), receiver)
            await receiver.take(each)


async def tell_last(log: FleetLog, wanted: Wanted, sieve: Sieve, receiver: Receiver, *, lines: int) -> None:
    """The last lines that are stored and meant: it looks back further and further until it has so many."""
    for since_ns in _windows(wanted):
        last = Last(lines)
        async for piece in _sifted(log.stored(since_ns, wanted.until_ns), sieve):
            last.add(piece)
        if last.full or since_ns == wanted.since_ns:
            for piece in last.pieces():
                await receiver.take(piece)
            return


async def tell_coming(log: FleetLog, sieve: Sieve, receiver: Receiver) -> None:
    """What comes, until somebody ends it."""
    async for piece in _sifted(log.follow(receiver.check), sieve):
        await receiver.take(piece)


async def _sifted(pieces: AsyncGenerator[Piece], sieve: Sieve) -> AsyncGenerator[Piece]:
    async for piece in pieces:
        for each in sieve.take(piece):
            yield each


async def _until(moment: float, receiver: Receiver) -> None:
    """Sleep until `moment` of the monotonic clock, unless nobody reads any more."""
    while (left := moment - time.monotonic()) > 0:
        receiver.check()
        await asyncio.sleep(min(left, 1.0))


def _windows(wanted: Wanted) -> Iterator[int]:
    """From when on (ns) to look, later first; the last one is what is asked for."""
    now_ns = wanted.until_ns or time.time_ns()
    seconds = FIRST_WINDOW_SECONDS
    while seconds < WIDEST_SECONDS and (since_ns := now_ns - seconds * NANOSECONDS) > wanted.since_ns:
        yield since_ns
        seconds *= WIDER
    yield wanted.since_ns
