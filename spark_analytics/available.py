"""How much memory there still is for this process: of the machine, and of the control groups that it is in."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

UNTOLD_BYTES = 4 << 30
"""Where the system does not say."""

_KIB, _FIELDS = 1024, 3


def available_bytes(root: Path = Path("/")) -> int:
    """What may be taken without anybody being short of it; `root` has `proc` and `sys`, as Linux does (proc(5))."""
    left = [_of_machine(root)]
    for directory, names in _groups(root):
        with contextlib.suppress(OSError, ValueError, KeyError):
            most, used, cached = names
            goes = _numbers((directory / "memory.stat").read_text())[cached]  # when memory is short
            left.append(int((directory / most).read_text()) - int((directory / used).read_text()) + goes)
    return max(0, min(left))


def _of_machine(root: Path) -> int:
    try:
        return _numbers((root / "proc/meminfo").read_text())["MemAvailable:"] * _KIB
    except (OSError, ValueError, KeyError):
        return UNTOLD_BYTES


def _groups(root: Path) -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """Each control group that this process is in, version 2 and 1, and what its files call the three numbers.

    The limit, what is used, and in `memory.stat` what of that is files. In a container outer groups are not there.
    """
    try:
        lines = [line.split(":", 2) for line in (root / "proc/self/cgroup").read_text().splitlines()]
    except (OSError, ValueError):  # a name may be of any bytes
        return
    for _, controllers, path in (line for line in lines if len(line) == _FIELDS):
        if not controllers:
            top, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            top = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        below = Path(path.lstrip("/"))
        yield from ((top / group, names) for group in (below, *below.parents))


def _numbers(text: str) -> Mapping[str, int]:
    """The number behind the name on each line."""
    return {name: int(number) for name, number, *_ in map(str.split, text.splitlines())}
