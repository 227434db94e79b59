"""Sign-ins and failed sign-ins, by method: column expressions over syslog lines.

A failed password for an empty name, or for a name with a blank, has a kind of its own, `odd_name`: no account has such
a name, and it may be an attempt to forge a line (`x from 10.0.0.1 port 22 ssh2`).

Only files whose lines have a program and a process id are searched. A line has one kind; `message repeated N times` is
one line with N attempts. Lines of sshd are recognised by the text after the process id, because a remote party chooses
the names in them.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from spark_analytics.metrics.sign_ins import ACCEPTED, FAILED, PASSWORD_METHODS

AUTH_PREFIX = 512
"""Characters of a line that are searched."""

MAX_NAME = 100
"""Maximum characters of a user or an address: a remote party can choose both."""

_MARKS = {
    "Failed password": "failed_password",
    "Failed keyboard-interactive": "failed_password",
    "Failed publickey": "failed_publickey",
    "authentication failure;": "pam_failure",
    "nvalid user ": "invalid_user",
    "Accepted ": "accepted",
    "POSSIBLE BREAK-IN ATTEMPT": "breakin_warning",
    "sudo": "sudo_failure",
}
"""Texts in lines of each kind, in order of precedence: `Failed password for invalid user` is a failed password."""

_SSHD = r"\]: (?:\[[^\]]{1,40}\] )?(?:message repeated (?<times>\d{1,9}) times: \[ ?)?"
"""What is before a message of sshd; some systems have an identifier in brackets there."""

_FAILED_FOR = r" for (?:invalid user )?(?<user>.*) from (?<remote>\S+) port "

_DETAILS = {
    "failed_password": rf"{_SSHD}Failed (?<method>password|keyboard-interactive\S{{0,40}}){_FAILED_FOR}",
    "failed_publickey": rf"{_SSHD}Failed (?<method>publickey){_FAILED_FOR}",
    "invalid_user": r"\]: Invalid user (?<user>.*) from (?<remote>\S+)",
    "pam_failure": r"authentication failure;(?:.*?rhost=(?<remote>\S*))?(?:.*?\buser=(?<user>\S*))?",
    "accepted": rf"{_SSHD}Accepted (?<method>\S{{1,60}}) for (?<user>.*) from (?<remote>\S+) port ",
    "breakin_warning": r"for (?<user>$)?\S+ \[(?<remote>[^\]\t]*)\] failed - POSSIBLE BREAK-IN ATTEMPT",
    "sudo_failure": (
        r"\bsudo(?:\[\d+\])?: +(?<user>\S+) : (?<remote>$)?"
        r"(?:.*incorrect password attempt|user NOT in sudoers|command not allowed)"
    ),
}
"""Patterns that confirm the kind and extract method, user and address."""

_NO_METHOD = "(?<method>$)?"
"""Defines the group `method` of a pattern that has none: the replacement names it."""

_FOUND = "\x01"
"""Prefix of a text that a pattern extracted: without a match the result is the line."""

_REPEATED = r"(?:message repeated (?<times>\d{1,9}) times.*?)?"
_PARTS = _FOUND + "${times}\t${remote}\t${method}\t${user}"
_TIMES, _REMOTE, _METHOD, _USER = range(4)


def candidate_kind(head: Column) -> Column:
    """The possible kind of a line that begins with `head`, or null: a fast test that excludes most lines."""
    found = F.lit(None).cast("string")
    for mark, kind in reversed(_MARKS.items()):
        found = F.when(F.contains(head, F.lit(mark)), F.lit(kind)).otherwise(found)
    return found


def parts(head: Column, kind: Column) -> Column:
    """Repetitions, address, method and user of a line of `kind`, extracted in one pass; else the line or null."""
    found = F.lit(None).cast("string")
    for name, pattern in _DETAILS.items():
        method = "" if "(?<method>" in pattern else _NO_METHOD
        times = "" if "(?<times>" in pattern else _REPEATED
        whole = rf"(?s)^.*?{times}{method}{pattern}.*$"
        found = F.when(kind == name, F.regexp_replace(head, F.lit(whole), F.lit(_PARTS))).otherwise(found)
    return F.split(found, "\t", 4)


def is_confirmed(found: Column) -> Column:
    """Whether the line has its candidate kind, by its `parts`."""
    return F.get(found, F.lit(_TIMES)).startswith(_FOUND)


def kind(candidate: Column, found: Column) -> Column:
    """Kind and method of a confirmed line, as `accepted publickey`; without a method the kind alone.

    A failed password for an odd name is `odd_name`.
    """
    name, method = user(found), F.get(found, F.lit(_METHOD))
    odd = (candidate == "failed_password") & ((name == "") | F.contains(name, F.lit(" ")))
    return F.concat_ws(" ", F.when(odd, "odd_name").otherwise(candidate), F.when(method != "", method))


def is_password(candidate: Column, found: Column) -> Column:
    """Whether a confirmed line accepts or refuses a password: such lines are compared by the second."""
    method = F.substring_index(F.get(found, F.lit(_METHOD)), "/", 1)
    return candidate.isin(FAILED, ACCEPTED) & method.isin(*PASSWORD_METHODS)


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
