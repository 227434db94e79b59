"""Who gets the lines: standard output, a file, or a subject."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from consumer.reading.outlet import FileOutlet, Outlet
from consumer.reading.piece import Piece
from consumer.reading.show import Form, Printer, Screen, shown_time
from shipper.codec import encode_path
from shipper.jetstream.repeating import Repeater
from shipper.settings import NatsSettings

STDOUT = 1


class Receiver(Protocol):
    """Takes pieces, one after the other."""

    async def take(self, piece: Piece) -> None:
        """Write it. Raises BrokenPipeError: nobody reads any more."""
        ...

    def check(self) -> None:
        """Raise BrokenPipeError if nobody reads any more."""
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
        """Raise BrokenPipeError if nobody reads any more."""
        self._outlet.check()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await self._outlet.write(self._printer.close())
        self._outlet.close()


class Sent(AbstractAsyncContextManager["Sent"]):
    """A subject, a message a line, without the newline; headers say where the line comes from.

    `{host}` in the subject is the host of the line.
    """

    def __init__(self, settings: NatsSettings, subject: str) -> None:
        self._settings = settings
        self._subject = subject
        self._repeater: Repeater | None = None

    async def __aenter__(self) -> "Sent":
        self._repeater = await Repeater.open(self._settings)
        return self

    async def take(self, piece: Piece) -> None:
        """Send its lines."""
        assert self._repeater is not None  # noqa: S101 - within `async with`
        subject = self._subject.replace("{host}", piece.host)
        headers = {"Replay-Host": piece.host, "Replay-File": encode_path(piece.file)}
        for line in piece.lines():
            stored = {"Replay-Time": shown_time(line.time_ns)}
            await self._repeater.send(subject, headers | stored, line.text.removesuffix(b"\n"))

    def check(self) -> None:
        """A subject has no reader that may go away."""

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._repeater is not None:
            try:
                if kind is None:
                    await self._repeater.finish()
            finally:
                await self._repeater.close()
