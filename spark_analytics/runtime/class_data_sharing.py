"""Class data sharing: Java maps an archive of the classes that it loaded before and starts 3 to 5 s faster.

`fshipper report prepare` writes the archive into the directory of the installation; without it, the first report writes
it to the state directory or the cache. It is named by the versions of Java and pyspark and by the directory of Spark: a
copy of an installation writes its own. A truncated archive would kill Java with SIGBUS, so it is written under another
name, verified, renamed, and used only while its size and time are those that were noted. If anything fails, Java starts
without it.
"""

import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from spark_analytics.runtime import interrupts

_NOTED = ".json"
_VERIFY_SECONDS = 60


@dataclass(frozen=True, slots=True)
class SharedArchive:
    """The archive for one Java and one pyspark; it may not exist yet."""

    java: Path
    path: Path

    @property
    def is_valid(self) -> bool:
        """Whether the archive exists with the size and time of the verified one."""
        with contextlib.suppress(OSError, ValueError):
            return bool(json.loads(self._note.read_bytes()) == _size_and_time(self.path))
        return False

    @property
    def _note(self) -> Path:
        return self.path.with_suffix(_NOTED)

    def options(self) -> list[str]:
        """Options of Java to use the archive."""
        return [f"-XX:SharedArchiveFile={self.path}", "-Xshare:auto", "-Xlog:disable", "-Xlog:all=off"]

    @contextlib.contextmanager
    def create(self) -> Iterator[list[str]]:
        """Yields options of Java to write the archive when it ends, which must be within the block.

        Yields none if another process writes it. The written archive is verified and renamed.
        """
        with contextlib.ExitStack() as stack:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                stack.enter_context(_exclusive(self.path.with_suffix(".lock")))
            except OSError:  # another process writes it, or the directory is not writable
                yield []
                return
            fresh = self.path.with_suffix(".new")
            fresh.unlink(missing_ok=True)
            with interrupts.removed_at_end(fresh):
                yield [f"-XX:ArchiveClassesAtExit={fresh}", "-Xlog:disable", "-Xlog:all=off"]
                with contextlib.suppress(OSError, subprocess.SubprocessError):
                    self._take(fresh)

    def _take(self, fresh: Path) -> None:
        try:
            verify = [f"-XX:SharedArchiveFile={fresh}", "-Xshare:auto", "-XX:+VerifySharedSpaces", "-version"]
            none = subprocess.DEVNULL
            subprocess.run(
                [self.java, *verify], check=True, timeout=_VERIFY_SECONDS, stdin=none, stdout=none, stderr=none
            )
            with fresh.open("rb") as file:
                os.fsync(file.fileno())
                os.fchmod(file.fileno(), 0o644)  # Java of another user maps it
            os.utime(fresh, (int(fresh.stat().st_mtime),) * 2)  # container images keep whole seconds
            self._note.unlink(missing_ok=True)
            fresh.replace(self.path)
            scratch = self.path.with_suffix(".noted")
            scratch.write_text(json.dumps(_size_and_time(self.path)), encoding="utf-8")
            scratch.chmod(0o644)
            scratch.replace(self._note)
        finally:
            fresh.unlink(missing_ok=True)


def archive_for(java: Path, spark_version: str, environment: Mapping[str, str]) -> SharedArchive:
    """The valid archive for `java` and `spark_version`: of the installation, the state directory or the cache.

    If there is none, the one that a report may write.

    Raises:
        OSError: there is no directory for it, or no such Java.
    """
    found = _candidates(java, spark_version, environment)
    return next((one for one in found if one.is_valid), found[1] if len(found) > 1 else found[0])


def archive_to_prepare(java: Path, spark_version: str, environment: Mapping[str, str]) -> SharedArchive:
    """The archive that `fshipper report prepare` writes: in the first directory that this user may write.

    Raises:
        OSError: there is no such directory, or no such Java.
    """
    for one in _candidates(java, spark_version, environment):
        parents = (one.path.parent, *one.path.parent.parents)
        there = next((path for path in parents if path.exists()), one.path.parent)
        if one.is_valid or (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
            return one
    raise PermissionError("neither the installation nor SHIPPER_STATE nor the cache can be written")


def _candidates(java: Path, spark_version: str, environment: Mapping[str, str]) -> list[SharedArchive]:
    real = java.resolve()
    about, version = real.stat(), _version(real)
    # Java uses an archive only for the class path that it was written with, so the directory of Spark's jars counts
    spec = importlib.util.find_spec("pyspark")
    spark = environment.get("SPARK_HOME") or str(Path(spec.origin).parent if spec and spec.origin else "")
    key_text = f"{real} {about.st_size} {about.st_mtime_ns} {version} {spark}"
    key = hashlib.sha256(key_text.encode()).hexdigest()[:8]
    name = f"report-java{version or 'x'}-spark{spark_version}-{key}.jsa"
    return [SharedArchive(java, directory / "java" / name) for directory in _directories(environment)]


def _directories(environment: Mapping[str, str]) -> list[Path]:
    """The directory of the installation, which every user may read, then those of the state and the cache."""
    found = [Path(sys.prefix, "lib", "fshipper")]
    if state := environment.get("SHIPPER_STATE"):
        found.append(Path(state))
    if cache := environment.get("XDG_CACHE_HOME"):
        found.append(Path(cache, "fshipper"))
    elif home := environment.get("HOME"):
        found.append(Path(home, ".cache", "fshipper"))
    return found


def _version(java: Path) -> str:
    """The version in the file `release` of that Java; empty if there is none."""
    with contextlib.suppress(OSError):
        for line in (java.parent.parent / "release").read_text(errors="replace").splitlines():
            if line.startswith("JAVA_VERSION="):
                return "".join(char for char in line.partition("=")[2] if char.isalnum() or char in "._+-")
    return ""


@contextlib.contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """An exclusive lock; raises OSError if another process has it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _size_and_time(path: Path) -> dict[str, int]:
    about = path.stat()
    return {"size": about.st_size, "mtime_ns": about.st_mtime_ns}
