"""The partition map: the partition of each host, with a version. Pure.

It is in the shared bucket under `map.<prefix>`. Without one, hosts use `SHIPPER_PARTITIONS` alone. A version is
never used twice: hosts and collectors use it to separate what was sent before a move from what was sent after it.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Annotated

from shipper.json_codec import IF_SET, count, items, object_in, strict, table, written

FNV_OFFSET = 0x811C9DC5
FNV_PRIME = 0x01000193
MAX_PARTITIONS = 4096


def fnv1a_32(key: bytes) -> int:
    """FNV-1a, 32 bit, as `hash/fnv` in Go and `partition()` in nats-server (server/subject_transform.go)."""
    value = FNV_OFFSET
    for octet in key:
        value = ((value ^ octet) * FNV_PRIME) & 0xFFFFFFFF
    return value


def partition_for(host: str, partitions: int) -> int:
    """The partition of `host` among `partitions`; 0 partitions mean partition 0, as in the blog's fshipper."""
    return fnv1a_32(host.encode()) % partitions if partitions > 0 else 0


FORMAT = 1
SLOTS = 256
"""Number of slots (virtual partitions): hosts hash to slots, and a table maps slots to partitions."""
_PARTITION = count(most=MAX_PARTITIONS - 1)
_NO_OVERRIDES: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMap:
    """The partition of every host."""

    version: Annotated[int, count(least=1)]
    partitions: Annotated[int, count(least=1, most=MAX_PARTITIONS)]
    overrides: Annotated[Mapping[str, int], table(_PARTITION), IF_SET] = field(
        default_factory=lambda: _NO_OVERRIDES
    )  #: by host, before anything else
    slots: Annotated[
        tuple[int, ...], items(_PARTITION), IF_SET
    ] = ()  #: the partition of each virtual one; (): FNV-1a modulo `partitions`, as the blog's

    def partition_of(self, host: str) -> int:
        """The partition that `host` belongs to."""
        if host in self.overrides:
            return self.overrides[host]
        if self.slots:
            return self.slots[fnv1a_32(host.encode()) % SLOTS]
        return partition_for(host, self.partitions)

    @property
    def used(self) -> frozenset[int]:
        """The partitions that need a stream."""
        return frozenset(range(max(1, self.partitions))) | frozenset(self.overrides.values())


def static(partitions: int) -> PartitionMap:
    """What hosts go by while there is no map: version 0."""
    return PartitionMap(version=0, partitions=max(1, partitions))


def changed(
    before: PartitionMap,
    *,
    partitions: int,
    with_slots: bool | None = None,
    overrides: Mapping[str, int] = _NO_OVERRIDES,
    without: Iterable[str] = (),
) -> PartitionMap:
    """The next map: `partitions` partitions, `overrides` added, those of the hosts `without` taken away.

    `with_slots`: by virtual slots or not; None: as before. The version is the next one; `before` itself, if nothing
    changes.
    """
    slots: Annotated[tuple[int, ...], items(_PARTITION), IF_SET] = ()
    if with_slots or (with_slots is None and before.slots):
        slots = _respread(before.slots or tuple(slot % max(1, before.partitions) for slot in range(SLOTS)), partitions)
    gone = set(without)
    kept = {host: number for host, number in before.overrides.items() if host not in gone}
    after = replace(before, partitions=partitions, overrides=kept | dict(overrides), slots=slots)
    return before if after == before else replace(after, version=before.version + 1)


def _respread(slots: tuple[int, ...], partitions: int) -> tuple[int, ...]:
    """The table for `partitions` partitions with as few slots moved as can be, spread evenly.

    Deterministic: the same input gives the same table in every program.
    """
    table = list(slots)
    least, more = divmod(SLOTS, partitions)
    counts = {number: table.count(number) for number in range(partitions)}
    largest_first = sorted(counts, key=lambda number: (-counts[number], number))
    room = {number: least + (place < more) for place, number in enumerate(largest_first)}
    homeless = []
    for slot, number in enumerate(table):
        if room.get(number, 0) > 0:
            room[number] -= 1
        else:
            homeless.append(slot)
    places = [number for number in sorted(room) for _ in range(room[number])]
    for slot, number in zip(homeless, places, strict=True):
        table[slot] = number
    return tuple(table)


def encode(known: PartitionMap) -> bytes:
    """The map as it is stored in the bucket."""
    in_order = replace(known, overrides=dict(sorted(known.overrides.items())))
    return json.dumps({"v": FORMAT, **written(in_order)}).encode()


def decode(value: bytes) -> PartitionMap | None:
    """The map that `encode` wrote; None: the bytes cannot be read, so no host moves."""
    try:
        found = strict(PartitionMap, object_in(value, version=FORMAT))
    except ValueError:
        return None
    is_sound = len(found.slots) in {0, SLOTS} and all(number < found.partitions for number in found.slots)
    return found if is_sound else None
