"""A stage for rotations: files, a producer, and scenarios of one line.

A scenario is a text of steps, divided by `;`. Each is a verb of `Stage` with its words: `write log old`, `ship`. `log`
is app.log, `log.1` is app.log.1, and so on. The words of a content are lines: `a` is "a", `a*3` three of it, `a#3` the
lines "a 000000" to "a 000002"; `a-` has no newline, and `NUL*3` is three NULs. What stands between two `|` happens
either while the producer runs, or while it is stopped. After `=>` is what the archive has in the end: `=> a b` of
app.log, `=> x.log: a b` of another file, `=> all: a b` of all files in the order of arrival; `lost 5` bytes,
`sources 2` with content, and `ends TRUNCATED`. Unless `lost` is given, there is no gap. One more start sends nothing.
"""

import bz2
import dataclasses
import gzip
import lzma
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zstandard
from producing import Host, append, copytruncate, partly_shipped, rotate, shift

from producer.discovery.scanner import Watched

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".zst": zstandard.ZstdCompressor().compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}
BANNER = b"# a banner of one kibibyte %s\n" % (b"-" * 1000)


def lines(name: bytes, count: int = 500) -> bytes:
    return b"".join(b"%s %06d\n" % (name, number) for number in range(count))


def content(words: str) -> bytes:
    """The bytes that the words of a scenario mean."""
    return b"".join(map(_content, words.split()))


def _content(word: str) -> bytes:
    if word == "banner":
        return BANNER
    if word.startswith("NUL*"):
        return bytes(int(word[4:]))
    if "#" in word:
        name, _, count = word.partition("#")
        return lines(name.encode(), int(count))
    text, _, times = word.partition("*")
    return text[:-1].encode() if text.endswith("-") else (text.encode() + b"\n") * int(times or 1)


def _full(name: str) -> str:
    """`log` stands for app.log."""
    return re.sub(r"^log(?![\w/])", "app.log", name)


