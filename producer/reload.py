"""SIGHUP: which settings the producer works under now, and which ones next. A bad new configuration changes nothing."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from producer.inputs.factory import named
from producer.options import Task
from shipper import events
from shipper.errors import ConfigError, Fatal
from shipper.lifecycle import Stop, notify, notify_reloading
from shipper.settings import Settings

INPUTS = (
    *("producer.stdin_name", "producer.syslog", "producer.spool"),
    *("producer.journald", "producer.journald_directory", "producer.journald_match"),
)
FIXED = ("producer.host", "producer.state", "logs.subject", "logs.partitions", "log.format", "log.level", *INPUTS)
"""Lock, checkpoint and subject hang on the first four: with others it is another producer. The log is set up once, and
an input without a file lives as long as the program: to close a socket is to lose what is in it."""


class Plan(NamedTuple):
    """Settings that can be worked under, and what they mean."""

    settings: Settings
    task: Task


Planned = Callable[[Settings], Plan]


class Reloading:
    """The plan that is worked under, turn by turn: SIGHUP ends a turn as SIGTERM does, and the next one begins.

    Owned by the event loop. `read` loads the settings again, `planned` makes a plan of them; both raise ConfigError.
    """

    def __init__(self, plan: Plan, stop: Stop, *, read: Callable[[], Settings], planned: Planned) -> None:
        self.plan = plan
        self._named = named(plan.settings.producer)
        self._stop = stop
        self._read = read
        self._planned = planned
        self._next: Plan | None = None
        self._before: Plan | None = None
        self._turn = Stop()
        stop.on_ask(self._end_turn)

    def reload(self) -> None:
        """Load the settings again; the running turn ends if they can be used."""
        notify_reloading()
        try:
            self._next = self._reloaded()
        except ConfigError as error:
            events.reload_refused(error="; ".join(str(error).splitlines()))
            notify("READY=1")
        else:
            self._turn.ask()

    def begin(self) -> Stop:
        """A turn begins, under the newest plan; what ends it."""
        if self._next is not None:
            self._before, self.plan, self._next = _looked(self.plan), self._next, None
            events.settings_reloaded(files=len(self.plan.settings.producer.files))
            notify("READY=1")
        self._turn = Stop()
        if self._stop.asked:
            self._turn.ask()
        return self._turn

    def goes_on(self) -> bool:
        """Whether another turn follows the one that ended."""
        return self._next is not None and not self._stop.asked

    def served(self) -> None:
        """The server takes what this plan sends: there is no way back to the one before it."""
        self._before = None

    def falls_back(self, error: Fatal) -> bool:
        """Whether the plan before this one is taken up again, as the new one never worked."""
        if self._before is None or self._stop.asked:
            return False
        events.reload_refused(error="; ".join(str(error).splitlines()))
        self.plan, self._before = self._before, None
        return True

    def _end_turn(self) -> None:
        self._turn.ask()

    def _reloaded(self) -> Plan:
        """The new plan, with what only a start can change as it was. Raises ConfigError."""
        wanted = self._read()
        changed = [key for key in FIXED if _value(wanted, key) != _value(self.plan.settings, key)]
        plan = self._planned(_with(wanted, self.plan.settings, changed))
        if named(wanted.producer) != self._named:  # standard input or a FIFO came or went
            changed.append("producer.files")
        if changed:
            events.restart_needed(keys=changed)
        return plan


def _looked(plan: Plan) -> Plan:
    """The plan once a pipeline had its first look under it: what is new from now on is read from its first byte."""
    following = replace(plan.task.following, start_at_end=False)
    return plan._replace(task=replace(plan.task, following=following))


def _value(settings: Settings, key: str) -> object:
    section, _, name = key.partition(".")
    return getattr(getattr(settings, section), name)


def _with(settings: Settings, fixed: Settings, keys: list[str]) -> Settings:
    """`settings` with the values that `fixed` has for `keys`."""
    for key in keys:
        section, _, name = key.partition(".")
        kept = getattr(settings, section).model_copy(update={name: _value(fixed, key)})
        settings = settings.model_copy(update={section: kept})
    return settings
