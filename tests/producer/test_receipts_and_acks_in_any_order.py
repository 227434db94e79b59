"""Receipts that come before the PubAck of their bytes: a collector says each only once."""

from pathlib import Path

import pytest
from producing import Host, append

from producer.following.source import Archived
from producer.receipts import Receipt, Told

TEXT = b"one line\n" * 900


class InFlight:
    """A host with two blocks in flight, and what a collector says of them."""

    def __init__(self, directory: Path) -> None:
        append(directory / "app.log", TEXT)
        self.host = Host(directory, "app.log", block=4096)
        self.pieces = self.host.read_all()
        self.ledger = self.host.sources.ledger
        self.id = self.pieces[0].source

    def tell(self, watermark: int, crc: int, *, archive: str = "a1") -> None:
        piece = self.pieces[0]
        self.host.sources.told(Told(archive, 0, (Receipt(self.id, piece.file, 0, watermark, crc),)))

    @property
    def archives(self) -> tuple[Archived, ...]:
        return self.ledger.known[self.id].archives


def test_a_receipt_that_overtook_the_acknowledgements_counts_as_they_come(tmp_path: Path) -> None:
    told = InFlight(tmp_path)
    first, second = told.pieces
    told.tell(len(TEXT), second.source_crc)
    assert told.archives == ()
    told.host.acknowledge(1)
    assert told.archives == (Archived("a1", first.span.end),)
    told.host.acknowledge(1)
    assert told.archives == (Archived("a1", len(TEXT)),)
    assert told.ledger.unarchived_bytes == 0


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
