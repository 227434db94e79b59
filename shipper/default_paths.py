"""Where archive and reports are if no setting names their directories.

They are below `/var/lib/fshipper` for root, and below the user's data directory (XDG base directories) else. Versions
before 0.2.0 used directories below the current one: one that is there is used further.
"""

import contextlib
import os
from pathlib import Path

from shipper.layout import is_archive

SYSTEM = Path("/var/lib/fshipper")
"""Data of root and of the services."""


def data_directory() -> Path:
    """The directory of this user's data; the current one for a user without a home directory."""
    if os.geteuid() == 0:
        return SYSTEM
    return user_data() / "fshipper"


def user_data() -> Path:
    """The data directory of a user, as the XDG base directory specification has it; also for root."""
    named = os.environ.get("XDG_DATA_HOME", "")
    home = os.path.expanduser("~")
    if named.startswith("/"):  # others are to be ignored
        return Path(named)
    return Path(home) / ".local" / "share" if home.startswith("/") else Path()


def archive() -> Path:
    """The archive: `./archive` where that is one, else `archive` in the data directory."""
    earlier = Path("archive")
    with contextlib.suppress(OSError):
        if is_archive(os.listdir(earlier)):
            return earlier
    return data_directory() / "archive"


def reports() -> Path:
    """The directory of reports: `./report` where there is one, else `report` in the data directory."""
    earlier = Path("report")
    return earlier if os.path.isdir(earlier) else data_directory() / "report"


def find_archive_hint(directory: Path) -> str:
    """How to name the archive if there is none in `directory`."""
    system = SYSTEM / "archive"
    if directory != system and os.path.exists(system):
        return f"one of root or a service is at {system}: --archive {system}"
    return "name the collector's directory: --archive DIR, or SHIPPER_DIRECTORY; `fshipper up` makes one"
