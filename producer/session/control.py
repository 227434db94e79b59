"""Replies of a producer on `ctl.down.<host>` and `ctl.ask.<host>`; which sources go back for a collector."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from producer.model import Source
from producer.session.inflight import Window
from producer.tailer.tailer import Sources
from shipper.control import (
    MarksReply,
    MarksRequest,
    PlaceReply,
    PlaceRequest,
    ReceiptsReply,
    ResendAnswer,
    ResendReply,
    ResendRequest,
    SourceMark,
    as_many_as_fit,
    request_from_json,
)

GONE = ResendReply(ResendAnswer.GONE)


def to_missing(request: ResendRequest, sources: Sources, window: Window) -> ResendReply:
    """The reply to a collector that misses bytes; `RESENT` and `LASTING` promise that they are sent again.

    What is in flight is sent until it is acknowledged, even if its file no longer exists.
    """
    source = sources.ledger.known.get(request.source)
    if source is None or request.start < 0:
        return GONE
    if not is_under_way(source, request.start, window):
        if (elsewhere := archived_elsewhere(request, source)) is not None:
            return elsewhere
        if sources.is_left_out(source):
            return ResendReply(ResendAnswer.EXCLUDED)
        if not sources.may_be_read_again(source):
            return GONE
    return ResendReply(ResendAnswer.LASTING if sources.lies_on_disk(source) else ResendAnswer.RESENT)


def is_under_way(source: Source, start: int, window: Window) -> bool:
    """Whether the bytes of a source from `start` on are in flight, so that it need not go back for them."""
    return start >= source.offset and window.end_of(source.id) > start


def archived_elsewhere(request: ResendRequest, source: Source) -> ResendReply | None:
    """The reply to a collector that misses bytes which another archive holds; None: they must be sent again.

    If the collector's own archive held them before, it has lost them: then no archive is known to have all of them.
    """
    if not request.archive or source.archived_in(request.archive) > request.start:
        return None
    watermark = source.archived_elsewhere(request.archive)
    return ResendReply(ResendAnswer.ARCHIVED, watermark) if watermark > request.start else None


def marks(archive: str, sources: Iterable[Source], names: Mapping[str, str]) -> MarksReply:
    """How far this host shipped each of its sources, the newest first, as many as fit.

    `archived` is what `archive` holds, `elsewhere` what any other does; where it is empty, all archives count.
    `names`: archive names by local path, of inputs without a file.
    """
    newest_first = sorted(sources, key=lambda source: -source.mtime_ns)
    return MarksReply(tuple(as_many_as_fit(_mark(source, archive, names) for source in newest_first)))


def _mark(source: Source, archive: str, names: Mapping[str, str]) -> SourceMark:
    return SourceMark(
        source=source.id,
        file=names.get(source.file, source.file),
        origin=source.origin,
        offset=source.offset,
        size=max(source.size, source.offset),
        archived=source.archived_in(archive) if archive else source.archived,
        elsewhere=source.archived_elsewhere(archive) if archive else 0,
        ended=bool(source.ended_at),
        excluded=bool(source.excluded),
    )


class Asked:
    """Offsets that sources must go back to, once no read is pending. Owned by the pipeline."""

    def __init__(self, rouse: Callable[[], None], doubt: Callable[[Sequence[str]], None] = lambda _: None) -> None:
        self._rouse = rouse
        self._doubt = doubt
        self._back: dict[str, int] = {}

    @property
    def is_any(self) -> bool:
        """Whether a source is to go back."""
        return bool(self._back)

    def hear(
        self, message: Mapping[str, Any], sources: Sources, window: Window, spools: Mapping[str, str],
        place: Callable[[], PlaceReply],
    ) -> Mapping[str, Any] | None:  # fmt: skip
        """Handle a message with receipts, or a request; the fields of the reply, None: there is none."""
        if (told := ReceiptsReply.from_json(message)) is not None:
            self._doubt(sources.heard(told))
        match request_from_json(message):
            case ResendRequest() as request:
                return self._resend(request, sources, window).to_json()
            case MarksRequest(archive):
                return marks(archive, sources.ledger.known.values(), spools).to_json()
            case PlaceRequest():
                return place().to_json()
        return None

    def _resend(self, request: ResendRequest, sources: Sources, window: Window) -> ResendReply:
        reply = to_missing(request, sources, window)
        if reply.answer in {ResendAnswer.RESENT, ResendAnswer.LASTING}:
            source = sources.ledger.known[request.source]
            if not is_under_way(source, request.start, window):
                self.go_back(source.id, request.start)
        return reply

    def go_back(self, source: str, start: int) -> None:
        """A source is to be sent again from `start` on."""
        self._back[source] = min(start, self._back.get(source, start))
        self._rouse()

    def take(self) -> dict[str, int]:
        """By source, from where each is to be sent again; they count as done."""
        back, self._back = self._back, {}
        return back
