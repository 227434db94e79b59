"""The options of `fshipper install`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from deploy.install.plan import Role
from shipper.commands import AsJson, DryRun, Yes


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallOptions:
    """Write the systemd units and a commented configuration of a role, or show what that would be.

    A second time there is nothing to do. Files that were changed are left as they are, state and archives are never
    touched, and nothing is started: the last lines of the output name the commands.
    """

    role: Annotated[Role, typer.Option(help="What this machine does.")]
    uninstall: Annotated[bool, typer.Option("--uninstall", help="Remove what was written, but for what changed.")] = (
        False
    )
    dry_run: DryRun = False
    yes: Yes = False
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace changed files, too; the old ones stay as .old.")
    ] = False
    purge: Annotated[bool, typer.Option("--purge", help="With --uninstall: remove changed files, too.")] = False
    root: Annotated[Path, typer.Option(help="The root of the machine: / or that of an image.")] = Path("/")
    bin_dir: Annotated[
        str, typer.Option(help="Directory of fshipper for the units; by default that of this one.", show_default=False)
    ] = ""
    as_json: AsJson = False
