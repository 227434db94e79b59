"""Configuration: one frozen value, parsed once. Flag > environment > file > default.

Unknown keys are errors that name the nearest known one; all problems are reported together, each with where the
value came from.
"""

import difflib
import os
import re
import socket
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from shipper.errors import ConfigError
from shipper.nearest import did_you_mean
from shipper.settings import Settings
from shipper.units import exact_seconds, exact_size, parse_seconds, parse_size

Layer = Mapping[str, Any]
"""Settings of one origin by dotted key: `{"nats.url": "nats://..."}`."""

ENVIRONMENT: Mapping[str, tuple[str, ...]] = {
    "NATS_CONTEXT": ("nats.context",),
    "NATS_URL": ("nats.url",),
    "NATS_CREDS": ("nats.creds",),
    "NATS_NKEY": ("nats.nkey_seed",),
    "NATS_USER": ("nats.user",),
    "NATS_PASSWORD": ("nats.password",),
    "NATS_TOKEN": ("nats.token",),
    "NATS_CERTIFICATE": ("nats.certificate",),
    "NATS_CERT": ("nats.certificate",),
    "NATS_KEY": ("nats.key",),
    "NATS_CA": ("nats.ca",),
    "NATS_TLS_FIRST": ("nats.tls_first",),
    "NATS_MONITOR": ("nats.monitor",),
    "HOSTNAME": ("producer.host",),
    "SHIPPER_FILE": ("producer.files",),
    "SHIPPER_EXCLUDE": ("producer.exclude",),
    "SHIPPER_LINK_ROOTS": ("producer.link_roots",),
    "SHIPPER_SUBJECT": ("logs.subject",),
    "SHIPPER_PARTITIONS": ("logs.partitions",),
    "SHIPPER_READ_PARTITIONS": ("collector.read_partitions",),
    "SHIPPER_DIRECTORY": ("collector.directory",),
    "SHIPPER_READABLE_BY": ("collector.readable_by",),
    "SHIPPER_OUTPUT": ("collector.output",),
    "SHIPPER_COLLECTOR": ("collector.name",),
    "SHIPPER_CODEC": ("collector.codec",),
    "SHIPPER_ENCODING": ("producer.encoding",),
    "SHIPPER_BLOCK": ("producer.block",),
    "SHIPPER_WINDOW": ("producer.window",),
    "SHIPPER_POLL": ("producer.poll",),
    "SHIPPER_MAX_DELAY": ("producer.max_delay",),
    "SHIPPER_PARTIAL_AFTER": ("producer.partial_after",),
    "SHIPPER_HEARTBEAT": ("producer.heartbeat",),
    "SHIPPER_STATE": ("producer.state", "collector.state"),
    "SHIPPER_LISTEN": ("producer.listen", "collector.listen", "browse.listen", "web.listen"),
    "SHIPPER_ALLOWED_HOSTS": (
        "producer.allowed_hosts",
        "collector.allowed_hosts",
        "browse.allowed_hosts",
        "web.allowed_hosts",
    ),
    "SHIPPER_REPORT": ("web.report",),
    "SHIPPER_LOG_FORMAT": ("log.format",),
    "SHIPPER_LOG_LEVEL": ("log.level",),
}
MAY_BE_EMPTY = frozenset({"SHIPPER_LISTEN"})
"""Variables that have a meaning when they are empty; other empty variables count as not set."""
OTHERS = frozenset(
    {"SHIPPER_ACCESS", "SHIPPER_CONFIG", "SHIPPER_STREAM_TARGET", "SHIPPER_REPORT_TIMEZONE", "SHIPPER_BROWSE"}
)
"""Variables with our prefix that other programs read: the command line, the blog's own consumer, the report."""
_OTHER_FLAGS = {
    "browse.allowed_hosts": "allowed-host",
    "web.allowed_hosts": "allowed-host",
    "collector.read_partitions": "partitions",
    "producer.files": "PATH",
    "producer.watch": "no-watch",
    "producer.labels": "label",
    "producer.stdin_name": "name",
}
_PLAINER = {"int_parsing": "that is no whole number", "bool_parsing": "write true or false"}
_CONTEXT = "nats.context"
_SECRETS = frozenset({"nats.password", "nats.token", "nats.url"})
_CHOICES = re.compile(r"\^\(([a-z0-9|-]*)\)\$")  # a pattern that lists words
_KUBERNETES = re.compile(r"SHIPPER_(SERVICE_|PORT(_|$))")  # from Kubernetes, for a service `shipper`


class _Origin(NamedTuple):
    """Where a value was found."""

    value: Any
    place: str


