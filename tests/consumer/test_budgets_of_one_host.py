"""What one host may spend in a day: above it the host has the damage, the others have none, and nothing is silent."""

import pytest
from auditing import Audited
from collecting import HOST, Log, PartitionHarness
from prometheus_client import REGISTRY

from consumer.commit import batch as budgets
from consumer.model import Account, Budget, Until
from shipper.model import End

OTHER = "web2.example.net"
TEXT = b"one\ntwo\n"
DAY_SECONDS = 86400.0


def log(number: int, *, host: str = HOST) -> Log:
    return Log(TEXT, id=f"{number:016x}", file=f"/var/log/{number}.log", host=host)


def say_poison(harness: PartitionHarness, *, host: str = HOST, octets: int = 1) -> None:
    harness.bus.store(f"logs.p0.{host}", {"Log-Id": "no id"}, b"x" * octets)


def lose(harness: PartitionHarness, number: int, octets: int, *, host: str = HOST) -> None:
    harness.send(log(number, host=host), 0, len(TEXT), last=End.DELETED, gap=octets)


def far(harness: PartitionHarness, number: int, start: int, *, host: str = HOST) -> None:
    """A block that begins so far after the archived bytes of its source."""
    subject, headers, payload = log(number, host=host).message(0, len(TEXT))
    span = {"Log-Span": f"{start}-{start + len(TEXT)}"}
    harness.bus.store(subject, headers | span, payload)


def over_budget(budget: str) -> float:
    labels = {"partition": "0", "budget": budget}
    return REGISTRY.get_sample_value("fshipper_over_budget_messages_total", labels) or 0.0


async def drained(harness: PartitionHarness) -> dict[str, int]:
    """A collector that reads the stream to its end; the budgets in its status."""
    with harness.worker() as worker:
        await worker.run()
        told: dict[str, int] = worker.status()["over_budget"]
        return told


# -- dead letters -----------------------------------------------------------------------------------------------------


async def test_of_too_many_dead_letters_in_a_day_the_beginnings_are_kept_also_after_a_restart(tmp_path, monkeypatch):
    monkeypatch.setattr(budgets, "FULL_BYTES", 4500)
    harness = PartitionHarness(tmp_path)
    for _ in range(3):
        say_poison(harness, octets=2000)
    say_poison(harness, host=OTHER, octets=2000)
    await harness.drain()
    say_poison(harness, octets=2000)
    await harness.drain()
    harness.clock.turn(DAY_SECONDS)
    say_poison(harness, octets=2000)
    await harness.drain()
    letters = list(harness.dead)
    assert [len(each.payload) for each in letters] == [2000, 2000, 1024, 2000, 1024, 2000]
    assert [each.headers.get("Dlq-Cut") for each in letters] == [None, None, "2000", None, "2000", None]
    assert all(each.headers["Dlq-Reason"] for each in letters)


async def test_the_headers_of_a_dead_letter_that_is_cut_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(budgets, "FULL_BYTES", 1000)
    harness = PartitionHarness(tmp_path)
    harness.bus.store(f"logs.p0.{HOST}", {"Log-Id": "no id", "X-Flood": "y" * 20_000}, b"x")
    await harness.drain()
    (letter,) = harness.dead
    assert "X-Flood" not in letter.headers
    assert letter.headers["Log-Id"] == "no id"


async def test_dead_letters_above_the_number_of_a_day_are_counted_and_the_audit_notes_them(tmp_path, monkeypatch):
    monkeypatch.setattr(budgets, "MAX_LETTERS", 3)
    harness, before = Audited(tmp_path), over_budget("dead_letters")
    for _ in range(5):
        say_poison(harness)
    say_poison(harness, host=OTHER)
    harness.send(log(1, host=OTHER), 0, 8)
    assert await drained(harness) == {"dead_letters": 2}
    say_poison(harness)
    assert await drained(harness) == {"dead_letters": 1}
    assert [each.headers["Dlq-Subject"] for each in harness.dead] == [f"logs.p0.{HOST}"] * 3 + [f"logs.p0.{OTHER}"]
    assert over_budget("dead_letters") - before == 3
    assert harness.text(log(1, host=OTHER)) == TEXT
    said = harness.audit()
    (note,) = [each for each in said.found["findings"] if each["kind"] == "dropped_letters"]
    assert (note["host"], note["weight"]) == (HOST, "note")
    assert note["text"].startswith("3 messages")
    harness.clock.turn(DAY_SECONDS)
    say_poison(harness)
    await harness.drain()
    assert len(list(harness.dead)) == 5


async def test_what_was_dropped_is_remembered_for_a_month_and_other_budgets_for_two_days(tmp_path, monkeypatch):
    monkeypatch.setattr(budgets, "MAX_LETTERS", 1)
    harness, first = PartitionHarness(tmp_path), "2026-11-20"
    for _ in range(2):
        say_poison(harness)
    await harness.drain()
    for days, remembered in ((2, [(first, HOST, 1)]), (29, [(first, HOST, 1)]), (2, [])):
        harness.clock.turn(days * DAY_SECONDS)
        harness.say(b"a line")
        await harness.drain()
        with harness.journal() as journal:
            journal.mark()
            assert journal.dropped_letters() == remembered
            assert journal.spent(Account(first, HOST, Budget.LETTERS)) == 0


