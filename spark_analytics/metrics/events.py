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

_UNIT = r"[\w@.\\:-]+\.(?:service|socket|timer|mount|automount|scope|target|slice|path|swap)"

_PATTERNS = {
    "oom_kill": r"[Oo]ut of memory: Kill(?:ed)? process|A process of this unit has been killed by the OOM killer",
    "read_only": r"[Rr]emounting filesystem read-only|[Rr]emounted read-only",
    "io_error": r"I/O error, dev |Buffer I/O error|[Cc]ritical medium error|EXT\S+-fs error|Unrecovered read error",
    "disk_full": r"[Nn]o space left on device",
    "segfault": r" segfault at |: segfault at |^segfault at |general protection fault|dumped core",
    "unit_failed": (
        r"(?:^|\bsystemd(?:\[[^\]]{1,12}\])?: )Failed to start "
        rf"|{_UNIT}: Failed with result |{_UNIT} entered failed state"
    ),
    "cron_error": r"\(CRON\) (?:error|ERROR|FAILED)|cron.{0,80}(?:Authentication failure|FAILED to)",
}
_ANY = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _PATTERNS.items()))


def kind_of(text: str, example: str = "") -> str | None:
    """The kind of a masked line; None for other lines. `example`: such a line with the tag of its program, if known."""
    found = _ANY.search(text)
    kind = found.lastgroup if found else None
    is_of_another_program = kind == "unit_failed" and example and "systemd" not in example
    return None if is_of_another_program else kind


_DEVICE = r"\bdev(?:ice)? \(?([\w./-]+)"
_SUBJECTS = {
    "oom_kill": ("of", r"Kill(?:ed)? process \S+ \(([^)]{1,60})\)"),
    "io_error": ("on", _DEVICE),
    "read_only": ("on", _DEVICE),
    "segfault": ("of", r"([\w./-]+)(?:\[[^\]]{1,12}\])?: segfault|([\w./-]+)\[[^\]]{1,12}\] general protection"),
    "unit_failed": ("of", rf"({_UNIT})|Failed to start (.{{1,80}}?)\.?$"),
}
"""Of a kind: a preposition, and where its line names what it is about."""


def subject_of(kind: str, line: str) -> str:
    """What the line of an event is about, such as `sdb` or `postgresql.service`; empty if it does not name it."""
    found = re.search(_SUBJECTS[kind][1], line) if kind in _SUBJECTS else None
    return next((text for text in found.groups() if text and "<" not in text), "") if found else ""


def named(kind: str, subject: str) -> str:
    """`I/O error on sdb`."""
    name = NAMES.get(kind, kind)
    return f"{name} {_SUBJECTS[kind][0]} {subject}" if subject and kind in _SUBJECTS else name


URGENT = frozenset({"oom_kill", "io_error", "read_only", "disk_full"})
"""Kinds of severity `act`: memory, disk or file system is failing. The others have the lower one."""


def severity(kind: str) -> str:
    """The name of its severity (`model.Severity`)."""
    return "act" if kind in URGENT else "look"
