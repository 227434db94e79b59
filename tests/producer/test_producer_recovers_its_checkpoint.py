"""A lost checkpoint: the collector is waited for, as all that it does not name comes twice."""

import asyncio
import os
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
from harness.fleet import Fleet, until
from harness.natsd import NatsServer
from harness.waiting import becomes, slowdown
from producing import HOST, SUBJECT, Collector, Producer, append, archive_of, take_all

from producer.checkpoint import recovery
from producer.tailer.retained_files import RetainedFiles
from shipper import events
from shipper.control import Receipt


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "ASK_AGAIN_SECONDS", 0.01)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    for event in ("recovery_waits", "recovery_gave_up"):
        monkeypatch.setattr(events, event, lambda event=event, **_: found.append(event))
    return found


def lose(directory: Path) -> None:
    for name in list(directory.glob("checkpoint.sqlite*")):
        name.unlink()


async def shipped(directory: Path, count: int, **options: Any) -> tuple[Producer, dict[Path, bytes]]:
    """A host that shipped `count` files, got more lines meanwhile, and lost its checkpoint."""
    logs = directory / "logs"
    logs.mkdir()
    for number in range(count):
        (logs / f"{number}.log").write_bytes(b"file %d\n" % number * 20)
    producer = Producer(directory, "logs/*.log", **options)
    await producer.ship_once()
    lose(directory)
    for path in logs.iterdir():
        append(path, b"while lost\n")
    return producer, {path: path.read_bytes() for path in logs.iterdir()}


async def test_every_source_of_many_continues_where_the_archive_ends(tmp_path: Path, said: list[str]) -> None:
    producer, wanted = await shipped(tmp_path, 200, recover_wait=30.0)
    collector = Collector(producer.bus, producer.archived())
    os.rename(tmp_path / "logs" / "7.log", tmp_path / "logs" / "7.log.1")
    (tmp_path / "logs" / "7.log").write_bytes(b"its successor\n")
    wanted[tmp_path / "logs" / "7.log"] += b"its successor\n"
    await producer.ship_once()
    archive = producer.archived()
    assert {path: archive.text(path) for path in wanted} == wanted
    assert len(archive.files) == 201
    assert not said
    assert len(collector.questions) >= 1


async def test_a_file_that_has_another_name_by_now_continues_by_its_content(tmp_path: Path, said: list[str]) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    old = [logs / "one.log", logs / "old" / "two.log", logs / "three.log"]
    (logs / "old").mkdir()
    for path in old:
        path.write_bytes(f"{path}: a line of it\n".encode() * 60)
    producer = Producer(tmp_path, "logs/*.log", "logs/old/*.log")
    await producer.ship_once()
    lose(tmp_path)
    wanted = {path: path.read_bytes() + b"while lost\n" for path in old}
    for number, path in enumerate(old):
        path.rename(logs / f"renamed-{number}.log")
        append(logs / f"renamed-{number}.log", b"while lost\n")
    fresh = logs / "fresh.log"
    fresh.write_bytes(wanted[old[0]][:600])  # begins as another one, and is no source of it
    Collector(producer.bus, producer.archived())
    await producer.ship_once()
    archive = producer.archived()
    assert {path: archive.text(path) for path in wanted} == wanted
    assert sorted(archive.files.values()) == sorted(map(str, [*old, fresh]))
    assert not said


async def test_a_producer_waits_for_a_later_collector_and_scans_files_meanwhile(
    tmp_path: Path, said: list[str]
) -> None:
    producer, wanted = await shipped(tmp_path, 5, recover_wait=30.0, retained=RetainedFiles(hands_over=True))
    producer.options["once"] = False
    archive, messages = producer.archived(), len(producer.stream)
    async with producer.running():
        await becomes(lambda: said == ["recovery_waits"])
        (tmp_path / "logs" / "3.log").unlink()  # it is open by now
        came = tmp_path / "logs" / "came.log"
        came.write_bytes(b"came and went\n")
        wanted[came] = came.read_bytes()
        await becomes(lambda: len(producer.pipeline.delivery.tailer.acks.known) == 6)
        came.unlink()
        assert len(producer.stream) == messages
        assert producer.pipeline.ready()
        Collector(producer.bus, archive)
        await becomes(lambda: {path: producer.archived().text(path) for path in wanted} == wanted)
    assert len(producer.archived().files) == 6
    assert not producer.archived().gaps
    assert said == ["recovery_waits"]


