"""Clients may publish anything on a subject: it ends in its own host's files or with the dead letters, nowhere else."""

import gzip
import tracemalloc
import zlib
from urllib.parse import quote

import pytest
import zstandard
from harness.fleet import Fleet, until
from hostile import publish
from hostile_applier import HostileApplier, Message, corpus
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from shipper.model import MAX_BLOCK_BYTES

MIB = 1024 * 1024
ENDS = {"written", "duplicate", "hole", "poison"}

# -- what is drawn ------------------------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers(0, 40),
    st.sampled_from([2**31, 2**32, 2**53 - 1, 2**53, 2**62, 2**63 - 1, 2**63, 2**64, 10**18]),
).map(str)
JUNK = st.one_of(
    st.text(max_size=30),
    st.sampled_from(["", "-1", "0x10", "1e9", "\u0664", " 1", "NaN", "9" * 40, "zstd", "ZSTD", "../..", "%ff", "%"]),
    NUMBERS,
)
PARTS = st.sampled_from(
    ["..", ".", "", "a", "%2F", "%2e%2e", "~", "_open-a", "_", "\udcff", "x" * 300, "\n", "%", "%ff", "con", "A", "*"]
)
PATHS = st.lists(PARTS, max_size=5).map(lambda parts: "/" + "/".join(parts))
HOSTS = st.one_of(
    st.sampled_from(
        ["h", "H", "a%2Fb", "..", ".", "_archive.json", "live", "x" * 199, "x" * 201, "b\u00fccher", "\udcff"]
    ),
    st.lists(PARTS.filter(bool), min_size=1, max_size=3).map(".".join),
)
SUBJECTS = st.one_of(
    HOSTS.map("logs.p0.{}".format),
    st.sampled_from(["logs.p0.", "logs.p", "logs.p0", "x", "", "logs.p9999999.h", "dlq.x"]),
)
TEXT = b"".join(b"%d bottles\n" % number for number in range(40))


@st.composite
def blocks(draw: st.DrawFn) -> Message:
    """A block as a producer sends it, of which something may be spoiled."""
    start = draw(st.integers(0, 60))
    end = draw(st.integers(start, 120))
    content = TEXT[start:end]
    encoding = draw(st.sampled_from(["", "zstd", "gzip", "plain", "identity"]))
    headers = {
        "Log-Id": draw(st.sampled_from(["00000000000000a1", "00000000000000b2"])),
        "Log-File": quote(draw(PATHS), safe="/", errors="surrogateescape"),
        "Log-Span": f"{start}-{end}",
        "Log-Origin": draw(st.sampled_from(["0", str(start)])),
        "Log-Lines": str(content.count(b"\n")),
        "Log-Crc": f"{zlib.crc32(content):08x}-{zlib.crc32(TEXT[:end]):08x}",
    }
    headers |= {"Log-Encoding": encoding} if encoding else {}
    headers |= draw(
        st.dictionaries(st.sampled_from(["Log-End", "Log-Gap", "Log-Edits", "Log-Labels", "Log-Map"]), JUNK, max_size=2)
    )
    payload = {"zstd": zstandard.compress, "gzip": gzip.compress}.get(encoding, bytes)(content)
    for name, value in draw(
        st.dictionaries(st.sampled_from(sorted(headers)), JUNK, max_size=draw(st.integers(0, 2)))
    ).items():
        headers[name] = value
    headers |= draw(st.dictionaries(st.text(max_size=8), JUNK, max_size=1))
    spoiled = draw(st.sampled_from([payload, payload[:-1], payload + b"x", b"", payload * 2, bytes(reversed(payload))]))
    return Message(subject=draw(SUBJECTS), headers=headers, payload=spoiled if draw(st.booleans()) else payload)


