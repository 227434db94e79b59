"""`fshipper dlq` as people run it: a real server, a real collector, letters that it really buried."""

import asyncio
import gzip
import json
import signal
import subprocess
import sys
import zlib

import pytest
import zstandard
from harness.fleet import Fleet
from harness.natsd import NatsServer
from hostile import publish

from shipper.jetstream.admin import administration
from shipper.jetstream.connection import connect
from shipper.main import run
from shipper.settings import NatsSettings
from shipper.subjects import COLLECTOR

HOST = "web1.example.net"
FILE = "/var/log/app.log"
TEXT = b"one\ntwo\nthree\n"


@pytest.fixture
def dlq(natsd: NatsServer, capfdbinary: pytest.CaptureFixture[bytes]):
    """Runs `fshipper dlq ...` against the server; exit code, stdout, stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        capfdbinary.readouterr()
        code = run(["dlq", *arguments, "--url", natsd.url])
        sys.stdout.flush()
        said = capfdbinary.readouterr()
        return code, said.out.decode(), said.err.decode()

    return call


def damaged(
    text: bytes = TEXT,
    *,
    encoding: str = "",
    payload: bytes | None = None,
    source: str = "00000000000000a1",
    **more: str,
) -> tuple[dict[str, str], bytes]:
    """Headers and payload of a block whose sum is wrong, so that no collector applies it."""
    packed = {"zstd": zstandard.compress, "gzip": gzip.compress}.get(encoding, bytes)(text)
    headers = {
        "Log-Id": source, "Log-File": FILE, "Log-Span": f"0-{len(text)}", "Log-Origin": "0",
        "Log-Lines": str(text.count(b"\n")), "Log-Crc": f"{zlib.crc32(text) ^ 1:08x}-{zlib.crc32(text):08x}",
    }  # fmt: skip
    headers |= {"Log-Encoding": encoding} if encoding else {}
    return headers | {
        name.replace("_", "-"): value for name, value in more.items()
    }, packed if payload is None else payload


def bury(natsd: NatsServer, *letters: tuple[dict[str, str], bytes], host: str = HOST) -> None:
    """Dead letters as a collector writes them."""
    own = {"Dlq-Reason": "CRC of the payload is not what Log-Crc says", "Dlq-Stream": "LOGS_0", "Dlq-Seq": "1"}
    publish(natsd, *((f"dlq.LOGS_0.{host}", own | headers, payload) for headers, payload in letters))


def listed(dlq) -> list[dict[str, object]]:
    code, out, _ = dlq("ls", "--json", "--limit", "0")
    assert code == 0
    return [json.loads(line) for line in out.splitlines()]


def recovered(fleet: Fleet, host: str = HOST, file: str = FILE) -> bytes:
    return fleet.archived(host, f"{file}.recovered")


# -- ls and show --------------------------------------------------------------------------------------------------


def test_letters_are_listed_newest_first_by_host_stream_and_reason(fleet, natsd, dlq):
    bury(natsd, damaged(Dlq_Seq="12"), ({"Log-Id": "bad", "Dlq-Reason": "header Log-Span is missing"}, b"x"))
    bury(natsd, damaged(source="00000000000000b1"), host="db1")
    found = listed(dlq)
    assert [(each["number"], each["host"], each["stream"]) for each in found] == [
        (3, "db1", "LOGS_0"), (2, HOST, "LOGS_0"), (1, HOST, "LOGS_0"),
    ]  # fmt: skip
    assert (found[2]["bytes"], found[2]["file"], found[2]["sequence"]) == (len(TEXT), FILE, 12)
    assert dlq("ls", "--limit", "1")[1].split()[6:7] == ["3"]
    assert "CRC" in dlq("ls", "--host", "db1")[1]
    assert dlq("ls", "--host", "db")[1] == dlq("ls", "--stream", "LOGS_1")[1] == ""
    assert [json.loads(line)["number"] for line in dlq("ls", "--json", "--reason", "log-span")[1].splitlines()] == [2]


def test_nothing_that_a_letter_holds_reaches_a_terminal_as_a_command(fleet, natsd, dlq):
    evil = "\x1b]0;pwned\x07\u202e\x9b31m"
    publish(natsd, (f"dlq.LOGS_0.{HOST}", {"Dlq-Reason": evil, "X-Own": evil, "Dlq-Stream": evil}, b"\x1b[2J\x00\xff"))
    for arguments in (["ls"], ["show", "1"], ["ls", "--json"]):
        code, out, _ = dlq(*arguments)
        assert code == 0
        assert not set(out) & set("\x1b\x07\u202e\x9b\x00"), arguments
    assert "\\x1b" in dlq("show", "1")[1]
    assert "1b 5b 32 4a 00 ff" in dlq("show", "1")[1]


def test_show_gives_the_reason_and_raw_writes_the_payload_as_it_is(fleet, natsd, dlq, capfdbinary):
    noise = bytes(range(256)) * 16
    bury(natsd, damaged(payload=noise))
    code, out, _ = dlq("show", "1")
    assert code == 0
    assert "reason    CRC of the payload is not what Log-Crc says" in out
    assert "header    Log-File: /var/log/app.log" in out
    assert "00000000  00 01 02" in out
    assert "3072 bytes more" in out
    assert run(["dlq", "show", "1", "--raw", "--url", natsd.url]) == 0
    sys.stdout.flush()
    assert capfdbinary.readouterr().out == noise


def test_an_empty_list_is_reported_to_people_and_empty_for_programs(fleet, dlq):
    assert dlq("ls") == (0, "", "no dead letters\n")
    assert dlq("ls", "--host", HOST) == (0, "", "no dead letters like that\n")
    assert dlq("ls", "--json") == (0, "", "")


def test_a_number_that_does_not_exist_names_those_that_do(fleet, natsd, dlq):
    code, _, err = dlq("show", "7")
    assert (code, "no dead letter at all" in err) == (64, True)
    bury(natsd, damaged())
    for arguments in (["show", "7"], ["requeue", "7"], ["drop", "7", "--yes"], ["show", "0"]):
        code, _, err = dlq(*arguments)
        assert (code, "from 1 to 1" in err) == (64, True)


def test_without_the_stream_the_hint_is_to_apply(natsd, dlq):
    code, _, err = dlq("ls")
    assert code == 69
    assert "stream DLQ does not exist" in err
    assert "partition apply" in err


@pytest.mark.parametrize(
    "arguments",
    [["requeue"], ["drop", "--yes"], ["requeue", "1", "--all"], ["drop", "1", "--host", "x"], ["ls", "--host", "a b"]],
)
def test_a_command_without_a_selection_of_letters_is_refused(arguments, fleet, dlq):
    assert dlq(*arguments)[0] == 64


def test_a_listing_of_many_letters_holds_a_window_of_them(fleet, natsd):
    """A hundred took 40 MiB at the peak, 100,000 took 42."""
    headers = {"Dlq-Reason": "r" * 200, "Dlq-Stream": "LOGS_0", "Dlq-Seq": "1"}
    publish(natsd, *((f"dlq.LOGS_0.h{number % 7}", headers, b"x" * 50) for number in range(10_000)))
    peak = "import re, sys; from shipper.main import run; code = run(['dlq', 'ls', '--json', '--limit', '0']); "
    peak += "sys.stderr.write(re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1]); sys.exit(code)"
    done = subprocess.run(
        [sys.executable, "-c", peak], env=fleet.environment(), check=True, capture_output=True, text=True, timeout=120
    )
    assert [json.loads(line)["number"] for line in done.stdout.splitlines()] == list(range(10_000, 0, -1))
    assert int(done.stderr.split()[-1]) < 80 * 1024


# -- requeue ------------------------------------------------------------------------------------------------------


def test_the_text_of_a_letter_goes_to_a_file_next_to_the_original(fleet, natsd, dlq):
    publish(
        natsd,
        (f"logs.p0.{HOST}", *damaged(encoding="zstd")),
        (f"logs.p0.{HOST}", *damaged(b"four\n", payload=b"four\n", Log_File="relative")),
        (f"logs.p0.{'x' * 240}", {}, b"who am I"),
    )
    fleet.drain()
    reasons = [each["reason"] for each in reversed(listed(dlq))]
    assert [why[:20] for why in reasons] == ["CRC of the payload i", "header Log-File is n", "host name of 240 cha"]
    code, out, _ = dlq("requeue", "1", "2", "3")
    assert (code, out.splitlines()) == (0, [
        f"requeued 1: {len(TEXT)} bytes of text of {HOST}",
        f"requeued 2: 5 bytes of text of {HOST}",
        "requeued 3: 9 bytes of text of unknown",
    ])  # fmt: skip
    assert listed(dlq) == []
    fleet.drain("--seal")
    assert recovered(fleet) == TEXT
    assert fleet.archived(HOST, FILE) == b""
    assert recovered(fleet, file="/messages.log") == b"four\n"
    assert recovered(fleet, host="unknown", file="/messages.log") == b"who am I\n"
    (segment,) = [each for each in fleet.segments() if each.file == f"{FILE}.recovered"]
    assert (segment.lines, segment.gaps) == (3, ())


def test_a_letter_without_bytes_stays_until_it_is_dropped(fleet, natsd, dlq):
    bury(natsd, ({"Log-Id": "bad"}, b""))
    assert dlq("requeue", "1")[1] == "left 1: it holds no bytes; fshipper dlq drop 1 removes it\n"
    assert len(listed(dlq)) == 1


def test_what_was_cut_is_reported(fleet, natsd, dlq):
    bury(natsd, damaged(payload=b"y" * 10_000, Dlq_Cut="1000000"))
    assert listed(dlq)[0]["cut_from"] == 1_000_000
    assert "only the beginning was kept of the message's 1000000 bytes" in dlq("requeue", "1")[1]


def test_filters_choose_what_is_requeued_and_the_order_is_the_old_one(fleet, natsd, dlq):
    letters = [damaged(b"%d\n" % number, source=f"{number:016x}") for number in range(1, 4)]
    bury(natsd, *letters)
    bury(natsd, damaged(source="00000000000000b1"), host="db1")
    assert dlq("requeue", "--all", "--host", HOST)[1].count("requeued") == 3
    assert [each["host"] for each in listed(dlq)] == ["db1"]
    fleet.drain()
    assert recovered(fleet) == b"1\n2\n3\n"


def test_a_letter_of_another_product_is_not_published(fleet, natsd, dlq):
    publish(natsd, ("dlq.AUDIT_0.web1", {"Dlq-Stream": "AUDIT_0", "Dlq-Reason": "r"}, b"x"))
    code, _, err = dlq("requeue", "1")
    assert (code, "--subject" in err) == (64, True)
    assert len(listed(dlq)) == 1


KILLED = """
import os, signal, sys
from shipper.jetstream.message_browser import MessageBrowser
original, calls = getattr(MessageBrowser, sys.argv[1]), []
async def killed(*arguments, **named):
    calls.append(1)
    if len(calls) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return await original(*arguments, **named)
