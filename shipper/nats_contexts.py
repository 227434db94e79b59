"""Reads the contexts of the `nats` command: named connections, with servers, user and TLS.

A context is `~/.config/nats/context/NAME.json` (`$XDG_CONFIG_HOME`), `context.txt` next to it names the selected one.
See https://github.com/nats-io/jsm.go/tree/main/natscontext.
"""

import json
import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from shipper.errors import ConfigError
from shipper.nearest import did_you_mean

SELECTED = "selected"
"""Stands for the context that `nats context select` chose, if no context has this name."""

SETTINGS = {
    "url": "nats.url",
    "user": "nats.user",
    "password": "nats.password",
    "token": "nats.token",
    "creds": "nats.creds",
    "nkey": "nats.nkey_seed",
    "cert": "nats.certificate",
    "key": "nats.key",
    "ca": "nats.ca",
    "tls_first": "nats.tls_first",
}
"""The setting for each field of a context."""
_WITH_PATHS = frozenset({"creds", "nkey", "cert", "key", "ca"})
_SECRETS = frozenset({"password", "token"})
_OF_THE_USER = ("user", "creds", "nkey")
"""Fields that name a user; `nats` takes the first one that is set."""
_WITHOUT_EFFECT = frozenset({"name", "description", "color_scheme", "jetstream_event_prefix"})
"""Fields that change nothing for programs which are not the `nats` command."""
_SCHEME = re.compile(r"(op|nsc|env|data):", re.IGNORECASE)  # where `nats` finds a secret elsewhere
_OPEN_MODE = stat.S_IRWXO | stat.S_IWGRP
DEFAULT_URL = "nats://127.0.0.1:4222"


def directory() -> Path:
    """Where the `nats` command keeps its contexts."""
    named = os.environ.get("XDG_CONFIG_HOME")
    return (Path(named) if named else Path("~/.config").expanduser()) / "nats"


def names() -> list[str]:
    """The names of all contexts."""
    try:
        found = os.listdir(directory() / "context")
    except OSError:
        return []
    return sorted(name.removesuffix(".json") for name in found if name.endswith(".json"))


def settings_of(name: str) -> Mapping[str, Any]:
    """The connection of a context, by the dotted keys of settings; None: it does not have the setting.

    Raises ConfigError: there is no such context, it cannot be read, or it has what fshipper cannot use.
    """
    name = _chosen(name)
    path = directory() / "context" / f"{name}.json"
    content = _content(name, path)
    unusable = sorted(
        field for field, value in content.items() if value and field not in SETTINGS.keys() | _WITHOUT_EFFECT
    )
    if unusable:
        raise ConfigError(
            f"context {name} has {', '.join(unusable)}, which fshipper cannot use",
            hint=f"make a context without it, or use --url and NATS_CREDS or NATS_NKEY: {path}",
        )
    _warn_of_open_secrets(path, content)
    user = next((field for field in _OF_THE_USER if content.get(field)), "")
    ignored = {"password", *_OF_THE_USER} - ({"user", "password"} if user == "user" else {user})
    values = {field: content.get(field) for field in SETTINGS if field not in ignored} | {"url": content.get("url")}
    values["url"] = values["url"] or DEFAULT_URL
    return {key: _value(name, field, values.get(field)) for field, key in SETTINGS.items()}


def _chosen(name: str) -> str:
    """The name of a context that exists. Raises ConfigError."""
    known = names()
    if name == SELECTED and name not in known:
        try:
            name = (directory() / "context.txt").read_text(encoding="utf-8").strip()
        except OSError:
            name = ""
        if not name:
            raise ConfigError("no context of the nats command is selected", hint=f"name one: {_listed(known)}")
    if name not in known:  # a name with a slash never is
        hint = f"{did_you_mean(name, known)}{_listed(known)}"
        raise ConfigError(f"there is no context {name!r} in {directory() / 'context'}", hint=hint)
    return name


def _listed(known: list[str]) -> str:
    return f"contexts: {', '.join(known)}" if known else "make one: nats context add NAME --server URL"


def _content(name: str, path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"context {name}: {path}: {error.strerror}", hint="correct its rights") from None
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise ConfigError(f"context {name}: {path} is no JSON object", hint=f"write it again: nats context edit {name}")
    return content


def _value(context: str, field: str, value: Any) -> Any:
    """A value as the setting takes it; None: the context has none. Raises ConfigError."""
    if not value:
        return None
    if field != "tls_first" and not isinstance(value, str):
        raise ConfigError(f"context {context}: {field} is no text", hint=f"nats context edit {context}")
    if field == "tls_first" or field not in _WITH_PATHS | _SECRETS:
        return value
    if _SCHEME.match(value):
        raise ConfigError(
            f"context {context}: {field} is kept elsewhere ({value.partition(':')[0]}:), which fshipper cannot use",
            hint="write it to a file of mode 0600, and name this in the context",
        )
    if field in _SECRETS:
        return value
    return _path(value)


def _path(value: str) -> str:
    """The file that a field names, as `nats` reads it."""
    path = value[len("file://") :] if value.lower().startswith("file://") else value
    return os.path.expanduser(os.path.expandvars(path))


def _warn_of_open_secrets(path: Path, content: Mapping[str, Any]) -> None:
    """Warn where other users can read a password, a token or a key that the context has or names."""
    for each in _secret_files(path, content):
        try:
            is_open = bool(each.stat().st_mode & _OPEN_MODE)
        except OSError:
            continue
        if is_open:
            sys.stderr.write(f"warning: other users can read the secrets in {each}\nhint: chmod 600 {each}\n")


def _secret_files(path: Path, content: Mapping[str, Any]) -> Iterator[Path]:
    has_user_in_url = "@" in str(content.get("url", ""))
    if has_user_in_url or any(content.get(field) for field in _SECRETS):
        yield path
    for field in ("creds", "nkey", "key"):
        value = content.get(field)
        if isinstance(value, str) and value:
            yield Path(_path(value))
