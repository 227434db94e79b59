"""Desired-state files: what people keep in a repository, and what servers and other tools print."""

import json
import re
import tomllib

import pytest
from administering import on_server

from partitioner.desired import in_server_units, parse, to_toml, wanted_of
from partitioner.topology import shipped_template
from shipper.errors import ConfigError

MINUTE = 60 * 10**9
CHANGED = {
    "stream": {
        "subjects": ["logs.p0.>", "more.>"],
        "storage": "memory",
        "retention": "interest",
        "discard": "old",
        "max_bytes": "2GiB",
        "max_age": "24h",
        "max_msg_size": "2MiB",
        "duplicate_window": "2s",
        "num_replicas": 3,
        "allow_direct": False,
        "compression": "s2",
        "no_ack": True,
        "deny_purge": True,
        "metadata": {"fshipper.template": "mine"},
    },
    "consumer": {
        "ack_policy": "explicit",
        "ack_wait": "30s",
        "max_deliver": 7,
        "max_ack_pending": 100,
        "max_waiting": 17,
        "deliver_policy": "new",
        "replay_policy": "original",
        "filter_subject": "logs.p0.web1",
        "headers_only": True,
    },
    "dead_letters": {"max_bytes": "1GiB", "subjects": ["dlq.>", "grave.>"], "max_age": "1h", "discard": "new"},
    "advisories": {"max_bytes": "1MiB", "compression": "none", "metadata": {"fshipper.template": "x"}},
}

STREAM_SETTINGS = (
    {"max_age": "1m", "duplicate_window": 0},
    {"duplicate_window": 0, "num_replicas": 0, "max_msgs": 0, "max_msgs_per_subject": 0, "max_msg_size": 0},
    {"first_seq": 100, "description": "x", "max_consumers": 5, "no_ack": True, "persist_mode": "default"},
    {"subject_transform": {"src": ">", "dest": "z.>"}, "republish": {"src": "", "dest": "rep.>"}},
    {"placement": {"cluster": "", "tags": []}, "consumer_limits": {}, "mirror": None, "sources": []},
    {"sources": [{"name": "OTHER", "filter_subject": "", "subject_transforms": [{"src": "a.>", "dest": "b.>"}]}]},
    {"allow_rollup_hdrs": True, "allow_msg_ttl": True, "subject_delete_marker_ttl": "1s", "deny_delete": True},
    {"allow_atomic": True, "allow_batched": True, "compression": "s2"},
    {"allow_msg_counter": True},
    {"discard_new_per_subject": True, "max_msgs_per_subject": 5, "discard": "new"},
    {"consumer_limits": {"inactive_threshold": "1m", "max_ack_pending": 6000}, "retention": "interest"},
    {"storage": "memory", "max_bytes": 0, "subjects": []},
)
CONSUMER_SETTINGS = (
    {"opt_start_seq": 5, "deliver_policy": "by_start_sequence"},
    {"opt_start_time": "2026-01-01T00:00:00.500+00:00", "deliver_policy": "by_start_time"},
    {"ack_wait": 0, "max_deliver": 0, "max_waiting": 0, "max_ack_pending": 0, "num_replicas": 0, "max_batch": 10},
    {"ack_wait": "1m", "max_deliver": 5, "backoff": ["1s", "2s"], "sample_freq": "50%", "max_expires": "1s"},
    {"filter_subjects": ["s.b", "s.a"], "headers_only": True, "max_ack_pending": -1, "max_bytes": 10000},
    {"priority_groups": ["g"], "priority_policy": "pinned_client", "priority_timeout": 0},
    {"priority_policy": "none", "pause_until": "2030-01-01T00:00:00+00:00", "mem_storage": True},
    {"deliver_subject": "out.p0", "flow_control": True, "idle_heartbeat": "1s", "rate_limit_bps": 1000000},
    {"inactive_threshold": "1m", "replay_policy": "original", "metadata": {"a": "b"}},
)


def info(natsd, name):
    return on_server(natsd, lambda admin: admin.stream(name))


def create(natsd, config, *consumers):
    async def work(admin):
        await admin.create_stream(config)
        for consumer in consumers:
            await admin.create_consumer(config["name"], consumer)

    on_server(natsd, work)


def desired(text, **left_open):
    given = {"subject": "logs", "partitions": 0} | left_open
    return wanted_of(parse(text, "here"), shipped_template(), **given)


