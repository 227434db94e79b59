"""Documents that are written by a program: `python tests/written.py` writes them, a test holds them current."""

# ruff: noqa: E501 - tables of Markdown

import ast
import importlib
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from harness import newcomer
from harness.formats import EXAMPLES
from prometheus_client.metrics import MetricWrapperBase
from pydantic import BaseModel

from shipper import default_paths, line_formats, line_levels, line_zones
from shipper.config import ENVIRONMENT
from shipper.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PROGRAMS = {"producing": "producer", "collecting": "collector", "browsing": "browse", "sessions": "both"}
ENDINGS = {"counter": "_total"}
TABLE = "| key | variable | default | meaning |\n|---|---|---|---|\n"
SIZES = {"GiB": 1024**3, "MiB": 1024**2, "KiB": 1024}


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
    rows = "".join(
        f"| `{each.name}` | {each.kind} | {', '.join(each.labels)} | {each.program} | {each.meaning} |\n"
        for each in metrics()
    )
    return f"""\
# Metrics

<!-- Written by `make docs`; edit shipper/events/ instead. -->

Producers serve `/metrics` on port 9600, collectors on port 9601 (`SHIPPER_LISTEN`, by default on 127.0.0.1). The other
[endpoints](../operations/status.md#endpoints) are on the same port. Every collector reports `fshipper_hosts` and
`fshipper_partition_...` for all hosts and partitions. [Monitoring](../operations/monitoring.md) has the alerts.

| name | kind | labels | program | meaning |
|---|---|---|---|---|
{rows}"""


class Setting(NamedTuple):
    """One row of the other table."""

    key: str
    variable: str
    default: str
    meaning: str


def settings_of(section: type[BaseModel], name: str) -> Iterator[Setting]:
    """The settings of one section; the meaning is the `#:` comment after each field."""
    variables = {key: variable for variable, keys in reversed(ENVIRONMENT.items()) for key in keys}
    comments = dict(re.findall(r"^    (\w+): .*  #: (.*)$", inspect.getsource(section), re.MULTILINE))
    for field, found in section.model_fields.items():
        key = f"{name}.{field}"
        default = (
            "[by user](#default-places)" if found.default_factory is default_paths.archive else _shown(found.default)
        )
        yield Setting(key, variables.get(key, ""), default, comments[field])


def _shown(value: object) -> str:
    """A default as it would be written in TOML; sizes and seconds are numbers there, too."""
    if value is None or value in ((), "") or value == {}:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, int) and value >= 1024 and value % 1024 == 0:
        return next(f"{value // size} {unit}" for unit, size in SIZES.items() if value % size == 0)
    return f"{value:g}" if isinstance(value, float) else str(getattr(value, "value", value))


def settings_page() -> str:
    """docs/reference/settings.md."""
    parts = []
    for name, field in Settings.model_fields.items():
        section = field.annotation
        assert isinstance(section, type)
        rows = "".join(
            f"| `{each.key}` | {f'`{each.variable}`' if each.variable else ''} | {each.default} | {each.meaning} |\n"
            for each in settings_of(section, name)
        )
        parts.append(f"## [{name}]\n\n{inspect.getdoc(section)}\n\n{TABLE}{rows}")
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
    parts = [f"## `{program}/`\n\n{''.join(_folders(ROOT / program))}" for program in PROGRAMS_OF_CODE]
    return f"""\
# Structure of the code

<!-- Written by `make docs` from the docstrings of packages and modules; edit these instead. -->

A folder is one concern of a program, a module one mechanism. Terms are in the [glossary](../reference/glossary.md).

* Programs never import each other. They share `shipper/`. `deploy/` starts programs and imports none.
* `spark_analytics/` imports only the modules of `shipper/` that need no clock, disk or network, because it runs on a cluster.
* Folders of a program do not import each other in a cycle.
* A third-party library has one owner: `nats` in `shipper/jetstream/`, `watchdog` in `producer/discovery/watcher.py`, `tenacity` in
  `shipper/retry.py`, `structlog` in `shipper/telemetry.py`, `pyspark` and `pyarrow` in `spark_analytics/`,
  `duckdb` in `spark_analytics/aggregate/engine.py`.

[test_architecture.py](../../tests/test_architecture.py) and [test_structure.py](../../tests/test_structure.py) check these rules.

## Start here

| question | module |
|---|---|
| How does a producer ship a file? | [producer/pipeline.py](../../producer/pipeline.py), then [producer/tailer/tailer.py](../../producer/tailer/tailer.py) |
| How does a collector write a batch durably? | [consumer/pipeline.py](../../consumer/pipeline.py), then [consumer/commit/applier.py](../../consumer/commit/applier.py) |
| What decides that a block is a duplicate? | [consumer/commit/watermark.py](../../consumer/commit/watermark.py) |
| How is a report made? | [spark_analytics/pipeline.py](../../spark_analytics/pipeline.py) |
| Which events, log lines and metrics exist? | [shipper/events/](../../shipper/events) |
| What do programs require of the network? | [shipper/ports.py](../../shipper/ports.py); `tests/contract/` tests it against a real server and the in-memory one |

{"".join(parts)}"""


