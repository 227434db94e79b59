"""When to look at the files: at what is said to have changed soon, at everything now and then, or at every poll.

Where every directory is watched, looking at everything is a safety net only; where one is not, it finds the news.

Files that grow without a hint: written by another machine, or through a name in a directory that is not watched.
"""

import math
import os
import time
from collections.abc import Callable, Container, Iterable, Mapping

from producer.discovery.patterns import ways
from producer.discovery.scanner import Key, Look
from producer.discovery.watcher import Wake, Watcher
from producer.options import Task
from producer.tailer.tailer import Tailer
from shipper import events


class UnhintedFiles:
    """Learns which files no hint tells of. One that grew unheard, and was not heard of until the next look, is one."""

    def __init__(self) -> None:
        self._suspects: dict[Key, str] = {}
        self._silent: set[str] = set()

    def heard(self, keys: Iterable[Key | None]) -> None:
        """Hints told of these files."""
        for key in keys:
            if key is not None:
                self._suspects.pop(key, None)

    def looked(self, grew: Mapping[Key, str]) -> None:
        """A look that no hint asked for found that these files grew."""
        unheard = set(self._suspects.values())
        if unheard and not self._silent:
            events.watching_failed(error=f"{min(unheard)} grows and no notification tells of it")
        self._silent |= unheard
        self._suspects = dict(grew)

    def forget_others(self, names: Container[str]) -> None:
        """Only these names are there now."""
        self._silent = {path for path in self._silent if path in names}

    def __bool__(self) -> bool:
        """Whether there are such files."""
        return bool(self._silent)


NAMES_SECONDS = 0.1
"""Between two looks at everything, however often names change."""
HINTS_SECONDS = 0.1
"""Between two looks at what is said to have grown, while there is plenty to read."""
NET_SECONDS = 10.0
"""Between two looks at everything where hints come of every directory."""
NET_AT_MOST_SECONDS = 60.0


class ScanSchedule:
    """The looks at the file system. Owned by the pipeline; the sources must not be read meanwhile."""

    def __init__(self, task: Task, wake: Wake, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._task = task
        self._wake = wake
        self._clock = clock
        self._names: Mapping[str, Key | None] = {}
        self._unhinted = UnhintedFiles()
        self._watcher = Watcher(wake, is_name=self._is_name, concerns=ways(task.following.watched.patterns))
        self._looked_at = self._glanced_at = self._heard_at = -math.inf
        self._took = 0.0
        self._is_told = False  # hints come of everything that was found

    @property
    def next_at(self) -> float:
        """Monotonic time of the next look; never again with `once`."""
        if self._task.following.once and not self._task.following.spools:
            return math.inf
        due = min(self._look_at, self._glanced_at + self._task.poll)
        return min(due, self._heard_at + HINTS_SECONDS) if self._wake.has_grown else due

    @property
    def is_due(self) -> bool:
        """Whether it is time for one."""
        return self._clock() >= self.next_at

    @property
    def _look_at(self) -> float:
        pause = pause_seconds(
            self._took, self._task.poll, names_changed=self._wake.names_changed, is_told=self._is_told
        )
        return self._looked_at + pause

    def look(self, sources: Tailer) -> None:
        """Look at everything."""
        asked, self._wake.names_changed = self._wake.names_changed, False
        self._looked_at = self._glanced_at = self._clock()
        sources.scan()
        found, following = sources.found, self._task.following
        if self._task.watch and not following.once:
            self._names = found.names
            if self._is_told and not asked:
                self._unhinted.looked(sources.grew)
            self._unhinted.forget_others(found.names)
            blind = _matter(self._watcher.watch(found.directories), found)
            self._is_told = not (blind or self._unhinted or sources.is_unsettled)
        self._took = self._clock() - self._looked_at

    def look_if_due(self, sources: Tailer) -> None:
        """Look at everything if it is time, else at what is said to have grown, and at what is on its way out."""
        now, grown = self._clock(), self._wake.take_grown()
        if math.isinf(self.next_at):
            return
        self._unhinted.heard(map(self._names.get, grown))
        if now >= self._look_at:
            self.look(sources)
            return
        if grown:
            self._heard_at = now
            sources.grown(grown)
        if now >= self._glanced_at + self._task.poll:
            self._glanced_at = now
            sources.poll()

    def close(self) -> None:
        """Stop the watcher."""
        self._watcher.close()

    def _is_name(self, path: str) -> bool:
        return path in self._names


def pause_seconds(took: float, poll: float, *, names_changed: bool, is_told: bool) -> float:
    """From the begin of a look at everything to the begin of the next one.

    However long a look takes, it takes at most a third of the time, and a two-hundredth where hints come of everything.
    """
    if names_changed:
        return min(max(NAMES_SECONDS, 10 * took), max(poll, 3 * took))
    if is_told:
        return max(poll, NET_SECONDS, min(200 * took, NET_AT_MOST_SECONDS), 3 * took)
    return max(poll, 3 * took)


def _matter(blind: set[str], found: Look) -> bool:
    """Whether a file lies in one of the directories of which no hints come.

    Where nothing may even be listed (EACCES) nothing is found by looking either, save what is named explicitly.
    """
    if not blind:
        return False
    unlisted = {directory for directory in blind if os.path.isdir(directory) and not os.access(directory, os.R_OK)}
    return bool(blind - unlisted) or any(os.path.dirname(name) in unlisted for name in found.names)
