import pytest

from partitioner.apply import check
from partitioner.diff import Change, differences, merged
from partitioner.plan import Action, ActualStream, AllowedChanges, Verb, plan
from partitioner.topology import DesiredStream, shipped_template, wanted
from shipper.errors import Fatal

GIB = 2**30


def info(config, *, messages=0, size=0, first="0001-01-01T00:00:00Z"):
    """A stream as nats-server 2.15 answers for `config`, with what it fills in."""
    filled = {
        "max_consumers": -1,
        "max_msgs": -1,
        "max_msgs_per_subject": -1,
        "mirror_direct": False,
        "sealed": False,
        "consumer_limits": {},
        **{key: value for key, value in config.items() if value not in (False, "")},
        "metadata": {"_nats.ver": "2.15.1", "_nats.level": "5", **config.get("metadata", {})},
    }
    state = {"messages": messages, "bytes": size, "first_ts": first, "first_seq": 1, "last_seq": messages}
    return {"config": filled, "state": state, "ts": "2026-11-21T12:00:00.123456789Z"}


def consumer_info(config, *, pending=0, ack_pending=0):
    return {"config": {**config, "num_replicas": 0}, "num_pending": pending, "num_ack_pending": ack_pending}


def desired(partitions=1, **stream):
    chosen = wanted(shipped_template(), subject="logs", partitions=partitions)
    for each in chosen[1:]:
        each.stream.update(stream)
    return chosen


def server(partitions=1, *, stream=None, consumer=None, **state):
    """What a server has after `apply` for `partitions`, with other settings put in."""
    found = {}
    for each in desired(partitions):
        ours = each.partition is not None
        config = {**each.stream, **(stream or {})} if ours else each.stream
        read = {"collector": consumer_info({**each.consumers[0], **(consumer or {})})} if ours else {}
        found[each.name] = ActualStream(info(config, **(state if ours else {})), read)
    return found


def only(actions, stream="LOGS_0", consumer=""):
    (action,) = [action for action in actions if (action.stream, action.consumer) == (stream, consumer)]
    return action


def test_an_empty_server_gets_everything_and_the_dead_letters_first():
    actions = plan(desired(2), {}, subject="logs")
    assert [(action.verb, action.stream, action.consumer) for action in actions] == [
        (Verb.CREATE, "DLQ", ""),
        (Verb.CREATE, "DLQ_ADV", ""),
        (Verb.CREATE, "KV_fshipper", ""),
        (Verb.CREATE, "LOGS_BEATS", ""),
        (Verb.CREATE, "LOGS_0", ""),
        (Verb.CREATE, "LOGS_0", "collector"),
        (Verb.CREATE, "LOGS_1", ""),
        (Verb.CREATE, "LOGS_1", "collector"),
    ]


def test_what_the_server_fills_in_is_no_difference():
    assert {action.verb for action in plan(desired(3), server(3), subject="logs")} == {Verb.KEEP}


def test_settings_that_the_template_does_not_name_are_left_alone():
    found = server(stream={"description": "of the night shift", "allow_rollup_hdrs": True})
    assert only(plan(desired(), found, subject="logs")).verb is Verb.KEEP


def test_an_update_sends_the_unknown_fields_back_and_not_what_the_server_noted_for_itself():
    found = server(stream={"from_the_future": {"deep": [1]}, "metadata": {"team": "web"}})
    action = only(plan(desired(max_bytes=2 * GIB), found, subject="logs"))
    assert action.verb is Verb.UPDATE
    assert action.config["from_the_future"] == {"deep": [1]}
    assert action.config["metadata"] == {"team": "web", "fshipper.template": "logs-v1"}
    assert Change("max_bytes", GIB, 2 * GIB) in action.changes


def test_a_missing_consumer_is_created_on_a_stream_that_is_kept():
    found = {name: ActualStream(actual.stream) for name, actual in server().items()}
    actions = plan(desired(), found, subject="logs")
    assert only(actions).verb is Verb.KEEP
    assert only(actions, consumer="collector").verb is Verb.CREATE