PLAIN = st.builds(
    Message,
    subject=SUBJECTS,
    headers=st.dictionaries(st.text(max_size=8), JUNK, max_size=2),
    payload=st.binary(max_size=40),
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(messages=st.lists(st.one_of(blocks(), PLAIN), min_size=1, max_size=12))
def test_whatever_comes_ends_in_one_of_four_ways_and_inside_the_archive(tmp_path_factory, messages):
    assume(all(len(message.payload) <= MIB for message in messages))
    applier = HostileApplier(tmp_path_factory.mktemp("applier"))
    assert set(applier.judge(messages)) <= ENDS
    applier.close()


# -- what is kept -------------------------------------------------------------------------------------------------


def test_each_message_of_the_corpus_becomes_what_it_always_became(tmp_path):
    applier, messages = HostileApplier(tmp_path), corpus()
    outcomes = applier.judge(messages)
    assert {m.name: o for m, o in zip(messages, outcomes, strict=True)} == {m.name: m.becomes for m in messages}
    applier.close()
    assert len({message.name for message in messages}) == len(messages) > 80


def test_the_corpus_on_a_real_server_stops_no_collector_and_no_other_host(tmp_path, natsd):
    wild = [
        message
        for message in corpus()
        if message.subject.startswith("logs.p0.") and not set(message.subject) & set(" \r\n\t")
    ]
    with Fleet(tmp_path, natsd.url, partitions=1) as fleet:
        fleet.apply()
        sent = 0
        for number, message in enumerate(wild):
            publish(natsd, ("logs.p0.good.net", {}, b"good %d" % number))
            head = "".join(f"{name}: {value}\r\n" for name, value in message.headers.items())
            if set(message.subject[8:].split(".")) & {"", "*", ">"} or "\0" in head:
                continue
            publish(natsd, (message.subject, head.encode("utf-8", "surrogateescape"), message.payload))
            sent += 1
        assert sent > 70
        beside = {path.name for path in tmp_path.iterdir()} | {"archive", "state", "consume-0.log"}
        collector = fleet.consume()
        until(lambda: fleet.lag() == 0, what=lambda: collector.log)
        good = b"".join(b"good %d\n" % number for number in range(len(wild)))
        until(lambda: fleet.archived("good.net", "messages.log") == good, what=lambda: collector.log)
        assert collector.stop() == 0
        assert {path.name for path in tmp_path.iterdir()} == beside
        assert {path.name.partition("=")[0] for path in fleet.archive.iterdir()} <= {
            "date", "live", "_archive.json", "_lock", "_manifest", "_journal",
        }  # fmt: skip


# -- memory -------------------------------------------------------------------------------------------------------


def bomb(encoding: str, payload: bytes, **more: str) -> Message:
    headers = {
        "Log-Id": "00000000000000a1", "Log-File": "/bomb", "Log-Span": f"0-{MAX_BLOCK_BYTES}", "Log-Origin": "0",
        "Log-Lines": "0", "Log-Crc": "00000000-00000000", "Log-Encoding": encoding,
    }  # fmt: skip
    return Message(
        subject="logs.p0.h", headers=headers | {k.replace("_", "-"): v for k, v in more.items()}, payload=payload
    )


def zstd(size: int, **options: object) -> bytes:
    return zstandard.ZstdCompressor(level=3, **options).compress(bytes(size))


def windowed() -> bytes:
    """A frame of few bytes that decompresses to 2 GiB."""
    parameters = zstandard.ZstdCompressionParameters(window_log=31, write_content_size=False)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return packer.compress(b"x") + packer.flush()


BOMBS = {
    "zstd": lambda: bomb("zstd", zstd(256 * MIB)),
    "zstd without size": lambda: bomb("zstd", zstd(256 * MIB, write_content_size=False)),
    "zstd window": lambda: bomb("zstd", windowed()),
    "zstd with edits": lambda: bomb("zstd", zstd(256 * MIB), Log_Edits="524288-0"),
    "gzip": lambda: bomb("gzip", gzip.compress(bytes(256 * MIB), 1)),
    "map": lambda: bomb("identity", b"\x01" * MIB, Log_Edits="0-0"),
    "map of nothing": lambda: bomb("", b"\x00\x01\x00" * 350_000, Log_Edits="0-0"),
    "headers": lambda: Message(subject="logs.p0.h", headers={f"Log-{number}": "x" * 10 for number in range(5000)}),
    "labels": lambda: Message(
        subject="logs.p0.h", headers={"Log-Labels": "a=b&" * 16_000, "Log-File": "/" + "%41" * 20_000}
    ),
}
"""Made by the test: the collection of the tests would take two seconds longer."""


@pytest.mark.parametrize("name", BOMBS)
def test_a_message_takes_no_more_memory_than_a_few_blocks(tmp_path, name):
    message = BOMBS[name]()
    applier = HostileApplier(tmp_path)
    applier.judge([message])
    tracemalloc.start()
    try:
        assert applier.judge([message]) in (["poison"], ["duplicate"])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 24 * MIB
    applier.close()
