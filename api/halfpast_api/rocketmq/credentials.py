"""Who calls, told by what clients of RocketMQ sign: a time, with a key's secret.

    authorization: MQv2-HMAC-SHA1 Credential=k3x9q2mv, SignedHeaders=x-mq-date-time,
                   Signature=9c1185a5c5e9fc54612808977ee8f548b2258d31
    x-mq-date-time: 20261120T135436Z
    x-mq-namespace: acme

The signature covers the time and nothing else: who reads one off the wire can send
requests of their own with it until its time is over. That is how the protocol is;
TLS is what keeps it off the wire. Nothing is awaited and no database asked.

Clients differ: Go and C++ write `Credential=k3x9q2mv//Rocketmq`, Rust signs RFC 3339,
Node and C++ write upper case digits, and Python signs the local time with a Z.
"""

import hmac
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from halfpast_api.access.access import OPEN_ACCESS, Access
from halfpast_api.access.config import SignatureConfig
from halfpast_api.access.door import Door
from halfpast_api.access.key_ring import KeyRing, unauthenticated
from halfpast_api.access.key_text import PREFIX
from halfpast_api.access.reception import Reception

AUTHORIZATION: Final = "authorization"
DATE_TIME: Final = "x-mq-date-time"
NAMESPACE: Final = "x-mq-namespace"
LANGUAGE: Final = "x-mq-language"
ALGORITHM: Final = "MQv2-HMAC-SHA1"
_BEARER: Final = f"Bearer {PREFIX}"
_SIGNED: Final = re.compile(
    ALGORITHM + r"\s+Credential=([^,\s]*),\s*SignedHeaders=([^,\s]*),"
    r"\s*Signature=([0-9A-Fa-f]{40})\s*",
)
_ZONE_MAX_S: Final = 14 * 3600  # how far a clock on the wall is from UTC at most
_LENGTH_MAX: Final = 40


def system_now_s() -> float:
    return time.time()


class Credentials:
    """Lets calls in, as `Door` does requests: the same keys, scopes and namespaces,
    and nobody is asked where nobody is asked over HTTP. (No web page can send what
    gRPC wants, so nothing has to be kept out there.)"""

    def __init__(
        self,
        door: Door,
        ring: KeyRing,
        config: SignatureConfig,
        now_s: Callable[[], float] = system_now_s,
    ) -> None:
        self._door = door
        self._ring = ring
        self._config = config
        self._now_s = now_s

    def verify(self, metadata: Mapping[str, str]) -> Access:
        """Who calls, in the namespace that the call names. Raises Refusal."""
        access = OPEN_ACCESS if self._door.is_open else self._caller(metadata)
        return self.within(access, metadata.get(NAMESPACE, ""))

    def within(self, access: Access, namespace: str) -> Access:
        """The same caller in the namespace that a topic or a group bears; where it
        bears none, in the one of the call. Raises Refusal."""
        if not namespace or namespace == access.namespace:
            return access
        return self._door.moved(access, namespace)

    def _caller(self, metadata: Mapping[str, str]) -> Access:
        header = metadata.get(AUTHORIZATION, "")
        if header.startswith(_BEARER):  # who speaks gRPC without a client of RocketMQ
            return self._ring.verify(header[len(_BEARER) - len(PREFIX) :])
        found = _SIGNED.fullmatch(header)
        if found is None or not found[1]:
            raise unauthenticated(
                "this server asks for a key: give the client credentials, the key's id "
                "as access key and its signing secret as secret key (an administrator "
                "makes both: halfpast keys create --signing)"
            )
        credential, signed_headers, signature = found.groups()
        if signed_headers.lower() != DATE_TIME:
            raise unauthenticated(
                f"the signature must cover {DATE_TIME}, and it covers "
                f"{signed_headers[:_LENGTH_MAX]!r}"
            )
        signed = metadata.get(DATE_TIME, "")
        self._check_time(signed, metadata.get(LANGUAGE, ""))
        message, wanted = signed.encode("ascii"), bytes.fromhex(signature)

        def has_signed(secret: str) -> bool:
            made = hmac.digest(secret.encode("ascii"), message, "sha1")
            return hmac.compare_digest(made, wanted)

        key_id = credential.partition("/")[0].removeprefix(PREFIX)
        return self._ring.verify_signer(key_id, has_signed)

    def _check_time(self, text: str, language: str) -> None:
        signed_s = _seconds(text)
        if signed_s is None:
            raise unauthenticated(
                f"{DATE_TIME} must be a time such as 20261120T135436Z, and it is "
                f"{text[:_LENGTH_MAX]!r}"
            )
        now_s = self._now_s()
        off_s = abs(signed_s - now_s)
        skew_s = self._config.skew_ms / 1000
        # Python's client signs the time of its own zone as if it were UTC's, and
        # nothing in the request tells which zone that is.
        if self._config.local_time and language.upper() == "PYTHON":
            skew_s += _ZONE_MAX_S
        if off_s > skew_s:
            here = datetime.fromtimestamp(now_s, UTC).strftime("%Y%m%dT%H%M%SZ")
            raise unauthenticated(
                f"the client's clock is too far off: it says {text[:_LENGTH_MAX]}, and "
                f"here it is {here}; set it, or raise HALFPAST_API_SIGNATURES_SKEW_MS "
                f"({self._config.skew_ms})"
            )


def open_credentials(reception: Reception, config: SignatureConfig) -> Credentials:
    return Credentials(reception.door, reception.ring, config)


def _seconds(text: str) -> float | None:
    """The time that was signed; None if it is none."""
    if len(text) > _LENGTH_MAX or not text.isascii():
        return None
    try:
        read = datetime.fromisoformat(text)  # which knows 20261120T135436Z as well
    except ValueError:
        return None
    return read.timestamp() if read.tzinfo is not None else None
