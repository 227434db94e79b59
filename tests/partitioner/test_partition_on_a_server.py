"""`fshipper partition` as people run it, against a real nats-server."""

import json

import pytest
from administering import on_server, publish
from harness.natsd import running

from partitioner import arguments
from shipper.errors import ConfigError, SessionLost, Unavailable
from shipper.main import run
from shipper.settings import NatsSettings, Settings

ADVISORY = "$JS.EVENT.ADVISORY.CONSUMER"


def config_of(natsd, name):
    return on_server(natsd, lambda admin: admin.stream(name))["config"]


def test_apply_creates_streams_consumers_and_dead_letters_and_reports_it(natsd, partition):
    code, out, _ = partition("apply", "--partitions", "2")
    assert code == 0
    assert out.splitlines() == [
        "created stream DLQ (dlq.>)",
        f"created stream DLQ_ADV ({ADVISORY}.MAX_DELIVERIES.*.collector, {ADVISORY}.MSG_TERMINATED.*.collector)",
        "created stream KV_fshipper ($KV.fshipper.>)",
        "created stream LOGS_BEATS (logs.beat.>)",
        "created stream LOGS_0 (logs.p0.>)",
        "created consumer collector on LOGS_0",
        "created stream LOGS_1 (logs.p1.>)",
        "created consumer collector on LOGS_1",
        "created partition map map.logs (hosts follow it: partitions 0 to 1)",
    ]
    names = [info["config"]["name"] for info in on_server(natsd, lambda admin: admin.streams())]
    assert names == ["DLQ", "DLQ_ADV", "KV_fshipper", "LOGS_0", "LOGS_1", "LOGS_BEATS"]
    (consumer,) = on_server(natsd, lambda admin: admin.consumers("LOGS_1"))
    assert (consumer["name"], consumer["config"]["ack_policy"]) == ("collector", "all")


def test_applying_again_does_nothing_and_the_plan_is_empty(partition):
    partition("apply", "--partitions", "2")
    assert partition("apply", "--partitions", "2") == (0, "nothing to do\n", "")
    assert partition("plan", "--partitions", "2", "--detailed-exitcode") == (0, "nothing to do\n", "")


def test_a_plan_shows_what_apply_would_do_and_does_none_of_it(natsd, partition):
    code, out, _ = partition("plan", "--partitions", "1")
    assert (code, out.splitlines()[-1]) == (2, "7 to create")
    assert partition("plan", "--no-detailed-exitcode")[0] == 0
    assert on_server(natsd, lambda admin: admin.streams()) == []


def test_a_plan_for_programs_is_json(partition):
    partition("apply")
    code, out, _ = partition("plan", "--json", "--max-bytes", "2GiB")
    plan = json.loads(out)
    (action,) = [action for action in plan["actions"] if action["verb"] != "keep"]
    assert (code, plan["changes"], action["stream"]) == (2, True, "LOGS_0")
    assert action["changes"] == [{"field": "max_bytes", "before": 2**30, "after": 2**31}]


def test_the_number_of_partitions_comes_from_the_environment_too(natsd, partition, monkeypatch):
    monkeypatch.setenv("SHIPPER_PARTITIONS", "3")
    monkeypatch.setenv("NATS_URL", natsd.url)
    assert run(["partition", "apply"]) == 0
    assert len(on_server(natsd, lambda admin: admin.streams())) == 7


@pytest.mark.parametrize("verb", ["apply", "plan"])
@pytest.mark.parametrize("number", ["1", "4", "0"])
def test_another_number_of_partitions_than_the_map_has_is_refused_with_the_command_that_moves_hosts(
    natsd, partition, verb, number
):
    partition("apply", "--partitions", "2")
    before = on_server(natsd, lambda admin: admin.streams())
    code, out, err = partition(verb, "--partitions", number)
    assert (code, out) == (78, "")
    assert "the partition map (version 1) has 2 partitions" in err
    assert f"fshipper partition move --partitions {max(1, int(number))}" in err
    assert [info["config"] for info in before] == [
        info["config"] for info in on_server(natsd, lambda admin: admin.streams())
    ]


def test_without_a_number_the_map_reports_how_many_partitions_there_are(partition):
    partition("apply", "--partitions", "3")
    assert partition("apply") == (0, "nothing to do\n", "")
    assert partition("plan") == (0, "nothing to do\n", "")


def without_map(natsd):
    """The server as a version left it that wrote no map."""
    on_server(natsd, lambda admin: admin.purge("KV_fshipper", below=2**53, subject="$KV.fshipper.map.logs"))


def test_a_server_of_an_older_version_gets_the_map_of_the_partitions_that_it_has(natsd, partition):
    partition("apply", "--partitions", "3")
    without_map(natsd)
    publish(natsd, "logs.p1.web1", b"line")
    code, _, err = partition("apply", "--partitions", "8")
    assert (code, "the server has 3 partitions" in err) == (78, True)
    assert partition("plan")[0] == 2
    assert partition("apply")[:2] == (0, "created partition map map.logs (hosts follow it: partitions 0 to 2)\n")