setattr(MessageBrowser, sys.argv[1], killed)
from shipper.main import run
sys.exit(run(["dlq", "requeue", "1"]))
"""


@pytest.mark.parametrize(("name", "call", "drained_between"), [("store", 2, False), ("delete", 1, True)])
def test_requeue_may_be_killed_anywhere_and_run_again_and_nothing_comes_twice(
    name, call, drained_between, fleet, natsd, dlq
):
    text = b"".join(b"%06d\n" % number for number in range(120_000))
    bury(natsd, damaged(payload=text))
    died = subprocess.run(
        [sys.executable, "-c", KILLED, name, str(call)], env=fleet.environment(), check=False, timeout=60
    )
    assert died.returncode == -signal.SIGKILL
    assert len(listed(dlq)) == 1
    if drained_between:
        fleet.drain("--seal")
    assert dlq("requeue", "1")[0] == 0
    fleet.drain()
    assert recovered(fleet) == text


# -- drop ---------------------------------------------------------------------------------------------------------


def test_dropping_needs_a_confirmation_and_reports_what_it_dropped(fleet, natsd, dlq):
    bury(natsd, damaged(), ({"Log-Id": "bad"}, b"x"))
    code, _, err = dlq("drop", "--all")
    assert (code, "--yes" in err, len(listed(dlq))) == (64, True, 2)
    code, _, err = dlq("drop", "2", "--yes")
    assert (code, len(listed(dlq))) == (0, 1)
    assert err.startswith("dropped 2: 20")
    assert f"Z {HOST} LOGS_0 1 bytes: " in err
    assert dlq("drop", "--all", "--reason", "nothing of the kind", "--yes")[::2] == (0, "")
    code, _, err = dlq("drop", "--all", "--host", HOST, "--yes")
    assert (code, err.count("dropped"), listed(dlq)) == (0, 1, [])


# -- what the server gave up --------------------------------------------------------------------------------------


async def _give_up(natsd: NatsServer, how: str) -> None:
    """Really cause an advisory: a consumer that was changed under us, or a client that terminates a message."""
    settings = NatsSettings(url=natsd.url)
    async with administration(settings) as admin:
        config = (await admin.consumer("LOGS_0", COLLECTOR))["config"]
        await admin.delete_consumer("LOGS_0", COLLECTOR)
        changed = {"ack_policy": "explicit", "max_deliver": 1, "ack_wait": 100_000_000}
        await admin.create_consumer("LOGS_0", config | changed)
    connection = await connect(settings, name="foreign", inbox="_INBOX_foreign")
    got: asyncio.Queue = asyncio.Queue()
    await connection.client.subscribe("_INBOX_foreign.x", cb=got.put)
    for _ in range(2):
        request = {"batch": 1, "expires": 5_000_000_000}
        verb = f"$JS.API.CONSUMER.MSG.NEXT.LOGS_0.{COLLECTOR}"
        await connection.client.publish(verb, json.dumps(request).encode(), reply="_INBOX_foreign.x")
    message = await asyncio.wait_for(got.get(), 10)
    if how == "term":
        await connection.client.publish(message.reply, b"+TERM not for me")
    async with administration(settings) as admin:
        async with asyncio.timeout(20):
            while not (await admin.stream("DLQ_ADV"))["state"]["messages"]:
                await asyncio.sleep(0.05)
    await connection.close()


@pytest.mark.parametrize(
    ("how", "why"), [("silence", "delivered too often"), ("term", "terminated by a client: not for me")]
)
def test_what_the_server_gives_up_delivering_is_listed(how, why, fleet, natsd, dlq):
    publish(natsd, (f"logs.p0.{HOST}", {}, b"line"))
    asyncio.run(_give_up(natsd, how))
    assert f"the server gave up delivering LOGS_0 1 to collector: {why}" in dlq("ls")[1]
    (told,) = listed(dlq)
    assert (told["kind"], told["stream"], told["sequence"], told["why"]) == ("advisory", "LOGS_0", 1, why)
    assert dlq("ls", "--stream", "LOGS_1")[1] == dlq("ls", "--host", HOST)[1] == ""
    assert "the server gave up delivering 1 message" in fleet.must("partition", "status")


def test_without_the_advisories_stream_the_letters_are_listed_all_the_same(fleet, natsd, dlq):
    bury(natsd, damaged())

    async def remove() -> None:
        async with administration(NatsSettings(url=natsd.url)) as admin:
            await admin.delete_stream("DLQ_ADV")

    asyncio.run(remove())
    code, out, err = dlq("ls")
    assert (code, "CRC" in out, "partition apply" in err) == (0, True, True)
    assert len(listed(dlq)) == 1
