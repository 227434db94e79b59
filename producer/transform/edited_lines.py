"""The lines of a piece that edits changed, each with the bytes of the file that it stands for."""

from collections.abc import Iterator

from producer.transform.edits import Text
from shipper.compression import EditedLine
from shipper.edit_map import Edit, filtered_bytes
from shipper.model import Edited


def edited_lines(data: bytes, text: Text) -> Iterator[EditedLine]:
    """All of `data`. What is left out goes with the next line; if there is none, it has no content."""
    at = place = 0  # up to there, in `data` and in the content
    for begin, end, edits in _groups(data, text.edits):
        yield from _untouched(data, at, begin)
        place += begin - at
        size = end - begin + sum(edit.given - edit.taken for edit in edits)
        content = text.content[place : place + size]
        yield EditedLine(data[begin:end], content, Edited(size, filtered_bytes(edits)))
        at, place = end, place + size
    yield from _untouched(data, at, len(data))


def _groups(data: bytes, edits: list[Edit]) -> Iterator[tuple[int, int, list[Edit]]]:
    """Where whole lines begin and end that edits change, with these edits."""
    group: list[Edit] = []
    at = begin = end = 0
    for edit in edits:
        first, at = at + edit.unchanged, at + edit.unchanged + edit.taken
        if group and first >= end:
            yield begin, end, group
            group = []
        if not group:
            begin = data.rfind(b"\n", 0, first) + 1
        group.append(edit)
        is_whole = edit.given and data[at - 1 : at] == b"\n"
        end = at if is_whole else data.find(b"\n", at) + 1 or len(data)
    if group:
        yield begin, end, group


def _untouched(data: bytes, begin: int, end: int) -> Iterator[EditedLine]:
    while begin < end:
        after = data.find(b"\n", begin, end) + 1 or end
        line = data[begin:after]
        yield EditedLine(line, line, None)
        begin = after
