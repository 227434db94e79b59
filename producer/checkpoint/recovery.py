"""A lost checkpoint: what the archive or the stream knows, proven by the CRC of the local bytes, is where to go on."""

import asyncio
import os
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from producer import receipts
from producer.discovery import scanner
from producer.discovery.patterns import real_path
from producer.discovery.safe_open import FOLLOWED_BY_OWNER, Links, close_on_exit
from producer.discovery.scanner import Seen
from producer.fingerprint import ENOUGH_BYTES, Mark, crc_of, read_ends
from producer.model import Destination, Point, Source, new_source
from producer.options import Task, WhenSilent
from shipper import events
from shipper.bytes_ops import crc32_combine
from shipper.control import Receipt, ReceiptsReply
from shipper.errors import Unavailable
from shipper.ports import Publisher
from shipper.subjects import log_subject, stream_name

ASK_AGAIN_SECONDS = 1.0


class _Past(NamedTuple):
    """What one partition knows of a host."""

    partition: int
    newest: Receipt | None  #: the newest message of the host in its stream
    sequence: int  #: of that message; 0: there is none
    reply: ReceiptsReply | None  #: the reply of its collector


class Recovery:
    """Finds the sources of a checkpoint that was lost. Owned by the handshake.

    It waits for the collector for at most `recover_wait` seconds over all sessions, if the stream shows that the host
    shipped before. Without the collector's reply only the source of the newest message continues, and all others are
    sent twice. Only files that the configuration names are opened, whatever a receipt names.
    """

    def __init__(self, destination: Destination, task: Task) -> None:
        self._destination = destination
        self._wait = task.recover_wait
        self._when_silent = task.when_silent
        self._following = task.following
        self._is_wanted = scanner.name_filter(task.following.watched)
        self._links = task.following.links
        self._local_names = task.local_names
        self._start_over()
        destination.on_move(self._start_over)

    def _start_over(self) -> None:
        """Another partition has another collector."""
        self._until: float | None = None
        self.left = 0  #: the newest version of the map by which this host left the partition

    async def sources(
        self, publisher: Publisher, nameless: Callable[[], Mapping[str, Seen]], others: Sequence[int] = ()
    ) -> list[Source]:
        """The sources that continue. [] if the host is new.

        `nameless`: the files that only this process can still open. `others`: further partitions whose streams hold
        messages of this host. Receipts are requested also if the stream is empty: archived messages may be purged.

        Raises Unavailable: the host shipped before, no collector replies, and `when_silent` is REFUSE.
        """
        pasts = [await self._past(publisher, number) for number in (self._destination.partition, *others)]
        known = [receipt for past in pasts if past.reply for receipt in past.reply.receipts]
        known += [pasts[0].newest] if pasts[0].newest else []  # for other streams only archived bytes count
        local = await asyncio.to_thread(self._local_names)
        known = [receipt._replace(file=local.get(receipt.file, receipt.file)) for receipt in known]
        named = [receipt for receipt in known if self._is_wanted(receipt.file)]
        found = await asyncio.to_thread(prove, named, list(nameless().values()), self._links)
        found += await asyncio.to_thread(self._renamed, known, found)
        for past in pasts:
            found = [self._with_proofs(source, past) for source in found]
        return found

    def _renamed(self, known: Sequence[Receipt], found: Sequence[Source]) -> list[Source]:
        """The sources whose files have other names now, also where their old names are not watched any more."""
        sources, keys = {source.id for source in found}, {source.key for source in found}
        rest = [receipt for receipt in known if receipt.source not in sources]
        if not rest:
            return []
        files = scanner.scan(self._following.watched).files
        others = [seen for seen in files if seen.key not in keys and seen.path not in self._following.spools]
        return prove_by_content(rest, others, self._links)

    async def _past(self, publisher: Publisher, partition: int) -> _Past:
        subject = log_subject(self._destination.prefix, partition, self._destination.host)
        if partition == self._destination.partition:
            last = await publisher.last_stored(subject)
        else:
            last = await publisher.last_stored_in(stream_name(self._destination.prefix, partition), subject)
        newest = receipts.receipt_of(last) if last else None
        sequence = last.sequence if last and (newest or last.is_unread) else 0
        return _Past(partition, newest, sequence, await self._reply(publisher, partition, sequence))

    async def _reply(self, publisher: Publisher, partition: int, sequence: int) -> ReceiptsReply | None:
        """The collector's reply after it has processed everything up to `sequence`. Its last reply if time is up."""
        while True:
            reply = await receipts.ask(publisher, self._destination.host, partition, waits=receipts.STARTING_SECONDS)
            if partition == self._destination.partition:
                self.left = max(self.left, reply.left if reply else 0)
            if not sequence or (reply is not None and reply.through >= sequence):
                return reply
            if self._until is None:
                self._until = time.monotonic() + self._wait
                events.recovery_waits(seconds=self._wait, collector="lags" if reply else "does not answer")
            if time.monotonic() >= self._until:
                if self._when_silent is WhenSilent.REFUSE:
                    raise Unavailable(
                        f"host {self._destination.host} has shipped before without this state directory, and no"
                        f" collector of partition {partition} replied what is archived: nothing is sent, because lines"
                        " could be archived twice",
                        hint="start the collector (fshipper consume), or set SHIPPER_STATE to the directory of the"
                        " first run; to ship all files again, set producer.recover_wait to 0s",
                    )
                events.recovery_gave_up(sources=len(reply.receipts) if reply else 0)
                return reply
            await asyncio.sleep(ASK_AGAIN_SECONDS)

    def _with_proofs(self, source: Source, past: _Past) -> Source:
        """A source with its proofs: the newest message in the host's own stream, or the receipt of the archive."""
        newest, reply = past.newest, past.reply
        is_own = past.partition == self._destination.partition
        if is_own and newest and (source.id, source.offset) == (newest.source, newest.watermark):
            source = replace(source, ring=(Point(past.sequence, source.offset, source.crc),))
        if reply and (archived := max((r.watermark for r in reply.receipts if r.source == source.id), default=0)):
            source = source.in_archive(reply.archive, min(archived, source.offset))
        return source


