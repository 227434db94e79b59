"""Lines left out, secrets blacked out, labels: the whole way with real programs, through kill -9 of the producer."""

import random
import re
from pathlib import Path

import pytest
from harness.fleet import Fleet, until
from harness.natsd import NatsServer

from shipper.manifest import Segment

HOST = "web1.example.net"
CARD, MAIL = b"4111 1111 1111 1111", b"me@example.org"
OPTIONS = ("--drop-lines", "DEBUG", "--redact", "card", "--redact", "email", "--redact", "x{5,}",
           "--label", "env=prod", "--label", "dc=ams", "--no-watch", "--poll", "0.02s")  # fmt: skip


def text(seed: int, count: int) -> list[bytes]:
    """Lines of uneven length, each with a number of its own."""
    rng = random.Random(seed)
    words = [b"DEBUG", b"INFO", CARD, MAIL, b"x" * 20, b"order 4111111111111112", "größe ✓".encode(), b"y" * 300]
    return [b"%d: %s\n" % (number, b" ".join(rng.choices(words, k=rng.randrange(1, 5)))) for number in range(count)]


def edited(lines: list[bytes], drop: bytes = b"DEBUG") -> bytes:
    kept = b"".join(line for line in lines if drop not in line)
    return re.sub(rb"x{5,}", b"[redacted]", kept.replace(CARD, b"[card]").replace(MAIL, b"[email]"))


def account_holds(segments: list[Segment], written: bytes, expected: bytes, filtered: int) -> None:
    """What was written, left out, edited adds up, for each segment and for all."""
    for segment in segments:
        spans = sum(span.end - span.start for span in segment.spans)
        assert spans == segment.bytes_raw - segment.joins + segment.filtered + segment.edited
        assert segment.gaps == ()
    assert sum(segment.bytes_raw - segment.joins for segment in segments) == len(expected)
    assert sum(segment.filtered for segment in segments) == filtered
    assert sum(span.end - span.start for segment in segments for span in segment.spans) == len(written)


@pytest.mark.parametrize("encoding", ["zstd", "plain"])
def test_through_kills_of_the_producer_the_archive_is_the_edited_text_once(
    encoding: str, tmp_path: Path, natsd: NatsServer
) -> None:
    log, lines = tmp_path / "app.log", text(1, 12_000)
    log.write_bytes(b"")
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        options = (*OPTIONS, "--encoding", encoding, "--block", "16KiB")
        producer, collector = fleet.produce(HOST, log, options=options), fleet.consume()
        rng = random.Random(2)
        with log.open("ab") as writer:
            for burst in range(6):
                data = b"".join(lines[burst * 2000 : (burst + 1) * 2000])
                cut = rng.randrange(len(data))
                for number, part in enumerate((data[:cut], data[cut:])):
                    if burst or number:  # a kill in the flow: what follows is read and sent again with other borders
                        producer.restart()
                    before = len(fleet.archived(HOST, log))
                    writer.write(part)
                    writer.flush()
                    until(
                        lambda size=before: len(fleet.archived(HOST, log)) > size,
                        what=lambda: producer.log + collector.log,
                    )
        expected = edited(lines)
        until(lambda: len(fleet.archived(HOST, log)) >= len(expected), what=lambda: producer.log + collector.log)
        assert producer.stop() == 0
        assert collector.stop() == 0
        fleet.drain("--seal")
        assert fleet.archived(HOST, log) == expected
        segments = fleet.segments()
        filtered = sum(len(line) for line in lines if b"DEBUG" in line)
        account_holds(segments, b"".join(lines), expected, filtered)
        assert {tuple(segment.labels.items()) for segment in segments} == {(("env", "prod"), ("dc", "ams"))}
        for secret in (CARD, MAIL):
            assert secret not in producer.log.encode()


def test_other_rules_at_the_next_start_lose_and_double_no_line(tmp_path: Path, natsd: NatsServer) -> None:
    log, lines = tmp_path / "app.log", text(3, 9000)
    log.write_bytes(b"".join(lines[:3000]))
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        rules = [b"DEBUG", b"INFO", b"order"]
        for number, drop in enumerate(rules):
            producer = fleet.produce(HOST, log, options=("--drop-lines", drop.decode(), "--poll", "0.02s"))
            until(lambda sent=number: fleet.messages() > sent, what=lambda producer=producer: producer.log)
            with log.open("ab") as writer:
                writer.write(b"".join(lines[(number + 1) * 3000 : (number + 2) * 3000]))
            producer.kill()
        fleet.ship_once(HOST, log, options=("--drop-lines", "order"))
        fleet.drain("--seal")
        found = fleet.archived(HOST, log).splitlines(keepends=True)
        numbers = [int(line.split(b":")[0]) for line in found]
        assert numbers == sorted(set(numbers))
        assert set(found) <= set(lines)
        missing = set(lines) - set(found)
        assert all(any(drop in line for drop in rules) for line in missing)
        everywhere = [line for line in lines if not any(drop in line for drop in rules)]
        assert set(everywhere) <= set(found)
        account_holds(fleet.segments(), b"".join(lines), b"".join(found), sum(map(len, missing)))


def test_a_subscriber_of_plain_lines_sees_the_kept_ones_only(tmp_path: Path, natsd: NatsServer) -> None:
    log = tmp_path / "app.log"
    log.write_bytes(b"DEBUG a\none\nDEBUG b\nDEBUG c\ntwo " + CARD + b"\n")
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        fleet.ship_once(HOST, log, options=(*OPTIONS[:4], "--encoding", "plain"))
        assert fleet.messages() == 2
        fleet.drain()
        assert fleet.archived(HOST, log) == b"one\ntwo [card]\n"


def test_an_invalid_expression_ends_the_program_with_78_and_reports_where(tmp_path: Path, natsd: NatsServer) -> None:
    with Fleet(tmp_path, natsd.url) as fleet:
        done = fleet.run("produce", "--drop-lines", "fo(o", "--redact", "[a", str(tmp_path / "app.log"))
        assert done.returncode == 78
        assert "--drop-lines: producer.drop_lines" in done.stderr
        assert "'[a' cannot be used: missing ]" in done.stderr
