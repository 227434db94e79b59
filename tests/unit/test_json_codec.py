"""Typed JSON: the bytes of every version before, and what counts as wrong in what others sent."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import pytest

from consumer.cluster import membership
from consumer.cluster.membership import Claim, Member
from shipper import heartbeat, manifest, partition_map
from shipper.heartbeat import Heartbeat, LaggingFile
from shipper.json_codec import (
    IF_SET,
    Absent,
    Name,
    count,
    exact,
    items,
    object_in,
    strict,
    table,
    text,
    tolerant,
    typed,
    written,
)
from shipper.manifest import Gap, Redaction, Removal, Segment, SourceSpan
from shipper.partition_map import PartitionMap

SOURCE = "00c0ffee00c0ffee"
BEAT = Heartbeat(version="1.2.3", partition=3, every=5.0, up=86400.5, files=12)
FULL_BEAT = replace(
    BEAT,
    up=86400.543,
    backlog=7,
    backlog_age=1.235,
    backlog_files=1,
    silent=0.5,
    shipped=9,
    rate=3333333.333,
    in_flight=2,
    held=3,
    unreadable=1,
    trouble="stream full",
    leaves=True,
    ended=True,
    refused=True,
    instance="i1",
    kernel="k1",
    run="r1",
    machine="m",
    state="/var/lib/\udcff",
    pid=7,
    other="p",
    worst=(LaggingFile(file="/var/log/ä\udcff.log", offset=7, behind=3, age=1.556, still=0.5),),
)
SEGMENT = Segment(
    collector="c1",
    partition=3,
    host="web1",
    file="/var/log/\udcff\n\u2028é.log",
    path="date=2026-11-20/p.zst",
    codec="zstd",
    lines=12,
    bytes_raw=3456,
    bytes_stored=789,
    first_seq=7,
    last_seq=9,
    first_time="2026-11-20T10:00:00.000000001Z",
    last_time="2026-11-20T11:00:00Z",
)
CUT = {"at": "2026-11-22T00:00:00Z", "bytes": 3, "source": SOURCE, "start": 1, "end": 4}
FULL_SEGMENT = replace(
    SEGMENT,
    spans=(SourceSpan(source=SOURCE, start=0, end=3456),),
    gaps=(Gap(source=SOURCE, start=10, end=20, reason="deleted"),),
    duplicates=2,
    joins=1,
    crc32="0badcafe",
    sealed_at="2026-11-21T00:01:00Z",
    filtered=100,
    edited=-7,
    redacted={"cards": 2},
    labels={"env": "é"},
    zone="Europe/Berlin",
    late=1,
    ahead=2,
    times="AAEC",
    crc32_stored="0000abcd",
    replaces=("a", "b"),
    redactions=(Redaction(**CUT, reason="r"),),
    removals=(Removal(**CUT, by="u@m", reason="doubled", path="x", kept=("y",)),),
)
PROCESS = {"instance": "i", "pid": 1, "archive": "a", "lock": "l"}
MEMBER = Member(name="c1", host="h\udcff", **PROCESS)
FULL_MEMBER = replace(
    MEMBER,
    partitions=(1, 3),
    refused=(2,),
    known=(0, 1, 2, 5),
    left=True,
    doubled=1,
    disk_size=2,
    disk_free=3,
    lease_seconds=6,
)
CLAIM = Claim(owner="c1", host="h", **PROCESS)
FULL_CLAIM = replace(
    CLAIM,
    epoch=1,
    released=True,
    applied=2,
    applied_ns=3,
    resume=4,
    plain_after_ns=5,
    created="2026",
    directory="/a",
    past="2026-11-20",
    forked="h=1",
    trouble="t",
    lease_seconds=6,
)
MAP = PartitionMap(version=3, partitions=7)
FULL_MAP = PartitionMap(version=1, partitions=2, overrides={"b": 1, "a": 9}, slots=(0, 1) * 128)
CODECS: list[tuple[Any, Any, tuple[Any, Any]]] = [
    (heartbeat.encode, heartbeat.decode, (BEAT, FULL_BEAT)),
    (manifest.to_line, manifest.from_line, (SEGMENT, FULL_SEGMENT)),
    (membership.encode, membership.to_member, (MEMBER, FULL_MEMBER)),
    (membership.encode, membership.to_claim, (CLAIM, FULL_CLAIM)),
    (partition_map.encode, partition_map.decode, (MAP, FULL_MAP)),
]
GOLDEN = Path(__file__).with_name("golden.jsonl").read_bytes().splitlines()
"""What these values are on the wire and on the disk."""


def test_what_is_stored_and_sent_has_the_bytes_of_every_version_before() -> None:
    cases = [(encode, decode, value) for encode, decode, values in CODECS for value in values]
    for (encode, decode, value), content in zip(cases, GOLDEN, strict=True):
        assert encode(value).removesuffix(b"\n") == content
        assert decode(content) == value
    assert manifest.to_line(SEGMENT).endswith(b"\n")


@pytest.mark.parametrize(
    ("spans", "numbers"), [([[3, 4], [1, 3], [2, 2]], (1, 2, 3, 4)), ([[0, 4095]] * 4096, tuple(range(4096)))]
)
def test_spans_that_overlap_hold_each_number_once(spans: list[list[int]], numbers: tuple[int, ...]) -> None:
    fields = json.loads(membership.encode(MEMBER)) | {"known": spans}
    found = membership.to_member(json.dumps(fields).encode())
    assert found is not None
    assert found.known == numbers


@dataclass(frozen=True, slots=True)
class Inner:
    number: int


@dataclass(frozen=True, slots=True)
class Sample:
    needed: Annotated[int, count(most=9)]
    named: Annotated[str, text(3), Name("n"), Absent("none")]
    flag: Annotated[bool, IF_SET] = False
    numbers: Annotated[tuple[int, ...], items(typed(int), most=2), IF_SET] = ()
    names: Annotated[dict[str, int] | None, table(count()), IF_SET] = None
    inner: Annotated[tuple[Inner, ...], items(lambda found: exact(Inner, found))] = ()


SAMPLE = {"needed": 1, "n": "abc"}
WRONG = [
    *(("needed", value) for value in (None, True, "1", 1.0, -1, 10, [], {})),
    *(("n", value) for value in (None, 1, "abcd", ["a"])),
    *(("flag", value) for value in (1, "true", None)),
    *(("numbers", value) for value in (1, "12", {"1": 1}, [True], [None])),
    *(("names", value) for value in ([], "x", {"a": -1}, {"a": "1"})),
    *(("inner", value) for value in ({}, [1], [{}], [{"number": "1"}], [{"number": 1, "more": 1}])),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_value_counts_as_absent_or_is_refused(name: str, value: object) -> None:
    found = SAMPLE | {name: value}
    absent = {key: each for key, each in SAMPLE.items() if key != name}
    assert tolerant(Sample, found) == tolerant(Sample, absent)
    for read in (strict, exact):
        with pytest.raises(ValueError, match=f"^{name}: "):
            read(Sample, found)


def test_a_field_without_a_default_is_required_and_unknown_fields_are_ignored_or_refused() -> None:
    assert tolerant(Sample, {"n": "abc"}) is None
    assert tolerant(Sample, {"needed": 1}) == Sample(1, "none")
    assert tolerant(Sample, SAMPLE | {"more": 1}) == strict(Sample, SAMPLE | {"more": 1}) == Sample(1, "abc")
    with pytest.raises(ValueError, match="unknown field more"):
        exact(Sample, SAMPLE | {"more": 1})
    for other in (None, 7, [], "x"):
        assert tolerant(Sample, other) is None
        with pytest.raises(ValueError, match="no JSON object"):
            exact(Sample, other)


def test_a_field_is_left_out_only_while_it_has_its_default() -> None:
    assert written(Sample(0, "")) == {"needed": 0, "n": "", "inner": []}
    full = Sample(1, "a", flag=True, numbers=(0, 1), names={}, inner=(Inner(2),))
    assert json.loads(json.dumps(written(full))) == {
        "needed": 1,
        "n": "a",
        "flag": True,
        "numbers": [0, 1],
        "names": {},
        "inner": [{"number": 2}],
    }
    assert exact(Sample, written(full)) == full


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b"null",
        b"[" * 100_000,
        b'{"v":' * 100_000,
        b"\xff",
        b'{"v":1,"a":NaN}',
        b'{"v":1,"a":-Infinity}',
        b'{"v":2}',
    ],
)
def test_what_is_no_object_of_the_version_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"^no JSON"):
        object_in(content, version=1)
