"""The work of `fshipper fleet`: make a site, make tokens, answer hosts."""

import datetime as dt
import ipaddress
import json
import re
import sys
from pathlib import Path
from typing import Any

import tomli_w

from partitioner.access.app import revoked
from partitioner.access.options import AccessOptions
from partitioner.access.roster import FILE as ROSTER_FILE
from partitioner.access.roster import AuthMethod, Roster
from partitioner.access.server_config import SERVER_FILE, ServerTls, server_conf
from partitioner.access.store import OPERATOR_FILE, PROGRAMS, AccessStore
from partitioner.enrolment.authority import Authority, fingerprint
from partitioner.enrolment.options import EndOptions, JoinServerOptions, SiteOptions, TokenOptions, TokensOptions
from partitioner.enrolment.site import Reload, Site
from partitioner.enrolment.tokens import MAX_LIFETIME_SECONDS, Entry, JoinToken, TokenBook
from shipper.durable_files import make_directory, replace_file
from shipper.errors import ConfigError, UsageError
from shipper.subjects import checked_host
from shipper.units import seconds_of

SITE_FILE = "site.json"
PID_FILE = "nats-server.pid"
NATS_PORT = 4222


def now() -> dt.datetime:
    """The clock of the site."""
    return dt.datetime.now(dt.UTC)


# -- fleet init --------------------------------------------------------------------------------------------------------


def init(options: SiteOptions) -> None:
    """Write a first site, or repair it. Raises UsageError, ConfigError."""
    host, port = _address(options.address)
    directory = options.directory
    try:
        made = _site_files(options, host, port)
    except OSError as error:
        what = error.filename or directory
        raise ConfigError(
            f"cannot make {what}: {error.strerror}", hint="run it as root, or with --dir and --etc"
        ) from None
    lines = [f"made {path}" for path in made] or ["Everything is there already."]
    sys.stdout.write("\n".join([*lines, "", *_next_steps(options)]) + "\n")


def _site_files(options: SiteOptions, host: str, port: int) -> list[Path]:
    directory, made = options.directory, []
    make_directory(directory, mode=0o755)
    names = list(dict.fromkeys([host, "localhost", "127.0.0.1"]))
    authority = Authority(directory, now=now())
    made += authority.make(names)
    store = AccessStore(directory, now=now())
    if not (directory / ROSTER_FILE).exists():
        made += [added.secret for added in store.make("logs", AuthMethod.KEYS) if added.secret]
    elif (trust := Roster.load(directory).trust) is not AuthMethod.KEYS:
        raise UsageError(f"{directory} has a site whose hosts have {trust}", hint="join works with keys: choose --dir")
    site = {"version": 1, "url": f"tls://{_bracketed(host)}:{port}", "join": f"{_bracketed(host)}:{options.join_port}"}
    made += _written(directory / SITE_FILE, json.dumps(site, indent=1) + "\n")
    made += _written_once(directory / SERVER_FILE, _server_conf(options, authority, port))
    make_directory(options.etc, mode=0o755)
    for role in PROGRAMS:
        settings: dict[str, Any] = {
            "nats": {
                "url": site["url"],
                "ca": str(authority.certificate),
                "nkey_seed": str(directory / "secrets" / f"{role}.nk"),
            }
        }
        if role.value != "partitioner":
            settings["collector"] = {"directory": str(options.archive), "seal_on_request": True}
        made += _written_once(options.etc / f"{role}.toml", tomli_w.dumps(settings))
    return made


def _server_conf(options: SiteOptions, authority: Authority, port: int) -> str:
    tls = ServerTls(authority.server_certificate.resolve(), authority.server_key.resolve())
    directory = options.directory.resolve()
    text = server_conf(directory, AuthMethod.KEYS, OPERATOR_FILE, listen=f"0.0.0.0:{port}", tls=tls)
    text = text.replace("/var/lib/nats", str(options.store.resolve()))
    return text + f"\npid_file: {json.dumps(str(directory / PID_FILE))}\n"


def _next_steps(options: SiteOptions) -> list[str]:
    directory, etc = options.directory, options.etc
    where = "" if directory == AccessOptions().directory else f" --dir {directory}"
    return [
        "Start, each in its own terminal or unit:",
        f"  nats-server -c {directory / SERVER_FILE}",
        f"  fshipper partition apply --partitions 2 --config {etc / 'partitioner.toml'}      # once",
        f"  fshipper consume --config {etc / 'collector.toml'}",
        f"  fshipper fleet serve{where}",
        "Then, for each host:",
        f"  fshipper fleet token web1.example.net{where}      # here: prints the token for `fshipper join` there",
    ]


def _written_once(path: Path, text: str) -> list[Path]:
    """Write a file that is not there; one that is there may have been changed, and stays."""
    if path.exists():
        return []
    return _written(path, text)


def _written(path: Path, text: str) -> list[Path]:
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return []
    replace_file(path, text.encode(), mode=0o644)
    return [path]


