"""A last line without its newline: it waits, is in the backlog, and is shipped; its rest follows; no secret is cut."""

from pathlib import Path

import pytest
from producing import Host, append, copytruncate, rotate

from producer.batcher import Encoder
from producer.heartbeat import BacklogMeter
from producer.transform.edits import Edits
from shipper.compression import Compressor
from shipper.model import Encoding


def ship_after(host: Host, seconds: float) -> None:
    """Ship, let so much time pass without a write, and ship again by what a poll finds."""
    host.ship()
    host.now += seconds
    host.sources.poll()
    while host.read():
        host.deliver()
        host.acknowledge()
    host.save()


def archived(host: Host, edits: Edits) -> bytes:
    """The text that travels of all that the host reads now."""
    entries = Encoder(Compressor(Encoding.IDENTITY), edits).entries(host.read_all())
    host.acknowledge()
    host.save()
    return b"".join(
        each.payload[: int(each.headers.get("Log-Edits", "-").partition("-")[0] or len(each.payload))]
        for each in entries
    )


def backlog(host: Host) -> int:
    return BacklogMeter().measure(host.sources.readers, host.sources.acks.known, str, host.now).octets


def test_a_last_line_without_its_newline_is_shipped_after_the_wait_and_its_rest_continues_it(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"started\nFATAL: out of mem")
    host = Host(tmp_path, "*.log")
    ship_after(host, 4.9)
    assert host.archive.text(path) == b"started\n"
    assert backlog(host) == len(b"FATAL: out of mem")
    ship_after(host, 0.2)
    assert host.archive.text(path) == b"started\nFATAL: out of mem"
    assert backlog(host) == 0
    append(path, b"ory\nnext\n")
    host.ship()
    assert host.archive.text(path) == b"started\nFATAL: out of memory\nnext\n"
    assert len(host.archive.files) == 1


def test_zero_waits_for_the_newline_and_counts_the_line_in_the_backlog(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_bytes(b"half")
    host = Host(tmp_path, "*.log", partial_after=0.0)
    ship_after(host, 1e6)
    assert host.archive.text(tmp_path / "app.log") == b""
    assert backlog(host) == 4


@pytest.mark.parametrize("end", [b"\r", b"\0"])
def test_records_that_end_with_cr_or_nul_do_not_wait_for_a_full_block(end: bytes, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(end.join([b"one", b"two", b"thr"]))
    host = Host(tmp_path, "*.log")
    host.ship()
    assert host.archive.text(path) == end.join([b"one", b"two", b""])
    append(path, b"ee" + end)
    ship_after(host, 5.0)
    assert host.archive.text(path) == path.read_bytes()


def test_the_two_bytes_of_crlf_are_not_cut_apart(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"10%\r20%\r")
    host = Host(tmp_path, "*.log")
    host.ship()
    append(path, b"\nend\n")
    host.ship()
    assert [data for _, data in host.archive.order] == [b"10%\r", b"20%\r\nend\n"]


@pytest.mark.parametrize(("charset", "text"), [("", "größe"), ("utf-16-le", "ab"), ("utf-16-be", "ab")])
def test_half_a_character_waits_for_its_other_half(charset: str, text: str, tmp_path: Path) -> None:
    path, encoded = tmp_path / "app.log", text.encode(charset or "utf-8")
    path.write_bytes(encoded[:3])
    host = Host(tmp_path, "*.log", edits=Edits.of(charset=charset))
    ship_after(host, 5.0)
    assert host.archive.text(path) == encoded[:2]
    append(path, encoded[3:] + "\n".encode(charset or "utf-8"))
    host.ship()
    assert host.archive.text(path) == path.read_bytes()


# -- with redaction ---------------------------------------------------------------------------------------------------

SECRET = Edits.of(redact=["token"])


def test_with_redaction_a_line_waits_ten_times_as_long(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"user bob password=")
    host = Host(tmp_path, "*.log", edits=SECRET)
    ship_after(host, 49.0)
    assert host.archive.text(path) == b""
    ship_after(host, 2.0)
    assert host.archive.text(path) == b"user bob password="


@pytest.mark.parametrize("once", [True, False])
@pytest.mark.parametrize("restarts", [True, False])
@pytest.mark.parametrize("cut", range(10, 19))
def test_the_rest_of_a_line_is_redacted_by_what_was_shipped_of_it(
    cut: int, restarts: bool, once: bool, tmp_path: Path
) -> None:
    path, line = tmp_path / "app.log", b"user bob password=hunter2cut and more\n"
    path.write_bytes(line[:cut])
    host = Host(tmp_path, "*.log", edits=SECRET, once=once)
    if not once:
        host.read_all()
        host.now += 50.0
        host.sources.poll()
    text = archived(host, SECRET)
    assert text == line[:cut]
    if restarts or once:
        host.restart(while_down=lambda: append(path, line[cut:]))
    else:
        append(path, line[cut:])
        host.sources.scan()
    text += archived(host, SECRET)
    assert text == b"user bob password=[token] and more\n"


@pytest.mark.parametrize("charset", ["utf-16-le", "utf-16-be"])
def test_the_rest_of_a_line_of_utf_16_is_redacted_too(charset: str, tmp_path: Path) -> None:
    path, edits = tmp_path / "app.log", Edits.of(redact=["token"], charset=charset)
    path.write_bytes("first\npassword=".encode(charset))
    host = Host(tmp_path, "*.log", edits=edits, once=True)
    text = archived(host, edits)
    host.restart(while_down=lambda: append(path, "hunter2cut\n".encode(charset)))
    assert text + archived(host, edits) == b"first\npassword=[token]\n"


@pytest.mark.parametrize("how", [rotate, copytruncate])
@pytest.mark.parametrize("restarts", [True, False])
def test_a_rotation_in_the_middle_of_a_line_carries_its_beginning_along(
    restarts: bool, how: object, tmp_path: Path
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\nuser bob password=")
    host = Host(tmp_path, "app.log", edits=SECRET)
    text = archived(host, SECRET)

    def rotated() -> None:
        how(path)  # type: ignore[operator]
        path.write_bytes(b"hunter2cut\ntwo password:x\n")

    if restarts:
        host.restart(while_down=rotated)
    else:
        rotated()
    for _ in range(4):
        host.sources.scan()
        text += archived(host, SECRET)
        host.sources.ended_files.retire()
        host.now += 5.1
    assert text == b"one\nuser bob password=[token]\ntwo password:[token]\n"


def test_a_secret_of_its_own_in_the_rest_is_found_whatever_came_before(tmp_path: Path) -> None:
    path, key = tmp_path / "app.log", b"AKIA" + b"A1" * 8
    path.write_bytes(b"x" * 40)
    host = Host(tmp_path, "*.log", edits=SECRET, once=True)
    archived(host, SECRET)
    host.restart(while_down=lambda: append(path, key + b"\n"))
    assert archived(host, SECRET) == b"[token]\n"
