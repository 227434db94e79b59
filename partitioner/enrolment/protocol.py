"""What a host and its site exchange when it joins or leaves: JSON over TLS, signed with the host's key."""

import base64
import binascii
from typing import NamedTuple

import nacl.exceptions
import nacl.signing
import nkeys

from partitioner.access.credentials import USER
from shipper.errors import ShipperError

VERSION = 1
JOIN_PATH, LEAVE_PATH, AUTHORITY_PATH = "/join", "/leave", "/ca.pem"
MAX_BODY_BYTES = 8192
MAX_SKEW_SECONDS = 300
"""How old a request to leave may be, and how wrong the clock of a host."""
PUBLIC_KEY_CHARACTERS = 56


class JoinError(ShipperError):
    """The site refuses the request."""


class SiteAnswer(NamedTuple):
    """What a host gets to know of its site."""

    url: str  #: of the server: `tls://logs.example.net:4222`
    authority: str  #: certificate of the authority, PEM
    subject: str  #: first token of the subjects


def joining(id_: str, host: str, key: str) -> bytes:
    """What a host signs to join."""
    return "\n".join(("fshipper join", id_, host, key)).encode()


def leaving(host: str, key: str, at: int) -> bytes:
    """What a host signs to leave. `at`: Unix seconds."""
    return "\n".join(("fshipper leave", host, key, str(at))).encode()


def is_signed(key: str, content: bytes, signature: str) -> bool:
    """Whether the owner of the public key `key` (`U...`) has signed `content`."""
    try:
        raw = base64.b32decode(key)
        is_whole = raw[-2:] == nkeys.crc16_checksum(bytearray(raw[:-2]))
        if len(key) != PUBLIC_KEY_CHARACTERS or raw[0] != USER or not is_whole:
            return False
        nacl.signing.VerifyKey(raw[1:33]).verify(content, base64.b64decode(signature, validate=True))
    except (binascii.Error, ValueError, nacl.exceptions.CryptoError):
        return False
    return True
