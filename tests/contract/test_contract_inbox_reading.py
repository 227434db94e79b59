"""The sentences of `shipper.ports.Inbox`, held in memory and on a real server: begin and take."""

import asyncio
import time

import pytest
from harness.waiting import slowdown
from worlds import KIB, MIB, PATIENCE, WEB1, apart, numbered, open_inbox, sequences, soon, taken

from shipper.errors import StreamMissing

# -- begin --------------------------------------------------------------------------------------------------------


async def test_deliveries_come_in_order_with_all_that_was_published(world):
    await world.put(*numbered(3), headers={"Log-Id": "a"})
    async with open_inbox(world) as inbox:
        await inbox.begin(1)
        found = await taken(inbox, 3)
    assert [(each.sequence, each.payload, each.pending) for each in found] == [(1, b"1", 2), (2, b"2", 1), (3, b"3", 0)]
    assert {(each.subject, each.headers["Log-Id"]) for each in found} == {(WEB1, "a")}
    assert found[0].time_ns < found[1].time_ns < found[2].time_ns


async def test_nothing_is_delivered_before_begin(world):
    await world.put(b"x")
    async with open_inbox(world) as inbox:
        assert await inbox.take(MIB, 0.05) == []


@pytest.mark.parametrize("first", [1, 2, 7, 10])
async def test_reading_begins_at_the_position_of_begin_whatever_was_acknowledged(world, first):
    await world.put(*numbered(10))
    async with open_inbox(world) as before:
        await before.begin(1)
        await before.ack((await taken(before, 10))[7])
    async with open_inbox(world) as inbox:
        await inbox.begin(first)
        assert sequences(await taken(inbox, 11 - first)) == list(range(first, 11))


async def test_a_redelivery_has_the_time_of_the_first_delivery(world):
    await world.put(*numbered(5))
    async with open_inbox(world) as before:
        await before.begin(1)
        first = await taken(before, 5)
    async with open_inbox(world) as inbox:
        await inbox.begin(1)
        again = await taken(inbox, 5)
    assert [each.time_ns for each in first] == [each.time_ns for each in again]


async def test_begin_below_1_is_the_first_message(world):
    await world.put(*numbered(2))
    async with open_inbox(world) as inbox:
        await inbox.begin(0)
        assert sequences(await taken(inbox, 2)) == [1, 2]


async def test_begin_after_the_last_message_waits_for_that_one_and_hands_out_none_before_it(world):
    await world.put(*numbered(3))
    async with open_inbox(world) as inbox:
        await inbox.begin(6)
        assert await inbox.take(MIB, 0.1) == []
        await world.put(b"4", b"5", b"6", b"7")
        assert sequences(await taken(inbox, 2)) == [6, 7]


async def test_begin_at_the_next_message_waits_for_it(world):
    await world.put(*numbered(3))
    async with open_inbox(world) as inbox:
        await inbox.begin(4)
        assert await inbox.take(MIB, 0.1) == []
        await world.put(b"4")
        assert sequences(await taken(inbox, 1)) == [4]


async def test_begin_continues_after_messages_that_are_gone(world):
    await world.put(*numbered(6))
    await world.delete_message(3)
    async with open_inbox(world) as inbox:
        await inbox.begin(3)
        assert sequences(await taken(inbox, 3)) == [4, 5, 6]


async def test_deleted_messages_are_left_out_and_disturb_no_other_message(world):
    await world.put(*numbered(6))
    await world.delete_message(2)
    await world.delete_message(5)
    async with open_inbox(world) as inbox:
        await inbox.begin(1)
        assert sequences(await taken(inbox, 4)) == [1, 3, 4, 6]


async def test_beginning_again_in_the_same_session_reads_again_from_there(world):
    await world.put(*numbered(10))
    async with open_inbox(world) as inbox:
        for first in (1, 4, 9, 2):
            await inbox.begin(first)
            assert sequences(await taken(inbox, 11 - first)) == list(range(first, 11))


async def test_beginning_again_drops_what_had_arrived_and_was_not_taken(world):
    await world.put(*numbered(10))
    async with open_inbox(world) as inbox:
        await inbox.begin(1)
        assert sequences(await soon(inbox.take(1, 5.0))) == [1]
        await inbox.begin(3)
        assert sequences(await taken(inbox, 8)) == list(range(3, 11))


async def test_beginning_again_drops_what_is_still_on_its_way(world):
    await world.put(*numbered(3000))
    async with open_inbox(world) as inbox:
        for first in range(1, 30):
            await inbox.begin(first)
        assert sequences(await taken(inbox, 2972)) == list(range(29, 3001))


