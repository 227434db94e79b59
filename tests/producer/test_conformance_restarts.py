"""Tests of other tail shippers for restarts, acknowledgements and shutdown that no other test here covers."""

from pathlib import Path

from harness.waiting import becomes
from producing import Host, Producer, append

from producer.checkpoint.store import Checkpoints
from shipper import codec
from shipper.model import Encoding, End


def lines(count: int, start: int = 0) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(start, start + count))


def test_of_4000_lines_the_acknowledged_are_not_read_again_and_the_others_are(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(lines(4000))
    host = Host(tmp_path, "app.log")
    host.read_all()
    host.acknowledge(3)
    host.save()
    known = host.checkpoints.load()[0].offset
    host.restart()
    again = host.read_all()
    assert 0 < known < len(lines(4000))
    assert again[0].span.start == known
    assert b"".join(piece.data for piece in again) == lines(4000)[known:]


async def test_truncated_while_the_output_is_blocked_starts_again_and_counts_what_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(lines(100))
    producer = Producer(tmp_path, "app.log", encoding=Encoding.IDENTITY, ack_timeout=60.0)
    async with producer.running():
        await becomes(lambda: producer.archived().text(path) == lines(100))
        producer.bus.acks.hold()
        append(path, lines(500_000))  # more than the window takes
        whole = path.stat().st_size
        await becomes(lambda: not producer.pipeline.delivery.window.has_capacity and whole in sizes(producer))
        with path.open("r+b") as stream:
            stream.truncate(0)
        append(path, b"anew\n")
        await becomes(lambda: len(b"anew\n") in sizes(producer))
        assert not producer.pipeline.delivery.window.has_capacity
        producer.bus.acks.release()
        await becomes(lambda: list(producer.stream)[-1].payload == b"anew\n")
    archive = producer.archived()
    got = archive.text(path).removesuffix(b"anew\n")
    assert (lines(100) + lines(500_000)).startswith(got)
    assert 0 < archive.lost(path) == whole - len(got)
    assert set(archive.ends.values()) == {End.TRUNCATED}


def sizes(producer: Producer) -> list[int]:
    """The result of the last scan."""
    return [source.size for source in producer.pipeline.delivery.tailer.acks.known.values()]


async def test_a_file_deleted_during_the_last_drain_is_shipped_to_what_was_read_and_its_rest_is_a_gap(
    tmp_path: Path,
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(lines(100))
    producer = Producer(tmp_path, "app.log", drain_within=3.0)
    async with producer.running():
        await becomes(lambda: len(producer.stream) > 0 and len(producer.pipeline.delivery.window) == 0)
        producer.bus.acks.hold()
        append(path, lines(100, 100))
        await becomes(lambda: len(producer.pipeline.delivery.window) > 0)
        producer.stop.request()
        path.unlink()
        producer.bus.acks.release()
    archive = producer.archived()
    assert archive.text(path) == lines(200)
    producer.options["once"] = True
    await producer.run()
    assert archive.lost(path) == 0
    assert Checkpoints(tmp_path / "checkpoint.sqlite").load()[0].offset == len(lines(200))


async def test_a_drain_that_comes_to_no_end_is_over_in_time_and_the_next_start_sends_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(lines(100))
    producer = Producer(tmp_path, "app.log", drain_within=0.2)
    producer.bus.acks.hold()
    async with producer.running():
        await becomes(lambda: len(producer.stream) > 0)
        producer.stop.request()
    assert Checkpoints(tmp_path / "checkpoint.sqlite").load()[0].offset == 0
    producer.bus.acks.release()
    await producer.ship_once()
    assert producer.archived().text(path) == lines(100)


async def test_spans_and_line_counts_continue_over_restarts_also_for_records_of_several_lines(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    producer = Producer(tmp_path, "app.log")
    record = b"ERROR of request %d\n  at one\n  at two\n  caused by three\n"
    path.write_bytes(b"")
    for number in range(5):
        append(path, record % number)
        await producer.ship_once()
    blocks = [codec.from_headers(message.headers) for message in producer.stream]
    blocks = [block for block in blocks if block.span.length]
    assert [block.span.start for block in blocks] == [0, *(block.span.end for block in blocks[:-1])]
    assert sum(block.lines for block in blocks) == 20
    assert len({block.source for block in blocks}) == 1
    assert producer.archived().text(path) == b"".join(record % number for number in range(5))


async def test_a_record_written_in_parts_with_a_pause_and_a_stop_in_its_middle_arrives_contiguous(
    tmp_path: Path,
) -> None:
    path, other = tmp_path / "app.log", tmp_path / "other.log"
    path.write_bytes(b"BEGIN\n  first pa")
    other.write_bytes(b"other 1\n")
    producer = Producer(tmp_path, "*.log")
    async with producer.running():
        await becomes(lambda: producer.archived().text(path) == b"BEGIN\n")
        append(path, b"rt\n  second part\n")
        append(other, b"other 2\n")
        await becomes(lambda: producer.archived().text(path).endswith(b"second part\n"))
    append(path, b"  third part\nEN")
    async with producer.running():
        await becomes(lambda: producer.archived().text(path).endswith(b"third part\n"))
    append(path, b"D\n")
    async with producer.running():
        await becomes(lambda: producer.archived().text(path).endswith(b"END\n"))
    assert producer.archived().text(path) == path.read_bytes()
    assert producer.archived().text(other) == other.read_bytes()
