"""Backups of streams: saved from one real server, restored into another."""

import asyncio
import json
import os
import random

import pytest
from administering import on_server, publish
from harness.natsd import running

from partitioner.arguments import with_admin
from shipper.jetstream import stream_snapshot


@pytest.fixture
def other(tmp_path):
    """A second server, empty."""
    with running(tmp_path / "other") as server:
        yield server


def messages(server, stream):
    """Every message of a stream with its sequence, subject and time."""

    async def read(admin):
        state = (await admin.stream(stream))["state"]
        found = []
        for sequence in range(state["first_seq"], state["last_seq"] + 1):
            body = json.dumps({"seq": sequence}).encode()
            answer = await admin.connection.client.request(f"$JS.API.STREAM.MSG.GET.{stream}", body, timeout=30)
            found.append(json.loads(answer.data).get("message"))
        return found

    return on_server(server, read)


def noise(size, seed=0):
    return random.Random(seed).randbytes(size)


def test_a_stream_comes_back_in_another_server_message_by_message_with_its_consumer(natsd, other, partition, tmp_path):
    partition("apply", "--partitions", "2")
    publish(natsd, "logs.p1.web1", *[noise(300_000, seed) for seed in range(40)])  # more than the server sends unasked

    async def ack_some(admin):
        client = admin.connection.client
        inbox = client.new_inbox()
        pulled = await client.subscribe(inbox)
        await client.publish("$JS.API.CONSUMER.MSG.NEXT.LOGS_1.collector", b"1", reply=inbox)
        first = await pulled.next_msg(timeout=10)
        await client.publish(first.reply, b"+ACK")
        await client.flush()
        while (await admin.consumer("LOGS_1", "collector"))["ack_floor"]["stream_seq"] != 1:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.3)  # the server writes the floor every 100 ms

    on_server(natsd, ack_some)
    code, out, err = partition("backup", tmp_path / "b")
    assert (code, err) == (0, "")
    assert any(line.startswith("saved stream LOGS_1 (40 messages, 11.") for line in out.splitlines())
    assert partition("restore", tmp_path / "b", url=other.url)[2] == ""
    assert messages(other, "LOGS_1") == messages(natsd, "LOGS_1")
    kept = on_server(other, lambda admin: admin.consumer("LOGS_1", "collector"))
    assert (kept["ack_floor"]["stream_seq"], kept["num_pending"]) == (1, 39)
    assert partition("plan", "--partitions", "2", url=other.url)[:2] == (0, "nothing to do\n")


def test_an_empty_stream_keeps_its_numbers(natsd, other, partition, tmp_path):
    partition("apply")
    publish(natsd, "logs.p0.web1", b"one", b"two")
    on_server(natsd, lambda admin: admin.connection.api("STREAM.PURGE.LOGS_0"))
    partition("backup", tmp_path / "b")
    assert partition("restore", tmp_path / "b", url=other.url)[2] == ""
    publish(other, "logs.p0.web1", b"three")
    assert [message["seq"] for message in messages(other, "LOGS_0")] == [3]


def test_one_stream_is_restored_next_to_the_original_under_another_name(natsd, partition, tmp_path):
    partition("apply")
    publish(natsd, "logs.p0.web1", b"one", b"two")
    partition("backup", tmp_path / "b", "--partitions", "0")
    code, out, _ = partition("restore", tmp_path / "b", "--as", "LOOK")
    assert (code, out) == (0, "restored stream LOGS_0 as LOOK (2 messages)\n")
    assert messages(natsd, "LOOK") == messages(natsd, "LOGS_0")
    code, out, _ = partition("restore", tmp_path / "b", "LOGS_0", "--as", "AGAIN", "--subjects", "a.>,b.>", "--json")
    assert json.loads(out)[0]["config"]["subjects"] == ["a.>", "b.>"]


