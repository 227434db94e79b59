"""SIGHUP: the collector gives its partitions back and begins another life under the new settings, in the same process.

What is wrong with them changes nothing: the life that is lived goes on.
"""

from collections.abc import Callable
from typing import Any

from shipper import events
from shipper.errors import ConfigError, Fatal
from shipper.lifecycle import Stop, notify, notify_reloading
from shipper.settings import CollectorSettings, Settings

FIXED = (
    *("collector.directory", "collector.state", "collector.name"),
    *("logs.subject", "log.format", "log.level"),
)
"""With another archive, journal, name or subject it is another collector; the log is set up once."""


class Reloading:
    """The settings that are lived under, life by life. Owned by the event loop.

    `read` loads the settings again, `check` looks whether a collector can have them; both raise ConfigError.
    """

    def __init__(
        self,
        settings: Settings,
        stop: Stop,
        *,
        read: Callable[[], Settings],
        check: Callable[[CollectorSettings], Any],
    ) -> None:
        self.settings = settings
        self.is_first = True  #: life: only in that one somebody waits who wants to know that there is no server
        self._stop = stop
        self._read = read
        self._check = check
        self._next: Settings | None = None
        self._before: Settings | None = None
        self._life = Stop()
        stop.on_ask(self._end_life)

    def reload(self) -> None:
        """Load the settings again; the life that is lived ends if they can be used."""
        notify_reloading()
        try:
            wanted = self._kept(self._read())
            self._check(wanted.collector)
        except ConfigError as error:
            events.reload_refused(error="; ".join(str(error).splitlines()))
            notify("READY=1")
        else:
            self._next = wanted
            self._life.ask()

    def begin(self) -> Stop:
        """A life begins, under the newest settings; what ends it."""
        if self._next is not None:
            self._before, self.settings, self._next = self.settings, self._next, None
            self.is_first = False
            events.collector_reloaded()
            notify("READY=1")
        self._life = Stop()
        if self._stop.asked:
            self._life.ask()
        return self._life

    def goes_on(self) -> bool:
        """Whether another life follows the one that ended."""
        return self._next is not None and not self._stop.asked

    def falls_back(self, error: Fatal) -> bool:
        """Whether the settings before these are taken up again; then those that failed are forgotten."""
        if self._before is None or self._stop.asked:
            return False
        events.reload_refused(error="; ".join(str(error).splitlines()))
        self.settings, self._before = self._before, None
        return True

    def _end_life(self) -> None:
        self._life.ask()

    def _kept(self, wanted: Settings) -> Settings:
        """`wanted`, with what only a start can change as it is."""
        changed = [key for key in FIXED if _value(wanted, key) != _value(self.settings, key)]
        for key in changed:
            section, _, name = key.partition(".")
            kept = getattr(wanted, section).model_copy(update={name: _value(self.settings, key)})
            wanted = wanted.model_copy(update={section: kept})
        if changed:
            events.restart_needed(keys=changed)
        return wanted


def _value(settings: Settings, key: str) -> Any:
    section, _, name = key.partition(".")
    return getattr(getattr(settings, section), name)
