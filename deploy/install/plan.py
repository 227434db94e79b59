"""What is to be done with each file, from what is there, what was written once, and what is shipped now. Pure."""

import enum
import hashlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from deploy.install.roles import PACKAGED_BIN, Kind, Piece


class Do(enum.Enum):
    """What happens to a file."""

    WRITE = "write"
    REPLACE = "replace"
    REMOVE = "remove"
    LEAVE = "leave"


class Action(NamedTuple):
    """What happens to one file, and why."""

    do: Do
    piece: Piece
    why: str
    keeps_old: bool = False  #: what somebody changed stays beside it, as `.old`

    @property
    def changes(self) -> bool:
        """Whether anything is different afterwards."""
        return self.do is not Do.LEAVE


class Found(NamedTuple):
    """What is known about one file of a role."""

    piece: Piece
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
    """What tells whether a file was changed."""
    return hashlib.sha256(content).hexdigest()


def install(found: Iterable[Found], *, overwrite: bool) -> list[Action]:
    """What makes the files those that are shipped, but for the ones that somebody changed."""
    return [_installed(one, overwrite=overwrite) for one in found]


def _installed(one: Found, *, overwrite: bool) -> Action:
    if one.content is None and one.packaged:
        return Action(Do.LEAVE, one.piece, "the package brings it")
    if one.content is None:
        return Action(Do.WRITE, one.piece, "new")
    if one.content == one.shipped:
        return Action(Do.LEAVE, one.piece, "is as it should be")
    if one.is_ours:
        return Action(Do.REPLACE, one.piece, "an older version, unchanged")
    if overwrite:
        return Action(Do.REPLACE, one.piece, "changed by somebody, who finds it as .old", keeps_old=True)
    return Action(Do.LEAVE, one.piece, "changed by somebody; --overwrite replaces it")


def uninstall(found: Iterable[Found], *, purge: bool) -> list[Action]:
    """What removes the files, but for what another role needs, or somebody changed."""
    return [_uninstalled(one, purge=purge) for one in found]


def _uninstalled(one: Found, *, purge: bool) -> Action:
    if one.content is None:
        return Action(Do.LEAVE, one.piece, "is not there")
    if one.shared:
        return Action(Do.LEAVE, one.piece, "another role needs it")
    if one.is_ours:
        return Action(Do.REMOVE, one.piece, "unchanged")
    if purge:
        return Action(Do.REMOVE, one.piece, "changed by somebody, and --purge is given")
    return Action(Do.LEAVE, one.piece, "changed by somebody; --purge removes it")


def rendered(piece: Piece, shipped: str, bin_directory: str) -> bytes:
    """A shipped file as it is written: units look for the program where it is."""
    if piece.kind is Kind.UNIT and bin_directory != PACKAGED_BIN:
        shipped = shipped.replace(f"PATH={PACKAGED_BIN}:", f"PATH={bin_directory}:")
    return shipped.encode()


def record_after(before: Mapping[str, str], actions: Iterable[Action], written: Mapping[str, bytes]) -> dict[str, str]:
    """A role's record, digests by path, once `actions` are done; `written` holds the new contents by path."""
    record = dict(before)
    for action in actions:
        target = action.piece.target
        if action.do is Do.REMOVE:
            record.pop(target, None)
        elif target in written and (action.changes or action.why == "is as it should be"):
            record[target] = digest(written[target])
    return record
