"""200 files in a process that may have 100 descriptors."""

import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.fleet import Fleet, until
from harness.natsd import NatsServer
from producing import append

HOST = "web1.example.net"
FILES = 200
LIMIT = 100


@pytest.fixture
def few_descriptors(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Producers that are started now have a soft and a hard limit, as under `ulimit -n 100`."""
    started = subprocess.Popen

    def limited(arguments: list[str], **options: object) -> "subprocess.Popen[bytes]":
        if "produce" in arguments:
            options["preexec_fn"] = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
        return started(arguments, **options)

    monkeypatch.setattr("harness.fleet.subprocess.Popen", limited)
    return


@pytest.mark.real_start
@pytest.mark.usefixtures("few_descriptors")
def test_two_hundred_files_under_a_limit_of_a_hundred_descriptors_arrive_once_and_rotate(
    tmp_path: Path, natsd: NatsServer
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    paths = [logs / f"app{number:03}.log" for number in range(FILES)]
    for path in paths:
        append(path, b"%s first\n" % path.name.encode())
    wanted = {path: path.read_bytes() for path in paths}
    with Fleet(tmp_path, natsd.url, partitions=1) as fleet:
        fleet.apply()
        producer = fleet.produce(HOST, logs / "*.log", options=("--poll", "50ms"))
        until(lambda: "session_begun" in producer.log, what=lambda: producer.log)
        assert limits_of(producer.process.pid) == (LIMIT, LIMIT)
        for turn in range(6):
            for number, path in enumerate(paths):
                text = b"".join(b"%s turn %d line %d\n" % (path.name.encode(), turn, line) for line in range(50))
                append(path, text)
                wanted[path] += text
                if number % 4 == turn % 4:
                    path.rename(path.with_name(f"{path.name}.{turn}"))
                    path.touch()
        collector = fleet.consume()
        whole = sum(map(len, wanted.values()))
        until(lambda: size_of(fleet.archive) >= whole, within=60, what=lambda: producer.log)
        assert producer.stop() == 0, producer.log
        assert collector.stop() == 0
        fleet.drain()
        for path in paths:
            assert fleet.archived(HOST, path) == wanted[path], path.name
        assert "file_unreadable" not in producer.log


def limits_of(pid: int) -> tuple[int, int]:
    return resource.prlimit(pid, resource.RLIMIT_NOFILE)


def size_of(archive: Path) -> int:
    return sum(path.stat().st_size for path in archive.glob("date=*/partition=*/host=*/_open*"))
