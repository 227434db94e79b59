"""Links that a hostile user plants in a log directory: a producer of root ships and deletes nothing through them.

`mallory` owns `app/`, and may do there what the kernel lets a user do. `secret/` and what is in it is for root only.
"""

import contextlib
import ctypes
import gzip
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from harness.fleet import until
from producing import Host, append
from spooling import running, spool_in, text

from producer.discovery import safe_open, scanner
from producer.discovery.patterns import real_path
from producer.discovery.safe_open import Links, NotFollowed
from producer.inputs.factory import inputs_of, named
from producer.inputs.pipes import POLL_SECONDS, Fifo
from producer.inputs.syslog import Address, listen
from producer.tailer.ended_files import REMOVED, DeletableFile, DeletionOutcome, delete
from shipper.errors import ConfigError
from shipper.settings import ProducerSettings

MALLORY, ALICE = 4711, 4712
OWNERS = {"root": 0, "mallory": MALLORY, "alice": ALICE}
SECRET = b"for root only\n" * 100
OPENINGS = 1500
AT_FDCWD, RENAME_EXCHANGE = -100, 2
Argument, Result = TypeVar("Argument"), TypeVar("Result")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give files to other users")


class Place:
    """`app/` of mallory, `data/` and `log/` of root with logs of applications, and `secret/`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.app, self.secret = directory / "app", directory / "secret"
        self.log, self.data = directory / "log", directory / "data"
        for path in (self.app, self.log, self.data):
            path.mkdir()
            path.chmod(0o755)
        self.secret.mkdir(mode=0o700)
        os.chown(self.app, MALLORY, MALLORY)
        self.shadow = self.secret / "shadow.log"
        self.shadow.write_bytes(SECRET)
        self.shadow.chmod(0o600)
        self.patterns = ["app/*.log"]
        self.options: dict[str, object] = {}

    def link(
        self, target: Path | str, name: str = "s.log", *, owner: int = MALLORY, beside: Path | None = None
    ) -> Path:
        path = (beside or self.app) / name
        path.symlink_to(target)
        os.chown(path, owner, owner, follow_symlinks=False)
        return path

    def file(self, path: Path, text: bytes = b"own\n", *, owner: int = MALLORY, mode: int = 0o644) -> Path:
        path.write_bytes(text)
        path.chmod(mode)
        os.chown(path, owner, owner)
        return path

    def make(self, text: str) -> None:
        """Make links `A -> B` of mallory, or `A -> B of root`, hard links `A = B`, and files `A: of alice 600`."""
        for step in text.split("; "):
            match step.split():
                case ["watch", *patterns]:
                    self.patterns = patterns
                case ["root", name]:
                    self.options = {"links": Links((str(self.directory / name),))}
                case ["dir", name]:
                    (self.directory / name).mkdir()
                    os.chown(self.directory / name, MALLORY, MALLORY)
                case ["gone", name]:
                    (self.directory / name).unlink()
                case ["mode", name, mode, group]:
                    (self.directory / name).chmod(int(mode, 8))
                    os.chown(self.directory / name, 0, OWNERS[group])
                case [name, "=", target]:
                    os.link(self.directory / target, self.directory / name)
                case [name, "->", target, *owner]:
                    self._link(name, target, *owner[1:])
                case [name, "of", owner, mode]:
                    path = self.directory / name.removesuffix(":")
                    self.file(path, SECRET, owner=OWNERS[owner], mode=int(mode, 8))

    def _link(self, name: str, target: str, owner: str = "mallory") -> None:
        path = target if target.startswith((".", "/")) else self.directory / target
        self.link(path, name, owner=OWNERS[owner], beside=self.directory)

    def host(self) -> Host:
        state = self.directory / "state"
        state.mkdir(exist_ok=True)
        return Host(self.directory, *self.patterns, state=state, **self.options)


def shipped(host: Host) -> bytes:
    host.ship()
    host.let_go()
    return b"".join(data for _, data in host.archive.order)


# -- what must not arrive: each is set up, and ships what it returns, if anything ----------------------------------

Planted = Callable[[Place], bytes | None]
PLANTED: dict[str, Planted | str] = {
    "to the file": "app/s.log -> secret/shadow.log",
    "relative": "app/s.log -> ../secret/shadow.log",
    "to a link": "app/second -> secret/shadow.log; app/s.log -> app/second",
    "named by its own path": "watch app/s.log; app/s.log -> secret/shadow.log",
    "to a directory below a glob": "watch app/*/*.log; app/d -> secret",
    "to a directory in a path": "watch app/d/shadow.log; app/d -> secret",
    "below a double star": "watch app/**/*.log; dir app/deep; app/deep/s.log -> secret/shadow.log",
    "over a directory of links": "app/d -> secret; app/s.log -> ./d/shadow.log",
    "to the environment of the producer": "app/s.log -> /proc/self/environ; app/t.log -> /proc/self/cmdline",
    "in a circle": "app/t.log -> ./s.log; app/s.log -> ./t.log",
    "to another user's file": "data/alice: of alice 600; app/s.log -> data/alice",
    "to a file that every user may read": "data/public: of root 644; app/s.log -> data/public",
    "hard": "app/s.log = secret/shadow.log",
    "hard, and the first name is gone": "app/s.log = secret/shadow.log; gone secret/shadow.log",
    "hard, gone, in a directory that all write to": "watch log/*.log; mode log 777 root; log/s.log = secret/shadow.log;"
    " gone secret/shadow.log",
    "hard, in a sticky directory": "watch log/*.log; mode log 1777 root; log/s.log = secret/shadow.log",
    "hard, in a directory of a group": "watch log/*.log; mode log 775 mallory; log/s.log = secret/shadow.log",
    "of root, moved into the directory": "data/alice: of alice 600; app/s.log -> data/alice of root",
    "in a sticky directory": "watch log/*.log; mode log 1777 root; log/s.log -> secret/shadow.log",
    "out of a link root": "root data; app/s.log -> data/../secret/shadow.log",
    "next to a link root": "root secr; app/s.log -> secret/shadow.log",
    "out of a link root over a second link": "root data; data/second -> secret/shadow.log; app/s.log -> data/second",
}
"""What is planted, in the words of `Place.make`, or a function that plants it."""


def planted(setup: Planted) -> Planted:
    PLANTED[setup.__name__] = setup
    return setup


@planted
def a_link_to_devices_and_fifos(place: Place) -> None:
    os.mkfifo(place.app / "fifo")
    place.link("/dev/zero")
    place.link("fifo", "t.log")


@planted
def a_link_through_proc_root(place: Place) -> None:
    place.link(f"/proc/self/root{place.shadow}")


@planted
def a_link_through_the_working_directory_of_a_process(place: Place) -> None:
    os.chdir(place.secret)
    place.link("/proc/self/cwd/shadow.log")


@planted
def a_link_to_a_descriptor_of_the_producer(place: Place) -> None:
    descriptor = os.open(place.shadow, os.O_RDONLY)
    place.link(f"/proc/self/fd/{descriptor}")
    place.link(f"/dev/fd/{descriptor}", "t.log")


@planted
def a_hard_link_to_a_link_of_root(place: Place) -> None:
    os.link(place.link(place.shadow, "current", owner=0, beside=place.log), place.app / "s.log", follow_symlinks=False)


@planted
def a_link_that_an_older_version_followed(place: Place) -> None:
    place.link(place.shadow)
    place.options = {"links": Links(("/",))}
    host = place.host()
    assert shipped(host) == SECRET
    host.kill()
    place.options = {}
    append(place.shadow, SECRET)


@planted
def a_rotation_of_what_an_older_version_followed(place: Place) -> None:
    place.link(place.shadow)
    place.options = {"links": Links(("/",))}
    host = place.host()
    assert shipped(host) == SECRET
    host.kill()
    place.options = {}
    append(place.shadow, SECRET)
    place.shadow.rename(place.secret / "shadow.log.1")


@planted
def a_link_in_the_place_of_a_known_file(place: Place) -> bytes:
    path = place.file(place.app / "s.log")
    host = place.host()
    host.ship()
    path.unlink()
    place.link(place.shadow)
    host.ship()
    assert shipped(host) == b"own\n"
    host.kill()
    return b""


@planted
def a_link_in_the_place_of_a_known_directory(place: Place) -> bytes:
    place.patterns = ["app/*/*.log"]
    (place.app / "d").mkdir()
    place.file(place.app / "d" / "shadow.log")
    host = place.host()
    assert shipped(host) == b"own\n"
    (place.app / "d").rename(place.app / "e")
    place.link(place.secret, "d")
    assert shipped(host) == b"own\n"
    host.kill()
    return b""


@planted
def a_rotation_of_what_a_link_leads_to(place: Place) -> bytes:
    path = place.file(place.app / "s.log")
    host = place.host()
    assert shipped(host) == b"own\n"
    path.unlink()
    place.link(place.secret / "x.log")
    place.file(place.secret / "x.log", SECRET, owner=0, mode=0o600)
    place.file(place.secret / "x.log.1", SECRET, owner=0, mode=0o600)
    assert shipped(host) == b"own\n"
    host.kill()
    return b""


@planted
def a_link_with_the_name_of_a_rotation(place: Place) -> bytes:
    path = place.file(place.app / "s.log")
    host = place.host()
    assert shipped(host) == b"own\n"
    path.unlink()
    place.link(place.shadow, "s.log.1")
    os.utime(place.shadow)
    place.file(place.app / "s.log", b"new\n")
    assert shipped(host) == b"own\nnew\n"
    host.kill()
    return b""


@planted
def a_link_with_the_name_of_a_compressed_rotation(place: Place) -> bytes:
    path = place.file(place.app / "s.log")
    host = place.host()
    assert shipped(host) == b"own\n"
    path.unlink()
    place.file(place.secret / "x.gz", gzip.compress(SECRET), owner=0, mode=0o600)
    place.link(place.secret / "x.gz", "s.log.1.gz")
    place.file(place.app / "s.log", b"new\n")
    assert shipped(host) == b"own\nnew\n"
    host.kill()
    return b""


@planted
def a_link_before_a_file_of_root_that_is_watched_does_not_hide_it(place: Place) -> bytes:
    place.patterns = ["app/*.log", "log/*.log"]
    place.link(place.file(place.log / "z.log", b"legitimate\n", owner=0, mode=0o600))
    return b"legitimate\n"


@planted
def a_link_to_a_known_file_of_root_does_not_stop_it(place: Place) -> bytes:
    place.patterns = ["app/*.log", "log/*.log"]
    path = place.file(place.log / "z.log", b"legitimate\n", owner=0, mode=0o600)
    host = place.host()
    assert shipped(host) == b"legitimate\n"
    place.link(path)
    append(path, b"more\n")
    assert shipped(host) == b"legitimate\nmore\n"
    host.restart(while_down=lambda: append(path, b"and more\n"))
    assert shipped(host) == b"legitimate\nmore\nand more\n"
    host.kill()
    return b""


@pytest.mark.parametrize("name", PLANTED)
@pytest.mark.parametrize("kernel", ["openat2", "each step"])
def test_a_planted_link_ships_nothing_that_its_maker_may_not_read(
    kernel: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if kernel == "each step":
        monkeypatch.setattr(safe_open, "_opened_without_links", lambda *_: None)
    place = Place(tmp_path)
    setup = PLANTED[name]
    wanted = place.make(setup) if isinstance(setup, str) else setup(place)
    host = place.host()
    assert shipped(host) == (wanted or b"")
    assert set(host.archive.files.values()) <= {str(place.log / "z.log"), str(place.app / "s.log")}


# -- what is followed -------------------------------------------------------------------------------------------------


FOLLOWED = {
    "own link to own file": "data/x: of mallory 644; app/s.log -> data/x",
    "link of root to the file of a user": "watch log/*.log; app/x: of mallory 644; log/s.log -> app/x of root",
    "link of root to the file of root": "watch log/*.log; log/s.log -> secret/shadow.log of root",
    "directory that root moved to another disk": "watch log/app/*.log; app/x.log: of mallory 644;"
    " log/app -> app of root",
    "link to a file below a link root": "root secret; app/s.log -> secret/shadow.log",
    "container logs": "watch log/*.log; data/0.log: of root 640; data/pod.log -> data/0.log of root;"
    " log/web.log -> data/pod.log of root",
    "second name of an own file": "app/x: of mallory 600; app/s.log = app/x",
}


@pytest.mark.parametrize("setup", FOLLOWED.values(), ids=FOLLOWED)
def test_links_that_no_other_user_can_have_made_are_followed(setup: str, tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.make(setup)
    host = place.host()
    assert shipped(host) == SECRET
    assert host.sources.resolver.refused == {}


def test_a_link_that_is_not_followed_is_reported_once_and_counted_and_read_once_it_is_allowed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    path = place.link(place.shadow)
    host = place.host()
    assert shipped(host) == b""
    ((name, reason),) = host.sources.resolver.refused.items()
    assert name == str(path)
    assert f"of user {MALLORY}" in reason.reason
    assert len(host.sources.resolver.links_not_followed) == 1
    assert host.sources.unread == []
    host.kill()
    place.options = {"links": Links((str(place.secret),))}
    assert shipped(place.host()) == SECRET


# -- races ------------------------------------------------------------------------------------------------------------


@contextmanager
def exchanged(one: Path, other: Path, name: Path) -> Iterator[None]:
    """Another thread puts `one` and `other` under `name` in turn, as fast as it can, and never leaves it empty."""
    stop = threading.Event()
    one.rename(name)
    libc = ctypes.CDLL(None, use_errno=True)
    here, there = os.fsencode(name), os.fsencode(other)

    def exchange() -> None:
        while not stop.is_set():
            assert libc.renameat2(AT_FDCWD, here, AT_FDCWD, there, RENAME_EXCHANGE) == 0, ctypes.get_errno()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)


def opened(path: Path) -> str:
    """What became of an attempt."""
    try:
        descriptor = Links().open(str(path))
    except NotFollowed:
        return "not followed"
    except OSError:
        return "unknown"
    try:
        return "secret" if os.pread(descriptor, 100, 0).startswith(SECRET[:10]) else "own"
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("what", ["file", "directory", "hard link", "directory of hard links"])
@pytest.mark.parametrize("kernel", ["openat2", "each step"])
def test_a_name_that_is_exchanged_for_a_link_while_it_is_opened_gives_no_byte_away(
    kernel: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kernel == "each step":
        monkeypatch.setattr(safe_open, "_opened_without_links", lambda *_: None)
    place = Place(tmp_path)
    own, foreign, name = place.app / "own", place.app / "foreign", place.app / "s.log"
    path = name
    if what.startswith("directory"):
        own.mkdir()
        place.file(own / "shadow.log")
        path = name / "shadow.log"
        if what == "directory":
            place.link(place.secret, "foreign")
        else:
            foreign.mkdir()
            os.chown(foreign, MALLORY, MALLORY)
            os.link(place.shadow, foreign / "shadow.log")
    else:
        place.file(own)
        if what == "file":
            place.link(place.shadow, "foreign")
        else:
            os.link(place.shadow, foreign)
    with exchanged(own, foreign, name):
        found, deadline = {opened(path) for _ in range(OPENINGS)}, time.monotonic() + 20
        while not {"own", "not followed"} <= found and time.monotonic() < deadline:
            found.add(opened(path))
    assert "secret" not in found
    assert {"own", "not followed"} <= found, "the race did not take place"


def test_a_producer_that_scans_while_names_are_exchanged_ships_only_what_is_the_users(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.patterns = ["app/*.log", "app/*/*.log"]
    place.file(place.app / "own")
    place.link(place.shadow, "foreign")
    (place.app / "files").mkdir()
    place.file(place.app / "files" / "shadow.log")
    place.link(place.secret, "outside")
    host = place.host()
    with (
        exchanged(place.app / "own", place.app / "foreign", place.app / "s.log"),
        exchanged(place.app / "files", place.app / "outside", place.app / "d"),
    ):
        for _ in range(60):
            host.ship()
            host.now += 10
    assert SECRET[:10] not in b"".join(data for _, data in host.archive.order)


def exchange(one: Path, other: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    names = AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other)
    assert libc.renameat2(*names, RENAME_EXCHANGE) == 0, ctypes.get_errno()


def while_exchanged(function: Callable[[Argument], Result], one: Path, other: Path) -> Callable[[Argument], Result]:
    """`function`, during which two names are exchanged."""

    def call(argument: Argument) -> Result:
        exchange(one, other)
        try:
            return function(argument)
        finally:
            exchange(one, other)

    return call


def exchangeable(place: Place, owner: int) -> tuple[Path, Path]:
    """A directory of watched logs that belongs to `owner`, and a link to root's directory to exchange it for."""
    place.patterns = ["app/d/*.log"]
    name, planted = place.app / "d", place.link(place.secret, "planted")
    name.mkdir()
    os.chown(name, owner, owner)
    return name, planted


