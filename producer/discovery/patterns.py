"""Where a new name could match a pattern: directories, those on the way to them, and what links lead over."""

import errno
import fnmatch
import glob
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence

EVERY_DEPTH = "**"
MAX_LINKS = 40  # one leads to the next; as the kernel has it


Unlisted = Callable[[str, OSError], None]
"""Takes a directory that cannot be searched now, and the reason."""


def pass_over(_directory: str, _error: OSError) -> None:
    """For callers that need only the places where names could be."""


def expand(directory: str, unlisted: Unlisted = pass_over) -> Iterable[str]:
    """The directories that a pattern matches, each with a slash at its end. One without wildcards as it is.

    `**` does not follow symbolic links, as in a shell: two links to a directory above would never come to an end.
    """
    if not glob.has_magic(directory):
        return [directory]
    root, *steps = directory.split(os.sep)
    return dict.fromkeys(_below(root or os.sep, [step for step in steps if step], unlisted))


def _below(directory: str, steps: list[str], unlisted: Unlisted) -> Iterator[str]:
    if not steps:
        yield os.path.join(directory, "")
    elif steps[0] == EVERY_DEPTH:
        yield from _below(directory, steps[1:], unlisted)
        for entry in _directories(directory, "*", unlisted):
            if not entry.is_symlink():
                yield from _below(entry.path, steps, unlisted)
    elif glob.has_magic(steps[0]):
        for entry in _directories(directory, steps[0], unlisted):
            yield from _below(entry.path, steps[1:], unlisted)
    elif _is_directory(step := os.path.join(directory, steps[0]), unlisted):
        yield from _below(step, steps[1:], unlisted)


def _directories(parent: str, pattern: str, unlisted: Unlisted) -> "list[os.DirEntry[str]]":
    """The directories in `parent` whose names match `pattern`, hidden ones only if it begins with a dot."""
    return [
        entry
        for entry in listed(parent, unlisted)
        if fnmatch.fnmatchcase(entry.name, pattern)
        and (pattern.startswith(".") or not entry.name.startswith("."))
        and (entry.is_dir(follow_symlinks=False) or (entry.is_symlink() and _is_directory(entry.path, unlisted)))
    ]


def listed(directory: str, unlisted: Unlisted) -> "list[os.DirEntry[str]]":
    """The entries of a directory. Empty if it does not exist or cannot be listed."""
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError as error:
        _report(directory, error, unlisted)
        return []


def _is_directory(path: str, unlisted: Unlisted) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except OSError as error:
        _report(path, error, unlisted)
        return False


def _report(path: str, error: OSError, unlisted: Unlisted) -> None:
    """A directory that is gone has no names. That links form a circle, or are too long, is no matter of rights."""
    if error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}:
        unlisted(path.rstrip(os.sep) or os.sep, error)


def directories(patterns: Iterable[str]) -> set[str]:
    """The directories in which a new name could match, or could be a directory on the way to one."""
    found: set[str] = set()
    for pattern in patterns:
        parent = pattern if os.path.basename(pattern) == EVERY_DEPTH else os.path.dirname(pattern)
        while glob.has_magic(parent):
            found.update(directory.rstrip(os.sep) or os.sep for directory in expand(parent))
            parent = os.path.dirname(parent)
        found.add(parent)
    return found


def link_targets(path: str) -> Iterator[str]:
    """The names that a symbolic link leads over, the last one that of the file."""
    for _ in range(MAX_LINKS):
        try:
            path = os.path.join(os.path.dirname(path), os.readlink(path))
        except OSError:
            return  # no link
        yield path


def real_path(path: str) -> str:
    """`path` without symbolic links. As it is if other users replace its links faster than they can be read.

    `os.path.realpath` of Python 3.11 raises OSError if a link becomes a file or directory while it is read.
    """
    for _ in range(MAX_LINKS):
        try:
            return os.path.realpath(path)
        except OSError:
            continue
    return path


def prefix_matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """A function: whether an absolute path may match one of `patterns`, or be a directory on the way to such a path."""
    plain: set[str] = set()
    for pattern in patterns:  # also one with wildcards: it may be the name of a file
        path = pattern
        while path not in plain and path != os.path.dirname(path):
            plain.add(path)
            path = os.path.dirname(path)
    globs = [
        [
            None if part == EVERY_DEPTH else re.compile(fnmatch.translate(part)).match
            for part in pattern.split(os.sep)[1:]
        ]
        for pattern in patterns
        if glob.has_magic(pattern)
    ]
    return lambda path: path in plain or any(_leads(path, steps) for steps in globs)


def path_matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """A function: whether `patterns` find an absolute path, if a file is there."""
    plain = frozenset(patterns)
    globs = [
        [None if part == EVERY_DEPTH else _step(part) for part in pattern.split(os.sep)[1:]]
        for pattern in patterns
        if glob.has_magic(pattern)
    ]

    def is_named(path: str) -> bool:
        if path in plain:
            return True
        parts = path.split(os.sep)[1:]
        return any(_fits(parts, steps) for steps in globs)

    return is_named


def _step(part: str) -> "Step":
    """Whether a part of a path matches. A hidden one only where the pattern begins with a dot, as in a shell."""
    is_match, is_plain, hidden = re.compile(fnmatch.translate(part)).match, not glob.has_magic(part), part[:1] == "."
    return lambda text: text == part if is_plain else (hidden or text[:1] != ".") and is_match(text) is not None


def _fits(parts: Sequence[str], steps: "Sequence[Step | None]") -> bool:
    """Whether all parts of a path match. None, for `**`: any number of directories, or of parts at the end."""
    if not steps:
        return not parts
    if not parts:
        return False
    if (step := steps[0]) is not None:
        return bool(step(parts[0])) and _fits(parts[1:], steps[1:])
    if len(steps) == 1:
        return not any(part[:1] == "." for part in parts)
    depths = range(next((at for at, part in enumerate(parts) if part[:1] == "."), len(parts)) + 1)
    return any(_fits(parts[depth:], steps[1:]) for depth in depths)


Step = Callable[[str], object]


def _leads(path: str, steps: Sequence[Step | None]) -> bool:
    """Whether all parts of a path match as far as there are steps. None, for `**`: whatever follows matches."""
    parts = path.split(os.sep)[1:]
    for part, step in zip(parts, steps, strict=False):
        if step is None:
            return True
        if not step(part):
            return False
    return len(parts) <= len(steps)
