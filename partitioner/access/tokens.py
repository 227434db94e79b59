"""Tokens (NATS JWT, version 2): what an operator's keys sign, so that a server knows hosts that nobody listed to it.

Sources: nats-io/jwt v2 (claims), nats-server `server/auth.go` (templates of scoped signing keys: `{{name()}}`).
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import nkeys

from partitioner.access.keys import public
from partitioner.access.rights import ANSWER_SECONDS, ANSWERS, Role, rights

NAME = "{{name()}}"
"""What the server replaces by the name in a user's token."""
UNLIMITED = -1
_LIMITS = (
    "subs", "data", "payload", "imports", "exports", "conn", "leaf", "mem_storage", "disk_storage", "streams",
    "consumer",
)  # fmt: skip
_HEADER = {"typ": "JWT", "alg": "ed25519-nkey"}


def operator_token(operator: nkeys.KeyPair, *, now: int, system: str) -> str:
    """The operator's own token; `system` is the public key of the system account, `now` Unix seconds."""
    nats = {"type": "operator", "version": 2, "system_account": system}
    return _sign(operator, {"sub": public(operator), "name": "fshipper", "nats": nats}, now)


def account_token(
    operator: nkeys.KeyPair, account: str, signers: Mapping[Role, str], *, prefix: str, revoked: Mapping[str, int],
    now: int,
) -> str:  # fmt: skip
    """The account of the logs: what each role's signing key (public) may sign, and whose tokens are revoked."""
    scopes = [_scope(role, signers[role], prefix) for role in signers]
    nats = {
        "type": "account", "version": 2, "limits": {**dict.fromkeys(_LIMITS, UNLIMITED), "wildcards": True},
        "signing_keys": scopes, "revocations": dict(revoked), "default_permissions": {"pub": {}, "sub": {}},
    }  # fmt: skip
    return _sign(operator, {"sub": account, "name": "LOGS", "nats": nats}, now)


def system_token(operator: nkeys.KeyPair, system: str, *, now: int) -> str:
    """The system account, which a server with an operator wants to have."""
    limits = {**dict.fromkeys(_LIMITS[:7], UNLIMITED), "wildcards": True}
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


def _scope(role: Role, signer: str, prefix: str) -> dict[str, Any]:
    allowed = rights(role, NAME, prefix=prefix)
    template = {
        "pub": {"allow": list(allowed.publish), "deny": list(allowed.never)}, "sub": {"allow": list(allowed.subscribe)},
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
