"""The work of `fshipper join` and `leave`, on the host: its key, its configuration, its unit."""

import base64
import contextlib
import grp
import http.client
import json
import os
import shutil
import ssl
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import nkeys
import tomli_w

from partitioner.access.credentials import USER, new_key, public, read_key, write_secret
from partitioner.enrolment.authority import fingerprint
from partitioner.enrolment.options import JoinOptions, LeaveOptions
from partitioner.enrolment.protocol import (
    AUTHORITY_PATH,
    JOIN_PATH,
    LEAVE_PATH,
    MAX_BODY_BYTES,
    VERSION,
    JoinError,
    joining,
    leaving,
)
from partitioner.enrolment.site import SYSTEMD
from partitioner.enrolment.tokens import JoinToken
from shipper.config import default_host
from shipper.durable_files import make_directory, replace_file
from shipper.errors import ConfigError, Unavailable, UsageError
from shipper.prompts import confirm
from shipper.subjects import checked_host

KEY_FILE, AUTHORITY_FILE, SITE_FILE, CONFIG_FILE = "host.nk", "ca.pem", "site.json", "producer.toml"
UNIT, GROUP = "fshipper-producer", "fshipper-producer"
DEFAULT_PATHS = ("/var/log/syslog", "/var/log/messages", "/var/log/**/*.log")
COMPRESSED = ("*.gz", "*.zst", "*.xz", "*.bz2")
ANSWER_SECONDS = 30.0
CHECK_SECONDS = 20.0


# -- join --------------------------------------------------------------------------------------------------------------


def join(options: JoinOptions) -> int:
    """Join a site. Raises UsageError, ConfigError, Unavailable, JoinError."""
    token = JoinToken.parse((sys.stdin.readline() if options.token == "-" else options.token).strip())  # noqa: S105
    host = checked_host(options.host or default_host())
    paths = _absolute(options.paths or [])
    try:
        make_directory(options.etc, mode=0o755)
        key = _own_key(options.etc / KEY_FILE)
        authority = _authority(token)
        id_, name = token.id.hex(), public(key)
        answer = _post(
            token.address,
            authority,
            JOIN_PATH,
            {
                "id": id_,
                "secret": token.secret.hex(),
                "host": host,
                "key": name,
                "signature": _signed(key, joining(id_, host, name)),
            },
        )
        wrote = _write_configuration(options, host, paths, token.address, answer)
    except OSError as error:
        what = error.filename or options.etc
        raise ConfigError(f"cannot write {what}: {error.strerror}", hint="run it with sudo, or name --etc") from None
    sys.stdout.write(f"{host} has joined {answer['url']}\n" + "".join(f"wrote {path}\n" for path in wrote))
    return _start(options)


def _own_key(path: Path) -> nkeys.KeyPair:
    """The host's key, made if there is none. The group of the producer may read it, where there is one."""
    if not path.exists():
        write_secret(path, bytes(new_key(USER).seed) + b"\n")
    with contextlib.suppress(KeyError, PermissionError):
        os.chown(path, -1, grp.getgrnam(GROUP).gr_gid)
        path.chmod(0o640)
    return read_key(path)


def _write_configuration(
    options: JoinOptions, host: str, paths: list[str], join_address: str, answer: dict[str, Any]
) -> list[Path]:
    """Write the authority, the site and the settings. A configuration that is there keeps its other values."""
    etc = options.etc
    authority, site, config = etc / AUTHORITY_FILE, etc / SITE_FILE, etc / CONFIG_FILE
    about = {"version": VERSION, "join": join_address, "host": host}
    replace_file(authority, str(answer["authority"]).encode())
    replace_file(site, (json.dumps(about) + "\n").encode())
    nats = {"url": answer["url"], "ca": str(authority), "nkey_seed": str(etc / KEY_FILE)}
    if config.exists() and _nats_of(config) == nats:
        return [authority, site]
    if config.exists():
        environment = etc / "producer.env"
        names = {"url": "NATS_URL", "ca": "NATS_CA", "nkey_seed": "NATS_NKEY"}
        wanted = {names[key]: value for key, value in nats.items()} | {"HOSTNAME": host}
        replace_file(environment, _with_variables(environment, wanted).encode(), mode=0o640)
        return [authority, site, environment]
    producer: dict[str, Any] = {"host": host, "files": paths or list(DEFAULT_PATHS), "exclude": list(COMPRESSED)}
    content = {"nats": nats, "logs": {"subject": answer["subject"]}, "producer": producer}
    replace_file(config, tomli_w.dumps(content).encode())
    return [authority, site, config]


def _nats_of(config: Path) -> object:
    try:
        return tomllib.loads(config.read_text(encoding="utf-8")).get("nats")
    except ValueError:  # the producer will name what is wrong in it
        return None


