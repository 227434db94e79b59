"""What the start of a command leaves out, because only few uses need it and it takes long to import."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("verb", ["produce", "consume", "partition", "status", "tail"])
def test_the_help_of_a_command_imports_neither_aiohttp_nor_traces_of_rich(verb: str) -> None:
    code = (
        "import sys; from shipper.main import run; run([sys.argv[1], '--help']);"
        "print({'aiohttp', 'rich.traceback', 'pygments'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, verb], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "set()"


@pytest.mark.parametrize("verb", ["produce", "consume", "partition", "hosts", "tail", "dlq", "redact"])
def test_the_help_of_a_command_imports_none_of_its_libraries(verb: str) -> None:
    code = (
        "import sys; from shipper.main import run; run([sys.argv[1], '--help']);"
        "print({'nats', 'pydantic', 'prometheus_client', 'structlog', 'rich', 'tenacity'} & set(sys.modules),"
        " file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, verb], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "set()"


def test_aiohttp_is_imported_for_a_websocket_url_only() -> None:
    code = (
        "import sys; from shipper.jetstream import load_websockets\n"
        "load_websockets(['nats://host:4222', 'tls://host']); assert 'aiohttp' not in sys.modules\n"
        "load_websockets(['wss://host']); assert sys.modules['nats.aio.transport'].aiohttp is sys.modules['aiohttp']"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
