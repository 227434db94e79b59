"""The hosts by their last heartbeat: a bounded table that outlives every session with the server."""

import enum
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from shipper.errors import ConfigError
from shipper.heartbeat import DEAD_BEATS, DEAD_SECONDS, Heartbeat, decode, plausible
from shipper.jetstream.heartbeat_stream import HeartbeatUpdate
from shipper.subjects import checked_host, host_of_beat, is_everybodys
from shipper.units import counted, format_bytes, format_duration


class HostState(enum.StrEnum):
    """The state of a host, the worst first."""

    DEAD = "dead"  #: no heartbeat for too long
    STUCK = "stuck"  #: it is alive, bytes wait, and none of them move
    UNKNOWN = "unknown"  #: no heartbeat, or too few yet to decide
    SHIPPING = "shipping"  #: bytes move
    QUIET = "quiet"  #: it is alive and has nothing to ship
    ENDED = "ended"  #: it ended on purpose, with everything shipped: `produce --once`
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
    """The state of a host that sent `beat` `age` seconds ago. None means that it never sent a readable heartbeat."""
    if beat is None:
        return HostHealth(HostState.UNKNOWN, "sends lines, and no heartbeats: whether lines wait there is not known")
    if beat.leaves and beat.ended:
        grown = f"; {format_bytes(beat.backlog)} came after its end" if beat.backlog else ""
        return HostHealth(HostState.ENDED, f"ended {format_duration(age)} ago, as requested (--once){grown}")
    if age > limits.dead_after(beat.every):
        return HostHealth(HostState.DEAD, silence(beat, age))
    return _of_the_living(beat, limits)


def silence(beat: Heartbeat, age: float) -> str:
    """Since when a host is silent whose last heartbeat came `age` seconds ago, and what it had not shipped."""
    left = f", with {format_bytes(beat.backlog)} not shipped" if beat.backlog else ""
    went = "was stopped" if beat.leaves else "last heartbeat"
    return f"{went} {format_duration(age)} ago{left}"


def _of_the_living(beat: Heartbeat, limits: Thresholds) -> HostHealth:
    if beat.unreadable:
        return HostHealth(HostState.STUCK, f"{counted(beat.unreadable, 'path')} cannot be read")
    if beat.backlog and beat.shipped == 0 and beat.up < limits.new:
        return HostHealth(HostState.UNKNOWN, "has just begun")
    backlog, idle = format_bytes(beat.backlog), min(beat.silent, beat.backlog_age)
    if beat.backlog and idle >= limits.stuck:
        why = f"{backlog} wait, nothing moved for {format_duration(idle)}"
        return HostHealth(HostState.STUCK, f"{why}: {beat.trouble}" if beat.trouble else why)
    if beat.backlog or (beat.shipped and beat.silent <= max(limits.lately, 2 * beat.every)):
        late = f"{backlog} not shipped, the oldest seen {format_duration(beat.backlog_age)} ago"
        return HostHealth(HostState.SHIPPING, late if beat.backlog_age >= limits.stuck else "")
    return HostHealth(HostState.QUIET)


MOST_HOSTS = 10_000
"""Maximum hosts in the table; those with the oldest heartbeats are dropped first."""
CLASH_SECONDS = 300.0
"""Seconds for which a name clash of two producers is shown after it was seen last."""
FORKED_HINT = "fshipper audit names the file; both are archived; give one machine another name (HOSTNAME, --host)"
_SECOND_NS = 1_000_000_000


class _LastHeartbeat(NamedTuple):
    """The last heartbeat of a host, and when the server stored it."""

    beat: Heartbeat | None
    at_ns: int
    run_before: str = ""  #: of the process that sent heartbeats before this one
    clash: str = ""  #: text about the other live producer with this name; empty: none was seen
    clash_ns: int = 0  #: when it was seen last


@dataclass(frozen=True, slots=True)
class HostStatus:
    """One host at one moment."""

    name: str
    state: HostState
    why: str
    age: float | None  #: seconds since its last heartbeat; None: there was none
    beat: Heartbeat | None
    partition: int | None = None
    last_line: float | None = None  #: seconds since the server stored its last line; None: unknown

    @property
    def why_silent(self) -> str:
        """Why its producer does not answer, as far as its last heartbeat shows."""
        is_judged = self.state in {HostState.ENDED, HostState.DEAD}
        return self.why if is_judged or self.beat is None or self.age is None else silence(self.beat, self.age)


