"""The first partition of a host: where its messages are, or where the partition map or SHIPPER_PARTITIONS sends it.

Afterwards the checkpoint remembers the partition, and only the partition map moves the host to another one.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from producer.model import Source
from producer.receipts import receipt_of, surviving
from shipper.errors import StreamMissing
from shipper.model import Stored
from shipper.partition_map import MAX_PARTITIONS, PartitionMap
from shipper.ports import Publisher
from shipper.subjects import log_subject, stream_name


class PartitionState(NamedTuple):
    """A partition that has a stream, and the newest message of the host there."""

    partition: int
    last: Stored | None

    @property
    def has_block(self) -> bool:
        """Whether the newest message is a block."""
        return self.last is not None and receipt_of(self.last) is not None


async def partitions_there(
    publisher: Publisher, prefix: str, host: str, known: PartitionMap | None, *, first: int = 0
) -> list[PartitionState]:
    """Every partition with a stream. Without a map: partition `first`, and those from 0 on without an interruption."""
    found = []
    for number in sorted(known.used) if known else [first, *(n for n in range(MAX_PARTITIONS) if n != first)]:
        try:
            last = await publisher.last_stored_in(stream_name(prefix, number), log_subject(prefix, number, host))
        except StreamMissing:
            if known or number == first:
                continue
            break
        found.append(PartitionState(number, last))
    return found


def past_of(seen: Iterable[PartitionState], known: Mapping[str, Source]) -> int | None:
    """The partition in which a host shipped: which acknowledged the `known` sources, or holds its newest block.

    None: no stream holds a message that proves it.
    """
    with_blocks = [each for each in seen if each.has_block]
    acknowledged = max((source.sequence for source in known.values()), default=0)
    if acknowledged:
        with_blocks = [each for each in with_blocks if _acknowledged(each.last, known) >= acknowledged]
    newest = max(with_blocks, key=lambda each: each.last.time_ns if each.last else 0, default=None)
    return newest.partition if newest else None


def _acknowledged(last: Stored | None, known: Mapping[str, Source]) -> int:
    newest = receipt_of(last) if last else None
    return surviving(last, known) if newest and newest.source in known else 0
