"""A thread that reads from a medium and appends to a spool. It can be stopped at any time, and never dies silently."""

import fcntl
import os
import struct
import termios
import threading
from abc import ABC, abstractmethod

from producer.inputs.spool import Progress, Spool
from shipper import events
from shipper.errors import Fatal, ShipperError

STOP_SECONDS = 1.0


class Reader(ABC):
    """One input. `prepare` in the caller's thread, `read` in its own, `close` when that ends."""

    ends = False  #: whether the medium has an end

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self._stopping = threading.Event()
        self._ending = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)  # readable after a request to end
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"input {spool.name}", daemon=True)

    def start(self) -> None:
        """Begin to read. Raises ConfigError: the medium cannot be opened."""
        self.prepare()
        self._thread.start()
        events.input_started(input=self.spool.name)

    def stop(self) -> None:
        """Request the end. Does not wait for it."""
        self._stopping.set()
        self.spool.stop()
        if self._ending >= 0:
            os.eventfd_write(self._ending, 1)

    def join(self) -> None:
        """Wait until it has ended, but not for ever."""
        if self._thread.ident is not None:
            self._thread.join(STOP_SECONDS)
        if self._ending >= 0 and not self.is_reading:
            os.close(self._ending)
            self._ending = -1

    @property
    def is_reading(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def check(self) -> None:
        """Raises Fatal: the thread could not go on."""
        if isinstance(self._failure, ShipperError):
            raise self._failure
        if self._failure is not None:
            raise Fatal(
                f"input {self.spool.name} failed: {type(self._failure).__name__}: {self._failure}",
                hint="what was read before is shipped by the next start",
            ) from self._failure

    @abstractmethod
    def prepare(self) -> None:
        """Open the medium. Raises ConfigError."""

    @abstractmethod
    def read(self) -> None:
        """Read until the medium ends or `_stopping` is set. `_ending` becomes readable then."""

    @abstractmethod
    def release(self) -> None:
        """Close the medium."""

    @property
    def spools(self) -> tuple[Spool, ...]:
        """What it appends to."""
        return (self.spool,)

    def end_idle(self, progress: Progress) -> None:  # noqa: B027 - most inputs have one spool, for as long as they run
        """End the spools that need not be any more."""

    def append(self, data: bytes, spool: Spool | None = None) -> None:
        """Append the bytes that were read. What cannot be written before a stop is lost, and logged as lost."""
        spool = spool or self.spool
        lost = spool.append(data)
        if lost:
            events.bytes_lost(file=spool.name, lost=lost, reason="spool")

    def _run(self) -> None:
        try:
            self.read()
        except BaseException as error:  # noqa: BLE001 - the pipeline raises it
            self._failure = error
        finally:
            self.release()
            if self.ends:
                self.spool.finish()
            self.spool.news()


def unread_bytes(descriptor: int) -> int:
    """The bytes that the kernel holds for an open pipe or socket."""
    (unread,) = struct.unpack("=i", fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))
    return int(unread)