class HostTable:
    """The last heartbeat of each host. Owned by one poller."""

    def __init__(self, limits: Thresholds = USUAL, *, most: int = MOST_HOSTS) -> None:
        self._limits = limits
        self._most = most
        self._heard: dict[str, _LastHeartbeat] = {}
        self.lines: Mapping[str, int] = {}  #: the hosts with lines in the streams, with their partitions
        self.last_lines: Mapping[str, int] = {}  #: when the last line of a host was stored, ns since 1970, where known

    def __len__(self) -> int:
        return len(self._heard)

    def update(self, news: HeartbeatUpdate) -> None:
        """Add heartbeats that were read."""
        heard = {} if news.complete else self._heard
        for stored in news.beats:
            if host := _name(stored.subject):
                before = self._heard.get(host)
                heard.pop(host, None)  # to the end: the first entries have the oldest heartbeats
                beat = decode(stored.payload)
                heard[host] = _after(before, plausible(beat) if beat else None, stored.time_ns)
        while len(heard) > self._most:
            heard.pop(next(iter(heard)))
        self._heard = heard

    def hosts(self, now_ns: int, forked: Collection[str] = ()) -> list[HostStatus]:
        """Every host, the worst state first, by name within. `forked`: two producers continue a source of these."""
        found = [self._judged(name, heard, now_ns) for name, heard in self._heard.items()]
        room = max(0, self._most - len(found))
        unheard = judge(None, 0.0, self._limits)
        silent = (name for name in {**self.lines, **dict.fromkeys(forked)} if name not in self._heard)
        found += [
            HostStatus(name, unheard.state, unheard.why, None, None, self.lines.get(name))
            for name in islice(silent, room)
        ]
        found = [_forked(host) if host.name in forked else host for host in found]
        found = [replace(host, last_line=self._last_line(host, now_ns)) for host in found]
        return sorted(found, key=lambda host: (_ORDER[host.state], host.name))

    def _last_line(self, host: HostStatus, now_ns: int) -> float | None:
        """Seconds since the last line of a host: by its stream, or by the heartbeat of a producer that sent lines."""
        beat, ages = host.beat, list[float]()
        if beat is not None and beat.shipped and host.age is not None:
            ages.append(host.age + beat.silent)
        if (stored_ns := self.last_lines.get(host.name)) is not None:
            ages.append(max(0.0, (now_ns - stored_ns) / _SECOND_NS))
        return min(ages, default=None)

    def hosts_without_time(self) -> list[str]:
        """The hosts with lines in the streams whose heartbeats do not show when the last one came."""
        heard = self._heard
        return [name for name in self.lines if not ((last := heard.get(name)) and last.beat and last.beat.shipped)]

    def _judged(self, name: str, heard: _LastHeartbeat, now_ns: int) -> HostStatus:
        age = max(0.0, (now_ns - heard.at_ns) / _SECOND_NS)
        if heard.beat is None:
            verdict = HostHealth(HostState.UNKNOWN, "sends heartbeats that this version cannot read")
        else:
            verdict = judge(heard.beat, age, self._limits)
        if why := _why_shared(name, heard, now_ns):
            verdict = shared(verdict, why)
        partition = heard.beat.partition if heard.beat else self.lines.get(name)
        return HostStatus(name, verdict.state, verdict.why, age, heard.beat, partition)


def counts(hosts: Iterable[HostStatus]) -> dict[HostState, int]:
    """How many hosts are in each state, all of them named."""
    found = dict.fromkeys(HostState, 0)
    for host in hosts:
        found[host.state] += 1
    return found


_ORDER = {state: place for place, state in enumerate(sorted(HostState, key=lambda state: state not in TROUBLED))}


def _after(before: _LastHeartbeat | None, beat: Heartbeat | None, at_ns: int) -> _LastHeartbeat:
    """The entry of a host after a heartbeat.

    A restart changes the run once. A run that appears again after another one shows that both processes live.
    """
    if beat is None or not beat.run:
        return _LastHeartbeat(beat, at_ns)
    run_before, clash, clash_ns = (before.run_before, before.clash, before.clash_ns) if before else ("", "", 0)
    last = before.beat if before else None
    if beat.refused:
        clash, clash_ns = f"{beat.sender} was refused: it has the same name", at_ns
        if last is not None and before is not None:  # its state is not that of this host
            return before._replace(clash=clash, clash_ns=clash_ns)
    elif beat.other:
        clash, clash_ns = beat.other, at_ns
    elif last is not None and last.run and last.run != beat.run:
        if beat.run == run_before:
            clash, clash_ns = f"{last.sender}, and {beat.sender}", at_ns
        run_before = last.run
    return _LastHeartbeat(beat, at_ns, run_before, clash, clash_ns)


def _why_shared(name: str, heard: _LastHeartbeat, now_ns: int) -> str:
    """Why the name of a host is not unique. Empty means that no reason is known."""
    if heard.beat is not None and is_everybodys(name):
        return f"every machine is called {name}: set HOSTNAME (--host) to a unique name"
    if heard.clash and now_ns - heard.clash_ns < CLASH_SECONDS * _SECOND_NS:
        return f"two producers have this name: {heard.clash}; give one of them another name (HOSTNAME, --host)"
    return ""


def _forked(host: HostStatus) -> HostStatus:
    before = f"{host.why}; " if host.state is HostState.SHARED else ""
    why = f"{before}two producers continued one log file of it: {FORKED_HINT}"
    verdict = shared(HostHealth(host.state, host.why), why)
    return replace(host, state=verdict.state, why=verdict.why)


def _name(subject: str) -> str:
    try:
        return checked_host(host_of_beat(subject))
    except ConfigError:  # no producer accepts such a name
        return ""
