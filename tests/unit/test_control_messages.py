"""The bytes of every control message: programs of different versions read each other's messages."""

import pytest

from shipper.control import (
    FileMark,
    FilesReply,
    FilesRequest,
    FileVerdict,
    FinishReply,
    FinishRequest,
    MarksReply,
    MarksRequest,
    PlaceReply,
    PlaceRequest,
    Receipt,
    ReceiptsReply,
    ReceiptsRequest,
    Request,
    ResendAnswer,
    ResendReply,
    ResendRequest,
    SourceMark,
    StreamAnswer,
    StreamReply,
    StreamRequest,
    as_many_as_fit,
    decode,
    encode,
    request_from_json,
)
from shipper.json_codec import tolerant, written

ID = "00c0ffee00c0ffee"
FILE = FileMark(ID, "/var/log/a.log", 0, 30, 20, 10, 40, 7, 1_700_000_000, "active")
MARK = SourceMark(ID, "/var/log/a.log", 0, 20, 30, 10, 5)
REQUESTS: list[tuple[Request, bytes]] = [
    (ReceiptsRequest(3), b'{"v": 1, "ask": "receipts", "partition": 3}'),
    (
        ReceiptsRequest(3, leaving=7, sources=(ID,)),
        b'{"v": 1, "ask": "receipts", "partition": 3, "leaving": 7, "sources": ["00c0ffee00c0ffee"]}',
    ),
    (ReceiptsRequest(3, sources=()), b'{"v": 1, "ask": "receipts", "partition": 3, "sources": []}'),
    (StreamRequest(4), b'{"v": 1, "ask": "stream", "partition": 4}'),
    (FinishRequest(5), b'{"v": 1, "ask": "finish", "partition": 5}'),
    (ResendRequest(ID, 100), b'{"v": 1, "ask": "resend", "source": "00c0ffee00c0ffee", "from": 100}'),
    (
        ResendRequest(ID, 0, "a1"),
        b'{"v": 1, "ask": "resend", "source": "00c0ffee00c0ffee", "from": 0, "archive": "a1"}',
    ),
    (MarksRequest("a1"), b'{"v": 1, "ask": "marks", "archive": "a1"}'),
    (PlaceRequest(), b'{"v": 1, "ask": "place"}'),
    (FilesRequest(), b'{"v": 1, "ask": "files"}'),
    (FilesRequest("/var/log/a.log"), b'{"v": 1, "ask": "files", "file": "/var/log/a.log"}'),
    (FilesRequest(scan=False), b'{"v": 1, "ask": "files", "scan": false}'),
]
REPLIES = [
    (
        ReceiptsReply("a1", 9, (Receipt(ID, "/f\udcff", 0, 20, 5),)),
        (
            b'{"v": 1, "archive": "a1", "through": 9, "receipts": [{"source": "00c0ffee00c0ffee", "file": "/f\\udcff",'
            b' "origin": 0, "watermark": 20, "crc": 5}]}'
        ),
    ),
    (
        ReceiptsReply("a1", 9, (Receipt(ID, "/f", 0, 20, -1, 6),), left=0),
        (
            b'{"v": 1, "archive": "a1", "through": 9, "receipts": [{"source": "00c0ffee00c0ffee", "file": "/f",'
            b' "origin": 0, "watermark": 20, "crc": -1, "told": 6}], "left": 0}'
        ),
    ),
    (
        ReceiptsReply("a1", 9, (), is_retired=True),
        b'{"v": 1, "archive": "a1", "through": 9, "receipts": [], "retired": true}',
    ),
    (
        FilesReply("r1", 1700000000123, 45, 3, 1, (FILE,)),
        (
            b'{"v": 1, "run": "r1", "clock": 1700000000123, "scanned": 45, "partition": 3, "pending": 1, "marks":'
            b' [{"source": "00c0ffee00c0ffee", "file": "/var/log/a.log", "origin": 0, "read": 30, "offset": 20,'
            b' "archived": 10, "size": 40, "sequence": 7, "changed": 1700000000, "state": "active", "ended": false}]}'
        ),
    ),
    (
        FilesReply("r1", 1, 0, 3, 0, (), 2, ("/a",), True, True, verdict=FileVerdict.UNREADABLE, reason="denied"),
        (
            b'{"v": 1, "run": "r1", "clock": 1, "scanned": 0, "partition": 3, "pending": 0, "marks": [],'
            b' "unreadable": 2, "named": ["/a"], "unsettled": true, "leaving": true, "verdict": "unreadable",'
            b' "reason": "denied"}'
        ),
    ),
    (ResendReply(ResendAnswer.GONE), b'{"v": 1, "answer": "gone"}'),
    (ResendReply(ResendAnswer.EXCLUDED), b'{"v": 1, "answer": "gone", "why": "excluded"}'),
    (ResendReply(ResendAnswer.RESENT), b'{"v": 1, "answer": "resent"}'),
    (ResendReply(ResendAnswer.LASTING), b'{"v": 1, "answer": "resent", "lasting": true}'),
    (ResendReply(ResendAnswer.ARCHIVED, 50), b'{"v": 1, "answer": "archived", "watermark": 50}'),
    (
        MarksReply((MARK, MARK._replace(ended=True, excluded=True))),
        (
            b'{"v": 1, "marks": [{"source": "00c0ffee00c0ffee", "file": "/var/log/a.log", "origin": 0, "offset": 20,'
            b' "size": 30, "archived": 10, "elsewhere": 5, "ended": false}, {"source": "00c0ffee00c0ffee",'
            b' "file": "/var/log/a.log", "origin": 0, "offset": 20, "size": 30, "archived": 10, "elsewhere": 5,'
            b' "ended": true, "excluded": true}]}'
        ),
    ),
    (PlaceReply(2, 7), b'{"v": 1, "partition": 2, "version": 7}'),
    (PlaceReply(2, 7, leaving=True), b'{"v": 1, "partition": 2, "version": 7, "leaving": true}'),
    (StreamReply(StreamAnswer.CREATED), b'{"v": 1, "stream": "created"}'),
    (StreamReply(StreamAnswer.THERE), b'{"v": 1, "stream": "there"}'),
    (StreamReply(StreamAnswer.REFUSED, "full"), b'{"v": 1, "stream": "refused", "reason": "full"}'),
    (FinishReply(9, 2), b'{"v": 1, "through": 9, "open": 2}'),
]