# -- bytes that are reported as lost ----------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [(1 << 44) + 1, 1 << 52, (1 << 53) - 9, (1 << 60), (1 << 63) - 9])
async def test_a_hole_that_no_file_can_have_is_a_dead_letter_and_the_archive_lacks_nothing(tmp_path, start):
    harness = Audited(tmp_path)
    far(harness, 1, start)
    harness.send(log(2), 0, 8)
    await harness.drain(Until.SEALED)  # it waits for no bytes
    assert len(list(harness.dead)) == 1
    assert harness.text(log(2)) == TEXT
    assert harness.audit().code == 0


async def test_all_that_a_host_reports_as_lost_in_a_day_is_bounded_also_after_a_restart(tmp_path, monkeypatch):
    monkeypatch.setattr(budgets, "MAX_LOST", 100)
    harness, before = PartitionHarness(tmp_path), over_budget("lost_bytes")
    lose(harness, 1, 60)
    lose(harness, 2, 60)
    lose(harness, 3, 60, host=OTHER)
    assert await drained(harness) == {"lost_bytes": 1}
    lose(harness, 4, 41)
    lose(harness, 5, 40)
    await harness.drain()
    harness.clock.turn(DAY_SECONDS)
    lose(harness, 6, 60)
    await harness.drain(Until.SEALED)
    lost = [(each.host, gap.end - gap.start) for each in harness.segments() for gap in each.gaps]
    assert sorted(lost) == [(HOST, 40), (HOST, 60), (HOST, 60), (OTHER, 60)]
    assert len(list(harness.dead)) == 2
    assert over_budget("lost_bytes") - before == 2


async def test_the_missing_bytes_of_all_open_holes_of_a_host_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(budgets, "MAX_LOST", 100)
    harness = PartitionHarness(tmp_path)
    for number in range(1, 5):
        far(harness, number, 40)
    far(harness, 9, 40, host=OTHER)
    with pytest.raises(Exception, match="does not answer"):
        await harness.drain()
    assert [each.headers["Log-File"] for each in harness.dead] == ["/var/log/3.log", "/var/log/4.log"]


# -- sources and files ------------------------------------------------------------------------------------------------


async def test_blocks_of_more_sources_than_a_host_may_begin_in_a_day_are_dead_letters_and_others_continue(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(budgets, "MAX_NEW_SOURCES", 3)
    harness, before = PartitionHarness(tmp_path), over_budget("sources")
    for number in range(1, 6):
        harness.send(log(number), 0, 4)
    harness.send(log(9, host=OTHER), 0, 8)
    assert await drained(harness) == {"sources": 2}
    for number in range(1, 4):
        harness.send(log(number), 4, 8)  # those that it has go on
    harness.send(log(6), 0, 8)
    assert await drained(harness) == {"sources": 1}
    assert [harness.text(log(number)) for number in range(1, 7)] == [TEXT] * 3 + [b""] * 3
    assert harness.text(log(9, host=OTHER)) == TEXT
    assert over_budget("sources") - before == 3
    assert all("has begun 3 other sources" in each.headers["Dlq-Reason"] for each in harness.dead)
    harness.send(log(6), 4, 8)
    await harness.drain()  # it waits for no bytes: the stream can be purged
    harness.clock.turn(DAY_SECONDS)
    harness.send(log(4), 0, 8)  # its producer sends from the hole on
    await harness.drain()
    assert harness.text(log(4)) == TEXT


async def test_lines_of_more_files_than_a_host_may_begin_in_a_day_are_in_its_overflow(tmp_path, monkeypatch):
    monkeypatch.setattr(budgets, "MAX_NEW_FILES", 3)
    harness = PartitionHarness(tmp_path)
    for number in range(1, 6):
        harness.send(log(number), 0, 8)
        await harness.drain(Until.SEALED)  # so none of them is open when the next one comes
    harness.send(log(9, host=OTHER), 0, 8)
    await harness.drain(Until.SEALED)
    assert [harness.text(log(number)) for number in range(1, 6)] == [TEXT] * 3 + [b""] * 2
    assert harness.text(file=budgets.OVERFLOW) == TEXT * 2
    assert harness.text(log(9, host=OTHER)) == TEXT
    harness.clock.turn(DAY_SECONDS)
    harness.send(log(7), 0, 8)
    await harness.drain(Until.SEALED)
    assert harness.text(log(7)) == TEXT


# -- text -------------------------------------------------------------------------------------------------------------


async def test_text_above_the_budget_of_a_day_is_archived_and_counted_also_after_a_restart(tmp_path):
    harness = PartitionHarness(tmp_path, host_text_bytes=3 * len(TEXT))
    before = over_budget("text_bytes")
    for number in range(4):
        harness.send(log(number), 0, len(TEXT))
    harness.send(log(4, host=OTHER), 0, len(TEXT))
    assert await drained(harness) == {"text_bytes": 1}
    harness.send(log(5), 0, len(TEXT))
    assert await drained(harness) == {"text_bytes": 1}
    harness.clock.turn(DAY_SECONDS)
    harness.send(log(6), 0, len(TEXT))
    assert await drained(harness) == {}
    assert over_budget("text_bytes") == before + 2
    assert not harness.dead
    assert all(harness.text(log(number)) == TEXT for number in (0, 1, 2, 3, 5))
