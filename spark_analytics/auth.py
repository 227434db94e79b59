"""Who logged in and who failed to: column expressions over syslog lines, and table `auth_daily`.

Looked for in files whose lines name a program and its number. A line is of one kind; `message repeated N times` is one
line that stands for N attempts.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from spark_analytics import schemas

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
    "breakin_warning": r"for (?<user>$)?\S+ \[(?<remote>[^\]]*)\] failed - POSSIBLE BREAK-IN ATTEMPT",
    "sudo_failure": (
        r"\bsudo(?:\[\d+\])?: +(?<user>\S+) : (?<remote>$)?"
        r"(?:.*incorrect password attempt|user NOT in sudoers|command not allowed)"
    ),
}
"""What proves the kind and gives the two names."""

_REPEATED = r"message repeated (\d+) times"


def marked(line: Column) -> Column:
    """The kind that `line` seems to be of, or null: the cheap look that most lines end with."""
    head = F.substring(line, 1, AUTH_PREFIX)
    found = F.lit(None).cast("string")
    for mark, kind in reversed(_MARKS.items()):
        found = F.when(F.contains(head, F.lit(mark)), F.lit(kind)).otherwise(found)
    return found


def details(line: Column, kind: Column) -> Column:
    """(user, remote, attempts) of a line of `kind`, or null where it is none after all."""
    head = F.substring(line, 1, AUTH_PREFIX)
    found = F.lit(None).cast("struct<user:string,remote:string,attempts:int>")
    for name, pattern in _DETAILS.items():
        found = F.when((kind == name) & head.rlike(pattern), _named(head, pattern)).otherwise(found)
    return found


def _named(head: Column, pattern: str) -> Column:
    user, remote = (_group(head, pattern, name) for name in ("user", "remote"))
    times = F.coalesce(F.regexp_extract(head, _REPEATED, 1).try_cast("int"), F.lit(1))
    return F.struct(user.alias("user"), remote.alias("remote"), times.alias("attempts"))


def _group(head: Column, pattern: str, name: str) -> Column:
    names = [part.split(">", 1)[0] for part in pattern.split("(?<")[1:]]
    return F.substring(F.regexp_extract(head, pattern, names.index(name) + 1), 1, MOST_NAME)


def daily(groups: DataFrame) -> DataFrame:
    """Table `auth_daily` of grouped lines with (partition, host, auth, user, remote, attempts, lines)."""
    return (
        groups.where(F.col("auth").isNotNull() & (F.col("lines") > 0))
        .groupBy("partition", "host", F.col("auth").alias("kind"), "user", "remote")
        .agg(F.sum("lines").alias("n"), F.sum(F.col("lines") * F.col("attempts")).alias("attempts"))
        .select(*schemas.AUTH_DAILY.names)
    )
