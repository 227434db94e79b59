"""nats-server's configuration for a roster: written as a whole, or changed where it includes users without accounts."""

import json
import os
import re
from pathlib import Path
from typing import NamedTuple

from partitioner.access import include
from partitioner.access.roster import Trust
from shipper.errors import ConfigError, UsageError
from shipper.files import replace_file

SERVER_FILE = "nats-server.conf"
KEPT_SUFFIX = ".before-accounts"
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_LISTEN = re.compile(r"(\[[0-9a-fA-F:]+\]|[^:\s\"]+):(\d{1,5})")
_TEMPLATE = """\
# Written once by `fshipper hosts init`; it is yours to change. Start: nats-server -c {directory}/{file}

server_name: "logs-1"
host: {host}{note}
port: {port}
http: "127.0.0.1:8222"
max_payload: 2MB
write_deadline: "10s"

jetstream {{
  store_dir: "/var/lib/nats"
  max_file_store: 100GB
  max_memory_store: 64MB
  sync_interval: always
}}

{included}
{tls}"""
_NO_TLS = """
# Nothing is encrypted, so this server listens on loopback only. Before you name another address, give it a certificate:
# tls {
#   cert_file: "/etc/nats/server.pem"
#   key_file:  "/etc/nats/server-key.pem"
# }
"""


class Tls(NamedTuple):
    """The server's certificate, its key, and the authority of the clients' certificates."""

    certificate: Path | None = None
    key: Path | None = None
    authority: Path | None = None


def server_conf(directory: Path, trust: Trust, operator_file: str, *, listen: str, tls: Tls) -> str:
    """A whole configuration, to be written into `directory`.

    Raises UsageError: an address that others can reach, and no certificate; or half of one.
    """
    found = _LISTEN.fullmatch(listen)
    if not found or int(found[2]) > 65535:  # noqa: PLR2004 - the highest port
        raise UsageError(f"--listen {listen}: write ADDRESS:PORT, for example 10.0.0.5:4222")
    host = found[1].strip("[]")
    if (tls.certificate is None) != (tls.key is None):
        raise UsageError("--tls-cert and --tls-key belong together")
    if trust is Trust.CERTIFICATES and not (tls.certificate and tls.authority):
        raise UsageError(
            "--by certificates with --listen needs --tls-cert, --tls-key and --tls-ca",
            hint="--tls-ca is the authority that signed the certificates of hosts",
        )
    if host not in LOOPBACK and tls.certificate is None:
        raise UsageError(
            f"--listen {listen} without --tls-cert and --tls-key would send every line unencrypted",
            hint="give both, or listen on 127.0.0.1",
        )
    file = operator_file if trust is Trust.TOKENS else include.ACCOUNTS_FILE
    line = f"include {json.dumps(file)}"
    return _TEMPLATE.format(
        directory=directory,
        file=SERVER_FILE,
        host=json.dumps(host),
        note="" if host not in LOOPBACK else "  # only this machine; hosts need an address that they reach, and TLS",
        port=found[2],
        included=line if trust is Trust.TOKENS else f"accounts {{\n  {line}\n}}",
        tls=_tls(tls, trust) if tls.certificate else _NO_TLS,
    )


def _tls(tls: Tls, trust: Trust) -> str:
    lines = [f"cert_file: {json.dumps(str(tls.certificate))}", f"key_file: {json.dumps(str(tls.key))}"]
    if tls.authority:
        lines.append(f"ca_file: {json.dumps(str(tls.authority))}")
    if trust is Trust.CERTIFICATES:
        lines += ["verify_and_map: true", "handshake_first: true"]
    return "\ntls {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


def including_accounts(path: Path, directory: Path, streams: str) -> str | None:
    """The configuration in `path`, including the accounts instead of the users; None: it does already.

    Raises ConfigError: it is not as `fshipper hosts` ever told to write it.
    """
    try:
        text = path.read_text()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", hint="run it as its owner, or sudo") from None
    if re.search(rf"^[^#\n]*{re.escape(include.ACCOUNTS_FILE)}\"", text, re.MULTILINE):
        return None
    new = f'include "{directory.name}/{include.ACCOUNTS_FILE}"'
    block = re.compile(rf"\"?\b{re.escape(streams)}\"?\s*:?\s*\{{(?P<body>[^{{}}]*)\}}")
    for found in block.finditer(text):
        body = re.sub(r"#[^\n]*", "", found["body"])
        included = re.search(rf"include\s+[\"\']?([^\"\'\s]*){re.escape(include.FILE)}[\"\']?", body)
        if included and not re.sub(r"jetstream\s*:?\s*(enabled|enable|true)|[\s,;]", "", body.replace(included[0], "")):
            new = f'include "{included[1]}{include.ACCOUNTS_FILE}"'
            return text[: found.start()] + new + text[found.end() :]
    raise ConfigError(
        f"{path} does not include {include.FILE} in account {streams} in a way that fshipper knows; nothing is changed",
        hint=f"migrate without --server-config, and replace {streams} {{ ... }} there by {new} yourself (--account)",
    )


def check_unused(path: Path) -> None:
    """Raise UsageError where the configuration in `path` still includes the users of the flat layout."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", hint="run it as its owner, or sudo") from None
    if re.search(rf"^[^#\n]*include[^#\n]*{re.escape(include.FILE)}", text, re.MULTILINE):
        raise UsageError(
            f"{path} still includes {include.FILE}: without that file the server would not start again",
            hint=f"include {include.ACCOUNTS_FILE} there as `fshipper hosts migrate` said, and reload the server first",
        )


def change_server_file(path: Path, text: str) -> None:
    """Put `text` into the configuration of the server, and keep what was there beside it."""
    known = path.stat()
    for file, content in ((path.with_name(path.name + KEPT_SUFFIX), path.read_bytes()), (path, text.encode())):
        replace_file(file, content, mode=known.st_mode & 0o777)
        os.chown(file, known.st_uid, known.st_gid)  # the server must be able to read it
