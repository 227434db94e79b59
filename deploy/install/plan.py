"""What is to be done with each file, from what is there, what was written once, and what is shipped now. Pure."""

import enum
import hashlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from deploy.install.roles import PACKAGED_BIN, FileKind, InstallFile


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


def install(found: Iterable[FileState], *, overwrite: bool) -> list[Action]:
    """The actions that bring the files to the shipped state, except files that a user changed."""
    return [_installed(one, overwrite=overwrite) for one in found]


def _installed(one: FileState, *, overwrite: bool) -> Action:
    if one.content is None and one.packaged:
        return Action(ActionKind.LEAVE, one.piece, "the package brings it")
    if one.content is None:
        return Action(ActionKind.WRITE, one.piece, "new")
    if one.content == one.shipped:
        return Action(ActionKind.LEAVE, one.piece, "is as it should be")
    if one.is_ours:
        return Action(ActionKind.REPLACE, one.piece, "an older version, unchanged")
    if overwrite:
        return Action(ActionKind.REPLACE, one.piece, "changed by a user; kept as .old", keeps_old=True)
    return Action(ActionKind.LEAVE, one.piece, "changed by a user; --overwrite replaces it")


def uninstall(found: Iterable[FileState], *, purge: bool) -> list[Action]:
    """The actions that remove the files, except those that another role needs or that a user changed."""
    return [_uninstalled(one, purge=purge) for one in found]


def _uninstalled(one: FileState, *, purge: bool) -> Action:
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


def record_after(before: Mapping[str, str], actions: Iterable[Action], written: Mapping[str, bytes]) -> dict[str, str]:
    """A role's record, digests by path, once `actions` are done; `written` holds the new contents by path."""
    record = dict(before)
    for action in actions:
        target = action.piece.target
        if action.do is ActionKind.REMOVE:
            record.pop(target, None)
        elif target in written and (action.changes or action.why == "is as it should be"):
            record[target] = digest(written[target])
    return record
