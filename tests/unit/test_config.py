import pytest

from shipper.config import ENVIRONMENT, default_host, known_keys, load
from shipper.errors import ConfigError
from shipper.model import Encoding


def loaded(environment=None, *, flags=None, config=None):
    return load(flags or {}, environment=environment or {}, config=config)


def problems_of(environment=None, **more):
    with pytest.raises(ConfigError) as caught:
        loaded(environment, **more)
    assert caught.value.exit_code == 78
    return str(caught.value).splitlines()


@pytest.fixture
def toml(tmp_path):
    def write(text):
        path = tmp_path / "fshipper.toml"
        path.write_text(text)
        return path

    return write


def test_without_a_word_the_defaults_hold():
    settings = loaded()
    assert settings.nats.url == ("nats://127.0.0.1:4222",)
    assert (settings.logs.subject, settings.logs.partitions, settings.partition) == ("logs", 0, 0)
    assert (settings.producer.block, settings.producer.encoding) == (524288, Encoding.ZSTD)
    assert settings.collector.output == "messages.log"


def test_a_flag_wins_over_the_environment_that_over_the_file_and_that_over_the_default(toml):
    path = toml('[nats]\nurl = "nats://file:1"\nuser = "file"\n[logs]\nsubject = "file"\n')
    environment = {"NATS_URL": "nats://env:2", "NATS_USER": "env"}
    settings = loaded(environment, flags={"nats.url": "nats://flag:3", "nats.user": None}, config=path)
    assert settings.nats.url == ("nats://flag:3",)
    assert settings.nats.user == "env"
    assert settings.logs.subject == "file"
    assert settings.log.level == "info"


def test_the_file_may_be_named_by_the_environment(toml):
    path = toml('[log]\nlevel = "debug"\n')
    assert loaded({"SHIPPER_CONFIG": str(path)}).log.level == "debug"


def test_an_empty_variable_is_as_good_as_none():
    assert loaded({"NATS_URL": "", "SHIPPER_PARTITIONS": ""}) == loaded()


def test_the_names_of_the_blog_work():
    settings = loaded(
        {
            "NATS_URL": "nats://a:4222, nats://b:4222",
            "NATS_CREDS": "/etc/x.creds",
            "NATS_CERTIFICATE": "/etc/c.pem",
            "NATS_KEY": "/etc/k.pem",
            "NATS_CA": "/etc/ca.pem",
            "HOSTNAME": "Web1.Example.NET",
            "SHIPPER_FILE": "/var/log/a.log:/var/log/b*.log",
            "SHIPPER_SUBJECT": "shipper",
            "SHIPPER_PARTITIONS": "5",
            "SHIPPER_READ_PARTITIONS": "0,2-3",
            "SHIPPER_DIRECTORY": "/srv/archive",
            "SHIPPER_OUTPUT": "%Y/{host}.log",
        }
    )
    assert settings.nats.url == ("nats://a:4222", "nats://b:4222")
    assert [str(path) for path in (settings.nats.creds, settings.nats.key)] == ["/etc/x.creds", "/etc/k.pem"]
    assert settings.producer.host == "web1.example.net"
    assert settings.producer.files == ("/var/log/a.log", "/var/log/b*.log")
    assert (settings.logs.subject, settings.logs.partitions) == ("shipper", 5)
    assert settings.collector.read_partitions == (0, 2, 3)
    assert (str(settings.collector.directory), settings.collector.output) == ("/srv/archive", "%Y/{host}.log")


def test_one_variable_may_set_a_key_of_both_programs():
    settings = loaded({"SHIPPER_STATE": "/var/lib/fshipper"})
    assert str(settings.producer.state) == str(settings.collector.state) == "/var/lib/fshipper"


def test_every_variable_sets_keys_that_exist():
    assert {key for keys in ENVIRONMENT.values() for key in keys} <= set(known_keys())


def test_an_unknown_variable_names_the_nearest_known_one():
    (problem,) = problems_of({"SHIPPER_PARTITION": "3"})
    assert problem == "environment variable SHIPPER_PARTITION is unknown; did you mean SHIPPER_PARTITIONS?"


def test_an_unknown_key_of_the_file_names_the_nearest_known_one_and_the_file(toml):
    path = toml("[producer]\nblok = 4096\n")
    (problem,) = problems_of(config=path)
    assert problem == f"{path}: unknown key producer.blok; did you mean producer.block?"


@pytest.mark.parametrize("text", ["partitions = 3\n", "[shipping]\nblock = 4096\n", "producer = 3\n"])
def test_a_key_in_no_or_another_section_is_unknown(toml, text):
    (problem,) = problems_of(config=toml(text))
    assert "unknown key" in problem


def test_a_key_like_no_other_points_to_the_manual_page(toml):
    (problem,) = problems_of(config=toml("[zzz]\nqqqqqqqq = 1\n"))
    assert "man fshipper.toml" in problem


