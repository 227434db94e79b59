"""The senders of a syslog listener, each with a spool of its own, and so with a file of its own in the archive.

Addresses of UDP can be forged, so the number of files is bounded: what comes from further senders goes into the file
of the listener, with the address in front of each line. The spool of a silent sender ends: another may have one then.
"""

import contextlib
import enum
import ipaddress
import math
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from producer.inputs.spool import Progress, Spool


class Sender(enum.Enum):
    """What is kept of the address that a message came from. Of a unix socket there is none."""

    LEFT_OFF = "none"
    LINE = "line"  #: it stands before the message, with a blank after it
    FILE = "file"  #: the sender has a file of its own


def address_of(peer: object) -> str:
    """The address of a peer of a socket. Empty: it has none. One of IPv4 is the same over a socket of IPv6."""
    if not isinstance(peer, tuple):
        return ""
    with contextlib.suppress(ValueError):
        if mapped := getattr(ipaddress.ip_address(peer[0]), "ipv4_mapped", None):
            return str(mapped)
    return str(peer[0])


def with_address(address: str, lines: bytes) -> bytes:
    """Whole lines, each with the address and a blank in front. As they are where there is no address."""
    before = f"{address} ".encode()
    return before + lines[:-1].replace(b"\n", b"\n" + before) + b"\n" if address and lines else lines


MAX_SENDERS = 1000
"""Files of senders of one listener at the same time."""
IDLE_SECONDS = 600.0
"""Seconds without a message after which the files of a sender end. Its next message begins another one."""
FOLDER = ".from/"
"""Between the name of a listener and the address of a sender, in the name of the sender's file."""


@dataclass(slots=True)
class _Known:
    spool: Spool
    last_message: float  #: monotonic; infinite: it is being written to


class Senders:
    """The spools of the senders. The input's thread writes to them, the event loop ends them.

    `open_spool`: by the archive name. `left`: spools of earlier runs, of senders that are silent until they send.
    """

    def __init__(
        self,
        listener: str,
        open_spool: Callable[[str], Spool],
        close_spool: Callable[[Spool], None],
        left: Sequence[Spool] = (),
        *,
        limit: int = MAX_SENDERS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._listener = listener
        self._open_spool = open_spool
        self._close_spool = close_spool
        self.limit = limit
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._known = {spool.name: _Known(spool, -math.inf) for spool in left}
        self._stopped = False

    @property
    def spools(self) -> tuple[Spool, ...]:
        """Those of now."""
        with self._lock:
            return tuple(known.spool for known in self._known.values())

    @contextlib.contextmanager
    def writing(self, address: str) -> Iterator[Spool | None]:
        """The spool of a sender, which does not end inside the block. None: the bound is reached, or no address."""
        known = self._begun(address) if address else None
        try:
            yield known.spool if known else None
        finally:
            if known:
                known.last_message = time.monotonic()

    def stop(self) -> None:
        """End all waiting."""
        with self._lock:
            self._stopped = True
            for known in self._known.values():
                known.spool.stop()

    def end_idle(self, progress: Progress) -> None:
        """End the files of silent senders, and delete the spools of which everything is shipped."""
        latest = time.monotonic() - self._idle_seconds
        with self._lock:
            for name, known in list(self._known.items()):
                if known.last_message > latest:
                    continue
                known.spool.finish()
                if known.spool.is_empty and known.spool.is_over(progress):
                    known.spool.close()
                    known.spool.leave()
                    shutil.rmtree(known.spool.directory, ignore_errors=True)
                    del self._known[name]
                    self._close_spool(known.spool)

    def _begun(self, address: str) -> _Known | None:
        """What is written to from now on."""
        name = self._listener + FOLDER + address
        with self._lock:
            known = self._known.get(name)
            if known is None:
                if len(self._known) >= self.limit:
                    return None
                known = self._known[name] = _Known(self._open_spool(name), math.inf)
                if self._stopped:
                    known.spool.stop()
            known.last_message = math.inf
            known.spool.resume()
            return known
