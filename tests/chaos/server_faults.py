"""The faults of the server: of its process, its store, its streams and consumers."""

import contextlib
import random
import shutil
import time
from collections.abc import Iterator

import remembered
from scene import Scene
from schedule import LONG_SECONDS, Blow

from shipper.subjects import stream_name


@contextlib.contextmanager
def killed(scene: Scene, blow: Blow) -> Iterator[None]:
    """kill -9 of the server; what it wrote stays."""
    scene.server.kill()
    yield
    time.sleep(blow.seconds)
    scene.server.start()


@contextlib.contextmanager
def hung(scene: Scene, blow: Blow) -> Iterator[None]:
    """SIGSTOP of the server for less time than any program waits."""
    with _stopped(scene):
        yield
        time.sleep(blow.seconds)


@contextlib.contextmanager
def hung_for_long(scene: Scene, blow: Blow) -> Iterator[None]:
    """SIGSTOP of the server for longer than any program waits."""
    with _stopped(scene):
        yield
        time.sleep(LONG_SECONDS)


@contextlib.contextmanager
def _stopped(scene: Scene) -> Iterator[None]:
    scene.server.pause()
    yield
    scene.server.resume()


@contextlib.contextmanager
def rolled_back(scene: Scene, blow: Blow) -> Iterator[None]:
    """The power fails at the server: its store is the one from before what it acknowledged meanwhile."""
    older = scene.directory / f"store-{blow.number}"
    with _stopped(scene):
        shutil.copytree(scene.server.store, older)
    before = scene.archived
    yield
    scene.wait_archived(before + blow.number % 300_000)
    scene.server.kill()
    shutil.rmtree(scene.server.store)
    older.rename(scene.server.store)
    scene.server.start()


@contextlib.contextmanager
def stream_full(scene: Scene, blow: Blow) -> Iterator[None]:
    """The streams have no more space, and no consumer reads them."""
    for collector in scene.collectors:
        collector.kill()
    limits = {}
    for stream in scene.streams():
        found = scene.api(f"STREAM.INFO.{stream}")
        limits[stream] = found["config"]
        room = found["state"]["bytes"] + blow.number % 60_000
        scene.api(f"STREAM.UPDATE.{stream}", found["config"] | {"max_bytes": max(1, room)})
    yield
    time.sleep(blow.seconds)
    for stream, config in limits.items():
        scene.api(f"STREAM.UPDATE.{stream}", config)
    for collector in scene.collectors:
        collector.start()


@contextlib.contextmanager
def purged(scene: Scene, blow: Blow) -> Iterator[None]:
    """Everything that is archived is taken out of the streams."""
    for partition, journal in scene.journals().items():
        scene.api(f"STREAM.PURGE.{stream_name('logs', partition)}", {"seq": remembered.resume(journal)})
    yield


@contextlib.contextmanager
def consumer_deleted(scene: Scene, blow: Blow) -> Iterator[None]:
    """The consumer is gone for a while."""
    _delete_consumers(scene)
    yield
    time.sleep(blow.seconds)
    scene.fleet.apply()


@contextlib.contextmanager
def consumer_made_anew(scene: Scene, blow: Blow) -> Iterator[None]:
    """The consumer is another one, which begins at the first message."""
    _delete_consumers(scene)
    scene.fleet.apply()
    yield


def _delete_consumers(scene: Scene) -> None:
    for stream in scene.streams():
        scene.api(f"CONSUMER.DELETE.{stream}.collector")


@contextlib.contextmanager
def ack_floor_moved(scene: Scene, blow: Blow) -> Iterator[None]:
    """An operator resets the consumer to the first message, or beyond the last."""
    chance = random.Random(blow.number)
    for stream in scene.streams():
        state = scene.api(f"STREAM.INFO.{stream}")["state"]
        to = chance.choice((max(1, state["first_seq"]), state["last_seq"] + 1, max(1, state["last_seq"] // 2)))
        scene.api(f"CONSUMER.RESET.{stream}.collector", {"seq": to})
    yield
