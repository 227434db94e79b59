"""Lines left out, secrets blacked out: by whole blocks, with the result of each line alone."""

import random
import re
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from producing import Host, append

from producer.batcher import Encoder
from producer.fingerprint import Mark
from producer.host_zone import HostZones
from producer.model import Piece
from producer.transform.edits import NO_EDITS, Edits
from shipper import codec
from shipper.compression import Compressor, Decompressor
from shipper.edit_map import from_map
from shipper.model import MAX_BLOCK_BYTES, Encoding, Span

PATTERNS = [
    "DEBUG", "b+", "^a", "a$", "^$", "^b*$", r"\s", r"\S+\s\S+", "[^x]*b", "a.b", "(?s)a.*b", r"\Aa", "a|^b",
    "(?i)A", r"\W", r"\bb", "x*", "[ab]{2}", "(a)(b)?", r"a\nb", "a[^b]*$", r"[\s,]b", ".$", r"\r",
    "a.", "a.*", "b.{1,2}", "[ab].+", "(?:ab)+", "b[a-b]", r"\d{2,}", "ü", "a.*$", "(?i)ü",
]  # fmt: skip
TEXTS = st.lists(
    st.sampled_from([b"a", b"b", b"ab", b"x", b" ", b"\n", b"\r\n", b"\n\n", b"\r", b"12", "ü".encode(), b"DEBUG"]),
    max_size=24,
).map(b"".join)


def piece(data: bytes, **more: object) -> Piece:
    return Piece("0" * 16, "/f", 0, Span(0, len(data)), data, zlib.crc32(data), Mark(), **more)  # type: ignore[arg-type]


def edited(text: bytes, lead: bytes = b"", **settings: object) -> bytes:
    made = Edits.of(**settings).of_piece(piece(text, lead=lead))  # type: ignore[arg-type]
    return text if made is None else made.content


def lines(text: bytes) -> list[bytes]:
    return re.findall(rb"[^\n]*\n|[^\n]+", text)


def found_in(pattern: str, line: bytes) -> bool:
    """Whether a pattern is found in a line that is alone in the world, with or without the CR at its end."""
    regex, body = re.compile(pattern.encode(), re.MULTILINE), line.removesuffix(b"\n")
    return any(regex.search(alone) for alone in (body, body.removesuffix(b"\r")))


@given(TEXTS, st.sampled_from(PATTERNS), st.sampled_from(PATTERNS), st.sampled_from(PATTERNS))
def test_of_lines_to_keep_those_to_drop_are_left_out(text: bytes, keep: str, also: str, drop: str) -> None:
    kept = [line for line in lines(text) if found_in(keep, line) or found_in(also, line)]
    expected = b"".join(line for line in kept if not found_in(drop, line))
    assert edited(text, keep_lines=[keep, also], drop_lines=[drop]) == expected


@given(TEXTS, st.sampled_from([pattern for pattern in PATTERNS if pattern not in {r"\r", ".$"}]))
def test_what_is_blacked_out_is_what_the_pattern_matches_in_each_line_without_its_end(
    text: bytes, pattern: str
) -> None:
    regex, expected = re.compile(pattern.encode(), re.MULTILINE), []
    for line in lines(text):
        body = line.removesuffix(b"\n").removesuffix(b"\r")
        expected += [regex.sub(lambda m: b"[redacted]" if m[0] else b"", body), line[len(body) :]]
    assert edited(text, redact=[pattern]) == b"".join(expected)


CARDS = {
    b"card 4111111111111111 paid": b"card [card] paid",
    b"4111 1111 1111 1111": b"[card]",
    b"4111-1111-1111-1111,": b"[card],",
    b"?number=4111+1111+1111+1111&": b"?number=[card]&",
    b"378282246310005": b"[card]",
    b"6304000000000000000": b"[card]",
    b"2026-11-21 4111 1111 1111 1111 200": b"2026-11-21 [card] 200",
    b"4111 1111 1111 1111 5500 0000 0000 0004": b"[card] [card]",
    b"123 4111 1111 1111 1111 7": b"123 [card] 7",
    b"411 111 111 111 1111": b"[card]",
    b"2119 4111 1111 1111 1111 OK": b"[card] OK",
    b"order 4111111111111112": None,
    b"order 41111111111111114": None,
    b"id 94111111111111111111": None,
    b"at 1763719200123 ms": None,
    b"0.4111111111111111 s": None,
    b"4111\n1111 1111 1111": None,
}


@pytest.mark.parametrize(("text", "expected"), CARDS.items())
def test_card_numbers_go_and_other_numbers_stay(text: bytes, expected: bytes | None) -> None:
    assert edited(text, redact=["card"]) == (expected or text)


