"""Standard input and FIFOs: bytes go from the pipe to the spool in the kernel, so that a kill loses none between."""

import errno
import os
import select
import stat
import sys

from producer.discovery.safe_open import FOLLOWED_BY_OWNER, Links
from producer.inputs.reader import Reader, unread_bytes
from producer.inputs.spool import Spool
from shipper.errors import ConfigError

CHUNK_BYTES = 1024 * 1024
POLL_SECONDS = 1.0
"""Seconds without data after which the path is checked for another FIFO."""
_NO_PIPE = {errno.EINVAL, errno.ENOSYS, errno.EPERM}


class Pipe(Reader):
    """Reads one open descriptor to its end, if it has one."""

    def __init__(self, spool: Spool) -> None:
        super().__init__(spool)
        self.descriptor = -1
        self._splices = True
        self._goes_on = False  #: it is the stream that the last start read

    def read(self) -> None:
        """Wait for space in the spool, wait for bytes, move them."""
        self._end_torn_line()
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        poll.register(self._ending, select.POLLIN)
        while not self._stopping.is_set() and (room := self.spool.wait_for_bytes()):
            ready = {descriptor for descriptor, _ in poll.poll(POLL_SECONDS * 1000)}
            if self.descriptor in ready and self._move(min(room, CHUNK_BYTES)) == 0:
                return
            if not ready and (replaced := self._replaced()) >= 0:
                poll.unregister(self.descriptor)
                os.close(self.descriptor)
                self.descriptor, self._goes_on = replaced, False
                poll.register(replaced, select.POLLIN)
                self._end_torn_line()

    def _replaced(self) -> int:
        """The descriptor of what took the place of the medium. -1: nothing did."""
        return -1

    def _end_torn_line(self) -> None:
        """A kill cut the last line of another stream: what comes now is no part of it."""
        if self.spool.is_torn and not self._goes_on:
            self.append(b"\n")

    def _move(self, most: int) -> int:
        """Move what there is. 0: the end."""
        try:
            if self._splices:
                return self.spool.move(self.descriptor, most)
        except BlockingIOError:
            return 1
        except OSError as error:
            if error.errno not in _NO_PIPE:
                raise
            self._splices = False  # a file, a terminal or a socket
        data = os.read(self.descriptor, most)
        self.append(data)
        return len(data)


class Stdin(Pipe):
    """Standard input, to its end."""

    ends = True

    def prepare(self) -> None:
        """Raises ConfigError: there is none."""
        self.descriptor = sys.stdin.fileno() if sys.stdin else -1
        if self.descriptor < 0 or stat.S_ISDIR(os.fstat(self.descriptor).st_mode):
            raise ConfigError("there is no standard input to read", hint="pipe something into: fshipper produce -")

    def release(self) -> None:
        """Nothing: the process that started the program owns standard input."""


class Fifo(Pipe):
    """A FIFO by its path. Open for writing, too: so it never ends, and opening it does not block."""

    def __init__(self, spool: Spool, path: str, links: Links = FOLLOWED_BY_OWNER) -> None:
        super().__init__(spool)
        self._path = path
        self._links = links

    def prepare(self) -> None:
        """Raises ConfigError: it cannot be opened."""
        try:
            self.descriptor = self._open()
        except OSError as error:
            raise ConfigError(
                f"cannot read the FIFO {self._path}: {error.strerror}",
                hint="this user needs the right to read and to write it",
            ) from None
        # Only if another process has had the FIFO open since before our start can it hold bytes already.
        self._goes_on = unread_bytes(self.descriptor) > 0

    def release(self) -> None:
        """Close it. A writer meets EPIPE until the next start."""
        os.close(self.descriptor)

    def _replaced(self) -> int:
        """Another FIFO under its name: writers find only that one. What is left in the old one is read before."""
        try:
            found = self._links.status(self._path)
            if not stat.S_ISFIFO(found.st_mode) or os.path.samestat(found, os.fstat(self.descriptor)):
                return -1
            return self._open()
        except OSError:
            return -1  # not there yet, or a link that is not followed: the next check decides

    def _open(self) -> int:
        """Raises OSError: it is no FIFO, or cannot be opened; NotFollowed: another user's link leads to it."""
        descriptor = self._links.open(self._path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):  # it was exchanged
            os.close(descriptor)
            raise OSError(errno.EINVAL, "it is no FIFO", self._path)
        return descriptor
