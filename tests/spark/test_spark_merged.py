"""Merged segments and frames as they came: many frames in a file, and parts that count no more."""

import zstandard

from spark_analytics.archive import inventory

LINES = b"".join(b"%d a line of a log\n" % number for number in range(1000))


def frames(text):
    """Many frames: with and without sums and sizes, cut within lines, an empty one at the end."""
    whole = zstandard.ZstdCompressor(level=1, write_checksum=False)
    unsized = zstandard.ZstdCompressor(level=3, write_checksum=True, write_content_size=False)
    cut = [text[start : start + 777] for start in range(0, len(text), 777)]
    return b"".join((whole if number % 2 else unsized).compress(part) for number, part in enumerate([*cut, b""]))


def test_a_merged_segment_of_many_frames_counts_once_and_its_parts_no_more(archive, spark, tmp_path):
    parts = [archive.seal(LINES[:5000]), archive.seal(LINES[5000:])]
    stored = frames(LINES)
    whole = archive.seal(LINES, replaces=tuple(part.path for part in parts), bytes_stored=len(stored))
    (archive.root / whole.path).write_bytes(stored)
    archive.close()
    day = inventory.read_day(archive.root, archive.date)  # killed before the parts were removed
    assert (day.present, day.unregistered, day.manifests.repeated) == ((whole,), (), 0)
    for part in parts:
        (archive.root / part.path).unlink()

    made = archive.reported(spark, tmp_path / "out")

    assert (made.totals.lines, made.totals.files, made.completeness.state.value) == (1000, 1, "complete")
