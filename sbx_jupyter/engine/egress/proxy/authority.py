"""The certificate authority with which the proxy adds headers to a sandbox's HTTPS requests.

There is one key per data directory, made on first use. Only sandboxes with header rules trust it,
and it certifies only names that such a rule matches.
"""

from __future__ import annotations

import datetime as dt
import logging
import ssl
import tempfile
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sbx_jupyter.isolation.private_files import write_private

if TYPE_CHECKING:
    from pathlib import Path

_log = logging.getLogger(__name__)

_LIFETIME: Final = dt.timedelta(days=3650)
_LEAF_LIFETIME: Final = dt.timedelta(days=30)
_MAX_CONTEXTS: Final = 256


class CertificateAuthority:
    """Issues a short-lived certificate for a name, and caches its TLS context."""

    def __init__(self, folder: Path) -> None:
        self._contexts: dict[str, ssl.SSLContext] = {}
        key_file, certificate_file = folder / "egress-ca.key", folder / "egress-ca.pem"
        try:
            self._key, self._certificate = _load_authority(key_file, certificate_file)
        except (FileNotFoundError, ValueError, TypeError, UnsupportedAlgorithm) as error:
            if key_file.exists():  # the engine or the machine stopped while it was made
                _log.warning("the certificate authority of the proxy is made again: %s", error)
            _make_authority(key_file, certificate_file)
            self._key, self._certificate = _load_authority(key_file, certificate_file)
        self._key_id = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())

    @property
    def certificate_pem(self) -> str:
        """The certificate that a sandbox must trust, as PEM."""
        return self._certificate.public_bytes(serialization.Encoding.PEM).decode()

    def context_for(self, name: str) -> ssl.SSLContext:
        """A server-side TLS context for ``name`` that offers HTTP/1.1."""
        if name not in self._contexts:
            if len(self._contexts) >= _MAX_CONTEXTS:
                self._contexts.pop(next(iter(self._contexts)))
            self._contexts[name] = self._issue(name)
        return self._contexts[name]

    def _issue(self, name: str) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(name, key.public_key(), self._certificate.subject, _LEAF_LIFETIME)
        certificate = (
            builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._key_id),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        # The ssl module loads keys only from files. This one has mode 0600 and is removed at once.
        with tempfile.NamedTemporaryFile() as file:
            file.write(_private_pem(key) + certificate.public_bytes(serialization.Encoding.PEM))
            file.flush()
            context.load_cert_chain(file.name)
        return context


def _load_authority(
    key_file: Path, certificate_file: Path
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """Raises ``OSError``; ``ValueError``, ``TypeError`` and ``UnsupportedAlgorithm`` for damage."""
    key = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError(f"{key_file} does not hold an elliptic curve key")
    certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
    if certificate.public_key() != key.public_key():
        raise ValueError(f"{certificate_file} is of another key than {key_file}")
    return key, certificate


def _make_authority(key_file: Path, certificate_file: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = "sbx-jupyter egress proxy"
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        _builder(name, key.public_key(), subject, _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        # Distinguishes authorities of the same name; strict verifiers require it.
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    write_private(key_file, _private_pem(key))
    write_private(certificate_file, certificate.public_bytes(serialization.Encoding.PEM))


def _builder(
    name: str, public_key: ec.EllipticCurvePublicKey, issuer: x509.Name, lifetime: dt.timedelta
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        # A common name has at most 64 characters; clients compare the alternative name.
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])]))
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + lifetime)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
