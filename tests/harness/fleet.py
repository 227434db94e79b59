"""Real programs on a real server: producers of some hosts, a collector, and what the archive holds in the end.

fleet = Fleet(tmp_path, natsd.url, partitions=4)
producer = fleet.produce("web1.example.net", path)      # a process; .kill() is SIGKILL
fleet.drain()
fleet.archived("web1.example.net", path)                # bytes, over all segments and the open file
"""

import contextlib
import gzip
import json
import os
import signal
import subprocess
from pathlib import Path

import zstandard

from harness import forking
from harness.forking import FSHIPPER  # noqa: F401 - for tests that need a real start
from harness.waiting import ended, until
from shipper import layout, manifest

MAGIC = {b"\x28\xb5": ".zst", b"\x1f\x8b": ".gz"}
LOOKS = 5  # at an archive that is written to


class Program:
    """One running program; its log is kept for the failure message."""

    def __init__(self, arguments: list[str], environment: dict[str, str], log: Path) -> None:
        self.arguments = arguments
        self._environment = environment
        self.log_file = log
        self.start()

    def start(self, **more: str) -> None:
        """Begin a life, in which the environment holds `more`."""
        with self.log_file.open("ab") as log:
            self.process = forking.popen(
                self.arguments, env=self._environment | more, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        self.kill()
        self.start()

    def stop(self, within: float = 40.0) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait(within)

    def wait(self, within: float = 60.0) -> int:
        return ended(self.process, within=within, what=lambda: self.log)

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")


class Fleet:
    """Programs that share a server, an archive and a state directory, all below `directory`."""

    def __init__(self, directory: Path, url: str, *, partitions: int = 4) -> None:
        self.directory = directory
        self.archive = directory / "archive"
        self.url = url
        self.partitions = partitions
        self.programs: list[Program] = []

    def __enter__(self) -> "Fleet":
        return self

    def __exit__(self, *_: object) -> None:
        for program in self.programs:
            program.kill()

    def environment(self, **more: str | None) -> dict[str, str]:
        """The environment of a program; None: a variable that it shall not have."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME", "LANG") if name in os.environ}
        wanted = kept | {
            "NATS_URL": self.url,
            "SHIPPER_PARTITIONS": str(self.partitions),
            "SHIPPER_DIRECTORY": str(self.archive),
            "SHIPPER_STATE": str(self.directory / "state"),
            "SHIPPER_LISTEN": "127.0.0.1:0",
            "SHIPPER_MAX_DELAY": "0.02",  # a test waits for lines, not for more of them
        } | more  # fmt: skip
        return {name: value for name, value in wanted.items() if value is not None}

    def run(self, *arguments: str, within: float = 180.0, **more: str) -> "subprocess.CompletedProcess[str]":
        """One command to its end."""
        return forking.run(list(arguments), env=self.environment(**more), within=within)

    def must(self, *arguments: str, **more: str) -> str:
        """One command that has to succeed; its standard output."""
        done = self.run(*arguments, **more)
        assert done.returncode == 0, f"{arguments} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def apply(self) -> None:
        self.must("partition", "apply", "--partitions", str(self.partitions))

    def start(self, *arguments: str, **more: str) -> Program:
        log = self.directory / f"{arguments[0]}-{len(self.programs)}.log"
        program = Program(list(arguments), self.environment(**more), log)
        self.programs.append(program)
        return program

    def produce(self, host: str, *paths: Path | str, options: tuple[str, ...] = ()) -> Program:
        return self.start("produce", *options, *map(str, paths), HOSTNAME=host)

    def consume(self, *options: str) -> Program:
        return self.start("consume", *options)

    def ship_once(self, host: str, *paths: Path | str, options: tuple[str, ...] = ()) -> None:
        self.must("produce", "--once", *options, *map(str, paths), HOSTNAME=host)

    def drain(self, *options: str) -> str:
        return self.must("consume", "--drain", *options)

    def drain_unseen(self, partition: int) -> None:
        """Archive a partition as older versions did, which did not check what other partitions of the archive hold."""
        older = self.directory / f"older-{partition}"
        options = ("--partitions", str(partition))
        collector = self.start("consume", *options, SHIPPER_DIRECTORY=str(older), SHIPPER_CONFIG=None)
        until(lambda: self.lag() == 0, what="the partition is archived")
        assert collector.stop() == 0
        self.must("consume", "--drain", "--seal", *options, SHIPPER_DIRECTORY=str(older))
        for path in sorted(older.rglob("*")):
            name = path.relative_to(older)
            if path.is_file() and (name.parts[0].startswith("date=") or name.parts[0] == "_manifest"):
                (self.archive / name).parent.mkdir(parents=True, exist_ok=True)
                path.rename(self.archive / name)
        (self.archive / "_lock" / f"partition={partition}.begun").touch()
        ours, theirs = (
            self.directory / "state" / "collector" / json.loads((archive / "_archive.json").read_bytes())["id"]
            for archive in (self.archive, older)
        )
        for path in theirs.glob(f"*.p{partition}.sqlite"):
            path.rename(ours / path.name)

    # -- what the archive holds ---------------------------------------------------------------------------------

    def segments(self) -> list[manifest.Segment]:
        """The segments that count by the manifests."""
        paths = sorted(self.archive.glob("_manifest/date=*/*.jsonl"))
        lines = [manifest.from_line(line) for path in paths for line in path.read_bytes().splitlines()]
        return sorted(manifest.standing(lines), key=lambda segment: segment.path)  # numbers only ascend

    def archived(self, host: str, file: Path | str) -> bytes:
        """Everything of one log file: its sealed segments in order, then what is being sealed, then what is open."""
        for _ in range(LOOKS - 1):
            with contextlib.suppress(FileNotFoundError):  # sealed while it was read
                return self._archived(host, file)
        return self._archived(host, file)

    def _archived(self, host: str, file: Path | str) -> bytes:
        pieces = self.pieces(host, file)
        return b"".join(unsealed(path) if path.name.startswith("_") else unpack(path) for path in pieces)

    def pieces(self, host: str, file: Path | str) -> list[Path]:
        """Where the archive has it, in this order."""
        sealed = [segment for segment in self.segments() if (segment.host, segment.file) == (host, str(file))]
        name = layout.file_name(str(file))
        beside = sorted(self.archive.glob(f"date=*/partition=*/host={layout.escape(host)}/_*"))
        sealing = layout.SEALING_PREFIX + name + "-"
        listed = {Path(segment.path).name for segment in sealed}
        waiting = [
            p for p in beside if p.name.startswith(sealing) and p.name[len(layout.SEALING_PREFIX) :] not in listed
        ]
        names = {layout.OPEN_PREFIX + name + suffix for suffix in layout.CODEC_SUFFIXES.values()}
        opened = sorted(
            (path for path in beside if path.name.partition("=")[0] in names),
            key=lambda path: (path.parent, layout.epoch_of(path.name)),
        )
        return [*(self.archive / segment.path for segment in sealed), *waiting, *opened]

    def messages(self) -> int:
        """Messages in all streams."""
        return sum(row["messages"] for row in json.loads(self.must("partition", "status", "--json")))

    def lag(self) -> int:
        """Messages that no collector has acknowledged."""
        return sum(row["lag"] for row in json.loads(self.must("partition", "status", "--json")))


def contents(archive: Path) -> list[bytes]:
    """What an archive holds of each file of each host, whatever its manifests list."""
    found: dict[tuple[str, str], bytes] = {}
    for path in sorted(archive.glob("date=*/partition=*/host=*/*")):
        if path.name.startswith("_"):
            name, data = path.name.removeprefix("_open-"), unsealed(path)
        else:
            name, data = path.name.rpartition("-")[0], unpack(path)
        found[(path.parent.name, name)] = found.get((path.parent.name, name), b"") + data
    return list(found.values())


def unpack(path: Path) -> bytes:
    """The text of a segment, of all its frames."""
    return _text(path.read_bytes(), path.suffix)


def unsealed(path: Path) -> bytes:
    """The text of a file that is open, or being sealed: plain, or frames as they came."""
    data = path.read_bytes()
    return _text(data, MAGIC.get(data[:2], ""))


def _text(data: bytes, suffix: str) -> bytes:
    if suffix == ".zst":
        return zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).readall()
    return gzip.decompress(data) if suffix == ".gz" else data
