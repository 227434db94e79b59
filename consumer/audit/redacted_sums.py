"""Sums of redacted text in journals: they are not kept, because short text can be guessed from its sum."""

import contextlib
from collections.abc import Iterable
from pathlib import Path

from consumer.archive.directory import found_journals, is_written, lock_path, try_lock
from consumer.archive.journal import Journal
from consumer.model import SourceKey


def forget_in_journals(archive: Path, journals: Path, redacted: Iterable[SourceKey]) -> None:
    """Keep no sum of `redacted` in the journals that no collector holds. A running one reads the record of them.

    Raises Fatal: a journal cannot be read. OSError, sqlite3.Error: or not written.
    """
    keys = set(redacted)
    if not (keys and journals.is_dir()):
        return
    for _, partition, epoch, path in found_journals(journals):
        if is_written(archive, partition):
            continue
        lock = try_lock(lock_path(archive, partition, epoch), f"partition {partition} of the archive {archive}")
        if lock is None:
            continue
        with lock, contextlib.closing(Journal(path)) as journal:
            journal.forget_sums(keys)
