"""What `tail` and `replay` do with a fleet's log: the last lines, all of them, at some speed, and what comes.

The lines go to standard output, a file or a subject, without ever stopping the event loop.
"""

import asyncio
import os
import select
import stat
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from consumer.logview.display import Form, Printer, Screen, shown_time
from consumer.logview.log_reader import FleetLog
from consumer.logview.query import Last, Piece, Sieve, Wanted
from shipper.codec import encode_path
from shipper.errors import ConfigError
from shipper.jetstream.publisher import Republisher
from shipper.layout import NANOSECONDS
from shipper.settings import NatsSettings

PIPE_BYTES = 4096
"""Bytes that a pipe with free space takes without waiting (PIPE_BUF)."""
FILE_BYTES = 1024 * 1024
_GONE = select.POLLERR | select.POLLHUP | select.POLLNVAL


class Outlet:
    """A descriptor to write to, which it does not own. Raises BrokenPipeError: the reader is gone."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._most = FILE_BYTES if stat.S_ISREG(os.fstat(descriptor).st_mode) else PIPE_BYTES

    async def write(self, data: bytes) -> None:
        """Write all of `data`; other tasks run while the pipe is full."""
        left = memoryview(data)
        while left:
            await self._room()
            try:
                left = left[os.write(self._descriptor, left[: self._most]) :]
            except BlockingIOError:  # another process made it non-blocking, and was faster
                continue
            except BrokenPipeError:  # without its number: typer would end the program with 1 where it sees EPIPE
                raise BrokenPipeError from None

    def check(self) -> None:
        """Raise BrokenPipeError if the reader is gone; otherwise only the next line would show it."""
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


STDOUT = 1


class Receiver(Protocol):
    """Takes pieces, one after the other."""

    async def take(self, piece: Piece) -> None:
        """Write it. Raises BrokenPipeError: the reader is gone."""
        ...

    def check(self) -> None:
        """Raise BrokenPipeError if the reader is gone."""
        ...


class Printed(AbstractAsyncContextManager["Printed"]):
    """Standard output, or a file."""

    def __init__(self, outlet: Outlet | FileOutlet, form: Form, screen: Screen) -> None:
        self._outlet = outlet
        self._printer = Printer(form, screen)

    @classmethod
    def on_stdout(cls, form: Form, screen: Screen) -> "Printed":
        """Writes to standard output."""
        return cls(Outlet(STDOUT), form, screen)

    @classmethod
    def in_file(cls, path: Path, form: Form) -> "Printed":
        """Replaces a file. Raises ConfigError: it cannot be written."""
        return cls(FileOutlet(path), form, Screen.PROGRAM)

    async def take(self, piece: Piece) -> None:
        """Write it."""
        await self._outlet.write(self._printer.render(piece))

    def check(self) -> None:
        """Raise BrokenPipeError if the reader is gone."""
        self._outlet.check()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await self._outlet.write(self._printer.close())
        self._outlet.close()


class Sent(AbstractAsyncContextManager["Sent"]):
    """A subject, a message a line, without the newline; headers name the origin of the line.

    `{host}` in the subject is the host of the line.
    """

    def __init__(self, settings: NatsSettings, subject: str) -> None:
        self._settings = settings
        self._subject = subject
        self._republisher: Republisher | None = None

    async def __aenter__(self) -> "Sent":
        self._republisher = await Republisher.open(self._settings)
        return self

    async def take(self, piece: Piece) -> None:
        """Send its lines."""
        assert self._republisher is not None  # noqa: S101 - within `async with`
        subject = self._subject.replace("{host}", piece.host)
        headers = {"Replay-Host": piece.host, "Replay-File": encode_path(piece.file)}
        for line in piece.lines():
            stored = {"Replay-Time": shown_time(line.time_ns)}
            await self._republisher.send(subject, headers | stored, line.text.removesuffix(b"\n"))

    def check(self) -> None:
        """A subject has no reader that may go away."""

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._republisher is not None:
            try:
                if kind is None:
                    await self._republisher.finish()
            finally:
                await self._republisher.close()


FIRST_WINDOW_SECONDS = 10
WIDER = 8
WIDEST_SECONDS = 14 * 86400


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast stored lines are written: a second of them in `1 / factor` seconds; 0: as fast as it goes."""

    factor: float = 0.0

    def due(self, since_first_ns: int) -> float:
        """Seconds after the first piece at which a piece is due that was stored so much later."""
        return since_first_ns / NANOSECONDS / self.factor if self.factor else 0.0


async def tell_stored(log: FleetLog, wanted: Wanted, sieve: Sieve, receiver: Receiver, *, pace: Pace) -> None:
    """Everything that is stored and meant, oldest first."""
    first_ns, begun = None, time.monotonic()
    async for piece in log.stored(wanted.since_ns, wanted.until_ns):
        for each in sieve.take(piece):
            if first_ns is None:
                first_ns, begun = each.time_ns, time.monotonic()
            await _until(begun + pace.due(each.time_ns - first_ns), receiver)
            await receiver.take(each)


async def tell_last(log: FleetLog, wanted: Wanted, sieve: Sieve, receiver: Receiver, *, lines: int) -> None:
    """The last lines that are stored and meant: goes back in growing steps until it has so many."""
    for since_ns in _windows(wanted):
        last = Last(lines)
        async for piece in _sifted(log.stored(since_ns, wanted.until_ns), sieve):
            last.add(piece)
        if last.full or since_ns == wanted.since_ns:
            for piece in last.pieces():
                await receiver.take(piece)
            return


async def tell_coming(log: FleetLog, sieve: Sieve, receiver: Receiver) -> None:
    """New lines, until it is cancelled."""
    async for piece in _sifted(log.follow(receiver.check), sieve):
        await receiver.take(piece)


async def _sifted(pieces: AsyncGenerator[Piece], sieve: Sieve) -> AsyncGenerator[Piece]:
    async for piece in pieces:
        for each in sieve.take(piece):
            yield each


async def _until(moment: float, receiver: Receiver) -> None:
    """Sleep until `moment` of the monotonic clock, unless the reader is gone."""
    while (left := moment - time.monotonic()) > 0:
        receiver.check()
        await asyncio.sleep(min(left, 1.0))


def _windows(wanted: Wanted) -> Iterator[int]:
    """Times (ns) to read from, latest first; the last one is the requested time."""
    now_ns = wanted.until_ns or time.time_ns()
    seconds = FIRST_WINDOW_SECONDS
    while seconds < WIDEST_SECONDS and (since_ns := now_ns - seconds * NANOSECONDS) > wanted.since_ns:
        yield since_ns
        seconds *= WIDER
    yield wanted.since_ns
