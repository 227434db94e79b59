"""A value that is built anew for every block keeps what the block does not change, fields of tomorrow too."""

from dataclasses import fields

from consumer.commit.batch import GrowingFile
from consumer.commit.watermark import grow
from consumer.model import ArchivedSource, OpenFile
from shipper.layout import FileKey
from shipper.model import Block, Edited, Encoding, End, Span


def test_a_growing_file_to_which_nothing_was_appended_is_the_committed_file():
    given = {field.name: number for number, field in enumerate(fields(OpenFile), start=2)}
    file = OpenFile(**given | {"key": FileKey("2026-11-20", 1, "web1", "/a")})  # type: ignore[arg-type]
    assert GrowingFile(file).grown() == file


def test_a_source_keeps_everything_but_what_a_block_replaces():
    given = {field.name: number for number, field in enumerate(fields(ArchivedSource), start=2)}
    known = ArchivedSource(**given)  # type: ignore[arg-type]
    block = Block(
        source="a", file="/a", span=Span(known.watermark, 101), origin=0, lines=1, block_crc=0, source_crc=102,
        encoding=Encoding.IDENTITY, read_at="", end=End.DELETED, edited=Edited(1, 0),
    )  # fmt: skip
    replaced = {"watermark": 101, "crc": 102, "ended": True, "seen_ns": 103}
    assert grow(block, known, [], b"x", 103).source == ArchivedSource(**given | replaced)  # type: ignore[arg-type]
