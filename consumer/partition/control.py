"""Requests to the collector of one partition: for receipts, and to seal every file of a closed stream."""

from collections.abc import Mapping
from typing import Any

from consumer.options import PartitionOptions
from consumer.partition.receipts import ReceiptSender, RequestLimit
from consumer.partition.sealing import SealScheduler
from shipper.control import FinishRequest, ReceiptsRequest, request_from_json
from shipper.ports import Inbox
from shipper.subjects import MOVER, control_up


class ControlRequests:
    """Answers the requests of one partition."""

    def __init__(self, options: PartitionOptions, receipts: ReceiptSender, sealing: SealScheduler) -> None:
        self._options = options
        self._receipts = receipts
        self._sealing = sealing
        self._limit = RequestLimit(options.partition)

    @property
    def refused(self) -> int:
        """Requests that were not answered."""
        return self._limit.refused

    async def listen(self, inbox: Inbox) -> None:
        """Answer requests until the session ends."""

        async def heard(subject: str, message: Mapping[str, Any]) -> Mapping[str, Any] | None:
            return await self._answer(inbox, subject.removeprefix(control_up("")), message)

        await inbox.listen(control_up(">"), heard)

    async def _answer(self, inbox: Inbox, host: str, message: Mapping[str, Any]) -> Mapping[str, Any] | None:
        match request_from_json(message):
            case ReceiptsRequest(self._options.partition) as request:
                if self._limit.may_ask(host, request):
                    left = self._sealing.departure(host, request.leaving)
                    return (await self._receipts.reply(inbox, host, request, left=left)).to_json()
            case FinishRequest(self._options.partition):
                if host != MOVER:  # no host may have the files of all hosts sealed
                    self._limit.refuse(host, "only the partitioner may ask for that")
                elif (await inbox.state()).is_closed:
                    return self._sealing.finish().to_json()
                else:
                    self._limit.refuse(host, f"stream {self._options.stream} is not closed")
        return None
