"""The systemd commands before and after an installation: run if systemd runs, printed if not.

The machine's files: what is there, what was written before, and writing or removing them. The edge of the verb.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from deploy.install.plan import Action, ActionKind, FileState, rendered
from deploy.install.roles import (
    PACKAGED,
    PACKAGED_BIN,
    PIECES,
    RECORD,
    SHIPPED,
    InstallFile,
    Role,
    settings_of,
    started,
)

RUNNING = Path("/run/systemd/system")
HIDDEN = ("/home/", "/root/", "/tmp/", "/var/tmp/")  # noqa: S108 - what services do not see, not where we write

Command = list[str]


def may_be_told(root: Path) -> bool:
    """Whether the systemd of this machine runs, and the files are its own."""
    return root == Path("/") and RUNNING.is_dir() and os.geteuid() == 0


def behind_install(role: Role) -> list[Command]:
    """What makes users and directories, shows systemd the units, and prepares the start of the first report."""
    conf = "nats-server.conf" if role is Role.SERVER else "fshipper.conf"
    return [
        ["systemd-sysusers", conf],
        ["systemd-tmpfiles", "--create", conf],
        ["systemctl", "daemon-reload"],
        *([["fshipper", "report", "prepare"]] if role is Role.REPORT else []),
    ]


def before_uninstall(role: Role) -> list[Command]:
    """What ends the programs."""
    units = [
        started(role),
        *(["fshipper-report.service", "fshipper-report-send.service"] if role is Role.REPORT else []),
    ]
    return [["systemctl", "disable", "--now", *units]]


def behind_uninstall() -> list[Command]:
    """What makes systemd forget the units."""
    return [["systemctl", "daemon-reload"]]


def left_to_people(role: Role) -> list[str]:
    """What only a person can do."""
    edit = f"edit {settings_of(role)}"
    if role is Role.SERVER:
        return [edit, "nats-server -t -c /etc/nats/nats-server.conf", f"systemctl enable --now {started(role)}"]
    if role is Role.BROWSE:
        return [edit, f"systemctl enable --now {started(role)}", f"journalctl -u {started(role)}   # has the link"]
    config = "" if role is Role.REPORT else f" --config {settings_of(role)}"
    return [edit, f"fshipper validate --role {role}{config}", f"systemctl enable --now {started(role)}"]


def run(commands: Sequence[Command]) -> list[str]:
    """Run each; what failed, as sentences."""
    failed = []
    for command in commands:
        found = shutil.which(command[0], path=f"{sysconfig.get_path('scripts')}:{os.environ.get('PATH', '')}")
        if not found:
            failed.append(f"{command[0]} is not on this machine")
            continue
        done = subprocess.run([found, *command[1:]], capture_output=True, text=True, check=False)
        if done.returncode:
            failed.append(f"{' '.join(command)}: {done.stderr.strip() or f'exit {done.returncode}'}")
    return failed


def own_bin(root: Path) -> str:
    """Where the units find the program: in an image where its package puts it, else where this one is."""
    if root != Path("/") and (root / PACKAGED_BIN.lstrip("/") / "fshipper").exists():
        return PACKAGED_BIN
    return sysconfig.get_path("scripts")


def hidden(bin_directory: str) -> str:
    """Why services could not run a program that is there; empty: they can."""
    interpreter = os.path.realpath(sys.executable) if bin_directory == sysconfig.get_path("scripts") else ""
    for path in filter(None, (bin_directory, interpreter)):
        if f"{path}/".startswith(HIDDEN):
            return f"{path} is hidden from services: install fshipper below /opt, or give --bin-dir"
    return ""


Records = dict[str, dict[str, str]]
"""By role: digests of what was written, by path."""
PRIVATE = {"etc/fshipper": 0o750, "etc/nats": 0o750}


class TargetMachine:
    """A machine whose file system starts at `root`: `/`, or an image."""

    def __init__(self, root: Path, bin_directory: str) -> None:
        self._root = root
        self._bin = bin_directory
        self._records = self._read_records()

    def found(self, role: Role) -> list[FileState]:
        """What is known about each file of `role`. Raises OSError: it cannot be read."""
        return [self._look(role, piece) for piece in PIECES[role]]

    def carry_out(self, role: Role, actions: Iterable[Action], record: dict[str, str]) -> None:
        """Write and remove, then record it; after a kill the next run completes it: the files are as shipped.

        Raises:
            OSError: something cannot be written; what was done so far is done, and the next run goes on.
        """
        for action in actions:
            path = self._root / action.piece.target
            if action.do is ActionKind.REMOVE:
                path.unlink(missing_ok=True)
            elif action.changes:
                if action.keeps_old:
                    path.rename(path.with_name(path.name + ".old"))
                self._write(path, self.content(action.piece), action.piece.mode)
        self._keep(record, role)

    def content(self, piece: InstallFile) -> bytes:
        """What would be written."""
        return rendered(piece, (SHIPPED / piece.source).read_text(encoding="utf-8"), self._bin)

    def record(self, role: Role) -> dict[str, str]:
        """What was written for `role` before."""
        return dict(self._records.get(role, {}))

    def _look(self, role: Role, piece: InstallFile) -> FileState:
        path = self._root / piece.target
        others = [name for name, record in self._records.items() if name != role and piece.target in record]
        places = PACKAGED.get(os.path.dirname(piece.target), ())
        packaged = any((self._root / at / path.name).exists() for at in places)
        return FileState(
            piece,
            path.read_bytes() if path.exists() else None,
            self.content(piece),
            recorded=next((record[piece.target] for record in self._of(piece)), ""),
            packaged=packaged,
            shared=bool(others),
        )

    def _of(self, piece: InstallFile) -> Iterator[dict[str, str]]:
        return (record for record in self._records.values() if piece.target in record)

    def _read_records(self) -> Records:
        with contextlib.suppress(OSError, ValueError):
            read = json.loads((self._root / RECORD).read_bytes())
            return {str(role): dict(record) for role, record in read["roles"].items()}
        return {}

    def _keep(self, record: dict[str, str], role: Role) -> None:
        self._records[role] = record
        if not record:
            del self._records[role]
        path = self._root / RECORD
        if self._records:
            content = json.dumps({"v": 1, "roles": self._records}, indent=2, sort_keys=True) + "\n"
            if not path.exists() or path.read_text() != content:
                self._write(path, content.encode(), 0o644)
            return
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # it contains files of other programs
            path.parent.rmdir()

    def _write(self, path: Path, content: bytes, mode: int) -> None:
        """Whole or not at all, also where the power fails."""
        self._make(path.parent)
        temporary = path.with_name(f".{path.name}.new")
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)  # whatever the umask is
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)

    def _make(self, directory: Path) -> None:
        if directory.is_dir():
            return
        directory.mkdir(parents=True)
        relative = os.path.relpath(directory, self._root)
        if relative in PRIVATE:
            directory.chmod(PRIVATE[relative])
