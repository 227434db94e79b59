"""Regular expressions on the lines of a block, by one scan of the whole block, and ranges of bytes.

A line is the text between two newlines.
"""

from collections.abc import Iterator

from shipper.linear_regex import Linear

Range = tuple[int, int]
"""Begin and end in a block's bytes."""


def lines_with(pattern: Linear, data: bytes) -> Iterator[Range]:
    """The lines in which it matches, in order, with their newlines."""
    at, last = 0, len(data) - data.endswith(b"\n")  # after a newline at the end is no line
    while at < len(data) and (found := pattern.search(data, at, len(data))) and found[0] <= last:
        begin = data.rfind(b"\n", 0, found[0]) + 1
        at = data.find(b"\n", found[0]) + 1 or len(data)
        yield begin, at


def joined(ranges: list[Range]) -> list[Range]:
    """Sorted ranges, those that touch or overlap as one."""
    out: list[Range] = []
    for begin, end in ranges:
        if out and begin <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((begin, end))
    return out


def others(ranges: list[Range], length: int) -> list[Range]:
    """What of `length` bytes is in none of the sorted ranges."""
    edges = [0, *(edge for span in ranges for edge in span), length]
    return [(begin, end) for begin, end in zip(edges[::2], edges[1::2], strict=True) if begin < end]
