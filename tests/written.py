"""Documents that are written by a program: `python tests/written.py` writes them, a test holds them current."""

# ruff: noqa: E501 - tables of Markdown

import ast
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from harness import newcomer
from harness.formats import EXAMPLES
from harness.situations import situations
from prometheus_client.metrics import MetricWrapperBase

from shipper import line_formats, line_levels, line_zones
from shipper.manual.settings_table import sections

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PROGRAMS = {"producing": "producer", "collecting": "collector", "browsing": "browse", "sessions": "both"}
HEADINGS = {"producer": "Producer", "collector": "Collector", "browse": "Browse", "both": "Producer and collector"}
ENDINGS = {"counter": "_total"}
TABLE = "| key, variable | default | meaning |\n|---|---|---|\n"
BY_USER = {"collector.directory": "[by user](#default-places)"}


class Metric(NamedTuple):
    """One row of the table."""

    name: str
    kind: str
    labels: tuple[str, ...]
    program: str
    meaning: str


def metrics() -> list[Metric]:
    """Every metric of ours, by name."""
    return sorted(metric for module, program in PROGRAMS.items() for metric in _of(module, program))


def _of(module: str, program: str) -> Iterator[Metric]:
    for value in vars(importlib.import_module(f"shipper.events.{module}")).values():
        if isinstance(value, MetricWrapperBase):
            kind = value._type
            name = value._name + ENDINGS.get(kind, "")
            yield Metric(name, kind, tuple(value._labelnames), program, value._documentation)


def metrics_page() -> str:
    """docs/reference/metrics.md."""
    sections = "".join(
        f"\n## {heading}\n\n{rows}"
        for program, heading in HEADINGS.items()
        if (rows := "".join(_metric_row(each) for each in metrics() if each.program == program))
    )
    histograms = ", ".join(f"`{each.name}`" for each in metrics() if each.kind == "histogram")
    return f"""\
# Metrics

<!-- Written by `make docs`; edit shipper/events/ instead. -->

Producers serve `/metrics` on port 9600, collectors on 9601, browse on 9602 (`SHIPPER_LISTEN`, by default on 127.0.0.1). Every collector reports
`fshipper_hosts` and `fshipper_partition_...` for all hosts and partitions. [Alerts](../operations/alerts.md) explains the alerts.

Names that end in `_total` are counters. {histograms} is a histogram, all others are gauges.
{sections}"""


def _metric_row(metric: Metric) -> str:
    labels = f"{{{', '.join(metric.labels)}}}" if metric.labels else ""
    return f"* `{metric.name}{labels}`: {metric.meaning}\n"


def settings_page() -> str:
    """docs/reference/settings.md."""
    parts = []
    for section in sections():
        rows = "".join(
            f"| `{each.key}`{f', `{each.variable}`' if each.variable else ''} | {BY_USER.get(each.key, each.default)} | {each.meaning} |\n"
            for each in section.rows
        )
        parts.append(f"## [{section.name}]\n\n{section.text}\n\n{TABLE}{rows}")
    return f"""\
# Settings

<!-- Written by `make docs`; edit shipper/settings.py instead. -->

Flag > environment > `--config FILE` (TOML, or `SHIPPER_CONFIG`) > default. An unknown key is an error that names the
nearest key. All problems are reported together. `fshipper validate` shows each value and its origin.

Times are seconds, or `5s`, `2h`, `7d`. Sizes are bytes, or `256KB`, `16MiB`, `50GB`.

```toml
[nats]
url = ["nats://nats1.example.net:4222", "nats://nats2.example.net:4222"]

[logs]
partitions = 4

[producer]
files = ["/var/log/nginx/*.log"]
```

## Default places

| what | root | other users |
|---|---|---|
| archive: `consume`, `search`, `tail`, `replay`, `browse`, `audit`, `redact`, `report` | `/var/lib/fshipper/archive` | `~/.local/share/fshipper/archive` |
| reports: `report` and its commands, without `--out` and `SHIPPER_REPORT` | `/var/lib/fshipper/report` | `~/.local/share/fshipper/report` |
| checkpoints: `produce` | `/var/lib/fshipper/producer` | `~/.local/state/fshipper/producer` |
| data of `fshipper up`, its archive included | `/var/lib/fshipper` | `~/.local/share/fshipper` |

`XDG_DATA_HOME` and `XDG_STATE_HOME` replace `~/.local/share` and `~/.local/state`. Versions before 0.2.0 used `./archive` and `./report`.
In a directory that contains an archive of that name, or a directory `report`, the commands still use these.

{chr(10).join(parts)}"""


PROGRAMS_OF_CODE = ("producer", "consumer", "partitioner", "spark_analytics", "shipper", "deploy")


