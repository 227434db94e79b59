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
from collections.abc import Sequence
from pathlib import Path

import typer

from deploy.install import keys, plan
from deploy.install.options import InstallOptions
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
from shipper.errors import ShipperError, UsageError

# -- the systemd commands before and after an installation, and the files of the machine ---------------------------

HIDDEN = ("/home/", "/root/", "/tmp/", "/var/tmp/")  # noqa: S108 - what services do not see, not where we write

Command = list[str]
RELOAD = ["systemctl", "daemon-reload"]
"""What makes systemd know the units that are there, and forget those that are gone."""


def commands_after_install(role: Role) -> list[Command]:
    """What makes users and directories, shows systemd the units, and prepares the start of the first report."""
    conf = "nats-server.conf" if role is Role.SERVER else "fshipper.conf"
    return [
        ["systemd-sysusers", conf],
        ["systemd-tmpfiles", "--create", conf],
        RELOAD,
        *([["fshipper", "report", "prepare"]] if role is Role.REPORT else []),
    ]


def before_uninstall(role: Role) -> list[Command]:
    """What ends the programs."""
    more = ["fshipper-report.service", "fshipper-report-send.service"] if role is Role.REPORT else []
    return [["systemctl", "disable", "--now", started(role), *more]]


def left_to_people(role: Role) -> list[str]:
    """What only a person can do."""
    edit, start = f"edit {settings_of(role)}", f"systemctl enable --now {started(role)}"
    if role is Role.SERVER:
        return [edit, "nats-server -t -c /etc/nats/nats-server.conf", start]
    if role in {Role.BROWSE, Role.WEB}:
        users = (
            [f"sudo -u fshipper-web fshipper web user NAME --config {settings_of(role)}"] if role is Role.WEB else []
        )
        return [edit, *users, start, f"cat /run/fshipper-{role}/link"]
    config = "" if role is Role.REPORT else f" --config {settings_of(role)}"
    return [edit, f"fshipper validate --role {role}{config}", start]


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


PRIVATE = {"etc/fshipper": 0o751, "etc/nats": 0o750}


class TargetMachine:
    """A machine whose file system starts at `root`: `/`, or an image."""

    def __init__(self, root: Path, bin_directory: str) -> None:
        self._root = root
        self._bin = bin_directory
        self._records: dict[str, dict[str, str]] = {}  #: by role: digests of what was written, by path
        with contextlib.suppress(OSError, ValueError):
            read = json.loads((root / RECORD).read_bytes())
            self._records = {str(role): dict(record) for role, record in read["roles"].items()}

    def found(self, role: Role) -> list[FileState]:
        """What is known about each file of `role`. Raises OSError: it cannot be read."""
        states = []
        for piece in PIECES[role]:
            path = self._root / piece.target
            places = PACKAGED.get(os.path.dirname(piece.target), ())
            recorded = {name: record[piece.target] for name, record in self._records.items() if piece.target in record}
            state = FileState(
                piece,
                path.read_bytes() if path.exists() else None,
                self._content(piece),
                recorded=next(iter(recorded.values()), ""),
                packaged=any((self._root / at / path.name).exists() for at in places),
                shared=any(name != role for name in recorded),
            )
            states.append(state)
        return states

    def carry_out(self, role: Role, actions: Sequence[Action], *, uninstall: bool) -> None:
        """Write and remove, then record it; after a kill the next run completes it: the files are as shipped.

        Raises OSError: something cannot be written; what was done so far is done, and the next run goes on.
        """
        record = self._records.pop(role, {})
        for action in actions:
            target, content = action.piece.target, self._content(action.piece)
            path = self._root / target
            if action.do is ActionKind.REMOVE:
                path.unlink(missing_ok=True)
            elif action.changes:
                if action.keeps_old:
                    path.rename(path.with_name(path.name + ".old"))
                self._write(path, content, action.piece.mode)
            if action.changes or action.why == plan.AS_SHIPPED:
                record[target] = plan.digest(content)
        if record and not uninstall:
            self._records[role] = record
        path = self._root / RECORD
        if self._records:
            recorded = json.dumps({"v": 1, "roles": self._records}, indent=2, sort_keys=True) + "\n"
            if not path.exists() or path.read_text() != recorded:
                self._write(path, recorded.encode(), 0o644)
            return
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # it contains files of other programs
            path.parent.rmdir()

    def _content(self, piece: InstallFile) -> bytes:
        return rendered(piece, (SHIPPED / piece.source).read_text(encoding="utf-8"), self._bin)

    def _write(self, path: Path, content: bytes, mode: int) -> None:
        """Whole or not at all, also where the power fails."""
        directory = path.parent
        if not directory.is_dir():
            directory.mkdir(parents=True)
            if private := PRIVATE.get(os.path.relpath(directory, self._root)):
                directory.chmod(private)
        temporary = path.with_name(f".{path.name}.new")
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)  # whatever the umask is
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)


