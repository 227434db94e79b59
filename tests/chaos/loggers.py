"""Programs that log and rotate: what they wrote is known to the byte, generation by generation."""

import contextlib
import os
import random
import shutil
import sqlite3
from pathlib import Path

from schedule import Habit, Rotation


class Logger:
    """One program of one host: bursts of numbered lines into app.log, begun anew now and then."""

    def __init__(self, directory: Path, habit: Habit, checkpoint: Path, seed: str) -> None:
        directory.mkdir(parents=True)
        self.host = habit.host
        self.path = directory / "app.log"
        self.watched = directory / habit.pattern
        self.generations = [bytearray()]
        self._habit = habit
        self._checkpoint = checkpoint
        self._chance = random.Random(seed)
        self._stream = self.path.open("ab", buffering=0)
        self._number = 0
        self._rotated: list[tuple[Path, int]] = []
        self._deleted: list[int] = []

    @property
    def written(self) -> bytes:
        return b"".join(self.generations)

    @property
    def deletes(self) -> bool:
        return self._habit.rotation is Rotation.DELETE

    @property
    def copies(self) -> bool:
        return self._habit.rotation is Rotation.COPYTRUNCATE

    def log(self, at_least: int) -> None:
        """Write so many bytes of whole lines, burst by burst."""
        while at_least > 0:
            burst = b"".join(self._line() for _ in range(self._chance.choice((1, 20, 400))))
            cut = self._chance.randrange(1, len(burst))
            self._stream.write(burst[:cut])  # a line may come in two writes
            self._stream.write(burst[cut:])
            self.generations[-1] += burst
            at_least -= len(burst)
            if self._chance.random() < self._habit.rotates:
                self._rotate()

    def _line(self) -> bytes:
        self._number += 1
        return b"%09d %s\n" % (self._number, self._chance.randbytes(self._chance.randrange(90)).hex().encode())

    def _rotate(self) -> None:
        self._delete_what_was_seen()
        away = self.path.with_name(f"app.log.{len(self.generations)}")
        if self.copies:
            shutil.copyfile(self.path, away)
            os.ftruncate(self._stream.fileno(), 0)
        else:
            self._stream.close()
            self.path.rename(away)
            self._stream = self.path.open("ab", buffering=0)
            self._rotated.append((away, len(self.generations[-1])))
        self.generations.append(bytearray())

    def _delete_what_was_seen(self) -> None:
        """What the producer saw to its end is read to its end, or its loss is known to the byte."""
        if self.deletes:
            seen = self._seen()
            for away, size in self._rotated:
                if away.exists() and seen.get(away.stat().st_ino, -1) >= size:
                    self._deleted.append(
                        os.open(away, os.O_RDONLY)
                    )  # no other file gets its inode, which identifies it
                    away.unlink()

    def _seen(self) -> dict[int, int]:
        """How large the producer saw each file, by inode, from its checkpoint; nothing while it is busy."""
        with (
            contextlib.suppress(sqlite3.Error),
            contextlib.closing(sqlite3.connect(f"file:{self._checkpoint}?mode=ro", uri=True, timeout=0.1)) as database,
        ):
            return {int(inode): size for inode, size in database.execute("SELECT inode, size FROM sources")}
        return {}

    def close(self) -> None:
        self._stream.close()
        for descriptor in self._deleted:
            os.close(descriptor)