def test_a_filter_on_the_consumer_that_hides_hosts_is_taken_away():
    found = server(consumer={"filter_subject": "logs.p0.web1"})
    action = only(plan(desired(), found, subject="logs"), consumer="collector")
    assert action.verb is Verb.UPDATE
    assert action.config["filter_subject"] == ""


@pytest.mark.parametrize(
    ("setting", "state", "reason"),
    [
        ({"max_bytes": 1000}, {"messages": 5, "size": 5000}, "less than the 4.9 KiB stored"),
        ({"max_msgs": 3}, {"messages": 5, "size": 5000}, "less than the 5 stored"),
        ({"max_msgs_per_subject": 3}, {"messages": 5, "size": 5000}, "for a host"),
        ({"max_age": 3600 * 10**9}, {"messages": 5, "first": "2026-11-21T10:00:00.5Z"}, "that are 7200 s old"),
        ({"discard": "old"}, {}, "drops the oldest lines"),
        ({"retention": "interest"}, {}, "drops lines when they are acknowledged"),
        ({"no_ack": True}, {}, "never acknowledges"),
        ({"sealed": True}, {}, "takes no more lines"),
        ({"subjects": ["elsewhere.p0.>"]}, {}, "publish on logs.p0.> would find no stream"),
    ],
)
def test_an_update_that_would_lose_lines_is_refused_until_a_flag_allows_it(setting, state, reason):
    found = server(**state)
    refused = only(plan(desired(**setting), found, subject="logs"))
    assert (refused.verb, refused.flag) == (Verb.REFUSE, "--allow-data-loss")
    assert reason in refused.reason
    allowed = only(plan(desired(**setting), found, subject="logs", allowed=AllowedChanges(data_loss=True)))
    assert allowed.verb is Verb.UPDATE


@pytest.mark.parametrize(
    ("setting", "state"),
    [
        ({"max_bytes": 5000}, {"messages": 5, "size": 5000}),
        ({"max_age": 3 * 3600 * 10**9}, {"messages": 5, "size": 5000, "first": "2026-11-21T10:00:00.5Z"}),
        ({"max_age": 1}, {}),
        ({"subjects": ["logs.p0.>", "more.>"]}, {"messages": 5}),
    ],
)
def test_an_update_that_loses_nothing_is_done(setting, state):
    assert only(plan(desired(**setting), server(**state), subject="logs")).verb is Verb.UPDATE


def test_a_stream_that_the_server_cannot_replicate_keeps_its_replica_and_stops_no_other_change():
    """Heartbeats were created for one server with persist_mode async, which is never changed and never replicated."""
    beats = {"name": "LOGS_BEATS", "subjects": ["logs.beat.>"], "storage": "file", "num_replicas": 3, "max_age": 2}
    found = {"LOGS_BEATS": ActualStream(info({**beats, "num_replicas": 1, "persist_mode": "async", "max_age": 1}))}
    (action,) = plan([DesiredStream(stream=beats)], found, subject="logs")
    assert (action.verb, action.config["num_replicas"]) == (Verb.UPDATE, 1)
    assert [change.field for change in action.changes] == ["max_age"]
    (kept,) = plan([DesiredStream(stream={**beats, "max_age": 1})], found, subject="logs")
    assert (kept.verb, "keeps 1 replica" in kept.reason) == (Verb.KEEP, True)


@pytest.mark.parametrize("setting", [{"discard": "old"}, {"storage": "memory"}, {"persist_mode": "async"}])
def test_a_new_stream_that_could_lose_lines_is_refused_with_its_consumer(setting):
    actions = plan(desired(**setting), {}, subject="logs")
    assert only(actions).verb is Verb.REFUSE
    assert not [action for action in actions if action.consumer]


def test_dead_letters_may_drop_their_oldest():
    assert only(plan(desired(), {}, subject="logs"), stream="DLQ").verb is Verb.CREATE


@pytest.mark.parametrize("setting", [{"storage": "memory"}, {"persist_mode": "async"}, {"retention": "workqueue"}])
def test_what_the_server_cannot_change_is_refused_and_no_flag_helps(setting):
    allowed = AllowedChanges(data_loss=True, recreate_consumers=True, prune=True)
    action = only(plan(desired(**setting), server(), subject="logs", allowed=allowed))
    assert (action.verb, action.flag) == (Verb.REFUSE, "")


