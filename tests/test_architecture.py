"""The rules of the code base that a test can hold: who imports whom, how long a file is, what it is not called."""

import ast
import functools
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("structure")  # one worker parses each module once

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = frozenset({"producer", "consumer", "partitioner", "spark_analytics"})
HOUSE = PROGRAMS | {"shipper", "deploy"}
PURE = frozenset(
    f"shipper.{name}"
    for name in (
        "model",
        "errors",
        "subjects",
        "partition_map",
        "codec",
        "json_codec",
        "layout",
        "manifest",
        "units",
        "moments",
        "ports",
        "edit_map",
        "page_sheets",
        "heartbeat",
        "stream_source",
        "duplicates",
        "line_formats",
        "line_levels",
        "line_times",
        "line_zones",
        "zone_names",
    )
)
NOT_PURE = frozenset(
    {"asyncio", "io", "logging", "os", "pathlib", "random", "secrets", "shutil", "signal", "socket", "sqlite3"}
    | {"subprocess", "tempfile", "threading", "time"}
)
"""The standard library's ways to a clock, a disk, a network and the environment."""

COMMAND_LINE = frozenset(
    {"shipper.commands", "shipper.default_paths", "shipper.durable_files", "shipper.errors", "shipper.prompts"}
    | {"shipper.units"}
)
"""What a command line is made of; `deploy` starts programs and imports nothing else of the house."""

DEFINITIONS = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

ENTRY_POINT = re.compile(rf"({'|'.join(HOUSE)})(\.\w+)*:\w+")
"""A function by its module: what imports it, as `pkgutil.resolve_name`, has the text from here."""

OWNERS = {
    "nats": ("shipper/jetstream/",),
    "re2": ("shipper/linear_regex.py",),
    "watchdog": ("producer/discovery/watcher.py",),
    "tomli_w": ("partitioner/desired.py", "partitioner/enrolment/"),
    "yaml": ("producer/foreign_config/sections.py",),
    "tenacity": ("shipper/retry.py",),
    "structlog": ("shipper/telemetry.py",),
    "prometheus_client": ("shipper/telemetry.py", "shipper/http_endpoints.py"),
    "pyspark": ("spark_analytics/",),
    "pyarrow": ("spark_analytics/",),
    "duckdb": ("spark_analytics/aggregate/engine.py",),
    "apprise": ("spark_analytics/delivery/transport.py",),
    "sqlite3": tuple(f"{program}/" for program in sorted(PROGRAMS)),
    "shipper.testing": ("shipper/testing/",),
    "starlette": ("consumer/web/server.py", "partitioner/enrolment/server.py"),
    "uvicorn": ("consumer/web/server.py", "consumer/web/connections.py", "partitioner/enrolment/server.py"),
    "argon2": ("consumer/web/accounts.py",),
    "consumer.audit": ("consumer/audit/",),
    "consumer.read": ("consumer/read/", "consumer/web/", "consumer/dlq/"),
    "consumer.dlq": ("consumer/dlq/", "consumer/audit/"),
    "consumer.fleet": (
        "consumer/fleet/",
        "consumer/web/",
        "consumer/app.py",  # its status page
        "consumer/explain/",
        "consumer/wait/",
    ),
}
"""What only some may import, by the beginning of their path."""


# -- the checker: sources in, sentences out -----------------------------------------------------------------------


def violations(sources: Mapping[str, str]) -> list[str]:
    """What breaks the table, as `path:line: why`; `sources` are texts by their path from the root."""
    modules = {module_of(path) for path in sources}
    return [
        f"{path}:{line}: {why}"
        for path, text in sorted(sources.items())
        for line, wanted in imports(path, text, modules)
        if (why := refusal(path, wanted))
    ]


