"""A while for collectors that have not closed the day: who is awaited, and when it ends."""

import threading
import time

import pytest
from day_archives import DATE

from shipper.errors import ConfigError
from spark_analytics import __main__ as program
from spark_analytics.archive import inventory


@pytest.fixture
def said(monkeypatch):
    monkeypatch.setattr(inventory, "POLL_SECONDS", 0.02)
    return []


def waited(archive, said, seconds, tell=None):
    began = time.monotonic()
    inventory.until_closed(archive.root, [DATE], seconds, tell or said.append)
    return time.monotonic() - began


def test_a_closed_day_is_not_waited_for(archive, said):
    archive.seal(b"x\n")
    archive.close()

    assert waited(archive, said, 60) < 5
    assert said == []


def test_collectors_that_have_not_closed_the_day_are_named_and_the_wait_ends_when_all_have(archive, said):
    archive.seal(b"x\n")
    archive.manifest.with_name("collector-b.jsonl").write_bytes(b"")

    second = threading.Event()

    def tell(text):
        said.append(text)
        if len(said) > 1:
            second.set()

    def close():
        archive.close()
        second.wait(10)
        archive.manifest.with_name("collector-b.done").write_bytes(b"")

    closing = threading.Timer(0.3, close)
    closing.start()
    waited(archive, said, 60, tell)
    all_had_closed = archive.manifest.with_name("collector-b.done").exists()
    closing.join()

    assert all_had_closed
    assert [text.split(", at")[0] for text in said] == [
        f"{DATE}: waiting for collector-a and collector-b",
        f"{DATE}: waiting for collector-b",
    ]


def test_after_the_time_the_day_is_reported_as_it_is(archive, said):
    archive.seal(b"x\n")

    assert 0.1 <= waited(archive, said, 0.1) < 5
    assert said[-1] == f"{DATE}: waited in vain for collector-a; it is reported as it is"


def test_a_day_of_which_nothing_is_sealed_yet_is_waited_for_and_so_are_open_files(archive, said):
    waited(archive, said, 0.05)
    segment = archive.seal(b"x\n")
    archive.close()
    (archive.root / segment.path).with_name("_open-app.log").write_bytes(b"x")
    waited(archive, said, 0.05)

    assert "its first segment" in said[0]
    assert "files that are still open (1)" in said[-1]


def test_an_archive_that_is_not_there_is_not_waited_for(archive, said, tmp_path):
    with pytest.raises(ConfigError):
        inventory.until_closed(tmp_path / "nowhere", [DATE], 60, said.append)


def test_the_command_names_on_stderr_whom_it_waits_for(archive, capsys, tmp_path):
    arguments = ["--archive", str(archive.root), "--out", str(tmp_path / "out"), "--date", DATE]

    assert program.main([*arguments, "--wait", "10ms"]) == 69  # nothing was sealed meanwhile
    assert " for its first segment" in capsys.readouterr().err  # waiting, or on a slow machine in vain
    assert program.main([*arguments, "--wait", "soon"]) == 64
    assert "no duration" in capsys.readouterr().err
