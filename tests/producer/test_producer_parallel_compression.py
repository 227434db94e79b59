"""Two threads pack: what they make comes in the order in which it was read, whichever is slower."""

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from producing import Producer

from producer import batcher, parallel_compression
from producer.parallel_compression import in_order
from shipper import codec
from shipper.compression import Compressor
from shipper.testing import MemoryPublisher

delays = st.lists(st.tuples(st.sampled_from([0.0, 0.0005, 0.002]), st.sampled_from([0.0, 0.002])), max_size=12)


@pytest.fixture(scope="module")
def second() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


@given(delays=delays)
def test_the_order_is_that_of_reading_whichever_step_is_slower(
    second: ThreadPoolExecutor, delays: list[tuple[float, float]]
) -> None:
    reading = threading.Lock()

    def things() -> Iterator[tuple[int, float]]:
        for number, (to_read, to_pack) in enumerate(delays):
            assert reading.acquire(blocking=False), "two read at once"
            time.sleep(to_read)
            reading.release()
            yield number, to_pack

    def packed(thing: tuple[int, float]) -> int:
        time.sleep(thing[1])
        return thing[0]

    assert in_order(things(), packed, packed, second) == list(range(len(delays)))


def test_both_work_at_the_same_time(second: ThreadPoolExecutor) -> None:
    meeting = threading.Barrier(2, timeout=10)
    names = in_order(range(2), lambda _: (meeting.wait(), "mine")[1], lambda _: (meeting.wait(), "other")[1], second)
    assert sorted(names) == ["mine", "other"]


@pytest.mark.parametrize("who", ["mine", "other", "reading"])
def test_what_one_raises_is_raised_when_both_are_done(second: ThreadPoolExecutor, who: str) -> None:
    works: set[str] = set()

    def things() -> Iterator[int]:
        yield from range(20)
        if who == "reading":
            raise OSError(who)

    def working(name: str, number: int) -> int:
        works.add(name)
        time.sleep(0.001)
        if name == who and number > 3:
            raise OSError(who)
        works.discard(name)
        return number

    with pytest.raises(OSError, match=who):
        in_order(things(), lambda n: working("mine", n), lambda n: working("other", n), second)
    assert works <= {who}


@pytest.fixture
def packers(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """There is always a core to spare, many small loads, and packing takes some blocks longer; who packed."""
    chance, who, encode = random.Random(1), set[int](), Compressor.encode

    def slow(self: Compressor, data: bytes) -> bytes:
        who.add(threading.get_ident())
        time.sleep(chance.choice([0.0, 0.0, 0.003]))
        return encode(self, data)

    monkeypatch.setattr(Compressor, "encode", slow)
    monkeypatch.setattr(parallel_compression.SpareCores, "is_there", lambda _: True)
    monkeypatch.setattr(batcher, "BATCH_BYTES", 64 * 1024)
    return who


def two_files(directory: Path) -> list[Path]:
    chance, files = random.Random(2), [directory / name for name in ("a.log", "b.log")]
    for path in files:
        path.write_bytes(b"".join(b"%d %s\n" % (n, chance.randbytes(30).hex().encode()) for n in range(12_000)))
    return files


async def test_the_stream_has_each_files_blocks_in_order_when_two_pack(tmp_path: Path, packers: set[int]) -> None:
    files = two_files(tmp_path)
    producer = Producer(tmp_path, "*.log", block=8 * 1024)
    await producer.ship_once()
    assert len(packers) == 2
    blocks = [codec.from_headers(message.headers) for message in producer.stream]
    for path in files:
        starts = [block.span.start for block in blocks if block.file == str(path)]
        assert starts == sorted(starts)
        assert producer.archived().text(path) == path.read_bytes()


async def test_nothing_is_left_out_when_two_pack_and_sessions_end(
    tmp_path: Path, packers: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for policy in ("SESSION", "FULL"):
        monkeypatch.setattr(f"shipper.retry.{policy}._wait", lambda _: 0.0)
    chance, publish = random.Random(3), MemoryPublisher.publish

    async def breaking(self: MemoryPublisher, *arguments: Any) -> None:
        if chance.random() < 0.05:
            self.fail("the connection broke")
        await publish(self, *arguments)
        await asyncio.sleep(0)  # acks arrive meanwhile

    monkeypatch.setattr(MemoryPublisher, "publish", breaking)
    files = two_files(tmp_path)
    producer = Producer(tmp_path, "*.log", block=8 * 1024)
    await producer.ship_once()
    assert len(packers) == 2
    assert producer.sessions > 3
    for path in files:
        assert producer.archived().text(path) == path.read_bytes()