def module_of(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@functools.cache
def definitions(text: str) -> tuple[ast.AST, ...]:
    """The classes, functions and imports of any form in a source, which is parsed once for all checks."""
    return tuple(node for node in ast.walk(ast.parse(text)) if isinstance(node, DEFINITIONS) or _is_import(node))


def _is_import(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[_, *_]):
            return name in {"__import__", "import_module"}
        case ast.Constant(value=str(value)):
            return ENTRY_POINT.fullmatch(value) is not None
    return False


def imports(path: str, text: str, modules: set[str]) -> Iterator[tuple[int, str]]:
    """Every module that a source imports, however it does so."""
    for node in definitions(text):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(names=names):
                base = _base(path, node)
                for alias in names:
                    whole = f"{base}.{alias.name}"
                    yield node.lineno, whole if whole in modules or _is_testing(whole) else base
            case ast.Constant(value=str(value)):
                yield node.lineno, value.partition(":")[0]
            case ast.Call(args=[first, *_]):
                yield node.lineno, first.value if isinstance(first, ast.Constant) else "?"


def _base(path: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = path.split("/")[: -node.level]
    return ".".join([*package, *([node.module] if node.module else [])])


def _is_testing(module: str) -> bool:
    return module == "shipper.testing"


def refusal(path: str, wanted: str) -> str:
    """Why `path` must not import `wanted`; empty when it may."""
    room, other, module = path.split("/", 1)[0], wanted.split(".", 1)[0], module_of(path)
    rules = [
        (
            is_in(wanted, owned) and not path.startswith(owners),
            f"imports {wanted}, which only {' and '.join(owners)} may",
        )
        for owned, owners in OWNERS.items()
    ]
    rules += [
        (wanted == "?", "imports a module whose name nobody can read here"),
        (module in PURE and not is_pure(wanted), f"is in the pure ring and imports {wanted}"),
        (room == "shipper" and other in HOUSE - {"shipper"}, f"is shared and imports {wanted}"),
        (
            room == "deploy" and other in HOUSE - {"deploy"} and wanted not in COMMAND_LINE,
            f"starts programs and imports {wanted}",
        ),
        (room in PROGRAMS and other in HOUSE - {room, "shipper"}, f"imports {wanted} of another program"),
        (
            room == "spark_analytics"
            and other == "shipper"
            and wanted not in PURE | {"shipper", "shipper.commands", "shipper.default_paths"},
            f"imports {wanted}, which is not in the pure ring: it must run on a cluster",
        ),
    ]
    return next((why for broken, why in rules if broken), "")


def is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def is_pure(wanted: str) -> bool:
    if wanted in PURE:
        return True
    top = wanted.split(".", 1)[0]
    return top in sys.stdlib_module_names and top not in NOT_PURE


# -- the product --------------------------------------------------------------------------------------------------


@functools.cache
def product() -> dict[str, str]:
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for room in sorted(HOUSE)
        for path in sorted((ROOT / room).rglob("*.py"))
    }


def test_everybody_imports_only_what_the_table_allows():
    assert violations(product()) == []


def test_the_table_names_modules_that_exist():
    modules = {module_of(path) for path in product()}
    assert modules >= PURE
    assert {path.split("/")[0] for path in product()} == HOUSE
    for owners in OWNERS.values():
        assert all((ROOT / owner).exists() for owner in owners)


def test_what_has_an_owner_is_imported_by_him():
    """Else the table holds a rule for something that is gone."""
    sources = product()
    modules = {module_of(path) for path in sources}
    imported = {wanted.split(".")[0] for path, text in sources.items() for _, wanted in imports(path, text, modules)}
    assert {name for name in OWNERS if "." not in name} <= imported


# -- the checker goes red -----------------------------------------------------------------------------------------

PLANTED = {
    "a program imports another": ("producer/tailer/file_reader.py", "import consumer.commit.sink"),
    "by from": ("producer/tailer/file_reader.py", "from consumer import sink"),
    "inside a function": ("consumer/commit/sink.py", "def f():\n    from producer.tailer.file_reader import Tail"),
    "for types only": (
        "consumer/commit/sink.py",
        "if TYPE_CHECKING:\n    from producer.tailer.file_reader import Tail",
    ),
    "a program imports deploy": ("partitioner/plan.py", "import deploy.server"),
    "shipper imports a program": ("shipper/retry.py", "from producer.tailer.file_reader import Tail"),
    "shipper imports deploy": ("shipper/config.py", "import deploy"),
    "the pure ring imports the edge": ("shipper/codec.py", "from shipper import compression"),
    "the pure ring imports the package": ("shipper/codec.py", "import shipper"),
    "the pure ring imports a foreign package": ("shipper/layout.py", "import zstandard"),
    "the pure ring looks at the clock": ("shipper/units.py", "import time"),
    "the pure ring looks at the environment": ("shipper/model.py", "from os import environ"),
    "spark imports the edge": ("spark_analytics/tables/spark_io.py", "from shipper.durable_files import Lock"),
    "spark imports the edge by its name": ("spark_analytics/tables/spark_io.py", "from shipper import durable_files"),
    "spark imports nats": ("spark_analytics/tables/spark_io.py", "import nats"),
    "deploy imports the house": ("deploy/server.py", "from shipper.compression import Compressor"),
    "nats outside of its room": ("producer/pipeline.py", "from nats.aio.client import Client"),
    "nats at the edge": ("shipper/config.py", "import nats.errors as errors"),
    "nats by a string": ("consumer/commit/sink.py", 'import importlib\nnats = importlib.import_module("nats")'),
    "nats by another string": ("consumer/commit/sink.py", '__import__("nats.aio")'),
    "a program by the text of an entry point": ("partitioner/cli.py", 'WORK = {"run": "consumer.app:run"}'),
    "a string that nobody can read": ("consumer/commit/sink.py", "import_module(name)"),
    "watchdog outside of wake": ("producer/discovery/scanner.py", "import watchdog.events"),
    "re2 outside of linear": ("producer/transform/edits.py", "import re2"),
    "tenacity outside of retry": ("producer/pipeline.py", "import tenacity"),
    "structlog outside of telemetry": ("shipper/events.py", "import structlog"),
    "metrics outside of telemetry": ("shipper/events.py", "from prometheus_client import Counter"),
    "pyspark outside of spark": ("consumer/commit/sink.py", "from pyspark.sql import SparkSession"),
    "sqlite in the shared core": ("shipper/durable_files.py", "import sqlite3"),
    "a tool in the collector": ("consumer/pipeline.py", "from consumer.read.query import parse"),
    "a tool in the library": ("consumer/archive/parts.py", "from consumer.audit import redact"),
    "fakes in a program": ("consumer/cli.py", "from shipper.testing import Bus"),
    "fakes in a program by their room": ("consumer/cli.py", "from shipper import testing"),
    "fakes at the edge": ("shipper/lifecycle.py", "import shipper.testing.server"),
    "a relative import": ("shipper/codec.py", "from . import compression"),
    "a relative import of another room": ("shipper/jetstream/pull_consumer.py", "from ...producer import tail"),
}


@pytest.mark.parametrize(("path", "text"), PLANTED.values(), ids=PLANTED)
def test_the_checker_goes_red_where(path, text):
    house = {
        "shipper/compression.py": "",
        "shipper/durable_files.py": "",
        "consumer/commit/sink.py": "",
        "producer/tailer/file_reader.py": "",
    }
    (found,) = violations(house | {path: text})
    assert found.startswith(f"{path}:")


ALLOWED = {
    "a program imports the core": (
        "producer/tailer/file_reader.py",
        "from shipper.model import Span\nfrom shipper import events",
    ),
    "itself": ("producer/tailer/file_reader.py", "import producer.model"),
    "the journal is sqlite": ("consumer/archive/journal.py", "import sqlite3"),
    "nats in its room": ("shipper/jetstream/pull_consumer.py", "import nats.errors\nfrom nats.aio.msg import Msg"),
    "spark imports the pure ring": (
        "spark_analytics/tables/spark_io.py",
        "from shipper import layout, __version__\nimport pyspark",
    ),
    "the pure ring imports itself": ("shipper/codec.py", "import re\nfrom shipper.model import Span"),
    "the fakes import themselves": ("shipper/testing/server.py", "from shipper.testing.server import MemoryStream"),
    "a name that only looks like it": ("deploy/server.py", "import consumers, natsort"),
}


@pytest.mark.parametrize(("path", "text"), ALLOWED.values(), ids=ALLOWED)
def test_the_checker_stays_green_where(path, text):
    assert violations({"shipper/layout.py": "", "shipper/events.py": "", path: text}) == []
