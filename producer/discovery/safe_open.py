"""Open log files without following links that a hostile user planted.

A producer that runs as root may read every file, so a link in a directory that an application may write to could make
it ship `/etc/shadow`. A link on the way to a file, or in its place, is followed only where one of these holds:

* only root or the user of the producer can have made it: the link and every directory on the way to it are theirs;
* the owner of the link owns the file, and could read it anyway;
* the file is below one of the `link_roots`.

Every step is relative to the descriptor of a directory that was checked, so that exchanging a name for a link meanwhile
changes nothing. A hard link to another user's file in a directory that others may write to is treated in the same way.
"""

import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple

from producer.discovery.patterns import MAX_LINKS, real_path

READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
OWN_DESCRIPTORS = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")
"""Names of files that this process holds open: only it, and its configuration, can mean them."""

_OPENAT2 = 437
_AT_FDCWD = -100
_NO_LINKS = 0x02 | 0x04
"""RESOLVE_NO_MAGICLINKS and RESOLVE_NO_SYMLINKS."""


class NotFollowed(OSError):  # noqa: N818 - the name says what happened
    """A link that is not followed. `reason` names it and the cause."""

    def __init__(self, reason: str, path: str) -> None:
        super().__init__(errno.ELOOP, reason, path)
        self.reason = reason


class ExcludedName(NotFollowed):
    """A name that leads to an excluded one, as a link or as another name of the same file."""

    def __init__(self, path: str, excluded: str) -> None:
        super().__init__(f"the same file as {excluded}, which is excluded", path)


class _Claim(NamedTuple):
    """A link that other users can have made."""

    path: str
    owner: int
    is_shared: bool  #: it has several names, so its owner is not who put it there


class _Place(NamedTuple):
    """A directory on the way to a file."""

    descriptor: int
    name: str
    is_safe: bool  #: only root and the user of the producer can have put a name of theirs on the way to it, or into it
    status: os.stat_result


