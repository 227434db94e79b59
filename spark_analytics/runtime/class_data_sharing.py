"""What Java read at its last start, kept in a file that the next start maps: class data sharing, 3 to 5 s less.

The file is made once, at the end of the first report, and is known by the versions of Java and pyspark. A torn one
would kill Java by SIGBUS, so it is made under another name, tried, renamed, and used only while size and time are those
that were noted then. Whatever goes wrong with it, the report does without.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from spark_analytics.runtime import interrupts

_NOTED = ".json"
_TRIAL_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Classes:
    """The file for one Java and one pyspark; it may be there or not."""

    java: Path
    path: Path

    @property
    def is_sound(self) -> bool:
        """Whether the file is there as it was when it was tried."""
        with contextlib.suppress(OSError, ValueError):
            return bool(json.loads(_noted(self.path).read_bytes()) == _seen(self.path))
        return False

    def options(self) -> list[str]:
        """What Java is told to start from the file."""
        return [f"-XX:SharedArchiveFile={self.path}", "-Xshare:auto", "-Xlog:disable", "-Xlog:all=off"]

    @contextlib.contextmanager
    def making(self) -> Iterator[list[str]]:
        """What Java is told to write the file at its end, which has to come within; nothing where another makes it.

        What Java wrote then is tried, and takes its name in one step.
        """
        with contextlib.ExitStack() as stack:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                stack.enter_context(_alone(self.path.with_suffix(".lock")))
            except OSError:  # another is at it, or the directory cannot be written
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
            trial = [f"-XX:SharedArchiveFile={fresh}", "-Xshare:auto", "-XX:+VerifySharedSpaces", "-version"]
            subprocess.run(
                [self.java, *trial],
                check=True,
                timeout=_TRIAL_SECONDS,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            with fresh.open("rb") as file:
                os.fsync(file.fileno())
            _noted(self.path).unlink(missing_ok=True)
            fresh.replace(self.path)
            _note(self.path)
        finally:
            fresh.unlink(missing_ok=True)


def found(java: Path, spark_version: str, environment: Mapping[str, str]) -> Classes:
    """The file for `java` and that version of pyspark, under SHIPPER_STATE or the user's cache.

    Raises:
        OSError: there is no place for it, or no such Java.
    """
    real = java.resolve()
    about, version = real.stat(), _version(real)
    key = hashlib.sha256(f"{real} {about.st_size} {about.st_mtime_ns} {version}".encode()).hexdigest()[:8]
    name = f"report-java{version or 'x'}-spark{spark_version}-{key}.jsa"
    return Classes(java, _kept_in(environment) / "java" / name)


def _kept_in(environment: Mapping[str, str]) -> Path:
    if state := environment.get("SHIPPER_STATE"):
        return Path(state)
    if cache := environment.get("XDG_CACHE_HOME"):
        return Path(cache, "fshipper")
    if home := environment.get("HOME"):
        return Path(home, ".cache", "fshipper")
    raise FileNotFoundError("neither SHIPPER_STATE nor HOME is set")


def _version(java: Path) -> str:
    """As the file `release` of that Java has it; empty where there is none."""
    with contextlib.suppress(OSError):
        for line in (java.parent.parent / "release").read_text(errors="replace").splitlines():
            if line.startswith("JAVA_VERSION="):
                return "".join(char for char in line.partition("=")[2] if char.isalnum() or char in "._+-")
    return ""


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """The right to make the file; raises OSError where somebody else has it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _noted(path: Path) -> Path:
    return path.with_suffix(_NOTED)


def _seen(path: Path) -> dict[str, int]:
    about = path.stat()
    return {"size": about.st_size, "mtime_ns": about.st_mtime_ns}


def _note(path: Path) -> None:
    scratch = path.with_suffix(".noted")
    scratch.write_text(json.dumps(_seen(path)), encoding="utf-8")
    scratch.replace(_noted(path))
