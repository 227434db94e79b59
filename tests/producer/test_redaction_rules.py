"""Redaction by the rules of the file: each rule's own lines, a corpus, and drawn names, quoting, nesting and values."""

import html
import json
import re
import shlex
import urllib.parse
from collections.abc import Callable
from pathlib import Path

import pytest

from producer.redaction.detectors import after_lead, detector
from producer.redaction.rules import Rule, built_in
from producer.transform.edits import Edits
from shipper.model import Span
from tests.producer.test_producer_edits_lines import edited, piece

CORPUS = Path(__file__).parent / "redaction_corpus"
SECRET = re.compile(r"hunt|er2|two|aHVud")


@pytest.mark.parametrize("rule", built_in(), ids=lambda rule: rule.id)
def test_a_rule_redacts_its_own_lines_and_no_others(rule: Rule) -> None:
    assert rule.hits, "a rule shows what it is for"
    assert rule.misses, "and what it leaves alone"
    for before, after in rule.examples():
        assert edited(before, redact=[rule.kind]) == after
        fired = {hit.rule for hit in detector(rule.kind)(before)}
        assert before == after or rule.id in fired


def test_no_two_rules_have_one_id() -> None:
    ids = [rule.id for rule in built_in()]
    assert len(set(ids)) == len(ids)


def corpus(name: str) -> list[str]:
    return (CORPUS / name).read_text("utf-8").splitlines()


def test_nothing_of_a_secret_stays() -> None:
    lines = corpus("secrets.txt")
    assert [line for line in lines if not SECRET.search(line)] == []
    assert [line for line in lines if SECRET.search(edited(line.encode(), redact=["token"]).decode())] == []


def test_a_line_without_a_secret_stays() -> None:
    assert [line for line in corpus("innocent.txt") if edited(line.encode(), redact=["token"]).decode() != line] == []


def test_nothing_of_what_is_marked_stays() -> None:
    for line in corpus("marked.txt"):
        marked = re.findall("«([^»]*)»", line)
        text = re.sub("[«»]", "", line)
        out = edited(text.encode(), redact=["token", "card"]).decode()
        assert (out == text) == (not marked), line
        parts = {secret[at : at + 4] for secret in marked for at in range(max(1, len(secret) - 3))}
        assert [part for part in parts if part in out] == [], out


@pytest.mark.parametrize(
    "text",
    [
        "password: |\n  hunter2\nuser: a",
        "password: >-\r\n    hunter2\r\nuser: a",
        '{\n  "password" :\n    "hunter2"\n}',
        "mysql -u root --password \\\n  hunter2 db",
        f"{'x' * 60} password=3Dhun=\r\nter2&b",
        'form-data; name="password"\r\n\r\nhunter2\r\n--b',
    ],
)
def test_a_value_on_the_next_line_is_found_and_the_lines_stay(text: str) -> None:
    out = edited(text.encode(), redact=["token"]).decode()
    assert "hun" not in out
    assert "ter2" not in out
    assert out.count("\n") == text.count("\n")


@pytest.mark.parametrize("text", ["password:\n\tat a.b(C.java:3)", "secret:\n  secretName: a", "token:\n- a\n", "x=\n"])
def test_a_name_before_a_line_of_its_own_is_no_secret(text: str) -> None:
    assert edited(text.encode(), redact=["token"]).decode() == text


@pytest.mark.parametrize("name", ["password", "пароль", "contraseña"])
def test_a_name_in_any_escapes_of_its_bytes_is_known(name: str) -> None:
    wide = "".join(chr(ord(letter) + 0xFEE0) if letter.isascii() else letter for letter in name)
    for text in (name, wide):
        octets = text.encode()
        for form in ("%{:02x}", "%{:02X}", "%25{:02x}", "\\x{:02x}", "\\\\x{:02x}", "\\{:03o}"):
            plain_ascii = form.endswith("o}")  # octal escapes are written for other bytes only
            escaped = "".join(chr(at) if plain_ascii and at < 128 else form.format(at) for at in octets)
            for line in (f"GET /?{escaped}=Kq7zXw9Z&b=2 é", f"{{'{escaped}': 'Kq7z Xw9Z', 'a': 1}}"):
                out = edited(line.encode(), redact=["token"]).decode()
                assert not re.search("Kq7|Xw9", out), (line, out)
                assert out.endswith(("b=2 é", "'a': 1}")), (line, out)


NAMES = [
    "password",
    "DB_PASSWORD",
    "dbPassword",
    "client_secret",
    "X-Api-Key",
    "passwd",
    "mot_de_passe",
    "contraseña",
    "пароль",
]
VALUES = [
    *("Kq7zXw9Z", "Kq7z Xw9Z", "Kq7'Xw9Z", 'Kq7"Xw9Z', "Kq7\\Xw9Z", "Kq7,Xw9;Z&W", "Kq7@Xw9:Z/W", "Kq7}Xw9]Z)W"),
    *("Kq7<Xw9>Z", "Kq7=Xw9%Z", "Kq7éXw9Z", "Kq7$Xw9#Z!"),
]


def nested(content: object, depth: int) -> str:
    text = json.dumps(content)
    for _ in range(depth):
        text = json.dumps({"log": text + "\n", "stream": "out"})
    return text


