"""Documents that are written by a program: `python tests/written.py` writes them, a test holds them current."""

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from prometheus_client.metrics import MetricWrapperBase
from pydantic import BaseModel

from shipper.config import ENVIRONMENT
from shipper.settings import Settings

DOCS = Path(__file__).resolve().parent.parent / "docs"
PROGRAMS = {"producing": "producer", "collecting": "collector", "sessions": "both"}
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
    """The settings of one section; the meaning is the `#:` comment behind each field."""
    variables = {key: variable for variable, keys in reversed(ENVIRONMENT.items()) for key in keys}
    comments = dict(re.findall(r"^    (\w+): .*  #: (.*)$", inspect.getsource(section), re.MULTILINE))
    for field, found in section.model_fields.items():
        key = f"{name}.{field}"
        yield Setting(key, variables.get(key, ""), _shown(found.default), comments[field])


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

{chr(10).join(parts)}"""


PAGES = {"reference/metrics.md": metrics_page, "reference/settings.md": settings_page}


def main() -> None:
    """Write them all."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())


if __name__ == "__main__":
    main()
