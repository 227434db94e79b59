"""`fshipper search -f`: what the archive has, what is not archived yet, and what arrives, each line once."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from collecting import Log
from harness.natsd import NatsServer
from tail_fleet import Following, TailFleet, objects

from consumer.archive.parts import Part
from consumer.archive.reader import ArchiveReader
from consumer.archive.selection import Wanted
from consumer.read import follow
from shipper.settings import Settings

WEB = "web1.example.net"


@pytest.fixture
def fleet(tmp_path: Path, natsd: NatsServer) -> Iterator[TailFleet]:
    with TailFleet(tmp_path, natsd, partitions=1) as fleet:
        yield fleet


def test_archived_waiting_and_new_lines_are_found_once_each(fleet: TailFleet) -> None:
    log = Log(b"one hit\nnothing\ntwo hit\nthree hit\nfour hit\n", host=WEB)
    ends = (0, 16, 24, 34, len(log.data))
    blocks = fleet.blocks(log, *ends)
    fleet.send(blocks[0])
    fleet.drain("--seal")
    fleet.send(blocks[1])
    fleet.drain()
    fleet.send(blocks[2])  # not archived
    arguments = ["search", "hit", "-f", "--json", "--archive", str(fleet.archive)]
    following = Following(arguments, fleet.environment(), fleet.directory)
    fleet.programs.append(following)  # type: ignore[arg-type]
    following.writes(b"three hit")
    fleet.send(blocks[3])
    following.writes(b"four hit")
    assert following.stop(signal.SIGINT) == 130
    hits = [each for each in objects(following.written()) if each["type"] == "hit"]
    assert [each["line"] for each in hits] == ["one hit", "two hit", "three hit", "four hit"]
    assert [each["offset"] for each in hits] == [0, 16, 24, 34]
    assert [bool(each["segment"]) for each in hits] == [True, True, False, False]


def test_lines_that_arrive_have_context_of_the_archive_and_of_what_arrives(fleet: TailFleet) -> None:
    log = Log(b"one\ntwo\na hit\nthree\nfour\nfive hit\nsix\nseven\n", host=WEB)
    ends = (0, 8, 14, len(log.data))
    blocks = fleet.blocks(log, *ends)
    fleet.send(blocks[0])
    fleet.drain("--seal")
    arguments = ["search", "hit", "-f", "-C", "2", "--archive", str(fleet.archive)]
    following = Following([*arguments, "--json"], fleet.environment(), fleet.directory)
    fleet.programs.append(following)  # type: ignore[arg-type]
    fleet.send(blocks[1])
    following.writes(b"a hit")  # no line came after it for a while
    fleet.send(blocks[2])
    following.writes(b"five hit")
    assert following.stop(signal.SIGINT) == 130
    hits = [each for each in objects(following.written()) if each["type"] == "hit"]
    assert [(each["before"], each["line"], each["after"]) for each in hits] == [
        (["one", "two"], "a hit", []),
        (["three", "four"], "five hit", ["six", "seven"]),
    ]


def test_what_is_not_archived_yet_is_found_however_long_ago_it_was_sent(
    fleet: TailFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "OVERLAP_SECONDS", 0)
    log, other = Log(b"archived\nwaiting\n", host=WEB), Log(b"waiting too\n", host="web2.example.net")
    first, second = fleet.blocks(log, 0, 9, len(log.data))
    fleet.send(first)
    fleet.drain("--seal")
    fleet.send(second, *fleet.blocks(other))
    settings = Settings(
        nats={"url": fleet.url}, collector={"directory": fleet.archive, "state": fleet.directory / "state"}
    )
    parts = ArchiveReader(fleet.archive, settings.collector.state).find(Wanted())

    assert asyncio.run(stored_in_streams(settings, tuple(parts))) == [b"waiting\n", b"waiting too\n"]
    assert asyncio.run(stored_in_streams(settings, ())) == [b"archived\n", b"waiting\n", b"waiting too\n"]


async def stored_in_streams(settings: Settings, archived: tuple[Part, ...]) -> list[bytes]:
    places = follow.Places(settings=settings, archive=None)
    async with follow.FleetLog(places, Wanted(), patience=0.0, name="search", archived=archived) as read:
        return [line.text async for piece in read.stored(0, None) for line in piece.lines()]
