"""The files of each role of a machine: which shipped file goes to which path. Values only."""

import enum
from pathlib import Path
from typing import NamedTuple

SHIPPED = Path(__file__).resolve().parent.parent
"""The directory of the shipped files: `deploy/`."""
UNITS = "etc/systemd/system"
PACKAGED = {
    UNITS: ("usr/lib/systemd/system", "lib/systemd/system"),
    "etc/sysusers.d": ("usr/lib/sysusers.d",),
    "etc/tmpfiles.d": ("usr/lib/tmpfiles.d",),
}
"""Where packages put what is ours else."""
PACKAGED_BIN = "/opt/fshipper/bin"
"""Directory where the shipped units search for the program first; a package installs it there."""
RECORD = "etc/fshipper/.installed.json"


class Role(enum.StrEnum):
    """The role of a machine."""

    HOST = "host"
    COLLECTOR = "collector"
    PARTITIONER = "partitioner"
    REPORT = "report"
    BROWSE = "browse"
    SERVER = "server"


class FileKind(enum.Enum):
    """What a file is for."""

    UNIT = "unit"
    CONFIGURATION = "configuration"
    SYSTEM = "system"  #: users and directories; roles share it


class InstallFile(NamedTuple):
    """One shipped file and its place; both paths are relative, to `deploy/` and to the root of the machine."""

    source: str
    target: str
    kind: FileKind

    @property
    def mode(self) -> int:
        """Configuration may hold passwords."""
        return 0o640 if self.kind is FileKind.CONFIGURATION else 0o644


def _unit(name: str) -> InstallFile:
    return InstallFile(f"systemd/{name}", f"{UNITS}/{name}", FileKind.UNIT)


def _configuration(name: str) -> InstallFile:
    return InstallFile(f"systemd/etc/{name}", f"etc/fshipper/{name}", FileKind.CONFIGURATION)


def _system(name: str) -> tuple[InstallFile, ...]:
    return tuple(
        InstallFile(f"systemd/{at}/{name}", f"etc/{at}/{name}", FileKind.SYSTEM) for at in ("sysusers.d", "tmpfiles.d")
    )


_OURS = _system("fshipper.conf")

PIECES: dict[Role, tuple[InstallFile, ...]] = {
    Role.HOST: (
        *_OURS,
        _unit("fshipper-producer.service"),
        _configuration("producer.toml"),
        _configuration("producer.env"),
    ),
    Role.COLLECTOR: (
        *_OURS,
        _unit("fshipper-collector.service"),
        _configuration("collector.toml"),
        _configuration("collector.env"),
    ),
    Role.PARTITIONER: (
        *_OURS,
        _unit("fshipper-partitioner.service"),
        _configuration("partitioner.toml"),
        _configuration("partitioner.env"),
    ),
    Role.REPORT: (
        *_OURS,
        _unit("fshipper-report.service"),
        _unit("fshipper-report.timer"),
        _unit("fshipper-report-send.service"),
        _configuration("report.env"),
        _configuration("send.toml"),
    ),
    Role.BROWSE: (
        *_OURS,
        _unit("fshipper-browse.service"),
        _configuration("browse.toml"),
        _configuration("browse.env"),
    ),
    Role.SERVER: (
        *_system("nats-server.conf"),
        _unit("nats-server.service"),
        InstallFile("nats/nats-server.conf", "etc/nats/nats-server.conf", FileKind.CONFIGURATION),
    ),
}

STATE = {
    Role.HOST: "/var/lib/fshipper/producer",
    Role.COLLECTOR: "/var/lib/fshipper/archive",
    Role.PARTITIONER: "/var/lib/fshipper/partitioner",
    Role.REPORT: "/var/lib/fshipper/report",
    Role.BROWSE: "/var/lib/fshipper/archive",
    Role.SERVER: "/var/lib/nats",
}
"""The data of a role on disk; it is not removed."""


def started(role: Role) -> str:
    """The unit that is enabled: of the report it is the timer."""
    units = [Path(piece.target).name for piece in PIECES[role] if piece.kind is FileKind.UNIT]
    return next((name for name in units if name.endswith(".timer")), units[0])


def settings_of(role: Role) -> str:
    """The file that a person edits first."""
    return next("/" + piece.target for piece in PIECES[role] if piece.kind is FileKind.CONFIGURATION)
