"""When to look at the files: at every poll, and soon after a hint."""

import math
import time

from producer import discover
from producer.sources import Sources
from producer.task import Task
from producer.wake import Wake, Watcher

LOOK_SECONDS = 0.1
"""Between two looks at all files, however often their names change."""


class Looks:
    """The looks at the file system. Owned by the pipeline; the sources must not be read meanwhile."""

    def __init__(self, task: Task, wake: Wake) -> None:
        self._task = task
        self._wake = wake
        self._watcher = Watcher(wake)
        self._looked_at = -math.inf

    @property
    def next_at(self) -> float:
        """Monotonic time of the next look; never again with `once`."""
        if self._task.following.once:
            return math.inf
        return self._looked_at + (LOOK_SECONDS if self._wake.names_changed else self._task.poll)

    @property
    def is_due(self) -> bool:
        """Whether it is time for one."""
        return time.monotonic() >= self.next_at

    def look(self, sources: Sources) -> None:
        """Look at everything."""
        self._wake.names_changed = False
        self._looked_at = time.monotonic()
        following = self._task.following
        if self._task.watch and not following.once:
            self._watcher.watch(discover.directories(following.watched))
        sources.scan()

    def look_if_due(self, sources: Sources) -> None:
        """Look at everything if it is time, else at what is said to have grown."""
        grown = self._wake.take_grown()
        if self.is_due:
            self.look(sources)
        elif grown:
            sources.grown(grown)

    def close(self) -> None:
        """Stop the watcher."""
        self._watcher.close()