def test_a_consumer_that_the_server_cannot_change_is_created_again_only_by_flag():
    found = server(consumer={"ack_policy": "explicit"})
    refused = only(plan(desired(), found, subject="logs"), consumer="collector")
    assert (refused.verb, refused.flag) == (Verb.REFUSE, "--recreate-consumers")
    allowed = AllowedChanges(recreate_consumers=True)
    again = only(plan(desired(), found, subject="logs", allowed=allowed), consumer="collector")
    assert (again.verb, again.config["ack_policy"]) == (Verb.REPLACE, "all")


def test_streams_of_partitions_that_are_too_many_stay_unless_pruned():
    actions = plan(desired(1), server(3), subject="logs")
    assert [only(actions, stream=name).verb for name in ("LOGS_1", "LOGS_2")] == [Verb.KEEP, Verb.KEEP]
    pruned = plan(desired(1), server(3), subject="logs", allowed=AllowedChanges(prune=True))
    assert [only(pruned, stream=name).verb for name in ("LOGS_1", "LOGS_2")] == [Verb.DELETE, Verb.DELETE]


def test_pruning_a_stream_that_holds_messages_needs_a_second_flag_and_reports_how_many_are_unread():
    found = server(2, messages=7, size=700)
    found["LOGS_1"] = ActualStream(found["LOGS_1"].stream, {"collector": consumer_info({}, pending=2, ack_pending=1)})
    action = only(plan(desired(1), found, subject="logs", allowed=AllowedChanges(prune=True)), stream="LOGS_1")
    assert (action.verb, action.flag) == (Verb.REFUSE, "--allow-data-loss")
    assert "7 messages, 3 not yet" in action.reason
    both = AllowedChanges(prune=True, data_loss=True)
    assert only(plan(desired(1), found, subject="logs", allowed=both), stream="LOGS_1").verb is Verb.DELETE


@pytest.mark.parametrize("name", ["ORDERS", "LOGS_x", "LOGS_007", "MYLOGS_1", "logs_1"])
def test_streams_of_others_are_never_touched(name):
    found = server() | {name: ActualStream(info({"name": name, "subjects": ["orders.>"]}))}
    actions = plan(desired(), found, subject="logs", allowed=AllowedChanges(prune=True, data_loss=True))
    assert name not in [action.stream for action in actions]


def test_one_refusal_stops_the_whole_plan_and_the_error_names_every_flag():
    refusals = [
        Action(verb=Verb.CREATE, stream="LOGS_0"),
        Action(verb=Verb.REFUSE, stream="LOGS_1", reason="it would hurt", flag="--allow-data-loss"),
        Action(verb=Verb.REFUSE, stream="LOGS_2", consumer="collector", reason="other", flag="--recreate-consumers"),
    ]
    with pytest.raises(Fatal, match=r"stream LOGS_1: it would hurt\n.*consumer collector on LOGS_2: other") as caught:
        check(refusals)
    assert "--allow-data-loss --recreate-consumers" in caught.value.hint


@pytest.mark.parametrize(
    ("after", "actual"),
    [
        ({"max_age": 0}, {}),
        ({"no_ack": False}, {}),
        ({"filter_subject": ""}, {}),
        ({"max_msgs": 0}, {"max_msgs": -1}),
        ({"max_bytes": -1}, {}),
        ({"subjects": ["a", "b"]}, {"subjects": ["b", "a"]}),
        ({"metadata": {}}, {"metadata": {"_nats.ver": "2"}}),
    ],
)
def test_what_means_the_same_is_no_difference(after, actual):
    assert differences(after, actual) == ()


def test_a_difference_within_metadata_is_named_by_its_path():
    assert differences({"metadata": {"a": "1"}}, {"metadata": {"a": "0"}}) == (Change("metadata.a", "0", "1"),)


def test_merging_keeps_what_is_not_wanted_otherwise():
    assert merged({"a": 1, "deep": {"x": 1}}, {"a": 0, "b": 2, "deep": {"y": 2}}) == {
        "a": 1,
        "b": 2,
        "deep": {"x": 1, "y": 2},
    }