def test_a_stream_that_exists_is_not_touched_nor_is_any_other_restored(natsd, other, partition, tmp_path):
    partition("apply", "--partitions", "2")
    partition("backup", tmp_path / "b")
    on_server(other, lambda admin: admin.create_stream({"name": "LOGS_1", "subjects": ["logs.p1.>"]}))
    code, _, err = partition("restore", tmp_path / "b", url=other.url)
    assert (code, "LOGS_1 already" in err, "--as" in err) == (78, True, True)
    assert [info["config"]["name"] for info in on_server(other, lambda admin: admin.streams())] == ["LOGS_1"]
    code, out, _ = partition("restore", tmp_path / "b", "--skip-existing", url=other.url)
    assert (code, len(out.splitlines()), "LOGS_1" in out) == (0, 5, False)
    assert partition("restore", tmp_path / "b", "--skip-existing", url=other.url)[:2] == (0, "")


@pytest.mark.parametrize("harm", ["flip", "cut", "gone"])
def test_a_damaged_file_is_found_before_anything_is_restored(natsd, other, partition, tmp_path, harm):
    partition("apply")
    publish(natsd, "logs.p0.web1", noise(200_000))
    partition("backup", tmp_path / "b")
    file = tmp_path / "b" / "LOGS_0" / "stream.tar.s2"
    whole = bytearray(file.read_bytes())
    whole[len(whole) // 2] ^= 1
    if harm == "gone":
        file.unlink()
    else:
        file.write_bytes(whole if harm == "flip" else whole[:-1])
    code, _, err = partition("restore", tmp_path / "b", url=other.url)
    assert (code, "LOGS_0/stream.tar.s2" in err) == (1, True)
    assert on_server(other, lambda admin: admin.streams()) == []


def test_a_backup_that_was_killed_is_none_and_can_be_taken_again(natsd, partition, tmp_path, monkeypatch):
    partition("apply")

    def kill(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("partitioner.backup.BackupDirectory.complete", kill)
        assert partition("backup", tmp_path / "b")[0] == 130
    code, _, err = partition("restore", tmp_path / "b")
    assert (code, "no complete backup" in err) == (78, True)
    code, _, err = partition("backup", tmp_path / "b")
    assert (code, "--replace" in err) == (78, True)
    assert partition("backup", tmp_path / "b", "--replace")[0] == 0
    with monkeypatch.context() as patched:
        patched.setattr("partitioner.backup.BackupDirectory.complete", kill)
        assert partition("backup", tmp_path / "b", "--replace")[0] == 130
    assert "no complete backup" in partition("restore", tmp_path / "b")[2]  # a part of it is new, a part is old
    assert partition("backup", tmp_path / "b", "--replace")[0] == 0
    assert {path.name for path in (tmp_path / "b").rglob("*") if path.is_file()} == {
        "stream.tar.s2",
        "backup.json",
        "fshipper-backup.json",
    }


def test_only_the_owner_may_read_a_backup(natsd, partition, tmp_path):
    partition("apply")
    before = os.umask(0)
    try:
        partition("backup", tmp_path / "b")
    finally:
        os.umask(before)
    for path in ((tmp_path / "b"), *(tmp_path / "b").rglob("*")):
        assert oct(path.stat().st_mode)[-3:] == ("700" if path.is_dir() else "600"), path


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("backup", "b", "NOPE"), 69, "no stream NOPE"),
        (("backup", "b", "--partitions", "x"), 64, "is no partition"),
        (("restore", "empty"), 78, "no complete backup"),
    ],
)
def test_what_cannot_be_saved_or_restored_is_reported(partition, tmp_path, arguments, code, said, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    partition("apply")
    got, _, err = partition(*arguments)
    assert (got, said in err) == (code, True), err


def test_a_server_that_dies_while_it_sends_leaves_no_backup(natsd, partition, tmp_path, monkeypatch):
    partition("apply")
    publish(natsd, "logs.p0.web1", *[noise(300_000, seed) for seed in range(60)])
    monkeypatch.setattr("partitioner.backup.with_admin", one_attempt)
    snapshot = stream_snapshot.snapshot

    async def killed_at_the_20th(*arguments, **more):
        number = 0
        async for chunk in snapshot(*arguments, **more):
            number += 1
            if number == 20:
                natsd.kill()
            yield chunk

    monkeypatch.setattr(stream_snapshot, "snapshot", killed_at_the_20th)
    code, _, err = partition("backup", tmp_path / "b", "LOGS_0")
    assert (code, [path for path in (tmp_path / "b").rglob("*") if path.is_file()]) == (69, []), err


def one_attempt(settings, work):
    return with_admin(settings, work, attempts=1)