@dataclass(frozen=True, slots=True)
class Links:
    """Which links are followed."""

    roots: tuple[str, ...] = ()  #: directories; links of any owner to the files below are followed

    def open(self, path: str, flags: int = READ) -> int:
        """A descriptor of the file at `path`, for reading. Raises NotFollowed, and OSError."""
        if path.startswith(OWN_DESCRIPTORS):
            return os.open(path, flags)
        descriptor = _opened_without_links(path, flags)
        if descriptor is not None:
            with close_on_exit(descriptor) as closing:
                found = os.fstat(descriptor)
                if found.st_nlink <= 1 and found.st_mode & stat.S_IROTH:  # the directory does not matter then
                    closing.pop_all()
                    return descriptor
        with _Walk(path) as walk:
            name, status = walk.file()
            self._check(path, walk, name, status)
            try:
                descriptor = os.open(name, flags | os.O_NOFOLLOW, dir_fd=walk.here.descriptor)
            except OSError as error:
                raise OSError(error.errno, error.strerror, path) from None
        with close_on_exit(descriptor) as closing:
            found = os.fstat(descriptor)
            if (found.st_dev, found.st_ino) != (status.st_dev, status.st_ino):
                text = "the file was exchanged while it was opened; the next scan tries again"
                raise OSError(errno.EAGAIN, text, path)
            closing.pop_all()
        return descriptor

    def open_as(self, name: str, path: str, key: tuple[int, int]) -> int | None:
        """A descriptor of the file `key` (device and inode) at `path`, to be read as the file `name`.

        None: another file is at `path`, or none. Raises NotFollowed, and OSError.

        A search that followed links may have found `path`, so that no link is on the way to it any more. Other users
        may exchange names between the search and this call. Therefore the rights are checked on the open descriptor:
        the users who can change where `name` leads must own the file.
        """
        try:
            descriptor = self.open(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        with close_on_exit(descriptor) as closing:
            status = os.fstat(descriptor)
            if (status.st_dev, status.st_ino) != key:
                return None
            if not (path.startswith(OWN_DESCRIPTORS) or self._may_be_read_as(name, path, status)):
                raise NotFollowed(f"not followed: a link led from {name} to {path} of user {status.st_uid}", path)
            closing.pop_all()
            return descriptor

    def status(self, path: str) -> os.stat_result:
        """What is at `path`, which is not opened. Raises NotFollowed, and OSError."""
        if path.startswith(OWN_DESCRIPTORS):
            return os.stat(path)
        with _Walk(path) as walk:
            name, status = walk.file()
            self._check(path, walk, name, status)
        return status

    def may_read_as(self, name: str, path: str) -> bool:
        """Whether the file at `path`, where a link under `name` leads or has led, may be read as `name`.

        A rotation of the target is reached without a link; the user who made the link must be able to read that, too.
        Other users may exchange names after this check: `open_as` repeats it with the open file.
        """
        try:
            return self._may_be_read_as(name, path, None)
        except OSError:
            return False

    def _may_be_read_as(self, name: str, path: str, status: os.stat_result | None) -> bool:
        """Whether a file may be read as `name`. `status`: of the open file, None: it is not open. Raises OSError."""
        directory = os.path.dirname(name)
        if os.path.dirname(path) == directory or self._is_below_a_root(path):
            return True
        with _Walk(name) as walk:
            with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
                walk.file()  # as far as the way exists: only the owners of the existing part can make the rest
            owners, claims, here = walk.owners, walk.claims, walk.here.status
        owner = (os.stat(path) if status is None else status).st_uid
        if owners is not None and owners <= {owner}:
            return True
        if any(claim.is_shared or claim.owner != owner for claim in claims):
            return False
        parent = os.stat(os.path.dirname(path))  # a rotation in the directory to which trusted links lead
        return (parent.st_dev, parent.st_ino) == (here.st_dev, here.st_ino) and not here.st_mode & stat.S_IWOTH

    def _check(self, path: str, walk: "_Walk", name: str, status: os.stat_result) -> None:
        """Raises NotFollowed."""
        physical = os.path.join(walk.physical, name)
        foreign = [claim for claim in walk.claims if claim.is_shared or claim.owner != status.st_uid]
        planted = _may_be_planted(status, walk.here.status)
        if not (foreign or planted) or self._is_below_a_root(physical):
            return
        if foreign:
            link = foreign[0]
            what = f"the link {link.path} of user {link.owner} leads to {physical} of user {status.st_uid}"
        else:
            names = "has a second name" if status.st_nlink > 1 else "may be the rest of a hard link"
            what = f"{physical} of user {status.st_uid} {names}, and other users may write to its directory"
        raise NotFollowed(f"not followed: {what}", path)

    def _is_below_a_root(self, path: str) -> bool:
        roots = {name.rstrip("/") + "/" for root in self.roots for name in (root, real_path(root))}
        return any(path.startswith(root) for root in roots)


FOLLOWED_BY_OWNER = Links()
"""Without roots."""


def close_on_exit(descriptor: int | None) -> ExitStack:
    """Closes an open file at the end of a block, unless `pop_all` was called: another one closes it then."""
    stack = ExitStack()
    if descriptor is not None:
        stack.callback(os.close, descriptor)
    return stack


@contextmanager
def directory_without_links(path: str) -> Iterator[int]:
    """A descriptor of the directory `path`, to which no link leads. Raises NotFollowed, and OSError."""
    with _Walk(path) as walk:
        walk.directory()
        if walk.links:
            raise NotFollowed(f"not followed: {walk.links[0]} is a link", path)
        yield walk.here.descriptor


def check_directory(path: str) -> None:
    """Raise NotFollowed where a link that other users can have made leads to the directory `path`, and OSError."""
    with _Walk(path) as walk:
        walk.directory()
        if walk.claims:
            raise NotFollowed(f"not followed: {walk.claims[0].path} is a link of another user", path)


def is_directory_of_others(directory: os.stat_result, file: os.stat_result) -> bool:
    """Whether users other than root, the user of the producer and the file's owner rule over the names in a directory.

    Members of its group may write there, too: administrators grant that.
    """
    is_open = directory.st_mode & stat.S_IWOTH and not directory.st_mode & stat.S_ISVTX
    return bool(is_open) or directory.st_uid not in {0, os.geteuid(), file.st_uid}


class _Walk:
    """One step after the other from the root directory. Links are read and noted here, and never by the kernel."""

    def __init__(self, path: str) -> None:
        self.claims: list[_Claim] = []
        self.links: list[str] = []
        self._owners: set[int] = set()
        self._is_open = False
        self._path = path
        self._todo = path.split("/")[::-1]
        descriptor = os.open("/", os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY)
        status = os.fstat(descriptor)
        self._places = [_Place(descriptor, "", is_safe=_is_ours(status), status=status)]

    def __enter__(self) -> "_Walk":
        return self

    def __exit__(self, *_: object) -> None:
        for place in self._places:
            os.close(place.descriptor)

    @property
    def here(self) -> _Place:
        """The last directory on the way."""
        return self._places[-1]

    @property
    def physical(self) -> str:
        """Its path, without links."""
        return "/" + "/".join(place.name for place in self._places[1:])

    @property
    def owners(self) -> set[int] | None:
        """The users, besides root and the user of the producer, who can change where the way leads. None: any user."""
        is_open = self._is_open or bool(self.here.status.st_mode & stat.S_IWOTH)
        if is_open or any(claim.is_shared for claim in self.claims):
            return None
        return (self._owners | {claim.owner for claim in self.claims}) - {0, os.geteuid()}

    def file(self) -> tuple[str, os.stat_result]:
        """Go to the directory of the file. Its name there, and what it is."""
        end = self._go()
        if end is None:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self._path)
        return end

    def directory(self) -> None:
        """Go into the directory."""
        if self._go() is not None:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self._path)

    def _go(self) -> tuple[str, os.stat_result] | None:
        while self._todo:
            name = self._todo.pop()
            if name == "..":
                self._go_up()
            elif name not in {"", "."} and (status := self._step(name)) is not None:
                return name, status
        return None

    def _step(self, name: str) -> os.stat_result | None:
        """Go into a directory, or along a link. What a file at the end of the way is."""
        try:
            found = os.open(name, _PLACE, dir_fd=self.here.descriptor)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._path) from None
        with close_on_exit(found) as closing:
            status = os.fstat(found)
            if stat.S_ISLNK(status.st_mode):
                self._follow(name, status, os.readlink("", dir_fd=found))
            elif stat.S_ISDIR(status.st_mode):
                self._owners.add(status.st_uid)
                self._is_open |= bool(status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX)
                self._places.append(_Place(found, name, self.here.is_safe and _is_ours(status), status))
                closing.pop_all()
            elif any(self._todo):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self._path)
            else:
                return status
        return None

    def _follow(self, name: str, status: os.stat_result, target: str) -> None:
        path = os.path.join(self.physical, name)
        self.links.append(path)
        if len(self.links) > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), self._path)
        is_shared = status.st_nlink > 1
        if is_shared or not (self.here.is_safe and status.st_uid in {0, os.geteuid()}):
            self.claims.append(_Claim(path, status.st_uid, is_shared))
        if target.startswith("/"):
            while len(self._places) > 1:
                self._go_up()
        self._todo.extend(target.split("/")[::-1])

    def _go_up(self) -> None:
        if len(self._places) > 1:
            os.close(self._places.pop().descriptor)


