"""How a host is, by its last heartbeat and how long ago that was. Pure: values in, values out."""

import enum
from dataclasses import dataclass

from shipper.heartbeat import DEAD_BEATS, DEAD_SECONDS, Heartbeat
from shipper.units import counted, format_bytes, format_duration


class HostState(enum.StrEnum):
    """How a host is; the worst first."""

    DEAD = "dead"  #: no heartbeat for too long
    STUCK = "stuck"  #: it lives, bytes wait, and none of them move
    UNKNOWN = "unknown"  #: it never said anything, or too little yet to tell
    SHIPPING = "shipping"  #: bytes move
    QUIET = "quiet"  #: it lives, and has nothing to say
    SHARED = "shared"  #: two live producers have its name, or it has a name that every machine has


TROUBLED = frozenset({HostState.DEAD, HostState.STUCK, HostState.SHARED})
ALIASES = {"ok": HostState.SHIPPING, "new": HostState.UNKNOWN, "silent": HostState.DEAD}


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What is too long, in seconds."""

    dead_beats: float = DEAD_BEATS  #: heartbeats that did not come, by the host's own interval
    dead: float = DEAD_SECONDS  #: and at least so long: a host whose stream is full speaks every quarter of a minute
    stuck: float = 30.0  #: without a byte acknowledged while some wait for as long
    new: float = 15.0  #: from a producer's start, until it counts that nothing was acknowledged
    lately: float = 15.0  #: since the last acknowledged byte, and it counts as shipping

    def dead_after(self, every: float) -> float:
        """Seconds without a heartbeat from a host that promised one `every` so many."""
        return max(self.dead, self.dead_beats * every)


USUAL = Thresholds()


@dataclass(frozen=True, slots=True)
class HostHealth:
    """How a host is, and why, as a sentence for people; empty where there is nothing to say."""

    state: HostState
    why: str = ""


def shared(verdict: HostHealth, why: str) -> HostHealth:
    """The verdict on a host whose name is not its own; `why` in a sentence. One that is dead or stuck stays that."""
    if verdict.state in {HostState.DEAD, HostState.STUCK}:
        return HostHealth(verdict.state, f"{verdict.why}; {why}" if verdict.why else why)
    return HostHealth(HostState.SHARED, why)


def judge(beat: Heartbeat | None, age: float, limits: Thresholds = USUAL) -> HostHealth:
    """How a host is that said `beat` so many seconds ago; None: it never said anything that can be read."""
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
    return f"{'was stopped' if beat.leaves else 'was last heard'} {format_duration(age)} ago{left}"


def _why_stuck(beat: Heartbeat) -> str:
    waits = (
        f"{format_bytes(beat.backlog)} wait, nothing moved for {format_duration(min(beat.silent, beat.backlog_age))}"
    )
    return f"{waits}: {beat.trouble}" if beat.trouble else waits


def _how_far_behind(beat: Heartbeat, limits: Thresholds) -> str:
    if beat.backlog_age < limits.stuck:
        return ""
    return f"{format_bytes(beat.backlog)} behind, the oldest seen {format_duration(beat.backlog_age)} ago"
