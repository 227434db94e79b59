"""Files that grow without a hint: written by another machine, or through a name in a directory that is not watched."""

from collections.abc import Container, Iterable, Mapping

from producer.looking.discover import Key
from shipper import events


class Silence:
    """Learns which files no hint tells of. One that grew unheard, and was not heard of until the next look, is one."""

    def __init__(self) -> None:
        self._suspects: dict[Key, str] = {}
        self._silent: set[str] = set()

    def heard(self, keys: Iterable[Key | None]) -> None:
        """Hints told of these files."""
        for key in keys:
            if key is not None:
                self._suspects.pop(key, None)

    def looked(self, grew: Mapping[Key, str]) -> None:
        """A look that no hint asked for found that these files grew."""
        unheard = set(self._suspects.values())
        if unheard and not self._silent:
            events.watching_failed(error=f"{min(unheard)} grows and no notification tells of it")
        self._silent |= unheard
        self._suspects = dict(grew)

    def forget_others(self, names: Container[str]) -> None:
        """Only these names are there now."""
        self._silent = {path for path in self._silent if path in names}

    def __bool__(self) -> bool:
        """Whether there are such files."""
        return bool(self._silent)