def _address(text: str) -> tuple[str, int]:
    """Host and port of `HOST`, `HOST:PORT`, `[ADDRESS6]:PORT`. Raises UsageError."""
    found = re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[^:\[\]\s]+)(?::(\d{1,5}))?", text)
    bare = text if ":" in text and _is_ipv6(text) else ""
    host = bare or (found[1].strip("[]") if found else "")
    port = int(found[2]) if found and found[2] and not bare else NATS_PORT
    if not host or host in {"0.0.0.0", "::"} or not 0 < port <= 65535:  # noqa: S104, PLR2004 - the highest port
        raise UsageError(
            f"{text}: write the name or address of this machine as hosts reach it", hint="for example logs.example.net"
        )
    return host, port


def _is_ipv6(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).version == 6  # noqa: PLR2004 - as in RFC 8200
    except ValueError:
        return False


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


# -- fleet token -------------------------------------------------------------------------------------------------------


def token(options: TokenOptions) -> None:
    """Make a token and print it once. Raises UsageError, ConfigError."""
    site = _site(options.directory)
    host = checked_host(options.host) if options.host else ""
    lifetime = seconds_of(options.lifetime, "--for")
    if not 0 < lifetime <= MAX_LIFETIME_SECONDS:
        raise UsageError(f"--for {options.lifetime}: at most 7d", hint="a token is for joining, the key stays")
    known = Roster.load(options.directory).members
    if options.replace and host not in known:
        raise UsageError("--replace needs the name of a host that has joined", hint="see `fshipper hosts list`")
    if host in known and not options.replace:
        raise UsageError(f"{host} has joined already", hint=f"for a new key: fshipper fleet token {host} --replace")
    book = TokenBook(options.directory, now=now())
    id_, secret, expires = book.make(host, lifetime, replace_key=options.replace)
    authority = (options.directory / "ca.pem").read_bytes()
    text = JoinToken(site["join"], fingerprint(authority), id_, secret).text()
    if options.as_json:
        sys.stdout.write(json.dumps({"v": 1, "version": 1, "token": text, "host": host, "expires": expires}) + "\n")
        return
    sys.stdout.write(f"{text}\n")
    whose = host or "one new host"
    sys.stderr.write(
        f"On {whose}, before {expires}: sudo fshipper join TOKEN. It works once, while `fleet serve` runs.\n"
    )


def tokens(options: TokensOptions) -> None:
    """List the tokens."""
    entries = sorted(TokenBook(options.directory, now=now()).entries(), key=lambda entry: entry.expires)
    if options.as_json:
        shown = [{name: getattr(each, name) for name in _SHOWN} | {"state": _state(each)} for each in entries]
        sys.stdout.write(json.dumps({"v": 1, "version": 1, "tokens": shown}, indent=1) + "\n")
        return
    for each in entries:
        sys.stdout.write(f"{each.id}  {each.host or 'any new host':<30}  {_state(each)}\n")


_SHOWN = ("id", "host", "expires", "used_by", "used_from", "used")


def _state(entry: Entry) -> str:
    if entry.used:
        return f"used by {entry.used_by} from {entry.used_from} at {entry.used}"
    ended = now().isoformat() > entry.expires
    return f"{'ended' if ended else 'valid until'} {entry.expires}"


def _site(directory: Path) -> dict[str, str]:
    try:
        return dict(json.loads((directory / SITE_FILE).read_bytes()))
    except FileNotFoundError:
        raise UsageError(f"there is no site in {directory}", hint="make one: fshipper fleet init ADDRESS") from None
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot read {directory / SITE_FILE}: {error}", hint="run `fshipper fleet init` again"
        ) from None


def revoke(options: EndOptions) -> None:
    """Revoke hosts, and reload the server. Raises UsageError, ConfigError."""
    gone = revoked(options.directory, options.names, yes=options.yes)
    Reload(options.reload, options.directory / PID_FILE)()
    sys.stdout.write("".join(f"revoked {member.name}: its connections end now\n" for member in gone))


# -- fleet serve -------------------------------------------------------------------------------------------------------


def serve(options: JoinServerOptions) -> None:
    """Let hosts join until a signal. Raises UsageError, ConfigError."""
    from partitioner.enrolment import server  # noqa: PLC0415 - the other commands need no web server

    about = _site(options.directory)
    listen = options.listen or f"0.0.0.0:{about['join'].rpartition(':')[2]}"
    host, port = _address_to_listen(listen)
    authority = Authority(options.directory, now=now())
    reload = Reload(options.reload, options.directory / PID_FILE)
    site = Site(options.directory, about["url"], reload, now)
    server.serve(site, authority, host, port)


def _address_to_listen(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:  # noqa: PLR2004 - the highest port
        raise UsageError(f"--listen {text}: no address and port", hint="write ADDRESS:PORT, for example 10.0.0.5:4443")
    return host.strip("[]"), int(port)
