"""Time zones by their IANA names, as hosts send them and as people choose them."""

import contextlib
import os
import re
import zoneinfo
from collections.abc import Iterator, Mapping
from pathlib import Path

from shipper.codec import zone_name
from shipper.zone_names import load

UTC_NAMES = frozenset(
    {"UTC", "Etc/UTC", "Etc/UCT", "Etc/Universal", "Etc/Zulu", "GMT", "Etc/GMT", "UCT", "Universal", "Zulu"}
)


def normal(name: str) -> str:
    """The name of a zone; empty for UTC, and for a name that no zone has."""
    return "" if name in UTC_NAMES or not zone_name(name) or load(name) is None else name


def of_system(environment: Mapping[str, str] = os.environ, root: Path = Path("/")) -> str:
    """The zone of this machine: of TZ, of the link /etc/localtime, of /etc/timezone, or the one with the same content.

    Empty: UTC, or it cannot be found out.
    """
    variable, localtime = environment.get("TZ", "").removeprefix(":"), root / "etc/localtime"
    named = [variable, *_of_link(localtime), _of_text(root / "etc/timezone")]
    for found in filter(None, named):
        name = re.sub(r"^.*/zoneinfo/(?:(?:posix|right)/)?", "", found)
        if name in UTC_NAMES or normal(name):
            return normal(name)
    return normal(_of_content(root / "etc/localtime", root / "usr/share/zoneinfo"))


def _of_link(path: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):
        yield os.readlink(path)
        yield os.path.realpath(path)


def _of_text(path: Path) -> str:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return path.read_text(encoding="ascii").strip()
    return ""


def _of_content(path: Path, database: Path) -> str:
    """The zone whose file is a copy of `path`: images and old systems have no link."""
    try:
        content = path.read_bytes()
    except OSError:
        return ""
    names = (name for name in sorted(zoneinfo.available_timezones()) if "/" in name)
    for name in names:
        with contextlib.suppress(OSError):
            if (database / name).stat().st_size == len(content) and (database / name).read_bytes() == content:
                return name
    return ""
