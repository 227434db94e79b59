"""The machine's files: what is there, what was written before, and writing or removing them. The edge of the verb."""

import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from deploy.install.plan import Action, Do, Found, rendered
from deploy.install.roles import PACKAGED, PIECES, RECORD, SHIPPED, Piece, Role

Records = dict[str, dict[str, str]]
"""By role: digests of what was written, by path."""
PRIVATE = {"etc/fshipper": 0o750, "etc/nats": 0o750}


class Place:
    """A machine below `root`: `/`, or an image that is being made."""

    def __init__(self, root: Path, bin_directory: str) -> None:
        self._root = root
        self._bin = bin_directory
        self._records = self._read_records()

    def found(self, role: Role) -> list[Found]:
        """What is known about each file of `role`. Raises OSError: it cannot be read."""
        return [self._look(role, piece) for piece in PIECES[role]]

    def carry_out(self, role: Role, actions: Iterable[Action], record: dict[str, str]) -> None:
        """Write and remove, then remember; a kill between is made good by the next run: the files are as shipped.

        Raises:
            OSError: something cannot be written; what was done so far is done, and the next run goes on.
        """
        for action in actions:
            path = self._root / action.piece.target
            if action.do is Do.REMOVE:
                path.unlink(missing_ok=True)
            elif action.changes:
                if action.keeps_old:
                    path.rename(path.with_name(path.name + ".old"))
                self._write(path, self.content(action.piece), action.piece.mode)
        self._keep(record, role)

    def content(self, piece: Piece) -> bytes:
        """What would be written."""
        return rendered(piece, (SHIPPED / piece.source).read_text(encoding="utf-8"), self._bin)

    def record(self, role: Role) -> dict[str, str]:
        """What was written for `role` before."""
        return dict(self._records.get(role, {}))

    def _look(self, role: Role, piece: Piece) -> Found:
        path = self._root / piece.target
        others = [name for name, record in self._records.items() if name != role and piece.target in record]
        places = PACKAGED.get(os.path.dirname(piece.target), ())
        packaged = any((self._root / at / path.name).exists() for at in places)
        return Found(
            piece,
            path.read_bytes() if path.exists() else None,
            self.content(piece),
            recorded=next((record[piece.target] for record in self._of(piece)), ""),
            packaged=packaged,
            shared=bool(others),
        )

    def _of(self, piece: Piece) -> Iterator[dict[str, str]]:
        return (record for record in self._records.values() if piece.target in record)

    def _read_records(self) -> Records:
        with contextlib.suppress(OSError, ValueError):
            read = json.loads((self._root / RECORD).read_bytes())
            return {str(role): dict(record) for role, record in read["roles"].items()}
        return {}

    def _keep(self, record: dict[str, str], role: Role) -> None:
        self._records[role] = record
        if not record:
            del self._records[role]
        path = self._root / RECORD
        if self._records:
            content = json.dumps({"v": 1, "roles": self._records}, indent=2, sort_keys=True) + "\n"
            if not path.exists() or path.read_text() != content:
                self._write(path, content.encode(), 0o644)
            return
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # something of somebody else's is in it
            path.parent.rmdir()

    def _write(self, path: Path, content: bytes, mode: int) -> None:
        """Whole or not at all, also where the power fails."""
        self._make(path.parent)
        temporary = path.with_name(f".{path.name}.new")
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)  # whatever the umask is
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)

    def _make(self, directory: Path) -> None:
        if directory.is_dir():
            return
        directory.mkdir(parents=True)
        relative = os.path.relpath(directory, self._root)
        if relative in PRIVATE:
            directory.chmod(PRIVATE[relative])
