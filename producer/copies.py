"""Is a new file only the copy that copytruncate made of one we know? Its lines must not be shipped a second time."""

import os
from collections.abc import Iterable

from producer import discover
from producer.discover import Seen
from producer.source import Source
from producer.tails import Tails


def is_copy(seen: Seen, tails: Tails, known: Iterable[Source]) -> bool:
    """Whether `seen` has the name that a rotation gives, while the original kept its inode, and the same content.

    The original still lies under its name, so `seen` was not renamed from it: somebody copied. Raises OSError.
    """
    names = {name for name in discover.originals(seen.path) if _is_in_place(name, tails)}
    marks = [each.mark for each in (*known, *tails) if each.file in names] if names else []
    if not any(mark.head_length for mark in marks):
        return False
    descriptor = os.open(seen.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return any(mark.head_length and mark.begins(descriptor) for mark in marks)
    finally:
        os.close(descriptor)


def _is_in_place(name: str, tails: Tails) -> bool:
    """Whether the file that is followed under `name`, or was until its truncation, still lies there."""
    keys = [tail.key for tail in tails.family(name)]
    try:
        found = os.stat(name)
    except OSError:
        return False
    key = (found.st_dev, found.st_ino)
    return key in keys or key in tails.truncated
