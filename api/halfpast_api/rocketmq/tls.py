"""The certificate with which the gRPC front speaks TLS; without one it does not.

    cert, key      files in PEM. They may be replaced while the server runs: who
                   connects after that gets the new ones.
    self_signed    a folder in which a pair of our own lies, made when there is none:
                   for development, or where clients trust whatever they are shown

One port speaks TLS or does not, never both. Clients in Java, Go, C# and C++ want TLS
unless they are told otherwise, those in Python, Node and Rust do not.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import grpc

CERTIFICATE_NAME: Final = "grpc.crt"
KEY_NAME: Final = "grpc.key"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """All defaults: no TLS. `cert` and `key`, or `self_signed`."""

    cert: str = ""
    """The file of the certificate, followed by those between it and its authority."""

    key: str = ""
    """The file of its private key, which has no password."""

    self_signed: str = ""
    """The folder of a pair that we make ourselves."""

    names: str = "localhost,127.0.0.1,::1"
    """For which names and addresses that pair is, with commas between."""

    def __post_init__(self) -> None:
        """Raises ValueError."""
        if bool(self.cert) != bool(self.key):
            raise ValueError(
                "TLS takes a certificate and its key: give both, --grpc-tls-cert and "
                "--grpc-tls-key"
            )
        if self.cert and self.self_signed:
            raise ValueError(
                "there is a certificate, so none is made: leave out "
                "--grpc-tls-self-signed, or --grpc-tls-cert and --grpc-tls-key"
            )

    @property
    def is_on(self) -> bool:
        return bool(self.cert or self.self_signed)


class UnusablePair(ValueError):
    """These files are no certificate with its key. `why` says what to mend."""

    def __init__(self, certificate: Path, key: Path, why: str) -> None:
        super().__init__(certificate, key, why)
        self.certificate = certificate
        self.key = key
        self.why = why

    def __str__(self) -> str:
        return (
            f"the certificate {self.certificate} and the key {self.key} cannot be used "
            f"for TLS: {self.why}"
        )


def check_files(config: TlsConfig) -> None:
    """Raise UnusablePair for files that are no certificate with its key."""
    if config.cert:
        _Pair(Path(config.cert), Path(config.key)).read()


def server_credentials(config: TlsConfig) -> "grpc.ServerCredentials | None":
    """None without TLS. Raises UnusablePair; for a pair of our own ValueError, if what
    makes it is not installed, and OSError."""
    if not config.is_on:
        return None
    import grpc

    pair = _Pair(*_files(config))
    used = grpc.ssl_server_certificate_configuration([pair.read()])

    def current() -> grpc.ServerCertificateConfiguration:
        """What gRPC asks before each handshake."""
        nonlocal used
        changed = pair.read_if_changed()
        if changed is not None:
            used = grpc.ssl_server_certificate_configuration([changed])
        return used

    return grpc.dynamic_ssl_server_credentials(used, current)


def _files(config: TlsConfig) -> tuple[Path, Path]:
    if config.cert:
        return Path(config.cert), Path(config.key)
    from halfpast_api.rocketmq.self_signed import keep_pair

    folder = Path(config.self_signed)
    certificate, key = folder / CERTIFICATE_NAME, folder / KEY_NAME
    names = [name.strip() for name in config.names.split(",") if name.strip()]
    keep_pair(certificate, key, names)
    return certificate, key


class _Pair:
    """Two files that belong together, and how they were when they were read."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate = certificate
        self._key = key
        self._seen: tuple[int, ...] = ()

    def read(self) -> tuple[bytes, bytes]:
        """The key and the certificate, as gRPC wants them. Raises UnusablePair."""
        try:
            seen = self._stamp()
            pair = self._key.read_bytes(), self._certificate.read_bytes()
            # Refuses a password instead of asking for one at the terminal.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
                self._certificate, self._key, password=lambda: b""
            )
        except ssl.SSLError as error:
            raise UnusablePair(self._certificate, self._key, _why(error)) from None
        except OSError as error:
            why = f"{error.strerror} ({error.filename})"
            raise UnusablePair(self._certificate, self._key, why) from None
        self._seen = seen
        return pair

    def read_if_changed(self) -> tuple[bytes, bytes] | None:
        """None if nothing has changed, or what has come cannot be used (yet: two files
        are not replaced at one time)."""
        try:
            return None if self._stamp() == self._seen else self.read()
        except (OSError, UnusablePair):
            return None

    def _stamp(self) -> tuple[int, ...]:
        stats = self._certificate.stat(), self._key.stat()
        return tuple(n for it in stats for n in (it.st_mtime_ns, it.st_ino, it.st_size))


def _why(error: ssl.SSLError) -> str:
    reason = (error.reason or "").replace("_", " ").lower()
    if "mismatch" in reason:
        return "the key is not that of the certificate"
    if "bad password" in reason or "bad decrypt" in reason:
        return "the key has a password; store it without one, readable by us alone"
    return f"they must be PEM files ({reason or error})"
