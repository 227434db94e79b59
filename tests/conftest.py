"""What every test may use: `async def` tests, a clean environment, a real nats-server."""

import asyncio
import atexit
import gc
import inspect
import os
import random
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from harness import browser, forking, reporting, rings
from harness.natsd import NatsServer, running
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# `tests` is on the path, so the folder tests/partitioner would pass for a namespace package `partitioner` before an
# editable install is searched; a regular package anywhere on the path wins over it.
sys.path.append(str(Path(__file__).resolve().parent.parent))

# The same examples at every run, however busy the machine is; FSHIPPER_RANDOM=1 draws new ones.
RANDOM = {
    "deadline": None,
    "database": None,
    "derandomize": "FSHIPPER_RANDOM" not in os.environ,
    "suppress_health_check": [HealthCheck.too_slow],  # a second for ten examples, which a busy machine may take
}
settings.register_profile("fshipper", **RANDOM)
settings.register_profile("check", **RANDOM, max_examples=25)
settings.load_profile("fshipper")


# A background job inherits an ignored SIGINT, `nohup` an ignored SIGHUP, and so would the programs that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN and "PYTEST_XDIST_WORKER" in os.environ:
    signal.signal(signal.SIGHUP, lambda *_: None)  # ignored here; a program that is started gets the default

WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
RECORD = os.environ.get("FSHIPPER_STARTS", "")

# Modules and tests are never garbage: without the collector they are read in two thirds of the time.
gc.disable()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Which tests, and in which order."""
    group = parser.getgroup("fshipper")
    group.addoption(
        "--ring", choices=rings.RINGS, default=rings.ALL, help="check: pure tests; test: those of every day"
    )
    group.addoption("--only", action="store_true", help="leave out the tests of the smaller rings")
    group.addoption("--minutes", type=float, default=0, help="after this time skip the tests that have not started")
    group.addoption("--shuffle", metavar="SEED", default="", help="run the tests in a random order")


def pytest_configure(config: pytest.Config) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # as the programs do; a user may start with 1,024
    is_all = config.getoption("ring") == rings.ALL
    os.environ.setdefault("FSHIPPER_EXAMPLES", "5000" if is_all else "1000")
    os.environ.setdefault("FSHIPPER_INTERRUPTS", "20" if is_all else "3")
    if config.getoption("ring") == rings.CHECK:
        settings.load_profile("check")
        providers._get_local_constants = lambda: providers._local_constants  # a second to search the code for numbers
    if not WORKER and not config.getoption("collectonly"):
        config.pluginmanager.register(reporting.Progress(config))


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the ring; tests that start the most come first, so that no worker ends late."""
    ring = rings.RINGS.index(config.getoption("ring"))
    lowest = ring if config.getoption("only") else 0
    kept, left_out = [], []
    for item in items:
        (kept if lowest <= rings.RINGS.index(rings.ring(item)) <= ring else left_out).append(item)
    numbers = Counter[Path]()
    for item in kept:
        numbers[item.path] += 1
        if not item.get_closest_marker("xdist_group") and (name := rings.group(item, numbers[item.path])):
            item.add_marker(pytest.mark.xdist_group(name))
    if left_out:
        config.hook.pytest_deselected(items=left_out)
    if WORKER:
        kept.sort(key=rings.order)
    if seed := config.getoption("shuffle"):
        random.Random(seed).shuffle(kept)
    items[:] = kept


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


STARTED = time.monotonic()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    forking.use_exec(rings.is_start_tested(item))
    minutes = item.config.getoption("minutes")
    if minutes and time.monotonic() > STARTED + 60 * minutes:
        pytest.skip(f"{reporting.NO_TIME}: {item.path.relative_to(rings.TESTS)}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    """A failure names the directory in which the programs of its test wrote their logs."""
    report = yield
    reporting.fail_unlisted_skip(report)
    if report.failed and "tmp_path" in getattr(item, "funcargs", {}):
        report.user_properties.append(("directory", str(item.funcargs["tmp_path"])))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item):
    """With FSHIPPER_STARTS=FILE: one line for each start of a program, and for each test its wall and CPU seconds."""
    if not RECORD:
        return (yield)
    _running.update(test=item.nodeid, ring=rings.ring(item))
    wall, cpu = time.monotonic(), _cpu_seconds()
    try:
        return (yield)
    finally:
        _record("test", f"{time.monotonic() - wall:.2f}\t{_cpu_seconds() - cpu:.2f}")
        _running.clear()


_running: dict[str, str] = {}


def _cpu_seconds() -> float:
    """Of this process, and of those of its children that ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _record(what: str, value: str) -> None:
    if _running:
        with open(RECORD, "a") as stream:
            stream.write(f"{_running['ring']}\t{_running['test']}\t{what}\t{value}\n")


def _on_start(event: str, arguments: tuple) -> None:
    if event in ("subprocess.Popen", "os.fork", "os.posix_spawn", forking.EVENT):
        _record(event, Path(os.fsdecode(arguments[0])).name if arguments else "")


if RECORD:  # each file that any test opens is an event
    sys.addaudithook(_on_start)


def pytest_sessionfinish() -> None:
    forking.close()
    browser.close()


@atexit.register
def _silence_leaks() -> None:
    """DuckDB's binding lists what it did not free after the last line of the summary."""
    if "duckdb" in sys.modules:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run `async def` tests, each on an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in wanted}))
    return True


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the person who runs the tests reaches them, nor the programs they start."""
    for name in list(os.environ):
        if name.startswith(("SHIPPER_", "NATS_")) or name in {"HOSTNAME", "NOTIFY_SOCKET"}:
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def own_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test logs to its own standard error, whatever another one has set up: a cached logger keeps its stream."""
    structlog.reset_defaults()
    configure = structlog.configure
    configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))
    monkeypatch.setattr(structlog, "configure", lambda **how: configure(**how | {"cache_logger_on_first_use": False}))


@pytest.fixture
def natsd(tmp_path: Path) -> Iterator[NatsServer]:
    """A nats-server with JetStream and a store of its own; the test may kill and restart it."""
    with running(tmp_path / "natsd") as server:
        yield server