async def test_what_the_server_hands_out_again_in_the_same_session_is_dropped(server):
    """It does so with what is not acknowledged for long, and with what it could not deliver to an inbox before it."""
    await server.redeliver_after(0.2)
    await server.put(*numbered(10))
    async with open_inbox(server) as inbox:
        await inbox.begin(3)
        assert sequences(await taken(inbox, 8)) == list(range(3, 11))
        async with asyncio.timeout(PATIENCE):
            while await server.redelivered() < 8:
                assert await inbox.take(MIB, 0.05) == []
        await server.put(b"11", b"12")
        assert sequences(await taken(inbox, 2)) == [11, 12]
        assert await inbox.all_taken()


async def test_a_new_session_reads_in_order_right_after_one_that_was_closed_with_pulls_outstanding(world):
    await world.put(*numbered(20))
    for _ in range(10):
        async with open_inbox(world) as inbox:
            await inbox.begin(1)
            assert sequences(await taken(inbox, 20)) == list(range(1, 21))


async def test_beginning_without_a_stream_is_a_missing_stream(world):
    await world.remove_stream()
    async with open_inbox(world) as inbox:
        with pytest.raises(StreamMissing):
            await soon(inbox.begin(1))


# -- take ---------------------------------------------------------------------------------------------------------


async def test_take_hands_out_about_the_bytes_that_were_requested(world):
    await world.put(*[bytes(100_000)] * 10)
    async with open_inbox(world) as inbox:
        await inbox.begin(1)
        sizes = []
        while sum(sizes) < 10:
            sizes.append(len(await soon(inbox.take(250_000, 5.0))))
    assert min(sizes) >= 1
    assert 2 <= max(sizes) <= 3, "three are 300,000 bytes; a slow server may have delivered only two"


async def test_take_hands_out_a_message_that_is_larger_than_what_was_requested(world):
    await world.put(bytes(100_000))
    async with open_inbox(world) as inbox:
        await inbox.begin(1)
        assert len(await taken(inbox, 1, at_most_bytes=10)) == 1


async def test_take_of_an_empty_stream_returns_nothing_in_time(world):
    async with open_inbox(world) as inbox:
        await inbox.begin(1)
        began = time.monotonic()
        assert await inbox.take(MIB, 0.2) == []
        assert time.monotonic() - began < 2 * slowdown()


async def test_take_returns_as_soon_as_something_comes(world):
    async with open_inbox(world) as inbox:
        await inbox.begin(1)
        waiting = asyncio.create_task(taken(inbox, 1))
        await world.put(b"1")
        assert sequences(await soon(waiting)) == [1]


async def test_five_thousand_small_messages_arrive_once_and_in_order(world):
    await world.put(*numbered(5000))
    async with open_inbox(world) as inbox:
        await inbox.begin(1)
        found = await taken(inbox, 5000)
    assert [each.payload for each in found] == numbered(5000)


async def test_more_messages_than_the_server_leaves_unacknowledged_arrive_when_the_batches_are_acknowledged(world):
    await world.put(*numbered(7000))
    found = []
    async with open_inbox(world) as inbox:
        await inbox.begin(1)
        async with asyncio.timeout(PATIENCE):
            while len(found) < 7000:
                batch = await inbox.take(MIB, 1.0)
                found += apart(batch)
                if batch:
                    await inbox.ack(batch[-1])
    assert sequences(found) == list(range(1, 7001))


async def test_big_messages_arrive_in_order_through_pulls_that_hold_one_each(world):
    await world.put(*[b"%03d" % number + bytes(600 * KIB) for number in range(40)])
    async with open_inbox(world, batch_bytes=MIB) as inbox:
        await inbox.begin(1)
        found = await taken(inbox, 40)
    assert [each.payload[:3] for each in found] == [b"%03d" % number for number in range(40)]


async def test_a_message_larger_than_a_pull_is_delivered_too(world):
    await world.put(b"small", bytes(900 * KIB), b"behind")
    async with open_inbox(world, batch_bytes=512 * KIB) as inbox:
        await inbox.begin(1)
        assert sequences(await taken(inbox, 3)) == [1, 2, 3]


async def test_messages_without_content_are_delivered_too(world):
    await world.put(b"", b"", b"")
    async with open_inbox(world) as inbox:
        await inbox.begin(1)
        assert [each.payload for each in await taken(inbox, 3)] == [b"", b"", b""]


async def test_small_and_big_messages_in_turn_arrive_in_order_while_more_are_published(world):
    async with open_inbox(world, batch_bytes=MIB) as inbox:
        await inbox.begin(1)
        found = []
        for _ in range(5):
            await world.put(*[b"small"] * 500, bytes(700 * KIB))
            found += await taken(inbox, 501)
            await inbox.ack(found[-1])
    assert sequences(found) == list(range(1, 2506))
