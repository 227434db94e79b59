"""The faults of the archive's disk: full, read-only, failing."""

import contextlib
import random
import time
from collections.abc import Iterator

from harness.fleet import until
from scene import Scene
from schedule import Blow
from volumes import Limits


@contextlib.contextmanager
def disk_full(scene: Scene, blow: Blow) -> Iterator[None]:
    """The archive's disk has space for a part of what comes."""
    assert scene.disk is not None
    pids = [collector.pid for collector in scene.collectors]
    for pid in pids:
        scene.disk.fill(pid, blow.number % 100_000)
    yield
    time.sleep(1 + blow.seconds)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            scene.disk.make_room(pid)


@contextlib.contextmanager
def read_only(scene: Scene, blow: Blow) -> Iterator[None]:
    """The archive is read-only; a collector that is started reports it and ends."""
    assert scene.disk is not None
    for collector in scene.collectors:
        collector.kill()
    scene.disk.protect()
    for collector in scene.collectors:
        collector.start()
    yield
    if not isinstance(scene.disk, Limits):
        for collector in scene.collectors:
            until(lambda: not collector.alive, what=lambda: collector.log)  # noqa: B023
            assert "cannot use the archive directory" in collector.log
    scene.disk.release()
    for collector in scene.collectors:
        collector.start()


@contextlib.contextmanager
def syncs_fail(scene: Scene, blow: Blow) -> Iterator[None]:
    """The disk answers with EIO for a second."""
    actor, chance = scene.victim(blow), random.Random(blow.number)
    actor.start_doomed(
        f"{chance.choice(('os.fdatasync', 'os.pwritev', 'os.fsync'))}:{chance.randrange(1, 5)}:before:fail"
    )
    yield
    time.sleep(blow.seconds)
