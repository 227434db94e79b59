"""The data directory of `fshipper up`: what is in it, who uses it, and how it is removed.

`archive` is where `fshipper search` finds it by default. All else is below `up`, which only this user can read.
"""

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from shipper.durable_files import Lock, LockHeld, LockHolder, make_directory, replace_file
from shipper.errors import ConfigError

VERSION = 1
MAX_LOG_BYTES = 10 * 1024**2
DRY_RUN, SEAL = COMMANDS = ("dry-run", "seal")
"""Commands that run to their end; their output is in `logs`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What the next `fshipper up` continues with."""

    paths: tuple[str, ...] = ()  #: what was shipped last: absolute paths and globs
    ports: dict[str, int] = field(default_factory=dict)  #: by program


class DataDirectory:
    """Paths in a data directory, and its state."""

    def __init__(self, root: Path) -> None:
        self.root = root.expanduser().absolute()
        self.archive = self.root / "archive"
        self.reports = self.root / "report"  #: of `fshipper report`; not removed
        self.own = self.root / "up"
        self.streams = self.own / "nats"
        self.checkpoints = self.own / "state"
        self.logs = self.own / "logs"
        self.page = self.own / "page"
        self.link = self.page / "link"  #: written by the page's program
        self._state = self.own / "up.json"
        self._lock = self.own / "lock"
        self._page_pid = self.page / "pid"

    @contextlib.contextmanager
    def taken(self) -> Iterator[Remembered]:
        """The directory for one `fshipper up`, made if it is new.

        Raises LockHeld: one runs. ConfigError: the archive is another program's, or the directory cannot be written.
        """
        try:
            make_directory(self.root)
            for path in (self.own, self.logs, self.page):
                make_directory(path, mode=0o700)
            if not os.access(self.own, os.W_OK):
                raise PermissionError(errno.EACCES, "Permission denied")
        except OSError as error:
            raise ConfigError(
                f"the data directory {self.root} cannot be written: {error.strerror}",
                hint="name another directory with --data DIR",
            ) from None
        with Lock(self._lock, f"the data directory {self.root}"):
            found = self.remembered()
            if found is None and self.archive.exists() and any(self.archive.iterdir()):
                raise ConfigError(
                    f"{self.archive} was not made by `fshipper up`: a collector of its own may write it",
                    hint="choose another directory with --data DIR",
                )
            yield found or Remembered()

    def remembered(self) -> Remembered | None:
        """What the last `fshipper up` stored; None: there was none. Raises ConfigError: it cannot be read."""
        try:
            found = json.loads(self._state.read_bytes())
            return Remembered(paths=tuple(found["paths"]), ports=dict(found["ports"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = getattr(error, "strerror", None) or "it is damaged"
            raise ConfigError(
                f"cannot read {self._state}: {reason}", hint="run the command as the user who ran `fshipper up`"
            ) from None

    def remember(self, state: Remembered) -> None:
        """Store `state` durably."""
        replace_file(self._state, json.dumps({"v": VERSION, **asdict(state)}).encode() + b"\n", mode=0o600)

    def holder(self) -> LockHolder | None:
        """The `fshipper up` that runs here; None: none does. Raises ConfigError: this user may not know."""
        try:
            with Lock(self._lock, str(self.root)):
                return None
        except LockHeld as held:
            return held.holder
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigError(
                f"cannot use {self._lock}: {error.strerror}", hint="run the command as the user who ran `fshipper up`"
            ) from None

    def forget_run(self) -> None:
        """Remove what belongs to one run: its link, and the output of commands. Logs of programs continue."""
        for path in (self.link, self._page_pid, *(self.logs / f"{name}.out" for name in COMMANDS)):
            path.unlink(missing_ok=True)

    def shorten_logs(self) -> None:
        """Empty logs that are too long. Their programs append, so they continue at the beginning."""
        for log in self.logs.iterdir():
            with contextlib.suppress(OSError):
                if log.stat().st_size > MAX_LOG_BYTES:
                    os.truncate(log, 0)

    def collector_settings(self, text: str) -> Path:
        """A settings file of the collector with `text`."""
        path = self.own / "collector.toml"
        path.write_text(text, encoding="utf-8")
        return path

    # -- the page ---------------------------------------------------------------------------------------------------

    def note_page(self, pid: int) -> None:
        """Store the process that serves the page: it makes a new link at SIGHUP."""
        self._page_pid.write_text(f"{pid}\n", encoding="ascii")

    def page_pid(self) -> int:
        """The process that serves the page; 0: none is known."""
        with contextlib.suppress(OSError, ValueError):
            return int(self._page_pid.read_text(encoding="ascii"))
        return 0

    def shown_link(self) -> str:
        """The link as it is now; empty: there is none."""
        with contextlib.suppress(OSError):
            return self.link.read_text(encoding="utf-8").strip()
        return ""

    # -- its end ----------------------------------------------------------------------------------------------------

    def stored_bytes(self) -> int:
        """Bytes that the archive and the streams take on the disk."""
        total = 0
        for path in (self.archive, self.own):
            for folder, _, names in os.walk(path):
                for name in names:
                    with contextlib.suppress(OSError):
                        total += os.lstat(os.path.join(folder, name)).st_blocks * 512
        return total

    def remove(self) -> None:
        """Remove what `fshipper up` made. After a kill, the next call removes the rest. Raises OSError."""
        if self.archive.exists():
            shutil.rmtree(self.archive)
        for entry in self.own.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            elif entry != self._state:
                entry.unlink()
        self._state.unlink()  # last: without it the archive counts as another program's
        for directory in (self.own, self.root):
            with contextlib.suppress(OSError):  # it holds reports, or files of the user
                directory.rmdir()
