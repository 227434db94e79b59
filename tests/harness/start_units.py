"""A small `systemctl` for a machine without systemd: starts the program of a unit, and waits until it is ready."""

import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

UNITS = Path("/etc/systemd/system")
PIDS = Path("/run/units")
READY_SECONDS = 30.0


def lines_of(unit: str) -> Iterator[tuple[str, str]]:
    """Key and value of each assignment."""
    for line in (UNITS / unit).read_text().splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            yield key, value


def environment_of(unit: str) -> dict[str, str]:
    """What systemd would set, and nothing else."""
    found = {"LANG": "C.UTF-8", "HOME": "/"}
    for key, value in lines_of(unit):
        if key == "Environment":
            name, _, text = value.strip('"').partition("=")
            found[name] = text
        elif key == "EnvironmentFile" and Path(value.lstrip("-")).exists():
            text = Path(value.lstrip("-")).read_text()
            found |= dict(line.split("=", 1) for line in text.splitlines() if "=" in line and line[0] != "#")
    return found


def start(unit: str) -> None:
    """Run it as the unit describes, but as the current user; a timer only waits."""
    if unit.endswith(".timer"):
        assert (UNITS / unit.replace(".timer", ".service")).exists()
        return
    said = dict(lines_of(unit))
    environment = environment_of(unit)
    for key, below in (("StateDirectory", "/var/lib"), ("RuntimeDirectory", "/run")):
        if key in said:
            Path(below, said[key]).mkdir(parents=True, exist_ok=True)
    PIDS.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link, (PIDS / f"{unit}.log").open("ab") as log:
        link.bind(str(PIDS / f"{unit}.notify"))
        link.settimeout(READY_SECONDS)
        for key, value in lines_of(unit):
            if key == "ExecStartPre":
                subprocess.run(shlex.split(value), env=environment, check=True)
        process = subprocess.Popen(
            shlex.split(said["ExecStart"]), env=environment | {"NOTIFY_SOCKET": str(PIDS / f"{unit}.notify")},
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/",
        )  # fmt: skip
        (PIDS / unit).write_text(str(process.pid))
        while said["Type"] == "notify" and b"READY=1" not in link.recv(65536):
            pass


def main(verb: str, *units: str) -> None:
    """`enable --now`, `start`, `restart`, `reload`, `status`, `stop`, `daemon-reload`."""
    names = [unit if "." in unit else f"{unit}.service" for unit in units if not unit.startswith("-")]
    if verb == "daemon-reload":
        return
    for unit in names:
        assert (UNITS / unit).exists(), f"Unit {unit} could not be found."
        pid = int((PIDS / unit).read_text()) if (PIDS / unit).exists() else 0
        if verb in {"reload", "stop"}:
            os.kill(pid, signal.SIGHUP if verb == "reload" else signal.SIGTERM)
        elif verb == "status":
            os.kill(pid, 0)
        elif verb in {"enable", "start"}:
            start(unit)
        else:
            raise SystemExit(f"unknown verb {verb}")


if __name__ == "__main__":
    main(*sys.argv[1:])
