r"""The lines of a text that hold escapes, with the escapes decoded, and the way back to the places of the text.

`%3D`, `%253D`, `&quot;`, `&amp;quot;`, `\u0022`, `\x22` and full-width letters stand for one printable character of
ASCII each. Blanks and control characters stay escaped: they would end a value that they are part of. Colour sequences
and characters without width stand for nothing. A line that its next one continues is joined with that.
"""

import re
from bisect import bisect_left, bisect_right
from html.entities import html5
from typing import NamedTuple

_ENCODED = (
    rb"%(?:25)*(?P<percent>[2-7A-Fa-f89][0-9A-Fa-f])"
    rb"|\\+(?:u(?P<unicode>[0-9A-Fa-f]{4})|(?:u\{|x)(?P<code>[2-7][0-9A-Fa-f])\}?|x(?P<byte>[89A-Fa-f][0-9A-Fa-f])"
    rb"|(?P<octal>[23][0-7]{2}))"
    rb"|&(?:amp;){0,4}(?:#(?P<decimal>[0-9]{2,3})|#[xX]0{0,4}(?P<hex>[2-7][0-9A-Fa-f])"
    rb"|(?P<name>quot|apos|lt|gt|equals|colon|amp|lowbar|commat|sol|bsol|comma|semi));"
    rb"|\xef(?P<wide>\xbc[\x81-\xbf]|\xbd[\x80-\x9e])"
)
_ESCAPE = re.compile(_ENCODED)
_WITH_UNSEEN = re.compile(
    rb"(?P<unseen>(?:\x1b|\\+(?:u001[bB]|x1[bB]|033|e)|#033)\[[0-9;:]{0,24}[A-Za-z]"
    rb"|\xe2\x80[\x8b-\x8f\xaa-\xae]|\xe2\x81[\xa0-\xaf]|\xef\xbb\xbf|\xc2\xad"
    rb"|=(?=\r?\n)(?<=[^\n]{60}=)\r?\n)"  # as quoted-printable text is wrapped
    rb"|(?P<shell>\\(?=\r?\n)(?<=[\s\"'\w]\\)\r?\n[ \t]*)"  # as a shell continues a line
    rb"|(?P<joint>[:=](?=[ \t|>+-]{0,8}\r?\n)[ \t]*"
    rb"(?:\r?\n[ \t]+(?=[^\s-])(?![\"']?[\w.-]+[\"']?[ \t]*[:=]|[{\[])|[|>][+-]?[ \t]*\r?\n[ \t]+))|" + _ENCODED
)
_COLOURS = (b"\x1b[", b"#033[", b"1b[", b"1B[", b"\\033[", b"\\e[", b"\xef\xbb\xbf", b"\xc2\xad")
_WIDTHLESS = re.compile(rb"\xe2[\x80\x81][\x8b-\xaf]")
_MARKS = (b"%", b"\\u", b"\\x", b"\\3", b"&", b"\xef")
_JOINTS = tuple(mark + end for mark in (b"=", b"\\") for end in (b"\n", b"\r\n"))
_JOINTS += tuple(
    f"{mark}{end}{blank}".encode() for mark in (":", "|", "-", ">") for end in ("\n", "\r\n") for blank in " \t"
)
_PRINTABLE = range(0x21, 0x7F)
_FULL_WIDTH = range(0xFF01, 0xFF5F)
"""U+FF01 is the full-width form of U+0021."""
_SURROGATES = range(0xD800, 0xE000)


class Unescaped(NamedTuple):
    """Decoded lines."""

    text: bytes
    starts: list[int]  #: in `text`, of runs of bytes that are decoded or unchanged
    places: list[int]  #: where each run begins in the original text

    def place(self, at: int) -> int:
        """The place in the original text of the byte `at` of the decoded one, or of its end."""
        run = bisect_right(self.starts, at) - 1
        return self.places[run] + at - self.starts[run]

    def end_place(self, at: int) -> int:
        """The same of the end of some bytes: what stands for nothing after them is no part of them."""
        run = bisect_left(self.starts, at)
        return self.places[run] if run < len(self.starts) and self.starts[run] == at else self.place(at)