def load(flags: Layer, *, config: Path | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """The settings from flags (by dotted key; None: not given), environment, file and defaults.

    Raises ConfigError with one line a problem, each naming the key, where its value came from, and the way out.
    """
    env = _environment(environment)
    found = _found(flags, config, env)
    problems = list(_unknown(env, found))
    settings = _validated(found, problems)
    if problems or settings is None:
        raise ConfigError("\n".join(problems))
    return settings


def places(flags: Layer, *, config: Path | None = None, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Where each value comes from that is no default, by dotted key: a flag, a variable, a file. Raises ConfigError."""
    return {key: origin.place for key, origin in _found(flags, config, _environment(environment)).items()}


def _environment(given: Mapping[str, str] | None) -> dict[str, str]:
    env = os.environ if given is None else given
    return {name: value for name, value in env.items() if value or name in MAY_BE_EMPTY}


def _found(flags: Layer, config: Path | None, env: Mapping[str, str]) -> dict[str, _Origin]:
    path = config or (Path(env["SHIPPER_CONFIG"]) if "SHIPPER_CONFIG" in env else None)
    file = _from_file(path) if path else {}
    variables = {key: _Origin(env[name], name) for name, keys in ENVIRONMENT.items() if name in env for key in keys}
    options = {key: _Origin(value, _flag(key)) for key, value in flags.items() if value is not None}
    if _CONTEXT in variables and _has_connection({**file, **options}):
        del variables[_CONTEXT]  # it is set for the `nats` command, on a machine with settings of fshipper
    found: dict[str, _Origin] = {}
    for layer in (file, variables, options):
        found = _with_context(found, layer.get(_CONTEXT)) | layer
    return found


def _has_connection(found: Mapping[str, _Origin]) -> bool:
    from shipper import nats_contexts  # noqa: PLC0415 - few have one

    return not found.keys().isdisjoint({_CONTEXT, *nats_contexts.SETTINGS.values()})


def _with_context(found: dict[str, _Origin], context: _Origin | None) -> dict[str, _Origin]:
    """The settings with the connection of a context, which replaces the whole connection of before."""
    if not (context and isinstance(context.value, str) and context.value):
        return found
    from shipper import nats_contexts  # noqa: PLC0415 - few have one

    values = nats_contexts.settings_of(context.value)
    place = f"context {context.value} of {context.place}"
    kept = {key: origin for key, origin in found.items() if key not in values}
    return kept | {key: _Origin(value, place) for key, value in values.items() if value is not None}


def default_host() -> str:
    """This machine's fully qualified name, as far as it knows it without asking the network first."""
    name = socket.gethostname()
    return name if "." in name else socket.getfqdn() or name


def _flag(key: str) -> str:
    name = _OTHER_FLAGS.get(key) or key.rpartition(".")[2].replace("_", "-")
    return name if name.isupper() else f"--{name}"


def _from_file(path: Path) -> dict[str, _Origin]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"configuration file {path}: {error.strerror}", hint="correct --config") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"configuration file {path} is no TOML: {error}") from None
    found: dict[str, Any] = {}
    for section, keys in content.items():
        found |= (
            {f"{section}.{key}": value for key, value in keys.items()} if isinstance(keys, dict) else {section: keys}
        )
    return {key: _Origin(value, str(path)) for key, value in found.items()}


def _unknown(env: Mapping[str, str], found: Mapping[str, _Origin]) -> Iterator[str]:
    """What is wrong with the variables and keys that do not exist."""
    variables = [*ENVIRONMENT, *OTHERS]
    for name in env:
        if name.startswith("SHIPPER_") and name not in variables and not _KUBERNETES.match(name):
            yield f"environment variable {name} is unknown{_nearest(name, variables)}"
    known = known_keys()
    for key, origin in found.items():
        if key not in known:
            yield f"{origin.place}: unknown key {key}{_nearest(key, known)}"


def known_keys() -> list[str]:
    """Every dotted key that can be set."""
    return [f"{name}.{key}" for name, section in Settings() for key in type(section).model_fields]


def _nearest(name: str, known: list[str]) -> str:
    best = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    by_last = {key.rpartition(".")[2]: key for key in known}
    best = best or [by_last[last] for last in difflib.get_close_matches(name.rpartition(".")[2], by_last, n=1)]
    return f"; did you mean {best[0]}?" if best else "; man fshipper.toml lists the known ones"


def _validated(found: Mapping[str, _Origin], problems: list[str]) -> Settings | None:
    nested: dict[str, dict[str, Any]] = {}
    for key in set(found) & set(known_keys()):
        section, _, name = key.partition(".")
        nested.setdefault(section, {})[name] = found[key].value
    try:
        return Settings.model_validate(nested)
    except ValidationError as error:
        for problem in error.errors():
            key = ".".join(str(part) for part in problem["loc"][:2])
            context, place = problem.get("ctx", {}), found.get(key)
            choice = _choice(context, str(place.value) if place else "")
            message = _PLAINER.get(problem["type"]) or choice or _limit(key, context) or problem["msg"]
            problems.append(_problem(key, place, message))
        return None


def _choice(context: Mapping[str, Any], value: str) -> str:
    """The values that a setting takes, and the one that is meant; empty: it takes others, too."""
    listed = _CHOICES.fullmatch(context.get("pattern", ""))
    words = listed[1].split("|") if listed else re.findall(r"'([^']*)'", str(context.get("expected", "")))
    if not words:
        return ""
    shown = [word or "nothing" for word in words]
    return f"{did_you_mean(value, words)}write {', '.join(shown[:-1])} or {shown[-1]}"


def _limit(key: str, context: Mapping[str, Any]) -> str:
    """The limit that a size or a duration exceeds, in the units in which people write it; empty: it is neither."""
    section, _, name = key.partition(".")
    kind: Any = Settings.model_fields[section].annotation
    parsers = [getattr(each, "func", None) for each in kind.model_fields[name].metadata]
    for bound, words in (("le", "at most"), ("ge", "at least")):
        if bound in context and parse_size in parsers:
            return f"it can be {words} {exact_size(context[bound])}"
        if bound in context and parse_seconds in parsers:
            return f"it can be {words} {exact_seconds(context[bound])}"
    return ""


def _problem(key: str, origin: _Origin | None, message: str) -> str:
    text = message.removeprefix("Value error, ")
    if origin is None:
        return f"{key}: {text}"
    has_secret = key in _SECRETS and not (key == "nats.url" and "@" not in str(origin.value))
    shown = "***" if has_secret else repr(origin.value)
    return f"{origin.place}: {key} = {shown}: {text}"
