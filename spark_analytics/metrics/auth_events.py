"""Who logged in and who failed to: column expressions over syslog lines, and table `auth_daily`.

A failed password for a name with a blank in it, or for none, is of a kind of its own, `odd_name`: no account is called
so, and who asks for one may want to forge a line (`x from 10.0.0.1 port 22 ssh2`).

Looked for in files whose lines name a program and its number. A line is of one kind; `message repeated N times` is one
line that stands for N attempts.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from spark_analytics.tables import schemas

AUTH_PREFIX = 512
"""Characters of a line that are looked at."""

MOST_NAME = 100
"""Characters of a user or an address that are kept: both are chosen by strangers."""

_MARKS = {
    "Failed password": "failed_password",
    "authentication failure;": "pam_failure",
    "nvalid user ": "invalid_user",
    "Accepted ": "accepted",
    "POSSIBLE BREAK-IN ATTEMPT": "breakin_warning",
    "sudo": "sudo_failure",
}
"""What lines of each kind hold. In this order: `Failed password for invalid user` is a failed password."""

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
"""What proves the kind and gives the two names."""

_FOUND = "\x01"
"""Before what a pattern yielded: a line that is none of its kind stays as it was."""

_REPEATED = r"(?:message repeated (?<times>\d{1,9}) times.*?)?"
_PARTS = _FOUND + "${times}\t${remote}\t${user}"
_TIMES, _REMOTE, _USER = range(3)


def marked(head: Column) -> Column:
    """The kind that a line seems to be of that begins with `head`, or null: the cheap look that most lines end with."""
    found = F.lit(None).cast("string")
    for mark, kind in reversed(_MARKS.items()):
        found = F.when(F.contains(head, F.lit(mark)), F.lit(kind)).otherwise(found)
    return found


def parts(head: Column, kind: Column) -> Column:
    """Repetitions, address and user of a line of `kind` as texts, in one pass over it; else its text or null."""
    found = F.lit(None).cast("string")
    for name, pattern in _DETAILS.items():
        whole = rf"(?s)^.*?{_REPEATED}{pattern}.*$"
        found = F.when(kind == name, F.regexp_replace(head, F.lit(whole), F.lit(_PARTS))).otherwise(found)
    return F.split(found, "\t", 3)


def proved(found: Column) -> Column:
    """Whether the line is of the kind that it seemed to be, of `parts`."""
    return F.get(found, F.lit(_TIMES)).startswith(_FOUND)


def kind(seems: Column, name: Column) -> Column:
    """What a line is that was proved to be what it seems, by the name in it: a failed one may be odd."""
    odd = (seems == "failed_password") & ((name == "") | F.contains(name, F.lit(" ")))
    return F.when(odd, "odd_name").otherwise(seems)


def attempts(found: Column) -> Column:
    """How many attempts the line stands for, of `parts`."""
    times = F.substring(F.get(found, F.lit(_TIMES)), 2, 9)
    return F.coalesce(F.when(times != "", times).try_cast("int"), F.lit(1))  # what is no number costs an exception


def remote(found: Column) -> Column:
    """The address, of `parts`; empty where the line has none."""
    return F.substring(F.get(found, F.lit(_REMOTE)), 1, MOST_NAME)


def user(found: Column) -> Column:
    """The name, of `parts`; empty where the line has none."""
    return F.substring(F.get(found, F.lit(_USER)), 1, MOST_NAME)


def daily(groups: DataFrame) -> DataFrame:
    """Table `auth_daily` of grouped lines with (partition, host, auth, user, remote, attempts, lines)."""
    return (
        groups.where(F.col("auth").isNotNull() & (F.col("lines") > 0))
        .groupBy("partition", "host", F.col("auth").alias("kind"), "user", "remote")
        .agg(F.sum("lines").alias("n"), F.sum(F.col("lines") * F.col("attempts")).alias("attempts"))
        .select(*schemas.AUTH_DAILY.names)
    )