def _folders(program: Path) -> Iterator[str]:
    for folder in [program, *sorted(path.parent for path in program.glob("*/__init__.py"))]:
        name = folder.relative_to(ROOT).as_posix()
        heading = "" if folder == program else f"### `{name}/`\n\n"
        rows = "".join(f"| [{path.stem}](../../{name}/{path.name}) | {_purpose(path)} |\n" for path in _modules(folder))
        yield f"{heading}{_purpose(folder / '__init__.py')}\n\n| module | purpose |\n|---|---|\n{rows}\n"


def _modules(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.py") if path.stem != "__init__")


def _purpose(path: Path) -> str:
    """The first sentence of a module's docstring, on one line."""
    text = " ".join((ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n\n")[0].split())
    return text.replace("|", "\\|")


def tables_page() -> str:
    """docs/reference/tables.md: the data dictionary. Needs pyspark."""
    dictionary = importlib.import_module("spark_analytics.tables.dictionary")
    schemas = importlib.import_module("spark_analytics.tables.schemas")
    tables = "".join(
        f"| `{name}` | {dictionary.ROWS[name]} | `{' '.join(schema.names)}` |\n"
        for name, schema in schemas.TABLES.items()
    )
    sections = "".join(_table_section(name, schema, dictionary) for name, schema in schemas.TABLES.items())
    return TABLES_HEAD.format(tables=tables) + sections


def _table_section(name: str, schema: Any, dictionary: Any) -> str:
    rows = []
    for field in schema:
        unit, meaning, known_as = dictionary.column(name, field.name)
        otel, _, ecs = known_as.partition(" / ")
        other = [f"`{text}`" if text and text != "-" else "" for text in (otel, ecs)]
        rows.append(
            f"| `{field.name}` | {field.dataType.simpleString()} | {unit} | {meaning} | {other[0]} | {other[1]} |\n"
        )
    head = "| column | type | unit | meaning | OpenTelemetry | ECS |\n|---|---|---|---|---|---|\n"
    return f"\n## `{name}`\n\nOne row per {dictionary.ROWS[name]}.\n\n{head}{''.join(rows)}"


TABLES_HEAD = """\
# Report tables

<!-- Written by `make docs`; edit spark_analytics/tables/dictionary.py instead. -->

`fshipper report` writes each table to `OUT/tables/<name>/date=YYYY-MM-DD/` as Parquet (zstd). How and when tables are replaced:
[report.md](report.md).

* `date` is the UTC day on which JetStream stored the lines, so a closed day does not change. Times are UTC. Sizes are bytes of the
  text. `file` is the path on the host.
* `lines` of `file_daily`, `host_daily`, `partition_daily`, `audit` and `runs` are newlines, as `wc -l` counts them.
* `hourly`, patterns, levels, authentication and requests also count a last line without a newline: `lines - unfinished` of
  `hourly` is what the other tables have. `bytes` are equal in all tables.
* Baseline columns (`baseline_days`, `median7_*`) use the seven days before (`--baseline-days`); they are null without a baseline.
* `host_daily` also has hosts of the baseline that sent nothing (0 lines). A sealed file that no manifest lists has its own row in
  `audit`. The table `runs` is replaced last.
* Names are stable: a column is not removed, and does not change its meaning, within a major version. New columns may be added; they are
  null in tables of older versions.

| table | one row per | columns |
|---|---|---|
{tables}
## Examples

`fshipper report query` opens a shell for Spark SQL. Any other reader of Parquet can read the tables, also during a report. The paths below are
relative to the directory of the report.

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
"""


def formats_page() -> str:
    """docs/reference/formats.md."""
    rows = "".join(
        f"| {one.name} | {_code(one.line)} | {one.time.replace('T', ' ') or '-'}"
        f" | {one.zone or ('host' if one.time else '-')} | {one.level} |\n"
        for one in EXAMPLES
    )
    return FORMATS_PAGE.format(
        rows=rows,
        names=", ".join(f"`{name}` {offset}" for name, offset in line_zones.NAMES.items() if name != "Z"),
        ambiguous=", ".join(f"`{name}`" for name in line_zones.AMBIGUOUS),
        time=", ".join(f"`{path}`" for path in line_formats.TIME_PATHS),
        level=", ".join(f"`{path}`" for path in line_levels.LEVEL_PATHS),
    )


def _code(line: str) -> str:
    """A line as code in a cell of a table."""
    shown = line.replace("\x1b", "\\e").replace("\t", "\\t").replace("|", "\\|")
    return f"`` {shown} ``" if "`" in shown else f"`{shown}`"


FORMATS_PAGE = """\
# Formats of log lines

<!-- Written by `make docs`; edit tests/formats.tsv and shipper/line_*.py instead. -->

Search, browse, `tail` and the report read times by the same tables: [line_formats.py](../../shipper/line_formats.py) (times),
[line_zones.py](../../shipper/line_zones.py) (zones) and [line_levels.py](../../shipper/line_levels.py) (levels). A test compares what a
search and the report find for each line below and for random changes of them.

* The first 200 lines of a file decide its format. A line of another format is compared with all formats whose time is at the start of
  the line. A file that mixes formats gets each line by its own format.
* A line without a time in a file with times continues the record before it: a search gives it the time of that record, and the report
  gives it no level.
* Colours (ANSI sequences) are ignored.
* A clock of 12 hours needs AM or PM. `11/28/2026` is month first if that is possible, `28/11/2026` is day first.
* A time since the start of the machine (`[12345.678901]` of dmesg) is no time.
* A time without a year is in the year in which the line was stored, or in the year before if it would be in the future.

## Zones

* After a time, with or without a blank: `Z`, `+02:00`, `+0200`, `+02`, `-03`, a name of the list below, an IANA name
  (`[Europe/Berlin]`).
* A time without a zone is of the zone of the host, if the [manifest](archive-format.md) has it (field `zone`), else UTC. An hour that
  occurs twice when clocks go back is the first of the two. A time that is left out when they go forward is read as if they had not.
* Several zones have the names {ambiguous}. Such a name means the zone of the host if that zone uses the name. Else the names that are in
  the list below have the offset there. The offset of the others is not known: the line has no time, but keeps its level, and counts in
  `no_ts_lines`.
* A word that is not in the list is no zone.

Names: {names}.

## JSON

The first key that exists has the time: {time}. Numbers are seconds, milliseconds, microseconds or nanoseconds since 1970, by their size. A
dot leads into an object, or into a text that is one.

The first key that names a level has the level: {level}. Values are words, letters (MongoDB), or numbers: 0 to 7 are those of syslog (GELF,
the journal), 10 to 60 those of bunyan and pino, 100 to 600 those of Monolog; severity numbers are those of OpenTelemetry. Without a level,
the status of a request decides, then the text in `log`, `message`, `msg` or `MESSAGE`.

## Examples

`host` in column zone: the line has no zone; the time is that of a host in UTC. `\\e` is the escape character, `\\t` a tab.

| format | line | time, UTC | zone | level |
|---|---|---|---|---|
{rows}"""


def severity_page() -> str:
    """docs/reference/severity.md. Needs pyspark's types."""
    verdict = importlib.import_module("spark_analytics.report.verdict")
    events = importlib.import_module("spark_analytics.metrics.events")
    model = importlib.import_module("spark_analytics.report.model")
    rows: list[tuple[str, str, str]] = []
    for kind, name in events.NAMES.items():
        rows.append((events.severity(kind), f"`event`, {name}", "events"))
    for kind, state in model.TROUBLES.items():
        found = verdict.severity_of(model.Finding(kind=kind, state=state, text=""))
        rows.append((found.value, f"`{kind}`", "completeness"))
    for kind in dict.fromkeys([*verdict.SEVERITIES, *(kind for kind in verdict.SECTIONS if kind != "event")]):
        found = verdict.SEVERITIES.get(kind, model.Severity.NOTE)
        rows.append((found.value, f"`{kind}`", verdict.SECTIONS.get(kind, "completeness")))
    order = [severity.value for severity in model.Severity]
    rows.sort(key=lambda row: order.index(row[0]))
    table = "".join(f"| `{severity}` | {kind} | {section} |\n" for severity, kind, section in rows)
    return f"""\
# Severity of findings

<!-- Written by `make docs`; edit spark_analytics/report/verdict.py and spark_analytics/metrics/events.py instead. -->

Each finding of a [report](report.md) has one of three severities. `report.json` has it as `severity`.

| severity | meaning |
|---|---|
| `act` | something is broken, lost or broken into: act now |
| `look` | unusual: check it today |
| `note` | worth knowing, nothing to do |

* Findings are sorted by the state of the archive, then by severity. The severity of a day is that of its worst finding.
* The verdict of a week is that of its worst day: by state, then by severity, then the earliest.
* Damaged and lost bytes are always `act`, doubled bytes always `look`. Kinds that are not in the table are `note`.

| severity | kind | section of the page |
|---|---|---|
{table}"""


def report_schema() -> str:
    """The JSON Schema of `report.json`. Needs pyspark's types."""
    return json.dumps(importlib.import_module("spark_analytics.report.json_export").schema(), indent=1) + "\n"


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
It ships without a note: {shipped}. Other mistakes are in [Safe mistakes](mistakes.md).
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
    "reference/tables.md": tables_page,
    "../spark_analytics/templates/report.schema.json": report_schema,
}


def main() -> None:
    """Write them all."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())


if __name__ == "__main__":
    main()
