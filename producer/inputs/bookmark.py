"""How far the journal is read: the cursor of the last entry that is in the spool, and where the spool ended then."""

import contextlib
import json
import os
import time
from pathlib import Path
from typing import NamedTuple

from shipper import events
from shipper.files import replace_file


class Bookmark(NamedTuple):
    """Everything up to the entry at `cursor` lies before byte `length` of file `number` of the spool."""

    cursor: str
    number: int
    length: int


class Bookmarks:
    """The bookmark on disk, and the one before it in case the newest is damaged."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "cursor"
        self._before = directory / "cursor.before"

    def load(self) -> Bookmark | None:
        """The newest bookmark; None: there is none. A damaged one is kept aside, and the one before it is taken."""
        if not self._path.exists():
            return None
        found = _read(self._path)
        if found is None:
            found = _read(self._before)
            kept = self._path.with_name(f"cursor.damaged-{time.time_ns()}")
            self._path.rename(kept)
            goes_on = f"behind {found.cursor}" if found else "at the beginning of the journal: all of it is sent again"
            events.cursor_damaged(path=str(self._path), kept=str(kept), goes_on=goes_on)
            if found:
                self.save(found)
        return found

    def save(self, bookmark: Bookmark) -> None:
        """Make a bookmark durable. Raises OSError."""
        content = json.dumps({"v": 1, **bookmark._asdict()}).encode()
        temporary = self._before.with_name(".cursor.before.tmp")
        temporary.unlink(missing_ok=True)  # a kill left it, or a rename that had nothing to do
        with contextlib.suppress(FileNotFoundError):
            os.link(self._path, temporary)
            os.replace(temporary, self._before)
        replace_file(self._path, content, mode=0o600)


def _read(path: Path) -> Bookmark | None:
    try:
        fields = json.loads(path.read_bytes())
        if fields["v"] == 1 and isinstance(fields["cursor"], str) and fields["cursor"]:
            return Bookmark(fields["cursor"], int(fields["number"]), int(fields["length"]))
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None