STYLES: dict[str, Callable[[str, str, int], str]] = {
    "an object": lambda name, value, depth: nested({"user": "bob", name: value, "a": 1}, depth),
    "name and value": lambda name, value, depth: nested([{"name": name, "value": value}], depth),
    "value and name": lambda name, value, depth: nested([{"value": value, "name": name}], depth),
    "an argument list": lambda name, value, depth: nested(["tool", "--" + name, value, "--x"], depth),
    "a command": lambda name, value, depth: nested(f"tool --{name} {shlex.quote(value)} --x", depth),
    "a command in a list": lambda name, value, depth: nested([f"tool --{name}={shlex.quote(value)} --x"], depth),
    "repr": lambda name, value, _: repr({"u": "bob", name: value, "x": 1}),
    "Ruby": lambda name, value, _: f"Parameters: {{{json.dumps(name)}=>{json.dumps(value)}, 'a'=>1}}",
    "HTML": lambda name, value, depth: html.escape(nested({name: value, "b": 1}, depth)),
    "a query": lambda name, value, _: "GET /x?a=1&" + urllib.parse.urlencode({name: value, "b": 2}) + " HTTP/1.1",
    "a query in a query": lambda name, value, _: (
        "GET /x?u=" + urllib.parse.quote(urllib.parse.urlencode({name: value, "b": 2}))
    ),
    "unicode escapes": lambda name, value, depth: nested({name: value}, depth).replace('"', "\\u0022"),
    "an element": lambda name, value, _: f'<c><{name} type="x">{html.escape(value)}</{name}></c>',
    "an attribute": lambda name, value, _: f'<user name="bob" {name}="{html.escape(value)}"/>',
    "curl": lambda _, value, depth: nested(f"curl -u {shlex.quote('bob:' + value)} https://x.example", depth),
    "sshpass": lambda _, value, depth: nested(f"sshpass -p {shlex.quote(value)} ssh x", depth),
    "mysql": lambda _, value, depth: nested(f"mysql -u root -p{shlex.quote(value)} db", depth),
    "SQL": lambda _, value, __: f"CREATE USER x IDENTIFIED BY '{value.replace(chr(39), chr(39) * 2)}'",
}  # fmt: skip


@pytest.mark.parametrize("style", STYLES)
def test_no_byte_of_a_drawn_value_stays(style: str) -> None:
    for depth in range(4):
        for name in NAMES:
            for value in VALUES:
                line = STYLES[style](name, value, depth)
                out = edited(line.encode(), redact=["token"]).decode()
                assert not re.search("Kq7|Xw9", out), (line, out)
                assert "[token]" in out


KEY = (
    b"-----BEGIN RSA PRIVATE KEY-----\n"
    + b"MIIEowIBAAKCAQEA7bq5x2kz9Lr0T1yqk3v8mNwPpX4sJdFhGtUeRiOaLzCvBnMq\n" * 9
    + b"Zq9w==\n"
)
END = b"-----END RSA PRIVATE KEY-----\n"


@pytest.mark.parametrize("cut", range(40, len(KEY), 65))
def test_a_private_key_over_pieces_is_redacted_with_its_lines_kept(cut: int) -> None:
    text = b"before\n" + KEY + END + b"after\n"
    cut = text.index(b"\n", cut) + 1
    middle = text.index(b"\n", cut) + 1
    edits, out = Edits.of(redact=["token"]), b""
    for begin, end in ((0, cut), (cut, middle), (middle, len(text))):
        part = piece(text[begin:end])._replace(span=Span(begin, end))
        made = edits.of_piece(part)
        out += part.data if made is None else made.content
    assert b"MII" not in out
    assert b"Zq9w" not in out
    assert (out.count(b"\n"), out[:7], out[-6:]) == (text.count(b"\n"), b"before\n", b"after\n")


def test_a_value_whose_name_is_in_the_text_before_is_redacted() -> None:
    hits = list(after_lead(detector("token"), b"user bob password=", b"hunter2cut and more"))
    assert [(hit.begin, hit.end, hit.rule) for hit in hits] == [(0, 10, "password-name")]


def test_rules_are_counted_and_a_users_pattern_is_not_named_by_its_text() -> None:
    edits = Edits.of(redact=["token", "card", "bob"])
    made = edits.of_piece(piece(b"bob password=a1 token=b2 4111 1111 1111 1111 secret=c\n"))
    assert made is not None
    assert made.redacted == {"password-name": 2, "token-name": 1, "card": 1, "pattern-1": 1}


@pytest.mark.parametrize("charset", ["utf-32", "utf-32-le", "utf-16-le"])
def test_utf_16_and_utf_32_that_were_taken_for_bytes_are_redacted_with_stars(charset: str) -> None:
    data = "user=bob password=hunter2\n".encode(charset)
    made = Edits.of(redact=["token"]).of_piece(piece(data))
    assert made is not None
    assert made.content.decode(charset) == "user=bob password=*******\n"
    assert made.redacted == {"password-name": 1}
    assert Edits.of(redact=["token"]).of_piece(piece(b"binary \x00\x01\x02 \x00 ok\n")) is None
    assert Edits.of(drop_lines=["x"]).of_piece(piece(data)) is None
