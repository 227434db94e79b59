"""What a test can do to the streams in memory; that they keep the ports' promises is held by the contract tests."""

import asyncio

import pytest

from shipper.errors import SessionLost, StreamFull, StreamMissing, Unavailable
from shipper.testing import Bus, Clock, MemoryInbox, MemoryPublisher
from shipper.testing.server import matches

WEB1 = "logs.p0.web1"


@pytest.fixture
def bus():
    return Bus()


@pytest.fixture
def stream(bus):
    return bus.add_stream("LOGS_0", "logs.p0.>")


@pytest.fixture
def publisher(bus, stream):
    return MemoryPublisher(bus, "LOGS_0")


@pytest.fixture
def inbox(bus, stream):
    return MemoryInbox(bus, "LOGS_0")


async def publish(publisher, *tokens):
    for token in tokens:
        await publisher.publish(token, WEB1, {}, b"%d" % token)
    await a_turn()


async def a_turn():
    """Let the event loop deliver what is due."""
    for _ in range(3):
        await asyncio.sleep(0)


def tokens(publisher):
    return [ack.token for ack in publisher.acknowledged()]


async def test_held_acks_come_in_their_order_when_they_are_released(bus, stream, publisher):
    bus.acks.hold()
    await publish(publisher, 1, 2, 3)
    assert (tokens(publisher), len(stream)) == ([], 3)
    bus.acks.release()
    await a_turn()
    assert tokens(publisher) == [1, 2, 3]
    await publish(publisher, 4)
    assert tokens(publisher) == [4]


async def test_a_dropped_ack_is_of_a_stored_message_and_the_next_ack_ends_the_session(bus, stream, publisher):
    bus.acks.drop(2)
    await publish(publisher, 1, 2)
    assert (tokens(publisher), len(stream)) == ([], 2)
    await publish(publisher, 3)
    with pytest.raises(SessionLost, match="out of order"):
        publisher.acknowledged()


async def test_the_nth_publish_from_now_on_is_refused_and_not_stored(bus, stream, publisher):
    await publish(publisher, 1)
    bus.acks.refuse(2, StreamFull("for a test"))
    await publish(publisher, 2, 3)
    assert tokens(publisher) == [1, 2]
    with pytest.raises(StreamFull, match="for a test"):
        publisher.acknowledged()
    assert [message.payload for message in stream] == [b"1", b"2"]


async def test_forgotten_messages_give_their_sequences_to_others(bus, stream, publisher):
    await publish(publisher, 1, 2, 3)
    bus.end_sessions()
    stream.forget_last(2)
    assert (stream.state.last_sequence, len(stream)) == (1, 1)
    again = MemoryPublisher(bus, "LOGS_0")
    assert (await again.last_stored(WEB1)).sequence == 1
    await publish(again, 4)
    assert [ack.sequence for ack in again.acknowledged()] == [2]


async def test_a_stream_can_forget_everything(stream, publisher):
    await publish(publisher, 1, 2)
    stream.forget_last(9)
    assert (stream.last_sequence, len(stream)) == (0, 0)


async def test_a_recreated_stream_is_empty_of_another_birth_and_counts_from_1(bus, stream, publisher, inbox):
    await publish(publisher, 1, 2)
    await inbox.begin(1)
    before = stream.state.created
    stream.recreate()
    assert stream.state[:3] == (1, 0, 0)
    assert stream.state.created != before
    with pytest.raises(SessionLost, match="Consumer Deleted"):
        await inbox.take(100, 1.0)
    assert bus.store(WEB1, {}, b"x") == 1


async def test_a_deleted_message_leaves_a_place_without_message(stream, publisher, inbox):
    await publish(publisher, 1, 2, 3)
    stream.delete(2)
    await inbox.begin(1)
    found = await inbox.take(100, 1.0)
    assert [(each.sequence, each.pending) for each in found] == [(1, 1), (3, 0)]
    assert stream.state[:3] == (1, 3, 2)


async def test_while_the_server_is_down_no_session_begins(bus, stream, publisher):
    bus.go_down()
    with pytest.raises(SessionLost):
        await publish(publisher, 1)
    with pytest.raises(Unavailable):
        MemoryInbox(bus, "LOGS_0")
    bus.come_up()
    assert (await MemoryInbox(bus, "LOGS_0").state()).messages == 0


async def test_ended_sessions_may_be_followed_by_others_immediately(bus, stream, publisher):
    bus.end_sessions("for a test")
    with pytest.raises(SessionLost, match="for a test"):
        publisher.acknowledged()
    await publish(MemoryPublisher(bus, "LOGS_0"), 1)
    assert len(stream) == 1


async def test_a_removed_stream_is_missing_for_everybody(bus, stream, publisher, inbox):
    bus.remove_stream("LOGS_0")
    for call in (inbox.state(), inbox.begin(1), publisher.last_stored(WEB1)):
        with pytest.raises(StreamMissing):
            await call


async def test_messages_are_stamped_by_the_clock_that_a_test_turns():
    clock = Clock()
    bus = Bus(clock)
    stream = bus.add_stream("LOGS_0", "logs.p0.>")
    bus.store(WEB1, {}, b"1")
    clock.turn(3600)
    bus.store(WEB1, {}, b"2")
    first, second = stream
    assert second.time_ns - first.time_ns == 3600 * 10**9 + 1
    assert clock() * 1e9 == pytest.approx(second.time_ns)


async def test_a_message_id_is_remembered_for_two_minutes():
    clock = Clock()
    bus = Bus(clock)
    bus.add_stream("DLQ", "dlq.>")
    assert [bus.store("dlq.x", {"Nats-Msg-Id": "a"}, b"") for _ in range(2)] == [1, 1]
    clock.turn(121)
    assert bus.store("dlq.x", {"Nats-Msg-Id": "a"}, b"") == 2


async def test_a_listener_that_fails_ends_its_own_session_and_the_client_continues(bus, publisher, inbox):
    async def stumble(_subject, _message):
        raise ValueError("stumbled")

    await publisher.listen("ctl.down.web1", stumble)
    assert await inbox.ask("ctl.down.web1", {}, 1.0) is None
    with pytest.raises(SessionLost, match="stumbled"):
        publisher.acknowledged()
    assert (await inbox.state()).messages == 0


async def test_control_messages_are_copies_as_json_makes_them(publisher, inbox):
    heard = []

    async def answer(_subject, message):
        heard.append(message)
        return {"pair": (1, 2)}

    asked = {"spans": [(0, 10)]}
    await publisher.listen("ctl.>", answer)
    assert await inbox.ask("ctl.down.web1", asked, 1.0) == {"pair": [1, 2]}
    assert heard == [{"spans": [[0, 10]]}]
    with pytest.raises(TypeError):
        await inbox.tell("ctl.down.web1", {"bytes": b""})


async def test_a_closed_session_receives_no_message(publisher, inbox):
    async def answer(_subject, _message):
        return {}

    await publisher.listen("ctl.>", answer)
    await publisher.close()
    assert await inbox.ask("ctl.down.web1", {}, 1.0) is None


@pytest.mark.parametrize(
    ("pattern", "subject", "does"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.b.c", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*.c", "a.b.c", True),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        (">", "a", True),
        ("a.b", "a.x", False),
    ],
)
def test_subjects_match_patterns_as_in_nats(pattern, subject, does):
    assert matches(pattern, subject) is does
