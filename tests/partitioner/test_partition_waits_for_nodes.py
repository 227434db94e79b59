"""A cluster whose nodes are away for a moment has no place for a stream; `apply` gives it some seconds."""

import pytest
from administering import on_server

from partitioner import apply
from partitioner.plan import Action, Verb
from shipper.errors import EXIT_UNAVAILABLE, ConfigError, NodeAway
from shipper.jetstream.admin import Admin, explained
from shipper.jetstream.connection import ApiError
from shipper.retry import Backoff

OFFLINE = {"code": 400, "err_code": 10005, "description": "no suitable peers for placement, peer offline"}
NO_TAGS = {"code": 400, "err_code": 10005, "description": "no suitable peers for placement, tags not matched"}
ACTION = Action(verb=Verb.CREATE, stream="LOGS_0", config={"name": "LOGS_0", "subjects": ["logs.p0.>"]})


class Unsettled(Admin):
    """A real server that places no stream the first `refusals` times, as a cluster does whose nodes have just met."""

    def __init__(self, admin: Admin, refusals: int) -> None:
        super().__init__(admin.connection)
        self.refusals = refusals

    async def create_stream(self, config):
        if self.refusals:
            self.refusals -= 1
            raise explained(ApiError("STREAM.CREATE.LOGS_0", OFFLINE))
        return await super().create_stream(config)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(apply, "PLACE", Backoff(first=0.01, cap=0.01))


def carried_out(natsd, refusals):
    """The streams after it."""

    async def work(admin):
        await apply.carry_out(Unsettled(admin, refusals), [ACTION])
        return await admin.names()

    return on_server(natsd, work)


def test_a_stream_is_made_once_its_nodes_are_there(natsd, capsys):
    assert carried_out(natsd, apply.ATTEMPTS - 1) == ["LOGS_0"]
    assert capsys.readouterr().out.startswith("created stream LOGS_0")


def test_nodes_that_stay_away_are_named_with_the_way_out(natsd):
    with pytest.raises(NodeAway, match=r"too few nodes now: STREAM.CREATE.LOGS_0: no suitable peers") as raised:
        carried_out(natsd, apply.ATTEMPTS)
    assert raised.value.exit_code == EXIT_UNAVAILABLE
    assert "fewer --replicas" in raised.value.hint
    assert on_server(natsd, Admin.names) == []


def test_a_place_that_does_not_exist_is_a_wrong_configuration():
    assert isinstance(explained(ApiError("STREAM.CREATE.LOGS_0", NO_TAGS)), ConfigError)
