"""The limit of a report: DuckDB counts lines and bytes of each host and file of a day, over the same segments.

python bare_totals.py ARCHIVE DATE     the sums as JSON: {"lines": ..., "bytes": ...}
"""

import json
import sys

import duckdb

TOTALS = """
SELECT host, file, count(*) AS lines, sum(length(line) + 1) AS bytes
FROM (
    SELECT host, regexp_extract(filename, '([^/]+)-[0-9]+\\.zst$', 1) AS file, line
    FROM read_csv(
        ?, columns = {'line': 'VARCHAR'}, delim = '\x01', quote = '', escape = '', header = false, auto_detect = false,
        encoding = 'latin-1', hive_partitioning = true, hive_types_autocast = false, filename = true, new_line = '\\n',
        null_padding = true, nullstr = '\x02', max_line_size = 4194304
    )
)
GROUP BY host, file
"""


def totals(archive: str, date: str) -> dict[str, int]:
    """Lines end at a newline and hold no byte 1; a byte is a character, whatever it is."""
    pattern = f"{archive}/date={date}/partition=*/host=*/*.zst"
    rows = duckdb.execute(TOTALS, [pattern]).fetchall()
    return {"lines": sum(row[2] for row in rows), "bytes": int(sum(row[3] for row in rows))}


if __name__ == "__main__":
    print(json.dumps(totals(sys.argv[1], sys.argv[2])))
