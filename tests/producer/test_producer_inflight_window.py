"""What is in flight: bounded, in order, sent again as a whole."""

import pytest

from producer.fingerprint import Mark
from producer.model import Entry, Piece
from producer.session.delivery import ENTRY_BYTES, MAX_MESSAGES, Window
from shipper.errors import SessionLost
from shipper.model import Span


def entry(number: int, size: int = 10) -> Entry:
    return Entry(Piece("0" * 16, "/f", 0, Span(number, number), b"", 0, Mark()), {}, b"x" * size, 1)


def test_there_is_room_below_the_bytes_and_the_number_and_not_above() -> None:
    window = Window(10_000)
    for number in range(4):
        assert window.has_capacity
        window.open(entry(number, 10_000 // 4 - ENTRY_BYTES), 0.0)
    assert window.bytes == 10_000
    assert not window.has_capacity
    many = Window(1 << 40)
    for number in range(MAX_MESSAGES):
        assert many.has_capacity
        many.open(entry(number), 0.0)
    assert not many.has_capacity


def test_entries_settle_in_the_order_in_which_they_were_opened_and_in_no_other() -> None:
    window = Window(1 << 20)
    tokens = [window.open(entry(number), 0.0) for number in range(3)]
    assert tokens == sorted(tokens)
    assert window.settle(tokens[0]).piece.span.start == 0
    with pytest.raises(SessionLost, match="out of order"):
        window.settle(tokens[2])
    assert window.settle(tokens[1]).piece.span.start == 1
    window.settle(tokens[2])
    assert (len(window), window.bytes) == (0, 0)
    with pytest.raises(SessionLost):
        window.settle(tokens[2])


def test_a_new_session_gets_everything_again_in_order_with_the_same_tokens_and_a_new_time() -> None:
    window = Window(1 << 20)
    tokens = [window.open(entry(number), 1.0) for number in range(3)]
    window.settle(tokens[0])
    assert [token for token, _ in window.again(9.0)] == tokens[1:]
    assert window.oldest_sent_at == 9.0
    assert window.open(entry(3), 9.0) > tokens[-1]


def test_nothing_is_in_flight_when_it_is_cleared_and_tokens_still_grow() -> None:
    window = Window(1 << 20)
    token = window.open(entry(0), 0.0)
    window.clear()
    assert (len(window), window.bytes, window.has_capacity) == (0, 0, True)
    assert window.open(entry(1), 0.0) > token


def test_half_as_much_is_in_flight_after_the_server_was_busy_until_acks_raise_it_again() -> None:
    window, size = Window(8 * 2048), 2048 - ENTRY_BYTES
    tokens = [window.open(entry(number, size), 0.0) for number in range(8)]
    window.halve()
    for token in tokens[:3]:
        window.settle(token)
    assert not window.has_capacity
    for token in tokens[3:]:
        window.settle(token)
    for number in range(200):
        assert window.has_capacity, "one block is always possible"
        window.settle(window.open(entry(number, size), 0.0))
    for number in range(8):
        assert window.has_capacity
        window.open(entry(number, size), 0.0)
    assert not window.has_capacity


def test_a_window_that_is_halved_again_and_again_takes_one_block() -> None:
    window = Window(1 << 20)
    for _ in range(100):
        window.halve()
    assert window.has_capacity
