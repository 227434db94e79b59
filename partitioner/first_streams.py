"""The first streams: a collector creates them on an empty server without users."""

import contextlib

from partitioner.move.cluster_state import ClusterState, MapChanged
from partitioner.topology import Sizing, shipped_template, wanted
from shipper.errors import RightMissing
from shipper.jetstream.admin import Admin
from shipper.jetstream.connection import connect
from shipper.partition_map import PartitionMap
from shipper.settings import Settings


async def create_first(settings: Settings) -> int:
    """Create the partition map and the streams on an empty server; returns how many partitions it has then.

    0: nothing was created. The server has users, a partition map, or a stream that is not shared by all partitions:
    then an administrator decides about its streams. Raises ShipperError: the server refuses a stream, or is away.
    """
    partitions, prefix = max(1, settings.logs.partitions), settings.logs.subject
    template = shipped_template()
    shared = {each.name for each in wanted(template, subject=prefix, partitions=1) if each.partition is None}
    async with await connect(settings.nats, name="fshipper first streams", inbox="_INBOX_partitioner") as connection:
        if connection.has_access_control:
            return 0
        cluster = ClusterState(connection, prefix)
        with contextlib.suppress(RightMissing):
            stored = await cluster.map()
            if stored.map is not None or set(await Admin(connection).names()) - shared:
                return 0
            await cluster.open_streams(range(partitions), template, Sizing())
            first = PartitionMap(version=stored.revision + 1, partitions=partitions)
            with contextlib.suppress(MapChanged):  # another collector creates the same
                await cluster.store_map(first, expected=stored.revision)
            return partitions
    return 0
