"""Known events: kinds of masked lines that operators know, such as OOM kills, I/O errors and failed units. Pure."""

import re

NAMES = {
    "oom_kill": "OOM kill",
    "io_error": "I/O error",
    "read_only": "file system became read-only",
    "disk_full": "no space left on device",
    "segfault": "program crash (segfault)",
    "unit_failed": "failed unit",
    "cron_error": "cron error",
}
"""Every kind, and its name on the page."""

_PATTERNS = {
    "oom_kill": r"[Oo]ut of memory: Kill(?:ed)? process|A process of this unit has been killed by the OOM killer",
    "read_only": r"[Rr]emounting filesystem read-only|[Rr]emounted read-only",
    "io_error": r"I/O error, dev |Buffer I/O error|[Cc]ritical medium error|EXT\S+-fs error|Unrecovered read error",
    "disk_full": r"[Nn]o space left on device",
    "segfault": r" segfault at |: segfault at |^segfault at |general protection fault|dumped core",
    "unit_failed": r"Failed with result |entered failed state|^Failed to start |: Failed to start ",
    "cron_error": r"\(CRON\) (?:error|ERROR|FAILED)|cron.{0,80}(?:Authentication failure|FAILED to)",
}
_ANY = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _PATTERNS.items()))


def kind_of(text: str) -> str | None:
    """The kind of a masked line; None for other lines."""
    found = _ANY.search(text)
    return found.lastgroup if found else None
