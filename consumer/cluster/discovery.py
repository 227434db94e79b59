"""Which partitions a collector reads: the chosen ones, or every one that has a stream."""

import contextlib
from collections.abc import Callable

from consumer.archive import Layout
from shipper import events
from shipper.errors import ConfigError, StreamMissing
from shipper.jetstream.connection import connect
from shipper.jetstream.pull_consumer import stream_names
from shipper.layout import FileKey
from shipper.settings import Settings
from shipper.subjects import partition_of_stream, stream_name

SAMPLE = FileKey("2026-01-01", 0, "host.example.net", "/var/log/messages")
"""A file to try a template with."""


class PartitionDiscovery:
    """Finds the partitions of one collector. `is_unused`: the partition map has no host in a partition any more."""

    def __init__(self, settings: Settings, layout: Layout, is_unused: Callable[[int], bool]) -> None:
        self._settings = settings
        self._layout = layout
        self._is_unused = is_unused
        self._has_checked = False  # whether the chosen partitions have streams
        self.count = 1  #: partitions that were found last, at least 1

    async def find(self) -> list[int]:
        """The chosen partitions, unless they are retired, or else every partition that has a stream.

        Raises:
            StreamMissing: there is no stream. ConfigError: the template is for one partition. Transient: no session.
        """
        found = sorted(self._settings.collector.read_partitions)
        there: list[int] = []
        if found and not self._has_checked:
            with contextlib.suppress(StreamMissing):  # the worker reports it
                there = await _streams(self._settings)
            self._has_checked = True
            if missing := sorted(set(found) - set(there)):
                events.partitions_without_stream(missing=missing, there=there)
        if not found or any(map(self._is_unused, found)):
            there = there or await _streams(self._settings)
            chosen = found or there
            found = [number for number in chosen if number in there or not self._is_unused(number)]
        check_template(self._layout, found)
        self.count = max(1, len(found))
        return found


async def _streams(settings: Settings) -> list[int]:
    """The partitions that have a stream. Raises StreamMissing: there is none."""
    prefix = settings.logs.subject
    connection = await connect(settings.nats, name="fshipper consume", inbox="_INBOX_collector")
    try:
        names = await stream_names(connection)
    finally:
        await connection.close()
    found = sorted(n for name in names if (n := partition_of_stream(prefix, name)) is not None)
    if not found:
        raise StreamMissing(
            f"the server has no stream {stream_name(prefix, 0)}, so there is nothing to read",
            hint="create the streams: fshipper partition apply --partitions N",
        )
    return found


def check_template(where: Layout, partitions: list[int]) -> None:
    """Raises ConfigError: with this template two partitions write one file, and each truncates what the other wrote."""
    if where.seals or len(partitions) < 2:  # noqa: PLR2004 - two writers
        return
    other = SAMPLE._replace(partition=1, host="other.example.net")
    if where.path(SAMPLE, 0) == where.path(other, 0):
        raise ConfigError(
            f"SHIPPER_OUTPUT (--output) {where.template!r} names one file for all partitions, each has its own writer",
            hint="put {host} or {partition} into it, or read one partition (--partitions)",
        )