_WIDE = re.compile(rb"\xef[\xbc\xbd]")


def unescaped(data: bytes) -> Unescaped | None:
    """The lines of `data` that hold escapes; None: there are none."""
    once = _unescaped_once(data)
    if once is None or not _WIDE.search(once.text):
        return once
    twice = _unescaped_once(once.text)  # the bytes of full-width letters were escaped
    if twice is None:
        return once
    places = [once.place(place) for place in twice.places]
    return _composed(once, twice, places)


def _composed(once: Unescaped, twice: Unescaped, places: list[int]) -> Unescaped:
    """`twice`, which was made of the text of `once`, as made of the original."""
    starts, origins = list[int](), list[int]()
    for number, (start, place) in enumerate(zip(twice.starts, twice.places, strict=True)):
        end = twice.starts[number + 1] if number + 1 < len(twice.starts) else len(twice.text)
        starts.append(start)
        origins.append(places[number])
        run = bisect_right(once.starts, place)
        while run < len(once.starts) and once.starts[run] < place + end - start:  # a run of `once` begins within
            starts.append(start + once.starts[run] - place)
            origins.append(once.places[run])
            run += 1
    return Unescaped(twice.text, starts, origins)


def _unescaped_once(data: bytes) -> Unescaped | None:
    has_unseen = any(mark in data for mark in (*_JOINTS, *_COLOURS)) or (b"\xe2" in data and _WIDTHLESS.search(data))
    if not has_unseen and not any(mark in data for mark in _MARKS):
        return None
    parts, starts, places = list[bytes](), list[int](), list[int]()
    size = at = line_end = 0

    def run(begin: int, text: bytes) -> None:
        nonlocal size
        starts.append(size)
        places.append(begin)
        parts.append(text)
        size += len(text)

    for found in (_WITH_UNSEEN if has_unseen else _ESCAPE).finditer(data):
        character, kept = _decoded(found)
        if character is None:
            continue
        begin, end = found.start() + kept, found.end()
        if begin >= line_end:
            if at < line_end:
                run(at, data[at:line_end])
            at = data.rfind(b"\n", at, begin) + 1 or at if line_end else data.rfind(b"\n", 0, begin) + 1
            at = max(at, line_end)
        line_end = data.find(b"\n", end) + 1 or len(data)  # a joint is longer than its line
        if at < begin:
            run(at, data[at:begin])
        run(begin, character)
        at = end
    if not parts:
        return None
    run(at, data[at:line_end])
    run(line_end, b"")
    return Unescaped(b"".join(parts), starts, places)


def _decoded(found: re.Match[bytes]) -> tuple[bytes | None, int]:
    """The character of an escape, and how many backslashes before it stay; None: it is none that is decoded.

    The number of backslashes before a quote is the depth of quoting; before a letter it has no meaning.
    """
    kind = found.lastgroup or ""
    digits = found[kind]
    if kind in ("unseen", "shell", "joint"):
        return {"unseen": b"", "shell": b" ", "joint": digits[:1] + b" "}[kind], 0
    if kind == "name":
        return html5[f"{digits.decode()};"].encode(), 0
    if kind == "wide":
        code = digits[1] - 0x60 if digits[0] == 0xBC else digits[1] - 0x20  # noqa: PLR2004 - two rows of the table
    elif kind in ("byte", "octal"):  # of a character in UTF-8
        return bytes((int(digits, 16 if kind == "byte" else 8),)), 0
    else:
        code = int(digits, 10 if kind == "decimal" else 16)
    if code in _FULL_WIDTH:
        code -= _FULL_WIDTH.start - 0x21
    if code > 0x7F:  # noqa: PLR2004 - no ASCII
        is_text = kind == "unicode" and code not in _SURROGATES
        return (chr(code).encode() if is_text else bytes((code,)) if kind == "percent" else None), 0
    if code not in _PRINTABLE:
        return None, 0
    keeps = kind in ("unicode", "code") and not chr(code).isalnum()
    return bytes((code,)), len(found[0]) - len(found[0].lstrip(b"\\")) - 1 if keeps else 0