# -- the command ---------------------------------------------------------------------------------------------------

SIGNS = {ActionKind.WRITE: "+", ActionKind.REPLACE: "~", ActionKind.REMOVE: "-", ActionKind.LEAVE: " "}


def run(options: InstallOptions) -> None:
    """Show the actions, prompt, and do them. Raises UsageError: options contradict, or there is no terminal."""
    role, root, uninstall = options.role, options.root, options.uninstall
    if options.purge and not uninstall:
        raise UsageError("--purge goes with --uninstall")
    if options.overwrite and uninstall:
        raise UsageError("--overwrite does not go with --uninstall", hint="--purge removes changed files")
    if not root.is_dir():
        raise UsageError(f"--root {root} is no directory")
    chosen = options.bin_dir or own_bin(root)
    place = TargetMachine(root.absolute(), chosen)
    actions = [
        plan.uninstall(one, purge=options.purge) if uninstall else plan.install(one, overwrite=options.overwrite)
        for one in place.found(role)
    ]
    changes = any(action.changes for action in actions)
    lines = [f"  {SIGNS[each.do]} {each.do.value:<8}/{each.piece.target}   ({each.why})" for each in actions]
    warnings = [text for text in [hidden(chosen)] if text and not uninstall]
    does = not options.dry_run
    if does and changes and not options.yes:
        sys.stderr.write(f"{'uninstall' if uninstall else 'install'} --role {role}:\n" + "\n".join(lines) + "\n")
        if options.as_json or not sys.stdin.isatty():
            hint = "give --yes, or --dry-run to preview"
            raise UsageError("nothing was done: there is no terminal to confirm on", hint=hint)
        does = typer.confirm("Do it?")
    if does:
        commands = _carry_out(place, role, actions, root, uninstall=uninstall, warnings=warnings)
    else:
        commands = _commands(role, uninstall=uninstall)
    if options.as_json:
        files = [
            {"path": f"/{each.piece.target}", "do": each.do.value, "kind": each.piece.kind.value, "why": each.why}
            for each in actions
        ]
        shown = {"v": 1, "role": role.value, "done": does, "files": files, "next": commands, "warnings": warnings}
        sys.stdout.write(json.dumps(shown, indent=2) + "\n")
        return
    head = ("done:" if does else "would do:") if changes else "nothing to do:"
    lines = [head, *lines, *(f"warning: {text}" for text in warnings)]
    if commands and (changes or not uninstall):
        lines += ["next:", *(f"  {command}" for command in commands)]
    if uninstall:
        lines.append(f"state is left alone: {STATE[role]}")
    sys.stdout.write("\n".join(lines) + "\n")


def _carry_out(
    place: TargetMachine, role: Role, actions: list[Action], root: Path, *, uninstall: bool, warnings: list[str]
) -> list[str]:
    """Write, or remove; what is left to do, as commands."""
    has_systemd = root == Path("/") and Path("/run/systemd/system").is_dir() and os.geteuid() == 0
    changes = any(action.changes for action in actions)
    if has_systemd and uninstall and changes:
        run_commands(before_uninstall(role))  # what is not there or not running is as it should be
    try:
        place.carry_out(role, actions, uninstall=uninstall)
    except OSError as error:
        hint = (
            "run it as root, or with --root DIR" if isinstance(error, PermissionError) else "mend it, and run it again"
        )
        raise ShipperError(f"{error.filename}: {error.strerror}", hint=hint) from None
    if not has_systemd:
        return _commands(role, uninstall=uninstall)
    if changes:
        warnings += run_commands([RELOAD] if uninstall else commands_after_install(role))
    if uninstall:
        return []
    warnings += keys.hand_over()
    return left_to_people(role)


def _commands(role: Role, *, uninstall: bool) -> list[str]:
    """The commands to run if systemd was not called."""
    if uninstall:
        return [" ".join(command) for command in (*before_uninstall(role), RELOAD)]
    return [*(" ".join(command) for command in commands_after_install(role)), *left_to_people(role)]
