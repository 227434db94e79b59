import json

import pytest

from partitioner.topology import Sizing, expand, parse_template, shipped_template, template_in, wanted
from shipper.errors import ConfigError
from shipper.subjects import partition_of_stream


def streams(partitions, **options):
    return [each.stream for each in wanted(shipped_template(), subject="logs", partitions=partitions, **options)]


@pytest.mark.parametrize(
    ("partitions", "names"), [(0, ["LOGS_0"]), (1, ["LOGS_0"]), (3, ["LOGS_0", "LOGS_1", "LOGS_2"])]
)
def test_there_is_one_stream_a_partition_and_no_partitions_mean_partition_0(partitions, names):
    assert [stream["name"] for stream in streams(partitions)] == ["DLQ", "DLQ_ADV", "KV_fshipper", "LOGS_BEATS", *names]


def test_each_stream_takes_the_subjects_of_its_partition():
    dead, _, _, beats, *partitions = streams(2)
    assert (dead["subjects"], beats["subjects"]) == (["dlq.>"], ["logs.beat.>"])
    assert [stream["subjects"] for stream in partitions] == [["logs.p0.>"], ["logs.p1.>"]]


def test_the_prefix_of_the_subjects_names_the_streams_too():
    (*_, only) = wanted(shipped_template(), subject="audit", partitions=1)
    assert (only.name, only.stream["subjects"]) == ("AUDIT_0", ["audit.p0.>"])


def test_the_shipped_stream_never_drops_a_line_by_itself():
    (*_, stream) = streams(1)
    kept = {key: stream[key] for key in ("storage", "retention", "discard", "max_age", "allow_direct")}
    assert kept == {"storage": "file", "retention": "limits", "discard": "new", "max_age": 0, "allow_direct": True}


def test_every_partition_has_the_collectors_consumer_and_the_dead_letters_have_none():
    (*beside, first, second) = wanted(shipped_template(), subject="logs", partitions=2)
    assert [each.consumers for each in beside] == [()] * 4
    for each in (first, second):
        (consumer,) = each.consumers
        assert consumer["durable_name"] == "collector"
        assert (consumer["ack_policy"], consumer["max_deliver"]) == ("all", -1)
        assert (consumer["ack_wait"], consumer["max_ack_pending"]) == (60 * 10**9, 5000)


def test_replicas_are_for_all_streams_and_room_for_partitions():
    every = dead, *_, first = streams(1, sizing=Sizing(replicas=3, max_bytes=5_000_000))
    assert {stream["num_replicas"] for stream in every} == {3}
    assert (dead["max_bytes"], first["max_bytes"]) == (268435456, 5_000_000)


def test_placeholders_are_replaced_however_deep_and_other_braces_stay():
    template = {"a": ["{subject}-{n}", {"b": "{{partition(4)}}"}], "n": 1}
    assert expand(template, subject="logs", partition=7) == {"a": ["logs-7", {"b": "{{partition(4)}}"}], "n": 1}


def test_expanding_one_partition_leaves_the_template_for_the_next():
    template = shipped_template()
    wanted(template, subject="logs", partitions=3, sizing=Sizing(max_bytes=10))
    assert template == shipped_template()


@pytest.mark.parametrize(
    ("section", "setting", "complaint"),
    [
        ("stream", {"name": "MINE_{n}"}, "name"),
        ("stream", {"subjects": ["other.>"]}, "without 'logs.p0.>'"),
        ("stream", {"max_bytes": -1}, "max_bytes"),
        ("stream", {"max_msg_size": 524288}, "too small for a block"),
        ("consumer", {"durable_name": "mine"}, "durable_name"),
        ("dead_letters", {"name": "GRAVE"}, "name"),
    ],
)
def test_a_template_that_the_programs_could_not_work_with_is_refused(tmp_path, section, setting, complaint):
    content = {section: dict(getattr(shipped_template(), section)) | setting}
    (tmp_path / "t.json").write_text(json.dumps(content))
    with pytest.raises(ConfigError, match=complaint):
        wanted(template_in(tmp_path / "t.json"), subject="logs", partitions=1)


def test_a_template_may_hold_one_section_only(tmp_path):
    (tmp_path / "t.json").write_text('{"consumer": {"ack_policy": "all"}}')
    template = template_in(tmp_path / "t.json")
    assert (template.stream, template.consumer) == (shipped_template().stream, {"ack_policy": "all"})


@pytest.mark.parametrize("text", ["{", "[]", '{"stream": 1}', '{"streams": {}}', '{"stream": {}}'])
def test_a_file_that_is_no_template_is_refused_by_its_name(text):
    with pytest.raises(ConfigError, match=r"template here"):
        parse_template(text, "here")


def test_a_template_file_that_is_not_there_is_a_configuration_error(tmp_path):
    with pytest.raises(ConfigError, match="nowhere"):
        template_in(tmp_path / "nowhere.json")


@pytest.mark.parametrize(("name", "number"), [("LOGS_0", 0), ("LOGS_12", 12), ("LOGS_012", None), ("DLQ", None)])
def test_only_the_exact_name_is_the_stream_of_a_partition(name, number):
    assert partition_of_stream("logs", name) == number
