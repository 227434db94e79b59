"""The sentences of `shipper.ports.Publisher`, held in memory and on a real server: acks and what was stored."""

import contextlib

import pytest
from publishing import ended, publish, publishing, settled, settled_or_ended
from worlds import WEB1, WEB2, open_inbox, soon, taken

from shipper.errors import SessionLost, StreamBusy, StreamFull, StreamMissing
from shipper.model import LineMessages


async def test_acks_come_in_the_order_of_the_publishes_with_growing_sequences(world):
    async with publishing(world) as session:
        await publish(session, *range(100, 400))
        acks = await settled(session, 300)
    assert [ack.token for ack in acks] == list(range(100, 400))
    assert [ack.sequence for ack in acks] == list(range(1, 301))


async def test_acks_are_handed_out_once_and_asking_for_them_never_waits(world):
    async with publishing(world) as session:
        assert session.acknowledged() == []
        await publish(session, 1)
        assert len(await settled(session, 1)) == 1
        assert session.acknowledged() == []


async def test_messages_of_another_publisher_between_ours_disturb_nothing(world):
    async with publishing(world) as ours, publishing(world) as theirs:
        for token in range(20):
            await publish(ours, token)
            await publish(theirs, token, subject=WEB2)
        mine, other = await settled(ours, 20), await settled(theirs, 20)
    assert sorted(ack.sequence for ack in [*mine, *other]) == list(range(1, 41))


async def test_a_whole_window_is_sent_without_a_single_ack_read(world):
    async with publishing(world) as session:
        for token in range(64):
            await soon(session.publish(token, WEB1, {}, bytes(256 * 1024)))
        assert len(await settled(session, 64)) == 64


async def test_there_is_no_last_message_in_an_empty_stream_nor_of_a_silent_host(world):
    async with publishing(world) as session:
        assert await session.last_stored(WEB1) is None
        await world.put(b"x", subject=WEB2)
        assert await session.last_stored(WEB1) is None


async def test_the_last_message_of_a_subject_is_the_newest_and_has_all_that_was_sent(world):
    async with publishing(world) as session:
        await publish(session, 1, 2, 3)
        await settled(session, 3)
        await world.put(b"other", subject=WEB2)
        await world.put(b"longer", subject=f"{WEB1}.example")
        last = await session.last_stored(WEB1)
    assert (last.sequence, last.subject, last.headers, last.payload) == (3, WEB1, {"Log-Id": "3"}, b"payload 3")
    assert last.time_ns > 1_700_000_000 * 10**9


async def test_the_last_message_of_a_stream_that_does_not_exist_is_a_missing_stream(world):
    await world.remove_stream()
    async with publishing(world) as session:
        with pytest.raises(StreamMissing):
            await soon(session.last_stored(WEB1))


async def test_the_last_message_of_another_partition_is_requested_by_the_name_of_its_stream(world):
    async with publishing(world) as session:
        assert await session.last_stored_in("LOGS_0", WEB1) is None
        await world.put(b"x", subject=WEB1)
        assert (await session.last_stored_in("LOGS_0", WEB1)).payload == b"x"
        with pytest.raises(StreamMissing):
            await soon(session.last_stored_in("LOGS_7", "logs.p7.web1"))
        assert (await session.last_stored(WEB1)).payload == b"x"  # that was no end of the session


async def test_a_subject_that_no_stream_takes_is_a_missing_stream(world):
    async with publishing(world) as session:
        await publish(session, 1, subject="elsewhere.p0.web1")
        assert isinstance((await ended(session))[1], StreamMissing)


async def test_a_stream_that_is_deleted_under_way_is_missing_after_its_last_acks(world):
    async with publishing(world) as session:
        await publish(session, 1)
        acks = await settled(session, 1)
        await world.remove_stream()
        await publish(session, 2)
        assert (len(acks), type((await ended(session))[1])) == (1, StreamMissing)


async def test_a_full_stream_reports_it_after_the_acks_of_what_it_took(world):
    await world.limit(300_000)
    async with publishing(world) as session:
        for token in range(6):
            await session.publish(token, WEB1, {}, bytes(100_000))
        acks, error = await ended(session)
    assert isinstance(error, StreamFull)
    assert [ack.token for ack in acks] == [0, 1]


async def test_a_busy_stream_reports_it_after_the_acks_of_what_it_took_before(busy_server):
    """The server refuses a message while those before it wait to be stored: its refusal is the first reply."""
    async with publishing(busy_server) as session:
        sent, refused = 0, None
        while refused is None:
            with contextlib.suppress(StreamFull):
                await publish(session, *range(sent, sent + 200))
            acks, refused = await settled_or_ended(session, 200)
            assert [ack.token for ack in acks] == list(range(sent, sent + len(acks)))
            assert acks, "the first message finds an empty queue"
            sent += 200
        assert isinstance(refused, StreamBusy)
        session.start_over()
        await publish(session, 7)
        assert [ack.token for ack in await settled(session, 1)] == [7]


async def test_a_full_stream_takes_again_when_there_is_room_in_another_session(world):
    await world.limit(150_000)
    async with publishing(world) as session:
        for token in range(2):
            await session.publish(token, WEB1, {}, bytes(100_000))
        await ended(session)
    await world.limit(500_000)
    async with publishing(world) as session:
        await session.publish(1, WEB1, {}, bytes(100_000))
        assert [ack.sequence for ack in await settled(session, 1)] == [2]