def prove(receipts: Iterable[Receipt], nameless: Sequence[Seen] = (), links: Links = FOLLOWED_BY_OWNER) -> list[Source]:
    """The sources whose local file holds a receipt's bytes up to its offset, oldest file first. The longest wins."""
    proven: dict[tuple[int, int], Source] = {}
    for receipt in sorted(receipts, key=lambda receipt: -receipt.watermark):
        if any(source.id == receipt.source for source in proven.values()):
            continue
        for seen in (*_candidates(receipt.file, links), *nameless):
            if seen.key in proven or seen.size < receipt.watermark:
                continue
            source = _proven(receipt, seen, links)
            if source is not None:
                proven[seen.key] = source
                events.source_recovered(file=source.file, source=source.id, offset=source.offset)
                break
    return sorted(proven.values(), key=lambda source: source.mtime_ns)


def prove_by_content(receipts: Iterable[Receipt], files: Iterable[Seen], links: Links) -> list[Source]:
    """The sources whose bytes a file under another name begins with. Each file is read once; the longest wins.

    A few bytes prove nothing: many files begin alike.
    """
    wanted: dict[int, list[Receipt]] = {}
    for receipt in receipts:
        if receipt.origin == 0 and receipt.watermark >= ENOUGH_BYTES and receipt.host_crc >= 0:
            wanted.setdefault(receipt.watermark, []).append(receipt)
    proven: dict[str, Source] = {}
    for seen in sorted(files, key=lambda seen: seen.mtime_ns):
        found = _beginning(seen, wanted, proven, links)
        source = None if found is None else _proven(found, seen, links, name=seen.path)
        if source is not None:
            proven[source.id] = source
            events.source_recovered(file=source.file, source=source.id, offset=source.offset)
    return list(proven.values())


def _beginning(
    seen: Seen, wanted: Mapping[int, Sequence[Receipt]], taken: Container[str], links: Links
) -> Receipt | None:
    """The longest of the receipts whose bytes a file begins with."""
    found, crc, at = None, 0, 0
    try:
        descriptor = links.open_as(seen.path, seen.path, seen.key)
        with close_on_exit(descriptor):
            for offset in sorted(each for each in wanted if each <= seen.size):
                if descriptor is None:
                    break
                more = crc_of(descriptor, at, offset)
                if more is None:
                    break
                crc, at = crc32_combine(crc, more, offset - at), offset
                same = (each for each in wanted[offset] if each.host_crc == crc and each.source not in taken)
                found = next(same, found)
    except OSError as error:
        events.file_unreadable(path=seen.path, error=error.strerror or str(error))
    return found


def _candidates(path: str, links: Links) -> list[Seen]:
    """The file itself and what rotation made of it."""
    own = [seen for seen in scanner.scan(scanner.Watched((path,))).files if seen.path == path]
    try:
        real, listing = real_path(path), scanner.Listing()
        elsewhere = listing.siblings(real) if real != path else []
        return [*own, *listing.siblings(path), *(seen for seen in elsewhere if links.may_read_as(path, seen.path))]
    except OSError as error:
        events.file_unreadable(path=path, error=error.strerror or str(error))
        return own


def _proven(receipt: Receipt, seen: Seen, links: Links, *, name: str = "") -> Source | None:
    """The source of a receipt in the file `seen`, which is read as `name`, by default as that of the receipt."""
    try:
        descriptor = links.open_as(name or receipt.file, seen.path, seen.key)
    except OSError:
        return None
    with close_on_exit(descriptor):
        try:
            if descriptor is None or crc_of(descriptor, receipt.origin, receipt.watermark) != receipt.host_crc:
                return None
            mark = Mark.of(receipt.watermark, *read_ends(descriptor, receipt.watermark))
            source = new_source(receipt.file, os.fstat(descriptor), origin=receipt.origin, mark=mark)
        except OSError as error:
            events.file_unreadable(path=seen.path, error=error.strerror or str(error))
            return None
    point = Point(0, receipt.watermark, receipt.host_crc)
    return replace(source, id=receipt.source, offset=point.offset, crc=point.crc, ring=(point,))
