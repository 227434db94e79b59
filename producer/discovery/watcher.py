"""Hints about changed files. No hints come for writes of other machines to a shared file system.

What ends the producer's sleep early: acks, a stop, and the kernel's hints. The only importer of watchdog.

Hints are never needed: scans find all changes, at short intervals where no hints come, else at long ones. One
inotify instance serves all directories (a host has 128 by default), in the event loop; events of busy files are merged
while the loop does not read them.
"""

import asyncio
import contextlib
import ctypes
import errno
import functools
import os
import re
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from shipper import events

REMOTE = (
    {"9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "fuse", "glusterfs", "gpfs", "lustre", "mfs", "ncpfs"}
    | {"nfs", "nfs4", "ocfs2", "orangefs", "panfs", "prl_fs", "pvfs2", "smb3", "smbfs"}
    | {"vboxsf", "virtiofs", "vmhgfs"}
)
"""Types in mountinfo. A type with a dot, as `fuse.sshfs`, counts by what is before it."""


def remote_devices(mountinfo: str = "/proc/self/mountinfo") -> set[int]:
    """The device numbers of file systems that other machines may write to. Empty if the kernel does not list them."""
    try:
        with open(mountinfo, encoding="utf-8", errors="replace") as lines:
            return {device for line in lines if (device := _remote_device(line)) is not None}
    except OSError:
        return set()


def _remote_device(line: str) -> int | None:
    """36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue: see proc(5)."""
    mount, _, source = line.partition(" - ")
    kind = source.partition(" ")[0].partition(".")[0]
    device = re.search(r" (\d+):(\d+) ", mount)
    return os.makedev(int(device[1]), int(device[2])) if device and kind in REMOTE else None


MAX_HINTS = 5000
"""Maximum number of changed files between two scans. More cause a full scan."""
PAUSE_SECONDS = 0.03
"""Between two reads of events: a file that is written without a pause costs one event, not one for each write."""
READ_BYTES = 64 * 1024
"""Maximum bytes of one read of events; while more are there, the next read does not pause."""
_EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows


class Wake:
    """One event that many can set. `rouse` from the loop, `hint` from any thread."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._grown: set[str] = set()
        self.names_changed = False

    def rouse(self) -> None:
        """End the sleep."""
        self._event.set()

    def hint(self, path: str | None) -> None:
        """A file changed, or (None) names did. Ends the sleep if it is the first of its kind since they were taken."""
        with self._lock:
            before = (bool(self._grown), self.names_changed)
            if path is None or len(self._grown) >= MAX_HINTS:
                self.names_changed = True
            else:
                self._grown.add(path)
            is_news = (bool(self._grown), self.names_changed) != before
        if not is_news or self._event.is_set():
            return
        if threading.get_ident() == self._thread:
            self._event.set()
        else:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._event.set)

    @property
    def has_grown(self) -> bool:
        """Whether hints came for changed files."""
        return bool(self._grown)

    @property
    def grown(self) -> frozenset[str]:
        """The files that changed since they were taken."""
        with self._lock:
            return frozenset(self._grown)

    def take_grown(self) -> set[str]:
        """The files that changed since the last call."""
        with self._lock:
            grown, self._grown = self._grown, set()
        return grown

    async def wait(self, at_most: float) -> None:
        """Sleep until the event is set, at most `at_most` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most):
                await self._event.wait()
        self._event.clear()


