"""An archive that an older version doubled is seen everywhere, and repaired while a collector runs."""

import asyncio
import json
import urllib.request
import zlib
from pathlib import Path

import nats
from harness.fleet import Fleet, until
from harness.natsd import NatsServer
from harness.ports import free_port

from shipper import codec
from shipper.compression import Compressor
from shipper.model import Block, Encoding, Span

HOST, FILE = "repro1.example.net", "/srv/a.log"
LINES = b"".join(b"%d\n" % number for number in range(1, 1001))
CUT = LINES.index(b"\n", len(LINES) // 2) + 1


def message(partition: int, start: int, end: int) -> tuple[str, bytes, dict[str, str]]:
    """A block as a producer sends it."""
    data = LINES[start:end]
    block = Block(
        source="00000000000000a1",
        file=FILE,
        span=Span(start, end),
        origin=0,
        lines=data.count(b"\n"),
        block_crc=zlib.crc32(data),
        source_crc=zlib.crc32(LINES[:end]),
        encoding=Encoding.ZSTD,
        read_at="2026-11-20T10:00:00Z",
    )
    return f"logs.p{partition}.{HOST}", Compressor(Encoding.ZSTD).encode(data), codec.to_headers(block)


def publish(url: str, *messages: tuple[str, bytes, dict[str, str]]) -> None:
    async def within() -> None:
        client = await nats.connect(url)
        for subject, payload, headers in messages:
            await client.jetstream().publish(subject, payload, headers=headers)
        await client.close()

    asyncio.run(within())


def double(fleet: Fleet) -> None:
    """The same source in two partitions, as a producer with another number of partitions sent it."""
    publish(fleet.url, message(1, 0, CUT), message(1, CUT, len(LINES)))
    fleet.drain("--seal", "--partitions", "1")
    publish(fleet.url, message(0, 0, len(LINES)))
    fleet.drain_unseen(0)


def test_a_doubled_archive_is_red_everywhere_until_it_is_repaired_while_a_collector_runs(
    tmp_path: Path, natsd: NatsServer
) -> None:
    port = free_port()
    with Fleet(tmp_path, natsd.url, partitions=2) as fleet:
        fleet.apply()
        double(fleet)
        collector = fleet.start("consume", SHIPPER_LISTEN=f"127.0.0.1:{port}")

        def get(path: str) -> str:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=5) as answer:
                    return str(answer.read().decode())
            except OSError:
                return ""

        def status() -> tuple[int, int]:
            done = fleet.run("status", "--json")
            return done.returncode, json.loads(done.stdout or '{"doubled_bytes": -1}')["doubled_bytes"]

        until(lambda: f'"doubled_bytes": {len(LINES)}' in get("status"), what=lambda: collector.log)
        until(lambda: status() == (2, len(LINES)), what=lambda: collector.log)
        assert f'fshipper_archive_doubled_bytes{{partition="0"}} {float(len(LINES))}' in get("metrics")
        assert 'fshipper_archive_doubled_bytes{partition="1"} 0.0' in get("metrics")
        audit = fleet.run("audit")
        assert (audit.returncode, "fshipper audit --repair-duplicates" in audit.stdout) == (2, True)

        assert fleet.run("audit", "--repair-duplicates").returncode == 2
        assert f"removed {len(LINES):,} bytes and 1,000 lines in 1 segment" in fleet.must(
            "audit", "--repair-duplicates", "--yes"
        )
        assert fleet.must("audit", "--repair-duplicates") == "nothing is in the archive twice\n"
        assert "complete" in fleet.must("audit")
        until(lambda: status() == (0, 0), within=60, what=lambda: collector.log)
        assert 'fshipper_archive_doubled_bytes{partition="0"} 0.0' in get("metrics")
        assert fleet.archived(HOST, FILE) == LINES
