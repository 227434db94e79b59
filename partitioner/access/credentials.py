"""Tokens (NATS JWT, version 2): signed by an operator's keys, so that the server's configuration need not list hosts.

Sources: nats-io/jwt v2 (claims), nats-server `server/auth.go` (templates of scoped signing keys: `{{name()}}`).

Key pairs (ed25519, as NATS writes them), and the files that hold their secret halves.
"""

import base64
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import nkeys

from partitioner.access.permissions import (
    ANSWER_SECONDS,
    ANSWERS,
    AccountExport,
    AccountLimits,
    Rights,
    Role,
)
from shipper.durable_files import make_directory, sync_directory
from shipper.errors import ConfigError, UsageError

OPERATOR = nkeys.PREFIX_BYTE_OPERATOR
ACCOUNT = nkeys.PREFIX_BYTE_ACCOUNT
USER = nkeys.PREFIX_BYTE_USER


def new_key(kind: int) -> nkeys.KeyPair:
    """A new key pair of `kind`, from the system's random numbers."""
    return nkeys.from_seed(nkeys.encode_seed(os.urandom(32), kind))


def public(pair: nkeys.KeyPair) -> str:
    """The public half, as `U...`, `A...` or `O...`."""
    return str(pair.public_key.decode().rstrip("="))


def write_secret(path: Path, content: bytes) -> None:
    """Put a secret into a new file that only its owner may read (0600), durably.

    Raises UsageError: the file is there already; a key that is in use is never written over.
    """
    make_directory(path.parent, mode=0o700)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise UsageError(f"{path} is there already", hint="revoke the host first, or move the file away") from None
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    sync_directory(path.parent)


def read_key(path: Path) -> nkeys.KeyPair:
    """The key pair whose seed is in `path`. Raises ConfigError: there is none, or it is none."""
    try:
        return nkeys.from_seed(path.read_bytes().strip())
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", hint="run it as who owns it, or sudo") from None
    except (nkeys.NkeysError, ValueError) as error:
        raise ConfigError(f"{path} holds no seed of a key: {error!r}", hint="put it back from a backup") from None


NAME = "{{name()}}"
"""What the server replaces by the name in a user's token."""
UNLIMITED = -1
_NO_LIMITS = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), UNLIMITED)
_STREAM_LIMITS = dict.fromkeys(("mem_storage", "disk_storage", "streams", "consumer"), UNLIMITED)
"""Limits that only an account with JetStream has."""
_HEADER = {"typ": "JWT", "alg": "ed25519-nkey"}


def operator_token(operator: nkeys.KeyPair, *, now: int, system: str) -> str:
    """The operator's own token; `system` is the public key of the system account, `now` Unix seconds."""
    nats = {"type": "operator", "version": 2, "system_account": system}
    return _sign(operator, {"sub": public(operator), "name": "fshipper", "nats": nats}, now)


def account_token(
    operator: nkeys.KeyPair,
    account: str,
    name: str,
    scopes: Iterable[tuple[Role, str, Rights]],
    *,
    exports: Iterable[AccountExport] = (),
    imports: Iterable[tuple[str, AccountExport]] = (),
    revoked: Mapping[str, int],
    now: int,
    limits: AccountLimits | None,
) -> str:
    """An account: which signing key (public) may sign users of which role, what passes, who is revoked.

    `limits`: None: the account of the streams, which has none.
    """
    nats = {
        "type": "account",
        "version": 2,
        "limits": {**_NO_LIMITS, **_limits(limits), "wildcards": True},
        "exports": list(map(_export, exports)),
        "imports": [_import(*each) for each in imports],
        "signing_keys": [_scope(*each) for each in scopes],
        "revocations": dict(revoked),
        "default_permissions": {"pub": {}, "sub": {}},
    }
    return _sign(operator, {"sub": account, "name": name, "nats": nats}, now)


def system_token(operator: nkeys.KeyPair, system: str, *, now: int) -> str:
    """The system account, which a server with an operator wants to have."""
    limits = {**_NO_LIMITS, "wildcards": True}
    nats = {"type": "account", "version": 2, "limits": limits, "default_permissions": {"pub": {}, "sub": {}}}
    return _sign(operator, {"sub": system, "name": "SYS", "nats": nats}, now)


def user_credentials(signer: nkeys.KeyPair, account: str, user: nkeys.KeyPair, name: str, *, now: int) -> bytes:
    """The file that NATS_CREDS names: token and seed of `name`. Its rights are those of the signer's role."""
    nats = {"type": "user", "version": 2, "issuer_account": account}
    token = _sign(signer, {"sub": public(user), "name": name, "nats": nats}, now)
    seed = bytes(user.seed).decode()
    return (
        f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    ).encode()


def issued_at(token: str) -> int:
    """When a token of ours was signed, in Unix seconds."""
    body = token.split(".")[1]
    return int(json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))["iat"])


def _limits(limits: AccountLimits | None) -> dict[str, int]:
    if limits is None:
        return _STREAM_LIMITS
    values = zip(("conn", "subs", "payload", "leaf"), limits, strict=True)
    return {name: UNLIMITED if value is None else value for name, value in values}


def _export(export: AccountExport) -> dict[str, Any]:
    found = {"name": export.subject, "subject": export.subject, "type": export.kind}
    return {**found, "response_type": "Stream" if export.many else "Singleton"} if export.kind == "service" else found


def _import(account: str, export: AccountExport) -> dict[str, Any]:
    found = {"name": export.subject, "subject": export.subject, "account": account, "type": export.kind}
    return {**found, "local_subject": export.local} if export.local else found


def _scope(role: Role, signer: str, allowed: Rights) -> dict[str, Any]:
    template = {
        "pub": {"allow": list(allowed.publish), "deny": list(allowed.never)},
        "sub": {"allow": list(allowed.subscribe), "deny": list(allowed.deaf)},
        "resp": {"max": ANSWERS, "ttl": ANSWER_SECONDS * 10**9},
        "subs": UNLIMITED,
        "data": UNLIMITED,
        "payload": UNLIMITED,
    }
    return {"kind": "user_scope", "key": signer, "role": role.value, "template": template}


def _sign(pair: nkeys.KeyPair, claims: Mapping[str, Any], now: int) -> str:
    """`header.claims.signature`; the id is a hash of the claims, as nats-io/jwt makes it."""
    unsigned = {**claims, "iss": public(pair), "iat": now}
    digest = hashlib.new("sha512_256", json.dumps(unsigned, separators=(",", ":")).encode()).digest()
    body = {"jti": base64.b32encode(digest).decode().rstrip("="), **unsigned}
    signed = f"{_packed(_HEADER)}.{_packed(body)}"
    return f"{signed}.{_base64(pair.sign(signed.encode()))}"


def _packed(content: Mapping[str, Any]) -> str:
    return _base64(json.dumps(content, separators=(",", ":")).encode())


def _base64(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).decode().rstrip("=")