def test_times_in_milliseconds_are_no_cards() -> None:
    text = b"".join(b"%d\n" % (1763719200000 + 7919 * number) for number in range(2000))
    assert edited(text, redact=["card"]) == text


JWT = b"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"
TOKENS = {
    b'{"Authorization": "Bearer abc"}': b'{"Authorization": "Bearer [token]"}',
    b"GET /?token=abc&x=1 HTTP/1.1": b"GET /?token=[token]&x=1 HTTP/1.1",
    b'{"password": "with space", "a": 1}': b'{"password": "[token]", "a": 1}',
    b"{'api_key': 'k'}": b"{'api_key': '[token]'}",
    rb'"{\"secret\":\"abc\"}"': rb'"{\"secret\":\"[token]\"}"',
    b"client_secret=abc;": b"client_secret=[token];",
    b"aws_secret_access_key = wJalr/K7MDENG": b"aws_secret_access_key = [token]",
    b"key AKIAIOSFODNN7EXAMPLE used": b"key [token] used",
    b"jwt " + JWT + b" ok": b"jwt [token] ok",
    b'Parameters: {"password"=>"hunter2", "a"=>1}': b'Parameters: {"password"=>"[token]", "a"=>1}',
    b"token := abc": b"token := [token]",
    b"POST client_secret%3Dabc": b"POST client_secret%3D[token]",
    b"<password>a b</password>": b"<password>[token]</password>",
    b"COMMAND=mysql --password hunter2 --host db": b"COMMAND=mysql --password [token] --host db",
    b"mysql --password --host db": None,
    b"key ghp_" + b"aB3" * 12 + b" used": b"key [token] used",
    b"token > 5 and max_tokens=4096": None,
    b"tokens=5 passwords changed": None,
    b"password\n= next": None,
    b"secret:\nnext": None,
}


@pytest.mark.parametrize(("text", "expected"), TOKENS.items())
def test_of_tokens_the_name_stays_and_the_value_goes(text: bytes, expected: bytes | None) -> None:
    assert edited(text, redact=["token"]) == (expected or text)


MAILS = {
    b"from <a.b+c@mail.example.org> to": b"from <[email]> to",
    b"?user=a%40example.org&": b"?user=[email]&",
    "josé@example.org, eva@müller.example".encode(): b"[email], [email]",
    b"git@host only, @x.org": None,
    b"a\n@example.org": None,
}


@pytest.mark.parametrize(("text", "expected"), MAILS.items())
def test_mail_addresses_go(text: bytes, expected: bytes | None) -> None:
    assert edited(text, redact=["email"]) == (expected or text)


def test_one_secret_in_another_goes_with_it() -> None:
    assert edited(b"password=me@example.org!x y\n", redact=["token", "email", "g!x y"]) == b"password=[token]\n"


def test_a_text_that_would_outgrow_a_block_gets_stars_instead() -> None:
    text = b"ab\n" * (MAX_BLOCK_BYTES // 3)
    assert edited(text, redact=["a"]) == text.replace(b"a", b"*")
    assert edited(text[:3000], redact=["a"]) == text[:3000].replace(b"a", b"[redacted]")


def test_the_default_is_to_touch_nothing() -> None:
    assert not NO_EDITS.change_text
    data = b"x" * 1000
    (entry,) = Encoder(Compressor(Encoding.IDENTITY)).entries([piece(data)])
    assert entry.payload is data
    assert "Log-Edits" not in entry.headers
    assert "Log-Labels" not in entry.headers


def test_a_block_that_no_edit_touches_travels_as_ever() -> None:
    (entry,) = Encoder(Compressor(Encoding.IDENTITY), Edits.of(drop_lines=["x"], redact=["y"])).entries([piece(b"a\n")])
    assert "Log-Edits" not in entry.headers


def test_what_is_left_out_and_blacked_out_is_counted_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, int]] = []
    monkeypatch.setattr("shipper.events.text_edited", lambda **what: told.append(what))
    encoder = Encoder(Compressor(Encoding.ZSTD), Edits.of(drop_lines=["x"], redact=["y"]))
    encoder.entries([piece(b"x\nyy\n"), piece(b"xx\n"), piece(b"a\n")])
    encoder.entries([piece(b"a\n")])
    assert told == [{"filtered": 5, "edits": 2}]


def test_a_map_that_would_be_too_long_is_left_away_and_the_account_is_the_same() -> None:
    text = b"a\nDEBUG\n" * 60_000
    (entry,) = Encoder(Compressor(Encoding.ZSTD), Edits.of(drop_lines=["DEBUG"], redact=["a"])).entries([piece(text)])
    block = codec.from_headers(entry.headers)
    rest = Decompressor().rest(block, entry.payload, at=0)
    assert (rest.content, rest.filtered) == (b"*\n" * 60_000, 360_000)
    assert "Log-Edits" in entry.headers


