"""What belongs to each role of a machine: which shipped file goes where. Values only."""

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
"""Where the shipped units look for the program first; a package puts it there."""
RECORD = "etc/fshipper/.installed.json"


class Role(enum.StrEnum):
    """What a machine does."""

    HOST = "host"
    COLLECTOR = "collector"
    PARTITIONER = "partitioner"
    REPORT = "report"
    SERVER = "server"


class Kind(enum.Enum):
    """What a file is for."""

    UNIT = "unit"
    CONFIGURATION = "configuration"
    SYSTEM = "system"  #: users and directories; roles share it


class Piece(NamedTuple):
    """One shipped file and its place; both paths are relative, to `deploy/` and to the root of the machine."""

    source: str
    target: str
    kind: Kind

    @property
    def mode(self) -> int:
        """Configuration may hold passwords."""
        return 0o640 if self.kind is Kind.CONFIGURATION else 0o644


def _unit(name: str) -> Piece:
    return Piece(f"systemd/{name}", f"{UNITS}/{name}", Kind.UNIT)


def _configuration(name: str) -> Piece:
    return Piece(f"systemd/etc/{name}", f"etc/fshipper/{name}", Kind.CONFIGURATION)


def _system(name: str) -> tuple[Piece, ...]:
    return tuple(Piece(f"systemd/{at}/{name}", f"etc/{at}/{name}", Kind.SYSTEM) for at in ("sysusers.d", "tmpfiles.d"))


_OURS = _system("fshipper.conf")

PIECES: dict[Role, tuple[Piece, ...]] = {
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
        _configuration("report.env"),
    ),
    Role.SERVER: (
        *_system("nats-server.conf"),
        _unit("nats-server.service"),
        Piece("nats/nats-server.conf", "etc/nats/nats-server.conf", Kind.CONFIGURATION),
    ),
}

STATE = {
    Role.HOST: "/var/lib/fshipper/producer",
    Role.COLLECTOR: "/var/lib/fshipper/archive",
    Role.PARTITIONER: "/var/lib/fshipper/partitioner",
    Role.REPORT: "/var/lib/fshipper/report",
    Role.SERVER: "/var/lib/nats",
}
"""What a role leaves on the disk; nobody here removes it."""


def started(role: Role) -> str:
    """The unit that is enabled: of the report it is the timer."""
    units = [Path(piece.target).name for piece in PIECES[role] if piece.kind is Kind.UNIT]
    return next((name for name in units if name.endswith(".timer")), units[0])


def settings_of(role: Role) -> str:
    """The file that a person edits first."""
    return next("/" + piece.target for piece in PIECES[role] if piece.kind is Kind.CONFIGURATION)
