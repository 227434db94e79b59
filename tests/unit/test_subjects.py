import pytest
from hypothesis import given
from hypothesis import strategies as st

from shipper import subjects
from shipper.errors import ConfigError, Poison

HOSTS = st.from_regex(r"\A[a-z0-9_-]{1,20}(\.[a-z0-9_-]{1,20}){0,4}\Z")


@given(st.integers(0, 4095), HOSTS, st.sampled_from(["logs", "audit", "L-2"]))
def test_a_log_subject_is_parsed_back_into_partition_and_host(partition, host, prefix):
    assert subjects.parse_log_subject(subjects.log_subject(prefix, partition, host)) == (partition, host)


@pytest.mark.parametrize(
    ("given_name", "host"),
    [("Web1.Example.NET", "web1.example.net"), (" web1\n", "web1"), ("web1.", "web1"), ("a_b-c.d", "a_b-c.d")],
)
def test_a_host_name_is_made_lower_case_and_trimmed(given_name, host):
    assert subjects.checked_host(given_name) == host


@pytest.mark.parametrize("name", ["", ".", "a..b", "web 1", "web*", "a.>", "wéb", "a/b", "a\0b", "x" * 201])
def test_a_host_name_that_cannot_be_in_a_subject_is_a_configuration_error_that_names_the_setting(name):
    with pytest.raises(ConfigError) as caught:
        subjects.checked_host(name)
    assert "HOSTNAME" in caught.value.hint


@pytest.mark.parametrize("prefix", ["", "a.b", "a b", "*", ">", "é"])
def test_a_prefix_is_one_token(prefix):
    with pytest.raises(ConfigError):
        subjects.checked_prefix(prefix)
    assert subjects.checked_prefix("logs-2_X") == "logs-2_X"


@pytest.mark.parametrize(
    "subject", ["logs", "logs.p0", "logs.p0.", "logs.px.web1", "logs.0.web1", "p0.web1", "logs.p1234567.web1", ""]
)
def test_a_subject_without_partition_or_host_is_poison(subject):
    with pytest.raises(Poison):
        subjects.parse_log_subject(subject)


def test_a_host_too_long_for_a_directory_name_is_poison():
    assert subjects.parse_log_subject("logs.p0." + "x" * 200).host == "x" * 200
    with pytest.raises(Poison, match="200"):
        subjects.parse_log_subject("logs.p0." + "x" * 201)
    with pytest.raises(Poison, match="200"):
        subjects.parse_log_subject("logs.p0." + "é" * 101)


def test_streams_are_named_by_prefix_and_partition_and_found_again():
    assert subjects.stream_name("logs", 7) == "LOGS_7"
    assert subjects.partition_of_stream("logs", "LOGS_7") == 7


@pytest.mark.parametrize("stream", ["DLQ", "AUDIT_7", "LOGS_", "LOGS_x", "logs_7", "LOGS_7x"])
def test_the_streams_of_others_are_none_of_ours(stream):
    assert subjects.partition_of_stream("logs", stream) is None


def test_a_prefix_with_an_underscore_does_not_take_another_prefixs_streams():
    assert subjects.partition_of_stream("app", "APP_LOGS_1") is None
    assert subjects.partition_of_stream("app_logs", "APP_LOGS_1") == 1


def test_the_names_on_the_bus():
    assert subjects.partition_subjects("logs", 3) == "logs.p3.>"
    assert subjects.control_up("web1") == "ctl.up.web1"
    assert subjects.control_down("web1") == "ctl.down.web1"
    assert subjects.dead_letter_subject("LOGS_3", "web1") == "dlq.LOGS_3.web1"
