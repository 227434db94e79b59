"""What fails for its own sake goes to the dead letters with its reason; everything else goes on."""

import gzip
from pathlib import Path

import pytest
import zstandard
from collecting import HOST, Desk, Log

from consumer.archive import Layout
from consumer.options import Until
from shipper import codec
from shipper.errors import Poison, Unavailable
from shipper.layout import FileKey
from shipper.model import MAX_BLOCK_BYTES, Encoding

LINES = b"one\ntwo\nthree\n"


def damaged(log: Log, start: int, end: int, headers: dict[str, str | None], payload: bytes | None = None):
    subject, sound, data = log.message(start, end)
    changed = {name: value for name, value in {**sound, **headers}.items() if value is not None}
    return subject, changed, data if payload is None else payload


@pytest.mark.parametrize(
    ("encoding", "headers", "payload", "reason"),
    [
        (Encoding.IDENTITY, {}, b"TWO\n", "CRC"),
        (Encoding.IDENTITY, {}, b"tw\n", "decodes to 3 bytes"),
        (Encoding.ZSTD, {}, b"no frame", "zstd"),
        (Encoding.ZSTD, {}, zstandard.compress(bytes(MAX_BLOCK_BYTES + 1)), "claims"),
        (Encoding.GZIP, {}, gzip.compress(bytes(MAX_BLOCK_BYTES * 2), mtime=0), "gzip"),
        (Encoding.GZIP, {}, b"no member", "gzip"),
    ],
)
async def test_a_damaged_payload_is_kept_with_its_reason_and_leaves_a_gap(
    tmp_path: Path, encoding: Encoding, headers: dict[str, str], payload: bytes, reason: str
) -> None:
    desk, log = Desk(tmp_path), Log(LINES, encoding=encoding)
    desk.send(log, 0, 4)
    desk.bus.store(*damaged(log, 4, 8, headers, payload))
    desk.send(log, 8, 14)
    await desk.drain(Until.SEALED)
    assert desk.text(log) == b"one\nthree\n"
    (segment,) = desk.segments()
    assert [(gap.start, gap.end, gap.reason) for gap in segment.gaps] == [(4, 8, "poison")]
    (dead,) = desk.dead
    assert reason in dead.headers["Dlq-Reason"]
    assert (dead.subject, dead.payload, dead.headers["Dlq-Seq"]) == (f"dlq.LOGS_0.{HOST}", payload, "2")


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"Log-Id": None}, "Log-Id"),
        ({"Log-Span": "8-4"}, "Log-Span"),
        ({"Log-Crc": "xyz"}, "Log-Crc"),
        ({"Log-Encoding": "lz4"}, "lz4"),
        ({"Log-File": "relative"}, "absolute"),
        ({"Log-New": "1"}, "newer producer"),
        ({"Log-Span": "9999999999999999990-9999999999999999994"}, "beyond"),
        ({"Log-End": "truncated", "Log-Gap": "9223372036854775807"}, "beyond"),
        ({"Log-File": "/" + "x/" * 2000}, None),  # too long for `live/` only
        ({"Log-File": "/" + "x/" * 3000}, "longer than 4096"),
        ({"Log-Span": "\u0660-\u0664"}, "Log-Span"),
        ({"Log-File": "/%ED%B2%80%00"}, "absolute"),
    ],
)
async def test_damaged_headers_stop_nobody(tmp_path: Path, headers: dict[str, str], reason: str | None) -> None:
    desk, log, other = Desk(tmp_path), Log(LINES), Log(b"sound\n", id="00000000000000b2", host="web2.example.net")
    desk.bus.store(*damaged(log, 0, 4, headers))
    desk.send(other, 0, 6)
    await desk.drain()
    assert desk.text(other) == b"sound\n"
    assert [reason in dead.headers["Dlq-Reason"] for dead in desk.dead] == ([True] if reason else [])


async def test_a_copy_of_a_stored_message_that_the_server_sent_to_another_hosts_subject_is_no_line_of_that_host(
    tmp_path: Path,
) -> None:
    """As when a host names the log subject of another as the reply subject of a direct get."""
    desk, log = Desk(tmp_path), Log(LINES)
    copied = {"Nats-Stream": "LOGS_1", "Nats-Subject": "logs.p1.web9", "Nats-Sequence": "7"}
    desk.send(log, 0, 4)
    subject, headers, payload = log.message(4, 8)
    desk.bus.store(subject, headers | copied, payload)
    desk.bus.store(subject, copied, b"Accepted password for root")
    desk.bus.store(subject, codec.move_marker(9) | copied, b"")
    desk.send(log, 4, 14)
    await desk.drain(Until.SEALED)
    assert desk.text(log) == LINES
    assert {segment.file for segment in desk.segments()} == {log.file}
    assert not [gap for segment in desk.segments() for gap in segment.gaps]
    assert ["copy of a stored message" in dead.headers["Dlq-Reason"] for dead in desk.dead] == [True] * 3


