"""A server full of hostile messages: every program goes on for all other hosts, and no command ends in a traceback."""

import json
from collections.abc import Iterator, Mapping

from harness.fleet import Fleet, until
from hostile import publish, send_raw

from consumer.cluster.membership import forked_since, to_claim, to_member
from consumer.dlq.store import printable
from shipper.subjects import bucket_subject, lease_key, member_key

VICTIM, EVIL = "web1.example.net", "evil"
DEEP = b"[" * 100_000
VALUES = [
    b"", b"\0", b"\xff\xfe", b"{", b"null", b"[]", b"0", b"{}", b'"x"', DEEP, b'{"v":' + DEEP, b'{"v":1}', b'{"v":-1}',
    b'{"v":1e999}', b'{"v":NaN}', b'{"v":' + b"9" * 5000 + b"}", b'{"v":1,"v":2}', b" " * 500_000,
]  # fmt: skip
"""Payloads that are no message of ours."""
NUMBERS = [
    "-1", "1e999", "NaN", "Infinity", "-0", "1.5", "true", "null", '"1"', "[]", "{}", "9" * 4000, "9" * 5000,
    '"\\ud800"', '"\\u0000\\u001b[2J"', f'"x={"9" * 5000}"', '["a"]', "[[0,1e9]]", '[{"file":1}]',
]  # fmt: skip
MANY_HEADERS = {f"X-{number}": "y" for number in range(200)}
BEAT = {
    "v": 1, "version": "1", "partition": 0, "every": 5.0, "up": 1.0, "files": 1, "run": "r", "backlog": 1, "worst": [],
    "backlog_age": 1.0, "trouble": "", "silent": 0, "instance": "i", "held": 0, "in_flight": 0, "unreadable": 0,
}  # fmt: skip
MEMBER = {
    "v": 1, "name": "evil", "instance": "i", "host": "h", "pid": 1, "archive": "a", "lock": "l", "partitions": [],
    "refused": [], "known": [], "left": False, "doubled": 0, "disk_size": 1, "disk_free": 1, "lease_seconds": 1,
}  # fmt: skip
CLAIM = {
    "v": 1, "owner": "evil", "instance": "i", "host": "h", "pid": 1, "archive": "a", "lock": "l", "epoch": 1,
    "released": False, "applied": 1, "applied_ns": 1, "resume": 1, "plain_after_ns": 0, "created": "", "directory": "",
    "past": "", "forked": "", "trouble": "", "lease_seconds": 1,
}  # fmt: skip


def spoiled(sound: Mapping[str, object]) -> Iterator[bytes]:
    """`sound` with one value at a time replaced or left out, with each key twice, and with a deep one of no meaning."""
    written = {name: f"{json.dumps(name)}:{json.dumps(value)}" for name, value in sound.items()}
    for name in sound:
        others = [text for other, text in written.items() if other != name]
        yield f"{{{','.join(others)}}}".encode()
        for number in NUMBERS:
            yield f"{{{','.join([*others, f'{json.dumps(name)}:{number}'])}}}".encode()
    body = ",".join(written.values())
    yield f"{{{body},{body}}}".encode()
    yield f'{{{body},"x":{"[" * 900}{"]" * 900}}}'.encode()


def test_an_entry_of_the_bucket_is_read_or_left_out_and_its_numbers_can_be_counted_with():
    for value in (*VALUES, *spoiled(MEMBER), *spoiled(CLAIM)):
        member, claim = to_member(value), to_claim(value)
        if member:
            assert 1e9 * member.lease_seconds < 1e30
            assert str((member.disk_size, member.disk_free, member.doubled, member.pid))
            member.host.encode("utf-8", "surrogateescape")
        if claim:
            assert list(forked_since(claim, 0.0)) == []
            assert 1.5 * claim.applied_ns < 1e30
            printable(claim.trouble).encode()


def test_a_server_full_of_hostile_messages_serves_every_other_host(tmp_path, natsd):
    path = tmp_path / "app.log"
    path.write_bytes(b"before\n")
    with Fleet(tmp_path, natsd.url, partitions=2) as fleet:
        fleet.apply()
        producer, collector = fleet.produce(VICTIM, path), fleet.consume()
        until(lambda: fleet.archived(VICTIM, path) == b"before\n", what=lambda: collector.log)
        member, lease = bucket_subject(member_key("logs", "a", EVIL)), bucket_subject(lease_key("logs", 7))
        subjects = [
            *(f"{prefix}.{EVIL}" for prefix in ("logs.p0", "logs.p1", "logs.beat", "dlq.LOGS_0", "ctl.up", "ctl.down")),
            *(f"ctl.{way}.{VICTIM}" for way in ("up", "down", "ask")),
            *(member, lease),
        ]
        for headers in (MANY_HEADERS, {"Status": "500"}, b"\xff: \xff\r\n", {}):
            for value in VALUES:
                publish(natsd, *((subject, headers, value) for subject in subjects))
        publish(natsd, *((f"logs.beat.{EVIL}{at}", {}, value) for at, value in enumerate(spoiled(BEAT))))
        publish(natsd, *((f"{member}{at}", {}, value) for at, value in enumerate(spoiled(MEMBER))))
        publish(natsd, *((f"{lease}{at:04d}", {}, value) for at, value in enumerate(spoiled(CLAIM))))
        send_raw(natsd, *(f"HPUB {subject} 1 5\r\nXbody\r\n".encode() for subject in subjects))
        with path.open("ab") as file:
            file.write(b"after\n")
        until(lambda: fleet.archived(VICTIM, path) == b"before\nafter\n", what=lambda: collector.log[-3000:])
        for command in (
            "status", "status --json", "dlq ls", "dlq ls --limit 0 --json", "dlq show 1", "dlq show 70", "audit",
            "audit --hosts", "search after", "tail -n 5", "partition plan", "partition status --json", "replay",
            "partition move --partitions 3 --yes",
        ):  # fmt: skip
            done = fleet.start(*command.split())
            expected = {0, 2} if command.startswith("status") else {0}  # 2: a hostile heartbeat reports trouble
            assert done.wait(120) in expected, f"{command}: {done.log[-3000:]}"
            assert "Traceback" not in done.log
            assert command != "status --json" or VICTIM in {row["host"] for row in json.loads(done.log)["hosts"]}
        requeued = fleet.run("dlq", "requeue", "1")
        assert requeued.returncode == 64, requeued.stderr  # it came from no stream
        for program in (producer, collector):
            assert "session_ended" not in program.log, program.log[-3000:]
            assert "Traceback" not in program.log
            assert program.stop() == 0
        assert "panic" not in natsd.log
