"""Hits that arrive during a search, and lines of context for them: lines of many files, each in its order."""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from consumer.archive.event_times import TimeOrigin
from consumer.archive.parts import Part
from consumer.archive.selection import Wanted
from consumer.read.file_search import MAX_CONTEXT_BYTES, SHOWN_BYTES, ContextLine, Request, lines_before
from consumer.read.follow import FleetLog, Places
from consumer.read.neighbours import Neighbours
from consumer.read.piece import Piece
from consumer.read.search_display import ShownHit
from shipper.settings import Settings

MAX_FILES = 1000
"""Files whose last lines are kept; those without a line for the longest time are forgotten."""
WAIT_SECONDS = 1.0
"""So long a hit waits for the lines after it, from the last line of its file on."""


@dataclass(slots=True)
class _File:
    lines: deque[ContextLine]  #: the last ones
    end: int  #: of the last one, in the text of the log file
    octets: int = 0  #: of the lines
    waiting: deque[tuple[ShownHit, list[ContextLine]]] = field(default_factory=deque)
    changed: float = 0.0


class LiveContext:
    """Gives each hit its context once it is complete, or once its file had no line for `WAIT_SECONDS`.

    `earlier`: the lines of a file, by host and path, that were archived before the first one that arrives, and where
    their text ends.
    """

    def __init__(
        self, *, before: int, after: int, earlier: Callable[[str, str], tuple[list[ContextLine], int]]
    ) -> None:
        self._before, self._after = before, after
        self._earlier = earlier
        self._files = OrderedDict[tuple[str, str], _File]()

    def add(
        self, host: str, file: str, text: bytes, hit: ShownHit | None, now: float | None = None
    ) -> Iterator[ShownHit]:
        """A line, newline included, in the order of its file. `hit`: it matches. The result is complete hits."""
        held = self._files.get((host, file))
        if held is None:
            lines, end = self._earlier(host, file)
            held = self._files[host, file] = _File(deque(lines), end, sum(len(each.line) for each in lines))
        self._files.move_to_end((host, file))
        held.changed = time.monotonic() if now is None else now
        line = ContextLine(held.end, held.end + len(text), text.removesuffix(b"\n")[:SHOWN_BYTES], hit is not None)
        for _, after in held.waiting:
            after.append(line)
        if hit is not None:
            held.waiting.append((hit._replace(place=(line.at, line.end), before=tuple(held.lines)), []))
        held.lines.append(line)
        held.octets += len(line.line)
        while held.lines and (len(held.lines) > self._before or held.octets > MAX_CONTEXT_BYTES):
            held.octets -= len(held.lines.popleft().line)
        held.end = line.end
        while held.waiting and len(held.waiting[0][1]) >= self._after:
            yield _complete(*held.waiting.popleft())
        if len(self._files) > MAX_FILES:
            _, forgotten = self._files.popitem(last=False)
            yield from (_complete(*each) for each in forgotten.waiting)

    def due(self, now: float | None = None) -> Iterator[ShownHit]:
        """The hits that have waited long enough."""
        now = time.monotonic() if now is None else now
        for held in self._files.values():
            while held.waiting and now - held.changed >= WAIT_SECONDS:
                yield _complete(*held.waiting.popleft())

    def rest(self) -> Iterator[ShownHit]:
        """All hits that wait: no more lines come."""
        return self.due(float("inf"))


def _complete(hit: ShownHit, after: list[ContextLine]) -> ShownHit:
    return hit._replace(after=tuple(after))


class Output(Protocol):
    """Where hits are shown."""

    def live_hit(self, hit: ShownHit) -> None:
        """Write a hit that arrived during the search."""
        ...

    def flush(self) -> None:
        """Write what is held."""
        ...


class Arriving:
    """Shows what is not in the archive yet, then what arrives."""

    def __init__(self, request: Request, neighbours: Neighbours, output: Output) -> None:
        self._request = request
        self._neighbours = neighbours
        self._output = output
        self._has_context = bool(request.before or request.after)
        self._context = LiveContext(before=request.before, after=request.after, earlier=self._earlier)

    def follow(self, settings: Settings, wanted: Wanted, parts: Sequence[Part]) -> None:
        """Show what is not in `parts`, then what arrives, until this process is interrupted."""
        try:
            asyncio.run(self._follow(settings, wanted, parts))
        finally:
            self._write(self._context.rest())

    async def _follow(self, settings: Settings, wanted: Wanted, parts: Sequence[Part]) -> None:
        places = Places(settings=settings, archive=None)
        async with FleetLog(places, wanted, patience=60.0, name="search", archived=tuple(parts)) as log:
            async for piece in log.stored(wanted.since_ns, None):
                self._show(piece)
            self._output.flush()
            async for piece in log.follow(self._idle):
                self._show(piece)
                self._output.flush()

    def _show(self, piece: Piece) -> None:
        for line in piece.lines():
            text = line.text.removesuffix(b"\n")
            is_hit, stored = self._request.query.matches(text), (line.time_ns, line.time_ns)
            if is_hit or self._has_context:
                hit = ShownHit(
                    line.time_ns, stored, TimeOrigin.STORED, line.host, line.file, line.source, line.offset, text
                )
                self._write(self._context.add(line.host, line.file, line.text, hit if is_hit else None))

    def _idle(self) -> None:
        self._write(self._context.due())
        self._output.flush()

    def _write(self, hits: Iterable[ShownHit]) -> None:
        for each in hits:
            self._output.live_hit(each)

    def _earlier(self, host: str, file: str) -> tuple[list[ContextLine], int]:
        last = self._neighbours.last(host, file) if self._has_context else None
        if last is None:
            return [], 0
        found, end = list[ContextLine](), last.part.raw
        for _, lines in lines_before(last, end, self._request.before, self._neighbours) if self._request.before else ():
            found[:0] = lines
        return found, last.base + end