def test_an_interrupted_apply_continues_with_the_number_that_was_requested(natsd, partition):
    partition("apply", "--partitions", "2")
    without_map(natsd)  # the map comes last
    code, out, _ = partition("apply", "--partitions", "4")
    assert (code, out.splitlines()[-1]) == (0, "created partition map map.logs (hosts follow it: partitions 0 to 3)")


def test_an_edge_site_is_not_taken_for_the_centre(at_site):
    assert at_site("edge", "100-101")[0] == 0
    code, _, err = at_site("apply")
    assert (code, "fshipper partition edge 100,101" in err) == (78, True)


def test_changing_what_exists_wants_a_terminal_or_yes(natsd, partition):
    partition("apply")
    code, _, err = partition("apply", "--max-bytes", "2GiB")
    assert code == 64
    assert "--yes" in err
    assert config_of(natsd, "LOGS_0")["max_bytes"] == 2**30
    code, out, _ = partition("apply", "--max-bytes", "2GiB", "--yes")
    assert (code, out) == (0, "updated stream LOGS_0 (max_bytes 1.0 GiB → 2.0 GiB)\n")
    assert config_of(natsd, "LOGS_0")["max_bytes"] == 2**31


def test_streams_of_an_older_version_get_the_short_window_of_message_ids(natsd, partition):
    partition("apply")
    short = {name: config_of(natsd, name)["duplicate_window"] for name in ("LOGS_0", "LOGS_BEATS")}

    async def made_long(admin):
        for name in short:
            await admin.update_stream({**(await admin.stream(name))["config"], "duplicate_window": 120 * 10**9})

    on_server(natsd, made_long)
    assert partition("apply", "--yes")[0] == 0
    assert short == {name: config_of(natsd, name)["duplicate_window"] for name in short}
    assert set(short.values()) == {100_000_000}


def test_what_others_set_on_a_stream_survives_an_update(natsd, partition):
    partition("apply")

    async def decorate(admin):
        config = (await admin.stream("LOGS_0"))["config"]
        await admin.update_stream(
            {**config, "description": "night shift", "allow_msg_ttl": True, "allow_batched": True}
        )

    on_server(natsd, decorate)
    assert partition("plan")[1] == "nothing to do\n"
    assert partition("apply", "--max-bytes", "2GiB", "--yes")[0] == 0
    config = config_of(natsd, "LOGS_0")
    assert (config["description"], config["allow_msg_ttl"], config["allow_batched"]) == ("night shift", True, True)
    assert config["max_bytes"] == 2**31


def test_streams_of_others_are_left_alone(natsd, partition):
    on_server(natsd, lambda admin: admin.create_stream({"name": "ORDERS", "subjects": ["orders.>"]}))
    before = config_of(natsd, "ORDERS")
    partition("apply", "--partitions", "2")
    surplus(natsd, 2)
    assert partition("apply", "--prune", "--yes", "--allow-data-loss")[:2] == (0, "deleted stream LOGS_2\n")
    assert config_of(natsd, "ORDERS") == before


def surplus(natsd, number):
    """A stream of a partition that the map does not use."""
    config = {"name": f"LOGS_{number}", "subjects": [f"logs.p{number}.>"], "max_bytes": 10**6}
    on_server(natsd, lambda admin: admin.create_stream(config))


def test_lowering_the_room_below_what_is_stored_is_refused_and_nothing_else_is_done_either(natsd, partition):
    partition("apply", "--max-bytes", "100MiB")
    publish(natsd, "logs.p0.web1", *[b"x" * 500_000] * 4)
    code, out, err = partition("apply", "--max-bytes", "1MiB", "--replicas", "1", "--yes")
    assert (code, out) == (1, "")
    assert "max_bytes 1.0 MiB is less than the 1.9 MiB stored" in err
    assert "--allow-data-loss" in err
    names = [info["config"]["name"] for info in on_server(natsd, lambda admin: admin.streams())]
    assert names == ["DLQ", "DLQ_ADV", "KV_fshipper", "LOGS_0", "LOGS_BEATS"]


@pytest.mark.parametrize(
    ("section", "setting"),
    [
        ("stream", {"storage": "memory"}),
        ("stream", {"persist_mode": "async"}),
        ("stream", {"retention": "workqueue"}),
        ("consumer", {"ack_policy": "explicit"}),
        ("consumer", {"max_waiting": 17}),
        ("consumer", {"deliver_policy": "new"}),
        ("consumer", {"replay_policy": "original"}),
        ("consumer", {"mem_storage": True}),
    ],
)
def test_the_server_really_refuses_what_the_plan_lists_as_refused(natsd, partition, section, setting):
    partition("apply")

    async def attempt(admin):
        if section == "stream":
            config = (await admin.stream("LOGS_0"))["config"]
            await admin.update_stream(config | setting)
        else:
            config = (await admin.consumer("LOGS_0", "collector"))["config"]
            await admin.update_consumer("LOGS_0", config | setting)

    with pytest.raises(ConfigError, match=r"can not (be updated|change)"):
        on_server(natsd, attempt)


