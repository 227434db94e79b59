"""How often each rule of a host's redaction fired: once in the manifest, through kills, resends and hostile headers."""

import pytest
from collecting import FILE, HOST, KilledError, PartitionHarness, kill_at
from prometheus_client import REGISTRY

from consumer.archive import journal as journals
from consumer.archive.journal import Journal
from consumer.model import Until
from producer.batcher import Encoder
from producer.transform.edits import Edits
from shipper import codec, manifest
from shipper.compression import Compressor
from shipper.model import Encoding
from tests.consumer.test_collector_edits import piece

RULES = Edits.of(redact=["token", "card"])
LINE = b"password=hunter2 card 4111 1111 1111 1111 token=abc\n"
TEXT = LINE * 6
EACH = {"password-name": 1, "card": 1, "token-name": 1}


def send(harness: PartitionHarness, start: int, end: int, header: str | None = None) -> None:
    for entry in Encoder(Compressor(Encoding.ZSTD), RULES).entries([piece(TEXT, start, end)]):
        headers = entry.headers | ({} if header is None else {codec.REDACTED: header})
        harness.bus.store(f"logs.p0.{HOST}", headers, entry.payload)


def counts(harness: PartitionHarness) -> dict[str, int]:
    sums: dict[str, int] = {}
    for segment in harness.segments():
        for rule, places in segment.redacted.items():
            sums[rule] = sums.get(rule, 0) + places
    return sums


def times(number: int) -> dict[str, int]:
    return {rule: number * places for rule, places in EACH.items()}


async def test_counts_of_all_blocks_are_summed_and_a_resend_counts_nothing_again(tmp_path):
    harness, size = PartitionHarness(tmp_path), len(LINE)
    for _ in range(2):
        send(harness, 0, 2 * size)
        send(harness, 2 * size, 3 * size)
        await harness.drain()
    send(harness, 0, 3 * size)
    await harness.drain(Until.SEALED)
    assert counts(harness) == times(3)
    send(harness, 3 * size, 6 * size)
    await harness.drain(Until.SEALED)
    assert counts(harness) == times(6)


async def test_a_block_of_which_a_part_was_there_adds_no_count(tmp_path):
    harness, size = PartitionHarness(tmp_path), len(LINE)
    send(harness, 0, 2 * size)
    await harness.drain()
    send(harness, size, 3 * size)
    await harness.drain(Until.SEALED)
    assert harness.text(file=FILE).count(b"\n") == 3
    assert counts(harness) == times(2)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", ["commit", "begin_sealing"])
async def test_a_kill_at_any_step_loses_and_doubles_no_count(step, after, harness, monkeypatch):
    send(harness, 0, len(TEXT))
    with monkeypatch.context() as patched:
        kill_at(patched, Journal, step, after=after)
        with pytest.raises(KilledError):
            await harness.drain(Until.SEALED)
    await harness.drain(Until.SEALED)
    assert counts(harness) == times(6)


def ignored() -> float:
    return REGISTRY.get_sample_value("fshipper_ignored_redacted_counts_total", {"partition": "0"}) or 0.0


HOSTILE = [
    "", "=", "a", "a=", "a=-1", "a=0", "a=1,", "a=1,a=2", "A=1", "a=1;b=2", "a=٣", "a=1.5", "é=1", "a b=1",
    "a=99999999999999999999", "a=9999999", "x" * 100_000, "a=1," * 5000 + "b=1", "<script>=1", "a\x00=1", "../..=1",
    ",".join(f"r{number}=1" for number in range(33)),
]  # fmt: skip


@pytest.mark.parametrize("header", HOSTILE)
async def test_a_header_that_is_no_count_is_ignored_and_counted_and_the_lines_are_archived(header, tmp_path):
    harness, before = PartitionHarness(tmp_path), ignored()
    send(harness, 0, len(LINE), header)
    send(harness, len(LINE), 2 * len(LINE))
    await harness.drain(Until.SEALED)
    assert harness.text(file=FILE) == b"password=[token] card [card] token=[token]\n" * 2
    assert counts(harness) == EACH
    assert ignored() == before + 1


async def test_a_host_that_invents_rules_fills_a_bounded_part_of_the_journal(tmp_path):
    harness, size = PartitionHarness(tmp_path), len(LINE)
    for number in range(6):
        names = [f"r{number}-{each}" for each in range(32)]
        send(harness, number * size, (number + 1) * size, ",".join(f"{name}=2" for name in names))
    await harness.drain(Until.SEALED)
    found = counts(harness)
    assert len(found) <= journals.MAX_FILE_RULES + 1
    assert sum(found.values()) == 6 * 32 * 2


async def test_counts_are_in_no_manifest_line_of_a_host_that_redacts_nothing(harness):
    for entry in Encoder(Compressor(Encoding.ZSTD), Edits()).entries([piece(TEXT, 0, len(TEXT))]):
        assert codec.REDACTED not in entry.headers
        harness.bus.store(f"logs.p0.{HOST}", entry.headers, entry.payload)
    await harness.drain(Until.SEALED)
    (segment,) = harness.segments()
    assert b"redacted" not in manifest.to_line(segment)
    assert manifest.from_line(manifest.to_line(segment)).redacted == {}


@pytest.mark.parametrize("value", ['{"a":"x"}', '{"a":1.5}', "[1]", '"x"', '{"a":null}'])
async def test_a_manifest_line_with_other_counts_is_damaged_and_stops_no_reader(value, harness):
    send(harness, 0, len(TEXT))
    await harness.drain(Until.SEALED)
    (segment,) = harness.segments()
    line = manifest.to_line(segment)
    assert b'"redacted":{' in line
    begin = line.index(b'"redacted":{')
    end = line.index(b"}", begin) + 1
    with pytest.raises(ValueError, match=r"\w"):
        manifest.from_line(line[:begin] + b'"redacted":' + value.encode() + line[end:])


@pytest.mark.parametrize("rules", [1, 31, 32, 33, 107, 1000])
def test_counts_travel_in_a_bounded_header(rules):
    sent = {f"a-rule-with-a-long-name-{number}": number + 1 for number in range(rules)}
    text = codec.encode_redacted(sent)
    found = dict(codec.decode_redacted(text))
    assert len(text) <= codec.MAX_REDACTED_BYTES
    assert sum(found.values()) == sum(sent.values())
    assert found == sent or codec.OTHER_RULES in found
