"""Replies of a producer to requests on `ctl.down.<host>` (collectors) and `ctl.ask.<host>` (operators)."""

import secrets
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from producer.linger import Linger
from producer.model import Source
from producer.options import Task
from producer.session.delivery import Delivery, Window
from producer.session.delivery_check import DeliveryCheck
from producer.session.file_stage import files_reply
from producer.session.migration import Migration
from producer.tailer.tailer import Tailer
from shipper.control import (
    FilesRequest,
    FollowRequest,
    MarksReply,
    MarksRequest,
    PlaceRequest,
    ReceiptsReply,
    ResendAnswer,
    ResendReply,
    ResendRequest,
    SourceMark,
    as_many_as_fit,
    request_from_json,
)
from shipper.ports import Publisher
from shipper.subjects import control_ask, control_down

GONE = ResendReply(ResendAnswer.GONE)
READING = (MarksRequest.ASK, FilesRequest.ASK, FollowRequest.ASK)
"""Requests that change nothing but how early lines are sent. No set: what a message names may be no text."""


def to_missing(request: ResendRequest, sources: Tailer, window: Window) -> ResendReply:
    """The reply to a collector that misses bytes. `RESENT` and `LASTING` promise that they are sent again.

    What is in flight is sent until it is acknowledged, even if its file no longer exists.
    """
    source = sources.acks.known.get(request.source)
    if source is None or request.start < 0:
        return GONE
    if not is_under_way(source, request.start, window):
        if (elsewhere := archived_elsewhere(request, source)) is not None:
            return elsewhere
        if sources.is_excluded(source):
            return ResendReply(ResendAnswer.EXCLUDED)
        if not sources.may_be_read_again(source):
            return GONE
    return ResendReply(ResendAnswer.LASTING if sources.is_on_disk(source) else ResendAnswer.RESENT)


def is_under_way(source: Source, start: int, window: Window) -> bool:
    """Whether the bytes of a source from `start` on are in flight, so that it need not go back for them."""
    return start >= source.offset and window.end_of(source.id) > start


def archived_elsewhere(request: ResendRequest, source: Source) -> ResendReply | None:
    """The reply to a collector that misses bytes which another archive holds. None: they must be sent again.

    If the collector's own archive held them before, it has lost them: then no archive is known to have all of them.
    """
    if not request.archive or source.archived_in(request.archive) > request.start:
        return None
    watermark = source.archived_elsewhere(request.archive)
    return ResendReply(ResendAnswer.ARCHIVED, watermark) if watermark > request.start else None


def _mark(source: Source, archive: str, archive_name: Callable[[str], str]) -> SourceMark:
    """How far this host shipped a source, and how much of it `archive` and others hold. Empty: all archives count."""
    return SourceMark(
        source=source.id,
        file=archive_name(source.file),
        origin=source.origin,
        offset=source.offset,
        size=max(source.size, source.offset),
        archived=source.archived_in(archive) if archive else source.archived,
        elsewhere=source.archived_elsewhere(archive) if archive else 0,
        ended=bool(source.ended_at),
        excluded=bool(source.excluded),
        crc=source.crc,
    )


class Scans(Protocol):
    """The schedule of scans."""

    def age(self, *, scan: bool) -> float:
        """Seconds since the last scan of all files began. `scan`: let the next one come soon."""


class ControlHandler:
    """Handles messages of collectors, and requests of operators. Owned by the pipeline."""

    def __init__(
        self,
        task: Task,
        delivery: Delivery,
        migration: Migration,
        check: DeliveryCheck,
        scans: Scans,
        linger: Linger,
    ) -> None:
        self._host = task.host
        self._task = task
        self._archive_name = task.archive_name
        self._run = secrets.token_hex(8)
        self._scans = scans
        self._delivery = delivery
        self._migration = migration
        self._check = check
        self._linger = linger

    async def listen(self, session: Publisher) -> None:
        """Handle messages of collectors and of operators from now on."""
        await session.listen(control_down(self._host), self._from_collector)
        await session.listen(control_ask(self._host), self._from_operator)

    async def _from_operator(self, _subject: str, message: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """An operator may read how far each source is, and follow the lines; nothing else."""
        return await self._reply(message) if message.get("ask") in READING else None

    async def _from_collector(self, _subject: str, message: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if (receipts := ReceiptsReply.from_json(message)) is not None:
            self._check.unproven(self._delivery.tailer.ended_files.note_unsolicited(receipts))
            self._linger.pace(receipts.pace_seconds)
        return await self._reply(message)

    async def _reply(self, message: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The fields of the reply to a request. None: there is none."""
        tailer = self._delivery.tailer
        match request_from_json(message):
            case ResendRequest() as request:
                reply = to_missing(request, tailer, self._delivery.window)
                if reply.answer in {ResendAnswer.RESENT, ResendAnswer.LASTING}:
                    source = tailer.acks.known[request.source]
                    if not is_under_way(source, request.start, self._delivery.window):
                        self._delivery.resend(source.id, request.start)
                return reply.to_json()
            case MarksRequest(archive):
                newest_first = sorted(tailer.acks.known.values(), key=lambda source: -source.mtime_ns)
                marks = as_many_as_fit(_mark(source, archive, self._archive_name) for source in newest_first)
                return MarksReply(tuple(marks)).to_json()
            case PlaceRequest():
                return self._migration.answer().to_json()
            case FollowRequest():
                self._linger.follow()
            case FilesRequest() as request:
                scan_age = self._scans.age(scan=request.scan)
                place, run = self._migration.place, self._run
                return files_reply(request, self._task, tailer, place, run=run, scan_age=scan_age).to_json()
        return None
