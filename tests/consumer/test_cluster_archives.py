"""Two collectors with an archive each: what one has written the other need not, and both together have every byte."""

import asyncio
import json
from pathlib import Path

import nats
from harness.fleet import Fleet, Program, until
from sharing import held

from shipper.subjects import control_down

HOST = "web1.example.net"
CONFIG = """
[collector]
lease = "2s"
receipt_every = "200ms"
"""


def fleet_in(directory: Path, url: str) -> Fleet:
    directory.mkdir()
    return Fleet(directory, url, partitions=1)


def consume(fleet: Fleet, config: Path) -> Program:
    return fleet.start("consume", SHIPPER_CONFIG=str(config))


def append(path: Path, lines: int) -> None:
    first = path.read_bytes().count(b"\n")
    with path.open("ab") as file:
        file.writelines(b"%d a line of a log\n" % number for number in range(first, first + lines))


def test_both_archives_together_hold_every_byte_and_each_reports_what_the_other_has(tmp_path, natsd):
    config, path = tmp_path / "fshipper.toml", tmp_path / "app.log"
    config.write_text(CONFIG)
    path.touch()
    with fleet_in(tmp_path / "a", natsd.url) as a, fleet_in(tmp_path / "b", natsd.url) as b:
        a.apply()
        producer = a.produce(HOST, path, options=("--poll", "100ms"))
        first = consume(a, config)
        append(path, 1000)
        until(lambda: a.archived(HOST, path) == path.read_bytes(), what=lambda: first.log)
        until(lambda: marks(a) == [path.stat().st_size], what=lambda: producer.log)
        standby = consume(b, config)
        until(lambda: "standing_by" in standby.log, what=lambda: standby.log)
        refused = b.run("consume", "--drain", SHIPPER_CONFIG=str(config))
        assert (refused.returncode, f"the archive of partition 0 is {a.archive}" in refused.stderr) == (78, True)
        in_a = path.stat().st_size
        first.kill()
        append(path, 1000)
        until(lambda: held(standby) == {0}, what=lambda: standby.log)
        until(
            lambda: b.archived(HOST, path) and path.read_bytes().endswith(b.archived(HOST, path)),
            what=lambda: standby.log,
        )
        until(lambda: len(b.archived(HOST, path)) == path.stat().st_size - in_a, what=lambda: standby.log)
        until(lambda: "reason=elsewhere" in standby.log)

        second = consume(a, config)  # one of them stands by: there is one partition
        until(lambda: "standing_by" in second.log, what=lambda: second.log)
        in_b = path.stat().st_size
        assert standby.stop() == 0
        append(path, 1000)
        until(
            lambda: len(a.archived(HOST, path)) == in_a + path.stat().st_size - in_b,
            what=lambda: second.log + producer.log,
        )
        assert [producer.stop(), second.stop()] == [0, 0]
        for fleet in (b, a):
            fleet.must("consume", "--drain", "--seal", SHIPPER_CONFIG=str(config))
        size = path.stat().st_size
        assert spans(a) == [(0, in_a), (in_b, size)]
        assert spans(b) == [(in_a, in_b)]
        assert gaps(a) == [(in_a, in_b, "elsewhere")]
        assert gaps(b) == [(0, in_a, "elsewhere")]
        assert a.archived(HOST, path) == path.read_bytes()[:in_a] + path.read_bytes()[in_b:]


def marks(fleet: Fleet) -> list[int]:
    """Up to which byte the producer knows its files to be archived."""

    async def ask() -> bytes:
        client = await nats.connect(fleet.url)
        try:
            question = b'{"v":1,"ask":"marks"}'
            return (await client.request(control_down(HOST), question, timeout=5)).data
        finally:
            await client.close()

    return [mark["archived"] for mark in json.loads(asyncio.run(ask()))["marks"]]


def spans(fleet: Fleet) -> list[tuple[int, int]]:
    return sorted((span.start, span.end) for segment in fleet.segments() for span in segment.spans)


def gaps(fleet: Fleet) -> list[tuple[int, int, str]]:
    return sorted((gap.start, gap.end, gap.reason) for segment in fleet.segments() for gap in segment.gaps)
