"""The worlds as fixtures."""

import pytest
from worlds import world_of


@pytest.fixture(params=["memory", "server"])
def world(request, tmp_path):
    """A world to open sessions in; the promises are the same in both."""
    with world_of(request.param, tmp_path / "natsd") as found:
        yield found


@pytest.fixture
def server(tmp_path):
    """The world of a real server, for what cannot happen in memory."""
    with world_of("server", tmp_path / "natsd") as found:
        yield found


@pytest.fixture
def busy_server(tmp_path):
    """The world of a real server that lets one message wait to be stored, and refuses more."""
    with world_of("server", tmp_path / "natsd", sync="always", waiting_messages=1) as found:
        yield found
