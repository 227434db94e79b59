"""Logins and failed logins: column expressions over syslog lines.

A failed password for an empty name, or for a name with a blank, has a kind of its own, `odd_name`: no account has such
a name, and it may be an attempt to forge a line (`x from 10.0.0.1 port 22 ssh2`).

Only files whose lines have a program and a process id are searched. A line has one kind; `message repeated N times` is
one line with N attempts.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

AUTH_PREFIX = 512
"""Characters of a line that are searched."""

MAX_NAME = 100
"""Maximum characters of a user or an address: a remote party can choose both."""

_MARKS = {
    "Failed password": "failed_password",
    "authentication failure;": "pam_failure",
    "nvalid user ": "invalid_user",
    "Accepted ": "accepted",
    "POSSIBLE BREAK-IN ATTEMPT": "breakin_warning",
    "sudo": "sudo_failure",
}
"""Texts in lines of each kind, in order of precedence: `Failed password for invalid user` is a failed password."""

_DETAILS = {
    "failed_password": r"Failed password for (?:invalid user )?(?<user>.*) from (?<remote>\S+) port ",
    "invalid_user": r"\]: Invalid user (?<user>.*) from (?<remote>\S+)",
    "pam_failure": r"authentication failure;(?:.*?rhost=(?<remote>\S*))?(?:.*?\buser=(?<user>\S*))?",
    "accepted": r"\]: Accepted \S+ for (?<user>.*) from (?<remote>\S+) port ",
    "breakin_warning": r"for (?<user>$)?\S+ \[(?<remote>[^\]\t]*)\] failed - POSSIBLE BREAK-IN ATTEMPT",
    "sudo_failure": (
        r"\bsudo(?:\[\d+\])?: +(?<user>\S+) : (?<remote>$)?"
        r"(?:.*incorrect password attempt|user NOT in sudoers|command not allowed)"
    ),
}
"""Patterns that confirm the kind and extract user and address."""

_FOUND = "\x01"
"""Prefix of a text that a pattern extracted: without a match the result is the line."""

_REPEATED = r"(?:message repeated (?<times>\d{1,9}) times.*?)?"
_PARTS = _FOUND + "${times}\t${remote}\t${user}"
_TIMES, _REMOTE, _USER = range(3)


def candidate_kind(head: Column) -> Column:
    """The possible kind of a line that begins with `head`, or null: a fast test that excludes most lines."""
    found = F.lit(None).cast("string")
    for mark, kind in reversed(_MARKS.items()):
        found = F.when(F.contains(head, F.lit(mark)), F.lit(kind)).otherwise(found)
    return found


def parts(head: Column, kind: Column) -> Column:
    """Repetitions, address and user of a line of `kind`, extracted in one pass; else the line or null."""
    found = F.lit(None).cast("string")
    for name, pattern in _DETAILS.items():
        whole = rf"(?s)^.*?{_REPEATED}{pattern}.*$"
        found = F.when(kind == name, F.regexp_replace(head, F.lit(whole), F.lit(_PARTS))).otherwise(found)
    return F.split(found, "\t", 3)


def is_confirmed(found: Column) -> Column:
    """Whether the line has its candidate kind, by its `parts`."""
    return F.get(found, F.lit(_TIMES)).startswith(_FOUND)


def kind(candidate: Column, name: Column) -> Column:
    """The kind of a confirmed line: a failed password for an odd name is `odd_name`."""
    odd = (candidate == "failed_password") & ((name == "") | F.contains(name, F.lit(" ")))
    return F.when(odd, "odd_name").otherwise(candidate)


def attempts(found: Column) -> Column:
    """Number of attempts of the line, by its `parts`."""
    times = F.substring(F.get(found, F.lit(_TIMES)), 2, 9)
    return F.coalesce(F.when(times != "", times).try_cast("int"), F.lit(1))  # a failed cast costs an exception


def remote(found: Column) -> Column:
    """The address, by its `parts`; empty if the line has none."""
    return F.substring(F.get(found, F.lit(_REMOTE)), 1, MAX_NAME)


def user(found: Column) -> Column:
    """The user, by its `parts`; empty if the line has none."""
    return F.substring(F.get(found, F.lit(_USER)), 1, MAX_NAME)
