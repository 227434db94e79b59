r"""Private keys from BEGIN to END, over several lines or within one line with `\n`.

A key goes on in the next piece of its file: `KeyState` keeps for each source whether one is open where a piece ends.
"""

import re
from collections import OrderedDict
from collections.abc import Iterator

from producer.redaction.named_values import Hit

MAX_KEY_BYTES = 32 * 1024
"""Longest key; what is longer is no key, and is left as it is from there on."""
MAX_OPEN = 1024
"""Sources of which it is remembered that a key is open."""
MAX_OTHER_LINES = 3
"""Lines of other text in a row after which a key that has no end is given up."""

CUT_LINE_BYTES = 16
"""A longer rest of the line of BEGIN is of a body without line ends."""

BEGIN = re.compile(rb"-----BEGIN[ +](?:[A-Z0-9]+[ +]){0,4}PRIVATE[ +]KEY(?:[ +]BLOCK)?-----")
_END = re.compile(rb"-----END[ +](?:[A-Z0-9]+[ +]){0,4}PRIVATE[ +]KEY(?:[ +]BLOCK)?-----")
_BODY = re.compile(
    rb"(?:^|[\s\"':>|\]])((?:[A-Za-z0-9+/]{16,}={0,2}|[A-Za-z0-9+/]{2,15}={1,2}|=[A-Za-z0-9+/]{4}))\\*[\"',]{0,3}\s*$"
)
_LONE = re.compile(rb"^\s*([A-Za-z0-9+/]{1,76}={0,2})\s*$")
_HEADER = re.compile(rb"(?:^|\s)(?:Proc-Type|DEK-Info|Version|Comment|Charset|Hash|MessageID|Subject)\s*:|^\s*$")
_LITERAL = re.compile(rb"\\+[nr]|[A-Za-z0-9+/]{40,}")


def private_keys(text: bytes, rule: str, *, is_open: bool = False) -> Iterator[Hit]:
    """The bodies of keys, line by line. `is_open`: a key of an earlier piece goes on."""
    at = 0
    if is_open:
        spans, at = _body(text, 0)
        yield from (Hit(*span, rule) for span in spans)
    elif (early := _END.search(text)) and not BEGIN.search(text, 0, early.start()):
        yield from (Hit(*span, rule) for span in _before_end(text, early.start()))
    while found := BEGIN.search(text, at):
        spans, at = _body(text, found.end())
        yield from (Hit(*span, rule) for span in spans)


def leaves_open(text: bytes, *, is_open: bool = False) -> bool:
    """Whether a key is open where `text` ends."""
    begins = [found.end() for found in BEGIN.finditer(text)] if b"-----BEGIN" in text else []
    if not begins and not is_open:
        return False
    last = begins[-1] if begins else 0
    return _body(text, last)[1] >= len(text) and not _END.search(text, last)


def _body(text: bytes, begin: int) -> tuple[list[tuple[int, int]], int]:
    """The lines of a body, and where it ends."""
    limit = min(len(text), begin + MAX_KEY_BYTES)
    spans, others, at = list[tuple[int, int]](), 0, begin
    while at < limit:
        line_end = text.find(b"\n", at, limit)
        line_end = limit if line_end < 0 else line_end
        if end := _END.search(text, at, line_end):
            spans += [(at, end.start())] if text[at : end.start()].strip() else []
            return spans, end.end()
        line = text[at:line_end]
        if at == begin and text[max(0, begin - 1) : begin] == b"-" and line.strip():  # the rest of the line of BEGIN
            spans += [(at, line_end)] if _LITERAL.search(line) or len(line) > CUT_LINE_BYTES else []
        elif found := (_BODY.search(line) or _LONE.search(line)):
            others = 0
            spans.append((at + found.start(1), at + found.end(1)))
        elif not _HEADER.search(line):
            others += 1
            if others >= MAX_OTHER_LINES:
                return spans, line_end
        at = line_end + 1
    return spans, at


def _before_end(text: bytes, end: int) -> list[tuple[int, int]]:
    """The lines before an END whose BEGIN is in no text that is known."""
    spans = list[tuple[int, int]]()
    line_end = end
    while line_end > max(0, end - MAX_KEY_BYTES):
        begin = text.rfind(b"\n", 0, line_end) + 1
        line = text[begin:line_end]
        found = _BODY.search(line) or _LONE.search(line)
        if found is None and line.strip():
            break
        if found:
            spans.append((begin + found.start(1), begin + found.end(1)))
        line_end = begin - 1
    return spans[::-1]


class KeyState:
    """Where keys are open: by source and offset, of the newest pieces."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[str, int], None] = OrderedDict()

    def is_open(self, source: str, offset: int) -> bool:
        """Whether a key is open at `offset` of a source."""
        return (source, offset) in self._open

    def leave_open(self, source: str, offset: int) -> None:
        """A key is open where a piece ends."""
        self._open[source, offset] = None
        while len(self._open) > MAX_OPEN:
            self._open.popitem(last=False)
