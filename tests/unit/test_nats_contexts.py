"""Contexts of the `nats` command: what is read of them, what is refused, and what overrides them."""

import json

import pytest

from shipper import config
from shipper.errors import ConfigError
from shipper.main import run

FULL = {
    "description": "production",
    "url": "tls://nats1.example.net:4222,tls://nats2.example.net:4222",
    "socks_proxy": "",
    "token": "",
    "user": "",
    "password": "",
    "creds": "~/prod.creds",
    "nkey": "",
    "cert": "$HOME/cert.pem",
    "key": "file:///etc/key.pem",
    "ca": "/etc/ca.pem",
    "nsc": "",
    "jetstream_domain": "",
    "jetstream_api_prefix": "",
    "jetstream_event_prefix": "",
    "inbox_prefix": "",
    "user_jwt": "",
    "color_scheme": "",
    "tls_first": True,
}
"""As `nats context add` of 0.2 writes it."""


@pytest.fixture
def contexts(tmp_path, monkeypatch):
    """Writes a context, with a mode."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    directory = tmp_path / ".config" / "nats" / "context"
    directory.mkdir(parents=True)

    def add(name, content, mode=0o600):
        path = directory / f"{name}.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        path.chmod(mode)
        return path

    return add


def nats(environment=None, file=None, **flags):
    layer = {f"nats.{name}": value for name, value in flags.items()}
    return config.load(layer, config=file, environment=environment or {}).nats


def test_every_field_that_is_set_becomes_a_setting(contexts, tmp_path):
    contexts("prod", FULL)
    (tmp_path / "prod.creds").touch(mode=0o600)
    found = nats(context="prod")
    assert found.url == ("tls://nats1.example.net:4222", "tls://nats2.example.net:4222")
    assert (found.creds, found.certificate) == (tmp_path / "prod.creds", tmp_path / "cert.pem")
    assert (str(found.key), str(found.ca), found.tls_first) == ("/etc/key.pem", "/etc/ca.pem", True)
    assert (found.user, found.password, found.token, found.nkey_seed) == (None, None, None, None)


def test_a_user_is_taken_before_credentials_as_the_nats_command_does(contexts):
    contexts("multi", {"user": "me", "password": "hush", "creds": "/a.creds", "nkey": "/a.nk"})
    found = nats(context="multi")
    assert (found.user, found.password.get_secret_value(), found.creds, found.nkey_seed) == ("me", "hush", None, None)
    assert found.url == ("nats://127.0.0.1:4222",)


def test_a_context_replaces_the_whole_connection_of_what_it_overrides(contexts, tmp_path):
    contexts("prod", {"url": "nats://prod:4222", "token": "t"})
    file = tmp_path / "fshipper.toml"
    file.write_text('[nats]\nurl = ["nats://file:4222"]\nuser = "of-the-file"\npassword = "x"\nconnect_timeout = 3\n')
    variables = {"NATS_URL": "nats://variable:4222", "NATS_CREDS": "/v.creds"}
    by_flag = nats(variables, file, context="prod")
    assert (by_flag.url, by_flag.creds, by_flag.user) == (("nats://prod:4222",), None, None)
    assert by_flag.connect_timeout == 3
    by_variable = nats({"NATS_CONTEXT": "prod", "NATS_URL": "nats://variable:4222"})
    assert (by_variable.url, by_variable.token.get_secret_value()) == (("nats://variable:4222",), "t")
    assert nats(None, file, context="prod", url="nats://flag:4222").url == ("nats://flag:4222",)
    file.write_text('[nats]\ncontext = "prod"\n')
    assert nats(None, file).url == ("nats://prod:4222",)
    assert config.places({}, config=file, environment={})["nats.url"] == f"context prod of {file}"


@pytest.mark.parametrize("name", ["prod", "broken", "absent"])
def test_the_variable_is_not_read_where_the_file_or_an_option_sets_a_connection(contexts, tmp_path, name):
    contexts("prod", {"url": "nats://prod:4222", "token": "t"})
    contexts("broken", "{")
    file = tmp_path / "fshipper.toml"
    file.write_text('[nats]\nurl = ["nats://file:4222"]\n')
    by_file, by_flag = nats({"NATS_CONTEXT": name}, file), nats({"NATS_CONTEXT": name}, url="nats://flag:4222")
    assert (by_file.url, by_file.token) == (("nats://file:4222",), None)
    assert (by_flag.url, by_flag.token) == (("nats://flag:4222",), None)


def test_the_selected_context_is_used_where_it_is_wanted_only(contexts, tmp_path):
    path = contexts("prod", {"url": "nats://prod:4222"})
    (path.parent.parent / "context.txt").write_text("prod")
    assert nats().url == ("nats://127.0.0.1:4222",)
    assert nats(context="selected").url == ("nats://prod:4222",)


WRONG = {
    "prodution": (
        {"url": "nats://x"},
        "there is no context 'prodution'",
        "did you mean production? contexts: production",
    ),
    "../evil": ({"url": "nats://x"}, "there is no context '../evil'", "contexts: production"),
    "selected": ({"url": "nats://x"}, "no context of the nats command is selected", "name one: contexts: production"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_context_that_does_not_exist_is_an_error_with_the_list(contexts, name):
    content, message, hint = WRONG[name]
    contexts("production", content)
    with pytest.raises(ConfigError, match=message) as error:
        nats(context=name)
    assert hint in error.value.hint


UNUSABLE = {
    "a proxy": ({"socks_proxy": "socks5://x"}, "socks_proxy, which fshipper cannot use"),
    "two fields": ({"jetstream_domain": "hub", "nsc": "nsc://o/a/u"}, "jetstream_domain, nsc, which"),
    "an inbox prefix": ({"inbox_prefix": "_I"}, "inbox_prefix, which"),
    "a JWT": ({"user_jwt": "eyJ", "user_seed": "SU"}, "user_jwt, user_seed, which"),
    "a field of a later version": ({"new_field": 1}, "new_field, which"),
    "a password elsewhere": ({"user": "a", "password": "op://vault/x"}, "password is kept elsewhere"),
    "a number": ({"url": 7}, "url is no text"),
    "no JSON": ("{", "is no JSON object"),
    "a list": ("[]", "is no JSON object"),
    "a wrong URL": ({"url": "http://x"}, "context bad of --context: nats.url"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_what_fshipper_cannot_use_is_named(contexts, name):
    content, message = UNUSABLE[name]
    contexts("bad", content)
    with pytest.raises(ConfigError) as error:
        nats(context="bad")
    assert message in str(error.value)
    assert "vault" not in str(error.value)


def test_secrets_that_others_can_read_are_warned_of(contexts, tmp_path, capsys):
    creds = tmp_path / "a.creds"
    creds.touch(mode=0o644)
    contexts("open", {"url": "nats://x", "token": "t", "creds": str(creds)}, mode=0o644)
    nats(context="open")
    warnings = capsys.readouterr().err
    assert warnings.count("warning: other users can read the secrets in ") == 2
    contexts("open", {"url": "nats://x", "token": "t"}, mode=0o600)
    nats(context="open")
    assert capsys.readouterr().err == ""


def test_a_command_connects_as_the_context(contexts, capsys):
    contexts("nobody", {"url": "nats://127.0.0.1:1"})
    assert run(["partition", "status", "--context", "nobody"]) == 69
    assert "nats://127.0.0.1:1" in capsys.readouterr().err
    assert run(["search", "x", "-f", "--nats-context", "nobdy"]) == 78
    assert "did you mean nobody?" in capsys.readouterr().err
