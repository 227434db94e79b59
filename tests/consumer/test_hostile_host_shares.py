"""One host that opens holes, files and graves without end takes a bounded share, and hurts its own files only."""

import pytest
from collecting import HOST, Log, PartitionHarness

from consumer.archive.directory import Layout
from consumer.commit import batch as budgets
from consumer.model import Until
from shipper.errors import Poison
from shipper.layout import FileKey

OTHER = Log(b"sound\n", id="00000000000000b2", host="web2.example.net")


def logs(count: int, *, data: bytes = b"one\ntwo\n") -> list[Log]:
    return [Log(data, id=f"{number:016x}", file=f"/var/log/{number}.log") for number in range(count)]


async def test_more_holes_than_a_host_may_have_are_dead_letters_until_others_are_filled(tmp_path, monkeypatch):
    monkeypatch.setattr(budgets, "MAX_HOLES", 3)
    harness, holed = PartitionHarness(tmp_path), logs(5)
    harness.bus.acks.hold()
    for log in holed:
        harness.send(log, 4, 8)
    harness.send(OTHER, 0, 6)
    with pytest.raises(Exception, match="does not answer"):
        await harness.drain()
    assert harness.text(OTHER) == b"sound\n"
    assert [dead.headers["Log-File"] for dead in harness.dead] == ["/var/log/3.log", "/var/log/4.log"]
    assert all("as in 3 other files of its host" in dead.headers["Dlq-Reason"] for dead in harness.dead)
    for log in holed:  # go-back-N: what is missing and what came after it
        harness.send(log, 0, 4, 8)
    await harness.drain(Until.SEALED)
    assert [harness.text(log) for log in holed] == [log.data for log in holed]
    assert not any(segment.gaps for segment in harness.segments())


async def test_holes_of_one_host_leave_room_for_those_of_another(tmp_path, monkeypatch):
    monkeypatch.setattr(budgets, "MAX_HOLES", 3)
    harness = PartitionHarness(tmp_path)
    for log in logs(4):
        harness.send(log, 4, 8)
    behind = Log(b"one\ntwo\n", id="00000000000000b3", host="web2.example.net")
    harness.send(behind, 4, 8)
    harness.send(behind, 0, 4)
    with pytest.raises(Exception, match="does not answer"):
        await harness.drain()
    assert len(harness.dead) == 1
    assert harness.text(behind) == b"one\n"  # its block after the hole is expected again, and is no dead letter


async def test_lines_of_more_files_than_a_host_may_have_open_are_in_its_overflow_once_and_in_order(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(budgets, "MAX_FILES", 3)
    harness, many = PartitionHarness(tmp_path), logs(6)
    for log in many:
        harness.send(log, 0, 4)
    await harness.drain()
    for log in many:
        harness.send(log, 0, 4)  # again
        harness.send(log, 4, 8)
    harness.send(OTHER, 0, 6)
    await harness.drain(Until.SEALED)
    assert [harness.text(log) for log in many] == [b"one\ntwo\n"] * 3 + [b""] * 3
    assert harness.text(host=HOST, file=budgets.OVERFLOW) == b"one\n" * 3 + b"two\n" * 3
    assert harness.text(OTHER) == b"sound\n"
    (overflow,) = [segment for segment in harness.segments() if segment.file == budgets.OVERFLOW]
    assert {(span.source, span.start, span.end) for span in overflow.spans} == {(log.id, 0, 8) for log in many[3:]}
    harness.send(Log(b"late\n", id="00000000000000c1", file="/var/log/late.log"), 0, 5)
    await harness.drain(Until.SEALED)
    assert harness.text(file="/var/log/late.log") == b"late\n"  # what is sealed counts no more


@pytest.mark.parametrize(
    ("template", "host", "file"),
    [
        ("{host}/{file}", "_journal", "/logs.p0.sqlite"),
        ("{host}", "_archive.json", "/x"),
        ("{host}/{file}", "_lock", "/partition=0.lock"),
        ("{host}/{file}", "_manifest", "/x"),
        ("{host}/{file}", "..", "/x"),
        ("{host}/{file}", ".", "/x"),
    ],
)
def test_no_host_can_be_called_so_that_a_template_leads_to_the_collectors_own_files(tmp_path, template, host, file):
    with pytest.raises(Poison):
        Layout(tmp_path, template).path(FileKey("2026-11-20", 0, host, file), 0)


async def test_a_flood_of_poison_is_buried_to_the_last_and_what_follows_is_archived(harness):
    for number in range(1000):
        harness.bus.store(f"logs.p0.{HOST}", {"Log-Id": f"bad {number}"}, b"x")
    harness.send(OTHER, 0, 6)
    await harness.drain()
    assert sorted(int(dead.headers["Dlq-Seq"]) for dead in harness.dead) == list(range(1, 1001))
    assert harness.text(OTHER) == b"sound\n"