def test_what_was_applied_from_a_file_is_as_the_file_describes_and_stays_so(natsd, partition, tmp_path):
    file = tmp_path / "partitions.toml"
    file.write_text('partitions = 2\nmax_bytes = "100MB"\n[partition.1]\nmax_bytes = "200MB"\n')
    assert partition("apply", "--file", file)[0] == 0
    assert partition("plan", "--file", file)[:2] == (0, "nothing to do\n")
    assert [info(natsd, name)["config"]["max_bytes"] for name in ("LOGS_0", "LOGS_1")] == [10**8, 2 * 10**8]


@pytest.mark.parametrize("section", CHANGED)
def test_each_changed_field_of_the_template_is_one_line_of_the_plan(partition, tmp_path, section):
    assert set(CHANGED["stream"]) == set(shipped_template().stream)
    assert set(CHANGED["consumer"]) == set(shipped_template().consumer)
    partition("apply")
    file = tmp_path / "partitions.json"
    for field, value in CHANGED[section].items():
        file.write_text(json.dumps({section: {field: value}}))
        code, out, _ = partition("plan", "--file", file)
        assert (code, len(re.findall(r"^    \S", out, re.MULTILINE))) == (2, 1), (field, out)


def test_what_a_server_accepts_is_no_change_right_after(natsd, partition, tmp_path):
    create(natsd, {"name": "OTHER", "subjects": ["a.>"]})
    consumers = [{"durable_name": f"c{number}"} | each for number, each in enumerate(CONSUMER_SETTINGS)]
    streams = [
        {"name": f"S{number}", "subjects": [f"s{number}.>"], "storage": "file"} | each
        for number, each in enumerate(STREAM_SETTINGS)
    ]
    file = tmp_path / "state.json"
    file.write_text(json.dumps({"streams": [*streams, {"name": "S", "subjects": ["s.>"], "consumers": consumers}]}))
    code, out, err = partition("apply", "--file", file)
    assert (code, err, len(out.splitlines())) == (0, "", len(streams) + len(consumers) + 1)
    assert partition("plan", "--file", file)[:2] == (0, "nothing to do\n")


def test_the_plan_has_colours_on_request(partition):
    partition("apply")
    code, out, _ = partition("plan", "--max-bytes", "2GiB", "--color", "always")
    assert code == 2
    assert "\x1b[31m1.0 GiB\x1b[0m" in out
    assert "\x1b[32m2.0 GiB\x1b[0m" in out


def test_what_was_exported_is_no_change_and_makes_the_same_on_an_empty_server(natsd, partition, tmp_path):
    file = tmp_path / "state.toml"
    partition("apply", "--partitions", "2", "--max-bytes", "123MB")
    assert partition("export", "--output", file)[:2] == (0, f"wrote {file}\n")
    assert partition("plan", "--file", file)[:2] == (0, "nothing to do\n")
    before = info(natsd, "LOGS_1")["config"]
    natsd.stop()
    natsd.store.rename(tmp_path / "gone")
    natsd.start()
    assert partition("apply", "--file", file)[0] == 0
    assert info(natsd, "LOGS_1")["config"] == before
    assert partition("plan", "--partitions", "2", "--max-bytes", "123MB")[:2] == (0, "nothing to do\n")


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_streams_of_others_are_exported_by_name_with_every_field(natsd, partition, tmp_path, flags):
    config = {"name": "ORDERS", "subjects": ["orders.>"], "description": 'a "b"\\ \n é', "metadata": {"a b": "c"}}
    create(natsd, config, {"durable_name": "billing", "ack_policy": "explicit", "backoff": [MINUTE, 2 * MINUTE]})
    code, out, _ = partition("export", "ORDERS", *flags)
    (stream,) = (json.loads(out) if flags else tomllib.loads(out))["streams"]
    assert code == 0
    assert {key: stream[key] for key in config} == config
    assert stream["consumers"][0]["backoff"] == [MINUTE, 2 * MINUTE]
    assert not any(key.startswith("_nats.") for key in stream["metadata"])
    (tmp_path / "orders").write_text(out)
    assert partition("plan", "--file", tmp_path / "orders")[:2] == (0, "nothing to do\n")


def test_what_other_tools_print_of_a_stream_is_a_desired_state(natsd, partition, tmp_path):
    create(natsd, {"name": "ORDERS", "subjects": ["orders.>"]})
    told = info(natsd, "ORDERS") | {"cluster": {"leader": "n1"}}
    (tmp_path / "told.json").write_text(json.dumps(told))
    assert "created" in told
    assert partition("plan", "--file", tmp_path / "told.json")[:2] == (0, "nothing to do\n")
    told["config"]["max_msgs"] = 10
    (tmp_path / "told.json").write_text(json.dumps(told))
    code, out, _ = partition("plan", "--file", tmp_path / "told.json")
    assert (code, out.splitlines()) == (2, ["~ update stream ORDERS", "    max_msgs -1 → 10", "1 to update"])


