"""SIGHUP: load the settings again and continue with them in the same process. Settings with an error change nothing."""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from shipper import events
from shipper.errors import ConfigError, Fatal
from shipper.lifecycle import Stop, notify, notify_reloading
from shipper.settings import Settings

T = TypeVar("T")


class Plan(NamedTuple, Generic[T]):
    """Settings that a program can run under, and what they mean to it."""

    settings: Settings
    task: T


class ReloadActions(NamedTuple, Generic[T]):
    """What a reload does in a program."""

    fixed: Sequence[str]  #: keys of settings that only a restart changes
    read: Callable[[], Settings]  #: loads the settings again; raises ConfigError
    planned: Callable[[Settings], Plan[T]]  #: makes a plan of settings; raises ConfigError
    reloaded: Callable[[Plan[T]], None]  #: is called with each new plan that comes into force
    restarts: Callable[[Settings], list[str]] = lambda _: []  #: further keys that need a restart


class Reloader(Generic[T]):
    """The plan that a program runs under. It runs in cycles: SIGHUP ends a cycle as SIGTERM does, and the next begins.

    Owned by the event loop.
    """

    def __init__(self, plan: Plan[T], stop: Stop, actions: ReloadActions[T]) -> None:
        self.plan = plan
        self.is_first = True  #: cycle: no other settings have come into force yet
        self._stop = stop
        self._actions = actions
        self._next: Plan[T] | None = None
        self._before: Plan[T] | None = None
        self._cycle = Stop()
        stop.on_request(lambda: self._cycle.request())  # noqa: PLW0108 - of the cycle that runs then

    def reload(self) -> None:
        """Load the settings again; the running cycle ends if they can be used."""
        notify_reloading()
        try:
            self._next = self._load()
        except ConfigError as error:
            _refused(error)
            notify("READY=1")
        else:
            self._cycle.request()

    def begin(self) -> Stop:
        """Begin a cycle under the newest plan; returns what ends it."""
        if self._next is not None:
            self._before, self.plan, self._next = self.plan, self._next, None
            self.is_first = False
            self._actions.reloaded(self.plan)
            notify("READY=1")
        self._cycle = Stop()
        if self._stop.requested:
            self._cycle.request()
        return self._cycle

    def goes_on(self) -> bool:
        """Whether another cycle follows the one that ended."""
        return self._next is not None and not self._stop.requested

    def served(self) -> None:
        """Keep the plan: it works, so a later error does not restore the plan before it."""
        self._before = None

    def falls_back(self, error: Fatal) -> bool:
        """Whether the plan before this one is restored, because the new one failed."""
        if self._before is None or self._stop.requested:
            return False
        _refused(error)
        self.plan, self._before = self._before, None
        return True

    def _load(self) -> Plan[T]:
        """The new plan; settings that only a restart changes keep their values. Raises ConfigError."""
        wanted = self._actions.read()
        changed = [key for key in self._actions.fixed if _value(wanted, key) != _value(self.plan.settings, key)]
        plan = self._actions.planned(_with(wanted, self.plan.settings, changed))
        if keys := changed + self._actions.restarts(wanted):
            events.restart_needed(keys=keys)
        return plan


def _refused(error: ConfigError | Fatal) -> None:
    events.reload_refused(error="; ".join(str(error).splitlines()))


def _value(settings: Settings, key: str) -> object:
    section, _, name = key.partition(".")
    return getattr(getattr(settings, section), name)


def _with(settings: Settings, fixed: Settings, keys: Sequence[str]) -> Settings:
    """`settings` with the values that `fixed` has for `keys`."""
    for key in keys:
        section, _, name = key.partition(".")
        kept = getattr(settings, section).model_copy(update={name: _value(fixed, key)})
        settings = settings.model_copy(update={section: kept})
    return settings
