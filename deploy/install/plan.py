"""Which shipped file goes to which path of each role, and what is to be done with it. Pure.

That follows from what is there, what was written once, and what is shipped now.
"""

import enum
import hashlib
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
AS_SHIPPED = "is as it should be"


class Role(enum.StrEnum):
    """The role of a machine."""

    HOST = "host"
    COLLECTOR = "collector"
    PARTITIONER = "partitioner"
    REPORT = "report"
    BROWSE = "browse"
    WEB = "web"
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


def _service(name: str) -> tuple[InstallFile, ...]:
    return (*_OURS, _unit(f"fshipper-{name}.service"), _configuration(f"{name}.toml"), _configuration(f"{name}.env"))


PIECES: dict[Role, tuple[InstallFile, ...]] = {
    Role.HOST: _service("producer"),
    Role.COLLECTOR: _service("collector"),
    Role.PARTITIONER: _service("partitioner"),
    Role.BROWSE: _service("browse"),
    Role.WEB: _service("web"),
    Role.REPORT: (
        *_OURS,
        _unit("fshipper-report.service"),
        _unit("fshipper-report.timer"),
        _unit("fshipper-report-send.service"),
        _configuration("report.env"),
        _configuration("send.toml"),
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
    Role.WEB: "/var/lib/fshipper/web",
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


class ActionKind(enum.Enum):
    """What happens to a file."""

    WRITE = "write"
    REPLACE = "replace"
    REMOVE = "remove"
    LEAVE = "leave"


class Action(NamedTuple):
    """An action on one file, and its reason."""

    do: ActionKind
    piece: InstallFile
    why: str
    keeps_old: bool = False  #: a changed file is kept in its directory, as `.old`

    @property
    def changes(self) -> bool:
        """Whether anything is different afterwards."""
        return self.do is not ActionKind.LEAVE


class FileState(NamedTuple):
    """The state of one file of a role."""

    piece: InstallFile
    content: bytes | None  #: None: there is none
    shipped: bytes  #: as it would be written
    recorded: str = ""  #: digest of what was written here before
    packaged: bool = False  #: a package brings the same unit
    shared: bool = False  #: another role that is installed has it, too

    @property
    def is_ours(self) -> bool:
        """Whether it is there, and as it was written or is shipped."""
        return self.content is not None and (self.content == self.shipped or digest(self.content) == self.recorded)


def digest(content: bytes) -> str:
    """A digest that shows whether a file was changed."""
    return hashlib.sha256(content).hexdigest()


def install(one: FileState, *, overwrite: bool) -> Action:
    """The action that brings a file to the shipped state, unless a user changed it."""
    if one.content is None and one.packaged:
        return Action(ActionKind.LEAVE, one.piece, "the package brings it")
    if one.content is None:
        return Action(ActionKind.WRITE, one.piece, "new")
    if one.content == one.shipped:
        return Action(ActionKind.LEAVE, one.piece, AS_SHIPPED)
    if one.is_ours:
        return Action(ActionKind.REPLACE, one.piece, "an older version, unchanged")
    if overwrite:
        return Action(ActionKind.REPLACE, one.piece, "changed by a user; kept as .old", keeps_old=True)
    return Action(ActionKind.LEAVE, one.piece, "changed by a user; --overwrite replaces it")


def uninstall(one: FileState, *, purge: bool) -> Action:
    """The action that removes a file, unless another role needs it or a user changed it."""
    if one.content is None:
        return Action(ActionKind.LEAVE, one.piece, "is not there")
    if one.shared:
        return Action(ActionKind.LEAVE, one.piece, "another role needs it")
    if one.is_ours:
        return Action(ActionKind.REMOVE, one.piece, "unchanged")
    if purge:
        return Action(ActionKind.REMOVE, one.piece, "changed by a user, and --purge is given")
    return Action(ActionKind.LEAVE, one.piece, "changed by a user; --purge removes it")


def rendered(piece: InstallFile, shipped: str, bin_directory: str) -> bytes:
    """A shipped file as it is written: units start the program at its path."""
    if piece.kind is FileKind.UNIT and bin_directory != PACKAGED_BIN:
        shipped = shipped.replace(f"PATH={PACKAGED_BIN}:", f"PATH={bin_directory}:")
    return shipped.encode()
