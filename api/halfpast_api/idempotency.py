"""Idempotency keys: a request that is repeated gets the first answer again.

The broker keeps, for some time, a hash of the key, a hash of the request and the
seed of the answer; see `encoding`.
"""

from hashlib import blake2b

from halfpast_api import headers
from halfpast_api.call import Call
from halfpast_api.encoding import Seed
from halfpast_core_store.broker import Appended, Dedup

REPLAYED = ("Idempotency-Replayed", "true")
_HASH_SIZE = 16


def dedup_of(call: Call, scope: str, seed: Seed) -> Dedup | None:
    """What the broker is to remember; None without an Idempotency-Key.

    The same key may be used again in another `scope`, and in another namespace. Raises
    Refusal.
    """
    key = headers.idempotency_key(call.headers)
    if key is None:
        return None
    if call.access.namespace:
        scope = f"{call.access.namespace}\0{scope}"
    request = blake2b(call.path.encode("utf-8", "surrogateescape"), digest_size=16)
    request.update(call.form.name.encode())
    request.update(call.body)
    return Dedup(
        key=blake2b(f"{scope}\0{key}".encode(), digest_size=_HASH_SIZE).digest(),
        fingerprint=request.digest(),
        base_id=seed.base_id,
        accepted_ns=seed.accepted_ns,
    )


def seed_of(appended: Appended, seed: Seed) -> Seed:
    """The seed to answer with: the first one, if the request was a repetition."""
    first = appended.replayed
    return seed if first is None else Seed(first.base_id, first.accepted_ns)
