"""What one host may spend in a day: above it the host has the damage, the others have none, and nothing is silent."""

from pathlib import Path

import pytest
from auditing import Audited
from collecting import HOST, Desk, Log
from prometheus_client import REGISTRY

from consumer.commit import applier
from consumer.options import Until
from shipper.model import End

OTHER = "web2.example.net"
TEXT = b"one\ntwo\n"
DAY_SECONDS = 86400.0


def log(number: int, *, host: str = HOST) -> Log:
    return Log(TEXT, id=f"{number:016x}", file=f"/var/log/{number}.log", host=host)


def say_poison(desk: Desk, *, host: str = HOST, octets: int = 1) -> None:
    desk.bus.store(f"logs.p0.{host}", {"Log-Id": "no id"}, b"x" * octets)


def lose(desk: Desk, number: int, octets: int, *, host: str = HOST) -> None:
    desk.send(log(number, host=host), 0, len(TEXT), last=End.DELETED, gap=octets)


def far(desk: Desk, number: int, start: int, *, host: str = HOST) -> None:
    """A block that begins so far behind what the archive has of its source."""
    subject, headers, payload = log(number, host=host).message(0, len(TEXT))
    span = {"Log-Span": f"{start}-{start + len(TEXT)}"}
    desk.bus.store(subject, headers | span, payload)


def over_budget(budget: str) -> float:
    labels = {"partition": "0", "budget": budget}
    return REGISTRY.get_sample_value("fshipper_over_budget_messages_total", labels) or 0.0


async def drained(desk: Desk) -> dict[str, int]:
    """A collector that reads the stream to its end; what its status says of budgets."""
    with desk.worker() as worker:
        await worker.run()
        told: dict[str, int] = worker.status()["over_budget"]
        return told


# -- dead letters -----------------------------------------------------------------------------------------------------


async def test_of_too_many_dead_letters_in_a_day_the_beginnings_are_kept_also_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applier, "FULL_BYTES", 4500)
    desk = Desk(tmp_path)
    for _ in range(3):
        say_poison(desk, octets=2000)
    say_poison(desk, host=OTHER, octets=2000)
    await desk.drain()
    say_poison(desk, octets=2000)
    await desk.drain()
    desk.clock.turn(DAY_SECONDS)
    say_poison(desk, octets=2000)
    await desk.drain()
    letters = list(desk.dead)
    assert [len(each.payload) for each in letters] == [2000, 2000, 1024, 2000, 1024, 2000]
    assert [each.headers.get("Dlq-Cut") for each in letters] == [None, None, "2000", None, "2000", None]
    assert all(each.headers["Dlq-Reason"] for each in letters)


async def test_the_headers_of_a_dead_letter_that_is_cut_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applier, "FULL_BYTES", 1000)
    desk = Desk(tmp_path)
    desk.bus.store(f"logs.p0.{HOST}", {"Log-Id": "no id", "X-Flood": "y" * 20_000}, b"x")
    await desk.drain()
    (letter,) = desk.dead
    assert "X-Flood" not in letter.headers
    assert letter.headers["Log-Id"] == "no id"


async def test_dead_letters_above_the_number_of_a_day_are_counted_and_the_audit_notes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applier, "MAX_LETTERS", 3)
    desk, before = Audited(tmp_path), over_budget("dead_letters")
    for _ in range(5):
        say_poison(desk)
    say_poison(desk, host=OTHER)
    desk.send(log(1, host=OTHER), 0, 8)
    assert await drained(desk) == {"dead_letters": 2}
    say_poison(desk)
    assert await drained(desk) == {"dead_letters": 1}
    assert [each.headers["Dlq-Subject"] for each in desk.dead] == [f"logs.p0.{HOST}"] * 3 + [f"logs.p0.{OTHER}"]
    assert over_budget("dead_letters") - before == 3
    assert desk.text(log(1, host=OTHER)) == TEXT
    said = desk.audit()
    (note,) = [each for each in said.found["findings"] if each["kind"] == "dropped_letters"]
    assert (note["host"], note["weight"]) == (HOST, "note")
    assert note["text"].startswith("3 messages")
    desk.clock.turn(DAY_SECONDS)
    say_poison(desk)
    await desk.drain()
    assert len(list(desk.dead)) == 5


