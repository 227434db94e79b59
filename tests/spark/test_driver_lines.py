"""The lines of a small day as the driver reads them, and the days that Spark has to read."""

import dataclasses
import random

import pyarrow as pa
import pytest
from day_archives import compressed

from spark_analytics.runtime import tuning
from spark_analytics.scan import driver_lines

OF_SEGMENT = ("file:/x", 3, 1, True, 2, 4, 19)
MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
def test_lines_are_split_at_newlines_only_and_keep_their_bytes(archive, codec):
    first = archive.seal(MARK + b"a\r\n\n\x00\xff\xfe\xc3\xa9\rb\x0b\n" + MARK + b"unended", codec=codec)
    second = archive.seal(b"\n", codec=codec)

    found = driver_lines.read_lines(archive.root, [(first, OF_SEGMENT), (second, ("file:/y", 4, 0, False, 0, 0, 0))])

    values = found["value"].cast(pa.binary()).to_pylist()
    assert values == [b"a\r", b"", b"\x00\xff\xfe\xc3\xa9\rb\x0b", MARK + b"unended", b""]
    assert found["row"].to_pylist() == [0, 1, 2, 3, 0]
    assert found["segment"].to_pylist() == [3, 3, 3, 3, 4]
    assert found["deferred"].to_pylist() == [True] * 4 + [False]
    assert found["stamp_characters"].to_pylist() == [19] * 4 + [0]
    assert not any(field.nullable for field in found.schema)


def cut(stored: bytes) -> bytes:
    return stored[:-10]


def with_a_flipped_checksum(stored: bytes) -> bytes:
    return stored[:-5] + bytes([stored[-5] ^ 1]) + stored[-4:]


def with_more(stored: bytes) -> bytes:
    return stored + b"more"


@pytest.mark.parametrize(
    ("codec", "damaged"),
    [("gzip", cut), ("zstd", cut), ("none", cut), ("gzip", with_a_flipped_checksum), ("none", with_more)],
)
def test_a_segment_that_is_not_as_its_manifest_line_is_left_to_spark(archive, codec, damaged):
    segment = archive.seal(random.Random(1).randbytes(900) + b"\n", codec=codec)
    path = archive.root / segment.path
    assert driver_lines.read_lines(archive.root, [(segment, OF_SEGMENT)]) is not None

    path.write_bytes(damaged(path.read_bytes()))

    assert driver_lines.read_lines(archive.root, [(segment, OF_SEGMENT)]) is None


def test_other_numbers_in_the_manifest_and_missing_files_are_left_to_spark(archive):
    segment = archive.seal(b"x\n" * 9)
    longer = dataclasses.replace(segment, bytes_raw=19)
    shorter = dataclasses.replace(segment, bytes_raw=17)
    (archive.root / (missing := archive.seal(b"y\n")).path).unlink()

    for one in (longer, shorter, missing):
        assert driver_lines.read_lines(archive.root, [(segment, OF_SEGMENT), (one, OF_SEGMENT)]) is None


def test_days_that_are_not_small_and_days_without_lines_are_left_to_spark(archive, monkeypatch):
    segment, empty = archive.seal(b"x\n" * 9), archive.seal(b"")
    assert driver_lines.read_lines(archive.root, [(empty, OF_SEGMENT)]) is None
    assert driver_lines.read_lines(archive.root, [(empty, OF_SEGMENT), (segment, OF_SEGMENT)]).num_rows == 9

    monkeypatch.setattr(driver_lines, "MAX_LINES", 8)
    assert driver_lines.read_lines(archive.root, [(segment, OF_SEGMENT)]) is None
    monkeypatch.undo()
    monkeypatch.setattr(tuning, "SMALL_BYTES", 17)
    assert driver_lines.read_lines(archive.root, [(segment, OF_SEGMENT)]) is None


def test_a_zstd_frame_of_nothing_that_is_cut_off_is_left_to_spark(archive):
    segment = archive.seal(b"x\n" * 9)
    path = archive.root / segment.path
    path.write_bytes(path.read_bytes() + compressed(b"", "zstd")[:3])

    assert driver_lines.read_lines(archive.root, [(segment, OF_SEGMENT)]) is None
