"""Keys, namespaces and the trail."""

from typing import Final

from halfpast_api.access.key_bodies import KEEP_OLD_MS_MAX
from halfpast_api.openapi import samples
from halfpast_api.openapi.words.word import DURATION, Word, Words, instant, number

_KEY_ID: Final = Word("The key's id.", samples.KEY_ID)
_SECRETS: Final = Word("Its live secrets, by how they begin.")
_STATE: Final = Word("`live`, `expired` or `revoked`.", "live")

ACCESS: Final[Words] = {
    "role": Word("`read-only`, `operator`, `admin`, or empty.", ""),
    "KeyBody.role": Word("`read-only`, `operator` or `admin`.", "operator"),
    "KeyChange.role": Word("`read-only`, `operator` or `admin`.", "operator"),
    "scopes": Word("Verb and topics, each.", ["publish:orders-*", "consume"]),
    "view_payload": Word("Whether it may see the data of events.", False),
    "expires_at": instant("When it expires; null is never.", "2099-01-01T00:00:00Z"),
    "expires_in": Word("The same, from now.", "P365D", given=DURATION),
    "namespace": Word("The namespace; empty is the default one.", ""),
    "all_namespaces": Word("Whether it is bound to none.", False),
    "keep_old_ms": number(
        "How long the secret before still counts.", 3_600_000, 0, KEEP_OLD_MS_MAX
    ),
    "prefix": Word("How it begins.", "hp_k3x9q2mv_9Qd…"),
    "KeyView.id": _KEY_ID,
    "NewKeyView.id": _KEY_ID,
    "KeyView.secrets": _SECRETS,
    "NewKeyView.secrets": _SECRETS,
    "NewKeyView.secret": Word("The key itself, shown this once.", "hp_k3x9q2mv_…"),
    "KeyView.state": _STATE,
    "NewKeyView.state": _STATE,
    "NewSigningView.id": _KEY_ID,
    "NewSigningView.secrets": _SECRETS,
    "NewSigningView.state": _STATE,
    "signing": Word("Whether it gets a signing secret as well.", False),
    "signing_secrets": Word("Its live signing secrets, by how they begin.", []),
    "signing_secret": Word("The signing secret, shown this once.", "hps_k3x9q2mv_…"),
    "created_by": Word("Who made it.", "key:k3x9q2mv"),
    "revoked_at": instant("When it was revoked."),
    "last_used_at": instant("When it was used last, to within some minutes."),
    "keys": Word("The keys."),
    "actor": Word("Who.", "key:k3x9q2mv"),
    "WhoView.kind": Word("`key`, `user` or `anonymous`.", "key"),
    "key_id": Word("The key that was used.", samples.KEY_ID),
    "WhoView.mode": Word("`open`: nobody is asked for a key; else `keys`.", "keys"),
    "namespaces": Word("The namespaces."),
    "suspended": Word("Its keys let nobody in, and nothing is deleted.", False),
    "entries": Word("The acts."),
    "TrailEntryView.id": Word("Its id.", "0000019a9f0c3c8000000001"),
    "TrailEntryView.action": Word("Which call it was.", "PUT /v1/topics/{topic}"),
    "TrailEntryView.status": Word("What it was answered with.", 200),
    "object": Word("What it was done to.", "orders"),
    "before": Word("How that was before, without secrets."),
    "after": Word("How it is since."),
}
