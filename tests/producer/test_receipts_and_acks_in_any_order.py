"""Receipts that come before the PubAck of their bytes, and receipts without a request."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from producing import Host, append

from producer.model import Archived, Destination, Place
from producer.session.delivery_check import CLAIM_SECONDS, LATE_SECONDS, DeliveryCheck
from shipper.control import Receipt, ReceiptsReply

TEXT = b"one line\n" * 900


class InFlight:
    """A host with two blocks in flight, and the receipts of a collector."""

    def __init__(self, directory: Path) -> None:
        append(directory / "app.log", TEXT)
        self.host = Host(directory, "app.log", block=4096)
        self.pieces = self.host.read_all()
        self.acks = self.host.sources.acks
        self.id = self.pieces[0].source

    def tell(self, watermark: int, crc: int, *, archive: str = "a1") -> None:
        piece = self.pieces[0]
        self.host.sources.ended_files.note_receipts(
            ReceiptsReply(archive, 0, (Receipt(self.id, piece.file, 0, watermark, crc),))
        )

    def hear(self, watermark: int, crc: int, *, archive: str = "a1", source: str = "") -> list[str]:
        """The same as a message without a request."""
        receipt = Receipt(source or self.id, self.pieces[0].file, 0, watermark, crc)
        return self.host.sources.ended_files.note_unsolicited(ReceiptsReply(archive, 0, (receipt,)))

    @property
    def archives(self) -> tuple[Archived, ...]:
        return self.acks.known[self.id].archives


def test_a_receipt_that_overtook_the_acknowledgements_counts_as_they_come(tmp_path: Path) -> None:
    told = InFlight(tmp_path)
    first, second = told.pieces
    told.tell(len(TEXT), second.source_crc)
    assert told.archives == ()
    told.host.acknowledge(1)
    assert told.archives == (Archived("a1", first.span.end),)
    told.host.acknowledge(1)
    assert told.archives == (Archived("a1", len(TEXT)),)
    assert told.acks.unarchived_bytes == 0


def test_a_receipt_that_overtook_and_is_contradicted_by_the_acknowledged_sum_proves_nothing_more(
    tmp_path: Path,
) -> None:
    told = InFlight(tmp_path)
    told.tell(len(TEXT), 1)
    told.host.acknowledge(1)
    told.host.acknowledge(1)
    assert told.archives == (Archived("a1", told.pieces[0].span.end),)


@pytest.mark.parametrize("later", [45, len(TEXT)])
def test_the_newest_receipt_is_the_one_that_waits(tmp_path: Path, later: int) -> None:
    told = InFlight(tmp_path)
    told.tell(len(TEXT), told.pieces[1].source_crc)
    told.tell(later, -1, archive="a2")
    told.host.acknowledge()
    assert told.archives[-1] == Archived("a2", later)


# -- what a producer accepts without a request ----------------------------------------------------------------


def test_an_unsolicited_receipt_counts_where_its_sum_is_that_of_the_acknowledged_bytes(tmp_path: Path) -> None:
    told = InFlight(tmp_path)
    told.host.acknowledge()
    assert told.hear(told.pieces[0].span.end, told.pieces[0].source_crc) == []
    assert told.archives == (Archived("a1", told.pieces[0].span.end),)
    assert told.hear(len(TEXT), told.pieces[1].source_crc) == []
    assert told.acks.unarchived_bytes == 0


@pytest.mark.parametrize(("watermark", "crc"), [(len(TEXT), -1), (45, -1), (45, 0), (45, 123), (10**12, -1)])
def test_an_unsolicited_receipt_that_proves_nothing_changes_nothing_and_the_collector_is_queried(
    tmp_path: Path, watermark: int, crc: int
) -> None:
    told = InFlight(tmp_path)
    told.host.acknowledge()
    before = told.acks.known[told.id]
    assert told.hear(watermark, crc) == [told.id]
    assert told.acks.known[told.id] == before
    assert told.archives == ()
    told.tell(45, -1)  # the answer of the collector to a request counts as before
    assert told.archives == (Archived("a1", 45),)


@pytest.mark.parametrize(("watermark", "crc"), [(len(TEXT), 123), (0, 0)])
def test_an_unsolicited_receipt_with_a_wrong_sum_is_none(tmp_path: Path, watermark: int, crc: int) -> None:
    told = InFlight(tmp_path)
    told.host.acknowledge()
    assert told.hear(watermark, crc) == []
    assert told.archives == ()


def test_an_unsolicited_receipt_that_overtook_the_acknowledgements_counts_once_they_prove_it(tmp_path: Path) -> None:
    told = InFlight(tmp_path)
    assert told.hear(len(TEXT), told.pieces[1].source_crc) == []
    told.host.acknowledge(1)
    assert told.archives == ()
    told.host.acknowledge(1)
    assert told.archives == (Archived("a1", len(TEXT)),)


def test_a_forged_receipt_that_overtook_the_acknowledgements_never_counts(tmp_path: Path) -> None:
    told = InFlight(tmp_path)
    assert told.hear(len(TEXT), 1) == []
    assert told.hear(10**15, 1) == []
    told.host.acknowledge()
    assert told.archives == ()


def test_receipts_of_unknown_sources_are_not_requested(tmp_path: Path) -> None:
    assert InFlight(tmp_path).hear(45, -1, source="0" * 16) == []


class Collector:
    """Answers questions for receipts; the stream has no message of the host any more."""

    def __init__(self, told: InFlight) -> None:
        self.told = told
        self.questions: list[Mapping[str, Any]] = []

    async def last_stored(self, _: str) -> None:
        return None

    async def ask(self, _: str, question: Mapping[str, Any], __: float) -> Mapping[str, Any]:
        self.questions.append(question)
        receipt = {"source": self.told.id, "file": "/a", "origin": 0, "watermark": len(TEXT), "crc": -1}
        return {"v": 1, "archive": "a1", "through": 2, "receipts": [receipt]}


async def test_the_collector_is_queried_soon_and_once_for_what_unsolicited_receipts_do_not_prove(
    tmp_path: Path,
) -> None:
    now = [1000.0]
    told = InFlight(tmp_path)
    told.host.acknowledge()
    collector = Collector(told)
    resends: list[tuple[str, int]] = []
    delivery: Any = SimpleNamespace(tailer=SimpleNamespace(acks=told.acks), resend=lambda *what: resends.append(what))
    destination = Destination("logs", "h", Place(partition=0))
    arrival = DeliveryCheck(destination, delivery, rouse=lambda: None, clock=lambda: now[0])
    arrival.acknowledged([SimpleNamespace(piece=SimpleNamespace(source=told.id))])
    for _ in range(100):
        arrival.unproven(told.hear(45, -1))
    assert CLAIM_SECONDS < LATE_SECONDS / 2
    assert arrival.next_at() == now[0] + CLAIM_SECONDS
    now[0] += CLAIM_SECONDS
    await arrival.run(collector)  # type: ignore[arg-type]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await arrival.run(collector)  # type: ignore[arg-type]
    assert resends == []
    assert [question["sources"] for question in collector.questions] == [[told.id]]
    assert told.archives == (Archived("a1", len(TEXT)),)