def _with_variables(path: Path, wanted: dict[str, str]) -> str:
    """The text of an environment file with the variables in `wanted` set."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    kept = [line for line in lines if line.partition("=")[0].strip() not in wanted]
    return "\n".join([*kept, *(f"{name}={value}" for name, value in wanted.items())]) + "\n"


def _absolute(paths: list[str]) -> list[str]:
    for path in paths:
        if not path.startswith("/"):
            raise UsageError(f"{path}: write the path from / on", hint=f"for example {Path.cwd() / path}")
    return paths


def _start(options: JoinOptions) -> int:
    config = options.etc / CONFIG_FILE
    if options.start and SYSTEMD.is_dir() and os.geteuid() == 0:
        for command in (
            [*_fshipper(), "install", "--role", "host", "--yes"],
            ["systemctl", "enable", UNIT],
            ["systemctl", "restart", UNIT],
        ):
            if subprocess.run(command, check=False).returncode:
                raise ConfigError(f"{' '.join(command)} failed", hint=f"see journalctl -u {UNIT}")
        sys.stdout.write(f"The producer runs: systemctl status {UNIT}\n")
        return 0
    check = [*_fshipper(), "validate", "--connect", "--config", str(config)]
    deadline = time.monotonic() + CHECK_SECONDS
    while True:  # the server knows the key when it has read its files again
        ended = subprocess.run(check, check=False, capture_output=True, text=True)
        if not ended.returncode or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    if ended.returncode:
        sys.stderr.write(ended.stdout + ended.stderr)
        return ended.returncode
    sys.stdout.write(f"The server accepts this host. Start: fshipper produce --config {config}\n")
    return 0


def _fshipper() -> list[str]:
    return [sys.executable, "-m", "shipper"]


# -- leave -------------------------------------------------------------------------------------------------------------


def leave(options: LeaveOptions) -> None:
    """End this host's key, and stop its producer. Raises UsageError, ConfigError, Unavailable, JoinError."""
    etc = options.etc
    try:
        about = json.loads((etc / SITE_FILE).read_bytes())
        host, address = str(about["host"]), str(about["join"])
        authority = (etc / AUTHORITY_FILE).read_text(encoding="ascii")
    except FileNotFoundError:
        raise UsageError(f"this host has joined no site ({etc / SITE_FILE})", hint="or name --etc") from None
    except (OSError, ValueError, LookupError) as error:
        raise ConfigError(f"cannot read {etc / SITE_FILE}: {error}", hint="revoke it in the centre instead") from None
    confirm(
        yes=options.yes,
        question=f"Leave as {host}? What it could not ship stays in its files.",
        what="this ends shipping from here",
        hint="give --yes",
    )
    key = read_key(etc / KEY_FILE)
    at, name = int(time.time()), public(key)
    signature = _signed(key, leaving(host, name, at))
    _post(address, authority, LEAVE_PATH, {"host": host, "key": name, "at": at, "signature": signature})
    if SYSTEMD.is_dir() and shutil.which("systemctl") and os.geteuid() == 0:
        subprocess.run(["systemctl", "disable", "--now", UNIT], check=False)
    for file in (KEY_FILE, SITE_FILE):
        (etc / file).unlink(missing_ok=True)
    sys.stdout.write(f"{host} has left; its key ended. {etc / CONFIG_FILE} stays.\n")


# -- requests ----------------------------------------------------------------------------------------------------------


def _signed(key: nkeys.KeyPair, content: bytes) -> str:
    return base64.b64encode(key.sign(content)).decode()


def _authority(token: JoinToken) -> str:
    """The site's authority. Nothing is trusted before its fingerprint is that of the token."""
    unknown = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unknown.check_hostname, unknown.verify_mode = False, ssl.CERT_NONE
    pem = _request(token.address, unknown, "GET", AUTHORITY_PATH, b"")[1]
    with contextlib.suppress(ValueError):
        if fingerprint(pem) == token.fingerprint:
            return pem.decode("ascii")
    raise JoinError(
        f"{token.address} is not the site that made this token",
        hint="copy the token again; if it is right, do not join: another machine is in between",
    )


def _post(address: str, authority: str, path: str, content: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request. Raises JoinError: it is refused; Unavailable."""
    context = ssl.create_default_context(cadata=authority)
    status, body = _request(address, context, "POST", path, json.dumps({"version": VERSION, **content}).encode())
    try:
        answer = json.loads(body)
        if status == http.client.OK and answer["version"] == VERSION:
            return dict(answer)
        raise JoinError(str(answer["error"]), hint=str(answer["hint"]))
    except (ValueError, LookupError, TypeError):
        raise Unavailable(f"{address} answered {status}", hint="is `fshipper fleet serve` there?") from None


def _request(address: str, context: ssl.SSLContext, method: str, path: str, body: bytes) -> tuple[int, bytes]:
    host, _, port = address.rpartition(":")
    link = http.client.HTTPSConnection(host.strip("[]"), int(port), context=context, timeout=ANSWER_SECONDS)
    try:
        link.request(method, path, body or None, {"Content-Type": "application/json"})
        answer = link.getresponse()
        return answer.status, answer.read(4 * MAX_BODY_BYTES)
    except ssl.SSLCertVerificationError as error:
        raise JoinError(
            f"the certificate of {address} does not fit: {error.verify_message}",
            hint="check the clock of this host; in the centre `fshipper fleet init` makes certificates anew",
        ) from None
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable(
            f"cannot reach {address}: {error}", hint="does `fshipper fleet serve` run there, and is its port open?"
        ) from None
    finally:
        link.close()