def test_all_problems_are_reported_together_each_with_its_origin(toml):
    path = toml('[producer]\nwindow = "8 bananas"\ncolour = "red"\n')
    problems = problems_of(
        {"SHIPPER_BLOCK": "1", "SHIPPER_BLOK": "1", "HOSTNAME": "web 1"},
        config=path,
        flags={"logs.partitions": 9999},
    )
    assert len(problems) == 6
    for origin in ("SHIPPER_BLOCK: producer.block", "SHIPPER_BLOK ", "HOSTNAME: producer.host", "--partitions: logs"):
        assert any(origin in problem for problem in problems)
    assert sum(str(path) in problem for problem in problems) == 2


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"SHIPPER_READ_PARTITIONS": "0,x"}, "'x' is no partition"),
        ({"SHIPPER_SUBJECT": "a.b"}, "one token"),
        ({"SHIPPER_ENCODING": "lz4"}, "'lz4'"),
        ({"SHIPPER_CODEC": "xz"}, "'xz'"),
        ({"SHIPPER_LOG_LEVEL": "loud"}, "'loud'"),
        ({"SHIPPER_PARTITIONS": "-1"}, "'-1'"),
        ({"SHIPPER_BLOCK": "1GiB"}, "'1GiB'"),
        ({"SHIPPER_POLL": "soon"}, "no duration"),
        ({"NATS_URL": ","}, "NATS_URL"),
    ],
)
def test_a_wrong_value_is_reported_with_the_variable_it_came_from(environment, said):
    (problem,) = problems_of(environment)
    assert problem.startswith(next(iter(environment)))
    assert said in problem or said == "NATS_URL"


def test_a_secret_is_in_no_message_and_no_repr(toml):
    path = toml('[nats]\npassword = ["hunter2"]\ntoken = ["hunter2"]\nurl = {x = "nats://u:hunter2@h"}\n')
    problems = problems_of(config=path)
    assert len(problems) == 3
    assert "hunter2" not in "\n".join(problems)
    settings = loaded({"NATS_PASSWORD": "hunter2", "NATS_TOKEN": "hunter2", "NATS_URL": "nats://u:hunter2@h:4222"})
    assert "hunter2" not in repr(settings.nats.password) + str(settings.nats.token) + settings.nats.shown_url
    assert settings.nats.password.get_secret_value() == "hunter2"
    assert settings.nats.shown_url == "nats://h:4222"


def test_what_kubernetes_sets_for_a_service_named_shipper_is_ignored():
    environment = {
        "SHIPPER_SERVICE_HOST": "10.0.0.1",
        "SHIPPER_SERVICE_PORT": "80",
        "SHIPPER_SERVICE_PORT_HTTP": "80",
        "SHIPPER_PORT": "tcp://10.0.0.1:80",
        "SHIPPER_PORT_80_TCP": "tcp://10.0.0.1:80",
        "SHIPPER_PORT_80_TCP_ADDR": "10.0.0.1",
    }
    assert loaded(environment) == loaded()


def test_the_variables_of_others_with_our_prefix_are_ignored():
    assert loaded({"SHIPPER_STREAM_TARGET": "x", "SHIPPER_BROWSE": "y", "PATH": "/bin"}) == loaded()


@pytest.mark.parametrize("text", ["[nats", "a = ", "\x00"])
def test_a_file_that_is_no_toml_is_refused_by_name(toml, text):
    path = toml(text)
    (problem,) = problems_of(config=path)
    assert f"{path} is no TOML" in problem


def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path):
    (problem,) = problems_of(config=tmp_path / "nowhere.toml")
    assert "nowhere.toml: No such file" in problem


def test_a_file_in_another_encoding_is_refused_by_name(tmp_path):
    (tmp_path / "x.toml").write_bytes(b"[nats]\nuser = '\xff'\n")
    (problem,) = problems_of(config=tmp_path / "x.toml")
    assert "is no TOML" in problem


def test_sizes_and_durations_are_read_as_people_write_them(toml):
    path = toml('[producer]\nblock = "128KiB"\npoll = "250ms"\n[collector]\nreplay_window = "1d"\n')
    settings = loaded(config=path)
    assert (settings.producer.block, settings.producer.poll) == (131072, 0.25)
    assert settings.collector.replay_window == 86400.0


def test_settings_cannot_be_changed():
    with pytest.raises(Exception, match="frozen"):
        loaded().logs.partitions = 3


def test_the_partition_is_that_of_the_host():
    settings = loaded({"HOSTNAME": "web1", "SHIPPER_PARTITIONS": "7"})
    assert 0 <= settings.partition < 7


def test_this_machine_has_a_name():
    assert default_host()


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("producer.block", "1GB", "--block: producer.block = '1GB': it can be at most 512KiB"),
        ("producer.block", "1", "it can be at least 4KiB"),
        ("producer.window", "1TB", "it can be at most 256MiB"),
        ("producer.poll", "2h", "it can be at most 1h"),
        ("collector.keep_sources", "-1", "is no duration"),
        ("producer.ack_timeout", "10ms", "it can be at least 100ms"),
        ("logs.partitions", -1, "greater than or equal to 0"),
    ],
)
def test_a_limit_is_reported_in_units_that_can_be_typed(key, value, said):
    with pytest.raises(ConfigError) as raised:
        load({key: value}, environment={})
    assert said in str(raised.value)
