"""What every test may use: `async def` tests, a clean environment, a real nats-server."""

import asyncio
import inspect
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import settings
from natsd import NatsServer, running

# `tests` is on the path, so the folder tests/partitioner would pass for a namespace package `partitioner` before an
# editable install is asked; a regular package anywhere on the path wins over it.
sys.path.append(str(Path(__file__).resolve().parent.parent))

# The same examples at every run, however busy the machine is; FSHIPPER_RANDOM=1 looks for new ones.
settings.register_profile("fshipper", deadline=None, database=None, derandomize="FSHIPPER_RANDOM" not in os.environ)
settings.load_profile("fshipper")


# A background job inherits an ignored SIGINT, and so would the programs that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
