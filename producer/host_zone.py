"""The zone of this host, in which its programs write times without one, and that of single files."""

import fnmatch
import functools
from collections.abc import Mapping
from dataclasses import dataclass

from shipper import zones


@dataclass(frozen=True, slots=True)
class HostZones:
    """The zone of each file, by IANA name. Empty: UTC."""

    usual: str = ""
    by_glob: tuple[tuple[str, str], ...] = ()  #: glob of paths and zone; the first that fits counts

    @classmethod
    def of(cls, chosen: str, by_glob: Mapping[str, str]) -> "HostZones":
        """Those that the settings name. `chosen` empty: the one of the system."""
        usual = zones.normal(chosen) if chosen else zones.of_system()
        return cls(usual, tuple((glob, zones.normal(name)) for glob, name in by_glob.items()))

    def of_file(self, path: str) -> str:
        """The zone of a file."""
        return _of_file(self, path) if self.by_glob else self.usual


@functools.lru_cache(maxsize=4096)
def _of_file(chosen: HostZones, path: str) -> str:
    return next((name for glob, name in chosen.by_glob if fnmatch.fnmatchcase(path, glob)), chosen.usual)


UTC_HOST = HostZones()
