"""Where a host stands: the partition that it publishes in, and the version of the map by which it does. Pure."""

from dataclasses import dataclass, replace

from shipper.partition_map import PartitionMap


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A partition, as the checkpoint knows it.

    Once `leaving` is durable nothing more is published there: the old partition drops what comes behind the marker.
    """

    partition: int
    version: int = 0  #: of the map; 0: there was none, SHIPPER_PARTITIONS counts
    leaving: int = 0  #: the version of the move marker, while the old partition is not done with this host; 0: it stays

    def under(self, known: PartitionMap, host: str) -> "Place":
        """Where `host` belongs by the map; itself, if the map is not newer."""
        if known.version <= max(self.version, self.leaving - 1):
            return self
        return Place(partition=known.partition_of(host), version=known.version)

    def left_for(self, version: int) -> "Place":
        """The same place with its marker to be published."""
        return replace(self, leaving=version)
