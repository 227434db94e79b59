"""What ends the producer's sleep early: acks, a stop, and watchdog's hints. The only importer of watchdog.

Hints are never needed: the loop looks for itself at every poll, and is right with watchdog switched off.
"""

import asyncio
import contextlib
import os
from collections.abc import Iterable

from watchdog.events import (
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer

from shipper import events

MAX_HINTS = 1000
"""More changed files than this between two looks: look at all of them."""


class Wake:
    """One event that many can set; `set` from the loop, `hint` from any thread."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._grown: set[str] = set()
        self.names_changed = False

    def rouse(self) -> None:
        """End the sleep."""
        self._event.set()

    def hint(self, path: str | None) -> None:
        """A file changed, or (None) names did. Called by the watcher's thread."""
        if path is None or len(self._grown) >= MAX_HINTS:
            self.names_changed = True
        else:
            self._grown.add(path)
        if not self._event.is_set():
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._event.set)

    @property
    def has_hints(self) -> bool:
        """Whether a file is said to have changed."""
        return bool(self._grown) or self.names_changed

    def take_grown(self) -> set[str]:
        """The files that changed since the last call."""
        grown, self._grown = self._grown, set()
        return grown

    async def wait(self, at_most: float) -> None:
        """Sleep until somebody sets the event, at most `at_most` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most):
                await self._event.wait()
        self._event.clear()


class Watcher:
    """Turns the kernel's notifications into hints, for the directories that exist; trouble only costs the hints."""

    def __init__(self, wake: Wake) -> None:
        self._wake = wake
        self._observer = Observer()
        self._watched: set[str] = set()
        self._broken = False

    def watch(self, directories: Iterable[str]) -> None:
        """Watch these directories from now on, too."""
        for name in set(directories) - self._watched:
            if self._broken:
                return
            try:
                self._observer.schedule(
                    _Hints(self._wake),
                    name,
                    event_filter=[FileModifiedEvent, FileCreatedEvent, FileMovedEvent, FileDeletedEvent],
                )
                if not self._observer.is_alive():
                    self._observer.start()
            except (OSError, RuntimeError) as error:
                self._broken = True  # for example ENOSPC: fs.inotify.max_user_watches is used up
                events.watching_failed(error=str(error))
                return
            self._watched.add(name)

    def close(self) -> None:
        """Stop the watcher's threads."""
        if self._observer.is_alive():
            self._observer.stop()
            self._observer.join(timeout=1.0)


class _Hints(FileSystemEventHandler):
    def __init__(self, wake: Wake) -> None:
        self._wake = wake

    def dispatch(self, event: FileSystemEvent) -> None:
        self._wake.hint(os.fsdecode(event.src_path) if event.event_type == "modified" else None)
