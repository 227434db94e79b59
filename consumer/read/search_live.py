"""Hits that arrive during a search, and lines of context for them: lines of many files, each in its order."""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from consumer.archive.parts import Part
from consumer.read.file_search import MAX_CONTEXT_BYTES, SHOWN_BYTES, ContextLine, lines_before
from consumer.read.follow import FleetLog, Places
from consumer.read.neighbours import Neighbours
from consumer.read.piece import Piece
from consumer.read.search_display import ShownHit
from consumer.read.search_request import Request
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


def follow(
    request: Request,
    settings: Settings,
    parts: Sequence[Part],
    neighbours: Neighbours,
    show: Callable[[Iterable[ShownHit]], None],
) -> None:
    """Show what is not in `parts`, then what arrives, until this process is interrupted."""
    has_context = bool(request.before or request.after)

    def earlier(host: str, file: str) -> tuple[list[ContextLine], int]:
        last = neighbours.last(host, file) if has_context else None
        if last is None:
            return [], 0
        found, end = list[ContextLine](), last.part.raw
        for _, lines in lines_before(last, end, request.before, neighbours) if request.before else ():
            found[:0] = lines
        return found, last.base + end

    context = LiveContext(before=request.before, after=request.after, earlier=earlier)

    def complete(piece: Piece) -> Iterator[ShownHit]:
        for line in piece.lines():
            text = line.text.removesuffix(b"\n")
            is_hit = request.query.matches(text)
            if is_hit or has_context:
                hit = ShownHit(line._replace(text=text, stored_ns=(line.time_ns, line.time_ns)))
                yield from context.add(line.host, line.file, line.text, hit if is_hit else None)

    async def work() -> None:
        places = Places(settings=settings, archive=None)
        async with FleetLog(places, request.wanted, patience=60.0, name="search", archived=tuple(parts)) as log:
            async for piece in log.stored(request.wanted.since_ns, None):
                show(complete(piece))
            async for piece in log.follow(lambda: show(context.due())):
                show(complete(piece))

    try:
        asyncio.run(work())
    finally:
        show(context.rest())