class Watcher:
    """Turns the kernel's notifications into hints. Trouble only costs the hints. Owned by the event loop.

    `is_name`: whether a path is known to lead to a file. `concerns`: whether a path that comes or goes matters at all.
    `pause`: seconds between two reads of events. `mutes`: whether writes in a directory are not reported after the
    first one, until `unmute`: all of its files are checked then.
    """

    def __init__(
        self,
        wake: Wake,
        *,
        is_name: Callable[[str], bool],
        concerns: Callable[[str], bool],
        pause: Callable[[], float] = lambda: PAUSE_SECONDS,
        mutes: Callable[[str], bool] = lambda _directory: False,
    ) -> None:
        self._wake = wake
        self._is_name = is_name
        self._concerns = concerns
        self._pause = pause
        self._mutes = mutes
        self._loop = asyncio.get_running_loop()
        self._descriptor = -1
        self._directories: dict[int, set[str]] = {}  # by watch; several names may lead to one directory
        self._muted: dict[int, str] = {}
        self._remote: set[str] = set()
        self._logged: set[str] = set()
        self._reading: asyncio.TimerHandle | None = None

    def watch(self, directories: Iterable[str]) -> set[str]:
        """Watch exactly these directories, and for one that is not there yet the nearest above it.

        Every call adds each watch again: a directory that was replaced has another watch then. Returns those
        of which no hint can come. Where a watch is new, what happened before is unknown: names count as changed.
        """
        if self._descriptor < 0 and not self._open():
            return set(directories)
        before, self._directories, self._muted = self._directories, {}, {}
        blind = {directory for directory in directories if not self._watch_nearest(directory, before)}
        for watch in before.keys() - self._directories.keys():
            _inotify().inotify_rm_watch(self._descriptor, watch)
        if self._directories.keys() - before.keys():
            self._wake.hint(None)
        return blind

    @property
    def muted(self) -> Iterable[str]:
        """The directories of which no write is reported now."""
        return self._muted.values()

    def unmute(self) -> list[str]:
        """Report writes again. Returns the directories in which files may have changed."""
        muted, self._muted = self._muted, {}
        for watch, directory in muted.items():
            self._set_mask(watch, directory, _mask())
        return list(muted.values())

    def _set_mask(self, watch: int, directory: str, mask: int) -> bool:
        """Change what is reported of a directory. False: the directory was replaced."""
        if _inotify().inotify_add_watch(self._descriptor, os.fsencode(directory), mask) == watch:
            return True
        self._wake.hint(None)
        return False

    def close(self) -> None:
        """Watch nothing any more."""
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
        self._descriptor, self._directories, self._muted = -1, {}, {}

    # -- watches ------------------------------------------------------------------------------------------------

    def _open(self) -> bool:
        inotify_c = _inotify()
        if inotify_c is None:
            return False
        descriptor = inotify_c.inotify_init()
        if descriptor < 0:
            self._log_once(ctypes.get_errno(), "inotify")
            return False
        self._descriptor = descriptor
        os.set_inheritable(descriptor, False)
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._read)
        return True

    def _watch_nearest(self, directory: str, before: dict[int, set[str]]) -> bool:
        """Whether hints come of `directory`, or of where it will be made."""
        number = self._watch(directory, before)
        while number in {errno.ENOENT, errno.ENOTDIR} and directory != os.path.dirname(directory):
            directory = os.path.dirname(directory)
            number = self._watch(directory, before)
        if number:
            self._log_once(number, directory)
        return number == 0

    def _watch(self, directory: str, before: dict[int, set[str]]) -> int:
        """The number of the error. 0: hints come. EREMOTE: other machines write there, and no hint comes of that."""
        if directory in self._remote and _is_remote(directory):
            return errno.EREMOTE
        watch = _inotify().inotify_add_watch(self._descriptor, os.fsencode(directory), _mask())
        if watch < 0:
            return ctypes.get_errno() or errno.EIO
        if watch not in before and watch not in self._directories and _is_remote(directory):
            _inotify().inotify_rm_watch(self._descriptor, watch)
            self._remote.add(directory)
            return errno.EREMOTE
        self._directories.setdefault(watch, set()).add(directory)
        return 0

    def _log_once(self, number: int, where: str) -> None:
        """Once a kind of trouble."""
        kind = errno.errorcode.get(number, str(number))
        if kind not in self._logged:
            self._logged.add(kind)
            events.watching_failed(error=f"{where}: {_REASONS.get(number) or os.strerror(number)}")

    # -- hints --------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Turn the kernel's notifications into hints. While some come, pause, so that the kernel merges them."""
        try:
            data = os.read(self._descriptor, READ_BYTES)
        except BlockingIOError:
            if self._reading is not None:
                self._reading = None
                self._loop.add_reader(self._descriptor, self._read)
            return
        except OSError as error:
            self._log_once(error.errno or errno.EIO, "inotify")
            self.close()
            self._wake.hint(None)
            return
        for watch, mask, name in set(_events(data)):
            self._on_event(watch, mask, name)
        if self._descriptor < 0:
            return
        if self._reading is None:
            self._loop.remove_reader(self._descriptor)
        self._reading = self._loop.call_later(self._pause() if len(data) < READ_BYTES // 2 else 0, self._read)

    def _on_event(self, watch: int, mask: int, name: bytes) -> None:
        kinds = _inotify().InotifyConstants
        if mask & (
            kinds.IN_Q_OVERFLOW | kinds.IN_IGNORED | kinds.IN_UNMOUNT | kinds.IN_DELETE_SELF | kinds.IN_MOVE_SELF
        ):
            if watch in self._directories or mask & kinds.IN_Q_OVERFLOW:
                self._wake.hint(None)
            if mask & kinds.IN_IGNORED:
                self._directories.pop(watch, None)
                self._muted.pop(watch, None)
            return
        directories = self._directories.get(watch, set())
        for directory in directories:
            path = os.path.join(directory, os.fsdecode(name))
            if mask & kinds.IN_MODIFY:
                if self._is_name(path):
                    self._wake.hint(path)
                    is_kept = len(directories) > 1 or watch in self._muted or not self._mutes(directory)
                    if not is_kept and self._set_mask(watch, directory, _mask(writes=False)):
                        self._muted[watch] = directory
            elif self._is_name(path) or self._concerns(path):
                self._wake.hint(None)


@functools.cache
def _inotify() -> Any:
    """The kernel's notifications as watchdog has them. None: there are none here.

    Imported when a directory is to be watched: a tenth of a program's start that `--once` need not wait for.
    """
    try:
        from watchdog.observers import inotify_c  # noqa: PLC0415
    except Exception:  # noqa: BLE001 - another system than Linux, or another libc: watchdog raises several kinds
        return None
    return inotify_c


def _events(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Watch, kind and name of each event in the notifications."""
    at = 0
    while at + _EVENT.size <= len(data):
        watch, mask, _cookie, length = _EVENT.unpack_from(data, at)
        at += _EVENT.size + length
        yield watch, mask, data[at - length : at].rstrip(b"\0")


def _mask(*, writes: bool = True) -> int:
    kinds = _inotify().InotifyConstants
    names = kinds.IN_CREATE | kinds.IN_DELETE | kinds.IN_MOVED_FROM | kinds.IN_MOVED_TO
    return int(
        (kinds.IN_MODIFY if writes else 0) | names | kinds.IN_DELETE_SELF | kinds.IN_MOVE_SELF | kinds.IN_ONLYDIR
    )


def _is_remote(directory: str) -> bool:
    try:
        return os.stat(directory).st_dev in remote_devices()
    except OSError:
        return False


_REASONS = {
    errno.ENOSPC: "fs.inotify.max_user_watches is used up",
    errno.EMFILE: "fs.inotify.max_user_instances is used up",
    errno.EREMOTE: "other machines may write there, and the kernel does not notify of that",
}
