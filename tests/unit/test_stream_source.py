"""The edge site of a stream and a message, from the configuration and the header."""

import pytest

from shipper.stream_source import SOURCE_HEADER, Origin, origin_of, sequence_at_origin

EDGE1 = {"name": "LOGS_100", "external": {"api": "$JS.edge1.API", "deliver": ""}}


def test_a_stream_that_only_takes_from_one_site_has_an_origin():
    found = origin_of({"name": "LOGS_100", "sources": [EDGE1]})
    assert found == Origin("LOGS_100", "edge1")
    assert found.api == "$JS.edge1.API"
    assert origin_of({"sources": [found.source]}) == found


@pytest.mark.parametrize(
    "config",
    [
        {"subjects": ["logs.p0.>"]},
        {"subjects": ["logs.p100.>"], "sources": [EDGE1]},
        {"sources": [EDGE1, {**EDGE1, "name": "LOGS_101"}]},
        {"sources": [{"name": "ORDERS"}]},
        {"sources": [{"name": "ORDERS", "external": None}]},
        {"sources": [{"name": "ORDERS", "external": {"api": "JS.other.account"}}]},
        {"sources": None},
    ],
    ids=["listens", "listens too", "two", "same server", "nothing external", "another account", "none"],
)
def test_any_other_stream_has_none(config):
    assert origin_of(config) is None


@pytest.mark.parametrize(
    ("told", "sequence"),
    [
        ("LOGS_100:JE7QNXai 7 > > logs.p100.web1 b2P44EEY", 7),
        ("LOGS_100:JE7QNXai 4294967297", 4294967297),
        ("LOGS_100", None),
        ("", None),
        ("LOGS_100 seven > >", None),
        ("$JS.ACK.LOGS_100.x.1.7.7.1.0", None),
    ],
)
def test_the_header_of_a_sourced_message_contains_its_place_there(told, sequence):
    assert sequence_at_origin({SOURCE_HEADER: told}) == sequence


def test_a_message_that_was_published_here_has_no_other_place():
    assert sequence_at_origin({"Log-Id": "0123456789abcdef"}) is None
