"""`fshipper search -f`: what the archive has, what is not archived yet, and what arrives, each line once."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from collecting import Log
from natsd import NatsServer
from tail_fleet import Following, TailFleet, objects

from consumer.archive.parts import Part
from consumer.archive.reader import ArchiveReader
from consumer.archive.selection import Wanted
from consumer.read import follow
from shipper.settings import Settings

WEB = "web1.example.net"


@pytest.fixture
def told(tmp_path: Path, natsd: NatsServer) -> Iterator[TailFleet]:
    with TailFleet(tmp_path, natsd, partitions=1) as told:
        yield told


def test_archived_waiting_and_new_lines_are_found_once_each(told: TailFleet) -> None:
    log = Log(b"one hit\nnothing\ntwo hit\nthree hit\nfour hit\n", host=WEB)
    ends = (0, 16, 24, 34, len(log.data))
    blocks = told.blocks(log, *ends)
    told.send(blocks[0])
    told.drain("--seal")
    told.send(blocks[1])
    told.drain()
    told.send(blocks[2])  # not archived
    arguments = ["search", "hit", "-f", "--json", "--archive", str(told.archive)]
    following = Following(arguments, told.environment(), told.directory)
    told.programs.append(following)  # type: ignore[arg-type]
    following.says(b"three hit")
    told.send(blocks[3])
    following.says(b"four hit")
    assert following.stop(signal.SIGINT) == 130
    hits = [each for each in objects(following.said()) if each["type"] == "hit"]
    assert [each["line"] for each in hits] == ["one hit", "two hit", "three hit", "four hit"]
    assert [each["offset"] for each in hits] == [0, 16, 24, 34]
    assert [bool(each["segment"]) for each in hits] == [True, True, False, False]


def test_lines_that_arrive_have_context_of_the_archive_and_of_what_arrives(told: TailFleet) -> None:
    log = Log(b"one\ntwo\na hit\nthree\nfour\nfive hit\nsix\nseven\n", host=WEB)
    ends = (0, 8, 14, len(log.data))
    blocks = told.blocks(log, *ends)
    told.send(blocks[0])
    told.drain("--seal")
    arguments = ["search", "hit", "-f", "-C", "2", "--archive", str(told.archive)]
    following = Following([*arguments, "--json"], told.environment(), told.directory)
    told.programs.append(following)  # type: ignore[arg-type]
    told.send(blocks[1])
    following.says(b"a hit")  # no line came after it for a while
    told.send(blocks[2])
    following.says(b"five hit")
    assert following.stop(signal.SIGINT) == 130
    hits = [each for each in objects(following.said()) if each["type"] == "hit"]
    assert [(each["before"], each["line"], each["after"]) for each in hits] == [
        (["one", "two"], "a hit", []),
        (["three", "four"], "five hit", ["six", "seven"]),
    ]


def test_what_is_not_archived_yet_is_found_however_long_ago_it_was_sent(
    told: TailFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "OVERLAP_SECONDS", 0)
    log, other = Log(b"archived\nwaiting\n", host=WEB), Log(b"waiting too\n", host="web2.example.net")
    first, second = told.blocks(log, 0, 9, len(log.data))
    told.send(first)
    told.drain("--seal")
    told.send(second, *told.blocks(other))
    settings = Settings(
        nats={"url": told.url}, collector={"directory": told.archive, "state": told.directory / "state"}
    )
    parts = ArchiveReader(told.archive, settings.collector.state).find(Wanted())

    assert asyncio.run(stored_in_streams(settings, tuple(parts))) == [b"waiting\n", b"waiting too\n"]
    assert asyncio.run(stored_in_streams(settings, ())) == [b"archived\n", b"waiting\n", b"waiting too\n"]


async def stored_in_streams(settings: Settings, archived: tuple[Part, ...]) -> list[bytes]:
    places = follow.Places(settings=settings, archive=None)
    async with follow.FleetLog(places, Wanted(), patience=0.0, name="search", archived=archived) as read:
        return [line.text async for piece in read.stored(0, None) for line in piece.lines()]
