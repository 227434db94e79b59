"""The server is away for the whole of a burst: the log files are the buffer, the producer's memory stays small."""

import os
import sqlite3
from pathlib import Path

import pytest
from forked import peak_bytes
from harness.fleet import Fleet, until
from harness.natsd import NatsServer

HOST = "web1.example.net"
MEGABYTES = int(os.environ.get("FSHIPPER_BURST_MB", "200"))
CEILING_BYTES = 96 * 1024 * 1024
"""Interpreter and libraries take about 50 MiB, the window 8, what is read ahead and encoded a few; 74 in 1 GiB."""
CHUNK_BYTES = 1_000_000


def burst(path: Path, megabytes: int) -> None:
    """All of it into one file without a pause, lines numbered across the whole."""
    line = b"%012d " + os.urandom(20).hex().encode() + b" GET /index.html HTTP/1.1 200\n"
    with path.open("ab") as stream:
        for number in range(megabytes):
            chunk = b"".join(line % (number * 20_000 + each) for each in range(12_000))
            stream.write(chunk[: chunk.rfind(b"\n", 0, CHUNK_BYTES) + 1])


def acknowledged(checkpoint: Path) -> int:
    database = sqlite3.connect(checkpoint)
    try:
        return database.execute("SELECT coalesce(sum(offset), 0) FROM sources").fetchone()[0]
    finally:
        database.close()


@pytest.mark.parametrize("files", [1, 5])
@pytest.mark.parametrize("trouble", ["hung", "ended"])
def test_a_burst_while_the_server_is_away_arrives_whole_and_needs_little_memory(
    trouble: str, files: int, tmp_path: Path, natsd: NatsServer
) -> None:
    paths = [tmp_path / "logs" / f"app{number}.log" for number in range(files)]
    (tmp_path / "logs").mkdir()
    for path in paths:
        path.write_bytes(b"before\n")
    with Fleet(tmp_path, natsd.url, partitions=1) as fleet:
        fleet.apply()
        producer = fleet.produce(HOST, tmp_path / "logs" / "*.log", options=("--poll", "100ms"))
        checkpoint = tmp_path / "state" / "producer" / HOST / "checkpoint.sqlite"
        until(
            lambda: "session_begun" in producer.log and acknowledged(checkpoint) == 7 * files, what=lambda: producer.log
        )
        if trouble == "hung":
            natsd.pause()
        else:
            natsd.kill()
        for path in paths:
            burst(path, MEGABYTES // files)
        during = peak_bytes(producer.process.pid)
        if trouble == "hung":
            natsd.resume()
        else:
            natsd.start()
        whole = sum(path.stat().st_size for path in paths)
        until(lambda: acknowledged(checkpoint) == whole, within=60 + MEGABYTES / 2, what=lambda: producer.log)
        after = peak_bytes(producer.process.pid)
        print(f"{whole / 1e6:.0f} MB, peak {during / 2**20:.0f} MiB in the burst, {after / 2**20:.0f} at its end")
        assert producer.stop() == 0
        assert max(during, after) < CEILING_BYTES
        fleet.drain()
        for path in paths:
            assert fleet.archived(HOST, path) == path.read_bytes(), path
