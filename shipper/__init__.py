"""The shared core: values and functions (pure ring) and the edges to clock, disk and network (edge ring)."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("fshipper")
except PackageNotFoundError:  # run from an unpacked wheel, as spark-submit --py-files does
    __version__ = "0+unknown"