def pack(path: Path, suffix: str = ".gz", *, to: Path | None = None, keeps_time: bool = True) -> Path:
    """As gzip and its like do: the content under another name, with the time of its last change; the original goes."""
    packed = to or path.with_name(path.name + suffix)
    packed.write_bytes(PACKERS[suffix](path.read_bytes()))
    if keeps_time:
        stat = path.stat()
        os.utime(packed, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    path.unlink()
    return packed


def rotate_packed(path: Path, suffix: str = ".gz", *, keeps_time: bool = True) -> None:
    """As logrotate with `create` and `compress` does: app.log.N.gz -> N+1, app.log -> app.log.1.gz, a new app.log."""
    shift(path, suffix)
    rotated = path.with_name(f"{path.name}.1")
    path.rename(rotated)
    path.touch()
    pack(rotated, suffix, keeps_time=keeps_time)


def replace(path: Path, data: bytes) -> None:
    """A new file under the old name, atomically, as editors and rsync make it."""
    new = path.with_name("new~")
    new.write_bytes(data)
    new.replace(path)


def lead(link: Path, to: Path | str) -> None:
    """Let a link lead to a file or directory, atomically."""
    new = link.with_name("new~")
    new.symlink_to(to)
    new.rename(link)


def pod(directory: Path) -> tuple[Path, Path]:
    """A link as Kubernetes makes it, and what it leads to."""
    (directory / "pods").mkdir()
    (directory / "links").mkdir()
    link, target = directory / "links" / "c.log", directory / "pods" / "0.log"
    link.symlink_to(target)
    return link, target


def half_read(tmp_path: Path, text: bytes) -> Host:
    """A producer that shipped the first blocks of app.log and saw the rest of it."""
    (tmp_path / "app.log").write_bytes(text)
    host = Host(tmp_path, "app.log", block=1024)
    partly_shipped(host)
    assert 0 < len(host.archive.text(tmp_path / "app.log")) < len(text)
    return host


def settled(host: Host) -> None:
    for _ in range(3):
        host.ship()
    host.let_go()


class Stage:
    """Files below `files`, and a producer of them."""

    host: Host

    def __init__(self, directory: Path, pattern: str) -> None:
        self.files, self.state = directory / "files", directory / "state"
        self.files.mkdir()
        self.state.mkdir()
        self._pattern = pattern
        self._is_up = False

    def play(self, steps: str) -> None:
        for step in filter(None, map(str.strip, steps.split(";"))):
            verb, *words = step.split()
            getattr(self, verb)(*words)

    def path(self, name: str) -> Path:
        path = self.files / _full(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    # -- the files ----------------------------------------------------------------------------------------------

    def write(self, name: str, *words: str) -> None:
        self.path(name).write_bytes(content(" ".join(words)))

    def add(self, name: str, *words: str) -> None:
        append(self.path(name), content(" ".join(words)))

    def rewrite(self, name: str, *words: str) -> None:
        """Other content in the same inode, with a modification time that differs."""
        before = self.path(name).stat().st_mtime_ns
        self.write(name, *words)
        os.utime(self.path(name), ns=(before + 10**9, before + 10**9))

    def replace(self, name: str, *words: str) -> None:
        replace(self.path(name), content(" ".join(words)))

    def mkdir(self, name: str) -> None:
        (self.files / name).mkdir()

    def rmdir(self, name: str) -> None:
        (self.files / name).rmdir()

    def mkfifo(self, name: str) -> None:
        os.mkfifo(self.files / name)

    def fill(self, name: str, at: str, *words: str) -> None:
        """Write in place."""
        with self.path(name).open("r+b") as file:
            file.seek(int(at))
            file.write(content(" ".join(words)))

    def cut(self, name: str, size: str) -> None:
        os.truncate(self.path(name), int(size))

    def touch(self, name: str) -> None:
        self.path(name).touch()

    def age(self, name: str, seconds: str) -> None:
        """The file was changed so many seconds ago."""
        at = self.host.wall if self._is_up else time.time()
        os.utime(self.path(name), (at - int(seconds),) * 2)

    def mv(self, name: str, to: str) -> None:
        self.path(name).rename(self.path(to))

    def cp(self, name: str, to: str) -> None:
        shutil.copyfile(self.path(name), self.path(to))

    def rm(self, name: str) -> None:
        self.path(name).unlink()

    def ln(self, name: str, to: str) -> None:
        self.path(to).hardlink_to(self.path(name))

    def lead(self, link: str, to: str) -> None:
        lead(self.path(link), self.path(to))

    def gz(self, name: str, to: str = "") -> None:
        pack(self.path(name), to=self.path(to) if to else None)

    def rotate(self, name: str) -> None:
        rotate(self.path(name), keep=20)

    def rotgz(self, name: str, suffix: str = ".gz", time: str = "") -> None:
        rotate_packed(self.path(name), suffix, keeps_time=time != "now")

    def copytruncate(self, name: str) -> None:
        copytruncate(self.path(name))

    # -- the producer -------------------------------------------------------------------------------------------

    def follow(self, *words: str) -> None:
        """Start a producer of patterns, with options: `exclude=*.1,*.gz`, `block=1024`."""
        options: dict[str, Any] = dict(word.split("=") for word in words if "=" in word)
        excluded = filter(None, options.pop("exclude", "").split(","))
        patterns = [_full(word) for word in words if "=" not in word] or [self._pattern]
        numbers = {name: int(value) for name, value in options.items()}
        self.host = Host(self.files, *patterns, state=self.state, exclude=tuple(excluded), **numbers)
        self._is_up = True

    def name(self, *words: str) -> None:
        """What the next start follows."""
        patterns = [str(self.files / _full(word)) for word in words if "=" not in word]
        excluded = [word.removeprefix("exclude=") for word in words if "=" in word]
        self.host.following = dataclasses.replace(self.host.following, watched=Watched.of(patterns, excluded))

    def half(self) -> None:
        """Ship the first blocks."""
        if not self._is_up:
            self.follow("block=1024")
        partly_shipped(self.host)

    def stop(self) -> None:
        self.host.kill()
        self._is_up = False

    def start(self) -> None:
        self.host.start()
        self._is_up = True

    def restart(self) -> None:
        self.stop()
        self.start()

    def scan(self) -> None:
        if self._is_up:
            self.host.sources.scan()

    def poll(self) -> None:
        """What happens without a scan, and what it found is read."""
        self.host.sources.poll()
        self.drip(str(1 << 20))

    def hint(self, name: str) -> None:
        """What a notification of the kernel starts."""
        self.host.sources.grown([str(self.path(name))])

    def read(self, budget: str = str(1 << 20)) -> None:
        self.host.read(int(budget))

    def take(self) -> None:
        """Deliver what is in flight, acknowledge and save it."""
        self.host.deliver()
        self.host.acknowledge()
        self.host.save()

    def drip(self, budget: str) -> None:
        while self.host.read(int(budget)):
            self.take()

    def save(self) -> None:
        self.host.save()

    def ship(self) -> None:
        self.host.ship()

    def later(self, seconds: str) -> None:
        self.host.now += int(seconds)

    def sit(self) -> None:
        """Less time than a renamed file must be silent to end."""
        self.host.now += self.host.following.rotate_wait - 1

    def wait(self) -> None:
        for _ in range(8):
            self.host.now += self.host.following.rotate_wait / 2 + 0.1
            self.host.ship()

    # -- what must hold -----------------------------------------------------------------------------------------

    def seen(self, *words: str) -> None:
        """So much of app.log is archived now."""
        assert self.host.archive.text(self.files / "app.log") == content(" ".join(words))

    def open(self, count: str) -> None:
        """So many files are open."""
        assert self.host.open_files == int(count)
        assert self._descriptors() <= int(count)

    def _descriptors(self) -> int:
        names = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
        return sum(os.readlink(name).startswith(str(self.files)) for name in names if os.path.lexists(name))

    def check(self, wanted: str) -> None:
        """Compare with what is wanted, also after another start."""
        for _ in range(2):
            settled(self.host)
            self._check(wanted)
            dropped = self.host.archive.dropped
            self.restart()
        settled(self.host)
        assert self.host.archive.dropped == dropped
        self.stop()
        assert not self._descriptors()

    def _check(self, wanted: str) -> None:
        archive, lost, texts = self.host.archive, 0, dict[str, str]()
        for clause in filter(None, map(str.strip, wanted.split(";"))):
            match clause.split():
                case ["lost", count]:
                    lost = int(count)
                case ["sources", count]:
                    assert sum(map(bool, archive.bytes.values())) == int(count)
                case ["ends", *names]:
                    assert [end.name for end in archive.ends.values()] == names
                case _:
                    name, is_named, words = clause.rpartition(": ")
                    texts[_full(name) if is_named else "app.log"] = words
        gaps = sum(gap.length for gaps in archive.gaps.values() for gap in gaps)
        assert gaps == lost, f"{gaps} bytes are lost"
        if "all" in texts or "any" in texts:
            got = b"".join(data for _, data in archive.order)
        if "any" in texts:
            assert sorted(got.splitlines()) == sorted(content(texts["any"]).splitlines()), got[-200:]
        elif "all" in texts:
            assert got == content(texts["all"]), got[-200:]
        else:
            found = {os.path.relpath(name, self.files): archive.text(name) for name, _ in archive.order}
            right = {name: content(words) for name, words in texts.items() if words}
            assert found == right, {name: text[-200:] for name, text in found.items()}
