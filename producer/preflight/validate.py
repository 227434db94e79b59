"""`fshipper validate`: whether the settings can be used, their values and sources. --connect checks the server, too.

`fshipper validate --role`: what a machine's other roles need. The program of the role is run, never imported.
"""

import asyncio
import ipaddress
import os
import stat
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path

from pydantic import SecretStr

from producer.app import NAME_IT, host_of, planned, state_path
from producer.inputs.factory import is_any
from producer.preflight.collector_probe import ask_as_collector
from producer.preflight.dry_run import report
from producer.preflight.options import Role, ValidateOptions
from producer.preflight.report import Finding, ServerFindings, Sign, good, note, print_validation, warning, wrong
from producer.preflight.server_probe import Sending, ask_server
from shipper.commands import layer_of
from shipper.config import load, places
from shipper.durable_files import check_private
from shipper.errors import EXIT_CONFIG, EXIT_OK, EXIT_UNAVAILABLE, ConfigError, Fatal, ShipperError, UsageError
from shipper.partition_map import partition_for
from shipper.settings import Settings, host_of_url
from shipper.subjects import is_everybodys
from shipper.telemetry import set_up_logging

GROUP = "fshipper.checks"
HIDDEN = "***"


def run(options: ValidateOptions) -> int:
    """Show what the settings are and what is wrong with them. The exit code. Raises UsageError: of the options."""
    role, connect, as_json = options.role, options.connect, options.as_json
    if connect and role not in {Role.HOST, Role.COLLECTOR}:
        raise UsageError(f"--connect is for hosts and collectors, and the role is {role}", hint="leave out --connect")
    flags, config = layer_of(options), options.config
    try:
        settings = load(flags, config=config)
    except ConfigError as error:
        findings = [wrong("settings", line, error.hint) for line in str(error).splitlines()]
        print_validation([], findings, as_json=as_json)
        return EXIT_CONFIG
    set_up_logging(style=settings.log.format, level="critical")
    origins = places(flags, config=config)
    is_usable = good("settings", "every setting is known and has a value that it can have")
    local = [is_usable, *(_local(settings, origins) if role is Role.HOST else _other(role, settings, origins))]
    has_host = not any(finding.check == "host" and finding.sign is Sign.WRONG for finding in local)
    server = ServerFindings([])
    if connect and role is Role.COLLECTOR:
        server = asyncio.run(ask_as_collector(settings))
    elif connect and has_host:
        server = asyncio.run(ask_server(settings.nats, _sending(settings)))
    shown = [(key, _shown(settings, key), origins[key]) for key in sorted(origins)]
    print_validation(shown, [*local, *server.findings], as_json=as_json, durability=server.durability)
    if any(finding.sign is Sign.WRONG for finding in local):
        return EXIT_CONFIG
    return EXIT_UNAVAILABLE if any(finding.sign is Sign.WRONG for finding in server.findings) else EXIT_OK


def _shown(settings: Settings, key: str) -> str:
    """The value of a setting. Secrets hidden."""
    section, _, name = key.partition(".")
    value = getattr(getattr(settings, section), name)
    if key == "nats.url":
        return settings.nats.shown_url
    if isinstance(value, SecretStr):
        return HIDDEN
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


# -- what can be checked without the network ------------------------------------------------------------------------


def _local(settings: Settings, origins: Mapping[str, str]) -> Iterator[Finding]:
    try:
        host = host_of(settings)
    except ConfigError as error:
        yield wrong("host", str(error), error.hint)
        return
    yield from _unreadable_secrets(settings)
    yield from _exposed(settings, origins)
    sending = _sending(settings)
    yield good("host", f"{host}, partition {sending.partition}: {sending.subject} in stream {sending.stream}")
    if is_everybodys(host):
        yield warning(
            "host_name", f"every machine is called {host}; it is kept, as it was shipped under before", NAME_IT
        )
    if "collector.directory" in origins:
        yield writable("archive", settings.collector.directory)
    ships = settings.producer.files or is_any(settings.producer)
    if ships or "collector.directory" not in origins:
        yield from _files(settings)
        yield private("state", state_path(settings.producer, host))


def _other(role: Role, settings: Settings, origins: Mapping[str, str]) -> Iterator[Finding]:
    """What a role needs that is not a host's."""
    yield from _unreadable_secrets(settings)
    yield from _exposed(settings, origins)
    if role is Role.COLLECTOR:
        yield writable("archive", settings.collector.directory)
        if settings.collector.state is not None:
            yield from _collector_state(settings.collector.state)
    if role is Role.REPORT:
        yield _readable_archive(os.environ.get("SHIPPER_DIRECTORY", ""))
        yield writable("report", Path(os.environ.get("SHIPPER_REPORT", "report")))
    for entry in entry_points(group=GROUP, name=role.value):  # the checks of the role's own program
        try:
            yield from (good(role.value, text) for text in entry.load()(settings))
        except ShipperError as error:
            yield wrong(role.value, str(error), error.hint)


def _readable_archive(named: str) -> Finding:
    if not named:
        return wrong("archive", "no archive is named", "set SHIPPER_DIRECTORY, the collector's directory")
    if not os.access(named, os.R_OK | os.X_OK) or not Path(named).is_dir():
        return wrong("archive", f"{named} is no directory that can be read", "correct SHIPPER_DIRECTORY or permissions")
    return good("archive", f"{named} can be read")