async def test_what_is_read_again_is_not_buried_twice(tmp_path: Path) -> None:
    desk, log, holed = Desk(tmp_path), Log(LINES), Log(LINES, id="00000000000000b2")
    desk.bus.acks.hold()  # nobody answers
    sequence = desk.send(holed, 4, 8)  # a hole: the next session begins here
    desk.bus.store(*damaged(log, 0, 4, {"Log-Crc": "xyz"}))
    with pytest.raises(Exception, match="does not answer"):
        await desk.drain()
    assert len(desk.dead) == 1
    desk.dead.recreate()  # it remembers no message id, as later than the window of duplicates
    with desk.journal() as journal:
        assert journal.position.resume == sequence
    with pytest.raises(Exception, match="does not answer"):
        await desk.drain()
    assert not len(desk.dead)


async def test_without_a_stream_for_dead_letters_nothing_is_acknowledged_or_lost(tmp_path: Path) -> None:
    desk, log = Desk(tmp_path), Log(LINES)
    desk.bus.remove_stream("DLQ")
    desk.send(log, 0, 4)
    desk.bus.store(*damaged(log, 4, 8, {}, b"damaged"))
    with pytest.raises(Unavailable, match="dlq"):  # and not for ever: a drain has an end
        await desk.drain()
    assert desk.stream.ack_floor == 0
    with desk.journal() as journal:
        assert journal.position.applied == 0
    desk.dead = desk.bus.add_stream("DLQ", "dlq.>")
    desk.send(log, 8, 14)
    await desk.drain()
    assert desk.text(log) == b"one\nthree\n"
    assert len(desk.dead) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {"Nats-Expected-Stream": "LOGS_0"},
        {"Nats-Rollup": "all"},
        {"Nats-Msg-Id": "mine"},
        {"": "no name"},
        {"spa ce": "x"},
        {"X-Long": "x" * 60_000},
        {"X-Control": "a\x00b\x7f"},
    ],
)
async def test_headers_of_a_dead_letter_have_no_effect_and_do_not_stop_it(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    desk = Desk(tmp_path)
    desk.bus.store("logs.p0.*", {"Log-Id": "bad", **headers}, bytes(1_048_000))
    await desk.drain()
    (dead,) = desk.dead
    assert dead.subject == "dlq.LOGS_0.unknown"
    assert {name for name in dead.headers if name.startswith("Nats-")} == {"Nats-Msg-Id"}
    assert dead.headers["Nats-Msg-Id"].startswith("LOGS_0:1:")
    assert all(name.isprintable() and name.strip() and " " not in name for name in dead.headers)
    assert all(value.isprintable() for value in dead.headers.values())
    assert sum(len(name) + len(value) for name, value in dead.headers.items()) < 60 * 1024
    assert len(dead.payload) < 1000 * 1024
    assert dead.headers["Dlq-Cut"] == "1048000"


HOSTILE_HOSTS = ["..", "%", "*", ">", "a/../../b", "/etc", "ä" * 90, "%" * 120, "x" * 200, "x" * 201, "UPPER", "a\\b"]
HOSTILE_FILES = [
    "/..", "/../../../etc/passwd", "/.", "/a/../../b", "//", "/" + "x" * 5000, "/" + "ä" * 150, "/a\nb", "/a\x7f%",
    "/_manifest", "/_journal/logs.p0.sqlite", "/~", "/a~b", "/" + "d/" * 1000, "/\udcff\udcfe", "/a b\tc",
]  # fmt: skip


@pytest.mark.parametrize("template", ["", "by-host/{host}/{file}-%Y.log"])
async def test_hostile_names_stay_inside_the_archive_and_stop_nobody(tmp_path: Path, template: str) -> None:
    desk, sound = Desk(tmp_path, template=template), Log(b"sound\n", id="ffffffffffffffff")
    logs = [
        Log(b"x\n", id=f"{number:016x}", host=host, file=file)
        for number, (host, file) in enumerate((host, file) for host in HOSTILE_HOSTS for file in HOSTILE_FILES)
    ]
    for log in logs:
        desk.send(log, 0, 2)
        desk.say(b"plain", host=log.host)
    desk.send(sound, 0, 6)
    beside = set(tmp_path.iterdir())
    await desk.drain()
    assert set(tmp_path.iterdir()) == beside | {desk.journal_path}
    assert desk.stream.ack_floor == desk.stream.last_sequence
    tops = {path.name.partition("=")[0] for path in desk.archive.iterdir()}
    assert tops <= ({"by-host"} if template else {"date", "live"})
    assert any(path.read_bytes() == b"sound\n" for path in desk.archive.rglob("*app.log*") if path.is_file())


@pytest.mark.parametrize("template", ["", "{host}.log", "{file}"])
def test_a_name_that_no_file_system_takes_is_poison_and_no_trouble_of_the_archive(
    template: str, tmp_path: Path
) -> None:
    where = Layout(tmp_path, template)
    hosts = ["%" * 120] if template != "{file}" else []
    for host in hosts:
        with pytest.raises(Poison, match="too long"):
            where.path(FileKey("2026-11-20", 0, host, "/x"), 0)
    assert where.path(FileKey("2026-11-20", 0, "host", "/" + "y" * 4000), 0)
