"""Control messages: to which reply subjects programs answer, and what content is read."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shipper import control

WEB1 = "web1.example.net"
UP, DOWN, MOVER = f"ctl.up.{WEB1}", f"ctl.down.{WEB1}", "ctl.up.fshipper-partition"


@pytest.mark.parametrize(
    ("subject", "reply"),
    [
        (UP, f"_INBOX_{WEB1}.abc.1"),
        (UP, "_INBOX.abc.1"),  # any NATS client, where no rights are configured
        (UP, "_R_.abc.def"),  # nats-server, of a question from another account
        (UP, f"_GR_.cluster.server._INBOX_{WEB1}.abc.1"),  # nats-server, of a question from another cluster
        (MOVER, "_INBOX_partitioner.abc.1"),
        (DOWN, "_INBOX_collector.abc.1"),
        (DOWN, "_INBOX_partitioner.abc.1"),
        (DOWN, "_INBOX_reader.abc.1"),
        (DOWN, "_R_.abc.def"),
    ],
)
def test_an_authorized_question_is_answered(subject: str, reply: str) -> None:
    assert control.may_answer(subject, reply)


@pytest.mark.parametrize("subject", [UP, DOWN, MOVER])
@pytest.mark.parametrize(
    "reply",
    [
        "",
        "logs.p0.web2.example.net",
        "$KV.fshipper.map.logs",
        "$JS.API.STREAM.PURGE.LOGS_0",
        "$JS.ACK.LOGS_0.x",
        "dlq.x",
        "ctl.down.web2.example.net",
        "ctl.up.web2.example.net",
        "_INBOX_web2.example.net.x",
        "_INBOX_web1.example.neta.x",
        f"_INBOX_{WEB1}",
        "_INBOX_.x",
        "_INBOXx",
        "_R_",
        "_GR_.",
        "_GR_.a.b.logs.p0.web2",
        "_GR_.a.b._GR_.c.d.dlq.x",
        "_GR_.a",
        "_INBOX_collecto.x",
        "$SYS.x",
        ">",
        "*",
    ],
)
def test_no_other_reply_subject_is_answered(subject: str, reply: str) -> None:
    assert not control.may_answer(subject, reply)


def test_a_host_may_not_name_the_inbox_of_a_role_nor_a_role_that_of_a_host() -> None:
    assert not control.may_answer(UP, "_INBOX_collector.x")
    assert not control.may_answer(UP, "_INBOX_partitioner.x")
    assert not control.may_answer(DOWN, f"_INBOX_{WEB1}.x")


@given(st.text(max_size=60), st.text(max_size=60))
def test_an_answer_never_goes_outside_of_inboxes(subject: str, reply: str) -> None:
    if control.may_answer(subject, reply):
        assert reply.startswith(("_INBOX", "_R_.", "_GR_."))


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"1", b'"x"', b"null", b'{"a":' * 100_000, b"[" * 100_000, b'{"a": NaN}', b'{"a": Infinity}',
        b'{"a": -Infinity}', b'{"a": ' + b"9" * 10_000 + b"}", b"\xff\xfe", b"\x00", b'{"a": "\xff"}',
    ],
)  # fmt: skip
def test_what_is_no_json_object_of_ours_is_nothing(content: bytes) -> None:
    assert control.decode(content) is None


@given(st.dictionaries(st.text(), st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=5)))
def test_json_objects_are_read_as_they_were_written(content: dict[str, object]) -> None:
    assert control.decode(json.dumps(content).encode()) == content


def test_copies_of_stored_messages_are_recognized_by_the_headers_of_the_server() -> None:
    assert control.is_republished({"Nats-Stream": "LOGS_1"})
    assert control.is_republished({"Log-Id": "x", "Nats-Subject": "logs.p1.a"})
    assert not control.is_republished(
        {"Log-Id": "x", "Nats-Expected-Stream": "LOGS_1", "Nats-Stream-Source": "LOGS_1 1"}
    )
    assert not control.is_republished({})
    assert not control.is_republished(None)
