"""Errors of a connection attempt, as a sentence and a next step."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from shipper.errors import CertificateRefused, Fatal, InsecureConnection, ShipperError, Unavailable
from shipper.jetstream.fast_client import NO_TLS
from shipper.settings import TLS_SCHEMES, NatsSettings

REFUSED = "the server refuses this user the right to "
GRANT_HINT = (
    "run it with the key of the right host or role (`fshipper hosts list` shows who has one), "
    "or grant the right in the server's configuration"
)
_VIOLATION = re.compile(r'permissions violation for (publish|subscription) to "([^"]*)"', re.IGNORECASE)
_UPPER = re.compile(r"^(?:\$js\.(?:monitor\.)?(?:api|ack|event)(?:\.(?!collector)[a-z]+)*|\$kv|_inbox(?=_))")
"""What of a subject is in upper case: nats-py changes the server's text to lower case."""
_OWN_INBOX = re.compile(r"^(_INBOX_.*?)\.[^.]{22}(\.\*)?$")
"""Another one in each session, so the right is one to all of them."""


class _Refusal(NamedTuple):
    """`mark` is what a trouble holds; `{}` in `why` is the file of NATS_CERTIFICATE."""

    mark: str
    why: str
    hint: str


_TLS = (
    _Refusal("ALERT_CERTIFICATE_EXPIRED", "our certificate {} has expired", "put a new one there (NATS_CERTIFICATE)"),
    _Refusal("ALERT_CERTIFICATE_REVOKED", "our certificate {} is revoked", "put a new one there (NATS_CERTIFICATE)"),
    _Refusal(
        "ALERT_UNKNOWN_CA",
        "our certificate {} is not signed by an authority that the server knows",
        "set NATS_CERTIFICATE to one of the authority in the server's `ca_file`",
    ),
    _Refusal(
        "ALERT_BAD_CERTIFICATE",
        "our certificate {} is not what the server wants",
        "set NATS_CERTIFICATE to one of the authority in the server's `ca_file`, made for clients",
    ),
    _Refusal(
        "ALERT_CERTIFICATE_REQUIRED", "the server wants a certificate of us", "set NATS_CERTIFICATE and NATS_KEY"
    ),
    _Refusal(
        "CERTIFICATE_VERIFY_FAILED",
        "we do not trust the server's certificate",
        "set NATS_CA to the authority that signed it, and NATS_URL to a name that it holds",
    ),
)  # fmt: skip
_HANDSHAKE, _EOF = "[SSL", "EOF"
"""How Python describes a failed TLS handshake, and one that the other side ended: that may be a server that stops."""
_SILENT = "empty response from server when expecting INFO"


def refused_right(text: str) -> str:
    """The missing right, if `text` is the server's permissions violation; else empty."""
    found = _VIOLATION.search(text)
    if not found:
        return ""
    verb = "publish" if found[1].lower() == "publish" else "subscribe"
    subject = _UPPER.sub(lambda part: part[0].upper(), found[2]).replace(".$kv.", ".$KV.")
    subject = subject.replace("$JS.MONITOR.", "$JS.monitor.")
    shown = _OWN_INBOX.sub(r"\1.>", subject)
    return f'{REFUSED}{verb} to "{shown}"'


def unconnected(troubles: Sequence[str], settings: NatsSettings) -> ShipperError:
    """What to raise where no server would have us; `troubles` are theirs, one a server, with its address."""
    said = "; ".join(troubles)
    for refusal in _TLS:
        if refusal.mark in said:
            return CertificateRefused(
                f"no secure connection: {refusal.why.format(settings.certificate)} ({said})", hint=refusal.hint
            )
    if NO_TLS in said:
        return InsecureConnection(
            f"no secure connection: the settings require TLS ({_required_by(settings)}), and {NO_TLS};"
            f" neither the user nor any data was sent ({said})",
            hint="add a `tls` block to the server's configuration; if the server has one, something between it and"
            " this machine removes TLS. Only on a network that you trust: use nats:// and unset NATS_CA and"
            " NATS_CERTIFICATE",
        )
    if any(_HANDSHAKE in trouble and _EOF not in trouble for trouble in troubles):
        return InsecureConnection(
            f"no secure connection: the TLS handshake failed, and nothing was sent in the clear ({said})",
            hint="unset NATS_TLS_FIRST, or set `handshake_first` in the server's `tls` block"
            if settings.tls_first
            else "check that NATS_URL names the NATS port of the server, and that no proxy between answers for it",
        )
    if "authorization" in said.lower():
        return Fatal(
            f"the NATS server refuses us: {said}",
            hint="check NATS_NKEY, NATS_CREDS, NATS_CERTIFICATE, NATS_USER; `fshipper hosts add` gives a host rights",
        )
    hint = "start one (`fshipper server` on this machine) or correct NATS_URL (--url)"
    if _SILENT in said:
        hint = "where the server begins with TLS (`handshake_first`), set NATS_TLS_FIRST=true with NATS_CA"
    return Unavailable(f"no NATS server answers ({said})", hint=hint)


def _required_by(settings: NatsSettings) -> str:
    """The settings that require TLS."""
    files = {"NATS_CA": settings.ca, "NATS_CERTIFICATE": settings.certificate, "NATS_KEY": settings.key}
    schemes = {url.partition("://")[0] for url in settings.url}
    named = [f"{scheme}:// in NATS_URL" for scheme in TLS_SCHEMES if scheme in schemes]
    named += ["NATS_TLS_FIRST"] if settings.tls_first else []
    return ", ".join([*named, *(name for name, path in files.items() if path)])
