"""Answers requests about retired partitions, which have no stream: hosts that were offline request their receipts.

Everything of such a partition is archived, so the receipts from its journal are final.
"""

from collections.abc import Callable, Mapping
from typing import Any

from consumer.archive.directory import ArchiveLocation, try_lock
from consumer.archive.journal import Journal
from consumer.model import SourceKey
from consumer.partition.receipt_sender import RequestLimit, receipts_reply
from shipper.control import MAX_SOURCES, ReceiptsRequest, request_from_json
from shipper.subjects import control_up


class RetiredPartitions:
    """The journals of retired partitions in one archive. Owned by the collector's loop.

    `is_retired`: whether the map assigns no host to a partition, and the server has no stream for it.
    """

    def __init__(self, place: ArchiveLocation, is_retired: Callable[[int], bool]) -> None:
        self._place = place
        self._is_retired = is_retired
        self._limit = RequestLimit(None)

    async def answer(self, subject: str, question: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The last receipts of the host that requests them.

        None means that the message is no request for a retired partition.
        """
        request = request_from_json(question)
        if not isinstance(request, ReceiptsRequest) or not self._is_retired(request.partition):
            return None
        host = subject.removeprefix(control_up(""))
        if not self._limit.allows(host, request):
            return None
        place, partition, sources = self._place, request.partition, request.sources
        epoch = place.newest_epoch(partition)
        lock = try_lock(place.lock(partition, epoch), place.what(partition)) if epoch is not None else None
        if epoch is None or lock is None:  # it belongs to another archive, or its worker has not ended yet
            return None
        with lock:
            journal = Journal(place.journal(partition, epoch))
            try:
                if sources is None:
                    known = journal.sources_of(host, newest=MAX_SOURCES)
                else:
                    found = [journal.source(SourceKey(host, source)) for source in sources]
                    known = [each for each in found if each is not None]
                through = journal.position.applied
            finally:
                journal.close()
        return receipts_reply(known, place.archive, through, is_retired=True).to_json()
