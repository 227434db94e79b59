"""What has no newline yet, and what is padded with NULs: from running programs to the archive."""

import os
from pathlib import Path

from harness.fleet import Fleet, until
from harness.natsd import NatsServer

HOST = "web1.example.net"


def test_last_words_arrive_while_the_producer_runs_and_survive_kills(tmp_path: Path, natsd: NatsServer) -> None:
    path = tmp_path / "app.log"
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        collector = fleet.consume()
        producer = fleet.start("produce", str(path), HOSTNAME=HOST, SHIPPER_PARTIAL_AFTER="0.2s", SHIPPER_POLL="0.1s")
        path.write_bytes(b"started\nFATAL: out of mem")
        until(lambda: fleet.archived(HOST, path) == b"started\nFATAL: out of mem", what=lambda: producer.log)
        producer.restart()
        with path.open("ab") as log:
            log.write(b"ory\nnext\n")
        until(lambda: fleet.archived(HOST, path) == path.read_bytes(), what=lambda: producer.log)
        assert producer.stop() == 0
        assert collector.stop() == 0


def test_lines_of_a_padded_file_arrive_and_its_truncation_is_no_loss(tmp_path: Path, natsd: NatsServer) -> None:
    path, text = tmp_path / "app.log", b""
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        path.touch()
        os.truncate(path, 2 * 1024 * 1024)
        collector = fleet.consume()
        producer = fleet.start("produce", str(path), HOSTNAME=HOST, SHIPPER_POLL="0.1s")
        for number in range(6):
            line = b"line %d of a mapped file\n" % number
            with path.open("r+b") as log:
                log.seek(len(text))
                log.write(line)
            text += line
            until(lambda: fleet.archived(HOST, path) == text, what=lambda: producer.log)  # noqa: B023
        os.truncate(path, len(text))
        with path.open("ab") as log:
            log.write(b"after\n")
        until(lambda: fleet.archived(HOST, path) == text + b"after\n", what=lambda: producer.log)
        assert "bytes_lost" not in producer.log
        assert producer.stop() == 0
        assert collector.stop() == 0