async def test_what_was_dropped_is_remembered_for_a_month_and_other_budgets_for_two_days(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applier, "MAX_LETTERS", 1)
    desk, first = Desk(tmp_path), "2026-11-20"
    for _ in range(2):
        say_poison(desk)
    await desk.drain()
    for days, remembered in ((2, [(first, HOST, 1)]), (29, [(first, HOST, 1)]), (2, [])):
        desk.clock.turn(days * DAY_SECONDS)
        desk.say(b"a line")
        await desk.drain()
        with desk.journal() as journal:
            journal.mark()
            assert journal.dropped_letters() == remembered
            assert journal.spent(applier.Account(first, HOST, applier.Budget.LETTERS)) == 0


# -- bytes that are said to be lost -----------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [(1 << 44) + 1, 1 << 52, (1 << 53) - 9, (1 << 60), (1 << 63) - 9])
async def test_a_hole_that_no_file_can_have_is_a_dead_letter_and_the_archive_lacks_nothing(
    tmp_path: Path, start: int
) -> None:
    desk = Audited(tmp_path)
    far(desk, 1, start)
    desk.send(log(2), 0, 8)
    await desk.drain(Until.SEALED)  # it waits for no bytes
    assert len(list(desk.dead)) == 1
    assert desk.text(log(2)) == TEXT
    assert desk.audit().code == 0


async def test_all_that_a_host_reports_as_lost_in_a_day_is_bounded_also_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applier, "MAX_LOST", 100)
    desk, before = Desk(tmp_path), over_budget("lost_bytes")
    lose(desk, 1, 60)
    lose(desk, 2, 60)
    lose(desk, 3, 60, host=OTHER)
    assert await drained(desk) == {"lost_bytes": 1}
    lose(desk, 4, 41)
    lose(desk, 5, 40)
    await desk.drain()
    desk.clock.turn(DAY_SECONDS)
    lose(desk, 6, 60)
    await desk.drain(Until.SEALED)
    lost = [(each.host, gap.end - gap.start) for each in desk.segments() for gap in each.gaps]
    assert sorted(lost) == [(HOST, 40), (HOST, 60), (HOST, 60), (OTHER, 60)]
    assert len(list(desk.dead)) == 2
    assert over_budget("lost_bytes") - before == 2


async def test_the_missing_bytes_of_all_open_holes_of_a_host_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applier, "MAX_LOST", 100)
    desk = Desk(tmp_path)
    for number in range(1, 5):
        far(desk, number, 40)
    far(desk, 9, 40, host=OTHER)
    with pytest.raises(Exception, match="does not answer"):
        await desk.drain()
    assert [each.headers["Log-File"] for each in desk.dead] == ["/var/log/3.log", "/var/log/4.log"]


# -- sources and files ------------------------------------------------------------------------------------------------


async def test_blocks_of_more_sources_than_a_host_may_begin_in_a_day_are_dead_letters_and_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applier, "MAX_NEW_SOURCES", 3)
    desk, before = Desk(tmp_path), over_budget("sources")
    for number in range(1, 6):
        desk.send(log(number), 0, 4)
    desk.send(log(9, host=OTHER), 0, 8)
    assert await drained(desk) == {"sources": 2}
    for number in range(1, 4):
        desk.send(log(number), 4, 8)  # those that it has go on
    desk.send(log(6), 0, 8)
    assert await drained(desk) == {"sources": 1}
    assert [desk.text(log(number)) for number in range(1, 7)] == [TEXT] * 3 + [b""] * 3
    assert desk.text(log(9, host=OTHER)) == TEXT
    assert over_budget("sources") - before == 3
    assert all("has begun 3 other sources" in each.headers["Dlq-Reason"] for each in desk.dead)
    desk.send(log(6), 4, 8)
    await desk.drain()  # it waits for no bytes: the stream can be purged
    desk.clock.turn(DAY_SECONDS)
    desk.send(log(4), 0, 8)  # its producer sends from the hole on
    await desk.drain()
    assert desk.text(log(4)) == TEXT


async def test_lines_of_more_files_than_a_host_may_begin_in_a_day_are_in_its_overflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applier, "MAX_NEW_FILES", 3)
    desk = Desk(tmp_path)
    for number in range(1, 6):
        desk.send(log(number), 0, 8)
        await desk.drain(Until.SEALED)  # so none of them is open when the next one comes
    desk.send(log(9, host=OTHER), 0, 8)
    await desk.drain(Until.SEALED)
    assert [desk.text(log(number)) for number in range(1, 6)] == [TEXT] * 3 + [b""] * 2
    assert desk.text(file=applier.OVERFLOW) == TEXT * 2
    assert desk.text(log(9, host=OTHER)) == TEXT
    desk.clock.turn(DAY_SECONDS)
    desk.send(log(7), 0, 8)
    await desk.drain(Until.SEALED)
    assert desk.text(log(7)) == TEXT
