"""The stream is not what it was: recreated, restored, or short of what it had acknowledged."""

from pathlib import Path

import pytest
from collecting import Desk, Log, becomes

from shipper.errors import Unavailable

LINES = b"one\ntwo\nthree\n"


async def test_a_recreated_stream_is_read_from_its_first_message_and_nothing_is_doubled(tmp_path: Path) -> None:
    desk, log = Desk(tmp_path), Log(LINES)
    desk.send(log, 0, 4)
    desk.send(log, 4, 8)
    desk.say(b"before")
    await desk.drain()
    desk.stream.recreate()
    desk.send(log, 0, 8)  # the producer sends what the server lost
    desk.send(log, 8, 14)
    desk.say(b"after")
    await desk.drain()
    await desk.drain()
    assert desk.text(log) == LINES
    assert desk.text(file="messages.log") == b"before\nafter\n"


async def test_a_server_that_lost_its_newest_messages_does_not_hide_the_new_ones_under_their_numbers(
    tmp_path: Path,
) -> None:
    desk, log = Desk(tmp_path), Log(LINES)
    desk.say(b"stays")
    desk.send(log, 0, 4)
    desk.say(b"archived before it was lost")
    await desk.drain()
    desk.stream.forget_last(2)
    desk.send(log, 0, 4)
    desk.say(b"new")
    desk.send(log, 4, 14)
    await desk.drain()
    await desk.drain()
    assert desk.text(log) == LINES
    assert desk.text(file="messages.log") == b"stays\narchived before it was lost\nnew\n"


async def test_a_shorter_stream_is_noticed_before_anything_new_comes(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    for line in (b"1", b"2", b"3"):
        desk.say(line)
    await desk.drain()
    desk.stream.forget_last(1)
    async with desk.running() as worker:
        await becomes(lambda: not worker.trouble)
        desk.say(b"4")  # under the number of what was lost
        await becomes(lambda: desk.text(file="messages.log").endswith(b"4\n"))
    assert desk.text(file="messages.log") == b"1\n2\n3\n4\n"


async def test_a_recreated_stream_is_noticed_also_where_the_last_message_cannot_be_compared(tmp_path: Path) -> None:
    desk, log = Desk(tmp_path), Log(LINES)
    for line in (b"1", b"2", b"3"):
        desk.say(line)
    await desk.drain()
    desk.stream.recreate()
    desk.send(log, 0, 14)
    for line in (b"4", b"5", b"6"):
        desk.say(line)
    desk.stream.delete(3)
    await desk.drain()
    assert desk.text(log) == LINES
    assert desk.text(file="messages.log") == b"1\n2\n3\n4\n6\n"


async def test_a_purged_stream_is_the_same_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk, log = Desk(tmp_path), Log(LINES)
    changed = []
    monkeypatch.setattr("shipper.events.history_changed", lambda **what: changed.append(what))
    desk.send(log, 0, 8)
    await desk.drain()
    desk.stream.purge(100)
    await desk.drain()
    desk.send(log, 8, 14)
    await desk.drain()
    assert desk.text(log) == LINES
    assert not changed


async def test_acknowledged_is_not_archived_a_collector_begins_where_its_journal_is(tmp_path: Path) -> None:
    desk, log = Desk(tmp_path), Log(LINES)
    for span in [(0, 4), (4, 8), (8, 14)]:
        desk.send(log, *span)
    desk.stream.ack_floor = 3  # by another collector, or by a journal that was restored since
    await desk.drain()
    assert desk.text(log) == LINES


async def test_a_stream_that_does_not_exist_is_told_with_its_name(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.bus.remove_stream("LOGS_0")
    with pytest.raises(Unavailable, match="LOGS_0"):
        await desk.drain()


async def test_sessions_that_end_in_the_middle_are_followed_by_others(tmp_path: Path) -> None:
    desk, log = Desk(tmp_path), Log(LINES * 100)
    async with desk.running():
        for start in range(0, len(log.data), 100):
            desk.send(log, start, min(start + 100, len(log.data)))
            if start % 500 == 0:
                desk.bus.end_sessions()
                await becomes(lambda: desk.stream.ack_floor >= 1)
        await becomes(lambda: len(desk.text(log)) == len(log.data))
    assert desk.text(log) == log.data
