"""Block <-> message headers, wire format version 1.

    Log-Id: 00c0ffee00c0ffee          Log-Span: 1048576-1310720      Log-Crc: 1a2b3c4d-5e6f7081
    Log-File: /var/log/nginx/access.log (percent-encoded)            Log-Encoding: zstd
    Log-Origin: 0    Log-Lines: 1711  Log-Time: 2026-11-20T10:00:00Z Log-Map: 0
    Log-End: rotated | deleted | truncated, with Log-Gap when unread bytes were lost
    Shipper-Excluded: 4096 (with Log-End: the configuration no longer names the file, so many bytes of it were not read)
    Log-Edits: 980-120 (bytes of the edited text, bytes left out; the map of `shipper.edit_map` follows the text)
    Log-Labels: env=prod&dc=ams (percent-encoded)
    Shipper-Redacted: password-name=3,card=1 (how often each rule of the host's redaction fired; else it is ignored)
    Shipper-Zone: Europe/Berlin (of the host; absent: UTC; what is no name of a zone counts as absent)
    Log-Handoff: 1048576-5e6f7081-00c0ffee00c0ffee (of a host that moved: up to there another partition has the source,
    its CRC there, or nothing between the dashes if it is unknown, and the identity of the archive)

A message with none of these headers is *plain*: one line from any publisher. One with only `Log-Leave: 7` of ours
is a *move marker*: its host goes by version 7 of the map, and what it sent by older ones ends here.
"""

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from shipper.errors import Poison
from shipper.model import MAX_BLOCK_BYTES, Block, Edited, Encoding, End, Handoff, Span

PREFIX = "Log-"
MAX_LABELS_BYTES = 1024
"""The longest `Log-Labels`."""
MAX_ZONE_BYTES = 64
MAX_REDACTED_BYTES = 1024
"""The longest `Shipper-Redacted`."""
MAX_REDACTED_RULES = 32
OTHER_RULES = "other"
"""The rules that are too many to be named."""
MAX_FILE_BYTES = 4096
"""The longest path that Linux opens."""
CACHED_BYTES = 1024
"""The longest `Log-File` that is remembered: content that any client may send must not fill the memory."""
_E = TypeVar("_E", Encoding, End)
_ID = re.compile(r"[0-9a-f]{16}")
_SPAN = re.compile(r"([0-9]{1,19})-([0-9]{1,19})")
_CRC = re.compile(r"([0-9a-f]{8})-([0-9a-f]{8})")
_EDITS = re.compile(r"([0-9]{1,7})-([0-9]{1,7})")
_HANDOFF = re.compile(r"([0-9]{1,18})-([0-9a-f]{8}|)-([0-9A-Za-z_]{1,64})")
_USUAL = re.compile(r"([0-9a-f]{16}) (\d{1,18})-(\d{1,18}) ([0-9a-f]{8})-([0-9a-f]{8}) (\d{1,18}) (\d{1,18})", re.ASCII)
_ZONE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,3}", re.ASCII)
_LEAVE = "Log-Leave"
_EXCLUDED = "Shipper-Excluded"
"""Not one of the `Log-` headers: collectors before this one reject those that they do not know, and ignore others.
They read `Log-End: deleted` without a gap, because the bytes are not lost."""
_ZONE = "Shipper-Zone"
"""Not one of the `Log-` headers either: collectors before this one ignore it."""
REDACTED = "Shipper-Redacted"
_RULE_COUNT = re.compile(r"([a-z][a-z0-9-]{0,39})=([1-9][0-9]{0,6})", re.ASCII)
_KNOWN = frozenset(
    {"Log-Id", "Log-File", "Log-Span", "Log-Origin", "Log-Lines", "Log-Crc", "Log-Encoding", "Log-Time"}
    | {"Log-End", "Log-Gap", "Log-Map", "Log-Edits", "Log-Labels", "Log-Handoff", _ZONE, REDACTED}
)


def is_plain(headers: Mapping[str, str]) -> bool:
    """Whether a message carries none of our headers, so that its payload is one line of any client."""
    return "Log-Id" not in headers and not any(name.startswith(PREFIX) for name in headers)


@functools.lru_cache(maxsize=4096)
def encode_path(path: str) -> str:
    """A path as header text; bytes that are no UTF-8 survive (`os.fsdecode` wrote them as surrogates)."""
    return quote(path, safe="/", errors="surrogateescape")


def decode_path(text: str) -> str:
    """The path that `encode_path` wrote."""
    return unquote(text, errors="surrogateescape")


def encode_labels(labels: Iterable[tuple[str, str]]) -> str:
    """Labels as header text."""
    return "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in labels)


