"""The limit of a report: DuckDB makes the same groups of the same segments, in one query, with its own means.

python bare_report.py ARCHIVE DATE     JSON: {"lines": ..., "bytes": ..., "groups": ..., "hours": {file: {hour: lines}}}

Groups are by host, log file, hour, level, masked message, and who signed in; of each lines, bytes, first and last time.
It receives the time format of each log file (the report finds it by a sample) and knows nothing else: no manifests, no
other formats, no lines without a newline, no tables and no page.
"""

import json
import sys
from collections import defaultdict

import duckdb

TIMES = {
    "Hadoop Zookeeper Windows": "try_cast(line[:19] AS TIMESTAMP)",
    "OpenStack app": r"try_cast(regexp_extract(line, '(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)', 1) AS TIMESTAMP)",
    "OpenSSH Linux Mac": "try_strptime(YEAR || ' ' || line[:15], '%Y %b %d %H:%M:%S')",
    "Apache": "try_strptime(line[6:25], '%b %d %H:%M:%S %Y')",
    "BGL Thunderbird": r"make_timestamp(1000000 * try_cast(regexp_extract(line, '^\S+ (\d{10}) ', 1) AS BIGINT))",
    "HPC": r"make_timestamp(1000000 * try_cast(regexp_extract(line, '^\d+ \S+ \S+ \S+ (\d{10}) ', 1) AS BIGINT))",
    "Spark": "try_strptime(line[:17], '%y/%m/%d %H:%M:%S')",
    "HDFS": "try_strptime(line[:13], '%y%m%d %H%M%S')",
    "Android": "try_strptime(YEAR || '-' || line[:14], '%Y-%m-%d %H:%M:%S')",
    "HealthApp": r"try_strptime(regexp_extract(line, '^(\d{8}-\d+:\d+:\d+)', 1), '%Y%m%d-%H:%M:%S')",
    "Proxifier": "try_strptime(YEAR || '.' || line[2:15], '%Y.%m.%d %H:%M:%S')",
}
"""How the samples write their times, by the beginning of the file's name."""

SYSLOG = "OpenSSH Linux Mac Thunderbird"
HEADERS = {
    SYSLOG: r"^.{0,80}?[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d \S+ [^:\[]*(?:\[\d+\])?: ",
    "Hadoop Zookeeper Windows OpenStack app": (
        r"^\S*? ?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S* (?:- |\d+ )?[A-Z]\w+ +(?:\[[^\]]*\] )?(?:- |\S+: )?"
    ),
    "Spark HDFS": r"^\d\d\S* \S+ (?:\d+ )?[A-Z]+ \S+: ",
}
"""What stands before the message; of the others it is what stands before the first letter after the time."""

OTHER_HEADER = r"^[^a-z]{0,40}"
LEVEL = (
    r"\b(FATAL|CRITICAL|SEVERE|ERROR|WARNING|WARN|NOTICE|INFO|DEBUG|TRACE|Info|Warning|Error)\b"
    r"|\[(?:[a-z0-9_]{1,16}:)?(?:emerg|alert|crit|error|warn|notice|info|debug)\]"
)
SIGNS = {
    "failed_password": r"Failed password for (?:invalid user )?(.*) from (\S+) port ",
    "pam_failure": r"authentication failure;.*?rhost=(\S*)(?:.*?\buser=(\S*))?",
    "invalid_user": r"Invalid user (.*) from (\S+)",
    "accepted": r"Accepted \S+ for (.*) from (\S+) port ",
    "breakin_warning": r"\[([^\]]*)\] failed - POSSIBLE (BREAK-IN) ATTEMPT",
}

GROUPS = """
CREATE TABLE groups AS
SELECT host, file, date_trunc('hour', ts) AS hour, level, text, auth, signed.one AS one, signed.other AS other,
       count(*) AS lines, sum(bytes) AS bytes, min(ts) AS first_ts, max(ts) AS last_ts
FROM (
    SELECT host, file, bytes, CASE WHEN ts > '{date}'::TIMESTAMP + INTERVAL 47 HOUR AND {yearless}
                                   THEN ts - INTERVAL 1 YEAR ELSE ts END AS ts,
           lower(regexp_extract(line[:120], '{level}', 0)) AS level,
           regexp_replace(CASE {headers} END, '[0-9]+', '0', 'g') AS text,
           auth, CASE {signed} END AS signed
    FROM (
        SELECT *, length(line) + 1 AS bytes, CASE {times} END AS ts, CASE {marks} END AS auth
        FROM (
            SELECT host, regexp_extract(filename, 'var~log~([^/]+)-[0-9]+\\.zst$', 1) AS file, line
            FROM read_csv(
                ?, columns = {{'line': 'VARCHAR'}}, delim = '\x01', quote = '', escape = '', header = false,
                auto_detect = false, encoding = 'latin-1', hive_partitioning = true, hive_types_autocast = false,
                filename = true, new_line = '\\n', null_padding = true, nullstr = '\x02', max_line_size = 4194304
            )
        )
    )
)
GROUP BY ALL
"""


def query(date: str) -> str:
    """The one query of a day."""
    times = {files: made.replace("YEAR", f"'{date[:4]}'") for files, made in TIMES.items()}
    headers = {files: f"regexp_replace(line[:512], '{cut}', '')" for files, cut in HEADERS.items()}
    other = f"regexp_replace(line[:512], '{OTHER_HEADER}', '')"
    marks = {
        "failed_password": "Failed password",
        "pam_failure": "authentication failure;",
        "invalid_user": "nvalid user ",
        "accepted": "Accepted ",
        "breakin_warning": "POSSIBLE BREAK-IN ATTEMPT",
    }
    seen = " ".join(f"WHEN contains(line, '{mark}') THEN '{kind}'" for kind, mark in marks.items())
    return GROUPS.format(
        date=date,
        yearless=_named([files for files, made in TIMES.items() if "YEAR" in made]),
        level=LEVEL,
        times=_cases(times) + " ELSE NULL::TIMESTAMP",
        headers=_cases(headers) + f" ELSE {other}",
        marks=f"WHEN {_named([SYSLOG])} THEN CASE {seen} END",
        signed=" ".join(
            f"WHEN auth = '{kind}' THEN regexp_extract(line, '{found}', ['one', 'other'])"
            for kind, found in SIGNS.items()
        ),
    )


def _cases(by_files: dict[str, str]) -> str:
    return " ".join(f"WHEN {_named([files])} THEN {made}" for files, made in by_files.items())


def _named(groups: list[str]) -> str:
    systems = [name for files in groups for name in files.split()]
    names = ", ".join(f"'{name}{'' if name == 'app' else '_2k'}.log'" for name in systems)
    return f"file IN ({names})"


def told(archive: str, date: str) -> dict[str, object]:
    """What the groups add up to. Lines end at a newline and hold no byte 1; a byte is a character, whatever it is."""
    connection = duckdb.connect()
    connection.execute(query(date), [f"{archive}/date={date}/partition=*/host=*/*.zst"])
    groups, lines, size = connection.execute("SELECT count(*), sum(lines), sum(bytes) FROM groups").fetchone() or ()
    hours: dict[str, dict[str, int]] = defaultdict(dict)
    asked = "SELECT file, strftime(hour, '%Y-%m-%dT%H'), sum(lines) FROM groups GROUP BY ALL ORDER BY ALL"
    for file, hour, count in connection.execute(asked).fetchall():
        hours[file][hour] = int(count)
    return {"groups": groups, "lines": int(lines), "bytes": int(size), "hours": hours}


if __name__ == "__main__":
    print(json.dumps(told(sys.argv[1], sys.argv[2])))