def test_imported_files_become_one_that_keeps_what_this_version_does_not_know(partition, tmp_path):
    stream = {"config": {"name": "A", "subjects": ["a"], "from_the_future": {"deep": [1]}}, "created": "x", "state": {}}
    stream["config"]["metadata"] = {"_nats.ver": "2.15.1", "team": "web"}
    (tmp_path / "a.json").write_text(json.dumps(stream))
    (tmp_path / "c.json").write_text(json.dumps({"stream_name": "A", "name": "c", "config": {"durable_name": "c"}}))
    code, out, _ = partition("import", tmp_path / "a.json", tmp_path / "c.json")
    assert code == 0
    assert tomllib.loads(out)["streams"] == [
        {
            "name": "A",
            "subjects": ["a"],
            "from_the_future": {"deep": [1]},
            "metadata": {"team": "web"},
            "consumers": [{"durable_name": "c"}],
        }
    ]


def test_a_file_of_streams_alone_requires_nothing_else(natsd, partition, tmp_path):
    partition("apply", "--partitions", "2")
    (tmp_path / "f.toml").write_text('[[streams]]\nname = "ORDERS"\nsubjects = ["orders.>"]\nmax_age = "1h"\n')
    code, out, _ = partition("apply", "--file", tmp_path / "f.toml")
    assert (code, out) == (0, "created stream ORDERS (orders.>)\n")
    assert info(natsd, "ORDERS")["config"]["max_age"] == 60 * MINUTE


def test_flags_count_before_the_file_and_the_file_before_the_environment(partition, tmp_path, monkeypatch):
    monkeypatch.setenv("SHIPPER_PARTITIONS", "5")
    (tmp_path / "f.toml").write_text("partitions = 2\n")
    assert partition("plan", "--file", tmp_path / "f.toml")[1].splitlines()[-1] == "9 to create"
    assert partition("plan", "--file", tmp_path / "f.toml", "--partitions", "1")[1].splitlines()[-1] == "7 to create"


def test_the_template_is_changed_field_by_field(tmp_path):
    (*_, stream) = desired('[stream]\ncompression = "s2"\nmetadata = { team = "{subject}-{n}" }')
    assert (stream.stream["compression"], stream.stream["discard"]) == ("s2", "new")
    assert stream.stream["metadata"] == {"fshipper.template": "logs-v1", "team": "logs-0"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("partitoins = 2", "unknown field 'partitoins'"),
        ("partitions = -1", "partitions = -1"),
        ('partitions = "4"', "partitions"),
        ('max_bytes = "much"', "'much' is no size"),
        ('[stream]\nmax_age = "soon"', "'soon' is no duration"),
        ("[partition.x]\nmax_bytes = 5", "is no partition"),
        ("[partition.1]\nmax_bytes = 5", "exception for partition 1"),
        ('[[streams]]\nsubjects = ["a"]', "has no name"),
        ('partitions = 1\n[[streams]]\nname = "LOGS_0"', "LOGS_0 is defined twice"),
        ('[[streams]]\nname = "A"\nx = 1\n[[streams]]\nname = "A"\ny = 1', "A is defined twice"),
        ("[[streams", "no TOML"),
        ('{"streams": ', "no JSON"),
        ("42", "neither a table nor a list"),
        ('stream = "x"', "is no table"),
    ],
)
def test_an_invalid_file_is_refused_by_its_name(text, complaint):
    with pytest.raises(ConfigError, match=complaint):
        desired(text)


def test_sizes_times_and_moments_are_written_as_people_do():
    told = tomllib.loads('max_age = "1h30m"\nbackoff = ["1s", 5]\nname = "24h"\nopt_start_time = 2026-01-02T03:04:05Z')
    assert in_server_units(told) == {
        "max_age": 90 * MINUTE,
        "backoff": [10**9, 5],
        "name": "24h",
        "opt_start_time": "2026-01-02T03:04:05+00:00",
    }


@pytest.mark.parametrize("text", ["plain", 'quo"te', "back\\slash", "new\nline", "\x7f\x00", "é😀", ""])
def test_any_text_comes_back_from_toml_as_it_was(text):
    document = {"t": text, "streams": [{"name": text, "m": {text: [1, True, {"x": 1.5}]}}], "top": {"a": {"b": text}}}
    assert tomllib.loads(to_toml(document)) == document
