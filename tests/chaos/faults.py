"""The faults, each a block that begins it, lets things happen, and ends it; what it needs is in the schedule."""

import contextlib
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import disk_faults
import server_faults
from scene import Actor, Scene
from schedule import FAULTS, LONG_SECONDS, Blow
from tearing import spoil_what_does_not_count, tear
from wires import Weather

Fault = Callable[[Scene, Blow], contextlib.AbstractContextManager[None]]

DEATH_SECONDS = 10.0
"""So long a doomed program may take to the call at which it dies; then it is killed from outside."""
RARE_SECONDS = 3.0
"""The same for calls that may not come at all, as nothing is sealed."""
COLLECTOR_CALLS = ("os.pwritev", "os.fdatasync", "os.fsync", "os.ftruncate", "os.rename", "os.replace", "os.unlink")
PRODUCER_CALLS = ("os.pread",)


def befall(scene: Scene, blow: Blow) -> contextlib.AbstractContextManager[None]:
    """The fault of `blow`, as a block."""
    return _FAULTS[blow.fault](scene, blow)


# -- processes -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _killed(scene: Scene, blow: Blow) -> Iterator[None]:
    """kill -9; it is started again when the blow is over."""
    actor = scene.victim(blow)
    actor.kill()
    yield
    time.sleep(blow.seconds)
    actor.start()


@contextlib.contextmanager
def _hung(scene: Scene, blow: Blow) -> Iterator[None]:
    """SIGSTOP for less time than any program waits."""
    with _stopped(scene.victim(blow)):
        yield
        time.sleep(blow.seconds)


@contextlib.contextmanager
def _hung_for_long(scene: Scene, blow: Blow) -> Iterator[None]:
    """SIGSTOP for longer than any program waits, so the others continue without it."""
    with _stopped(scene.victim(blow)):
        yield
        time.sleep(LONG_SECONDS)


@contextlib.contextmanager
def _stopped(actor: Actor) -> Iterator[None]:
    actor.signal(signal.SIGSTOP)
    yield
    actor.signal(signal.SIGCONT)


@contextlib.contextmanager
def _killed_in_a_call(scene: Scene, blow: Blow) -> Iterator[None]:
    """It dies before or after a write, a sync, a rename, a commit: the same one whenever the seed is run."""
    actor, chance = scene.victim(blow), random.Random(blow.number)
    calls = PRODUCER_CALLS if blow.victim == "producer" else COLLECTOR_CALLS
    actor.start_doomed(f"{_some_call(calls, chance)}:kill")
    yield
    scene.notes.append(_wait_for_death(actor, RARE_SECONDS))
    actor.start()


@contextlib.contextmanager
def _hung_in_a_call(scene: Scene, blow: Blow) -> Iterator[None]:
    """It stops at a write, a sync, a commit until others have its partitions, and goes on right there."""
    actor, chance = scene.victim(blow), random.Random(blow.number)
    others = [other for other in scene.collectors if other is not actor]
    for other in others:  # else they have all the work before it begins
        other.kill()
    actor.start_doomed(f"{_some_call(('os.pwritev', 'os.fdatasync', 'os.fsync'), chance)}:stop")
    _wait_for(lambda: actor.has_begun, DEATH_SECONDS)
    for other in others:
        other.start()
    yield
    _wait_for(actor.note.exists, DEATH_SECONDS)
    if actor.note.exists():
        scene.notes.append(f"{actor.name} stopped at {actor.doom}")
        time.sleep(LONG_SECONDS)
        actor.signal(signal.SIGCONT)
    else:  # it has nothing to do; one with a permanent fault would stop when no other wakes it any more
        scene.notes.append(_wait_for_death(actor, 0))
        actor.start()


def _some_call(calls: tuple[str, ...], chance: random.Random) -> str:
    return f"{chance.choice(('commit', *calls))}:{chance.randrange(1, 5)}:{chance.choice(('before', 'after'))}"


@contextlib.contextmanager
def _torn(scene: Scene, blow: Blow) -> Iterator[None]:
    """The power fails in a commit: what was written last is torn, all that was synced stays, all of the host die."""
    actor, chance = scene.victim(blow), random.Random(blow.number)
    others = [other for other in scene.collectors if other is not actor and actor in scene.collectors]
    for other in others:
        other.kill()
    actor.start_doomed(f"commit:{chance.randrange(1, 5)}:after:kill")
    yield
    scene.notes.append(_wait_for_death(actor, DEATH_SECONDS))
    if actor.note.exists():
        database = Path(actor.note.read_text())
        scene.notes.append(f"torn: {tear(database, chance) or 'nothing, the log was empty'}")
        if actor in scene.collectors:
            spoiled = spoil_what_does_not_count(scene.fleet.archive, database, chance)
            scene.notes.append(f"{spoiled} files spoiled behind their committed length")
    for each in (actor, *others):
        each.start()


def _wait_for_death(actor: Actor, within: float) -> str:
    """What became of a doomed program, which is dead now."""
    _wait_for(lambda: not actor.alive, within)
    actor.kill()
    return f"{actor.name} {'died at' if actor.note.exists() else 'never came to'} {actor.doom}"


def _wait_for(come: Callable[[], bool], within: float) -> None:
    deadline = time.monotonic() + within
    while not come() and time.monotonic() < deadline:
        time.sleep(0.01)


# -- wires ---------------------------------------------------------------------------------------------------------


def _in(weather: Weather, seconds: float) -> Fault:
    """The victim's wire has `weather` for `seconds` beyond what is written meanwhile."""

    @contextlib.contextmanager
    def fault(scene: Scene, blow: Blow) -> Iterator[None]:
        wire = scene.victim(blow).wire
        wire.weather = weather
        yield
        time.sleep(seconds)
        wire.weather = Weather.FAIR

    return fault


_FAULTS: dict[str, Fault] = {
    "producer killed": _killed,
    "producer killed in a call": _killed_in_a_call,
    "producer hung": _hung,
    "producer's checkpoint torn": _torn,
    "producer's acks lost": _in(Weather.DEAF, 2.0),
    "producer's requests lost": _in(Weather.MUTE, 2.0),
    "producer's wire cut": _in(Weather.CUT, 1.0),
    "producer's wire split": _in(Weather.SPLIT, 0.5),
    "server killed": server_faults.killed,
    "server hung": server_faults.hung,
    "server hung for long": server_faults.hung_for_long,
    "server's store rolled back": server_faults.rolled_back,
    "server's stream full": server_faults.stream_full,
    "server's stream purged": server_faults.purged,
    "server's consumer deleted": server_faults.consumer_deleted,
    "server's consumer made anew": server_faults.consumer_made_anew,
    "server's ack floor moved": server_faults.ack_floor_moved,
    "collector killed": _killed,
    "collector killed in a call": _killed_in_a_call,
    "collector hung": _hung,
    "collector hung for long": _hung_for_long,
    "collector hung in a call": _hung_in_a_call,
    "collector's journal torn": _torn,
    "collector's deliveries lost": _in(Weather.DEAF, LONG_SECONDS),
    "collector's wire cut": _in(Weather.CUT, 1.0),
    "collector's wire slow": _in(Weather.SLOW, 0.5),
    "archive's disk full": disk_faults.disk_full,
    "archive read-only": disk_faults.read_only,
    "archive's syncs fail": disk_faults.syncs_fail,
}
assert _FAULTS.keys() == FAULTS.keys()
