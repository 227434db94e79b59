"""The sentences of `shipper.ports.Inbox`, held in memory and on a real server: stream, acks, dead letters."""

import asyncio

import pytest
from worlds import DLQ_SUBJECT, MIB, PATIENCE, numbered, open_inbox, sequences, soon, taken

from shipper.errors import StreamMissing

# -- ack and all_taken --------------------------------------------------------------------------------------------


async def test_an_ack_is_for_everything_before_it_too(world):
    await world.put(*numbered(10))
    async with open_inbox(world) as inbox:
        await inbox.begin(1)
        found = await taken(inbox, 10)
        await inbox.ack(found[6])
        async with asyncio.timeout(PATIENCE):
            while await world.ack_floor() != 7:
                pass


async def test_all_is_taken_when_nothing_is_left_in_the_stream(world):
    async with open_inbox(world) as inbox:
        await inbox.begin(1)
        assert await inbox.all_taken()
        await world.put(*numbered(3))
        assert not await inbox.all_taken()
        found = await taken(inbox, 3)
        assert await inbox.all_taken()
        await inbox.ack(found[-1])
        assert await inbox.all_taken()


async def test_not_all_is_taken_while_deliveries_wait_to_be_taken(world):
    await world.put(*numbered(3))
    async with open_inbox(world) as inbox:
        await inbox.begin(1)
        await soon(inbox.take(1, 5.0))
        assert not await inbox.all_taken()


async def test_all_is_taken_when_the_last_messages_were_deleted(world):
    await world.put(*numbered(3))
    await world.delete_message(3)
    async with open_inbox(world) as inbox:
        await inbox.begin(1)
        await taken(inbox, 2)
        assert await inbox.all_taken()


async def test_not_all_is_taken_when_the_same_session_begins_again(world):
    await world.put(*numbered(3))
    async with open_inbox(world) as inbox:
        await inbox.begin(1)
        await taken(inbox, 3)
        await inbox.begin(2)
        assert not await inbox.all_taken()


# -- the stream ---------------------------------------------------------------------------------------------------


async def test_the_state_describes_what_the_stream_holds(world):
    await world.limit(2 * MIB)
    async with open_inbox(world) as inbox:
        empty = await inbox.state()
        assert (empty.last_sequence, empty.messages, empty.bytes, empty.max_bytes) == (0, 0, 0, 2 * MIB)
        assert empty.first_sequence <= 1
        await world.put(*[bytes(1000)] * 4)
        await world.delete_message(1)
        full = await inbox.state()
    assert (full.first_sequence, full.last_sequence, full.messages) == (2, 4, 3)
    assert 3000 < full.bytes < 4000
    assert full.created == empty.created


async def test_another_stream_of_the_same_name_was_created_at_another_time(world):
    async with open_inbox(world) as inbox:
        before = await inbox.state()
        await world.recreate_stream()
        assert (await inbox.state()).created != before.created


async def test_the_state_of_no_stream_is_a_missing_stream(world):
    await world.remove_stream()
    async with open_inbox(world) as inbox:
        with pytest.raises(StreamMissing):
            await soon(inbox.state())


async def test_the_time_of_a_message_is_the_one_it_is_delivered_with(world):
    await world.put(*numbered(3))
    async with open_inbox(world) as inbox:
        await inbox.begin(1)
        found = await taken(inbox, 3)
        assert [await inbox.time_of(each.sequence) for each in found] == [each.time_ns for each in found]


async def test_there_is_no_time_of_a_message_that_the_stream_does_not_hold(world):
    await world.put(*numbered(3))
    await world.delete_message(2)
    async with open_inbox(world) as inbox:
        assert await inbox.time_of(2) is None
        assert await inbox.time_of(4) is None
        assert await inbox.time_of(3) is not None


async def test_a_purge_removes_what_is_below_and_reports_how_much(world):
    await world.put(*numbered(6))
    async with open_inbox(world) as inbox:
        assert await inbox.purge(4) == 3
        assert await inbox.purge(4) == 0
        state = await inbox.state()
        assert (state.first_sequence, state.last_sequence, state.messages) == (4, 6, 3)
        await inbox.begin(1)
        assert sequences(await taken(inbox, 3)) == [4, 5, 6]


async def test_a_purge_leaves_what_the_reader_has_not_read(world):
    await world.put(*numbered(6))
    async with open_inbox(world) as inbox:
        await inbox.begin(1)
        await inbox.ack((await taken(inbox, 6))[-1])
        assert await inbox.purge(7) == 6
        await world.put(b"7")
        assert sequences(await taken(inbox, 1)) == [7]


# -- dead letters -------------------------------------------------------------------------------------------------


async def test_a_dead_letter_is_stored_when_the_call_returns_and_a_second_copy_is_dropped(world):
    async with open_inbox(world) as inbox:
        for name in ("LOGS_0:1", "LOGS_0:1", "LOGS_0:2"):
            await inbox.dead_letter(DLQ_SUBJECT, {"Nats-Msg-Id": name, "Dlq-Reason": "why"}, name.encode())
        assert await world.dead_letters() == [b"LOGS_0:1", b"LOGS_0:2"]


async def test_a_dead_letter_without_a_stream_for_it_is_a_missing_stream(world):
    await world.remove_stream("DLQ")
    async with open_inbox(world) as inbox:
        with pytest.raises(StreamMissing):
            await soon(inbox.dead_letter(DLQ_SUBJECT, {}, b"x"))
