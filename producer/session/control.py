"""What a producer says when a collector, or an audit, asks for its host.

What collectors tell and ask, and the acknowledged bytes that they want again.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from producer import receipts
from producer.model import Source
from producer.session.inflight import Window
from producer.tailer.tailer import Tailer
from shipper.model import End

MAX_BYTES = 512 * 1024
"""Of one answer: half of what a server takes by default."""
GONE: Mapping[str, Any] = {"v": 1, "answer": "gone"}
RESENT: Mapping[str, Any] = {"v": 1, "answer": "resent"}
EXCLUDED: Mapping[str, Any] = {**GONE, "why": End.EXCLUDED.value}
"""The configuration no longer names the file, so that nothing more of it is read."""
LASTING: Mapping[str, Any] = {**RESENT, "lasting": True}
"""Another process of this host could send it again, too: what lies behind a hole may be removed for this answer."""


def to(
    question: Mapping[str, Any],
    sources: Tailer,
    window: Window,
    spools: Mapping[str, str],
    place: Callable[[], Mapping[str, Any]],
) -> Mapping[str, Any] | None:
    """The answer to whatever a message asks; None: it asks nothing that is known here."""
    match question.get("ask"):
        case "resend":
            return to_missing(question, sources, window)
        case "marks":
            return marks(question, sources.ledger.known.values(), spools)
        case "place":
            return place()
    return None


def to_missing(question: Mapping[str, Any], sources: Tailer, window: Window) -> Mapping[str, Any]:
    """The answer to a collector that misses bytes; `RESENT` and `LASTING` promise that they are sent again.

    What is in flight is sent until it is acknowledged, also where its file is gone meanwhile.
    """
    source, start = sources.ledger.known.get(str(question.get("source", ""))), question.get("from")
    if source is None or not isinstance(start, int):
        return GONE
    if not is_under_way(source, start, window):
        if (elsewhere := archived_elsewhere(question, source)) is not None:
            return elsewhere
        if sources.is_left_out(source):
            return EXCLUDED
        if not sources.may_be_read_again(source):
            return GONE
    return LASTING if sources.lies_on_disk(source) else RESENT


def is_under_way(source: Source, start: int, window: Window) -> bool:
    """Whether the bytes of a source from `start` on are in flight, so that nobody has to go back for them."""
    return start >= source.offset and window.end_of(source.id) > start


def archived_elsewhere(question: Mapping[str, Any], source: Source) -> Mapping[str, Any] | None:
    """The answer to a collector that misses bytes which another archive holds; None: they must be sent again.

    What the collector's own archive held once, it has lost: then nobody else is known to have all of it.
    """
    archive, start = question.get("archive"), question["from"]
    if not isinstance(archive, str) or not archive or source.archived_in(archive) > start:
        return None
    watermark = source.archived_elsewhere(archive)
    return {"v": 1, "answer": "archived", "watermark": watermark} if watermark > start else None


def marks(question: Mapping[str, Any], sources: Iterable[Source], names: Mapping[str, str]) -> Mapping[str, Any]:
    """How far this host shipped each of its sources, the newest first, as many as fit.

    `archived` is what the archive that asks holds, `elsewhere` what any other does; where none is named, all are meant.
    `names`: archive names by local path, of inputs without a file.
    """
    archive = str(question.get("archive", ""))
    found, size = [], 0
    for source in sorted(sources, key=lambda source: -source.mtime_ns):
        mark: dict[str, Any] = {
            "source": source.id,
            "file": names.get(source.file, source.file),
            "origin": source.origin,
            "offset": source.offset,
            "size": max(source.size, source.offset),
            "archived": source.archived_in(archive) if archive else source.archived,
            "elsewhere": source.archived_elsewhere(archive) if archive else 0,
            "ended": bool(source.ended_at),
        }
        mark |= {"excluded": True} if source.excluded else {}
        size += len(json.dumps(mark)) + 2
        if size > MAX_BYTES:
            break
        found.append(mark)
    return {"v": 1, "marks": found}


class Asked:
    """Where sources are to go back to; that is done when nothing is being read. Owned by the pipeline."""

    def __init__(self, rouse: Callable[[], None], doubt: Callable[[Sequence[str]], None] = lambda _: None) -> None:
        self._rouse = rouse
        self._doubt = doubt
        self._back: dict[str, int] = {}

    @property
    def is_any(self) -> bool:
        """Whether a source is to go back."""
        return bool(self._back)

    def hear(
        self, message: Mapping[str, Any], sources: Tailer, window: Window, spools: Mapping[str, str],
        place: Callable[[], Mapping[str, Any]],
    ) -> Mapping[str, Any] | None:  # fmt: skip
        """A collector says what it has, or asks; the answer."""
        if (told := receipts.read(message)) is not None:
            self._doubt(sources.heard(told))
        answer = to(message, sources, window, spools, place)
        if answer in (RESENT, LASTING):
            source, start = sources.ledger.known[message["source"]], message["from"]
            if not is_under_way(source, start, window):
                self.go_back(source.id, start)
        return answer

    def go_back(self, source: str, start: int) -> None:
        """A source is to be sent again from `start` on."""
        self._back[source] = min(start, self._back.get(source, start))
        self._rouse()

    def take(self) -> dict[str, int]:
        """By source, from where each is to be sent again; they count as done."""
        back, self._back = self._back, {}
        return back