def test_a_consumer_that_cannot_be_changed_is_created_again_by_flag(natsd, partition):
    partition("apply")

    async def replace(admin):
        config = (await admin.consumer("LOGS_0", "collector"))["config"]
        await admin.delete_consumer("LOGS_0", "collector")
        await admin.create_consumer("LOGS_0", config | {"ack_policy": "explicit"})

    on_server(natsd, replace)
    code, _, err = partition("apply", "--yes")
    assert (code, "--recreate-consumers" in err) == (1, True)
    assert partition("apply", "--yes", "--recreate-consumers")[0] == 0
    consumer = on_server(natsd, lambda admin: admin.consumer("LOGS_0", "collector"))
    assert consumer["config"]["ack_policy"] == "all"


def test_a_setting_that_the_server_does_not_know_is_a_configuration_error(partition, tmp_path):
    (tmp_path / "t.json").write_text('{"consumer": {"ack_polisy": "all"}}')
    code, _, err = partition("apply", "--template", str(tmp_path / "t.json"))
    assert (code, 'unknown field "ack_polisy"' in err, "--template" in err) == (78, True, True)


def test_status_counts_what_is_stored_and_what_is_not_yet_archived(natsd, partition):
    partition("apply", "--partitions", "2", "--max-bytes", "1MB")
    publish(natsd, "logs.p1.web1", *[b"x" * 100] * 5)
    code, out, _ = partition("status", "--json")
    first, second = json.loads(out)
    assert code == 0
    assert (first["partition"], first["messages"], first["lag"]) == (0, 0, 0)
    assert (second["stream"], second["messages"], second["max_bytes"]) == ("LOGS_1", 5, 1_000_000)
    assert (second["first_seq"], second["last_seq"]) == (1, 5)
    assert (second["pending"], second["ack_pending"], second["lag"]) == (5, 0, 5)
    assert second["bytes"] > 500
    assert second["percent_full"] == round(second["bytes"] / 10_000, 1)


def test_status_is_a_table_for_people_and_shows_a_missing_consumer(natsd, partition):
    partition("apply", "--partitions", "2")
    on_server(natsd, lambda admin: admin.delete_consumer("LOGS_1", "collector"))
    code, out, _ = partition("status")
    header, zero, one = out.splitlines()
    assert code == 0
    assert header.split()[:4] == ["partition", "stream", "messages", "bytes"]
    assert zero.split()[:3] == ["0", "LOGS_0", "0"]
    assert one.endswith("no consumer")


def test_status_without_streams_names_the_command(partition):
    code, _, err = partition("status")
    assert (code, "fshipper partition apply --partitions N" in err) == (69, True)


def test_more_streams_than_the_server_has_room_for_is_reported_clearly(tmp_path, partition):
    with running(tmp_path / "small", max_file="3GB") as small:
        code, out, err = partition("apply", "--partitions", "4", url=small.url)
    assert code == 69
    assert "created stream LOGS_0" in out
    assert "not enough storage" in err
    assert "--max-bytes" in err


@pytest.mark.parametrize("verb", ["plan", "apply", "status"])
def test_a_server_without_jetstream_is_unavailable(tmp_path, partition, verb):
    with running(tmp_path / "plain", jetstream=False) as plain:
        code, _, err = partition(verb, url=plain.url)
    assert (code, "JetStream is not enabled" in err) == (69, True)


def test_no_server_is_unavailable(natsd, partition):
    natsd.kill()
    code, _, err = partition("apply")
    assert (code, "no NATS server answers" in err) == (69, True)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["apply", "--partitions", "5000"], 78),
        (["apply", "--partitions", "-1"], 78),
        (["apply", "--max-bytes", "much"], 64),
        (["apply", "--template", "nowhere.json"], 78),
        (["apply", "--bogus"], 64),
        (["status", "--subject", "two.tokens"], 78),
    ],
)
def test_wrong_words_are_refused_before_the_server_is_queried(natsd, partition, arguments, code):
    natsd.kill()
    assert partition(*arguments)[0] == code


def test_streams_are_listed_over_all_pages(natsd):
    async def many(admin):
        for number in range(300):
            await admin.create_stream({"name": f"S{number:03}", "subjects": [f"s.{number}"], "storage": "memory"})
        return [info["config"]["name"] for info in await admin.streams()]

    assert on_server(natsd, many) == [f"S{number:03}" for number in range(300)]


@pytest.mark.parametrize(("trouble", "attempts"), [(SessionLost, 2), (Unavailable, 1)])
def test_only_transient_errors_are_tried_again_and_on_a_new_connection(natsd, trouble, attempts):
    seen = []

    async def work(admin):
        seen.append(admin)
        if len(seen) == 1:
            raise trouble("for a test")
        return len(await admin.streams())

    try:
        assert arguments.with_admin(Settings(nats=NatsSettings(url=natsd.url)), work) == 0
    except Unavailable:
        assert trouble is Unavailable
    assert len(set(seen)) == attempts
