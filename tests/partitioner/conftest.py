"""The command, as people run it."""

import pytest

from shipper.main import run


@pytest.fixture
def partition(natsd, capsys):
    """Runs `fshipper partition ...` against the server; returns exit code, stdout, stderr."""

    def call(*arguments, url=natsd.url):
        code = run(["partition", *map(str, arguments), "--url", url])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call
