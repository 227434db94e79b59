"""A value that is built anew for every block keeps what the block does not change, fields of tomorrow too."""

from dataclasses import fields

from consumer.commit.batch_files import FileDraft
from consumer.model import ArchivedSource, OpenFile
from shipper.layout import FileKey


def test_a_draft_to_which_nothing_was_appended_is_the_committed_file() -> None:
    given = {field.name: number for number, field in enumerate(fields(OpenFile), start=2)}
    file = OpenFile(**given | {"key": FileKey("2026-11-20", 1, "web1", "/a")})  # type: ignore[arg-type]
    assert FileDraft(file).file() == file


def test_a_source_keeps_everything_but_what_a_block_replaces() -> None:
    told = {"watermark": 101, "crc": 102, "proven": False, "ended": True, "seen_ns": 103}
    given = {field.name: number for number, field in enumerate(fields(ArchivedSource), start=2)}
    known = ArchivedSource(**given)  # type: ignore[arg-type]
    assert known.grown(**told) == ArchivedSource(**given | told)  # type: ignore[arg-type]