async def test_a_collector_that_lags_is_waited_for_until_it_has_judged_what_the_host_sent(
    tmp_path: Path, said: list[str]
) -> None:
    producer, wanted = await shipped(tmp_path, 5, recover_wait=30.0)
    half = archive_of(list(producer.stream)[:2])
    collector = Collector(producer.bus, half)
    collector.through = 2
    shipping = asyncio.create_task(producer.ship_once())
    await becomes(lambda: len(collector.questions) > 3)
    take_all(half, list(producer.stream))
    collector.through = len(producer.stream)
    await asyncio.wait_for(shipping, 15)
    archive = producer.archived()
    assert {path: archive.text(path) for path in wanted} == wanted
    assert len(archive.files) == 5
    assert said == ["recovery_waits"]


async def test_without_an_answer_in_time_files_start_again_which_is_reported(tmp_path: Path, said: list[str]) -> None:
    producer, wanted = await shipped(tmp_path, 5, recover_wait=0.05)
    await producer.ship_once()
    assert said == ["recovery_waits", "recovery_gave_up"]
    archive = producer.archived()
    assert len(archive.files) == 5 + 4  # the newest message names one of them
    assert all(archive.text(path).endswith(text) for path, text in wanted.items())


@pytest.mark.parametrize("newest", ["none", "plain"])
async def test_a_host_without_history_begins_immediately(newest: str, tmp_path: Path, said: list[str]) -> None:
    (tmp_path / "app.log").write_bytes(b"line\n")
    producer = Producer(tmp_path, "app.log", recover_wait=60.0)
    if newest == "plain":
        producer.bus.store(SUBJECT, {}, b"from nats pub")
    await asyncio.wait_for(producer.ship_once(), 10)
    assert not said


async def test_a_program_that_is_requested_to_stop_does_not_wait_for_the_collector(
    tmp_path: Path, said: list[str]
) -> None:
    producer, _ = await shipped(tmp_path, 2, recover_wait=60.0, drain_within=30.0)
    producer.options["once"] = False
    began = time.monotonic()
    async with producer.running():
        await becomes(lambda: said == ["recovery_waits"])
    assert time.monotonic() - began < 15.0 * slowdown()


def test_with_real_programs_a_deleted_checkpoint_of_many_rotated_files_doubles_nothing(
    tmp_path: Path, natsd: NatsServer
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    with Fleet(tmp_path, natsd.url, partitions=1) as fleet:
        fleet.apply()
        producer, collector = fleet.produce(HOST, logs / "*.log", options=("--poll", "50ms")), fleet.consume()
        wanted = {logs / f"{number}.log": b"%d\n" % number * 3000 for number in range(20)}
        for path, text in wanted.items():
            path.write_bytes(text)
        until(
            lambda: all(fleet.archived(HOST, path) == text for path, text in wanted.items()), what=lambda: producer.log
        )
        producer.kill()
        collector.kill()
        lose(tmp_path / "state" / "producer" / HOST)
        for number, path in enumerate(wanted):
            append(path, b"while lost\n")
            wanted[path] += b"while lost\n"
            if number % 2:
                path.rename(path.with_name(f"{path.name}.1"))
                path.write_bytes(b"its successor\n")
                wanted[path] += b"its successor\n"
        producer.start()
        until(lambda: "recovery_waits" in producer.log)
        collector.start()
        until(
            lambda: all(fleet.archived(HOST, path) == text for path, text in wanted.items()), what=lambda: producer.log
        )
        assert (producer.stop(), collector.stop()) == (0, 0)
        assert "recovery_gave_up" not in producer.log


def test_a_copy_after_a_gap_proves_nothing_and_is_still_identified_by_the_sum_of_the_host(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"app-\xff.log")
    path.write_bytes(b"one\ntwo\nthree\n")
    known = Receipt("a" * 16, str(path), 0, 8, -1)
    assert recovery.prove([known]) == []
    (source,) = recovery.prove([known._replace(reported_crc=zlib.crc32(b"one\ntwo\n"))])
    assert (source.id, source.offset, source.crc) == ("a" * 16, 8, zlib.crc32(b"one\ntwo\n"))