def structure_page() -> str:
    """docs/development/structure.md."""
    rows = "".join(
        f"| [{name}/](../../{name}) | {_purpose(ROOT / name / '__init__.py')} |\n" for name in PROGRAMS_OF_CODE
    )
    return f"""\
# Structure of the code

<!-- Written by `make docs` from the docstrings of packages; edit these and tests/written.py instead. -->

A folder is one concern of a program, a module one mechanism. `make structure` lists all folders and modules with their purpose.
[CONTRIBUTING](../../CONTRIBUTING.md#the-map) names the modules to read first.

```text
 producer --> NATS JetStream --> consumer --> archive --> spark_analytics     programs: they never import each other
                    ^
               partitioner                                deploy              starts programs and imports none of them
 ----------------------------------------------------------------------
 shipper/jetstream  shipper/events  shipper/*.py                              shared by the programs
 pure modules of shipper/: no clock, disk or network                          all that spark_analytics imports of it
```

[test_architecture.py](../../tests/test_architecture.py) and [test_structure.py](../../tests/test_structure.py) check these rules:

* Programs share only `shipper/`. `spark_analytics/` imports only its pure modules, because it runs on a cluster.
* Modules of a program, and its folders, do not import each other in a cycle. A class name is unique in its program.
* A third-party library has one owner: `nats` is imported in `shipper/jetstream/` only. `OWNERS` in test_architecture.py lists the others.
* A constructor has at most six collaborators, a function 60 lines, and a module imports at most 15 others of the project.
* The words of module names are in the glossary or in [module_words.txt](../../tests/module_words.txt).

| folder | purpose |
|---|---|
{rows}"""


def module_list() -> str:
    """Every folder and module with the first sentence of its docstring, for `make structure`."""
    return "\n".join(
        f"{f'{name}/{path.name}'.removesuffix('__init__.py'):<48} {_purpose(path)}"
        for program in PROGRAMS_OF_CODE
        for name in _folders(program)
        for path in sorted((ROOT / name).glob("*.py"))
    )


def _folders(program: str) -> list[str]:
    packages = [path.parent for path in (ROOT / program).rglob("__init__.py")]
    return sorted(folder.relative_to(ROOT).as_posix() for folder in packages)


