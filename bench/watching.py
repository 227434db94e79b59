"""A collector while it is measured: its CPU, memory, descriptors, and its lag."""

import asyncio
import os
import subprocess
import time

from machine import cpu_seconds, peak_mib

from shipper.jetstream.admin import administration
from shipper.settings import NatsSettings
from shipper.subjects import COLLECTOR, stream_name

EVERY_SECONDS = 0.5


class Watch:
    """Samples of one process and of the streams that it reads."""

    def __init__(self, pid: int, url: str, partitions: int) -> None:
        self.pid = pid
        self.most_lag = self.most_descriptors = 0
        self._url = url
        self._partitions = partitions
        self._cpu_before, self._began = cpu_seconds(pid), time.monotonic()

    def until_empty(self, feeding: "subprocess.Popen[bytes]") -> float:
        """Watch until the feeder has ended and all that it sent is archived; seconds between the two."""
        fed_at = 0.0
        while True:
            lag = asyncio.run(lag_of(self._url, self._partitions))
            self.most_lag = max(self.most_lag, lag)
            self.most_descriptors = max(self.most_descriptors, len(os.listdir(f"/proc/{self.pid}/fd")))
            if not fed_at and feeding.poll() is not None:
                fed_at = time.monotonic()
            elif fed_at and lag == 0:
                return time.monotonic() - fed_at
            time.sleep(EVERY_SECONDS if not fed_at else EVERY_SECONDS / 5)

    @property
    def cpu(self) -> float:
        """CPU seconds a second since the beginning."""
        return (cpu_seconds(self.pid) - self._cpu_before) / (time.monotonic() - self._began)

    @property
    def peak_mib(self) -> float:
        """The most memory that the process ever had, its interpreter included."""
        return peak_mib(self.pid)


async def lag_of(url: str, partitions: int) -> int:
    """Messages that no collector has acknowledged."""
    lag = 0
    async with administration(NatsSettings(url=(url,))) as admin:
        for partition in range(partitions):
            found = await admin.consumer(stream_name("logs", partition), COLLECTOR)
            state = await admin.stream(stream_name("logs", partition))
            assert found is not None
            assert state is not None
            lag += state["state"]["last_seq"] - found["ack_floor"]["stream_seq"]
    return lag