def test_a_run_of_left_out_lines_is_one_edit() -> None:
    text = b"keep\n" + b"drop\n" * 50 + b"keep\n" + b"drop\n" * 50
    (entry,) = Encoder(Compressor(Encoding.IDENTITY), Edits.of(drop_lines=["drop"])).entries([piece(text)])
    assert entry.headers["Log-Edits"] == "10-500"
    assert from_map(entry.payload[10:]) == [(5, 250, 0), (5, 250, 0)]


# -- over-long lines and lines in parts ---------------------------------------------------------------------------


def sent(host: Host, edits: Edits, encoding: Encoding = Encoding.ZSTD) -> list[tuple[dict[str, str], bytes]]:
    """What travels of all that a host has to read: headers and text."""
    entries = Encoder(Compressor(encoding), edits, (("env", "prod"),)).entries(host.read_all())
    unpack = Decompressor()
    return [(e.headers, unpack.decode(codec.from_headers(e.headers), e.payload)) for e in entries]


def shipped(host: Host, edits: Edits) -> bytes:
    return b"".join(text for _, text in sent(host, edits))


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
def test_an_over_long_line_is_judged_by_its_first_piece(plain: bool, restarts: bool, tmp_path: Path) -> None:
    long = b"DEBUG " + b"y" * 20_000 + b"\n"
    other = b"z" * 9000 + b" DEBUG\n"
    edits = Edits.of(drop_lines=["DEBUG"])
    (tmp_path / "app.log").write_bytes(b"one\n" + long + b"two\n" + other + b"three\n")
    host = Host(tmp_path, "app.log", edits=edits, plain=plain)
    encoder, text = Encoder(Compressor(Encoding.IDENTITY), edits), b""
    while pieces := host.read(1):
        for entry in encoder.entries(pieces):
            text += Decompressor().decode(codec.from_headers(entry.headers), entry.payload)
        if restarts:
            host.acknowledge()
            host.save()
            host.restart()
    assert text == b"one\ntwo\n" + other + b"three\n"


@pytest.mark.parametrize("restarts", [False, True])
def test_the_rest_of_a_line_that_once_shipped_goes_where_its_beginning_went(restarts: bool, tmp_path: Path) -> None:
    path, edits = tmp_path / "app.log", Edits.of(keep_lines=["keep"], drop_lines=["secret"])
    path.write_bytes(b"keep one\nkeep tw")
    host = Host(tmp_path, "app.log", edits=edits, once=True)
    assert shipped(host, edits) == b"keep one\nkeep tw"
    host.acknowledge()
    host.save()
    host.restart(while_down=lambda: append(path, b"o secret\nother be"))
    assert shipped(host, edits) == b"o secret\n"
    host.acknowledge()
    host.save()
    host.restart(while_down=lambda: append(path, b"gins to keep\nkeep\n"))
    assert shipped(host, edits) == b"keep\n"


def test_the_line_start_is_searched_further_back_than_one_chunk(tmp_path: Path) -> None:
    path, edits = tmp_path / "app.log", Edits.of(drop_lines=["^DEBUG"])
    path.write_bytes(b"DEBUG\nkeep " + b"DEBUG " * 60_000)
    host = Host(tmp_path, "app.log", edits=edits, once=True)
    assert shipped(host, edits).startswith(b"keep DEBUG")
    host.acknowledge()
    host.save()
    host.restart(while_down=lambda: append(path, b"DEBUG\nDEBUG\n"))
    assert shipped(host, edits) == b"DEBUG\n"


def test_a_restart_knows_which_piece_came_first(tmp_path: Path) -> None:
    edits = Edits.of(drop_lines=["DEBUG"], redact=["card"])
    (tmp_path / "app.log").write_bytes(b"a " * 2000 + b"y" * 92 + b"DEBUG" + b" b" * 4000 + b"\n")
    host = Host(tmp_path, "app.log", edits=edits)
    (first,) = host.read(1)
    assert first.data.endswith(b"a ")  # cut where no word is cut in two, so the pattern is in the second piece
    host.acknowledge()
    host.save()
    host.restart()
    (second,) = host.read(1)
    assert second.lead == first.data
    host.acknowledge()
    host.save()
    host.restart()
    assert {piece.lead for piece in host.read_all()} == {first.data}


