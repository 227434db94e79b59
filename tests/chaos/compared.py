"""Two long texts that should be one: where they differ, and their common part."""


def common_prefix(one: bytes, other: bytes) -> int:
    """How many bytes two texts have in common at their beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


def difference(got: bytes, expected: bytes) -> str:
    """Where two texts part."""
    at = common_prefix(got, expected)
    around = slice(max(0, at - 60), at + 60)
    return f"{len(got)} bytes for {len(expected)}, first difference at {at}: {got[around]!r} for {expected[around]!r}"