@pytest.mark.parametrize(("message", "content"), REQUESTS)
def test_requests_have_the_bytes_of_every_version_before(message: Request, content: bytes) -> None:
    assert encode(message.to_json()) == content
    assert request_from_json(decode(content) or {}) == message


@pytest.mark.parametrize(("message", "content"), REPLIES)
def test_replies_have_the_bytes_of_every_version_before(message, content: bytes) -> None:
    assert encode(message.to_json()) == content
    assert type(message).from_json(decode(content)) == message


@pytest.mark.parametrize("message", [*REQUESTS, *REPLIES])
def test_fields_of_a_newer_version_are_ignored(message) -> None:
    message, content = message
    newer = {**(decode(content) or {}), "newer": [1]}
    assert (request_from_json(newer) if "ask" in newer else type(message).from_json(newer)) == message


@pytest.mark.parametrize(
    ("fields", "request_"),
    [
        ({"ask": "receipts", "partition": True}, ReceiptsRequest(-1)),
        ({"ask": "receipts", "partition": 10**6}, ReceiptsRequest(-1)),
        ({"ask": "receipts", "partition": 0, "leaving": 2**63}, ReceiptsRequest(0)),
        ({"ask": "receipts", "partition": 0, "sources": "x"}, ReceiptsRequest(0)),
        ({"ask": "receipts", "partition": 0, "sources": [ID, ID, 7, "x", "\ud800"]}, ReceiptsRequest(0, sources=(ID,))),
        ({"ask": "stream", "partition": "2"}, StreamRequest(-1)),
        ({"ask": "resend", "source": 7, "from": "x", "archive": "a" * 201}, ResendRequest("", -1)),
        ({"ask": "resend", "source": ID, "from": 1.0}, ResendRequest(ID, -1)),
        ({"ask": "marks", "archive": ["a"]}, MarksRequest()),
        ({"ask": ["receipts"]}, None),
        ({"ask": "newer"}, None),
        ({}, None),
    ],
)
def test_fields_that_are_no_good_count_as_absent(fields, request_) -> None:
    assert request_from_json(fields) == request_


def test_records_that_do_not_fit_are_left_out() -> None:
    receipts = [Receipt(f"{number:016x}", "/" + "x" * 4000, 0, 1, -1) for number in range(2000)]
    fit = list(as_many_as_fit(receipts))
    assert fit == receipts[: len(fit)]
    assert 500 * 1024 < len(encode(ReceiptsReply("a1", 1, tuple(fit)).to_json())) <= 512 * 1024 + 100


def test_a_mark_of_an_older_producer_has_no_sum_and_an_older_reader_sees_what_it_knows() -> None:
    assert "crc" not in written(MARK)
    assert tolerant(SourceMark, written(MARK)) == MARK
    assert tolerant(SourceMark, written(MARK._replace(crc=7))) == MARK._replace(crc=7)
    for wrong in (-1, 1 << 32, "7", None, 7.0, True):
        assert tolerant(SourceMark, {**written(MARK), "crc": wrong}) == MARK