def _files(settings: Settings) -> Iterator[Finding]:
    """What a producer would find now. A name that leads to no file yet is no mistake, one that cannot be read is."""
    try:
        found = report(settings, once=False)
    except ConfigError as error:
        yield from (wrong("files", line, error.hint) for line in str(error).splitlines())
    except Fatal as error:
        yield wrong("checkpoint", str(error), error.hint)
    else:
        yield from (good("input", name) for name in found.inputs)
        yield good("files", f"files to read: {len(found.reads)}; `fshipper produce --dry-run` lists them")
        yield from (warning("files", text, "") for text in found.warnings)
        for skip in found.skips:
            if skip.reason == "unreadable":
                yield wrong("files", f"cannot read {skip.path}: {skip.text}", "correct the path or its permissions")
            elif skip.reason == "link_not_followed":
                hint = "if you trust the link, add the directory of its target to producer.link_roots"
                yield warning("files", f"{skip.path}: {skip.text}", hint)


def _unreadable_secrets(settings: Settings) -> Iterator[Finding]:
    for name in ("creds", "nkey_seed", "certificate", "key", "ca"):
        path: Path | None = getattr(settings.nats, name)
        try:
            if path is not None:
                path.open("rb").close()
        except OSError as error:
            yield wrong(f"nats.{name}", f"cannot read {path}: {error.strerror}", "correct the path or its permissions")


def _exposed(settings: Settings, origins: Mapping[str, str]) -> Iterator[Finding]:
    """Secrets that other users of this machine can read or replace, and passwords that travel unencrypted."""
    nats = settings.nats
    for name in ("creds", "nkey_seed", "key", "certificate", "ca"):
        if path := getattr(nats, name):
            yield from _open_to_others(f"nats.{name}", path, holds_secret=name not in {"certificate", "ca"})
    in_url = any(map(_user_in, nats.url))
    secrets = {"nats.password": nats.password, "nats.token": nats.token, "nats.url": in_url}
    files = {origin for origin in origins.values() if origin.startswith(("/", ".")) or Path(origin).is_file()}
    for origin in sorted(files):
        holds_secret = any(value and origins.get(key) == origin for key, value in secrets.items())
        yield from _open_to_others("config", Path(origin), holds_secret=holds_secret)
    remote = [url for url in nats.url if not _is_loopback(url)]
    if remote and not nats.wants_tls and (nats.password or nats.token or any(map(_user_in, remote))):
        yield warning(
            "tls",
            "a password or token is sent to another machine, and nothing requires TLS: where the server does not"
            " require it, every machine on the way can read the password",
            "write tls:// in NATS_URL, or set NATS_CA: then a connection without TLS is refused",
        )


def _open_to_others(check: str, path: Path, *, holds_secret: bool) -> Iterator[Finding]:
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # that it cannot be read is another finding
    may = [what for what, bit in (("read", stat.S_IROTH), ("change", stat.S_IWOTH)) if mode & bit]
    if mode & stat.S_IWOTH or (holds_secret and may):
        secret, mode_bits = ("holds a secret, and ", 600) if holds_secret else ("", 644)
        text = f"{path}: {secret}every user of this machine may {' and '.join(may)} it"
        yield warning(check, text, f"chmod {mode_bits} {path}")


def _user_in(url: str) -> bool:
    return "@" in url.partition("://")[2] or ("://" not in url and "@" in url)


def _is_loopback(url: str) -> bool:
    host = host_of_url(url)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _collector_state(state: Path) -> Iterator[Finding]:
    """The state directory of a collector, and in it those of archives."""
    yield writable("state", state)
    for directory in sorted(state.glob("collector/*")):
        if (found := private("state", directory)).sign is not Sign.GOOD:
            yield found


def private(check: str, directory: Path) -> Finding:
    """Whether `directory` can be written, and no other user can put a file of theirs into it."""
    try:
        check_private(directory)
    except FileNotFoundError:
        pass
    except OSError as error:
        return wrong(check, f"{directory}: {error.strerror}", "choose a directory of this user, mode 0700")
    return writable(check, directory)


def writable(check: str, directory: Path) -> Finding:
    """Whether `directory` can be written, or made where it is not there. Nothing is made."""
    existing = next((path for path in (directory, *directory.absolute().parents) if os.path.lexists(path)), Path("/"))
    if not existing.is_dir():
        return wrong(check, f"{existing} is no directory", "remove it, or choose another directory")
    if not os.access(existing, os.W_OK | os.X_OK):
        return wrong(check, f"this user may not write to {existing}", "correct its permissions, or choose another one")
    if existing == directory:
        return good(check, f"{directory} can be written")
    return note(check, f"{directory} would be made")


def _sending(settings: Settings) -> Sending:
    try:
        block_bytes = planned(settings, once=False, new=False).message_bytes  # with what edits may add to a block
    except ConfigError:  # it is reported with the files
        block_bytes = settings.producer.block
    host, partitions = host_of(settings), settings.logs.partitions
    return Sending(host, settings.logs.subject, partition_for(host, partitions), partitions, block_bytes)
