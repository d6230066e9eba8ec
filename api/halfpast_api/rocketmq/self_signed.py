"""A certificate of our own making, for development: nobody vouches for it.

It is its own authority, so a client that is given the file as its roots trusts this
server and no other. It is kept, so that clients go on trusting it; a new one is made
when it has a month left, or is for other names.
"""

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:
    raise ValueError(
        "to make a certificate takes the package cryptography: pip install "
        "'halfpast[grpc]', or give one with --grpc-tls-cert and --grpc-tls-key"
    ) from None

LIFE: Final = timedelta(days=397)  # some clients take no certificate with a longer one
RENEWED_BEFORE: Final = timedelta(days=30)
_OWNER_ONLY: Final = 0o600


def keep_pair(certificate: Path, key: Path, names: Sequence[str]) -> None:
    """See that both files are there, for these names and addresses. Raises OSError."""
    now = datetime.now(UTC)
    if _is_good(certificate, key, names, now):
        return
    private = ec.generate_private_key(ec.SECP256R1())
    made = _certificate(private, names, now)
    certificate.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    secret = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    _write(key, secret)
    _write(certificate, made.public_bytes(serialization.Encoding.PEM))


def _certificate(
    private: ec.EllipticCurvePrivateKey, names: Sequence[str], now: datetime
) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Halfpast, self-signed")])
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    server = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # clients' clocks
        .not_valid_after(now + LIFE)
        .add_extension(x509.SubjectAlternativeName(_alternatives(names)), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .add_extension(usage, True)
        .add_extension(server, False)
        .sign(private, hashes.SHA256())
    )


def _is_good(certificate: Path, key: Path, names: Sequence[str], now: datetime) -> bool:
    try:
        known = x509.load_pem_x509_certificate(certificate.read_bytes())
        private = serialization.load_pem_private_key(key.read_bytes(), None)
        held = known.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (OSError, ValueError, TypeError, x509.ExtensionNotFound):
        return False
    return (
        known.not_valid_after_utc - now > RENEWED_BEFORE
        and private.public_key() == known.public_key()
        and set(_alternatives(names)) <= set(held.value)
    )


def _alternatives(names: Sequence[str]) -> list[x509.GeneralName]:
    return [_alternative(name) for name in dict.fromkeys(names)]


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write(path: Path, content: bytes) -> None:
    """Replace the file; only its owner may read it."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    beside.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with open(os.open(beside, flags, _OWNER_ONLY), "wb") as file:
        file.write(content)
    beside.replace(path)
