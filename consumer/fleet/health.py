"""The state of a host, derived from its last heartbeat and the age of it. Pure."""

import enum
from dataclasses import dataclass

from shipper.heartbeat import DEAD_BEATS, DEAD_SECONDS, Heartbeat
from shipper.units import counted, format_bytes, format_duration


class HostState(enum.StrEnum):
    """The state of a host; the worst first."""

    DEAD = "dead"  #: no heartbeat for too long
    STUCK = "stuck"  #: it is alive, bytes wait, and none of them move
    UNKNOWN = "unknown"  #: no heartbeat, or too few yet to decide
    SHIPPING = "shipping"  #: bytes move
    QUIET = "quiet"  #: it is alive and has nothing to ship
    SHARED = "shared"  #: two live producers have its name, or it has a name that every machine has


TROUBLED = frozenset({HostState.DEAD, HostState.STUCK, HostState.SHARED})
ALIASES = {"ok": HostState.SHIPPING, "new": HostState.UNKNOWN, "silent": HostState.DEAD}


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Time limits, in seconds."""

    dead_beats: float = DEAD_BEATS  #: missing heartbeats, in intervals of the host
    dead: float = DEAD_SECONDS  #: minimum; a host whose stream is full sends a heartbeat every 15 s
    stuck: float = 30.0  #: time without an acknowledged byte while bytes wait
    new: float = 15.0  #: time after a producer's start in which it is not stuck
    lately: float = 15.0  #: maximum age of the last acknowledged byte of a host that is shipping

    def dead_after(self, every: float) -> float:
        """Seconds without a heartbeat after which a host is dead that sends one `every` so many seconds."""
        return max(self.dead, self.dead_beats * every)


USUAL = Thresholds()


@dataclass(frozen=True, slots=True)
class HostHealth:
    """The state of a host, and the reason as a sentence, which may be empty."""

    state: HostState
    why: str = ""


def shared(verdict: HostHealth, why: str) -> HostHealth:
    """The state of a host whose name is not unique, with the reason `why`. Dead and stuck hosts stay that."""
    if verdict.state in {HostState.DEAD, HostState.STUCK}:
        return HostHealth(verdict.state, f"{verdict.why}; {why}" if verdict.why else why)
    return HostHealth(HostState.SHARED, why)


def judge(beat: Heartbeat | None, age: float, limits: Thresholds = USUAL) -> HostHealth:
    """The state of a host that sent `beat` `age` seconds ago; None: it never sent a readable heartbeat."""
    if beat is None:
        return HostHealth(HostState.UNKNOWN, "sends lines, and no heartbeats")
    if age > limits.dead_after(beat.every):
        return HostHealth(HostState.DEAD, _how_it_went(beat, age))
    return _of_the_living(beat, limits)


def _of_the_living(beat: Heartbeat, limits: Thresholds) -> HostHealth:
    if beat.unreadable:
        return HostHealth(HostState.STUCK, f"{counted(beat.unreadable, 'file')} cannot be opened")
    if beat.backlog and beat.shipped == 0 and beat.up < limits.new:
        return HostHealth(HostState.UNKNOWN, "has just begun")
    if beat.backlog and min(beat.silent, beat.backlog_age) >= limits.stuck:
        return HostHealth(HostState.STUCK, _why_stuck(beat))
    if beat.backlog or (beat.shipped and beat.silent <= max(limits.lately, 2 * beat.every)):
        return HostHealth(HostState.SHIPPING, _how_far_behind(beat, limits))
    return HostHealth(HostState.QUIET)


def _how_it_went(beat: Heartbeat, age: float) -> str:
    left = f", with {format_bytes(beat.backlog)} not shipped" if beat.backlog else ""
    return f"{'was stopped' if beat.leaves else 'last heartbeat'} {format_duration(age)} ago{left}"


def _why_stuck(beat: Heartbeat) -> str:
    waits = (
        f"{format_bytes(beat.backlog)} wait, nothing moved for {format_duration(min(beat.silent, beat.backlog_age))}"
    )
    return f"{waits}: {beat.trouble}" if beat.trouble else waits


def _how_far_behind(beat: Heartbeat, limits: Thresholds) -> str:
    if beat.backlog_age < limits.stuck:
        return ""
    return f"{format_bytes(beat.backlog)} not shipped, the oldest seen {format_duration(beat.backlog_age)} ago"