async def test_a_full_stream_takes_again_when_there_is_room_in_the_same_session(world):
    await world.limit(250_000)
    async with publishing(world) as session:
        for token in range(5):
            await session.publish(token, WEB1, {}, bytes(100_000))
        assert [ack.token for ack in (await ended(session))[0]] == [0, 1]
        await world.limit(500_000)
        session.start_over()
        assert session.acknowledged() == []
        for token in (2, 3):
            await session.publish(token, WEB1, {}, bytes(100_000))
        assert [(ack.token, ack.sequence) for ack in await settled(session, 2)] == [(2, 3), (3, 4)]


async def test_what_a_full_stream_took_after_a_refusal_is_not_acknowledged_when_the_session_starts_over(world):
    await world.limit(250_000)
    async with publishing(world) as session:
        for token, size in enumerate([100_000, 200_000, 10_000, 20_000]):
            await session.publish(token, WEB1, {}, bytes(size))
        assert [ack.token for ack in (await ended(session))[0]] == [0]
        await world.limit(900_000)
        session.start_over()
        for token, size in enumerate([200_000, 10_000, 20_000], start=1):
            await session.publish(token, WEB1, {}, bytes(size))
        assert [(ack.token, ack.sequence) for ack in await settled(session, 3)] == [(1, 4), (2, 5), (3, 6)]


async def test_a_session_that_starts_over_may_be_refused_again(world):
    await world.limit(150_000)
    async with publishing(world) as session:
        await session.publish(1, WEB1, {}, bytes(200_000))
        for _ in range(3):
            assert isinstance((await ended(session))[1], StreamFull)
            session.start_over()
            await session.publish(1, WEB1, {}, bytes(200_000))


async def test_an_error_ack_ends_the_session_after_the_acks_before_it_and_no_ack_follows(world):
    async with publishing(world) as session:
        await publish(session, 1, 2)
        await world.publish_what_is_refused(session, 3)
        with contextlib.suppress(SessionLost):
            await publish(session, 4, 5)
        acks, error = await ended(session)
        assert [ack.token for ack in acks] == [1, 2]
        assert isinstance(error, SessionLost)
        assert "wrong last sequence" in str(error)
        with pytest.raises(SessionLost, match="wrong last sequence"):
            await publish(session, 6)
        with pytest.raises(SessionLost):
            session.acknowledged()


async def test_what_the_server_took_in_a_full_stream_is_the_prefix_that_it_acknowledged(world):
    await world.limit(300_000)
    async with publishing(world) as session:
        for token in range(6):
            await session.publish(token, WEB1, {}, b"%d" % token * 100_000)
        acks, _ = await ended(session)
    async with publishing(world) as session:
        last = await session.last_stored(WEB1)
    assert last.payload[:1] == b"%d" % acks[-1].token


async def test_a_lost_ack_ends_the_session_because_the_next_one_is_out_of_order(world):
    async with publishing(world) as session, world.losing_one_ack():
        await publish(session, 1, 2)
        acks, error = await ended(session)
    assert (acks, type(error)) == ([], SessionLost)
    assert "out of order" in str(error)


async def test_a_sequence_that_goes_back_ends_the_session(world):
    async with publishing(world) as session:
        await publish(session, 1, 2, 3)
        await settled(session, 3)
        await world.recreate_stream()
        await publish(session, 4)
        acks, error = await ended(session)
    assert (acks, type(error)) == ([], SessionLost)
    assert "went back from 3 to 1" in str(error)


# -- many messages in one call --------------------------------------------------------------------------------------


def by_line(count, begin=0):
    """So many lines as messages."""
    places = [b"Log-Span: %d-%d\r\n\r\n" % (number, number + 1) for number in range(begin, begin + count)]
    return LineMessages({"Log-Id": "a"}, places, [b"line %d" % number for number in range(begin, begin + count)])


async def test_lines_are_messages_of_their_own_and_are_acknowledged_together_in_order(world):
    async with publishing(world) as session:
        for token in range(20):
            await session.publish_lines(token, WEB1, by_line(300, token * 300))
            await publish(session, 100 + token)
        acks = await settled(session, 40)
        last = await session.last_stored(WEB1)
    assert [ack.token for ack in acks] == [token for number in range(20) for token in (number, 100 + number)]
    assert [ack.sequence for ack in acks[::2]] == [301 * token + 300 for token in range(20)]
    assert last.sequence == 20 * 301
    async with open_inbox(world) as inbox:
        await inbox.begin(1)
        stored = await taken(inbox, 301)
    assert [(each.headers["Log-Span"], each.payload) for each in stored[:300]] == [
        (f"{number}-{number + 1}", b"line %d" % number) for number in range(300)
    ]


async def test_lines_of_which_one_is_refused_are_not_acknowledged_and_can_be_sent_again(world):
    await world.limit(150_000)
    async with publishing(world) as session:
        await session.publish_lines(1, WEB1, by_line(10))
        long = LineMessages({"Log-Id": "a"}, [b"Log-Map: 0\r\n\r\n"] * 3, [bytes(70_000)] * 3)
        await session.publish_lines(2, WEB1, long)
        acks, error = await ended(session)
        assert ([ack.token for ack in acks], type(error)) == ([1], StreamFull)
        await world.limit(500_000)
        session.start_over()
        await session.publish_lines(2, WEB1, by_line(10))
        assert [ack.token for ack in await settled(session, 1)] == [2]
