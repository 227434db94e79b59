"""Key pairs (ed25519, as NATS writes them), and the files that hold their secret halves."""

import os
from pathlib import Path

import nkeys

from shipper.errors import ConfigError, UsageError
from shipper.files import make_directory, sync_directory

OPERATOR = nkeys.PREFIX_BYTE_OPERATOR
ACCOUNT = nkeys.PREFIX_BYTE_ACCOUNT
USER = nkeys.PREFIX_BYTE_USER


def new_key(kind: int) -> nkeys.KeyPair:
    """A new key pair of `kind`, from the system's random numbers."""
    return nkeys.from_seed(nkeys.encode_seed(os.urandom(32), kind))


def public(pair: nkeys.KeyPair) -> str:
    """The half that everybody may know, as `U...`, `A...` or `O...`."""
    return str(pair.public_key.decode().rstrip("="))


def write_secret(path: Path, content: bytes) -> None:
    """Put a secret into a new file that only its owner may read (0600), durably.

    Raises:
        UsageError: the file is there already; a key that is in use is never written over.
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
