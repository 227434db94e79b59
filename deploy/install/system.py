"""What the machine's systemd is to do, before and behind: run where it runs, said where it does not."""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from deploy.install.roles import PACKAGED_BIN, Role, settings_of, started

RUNNING = Path("/run/systemd/system")
HIDDEN = ("/home/", "/root/", "/tmp/", "/var/tmp/")  # noqa: S108 - what services do not see, not where we write

Command = list[str]


def may_be_told(root: Path) -> bool:
    """Whether the systemd of this machine runs, and the files are its own."""
    return root == Path("/") and RUNNING.is_dir() and os.geteuid() == 0


def behind_install(role: Role) -> list[Command]:
    """What makes users and directories, and shows systemd the units."""
    conf = "nats-server.conf" if role is Role.SERVER else "fshipper.conf"
    return [
        ["systemd-sysusers", conf],
        ["systemd-tmpfiles", "--create", conf],
        ["systemctl", "daemon-reload"],
    ]


def before_uninstall(role: Role) -> list[Command]:
    """What ends the programs."""
    units = [started(role), *(["fshipper-report.service"] if role is Role.REPORT else [])]
    return [["systemctl", "disable", "--now", *units]]


def behind_uninstall() -> list[Command]:
    """What makes systemd forget the units."""
    return [["systemctl", "daemon-reload"]]


def left_to_people(role: Role) -> list[str]:
    """What only a person can do."""
    edit = f"edit {settings_of(role)}"
    if role is Role.SERVER:
        return [edit, "nats-server -t -c /etc/nats/nats-server.conf", f"systemctl enable --now {started(role)}"]
    config = "" if role is Role.REPORT else f" --config {settings_of(role)}"
    return [edit, f"fshipper validate --role {role}{config}", f"systemctl enable --now {started(role)}"]


def run(commands: Sequence[Command]) -> list[str]:
    """Run each; what failed, as sentences."""
    failed = []
    for command in commands:
        if not shutil.which(command[0]):
            failed.append(f"{command[0]} is not on this machine")
            continue
        done = subprocess.run(command, capture_output=True, text=True, check=False)
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
            return f"{path} is where services do not look: install fshipper below /opt, or give --bin-dir"
    return ""
