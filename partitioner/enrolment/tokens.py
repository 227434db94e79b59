"""Join tokens: one host joins once, until a time. The site keeps a hash of each, and who used it from where."""

import base64
import binascii
import contextlib
import datetime as dt
import hashlib
import hmac
import json
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from partitioner.enrolment.protocol import JoinError
from shipper.durable_files import Lock, replace_file
from shipper.errors import ConfigError, UsageError

PREFIX = "fsj1_"
"""How the text of a token begins: people and scanners for secrets recognise it."""
FILE = "join-tokens.json"
ID_BYTES, SECRET_BYTES, FINGERPRINT_BYTES = 8, 20, 32
MAX_TOKENS = 10_000
KEPT = dt.timedelta(days=30)
"""How long a token is listed after its end."""
MAX_LIFETIME_SECONDS = 7 * 86400.0


@dataclass(frozen=True, slots=True)
class JoinToken:
    """What a host needs to join: where, how to recognise the site, and the secret."""

    address: str  #: HOST:PORT of `fshipper fleet serve`
    fingerprint: bytes  #: of the authority's certificate
    id: bytes
    secret: bytes

    def text(self) -> str:
        """The token as people copy it."""
        content = self.fingerprint + self.id + self.secret + self.address.encode()
        check = hashlib.sha256(content).digest()[:4]
        return PREFIX + base64.urlsafe_b64encode(check + content).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> "JoinToken":
        """The token in `text`. Raises UsageError: it is none, or a part is missing."""
        try:
            if not text.startswith(PREFIX):
                raise ValueError
            encoded = text.removeprefix(PREFIX).encode("ascii")
            content = base64.b64decode(encoded + b"=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
            check, content = content[:4], content[4:]
            if not hmac.compare_digest(check, hashlib.sha256(content).digest()[:4]):
                raise ValueError
            ends = (FINGERPRINT_BYTES, FINGERPRINT_BYTES + ID_BYTES, FINGERPRINT_BYTES + ID_BYTES + SECRET_BYTES)
            return cls(
                content[ends[2] :].decode(), content[: ends[0]], content[ends[0] : ends[1]], content[ends[1] : ends[2]]
            )
        except (ValueError, binascii.Error):
            raise UsageError(
                f"this is no join token: it begins with {PREFIX} and is copied as a whole",
                hint="make one in the centre: fshipper fleet token",
            ) from None


@dataclass(frozen=True, slots=True)
class Entry:
    """A token as the site keeps it. Times are RFC 3339, UTC."""

    id: str
    secret_sha256: str
    host: str  #: empty: one new host
    replace: bool  #: HOST is a member, and gets another key
    expires: str
    used_by: str = ""
    used_key: str = ""
    used_from: str = ""
    used: str = ""


class TokenBook:
    """The tokens of one site, in its directory. `now` is its clock."""

    def __init__(self, directory: Path, *, now: dt.datetime) -> None:
        self._path = directory / FILE
        self._lock = directory / ".join.lock"
        self._now = now

    def make(self, host: str, lifetime_seconds: float, *, replace_key: bool) -> tuple[bytes, bytes, str]:
        """A new token: its id, its secret, and when it ends."""
        id_, secret = secrets.token_bytes(ID_BYTES), secrets.token_bytes(SECRET_BYTES)
        expires = _rfc3339(self._now + dt.timedelta(seconds=lifetime_seconds))
        entry = Entry(id_.hex(), hashlib.sha256(secret).hexdigest(), host, replace_key, expires)
        with self._changing() as entries:
            if len(entries) >= MAX_TOKENS:
                raise UsageError(f"there are {MAX_TOKENS} tokens already", hint="wait until some have ended")
            entries[entry.id] = entry
        return id_, secret, expires

    def entries(self) -> list[Entry]:
        """All tokens that are kept."""
        return list(self._load().values())

    @contextlib.contextmanager
    def redeeming(self, id_: str, secret: bytes, *, host: str, key: str, address: str) -> Iterator[Entry]:
        """The entry of a token that `host` with `key` may use; it is used when the block ends without an error.

        The same host with the same key may use it again until its end: an answer may have been lost. Raises
        JoinError.
        """
        with self._changing() as entries:
            entry = entries.get(id_)
            given = hashlib.sha256(secret).hexdigest()
            if entry is None or not hmac.compare_digest(entry.secret_sha256, given):
                raise JoinError("the token is unknown here", hint="make one: fshipper fleet token")
            if entry.used and (entry.used_by, entry.used_key) != (host, key):
                raise JoinError(
                    f"the token was used by {entry.used_by} from {entry.used_from} at {entry.used}",
                    hint=f"was that not you? fshipper hosts revoke {entry.used_by}, and make a new token",
                )
            if _rfc3339(self._now) > entry.expires:
                raise JoinError(f"the token ended at {entry.expires}", hint="make one: fshipper fleet token")
            if entry.host and entry.host != host:
                raise JoinError(
                    f"the token is for {entry.host}, and this host is {host}",
                    hint=f"join with --host {entry.host}, or make a token for {host}",
                )
            yield entry
            entries[id_] = replace(
                entry, used_by=host, used_key=key, used_from=address, used=entry.used or _rfc3339(self._now)
            )

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, Entry]]:
        with Lock(self._lock, f"the tokens in {self._path.parent}"):
            entries = self._load()
            yield entries
            limit = _rfc3339(self._now - KEPT)
            kept = [asdict(entry) for entry in entries.values() if entry.expires > limit]
            replace_file(self._path, (json.dumps({"version": 1, "tokens": kept}, indent=1) + "\n").encode(), mode=0o600)

    def _load(self) -> dict[str, Entry]:
        try:
            found = json.loads(self._path.read_bytes())
            return {each["id"]: Entry(**each) for each in found["tokens"]}
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigError(f"cannot read {self._path}: {error.strerror}", hint="run it as its owner") from None
        except (ValueError, LookupError, TypeError) as error:
            raise ConfigError(f"{self._path} holds no tokens: {error!r}", hint="move it away; tokens end") from None


def _rfc3339(moment: dt.datetime) -> str:
    return moment.astimezone(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
