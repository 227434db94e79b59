"""The site's own authority of certificates (CA), and the server's certificate that it signs."""

import datetime as dt
import hashlib
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from partitioner.access.credentials import write_secret
from shipper.durable_files import make_directory, replace_file
from shipper.errors import ConfigError

AUTHORITY_DAYS = 3650
SERVER_DAYS = 825
RENEW_DAYS = 60
"""A certificate that ends within this time is made anew."""
CLOCK_SKEW = dt.timedelta(hours=1)


class Authority:
    """The files of one authority in a directory: `ca.pem`, `ca-key.pem`, `server.pem`, `server-key.pem`."""

    def __init__(self, directory: Path, *, now: dt.datetime) -> None:
        self._now = now
        self.certificate = directory / "ca.pem"
        self.key = directory / "ca-key.pem"
        self.server_certificate = directory / "server.pem"
        self.server_key = directory / "server-key.pem"

    def make(self, names: Sequence[str]) -> list[Path]:
        """Make what is missing or ends soon. Returns what was made. `names`: names and addresses of the server."""
        made = []
        make_directory(self.certificate.parent, mode=0o755)
        if not self._is_valid(self.certificate, ()):
            self._write_key(self.key)
            self._sign_authority()
            made.append(self.certificate)
        if made or not self._is_valid(self.server_certificate, names):
            self._write_key(self.server_key)
            self._sign_server(names)
            made.append(self.server_certificate)
        return made

    def _is_valid(self, path: Path, names: Sequence[str]) -> bool:
        """Whether the certificate is there, is not about to end, and has all `names`."""
        try:
            certificate = x509.load_pem_x509_certificate(path.read_bytes())
        except FileNotFoundError:
            return False
        except ValueError as error:
            raise ConfigError(f"{path} is no certificate: {error}", hint="move it away; it is made anew") from None
        if certificate.not_valid_after_utc - self._now < dt.timedelta(days=RENEW_DAYS):
            return False
        try:
            extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return not names
        return set(map(_general_name, names)) <= set(extension)

    def _write_key(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        write_secret(path, pem)

    def _sign_authority(self) -> None:
        key = _read_key(self.key)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fshipper site authority")])
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        builder = (
            self._builder(name, name, key.public_key(), AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
        )
        _write(self.certificate, builder.sign(key, hashes.SHA256()))

    def _sign_server(self, names: Sequence[str]) -> None:
        issuer, key = x509.load_pem_x509_certificate(self.certificate.read_bytes()), _read_key(self.server_key)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
        builder = (
            self._builder(name, issuer.subject, key.public_key(), SERVER_DAYS)
            .add_extension(x509.SubjectAlternativeName(map(_general_name, names)), critical=False)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        )
        _write(self.server_certificate, builder.sign(_read_key(self.key), hashes.SHA256()))

    def _builder(
        self, subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - CLOCK_SKEW)
            .not_valid_after(self._now + dt.timedelta(days=days))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        )


def fingerprint(pem: bytes) -> bytes:
    """SHA-256 of a certificate in its binary form. Raises ValueError: it is none."""
    return hashlib.sha256(x509.load_pem_x509_certificate(pem).public_bytes(serialization.Encoding.DER)).digest()


def _read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError(f"{path} is no key of this site", hint="put it back from a backup")
    return key


def _write(path: Path, certificate: x509.Certificate) -> None:
    replace_file(path, certificate.public_bytes(serialization.Encoding.PEM))


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name.strip("[]")))
    except ValueError:
        return x509.DNSName(name)