def decode_labels(text: str) -> tuple[tuple[str, str], ...]:
    """The labels that `encode_labels` wrote. Raises Poison: too long, or not pairs."""
    if len(text) > MAX_LABELS_BYTES:
        raise Poison(f"header Log-Labels is longer than {MAX_LABELS_BYTES} bytes")
    pairs = [pair.partition("=") for pair in text.split("&")] if text else []
    if not all(name and equals for name, equals, _ in pairs):
        raise Poison(f"header Log-Labels is {text[:80]!r}, not name=value&name=value")
    return tuple((unquote(name), unquote(value)) for name, _, value in pairs)


def few_counts(counts: Mapping[str, int], most: int) -> dict[str, int]:
    """`counts` of at most so many rules, the largest; the sum of the others counts for `OTHER_RULES`."""
    if len(counts) <= most:
        return dict(counts)
    others = dict(counts)
    own = others.pop(OTHER_RULES, 0)
    ranked = sorted(others.items(), key=lambda item: (-item[1], item[0]))
    few, rest = ranked[: most - 1], ranked[most - 1 :]
    return dict(few) | {OTHER_RULES: own + sum(count for _, count in rest)}


def encode_redacted(counts: Mapping[str, int]) -> str:
    """How often each rule fired, as header text of a bounded length."""
    most = min(MAX_REDACTED_RULES, len(counts))
    while len(text := ",".join(f"{rule}={count}" for rule, count in few_counts(counts, most).items())) > (
        MAX_REDACTED_BYTES
    ):
        most -= 1
    return text


def decode_redacted(text: str) -> tuple[tuple[str, int], ...]:
    """The counts that `encode_redacted` wrote; empty if `text` is nothing of the kind: any client may send any text."""
    if len(text) > MAX_REDACTED_BYTES or text.count(",") >= MAX_REDACTED_RULES:
        return ()
    found = [_RULE_COUNT.fullmatch(part) for part in text.split(",")]
    counts = {each[1]: int(each[2]) for each in found if each}
    return tuple(counts.items()) if len(counts) == len(found) and max(counts.values()) <= MAX_BLOCK_BYTES else ()


def zone_name(text: str) -> str:
    """`text` if it can be the IANA name of a zone; empty if not: any client may send any text."""
    return text if len(text) <= MAX_ZONE_BYTES and _ZONE_NAME.fullmatch(text) else ""


def decoded_bytes(headers: Mapping[str, str], payload: bytes) -> int:
    """How many bytes a message's payload decodes to, as far as its headers can be believed."""
    edits = _EDITS.fullmatch(headers.get("Log-Edits", ""))
    found = _SPAN.fullmatch(headers.get("Log-Span", ""))
    size = int(edits[1]) if edits else int(found[2]) - int(found[1]) if found else 0
    return size if 0 < size <= MAX_BLOCK_BYTES else len(payload)


def to_headers(block: Block) -> dict[str, str]:
    """The headers of `block`."""
    headers = {
        "Log-Id": block.source,
        "Log-File": encode_path(block.file),
        "Log-Span": str(block.span),
        "Log-Origin": str(block.origin),
        "Log-Lines": str(block.lines),
        "Log-Crc": f"{block.block_crc:08x}-{block.source_crc:08x}",
        "Log-Time": block.read_at,
        "Log-Map": str(block.map_version),
    }
    if block.encoding is not Encoding.IDENTITY:
        headers["Log-Encoding"] = block.encoding.value
    if block.end is End.EXCLUDED:
        headers["Log-End"], headers[_EXCLUDED] = End.DELETED.value, str(block.gap)
    elif block.end is not None:
        headers["Log-End"] = block.end.value
    if block.gap and block.end is not End.EXCLUDED:
        headers["Log-Gap"] = str(block.gap)
    if block.edited is not None:
        headers["Log-Edits"] = f"{block.edited.content}-{block.edited.filtered}"
    if block.zone:
        headers[_ZONE] = block.zone
    if block.redacted:
        headers[REDACTED] = encode_redacted(dict(block.redacted))
    if block.labels:
        headers["Log-Labels"] = encode_labels(block.labels)
    if block.handoff is not None:
        offset, crc, archive = block.handoff
        headers["Log-Handoff"] = f"{offset}-{'' if crc is None else f'{crc:08x}'}-{archive}"
    return headers


def move_marker(version: int) -> dict[str, str]:
    """The headers of a host's last message in a partition that it leaves by `version` of the map."""
    return {_LEAVE: str(version)}


def leaves(headers: Mapping[str, str]) -> int | None:
    """The version of the map by which a host leaves the partition; None: the message is no move marker.

    Raises Poison: it is no number, or stands among other headers of ours.
    """
    if _LEAVE not in headers:
        return None
    if others := [name for name in headers if name.startswith(PREFIX) and name != _LEAVE]:
        raise Poison(f"header {_LEAVE} together with {others[0]}")
    return _number(headers, _LEAVE)


