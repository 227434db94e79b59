"""The stream is not what it was: recreated, restored, or short of what it had acknowledged."""

import pytest
from collecting import Log, PartitionHarness
from harness.waiting import becomes

from shipper.errors import Unavailable

LINES = b"one\ntwo\nthree\n"


async def test_a_recreated_stream_is_read_from_its_first_message_and_nothing_is_doubled(harness, log):
    harness.send(log, 0, 4, 8)
    harness.say(b"before")
    await harness.drain()
    harness.stream.recreate()
    harness.send(log, 0, 8)  # the producer sends what the server lost
    harness.send(log, 8, 14)
    harness.say(b"after")
    await harness.drain()
    await harness.drain()
    assert harness.text(log) == LINES
    assert harness.text(file="messages.log") == b"before\nafter\n"


async def test_a_server_that_lost_its_newest_messages_does_not_hide_the_new_ones_under_their_numbers(harness, log):
    harness.say(b"stays")
    harness.send(log, 0, 4)
    harness.say(b"archived before it was lost")
    await harness.drain()
    harness.stream.forget_last(2)
    harness.send(log, 0, 4)
    harness.say(b"new")
    harness.send(log, 4, 14)
    await harness.drain()
    await harness.drain()
    assert harness.text(log) == LINES
    assert harness.text(file="messages.log") == b"stays\narchived before it was lost\nnew\n"


async def test_a_shorter_stream_is_noticed_before_anything_new_comes(harness):
    for line in (b"1", b"2", b"3"):
        harness.say(line)
    await harness.drain()
    harness.stream.forget_last(1)
    async with harness.running() as worker:
        await becomes(lambda: not worker.trouble)
        harness.say(b"4")  # under the number of what was lost
        await becomes(lambda: harness.text(file="messages.log").endswith(b"4\n"))
    assert harness.text(file="messages.log") == b"1\n2\n3\n4\n"


async def test_a_recreated_stream_is_noticed_also_where_the_last_message_cannot_be_compared(harness, log):
    for line in (b"1", b"2", b"3"):
        harness.say(line)
    await harness.drain()
    harness.stream.recreate()
    harness.send(log, 0, 14)
    for line in (b"4", b"5", b"6"):
        harness.say(line)
    harness.stream.delete(3)
    await harness.drain()
    assert harness.text(log) == LINES
    assert harness.text(file="messages.log") == b"1\n2\n3\n4\n6\n"


async def test_a_purged_stream_is_the_same_stream(harness, log, monkeypatch):
    changed = []
    monkeypatch.setattr("shipper.events.history_changed", lambda **what: changed.append(what))
    harness.send(log, 0, 8)
    await harness.drain()
    harness.stream.purge(100)
    await harness.drain()
    harness.send(log, 8, 14)
    await harness.drain()
    assert harness.text(log) == LINES
    assert not changed


async def test_acknowledged_is_not_archived_a_collector_begins_where_its_journal_is(harness, log):
    for span in [(0, 4), (4, 8), (8, 14)]:
        harness.send(log, *span)
    harness.stream.ack_floor = 3  # by another collector, or by a journal that was restored since
    await harness.drain()
    assert harness.text(log) == LINES


async def test_a_stream_that_does_not_exist_is_reported_with_its_name(harness):
    harness.patience = 0.5
    harness.bus.remove_stream("LOGS_0")
    with pytest.raises(Unavailable, match="LOGS_0"):
        await harness.drain()


async def test_sessions_that_end_in_the_middle_are_followed_by_others(tmp_path):
    harness, log = PartitionHarness(tmp_path), Log(LINES * 100)
    async with harness.running():
        for start in range(0, len(log.data), 100):
            harness.send(log, start, min(start + 100, len(log.data)))
            if start % 500 == 0:
                harness.bus.end_sessions()
                await becomes(lambda: harness.stream.ack_floor >= 1)
        await becomes(lambda: len(harness.text(log)) == len(log.data))
    assert harness.text(log) == log.data
