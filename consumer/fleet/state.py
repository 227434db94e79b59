"""How a host is, by its last heartbeat and how long ago that was. Pure: values in, values out."""

import enum
from dataclasses import dataclass

from shipper.heartbeat import Heartbeat
from shipper.units import format_bytes, format_duration


class State(enum.StrEnum):
    """How a host is; the worst first."""

    DEAD = "dead"  #: no heartbeat for too long
    STUCK = "stuck"  #: it lives, bytes wait, and none of them move
    UNKNOWN = "unknown"  #: it never said anything, or too little yet to tell
    SHIPPING = "shipping"  #: bytes move
    QUIET = "quiet"  #: it lives, and has nothing to say


TROUBLED = frozenset({State.DEAD, State.STUCK})
ALIASES = {"ok": State.SHIPPING, "new": State.UNKNOWN, "silent": State.DEAD}


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What is too long, in seconds."""

    dead_beats: float = 4.0  #: heartbeats that did not come, by the host's own interval
    dead: float = 20.0  #: and at least so long: a host whose stream is full speaks every quarter of a minute
    stuck: float = 30.0  #: without a byte acknowledged while some wait for as long
    new: float = 15.0  #: from a producer's start, until it counts that nothing was acknowledged
    lately: float = 15.0  #: since the last acknowledged byte, and it counts as shipping

    def dead_after(self, every: float) -> float:
        """Seconds without a heartbeat from a host that promised one `every` so many."""
        return max(self.dead, self.dead_beats * every)


USUAL = Thresholds()


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a host is, and why, as a sentence for people; empty where there is nothing to say."""

    state: State
    why: str = ""


def judge(beat: Heartbeat | None, age: float, limits: Thresholds = USUAL) -> Verdict:
    """How a host is that said `beat` so many seconds ago; None: it never said anything that can be read."""
    if beat is None:
        return Verdict(State.UNKNOWN, "sends lines, and no heartbeats")
    if age > limits.dead_after(beat.every):
        return Verdict(State.DEAD, _how_it_went(beat, age))
    return _of_the_living(beat, limits)


def _of_the_living(beat: Heartbeat, limits: Thresholds) -> Verdict:
    if beat.unreadable:
        return Verdict(State.STUCK, f"{_files(beat.unreadable)} cannot be opened")
    if beat.backlog and beat.shipped == 0 and beat.up < limits.new:
        return Verdict(State.UNKNOWN, "has just begun")
    if beat.backlog and min(beat.silent, beat.backlog_age) >= limits.stuck:
        return Verdict(State.STUCK, _why_stuck(beat))
    if beat.backlog or (beat.shipped and beat.silent <= max(limits.lately, 2 * beat.every)):
        return Verdict(State.SHIPPING, _how_far_behind(beat, limits))
    return Verdict(State.QUIET)


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


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"
