"""The demo's proof finds what is wrong with an archive: it must not accept everything."""

import gzip
import hashlib
import json

import pytest
import zstandard

from deploy.demo import proof
from deploy.demo.proof import ExpectedFile

HOST, FILE = "web1.example.net", "/var/log/app.log"
LINES = [b"line %d of the log, with a CR\r\n" % number for number in range(100_000)]  # several chunks
TEXT = b"".join(LINES)


class Archive:
    """A tiny archive: segments with their manifest."""

    def __init__(self, directory):
        self.root = directory / "archive"
        self.number = 0

    def seal(self, data, *, date="2026-11-20", codec="zstd", file=FILE, first_seq=None, **more):
        self.number += 1
        first_seq = self.number if first_seq is None else first_seq
        path = self.root / f"date={date}" / "partition=1" / f"host={HOST}" / f"app.log-{self.number:020d}.zst"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(packed(data, codec))
        relative = str(path.relative_to(self.root))
        fields = {"host": HOST, "file": file, "path": relative, "codec": codec, "first_seq": first_seq}
        self.list(date, **fields, bytes_raw=len(data), **more)
        return path

    def list(self, date, **fields):
        manifest = self.root / "_manifest" / f"date={date}" / "collector.jsonl"
        manifest.parent.mkdir(parents=True, exist_ok=True)
        with manifest.open("a") as lines:
            lines.write(json.dumps(fields) + "\n")


def packed(data, codec):
    if codec == "zstd":
        return zstandard.ZstdCompressor(write_checksum=True).compress(data)
    return gzip.compress(data) if codec == "gzip" else data


@pytest.fixture
def archive(tmp_path):
    return Archive(tmp_path)


@pytest.fixture
def written(tmp_path):
    """Two generations on disk, with what the writer counted."""
    sources = [tmp_path / "app.log.1", tmp_path / "app.log"]
    half = len(b"".join(LINES[:50_000]))
    sources[0].write_bytes(TEXT[:half])
    sources[1].write_bytes(TEXT[half:])
    return ExpectedFile(HOST, FILE, sources, len(TEXT), len(LINES), hashlib.sha256(TEXT).hexdigest())


def verdict(archive, written):
    return proof.compared(archive.root, [written])[0][0]


def test_the_same_bytes_over_days_segments_and_codecs_are_identical(archive, written):
    archive.seal(TEXT[2_000_000:], date="2026-11-21", codec="gzip", first_seq=0)
    archive.seal(TEXT[:7], first_seq=5)
    archive.seal(TEXT[7:2_000_000], codec="none", first_seq=6)
    found = verdict(archive, written)
    assert found["identical"]
    assert (found["bytes_archived"], found["lines_archived"], found["segments"]) == (len(TEXT), len(LINES), 3)


def test_segments_are_read_in_the_order_of_their_sequences_not_of_the_manifest(archive, written):
    archive.seal(TEXT[1000:], first_seq=9)
    archive.seal(TEXT[:1000], first_seq=2)
    assert verdict(archive, written)["identical"]


def test_of_a_path_that_is_listed_twice_the_last_line_holds(archive, written):
    path = archive.seal(TEXT)
    fields = {"host": HOST, "file": FILE, "path": str(path.relative_to(archive.root)), "codec": "zstd", "first_seq": 1}
    archive.list("2026-11-20", **fields, bytes_raw=0)
    assert verdict(archive, written)["identical"]


BEGIN = len(b"".join(LINES[:70_000]))
WRONG = {
    "a flipped byte": (TEXT[:2_345_678] + b"#" + TEXT[2_345_679:], 2_345_678, 0),
    "the first byte": (b"#" + TEXT[1:], 0, 0),
    "the last byte of a chunk": (TEXT[:1_048_575] + b"#" + TEXT[1_048_576:], 1_048_575, 0),
    "the first byte of a chunk": (TEXT[:1_048_576] + b"#" + TEXT[1_048_577:], 1_048_576, 0),
    "a missing line": (b"".join([*LINES[:70_000], *LINES[70_001:]]), BEGIN + len("line 7000"), -1),
    "a doubled line": (b"".join([*LINES[:70_000], LINES[69_999], *LINES[70_000:]]), BEGIN + len("line "), 1),
    "a doubled last line": (TEXT + LINES[-1], len(TEXT), 1),
    "a missing end": (TEXT[:-1], len(TEXT) - 1, -1),
}
"""What an archive holds instead: the text, where it differs, and how many lines it has more."""


@pytest.mark.parametrize(("text", "at", "more"), WRONG.values(), ids=WRONG)
def test_what_differs_is_found_where_it_is(archive, written, text, at, more):
    archive.seal(text)
    found = verdict(archive, written)
    assert not found["identical"]
    assert found["difference"]["offset"] == at
    assert found["difference"]["written"] != found["difference"]["archived"]
    assert found["lines_archived"] == len(LINES) + more


def test_an_archive_without_the_file_is_not_identical(archive, written):
    archive.seal(TEXT, file="/var/log/other.log")
    assert not verdict(archive, written)["identical"]
    assert proof.compared(archive.root, [written])[1] == [f"{HOST}:/var/log/other.log"]


@pytest.mark.parametrize("codec", ["zstd", "gzip"])
def test_a_damaged_segment_is_reported_and_does_not_end_the_proof(archive, written, codec):
    path = archive.seal(TEXT, codec=codec)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    found = verdict(archive, written)
    assert not found["identical"]
    assert found["damage"] or found["difference"]


def test_a_segment_that_is_listed_and_missing_is_reported(archive, written):
    archive.seal(TEXT).unlink()
    found = verdict(archive, written)
    assert not found["identical"]
    assert "No such file" in found["damage"]


def test_sources_that_changed_on_disk_since_they_were_written_are_no_proof(archive, written):
    changed = TEXT.replace(b"line 5 ", b"line 6 ", 1)
    archive.seal(changed)
    written.sources[0].write_bytes(changed)
    written.sources[1].write_bytes(b"")
    found = verdict(archive, written)
    assert found["difference"] is None
    assert not found["identical"]


def test_a_torn_last_line_of_a_manifest_is_no_line(archive, written):
    archive.seal(TEXT)
    manifest = archive.root / "_manifest" / "date=2026-11-20" / "collector.jsonl"
    manifest.write_bytes(manifest.read_bytes() + b'{"host": "we')
    assert verdict(archive, written)["identical"]


def test_segments_that_were_merged_into_one_count_no_more(archive, written):
    parts = [archive.seal(TEXT[:1000]), archive.seal(TEXT[1000:])]
    archive.seal(TEXT, replaces=[str(part.relative_to(archive.root)) for part in parts])
    assert verdict(archive, written)["identical"]
    assert proof.sealed_bytes(archive.root) == len(TEXT)
