"""The command, as people run it."""

from functools import partial

import pytest
from harness.natsd import running

from shipper.main import run


@pytest.fixture
def partition(natsd, capsys):
    """Runs `fshipper partition ...` against the server; returns exit code, stdout, stderr."""

    def call(*arguments, url=natsd.url):
        server = [] if arguments[0] == "import" else ["--url", url]
        code = run(["partition", *map(str, arguments), *server])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


@pytest.fixture
def at_site(partition, tmp_path):
    """The same, against the server of a site, which has a JetStream domain."""
    with running(tmp_path / "site", domain="edge1") as server:
        yield partial(partition, url=server.url)