def _purpose(path: Path) -> str:
    """The first sentence of a module's docstring, on one line."""
    text = " ".join((ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n\n")[0].split())
    return text.replace("|", "\\|")


def tables_page() -> str:
    """docs/reference/tables.md: the data dictionary. Needs pyspark."""
    dictionary = importlib.import_module("spark_analytics.tables.dictionary")
    schemas = importlib.import_module("spark_analytics.tables.schemas")
    fields = [(table, field) for table, schema in schemas.TABLES.items() for field in schema]
    tables = "".join(
        f"| `{name}` | {dictionary.ROWS[name]} | `{' '.join(schema.names)}` |\n"
        for name, schema in schemas.TABLES.items()
    )
    common: dict[str, str] = {}
    own: list[str] = []
    other_names: dict[str, None] = {}
    for table, field in fields:
        unit, meaning, known_as = dictionary.column(table, field.name)
        kind = field.dataType.simpleString()
        has_unit = kind in NUMBERS and unit not in meaning
        row = f"{field.name}` {kind}: {meaning}{f' [{unit}]' if has_unit else ''}\n"
        is_own = field.name in dictionary.OF_TABLE.get(table, {})
        if is_own:
            own.append(f"* `{table}.{row}")
        else:
            row = f"* `{row}"
            assert common.setdefault(field.name, row) == row
        if known_as:
            column = f"`{field.name}`{f' of `{table}`' if is_own and field.name in dictionary.COMMON else ''}"
            other_names[f"* {column}: {known_as}\n"] = None
    return TABLES_PAGE.format(
        tables=tables, common="".join(common.values()), own="".join(own), other_names="".join(other_names)
    )


NUMBERS = {"int", "bigint", "double", "binary"}
"""Types that do not show the unit of a column."""

TABLES_PAGE = """\
# Report tables

<!-- Written by `make docs`; edit spark_analytics/tables/dictionary.py instead. -->

`fshipper report` writes each table to `OUT/tables/<name>/date=YYYY-MM-DD/` as Parquet (zstd). [Report](report.md) describes when a table
is replaced. In the shell of `fshipper report query`, `\\d NAME` shows this page for one table.

* `date` is the UTC day on which JetStream stored the lines, so a closed day does not change. Times are UTC. Sizes are bytes of the text.
* `lines` are newlines, as `wc -l` counts them. In `hourly`, `access_*`, `auth_daily`, `event_daily` and patterns they include a last
  line without a newline: `lines - unfinished` of `hourly` is what the other tables have.
* Columns of the baseline (`baseline_days`, `median7_*`) use the seven days before (`--baseline-days`). Without a baseline they are null.
* Within a major version no column is removed or changes its meaning. New columns are null in tables of older versions.

| table | one row per | columns |
|---|---|---|
{tables}
## Examples

Any reader of Parquet can read the tables, also during a report. The paths are relative to the directory of the report.

DuckDB, the ten files with the most errors of all days:

```sql
SELECT host, file, sum(err) AS err
FROM read_parquet('tables/file_daily/*/*.parquet', hive_partitioning = true)
GROUP BY ALL ORDER BY err DESC, host, file LIMIT 10
```

pandas, lines by day and host:

```python
import pandas as pd

hosts = pd.read_parquet("tables/host_daily")
print(hosts.pivot_table(index="date", columns="host", values="lines", aggfunc="sum"))
```

Spark SQL, in `fshipper report query`, patterns that are new on a day:

```sql
SELECT date, level, lines, template
FROM pattern_daily JOIN patterns USING (date, pattern_id)
WHERE is_new OR is_new IS NULL ORDER BY date, lines DESC LIMIT 20
```

## Columns

Name, type, meaning, and the unit in brackets. A column means the same in every table, unless it is below after the name of its table.

{common}
{own}
## Names in OpenTelemetry and ECS

The name in OpenTelemetry, then that in ECS:

{other_names}"""


def formats_page() -> str:
    """docs/reference/formats.md."""
    tools: dict[str, dict[str, None]] = {}
    for name in sorted({one.name for one in EXAMPLES} - RULES_OF_LINES, key=str.lower):
        tool, _, form = name.partition(", ")
        tools.setdefault(tool, {}).update({form: None} if form else {})
    return FORMATS_PAGE.format(
        tools=", ".join(tool + (f" ({'; '.join(forms)})" if forms else "") for tool, forms in tools.items()),
        names=", ".join(f"`{name}` {offset}" for name, offset in line_zones.NAMES.items() if name != "Z"),
        ambiguous=", ".join(f"`{name}`" for name in line_zones.AMBIGUOUS),
        time=", ".join(f"`{path}`" for path in line_formats.TIME_PATHS),
        level=", ".join(f"`{path}`" for path in line_levels.LEVEL_PATHS),
    )


RULES_OF_LINES = {"IANA name", "ambiguous zone", "words that are no level"}
"""Examples that show a rule, and are no format of a tool."""

FORMATS_PAGE = """\
# Formats of log lines

<!-- Written by `make docs`; edit tests/formats.tsv and shipper/line_*.py instead. -->

Search, browse, `tail` and the report find the time and the level of a line by the same tables.
[formats.tsv](../../tests/formats.tsv) has a line of each format below, with its time, zone and level; tests hold search and report to it.

{tools}.

* The first 200 lines of a file decide its format. Any other line is compared with all formats whose time is at the start of the line.
* A line without a time continues the record before it: a search gives it the time of that record, the report gives it no level.
* Colours (ANSI sequences) are ignored.
* A clock of 12 hours needs AM or PM. `11/28/2026` is month first if that is possible, `28/11/2026` is day first.
* A time since the start of the machine (`[12345.678901]` of dmesg) is no time.
* A time without a year is in the year in which the line was stored, or in the year before if it would be in the future.

## Zones

* After a time, with or without a blank: `Z`, `+02:00`, `+0200`, `+02`, `-03`, a name of the list below, an IANA name (`[Europe/Berlin]`). Any other
  word is no zone.
* A time without a zone is in the zone of the host, if the [manifest](archive-format.md) has it (field `zone`), else in UTC. An hour that
  occurs twice when clocks go back is the first of the two. A time that is left out when they go forward is read as if they had not.
* {ambiguous} are names of several zones. Such a name is the zone of the host if that zone uses it, else the offset in the list below. Without
  an offset in the list, the line has no time, but keeps its level, and counts in `no_ts_lines`.

{names}.

## JSON

The first key that exists has the time: {time}. Numbers are seconds, milliseconds, microseconds or nanoseconds since 1970, by their size. A
dot leads into an object, or into a text that is one.

The first key that names a level has the level: {level}. Values are words, letters (MongoDB), or numbers: 0 to 7 of syslog (GELF, the journal),
10 to 60 of bunyan and pino, 100 to 600 of Monolog, severity numbers of OpenTelemetry. Without a level, the status of a request decides, then
the text in `log`, `message`, `msg` or `MESSAGE`.
"""


def severity_page() -> str:
    """docs/reference/severity.md. Needs pyspark's types."""
    verdict = importlib.import_module("spark_analytics.report.verdict")
    events = importlib.import_module("spark_analytics.metrics.events")
    model = importlib.import_module("spark_analytics.report.model")
    rows: list[tuple[str, str, str]] = []
    for kind, name in events.NAMES.items():
        rows.append((events.severity(kind), name, "events"))
    for kind, state in model.TROUBLES.items():
        found = verdict.severity_of(model.Finding(kind=kind, state=state, text=""))
        rows.append((found.value, f"`{kind}`", "completeness"))
    for kind in dict.fromkeys([*verdict.SEVERITIES, *(kind for kind in verdict.SECTIONS if kind != "event")]):
        found = verdict.SEVERITIES.get(kind, model.Severity.NOTE)
        rows.append((found.value, f"`{kind}`", verdict.SECTIONS.get(kind, "completeness")))
    order = [severity.value for severity in model.Severity]
    kinds: dict[tuple[str, str], list[str]] = {}
    for severity, kind, section in sorted(rows, key=lambda row: order.index(row[0])):
        kinds.setdefault((severity, section), []).append(kind)
    table = "".join(
        f"| `{severity}` | {section} | {', '.join(each)} |\n" for (severity, section), each in kinds.items()
    )
    return f"""\
# Severity of findings

<!-- Written by `make docs`; edit spark_analytics/report/verdict.py and spark_analytics/metrics/events.py instead. -->

Each finding of a [report](report.md) has one of three severities. `report.json` has it as `severity`.

| severity | meaning |
|---|---|
| `act` | something is broken, lost or broken into: act now |
| `look` | unusual: check it today |
| `note` | worth knowing, nothing to do |

* Findings are sorted by the state of the archive, then by severity. The severity of a day is that of its worst finding, that of a week that of its worst day.
* Damaged and lost bytes are always `act`, doubled bytes always `look`. Kinds that are not in the table are `note`. All events are of the kind `event`.

| severity | section of the page | kinds |
|---|---|---|
{table}"""


def report_schema() -> str:
    """The JSON Schema of `report.json`. Needs pyspark's types."""
    return json.dumps(importlib.import_module("spark_analytics.report.json_export").schema(), indent=1) + "\n"


def situations_page() -> str:
    """docs/reference/situations.md."""
    rows = {"Status": "", "Search": ""}
    for each in situations().values():
        if each.note:
            rows[each.area] += f"| `{each.shown.replace('|', chr(92) + '|')}` | {each.note} |\n"
    return SITUATIONS_PAGE.format(status=rows["Status"], search=rows["Search"])


SITUATIONS_PAGE = """\
# What status and search show, and why

<!-- Written by `make docs`; edit tests/situations.tsv instead. -->

One cause has one sentence. This page explains those that leave a question open; [situations.tsv](../../tests/situations.tsv) lists all, and a test
brings each situation about. `…` is any text, and numbers are examples.

## Status

| shown | cause, next step |
|---|---|
{status}
## Search

| shown | cause, next step |
|---|---|
{search}"""


def first_mistakes_page() -> str:
    """docs/operations/first-mistakes.md."""
    answered = "".join(
        f"| {each.what} | {_answer(each.answer)} | {each.code} |\n" for each in (*newcomer.ALONE, *newcomer.TOGETHER)
    )
    noted = "".join(f"| {each.what} | {_answer(each.answer)} |\n" for each in newcomer.NOTED)
    shipped = ", ".join(what for what, _ in newcomer.SHIPPED)
    return f"""\
# First mistakes

<!-- Written by `make docs` from tests/harness/newcomer.py, which tests/deploy/test_up_mistakes.py types for real. -->

What a newcomer mistypes, and a part of the answer. Each message also has the next step. Nothing is lost or stored twice.

| mistake | the answer contains | exit code |
|---|---|---|
{answered}
`fshipper up` runs in these cases, and prints a note:

| case | the note contains |
|---|---|
{noted}
It ships without a note: {shipped}.
"""


def _answer(text: str) -> str:
    """A part of a message, in a code span also where it contains backquotes; paths of the test are below /home/me."""
    plain = text.replace("HOME", "/home/me")
    return (f"`` {plain} ``" if "`" in plain else f"`{plain}`") if plain else "nothing"


PAGES = {
    "operations/first-mistakes.md": first_mistakes_page,
    "reference/formats.md": formats_page,
    "development/structure.md": structure_page,
    "reference/metrics.md": metrics_page,
    "reference/severity.md": severity_page,
    "reference/settings.md": settings_page,
    "reference/situations.md": situations_page,
    "reference/tables.md": tables_page,
    "../spark_analytics/templates/report.schema.json": report_schema,
}


def main(command: str = "write") -> None:
    """Write all documents, or print the modules: `written.py modules`."""
    if command == "modules":
        print(module_list())
        return
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())


if __name__ == "__main__":
    main(*sys.argv[1:])