@pytest.mark.parametrize("owner", [MALLORY, 0])
def test_a_file_that_was_scanned_over_a_link_and_could_not_be_opened_is_not_opened_where_the_link_led(
    owner: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first scan and the search after the failed open see the link; every other call sees a directory."""
    place = Place(tmp_path)
    name, planted = exchangeable(place, owner)
    with monkeypatch.context() as patched:
        patched.setattr(scanner, "scan", while_exchanged(scanner.scan, planted, name))
        host = place.host()
    assert len(host.sources.resolver.unopened) == 1
    monkeypatch.setattr(scanner, "real_path", while_exchanged(real_path, planted, name))
    assert shipped(host) == b""


@pytest.mark.parametrize("owner", [MALLORY, 0])
def test_a_rotation_that_was_listed_over_a_link_is_not_shipped(
    owner: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name leads to the directory of root while its target is resolved, and not when its owner is checked."""
    place = Place(tmp_path)
    name, planted = exchangeable(place, owner)
    path = place.file(name / "x.log")
    host = place.host()
    assert shipped(host) == b"own\n"
    path.unlink()
    place.file(place.secret / "x.log.1", SECRET, owner=0, mode=0o600)
    monkeypatch.setattr(scanner, "real_path", while_exchanged(real_path, planted, name))
    assert shipped(host) == b"own\n"


def test_a_directory_that_a_link_of_root_leads_to_and_that_is_exchanged_for_a_link_gives_no_rotation_away(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)
    place.patterns = ["log/web.log"]
    logs = place.app / "logs"
    logs.mkdir()
    os.chown(logs, MALLORY, MALLORY)
    place.file(logs / "web.log")
    place.link(logs / "web.log", "web.log", owner=0, beside=place.log)
    host = place.host()
    assert shipped(host) == b"own\n"
    (logs / "web.log").rename(logs / "web.log.2")
    place.file(logs / "web.log.1", b"rotated\n", owner=0)  # by a daemon that runs as root
    place.file(logs / "web.log", b"new\n")
    assert shipped(host) == b"own\nrotated\nnew\n"
    logs.rename(place.app / "kept")
    place.link(place.secret, "logs")
    for name in ("web.log.1", "web.log"):
        place.file(place.secret / name, SECRET, owner=0, mode=0o600)
    assert shipped(host) == b"own\nrotated\nnew\n"


def test_a_file_is_opened_under_a_name_only_if_the_users_who_control_the_name_own_it(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.link(place.file(place.data / "own.log"), "s.log")
    name = str(place.app / "s.log")
    for path, owner in ((place.data / "own.log.1", MALLORY), (place.data / "root.log.1", 0)):
        place.file(path, owner=owner, mode=0o600)
    own, foreign = ((place.data / f"{each}.log.1").stat() for each in ("own", "root"))
    descriptor = Links().open_as(name, str(place.data / "own.log.1"), (own.st_dev, own.st_ino))
    assert descriptor is not None
    os.close(descriptor)
    with pytest.raises(NotFollowed):
        Links().open_as(name, str(place.data / "root.log.1"), (foreign.st_dev, foreign.st_ino))
    assert Links().open_as(name, str(place.data / "root.log.1"), (own.st_dev, own.st_ino)) is None
    with pytest.raises(NotFollowed):
        Links().open_as(
            str(place.app / "missing" / "s.log"), str(place.data / "root.log.1"), (foreign.st_dev, foreign.st_ino)
        )


def finished(host: Host, path: Path) -> DeletableFile:
    (source,) = [source for source in host.sources.acks.known.values() if source.file == str(path)]
    return DeletableFile(source, str(path), rotated=True)


@pytest.mark.parametrize("what", ["file", "directory", "directory on the way"])
def test_nothing_is_deleted_through_a_planted_link(what: str, tmp_path: Path) -> None:
    """The link leads to the very file that was shipped: only the way to it is wrong."""
    place = Place(tmp_path)
    place.patterns = ["app/deep/d/*.log"]
    directory = place.app / "deep" / "d"
    directory.mkdir(parents=True)
    path = place.file(directory / "audit.log")
    host = place.host()
    host.ship()
    target = finished(host, path)
    moved = {"file": path, "directory": directory, "directory on the way": directory.parent}[what]
    kept = moved.rename(place.data / "kept")
    moved.symlink_to(kept)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fate = delete(target, descriptor)
    finally:
        os.close(descriptor)
    assert fate is (DeletionOutcome.CHANGED if what == "file" else DeletionOutcome.LINKED)
    assert path.exists()


@pytest.mark.parametrize("owner", ["another user", "everybody"])
def test_nothing_is_deleted_in_a_directory_that_others_rule(owner: str, tmp_path: Path) -> None:
    place = Place(tmp_path)
    path = place.file(place.app / "s.log", owner=ALICE)
    host = place.host()
    host.ship()
    if owner == "everybody":
        os.chown(place.app, 0, 0)
        place.app.chmod(0o777)
    descriptor = os.open(path, os.O_RDONLY)
    assert delete(finished(host, path), descriptor) is DeletionOutcome.FOREIGN
    os.chown(place.app, ALICE, ALICE)
    place.app.chmod(0o755)
    assert delete(finished(host, path), descriptor) in REMOVED
    os.close(descriptor)
    assert not path.exists()


def test_a_directory_that_is_exchanged_for_a_link_while_its_file_is_deleted_loses_nothing_outside(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)
    place.patterns = ["app/*/audit.log"]
    own, foreign, name = place.app / "own", place.app / "foreign", place.app / "d"
    name.mkdir()
    path = place.file(name / "audit.log")
    host = place.host()
    host.ship()
    target = finished(host, path)
    descriptor = os.open(path, os.O_RDONLY)
    name.rename(own)
    place.file(place.secret / "audit.log", b"own\n", owner=0)
    place.link(place.secret, "foreign")
    fates = set()
    with exchanged(own, foreign, name):
        for _ in range(OPENINGS):
            try:
                fates.add(delete(target, descriptor))
            except OSError as error:
                fates.add(type(error))
            if fates & REMOVED:
                break
    os.close(descriptor)
    assert sorted(os.listdir(place.secret)) == ["audit.log", "shadow.log"]


# -- FIFOs and sockets that are named --------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def fifo(path: Path, *, owner: int = 0) -> Path:
    os.mkfifo(path, 0o600)
    os.chown(path, owner, owner)
    return path


def of_producer(*files: Path, link_roots: tuple[str, ...] = ()) -> ProducerSettings:
    return ProducerSettings(files=tuple(map(str, files)), link_roots=link_roots)


def test_a_planted_link_to_a_fifo_is_no_input_and_that_is_reported(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    planted = place.link(fifo(place.secret / "fifo"), "in")
    settings = of_producer(planted)
    assert not named(settings)
    inputs = inputs_of(settings, place.directory / "spool", once=False)
    assert not inputs.names
    assert "link_not_followed" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="not followed"):
        Fifo(spool_in(place.directory), str(planted)).prepare()
    assert named(of_producer(planted, link_roots=(str(place.secret),)))


def test_a_link_of_the_owner_of_a_fifo_is_followed(place: Place) -> None:
    mine = fifo(place.directory / "own", owner=MALLORY)
    assert named(of_producer(place.link(mine, "in")))
    assert named(of_producer(place.link(fifo(place.secret / "fifo"), "root", owner=0, beside=place.log)))


@pytest.mark.parametrize("target", ["fifo", "shadow.log"])
def test_a_fifo_that_is_exchanged_for_a_link_is_read_on_and_the_target_is_not(place: Place, target: str) -> None:
    secret, own = fifo(place.secret / "fifo"), fifo(place.app / "in", owner=MALLORY)
    reader = Fifo(spool_in(place.directory), str(own))
    with secret.open("r+b", buffering=0) as to, running(reader), own.open("wb", buffering=0) as writer:
        own.unlink()
        place.link(place.secret / target, "in")
        to.write(SECRET)
        writer.write(b"one\n")
        until(lambda: text(place.directory) == b"one\n")
        time.sleep(1.5 * POLL_SECONDS)
        writer.write(b"two\n")
        until(lambda: text(place.directory) == b"one\ntwo\n", what=lambda: repr(text(place.directory)))


def test_the_rights_of_a_file_to_which_a_socket_was_exchanged_stay(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, bind = place.app / "log", socket.socket.bind

    def bind_and_exchange(opened: socket.socket, name: str) -> None:
        bind(opened, name)
        os.unlink(name)
        place.link(place.shadow, "log")

    monkeypatch.setattr(socket.socket, "bind", bind_and_exchange)
    with pytest.raises(ConfigError, match="exchanged"):
        listen(Address("unix", path=str(path)))
    assert place.shadow.stat().st_mode & 0o777 == 0o600


def test_a_socket_is_not_made_over_a_planted_link(place: Place) -> None:
    place.link(place.secret, "run")
    with pytest.raises(ConfigError, match="not followed"):
        listen(Address("unix", path=str(place.app / "run" / "log")))
    assert not (place.secret / "log").exists()
    place.link(place.data, "run", owner=0, beside=place.log)
    with contextlib.closing(listen(Address("unix", path=str(place.log / "run" / "log")))):
        assert (place.data / "log").stat().st_mode & 0o777 == 0o666


def test_the_real_path_is_found_while_its_last_name_is_exchanged(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"one\n")
    link = tmp_path / "link"
    link.symlink_to(file)
    name = tmp_path / "name.log"
    with exchanged(file, link, name):
        found = {real_path(str(name)) for _ in range(50_000)}
    assert found <= {str(name), str(file), str(link)}
