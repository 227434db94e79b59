"""What fails for its own sake goes to the dead letters with its reason; everything else goes on."""

import gzip

import pytest
import zstandard
from collecting import HOST, Log, PartitionHarness

from consumer.archive.directory import Layout
from consumer.model import Until
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
async def test_a_damaged_payload_is_kept_with_its_reason_and_leaves_a_gap(tmp_path, encoding, headers, payload, reason):
    harness, log = PartitionHarness(tmp_path), Log(LINES, encoding=encoding)
    harness.send(log, 0, 4)
    harness.bus.store(*damaged(log, 4, 8, headers, payload))
    harness.send(log, 8, 14)
    await harness.drain(Until.SEALED)
    assert harness.text(log) == b"one\nthree\n"
    assert harness.gaps() == [(4, 8, "poison")]
    (dead,) = harness.dead
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
async def test_damaged_headers_stop_no_other_message(tmp_path, headers, reason):
    harness, log, other = (
        PartitionHarness(tmp_path),
        Log(LINES),
        Log(b"sound\n", id="00000000000000b2", host="web2.example.net"),
    )
    harness.bus.store(*damaged(log, 0, 4, headers))
    harness.send(other, 0, 6)
    await harness.drain()
    assert harness.text(other) == b"sound\n"
    assert [reason in dead.headers["Dlq-Reason"] for dead in harness.dead] == ([True] if reason else [])


async def test_a_copy_of_a_stored_message_that_the_server_sent_to_another_hosts_subject_is_no_line_of_that_host(
    harness, log
):
    """As when a host names the log subject of another as the reply subject of a direct get."""
    copied = {"Nats-Stream": "LOGS_1", "Nats-Subject": "logs.p1.web9", "Nats-Sequence": "7"}
    harness.send(log, 0, 4)
    subject, headers, payload = log.message(4, 8)
    harness.bus.store(subject, headers | copied, payload)
    harness.bus.store(subject, copied, b"Accepted password for root")
    harness.bus.store(subject, codec.move_marker(9) | copied, b"")
    harness.send(log, 4, 14)
    await harness.drain(Until.SEALED)
    assert harness.text(log) == LINES
    assert {segment.file for segment in harness.segments()} == {log.file}
    assert not [gap for segment in harness.segments() for gap in segment.gaps]
    assert ["copy of a stored message" in dead.headers["Dlq-Reason"] for dead in harness.dead] == [True] * 3


async def test_what_is_read_again_is_not_buried_twice(tmp_path):
    harness, log, holed = PartitionHarness(tmp_path), Log(LINES), Log(LINES, id="00000000000000b2")
    harness.bus.acks.hold()  # no program answers
    sequence = harness.send(holed, 4, 8)  # a hole: the next session begins here
    harness.bus.store(*damaged(log, 0, 4, {"Log-Crc": "xyz"}))
    harness.patience = 0.5
    with pytest.raises(Exception, match="does not answer"):
        await harness.drain()
    assert len(harness.dead) == 1
    harness.dead.recreate()  # it remembers no message id, as later than the window of duplicates
    with harness.journal() as journal:
        assert journal.position.resume == sequence
    with pytest.raises(Exception, match="does not answer"):
        await harness.drain()
    assert not len(harness.dead)


async def test_without_a_stream_for_dead_letters_no_bad_message_is_acknowledged_or_lost(harness, log):
    harness.bus.remove_stream("DLQ")
    harness.send(log, 0, 4)
    harness.bus.store(*damaged(log, 4, 8, {}, b"damaged"))
    harness.patience = 0.5
    for _ in range(20):  # a busy machine may need longer than this for the first message
        with pytest.raises(Unavailable, match="dlq"):  # and not for ever: a drain has an end
            await harness.drain()
        if harness.stream.ack_floor:
            break
    assert harness.stream.ack_floor == 1  # the good one before it
    with harness.journal() as journal:
        assert journal.position.applied == 1
    harness.dead = harness.bus.add_stream("DLQ", "dlq.>")
    harness.send(log, 8, 14)
    await harness.drain()
    assert harness.text(log) == b"one\nthree\n"
    assert len(harness.dead) == 1


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
async def test_headers_of_a_dead_letter_have_no_effect_and_do_not_stop_it(harness, headers):
    harness.bus.store("logs.p0.*", {"Log-Id": "bad", **headers}, bytes(1_048_000))
    await harness.drain()
    (dead,) = harness.dead
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
async def test_hostile_names_stay_inside_the_archive_and_stop_no_other_message(tmp_path, template):
    harness, sound = PartitionHarness(tmp_path, template=template), Log(b"sound\n", id="ffffffffffffffff")
    logs = [
        Log(b"x\n", id=f"{number:016x}", host=host, file=file)
        for number, (host, file) in enumerate((host, file) for host in HOSTILE_HOSTS for file in HOSTILE_FILES)
    ]
    for log in logs:
        harness.send(log, 0, 2)
        harness.say(b"plain", host=log.host)
    harness.send(sound, 0, 6)
    beside = set(tmp_path.iterdir())
    await harness.drain()
    assert set(tmp_path.iterdir()) == beside | {harness.journal_path}
    assert harness.stream.ack_floor == harness.stream.last_sequence
    tops = {path.name.partition("=")[0] for path in harness.archive.iterdir()}
    assert tops <= ({"by-host"} if template else {"date", "live"})
    assert any(path.read_bytes() == b"sound\n" for path in harness.archive.rglob("*app.log*") if path.is_file())


@pytest.mark.parametrize("template", ["", "{host}.log", "{file}"])
def test_a_name_that_no_file_system_takes_is_poison_and_no_error_of_the_archive(template, tmp_path):
    where = Layout(tmp_path, template)
    hosts = ["%" * 120] if template != "{file}" else []
    for host in hosts:
        with pytest.raises(Poison, match="too long"):
            where.path(FileKey("2026-11-20", 0, host, "/x"), 0)
    assert where.path(FileKey("2026-11-20", 0, "host", "/" + "y" * 4000), 0)
