"""How numbers read: counted nouns and sizes."""


def count(number: int, noun: str) -> str:
    """`1 line`, `2,000 lines`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def size(number: float) -> str:
    """Bytes for people, in powers of 1024: `1.5 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(number) < 1024:  # noqa: PLR2004
            return f"{number:,.0f} B" if unit == "B" else f"{number:,.1f} {unit}"
        number /= 1024
    return f"{number:,.1f} TiB"
