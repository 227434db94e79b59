"""`fshipper replay`: what hosts wrote once more, at its speed or another, into a file, a subject or standard output."""

import asyncio
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import nats
import pytest
from collecting import Log
from harness.fleet import FSHIPPER
from harness.natsd import NatsServer
from hostile import publish
from tail_fleet import TailFleet

HOST = "web1.example.net"
TEXT = b"one\r\n\xff\x1b[2J\n\nthe last one is open"


@pytest.fixture
def fleet(tmp_path: Path, natsd: NatsServer) -> Iterator[TailFleet]:
    with TailFleet(tmp_path, natsd, partitions=2) as fleet:
        yield fleet


def test_a_file_gets_the_bytes_of_the_file(fleet: TailFleet, tmp_path: Path):
    fleet.send(*fleet.blocks(Log(TEXT, host=HOST)))
    copy = tmp_path / "copy.log"
    assert fleet.run_bytes("replay", HOST, "--speed", "max", "--to-file", str(copy)) == b""
    assert copy.read_bytes() == TEXT
    assert fleet.run_bytes("replay", "--speed", "max") == TEXT
    assert fleet.run_bytes("replay", "--speed", "max", "--prefix").startswith(f"{HOST} /var/log/app.log: one".encode())


@pytest.mark.parametrize(("speed", "least", "most"), [("1x", 1.2, 3.5), ("10", 0.12, 1.1), ("max", 0.0, 1.0)])
def test_time_passes_as_it_did_or_faster(fleet: TailFleet, speed: str, least: float, most: float):
    first, second = fleet.blocks(Log(b"one\ntwo\n", host=HOST), 0, 4, 8)
    fleet.send(first)
    time.sleep(1.2)
    publish(fleet.server, second)
    waits = list[float]()
    while not waits or (waits[-1] >= most and len(waits) < TRIES):  # a busy machine may delay one of them
        waits.append(_wait_between_lines([FSHIPPER, "replay", "--speed", speed], fleet.environment()))
    assert min(waits) >= least * 0.9
    assert waits[-1] < most, waits


TRIES = 10


def _wait_between_lines(arguments: list[str], environment: dict[str, str]) -> float:
    """The seconds between the first line and the second."""
    with subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"one\n"
        begun = time.monotonic()
        assert process.stdout.readline() == b"two\n"
        seconds = time.monotonic() - begun
        assert process.wait(60) == 0
    return seconds


async def _messages(url: str, stream: str) -> list[tuple[str, bytes, str]]:
    client = await nats.connect(url)
    js = client.jetstream()
    state = (await js.stream_info(stream)).state
    found = [await js.get_msg(stream, number) for number in range(1, state.messages + 1)]
    await client.close()
    return [(each.subject or "", each.data or b"", (each.headers or {})["Replay-File"]) for each in found]


async def _create(url: str, stream: str, subject: str, **more: int) -> None:
    client = await nats.connect(url)
    await client.jetstream().add_stream(name=stream, subjects=[subject], **more)
    await client.close()


def test_a_subject_gets_a_message_a_line_which_its_stream_has_acknowledged(fleet: TailFleet):
    lines = b"".join(b"line %d\n" % n for n in range(3000))
    fleet.send(*fleet.blocks(Log(lines, host=HOST)))
    asyncio.run(_create(fleet.url, "AGAIN", "again.>"))
    fleet.run_bytes("replay", "--to-subject", "again.{host}", "--speed", "max")
    found = asyncio.run(_messages(fleet.url, "AGAIN"))
    assert [payload for _, payload, _ in found] == lines.splitlines()
    assert {(subject, file) for subject, _, file in found} == {(f"again.{HOST}", "/var/log/app.log")}


def test_what_a_stream_refuses_ends_it(fleet: TailFleet):
    fleet.send(*fleet.blocks(Log(b"x\n" * 500, host=HOST)))
    asyncio.run(_create(fleet.url, "SMALL", "again.>", max_msgs=10, discard="new"))  # type: ignore[arg-type]
    fleet.run_bytes("replay", "--to-subject", "again.x", "--speed", "max", code=69)


@pytest.mark.parametrize(
    "arguments",
    [["--speed", "0"], ["--speed", "fast"], ["--to-subject", "logs.p0.x"], ["--to-subject", "a b"],
     ["--to-subject", "$JS.API.x"], ["--to-subject", "again.{file}"], ["--to-subject", "a", "--to-file", "b"]],
)  # fmt: skip
def test_contradictory_options_are_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    from shipper.main import run  # noqa: PLC0415

    assert run(["replay", *arguments]) == 64
    assert "hint: " in capsys.readouterr().err
