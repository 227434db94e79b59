"""`fshipper install`: shows what it would write for a machine's role, prompts, writes. `--uninstall` reverts it.

Its output lists the actions, for people and for scripts.
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
from typing import Annotated

import typer

from deploy.install import plan
from deploy.install.plan import (
    PACKAGED,
    PACKAGED_BIN,
    PIECES,
    RECORD,
    SHIPPED,
    STATE,
    Action,
    ActionKind,
    FileState,
    InstallFile,
    Role,
    rendered,
    settings_of,
    started,
)

# -- the systemd commands before and after an installation, and the files of the machine ---------------------------

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


def run_commands(commands: Sequence[Command]) -> list[str]:
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


# -- the command ---------------------------------------------------------------------------------------------------

SIGNS = {ActionKind.WRITE: "+", ActionKind.REPLACE: "~", ActionKind.REMOVE: "-", ActionKind.LEAVE: " "}


def as_text(actions: Iterable[Action]) -> list[str]:
    """A line an action."""
    return [f"  {SIGNS[action.do]} {action.do.value:<8}/{action.piece.target}   ({action.why})" for action in actions]


def plan_json(
    role: Role, actions: Iterable[Action], *, done: bool, commands: Sequence[str], warnings: Sequence[str]
) -> str:
    """The same for scripts."""
    files = [
        {"path": f"/{action.piece.target}", "do": action.do.value, "kind": action.piece.kind.value, "why": action.why}
        for action in actions
    ]
    shown = {"role": role.value, "done": done, "files": files, "next": list(commands), "warnings": list(warnings)}
    return json.dumps(shown, indent=2)


EXIT_OTHER = 1
EXIT_USAGE = 64

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def install(
    *,
    role: Annotated[Role, typer.Option(help="What this machine does.")],
    uninstall: Annotated[
        bool, typer.Option("--uninstall", help="Remove what was written, but for what changed.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not prompt.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace changed files, too; the old ones stay as .old.")
    ] = False,
    purge: Annotated[bool, typer.Option("--purge", help="With --uninstall: remove changed files, too.")] = False,
    root: Annotated[Path, typer.Option(help="The root of the machine: / or that of an image.")] = Path("/"),
    bin_dir: Annotated[
        str, typer.Option(help="Directory of fshipper for the units; by default that of this one.", show_default=False)
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False,
) -> None:
    """Write the systemd units and a commented configuration of a role, or show what that would be.

    A second time there is nothing to do. Files that were changed are left as they are, state and archives are never
    touched, and nothing is started: the last lines of the output name the commands.
    """
    _check(uninstall=uninstall, overwrite=overwrite, purge=purge, root=root)
    chosen = bin_dir or own_bin(root)
    place = TargetMachine(root.absolute(), chosen)
    found = place.found(role)
    actions = plan.uninstall(found, purge=purge) if uninstall else plan.install(found, overwrite=overwrite)
    warnings = [text for text in [hidden(chosen)] if text and not uninstall]
    does = not dry_run and _agreed(actions, yes=yes, as_json=as_json, role=role, uninstall=uninstall)
    commands = _carry_out(place, role, actions, root, uninstall=uninstall, warnings=warnings) if does else []
    if not does:
        commands = _commands(role, uninstall=uninstall)
    _tell(role, actions, commands, warnings, uninstall=uninstall, done=does, as_json=as_json)


def _check(*, uninstall: bool, overwrite: bool, purge: bool, root: Path) -> None:
    if purge and not uninstall:
        raise _fail(EXIT_USAGE, "--purge goes with --uninstall")
    if overwrite and uninstall:
        raise _fail(EXIT_USAGE, "--overwrite does not go with --uninstall", hint="--purge removes changed files")
    if not root.is_dir():
        raise _fail(EXIT_USAGE, f"--root {root} is no directory")


def _agreed(actions: list[Action], *, yes: bool, as_json: bool, role: Role, uninstall: bool) -> bool:
    """Whether to continue: with `--yes`, or after a confirmation."""
    if yes or not any(action.changes for action in actions):
        return True
    if as_json or not sys.stdin.isatty():
        _show(actions, role=role, uninstall=uninstall)
        raise _fail(
            EXIT_USAGE,
            "nothing was done: there is no terminal to confirm on",
            hint="give --yes, or --dry-run to preview",
        )
    _show(actions, role=role, uninstall=uninstall)
    return typer.confirm("Do it?")


def _show(actions: list[Action], *, role: Role, uninstall: bool) -> None:
    sys.stderr.write(f"{'uninstall' if uninstall else 'install'} --role {role}:\n" + "\n".join(as_text(actions)) + "\n")


def _carry_out(
    place: TargetMachine, role: Role, actions: list[Action], root: Path, *, uninstall: bool, warnings: list[str]
) -> list[str]:
    """Write, or remove; what is left to do, as commands."""
    told = may_be_told(root)
    changes = any(action.changes for action in actions)
    if told and uninstall and changes:
        run_commands(before_uninstall(role))  # what is not there or not running is as it should be
    written = {action.piece.target: place.content(action.piece) for action in actions}
    record = {} if uninstall else plan.record_after(place.record(role), actions, written)
    try:
        place.carry_out(role, actions, record)
    except OSError as error:
        hint = (
            "run it as root, or with --root DIR" if isinstance(error, PermissionError) else "mend it, and run it again"
        )
        raise _fail(EXIT_OTHER, f"{error.filename}: {error.strerror}", hint=hint) from None
    if not told:
        return _commands(role, uninstall=uninstall)
    if changes:
        warnings += run_commands(behind_uninstall() if uninstall else behind_install(role))
    return [] if uninstall else left_to_people(role)


def _commands(role: Role, *, uninstall: bool) -> list[str]:
    """The commands to run if systemd was not called."""
    if uninstall:
        return [" ".join(command) for command in (*before_uninstall(role), *behind_uninstall())]
    return [*(" ".join(command) for command in behind_install(role)), *left_to_people(role)]


def _tell(
    role: Role,
    actions: list[Action],
    commands: list[str],
    warnings: list[str],
    *,
    uninstall: bool,
    done: bool,
    as_json: bool,
) -> None:
    if as_json:
        sys.stdout.write(plan_json(role, actions, done=done, commands=commands, warnings=warnings) + "\n")
        return
    changes = any(action.changes for action in actions)
    head = ("done:" if done else "would do:") if changes else "nothing to do:"
    lines = [head, *as_text(actions), *(f"warning: {text}" for text in warnings)]
    if commands and (changes or not uninstall):
        lines += ["next:", *(f"  {command}" for command in commands)]
    if uninstall:
        lines.append(f"state is left alone: {STATE[role]}")
    sys.stdout.write("\n".join(lines) + "\n")


def _fail(code: int, message: str, *, hint: str = "") -> typer.Exit:
    sys.stderr.write(f"error: {message}\n" + (f"hint: {hint}\n" if hint else ""))
    return typer.Exit(code)
