"""Tokens (NATS JWT, version 2): what an operator's keys sign, so that a server knows hosts that nobody listed to it.

Sources: nats-io/jwt v2 (claims), nats-server `server/auth.go` (templates of scoped signing keys: `{{name()}}`).
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import nkeys

from partitioner.access.keys import public
from partitioner.access.rights import ANSWER_SECONDS, ANSWERS, Door, Rights, Role

NAME = "{{name()}}"
"""What the server replaces by the name in a user's token."""
UNLIMITED = -1
LIMITS = ("subs", "data", "payload", "imports", "exports", "conn", "leaf")
STREAM_LIMITS = (*LIMITS, "mem_storage", "disk_storage", "streams", "consumer")
"""Limits of an account with JetStream."""
_HEADER = {"typ": "JWT", "alg": "ed25519-nkey"}


def operator_token(operator: nkeys.KeyPair, *, now: int, system: str) -> str:
    """The operator's own token; `system` is the public key of the system account, `now` Unix seconds."""
    nats = {"type": "operator", "version": 2, "system_account": system}
    return _sign(operator, {"sub": public(operator), "name": "fshipper", "nats": nats}, now)


def account_token(
    operator: nkeys.KeyPair, account: str, name: str, scopes: Iterable[tuple[Role, str, Rights]], *,
    exports: Iterable[Door] = (), imports: Iterable[tuple[str, Door]] = (), revoked: Mapping[str, int], now: int,
    limits: Iterable[str] = LIMITS,
) -> str:  # fmt: skip
    """An account: which signing key (public) may sign users of which role, what passes, who is revoked."""
    nats = {
        "type": "account", "version": 2, "limits": {**dict.fromkeys(limits, UNLIMITED), "wildcards": True},
        "exports": list(map(_export, exports)),
        "imports": [_import(*each) for each in imports], "signing_keys": [_scope(*each) for each in scopes],
        "revocations": dict(revoked), "default_permissions": {"pub": {}, "sub": {}},
    }  # fmt: skip
    return _sign(operator, {"sub": account, "name": name, "nats": nats}, now)


def system_token(operator: nkeys.KeyPair, system: str, *, now: int) -> str:
    """The system account, which a server with an operator wants to have."""
    limits = {**dict.fromkeys(LIMITS, UNLIMITED), "wildcards": True}
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


def _export(door: Door) -> dict[str, Any]:
    found = {"name": door.subject, "subject": door.subject, "type": door.kind}
    return {**found, "response_type": "Stream" if door.many else "Singleton"} if door.kind == "service" else found


def _import(account: str, door: Door) -> dict[str, Any]:
    found = {"name": door.subject, "subject": door.subject, "account": account, "type": door.kind}
    return {**found, "local_subject": door.local} if door.local else found


def _scope(role: Role, signer: str, allowed: Rights) -> dict[str, Any]:
    template = {
        "pub": {"allow": list(allowed.publish), "deny": list(allowed.never)},
        "sub": {"allow": list(allowed.subscribe), "deny": list(allowed.deaf)},
        "resp": {"max": ANSWERS, "ttl": ANSWER_SECONDS * 10**9},
        "subs": UNLIMITED, "data": UNLIMITED, "payload": UNLIMITED,
    }  # fmt: skip
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
