"""Which hosts move when the map changes, and the skew of the partitions before and after. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shipper.partition_map import PartitionMap


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMove:
    """One host that changes its partition."""

    host: str
    before: int
    after: int
    bytes: int  #: that the streams hold of it


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlan:
    """The effect of a new map on the known hosts."""

    before: PartitionMap
    after: PartitionMap
    weights: Mapping[str, int]  #: bytes in the streams, by host
    creates: tuple[int, ...]  #: partitions that need a stream
    retires: tuple[int, ...]  #: partitions whose streams are no longer needed

    @property
    def moves(self) -> list[HostMove]:
        """The hosts that move, the heaviest first."""
        found = [
            HostMove(
                host=host, before=self.before.partition_of(host), after=self.after.partition_of(host), bytes=weight
            )
            for host, weight in self.weights.items()
        ]
        return sorted((move for move in found if move.before != move.after), key=lambda move: (-move.bytes, move.host))

    @property
    def is_new(self) -> bool:
        """Whether the map has to be written: it differs from the desired one."""
        return self.after.version != self.before.version

    @property
    def changes(self) -> bool:
        """Whether anything is left to do, as far as the streams show."""
        return bool(self.is_new or self.creates or self.retires)


def loads(known: PartitionMap, weights: Mapping[str, int]) -> dict[int, int]:
    """Bytes by partition, of every partition that the map uses."""
    sums: Counter[int] = Counter(dict.fromkeys(known.used, 0))
    for host, weight in weights.items():
        sums[known.partition_of(host)] += weight
    return dict(sorted(sums.items()))


def skew(sums: Iterable[int]) -> float:
    """How many times the mean the fullest partition has: 1.0 is even; 1.0 too where there is nothing."""
    values = list(sums)
    total = sum(values)
    return max(values) * len(values) / total if total else 1.0