def _is_ours(directory: os.stat_result) -> bool:
    """Whether only root and the user of the producer can move names of theirs in a directory, and its group."""
    is_open = directory.st_mode & stat.S_IWOTH and not directory.st_mode & stat.S_ISVTX
    return not is_open and directory.st_uid in {0, os.geteuid()}


def _may_be_planted(file: os.stat_result, directory: os.stat_result) -> bool:
    """Whether a user who may not read a file can have made a hard link to it in this directory.

    The file may have one name only: its first name can be removed after the link was made. Then the group of a
    directory and the users of a sticky one are trusted, because most files there have had no other name.
    """
    if file.st_mode & stat.S_IROTH:
        return False  # who can reach a file to link it can read it
    group_may_read = file.st_gid == directory.st_gid and bool(file.st_mode & stat.S_IRGRP)
    if file.st_nlink <= 1:
        return is_directory_of_others(directory, file) and not group_may_read
    if directory.st_mode & stat.S_IWOTH or directory.st_uid not in {0, os.geteuid(), file.st_uid}:
        return True
    return bool(directory.st_mode & stat.S_IWGRP) and not group_may_read


class _How(ctypes.Structure):
    """`struct open_how` of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_libc = ctypes.CDLL(None, use_errno=True)
_REFUSALS = {errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.E2BIG}
"""What kernels before 5.6 and filters of system calls answer to openat2(2). Then each step is checked here."""


def _opened_without_links(path: str, flags: int) -> int | None:
    """The file at `path`, if no link is on the way. None: one is, or the kernel cannot check. Raises OSError."""
    how = _How(flags, 0, _NO_LINKS)
    while True:
        descriptor = _libc.syscall(_OPENAT2, _AT_FDCWD, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
        if descriptor >= 0:
            return int(descriptor)
        number = ctypes.get_errno()
        if number == errno.ELOOP or number in _REFUSALS:
            return None
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number), path)
