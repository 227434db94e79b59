"""The shared core: values and functions (pure ring) and the edges to clock, disk and network (edge ring)."""


def __getattr__(name: str) -> str:
    """`__version__`, read on first use, because reading package metadata takes a tenth of a program's start."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    try:
        return version("fshipper")
    except PackageNotFoundError:  # run from an unpacked wheel, as spark-submit --py-files does
        return "0+unknown"
