"""`fshipper install`: shows what it would write for a machine's role, prompts, writes. `--uninstall` reverts it.

Its output lists the actions, for people and for scripts.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from deploy.install import plan, system
from deploy.install.plan import Action, ActionKind
from deploy.install.roles import STATE, Role
from deploy.install.system import TargetMachine

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
    chosen = bin_dir or system.own_bin(root)
    place = TargetMachine(root.absolute(), chosen)
    found = place.found(role)
    actions = plan.uninstall(found, purge=purge) if uninstall else plan.install(found, overwrite=overwrite)
    warnings = [text for text in [system.hidden(chosen)] if text and not uninstall]
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
    told = system.may_be_told(root)
    changes = any(action.changes for action in actions)
    if told and uninstall and changes:
        system.run(system.before_uninstall(role))  # what is not there or not running is as it should be
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
        warnings += system.run(system.behind_uninstall() if uninstall else system.behind_install(role))
    return [] if uninstall else system.left_to_people(role)


def _commands(role: Role, *, uninstall: bool) -> list[str]:
    """The commands to run if systemd was not called."""
    if uninstall:
        return [" ".join(command) for command in (*system.before_uninstall(role), *system.behind_uninstall())]
    return [*(" ".join(command) for command in system.behind_install(role)), *system.left_to_people(role)]


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