def test_without_edits_no_piece_carries_a_lead(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_bytes(b"y" * 20_000 + b"\n")
    host = Host(tmp_path, "app.log")
    assert {piece.lead for piece in host.read_all()} == {b""}


def test_an_over_long_line_is_not_cut_inside_a_character(tmp_path: Path) -> None:
    for before in range(5):
        path = tmp_path / str(before) / "app.log"
        path.parent.mkdir()
        path.write_bytes(b"x" * before + "é✓😀".encode() * 3000)
        host = Host(path.parent, path.name, once=True)
        pieces = [piece.data for piece in host.read_all()]
        assert len(pieces) > 2
        assert b"".join(pieces) == path.read_bytes()
        for data in pieces:
            data.decode()
        host.kill()


def test_bytes_that_are_no_utf_8_are_cut_at_the_block_as_ever(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_bytes(b"\xbf" * 10_000)
    host = Host(tmp_path, "app.log", once=True)
    assert [len(piece.data) for piece in host.read_all()] == [4096, 4096, 1808]


@pytest.mark.parametrize(
    "secret", [b"4111 1111 1111 1111", b"Authorization: Bearer abcdef", b"me@example.org", b"my old aunt"]
)
def test_a_secret_in_an_over_long_line_is_not_cut_in_two(secret: bytes, tmp_path: Path) -> None:
    edits = Edits.of(redact=["card", "token", "email", "my old aunt"])
    for shift in range(40):
        path = tmp_path / str(shift) / "app.log"
        path.parent.mkdir()
        words = b"word " * 705 + b"y" * (20 + shift) + b" " + secret + b" word" * 900
        path.write_bytes(words)
        host = Host(path.parent, path.name, edits=edits, once=True)
        pieces = [headers["Log-Span"] for headers, _ in sent(host, edits)]
        assert len(pieces) > 2
        host.kill()
        host = Host(path.parent, path.name, edits=edits, once=True)
        text = shipped(host, edits)
        assert secret.split()[-1] not in text
        assert text.count(b"word") == 1605
        host.kill()


# -- messages -----------------------------------------------------------------------------------------------------


def test_in_plain_mode_left_out_lines_travel_with_the_next_line_that_is_kept(tmp_path: Path) -> None:
    edits = Edits.of(drop_lines=["DEBUG"])
    (tmp_path / "app.log").write_bytes(b"DEBUG\nDEBUG\none\ntwo\nDEBUG\n")
    host = Host(tmp_path, "app.log", edits=edits, plain=True)
    entries = Encoder(Compressor(Encoding.PLAIN), edits).entries(host.read_all())
    assert [(e.headers["Log-Span"], e.payload, e.headers.get("Log-Edits")) for e in entries] == [
        ("0-16", b"one", "4-12"),
        ("16-20", b"two", None),
        ("20-26", b"", "0-6"),
    ]


def test_pieces_of_which_nothing_is_left_travel_together_up_to_a_block() -> None:
    text = b"DEBUG\n" * 140_000
    size = 120_000
    pieces = [
        Piece("0" * 16, "/f", 0, Span(at, at + size), text[at : at + size], at, Mark())
        for at in range(0, len(text), size)
    ]
    pieces.insert(2, Piece("1" * 16, "/g", 0, Span(0, 2), b"x\n", 0, Mark()))
    entries = Encoder(Compressor(Encoding.ZSTD), Edits.of(drop_lines=["DEBUG"])).entries(pieces)
    assert [e.headers["Log-Span"] for e in entries] == ["0-240000", "0-2", "240000-720000", "720000-840000"]
    assert [e.piece.source_crc for e in entries] == [120_000, 0, 600_000, 720_000]
    assert sum(len(e.payload) for e in entries) < 100


def test_random_edits_of_real_blocks_keep_the_sums(tmp_path: Path) -> None:
    rng = random.Random(7)
    words = [b"DEBUG", b"INFO", b"id=%d", b"a@b.example", b"x" * 50, b"4111111111111111"]
    text = b"".join(b" ".join(rng.choices(words, k=5)) + b"\n" for _ in range(3000))
    (tmp_path / "app.log").write_bytes(text)
    zones = HostZones.of("Europe/Berlin", {})
    edits = Edits.of(drop_lines=["^DEBUG"], redact=["card", "email"], zones=zones)
    host = Host(tmp_path, "app.log", edits=edits, block=8192)
    kept = b"".join(line for line in text.splitlines(keepends=True) if not line.startswith(b"DEBUG"))
    got = sent(host, edits)
    expected = kept.replace(b"4111111111111111", b"[card]").replace(b"a@b.example", b"[email]")
    assert b"".join(text for _, text in got) == expected
    assert {headers["Log-Labels"] for headers, _ in got} == {"env=prod"}
    assert {headers["Shipper-Zone"] for headers, _ in got} == {"Europe/Berlin"}