def from_headers(headers: Mapping[str, str]) -> Block:
    """The block that `headers` describe. Raises Poison: one is missing, unknown or not well formed; it is named."""
    if not headers.keys() <= _KNOWN:
        unknown = [name for name in headers if name.startswith(PREFIX) and name not in _KNOWN]
        if unknown:
            raise Poison(f"unknown header {unknown[0]}: written by a newer producer?")
    is_excluded = _EXCLUDED in headers and "Log-End" in headers  # the configuration no longer names its file
    source, start, end, block_crc, source_crc, origin, lines = _figures(headers)
    block = Block(
        source=source,
        file=_path(headers),
        span=Span(int(start), int(end)),
        origin=int(origin),
        lines=int(lines),
        block_crc=int(block_crc, 16),
        source_crc=int(source_crc, 16),
        encoding=_member(headers, "Log-Encoding", Encoding) or Encoding.IDENTITY,
        read_at=headers.get("Log-Time", ""),
        end=End.EXCLUDED if is_excluded else _member(headers, "Log-End", End),
        gap=_number(headers, _EXCLUDED if is_excluded else "Log-Gap", default="0"),
        map_version=_number(headers, "Log-Map", default="0"),
        edited=_edited(headers),
        labels=decode_labels(headers["Log-Labels"]) if "Log-Labels" in headers else (),
        handoff=_handoff(headers),
        zone=zone_name(headers.get(_ZONE, "")),
        redacted=decode_redacted(headers[REDACTED]) if REDACTED in headers else (),
    )
    _check(block)
    return block


def _figures(headers: Mapping[str, str]) -> tuple[str | Any, ...]:
    """Source, start, end, CRC of the block, CRC of the source, origin, lines: in one go where nothing is wrong."""
    try:
        figures = " ".join([headers[name] for name in ("Log-Id", "Log-Span", "Log-Crc", "Log-Origin", "Log-Lines")])
    except KeyError:
        figures = ""
    if found := _USUAL.fullmatch(figures):
        return found.groups()
    span, crc = _matched(headers, "Log-Span", _SPAN), _matched(headers, "Log-Crc", _CRC)
    source, origin = _matched(headers, "Log-Id", _ID)[0], _number(headers, "Log-Origin")
    return source, span[1], span[2], crc[1], crc[2], str(origin), str(_number(headers, "Log-Lines"))


def _check(block: Block) -> None:
    start, end = block.span
    if not block.origin <= start <= end:
        raise Poison(f"Log-Span {block.span} is not in order after Log-Origin {block.origin}")
    if end - start > MAX_BLOCK_BYTES:
        raise Poison(f"Log-Span {block.span} is longer than {MAX_BLOCK_BYTES} bytes")
    content, filtered = block.edited or (0, 0)
    if content > MAX_BLOCK_BYTES or filtered > end - start or (content and filtered == end - start):
        raise Poison(f"Log-Edits {content}-{filtered} does not fit Log-Span {block.span}")


def _edited(headers: Mapping[str, str]) -> Edited | None:
    if "Log-Edits" not in headers:
        return None
    found = _matched(headers, "Log-Edits", _EDITS)
    return Edited(content=int(found[1]), filtered=int(found[2]))


def _handoff(headers: Mapping[str, str]) -> Handoff | None:
    if "Log-Handoff" not in headers:
        return None
    found = _matched(headers, "Log-Handoff", _HANDOFF)
    return Handoff(int(found[1]), int(found[2], 16) if found[2] else None, found[3])


def _required(headers: Mapping[str, str], name: str, default: str | None = None) -> str:
    value = headers.get(name, default)
    if value is None:
        raise Poison(f"header {name} is missing")
    return value


def _matched(headers: Mapping[str, str], name: str, pattern: re.Pattern[str]) -> re.Match[str]:
    value = _required(headers, name)
    found = pattern.fullmatch(value)
    if not found:
        raise Poison(f"header {name} is {value[:80]!r}, not {pattern.pattern}")
    return found


def _number(headers: Mapping[str, str], name: str, default: str | None = None) -> int:
    value = _required(headers, name, default)
    if not (value.isascii() and value.isdigit() and len(value) <= len(str(1 << 63))):
        raise Poison(f"header {name} is {value[:80]!r}, not a number")
    return int(value)


def _path(headers: Mapping[str, str]) -> str:
    text = _required(headers, "Log-File")
    return _checked_path(text) if len(text) <= CACHED_BYTES else _checked_path.__wrapped__(text)


@functools.lru_cache(maxsize=4096)
def _checked_path(text: str) -> str:
    path = decode_path(text)
    if not path.startswith("/") or "\0" in path:
        raise Poison("header Log-File is not an absolute path")
    if len(path) > MAX_FILE_BYTES:
        raise Poison(f"header Log-File is longer than {MAX_FILE_BYTES} bytes")
    return path


def _member(headers: Mapping[str, str], name: str, kind: type[_E]) -> _E | None:
    value = headers.get(name)
    if value is None:
        return None
    try:
        return kind(value)
    except ValueError:
        raise Poison(f"header {name} is {value[:80]!r}; this collector knows {[m.value for m in kind]}") from None
