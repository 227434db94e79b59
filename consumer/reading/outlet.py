"""Where bytes go: standard output or a file, without ever stopping the event loop."""

import asyncio
import os
import select
import stat
from pathlib import Path

from shipper.errors import ConfigError

PIPE_BYTES = 4096
"""A pipe that has room takes so many without waiting (PIPE_BUF)."""
FILE_BYTES = 1024 * 1024
_GONE = select.POLLERR | select.POLLHUP | select.POLLNVAL


class Outlet:
    """A descriptor to write to, which it does not own. Raises BrokenPipeError where nobody reads any more."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._most = FILE_BYTES if stat.S_ISREG(os.fstat(descriptor).st_mode) else PIPE_BYTES

    async def write(self, data: bytes) -> None:
        """Write all of `data`; while nobody takes it, others go on."""
        left = memoryview(data)
        while left:
            await self._room()
            try:
                left = left[os.write(self._descriptor, left[: self._most]) :]
            except BlockingIOError:  # somebody else made it non-blocking, and was faster
                continue
            except BrokenPipeError:  # without its number: typer would end the program with 1 where it sees EPIPE
                raise BrokenPipeError from None

    def check(self) -> None:
        """Raise BrokenPipeError if nobody reads any more; else that is noticed with the next line only."""
        events = dict(self._poll.poll(0)).get(self._descriptor, 0)
        if events & _GONE:
            raise BrokenPipeError

    def close(self) -> None:
        """Nothing waits to be written."""

    async def _room(self) -> None:
        while not (events := dict(self._poll.poll(0)).get(self._descriptor, 0)) & select.POLLOUT:
            if events & _GONE:
                raise BrokenPipeError
            await self._writable()
        if events & _GONE:
            raise BrokenPipeError

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        writable = asyncio.Event()
        loop.add_writer(self._descriptor, writable.set)
        try:
            await writable.wait()
        finally:
            loop.remove_writer(self._descriptor)


class FileOutlet:
    """A file to write to; it is replaced."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = path.open("wb")
        except OSError as error:
            raise ConfigError(f"cannot write {path}: {error.strerror}", hint="name another file") from None

    async def write(self, data: bytes) -> None:
        """Write all of `data`."""
        self._file.write(data)

    def check(self) -> None:
        """A file has no reader that may go away."""

    def close(self) -> None:
        """What was written is in the file. Raises OSError."""
        self._file.close()
