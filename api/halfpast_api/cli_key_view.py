"""Keys, as commands show them."""

from typing import TYPE_CHECKING, Any

from halfpast_api.cli_credentials import API_KEY
from halfpast_api.cli_output import print_json, print_line

if TYPE_CHECKING:
    from halfpast_api.access.key_bodies import (
        KeyView,
        NewKeyView,
        NewSigningView,
        SecretView,
    )


def place_of(key: "KeyView") -> str:
    return "all" if key.all_namespaces else key.namespace or "default"


def print_one(value: Any) -> None:
    import msgspec

    print_json(msgspec.to_builtins(value))


def print_new(new: "NewKeyView", as_json: bool) -> None:
    if as_json:
        print_one(new)
        return
    print_key(new, False)
    print_line("")
    print_line(f"  {new.secret}")
    print_line("")
    print_line("This is the only time that it is shown. To use it:")
    print_line(f"  export {API_KEY}={new.secret}")
    if isinstance(new.signing_secret, str):
        print_line("")
        _print_credentials(new.id, new.signing_secret)


def print_key(key: "KeyView", as_json: bool) -> None:
    if as_json:
        print_one(key)
        return
    lines = {
        "id": key.id,
        "state": key.state,
        "for": key.description,
        "namespace": place_of(key),
        "may": key.role or " ".join(key.scopes),
        "payload": "yes" if key.view_payload else "no",
        "secrets": _shown(key.secrets),
        "signing": _shown(key.signing_secrets),
        "made": f"{key.created_at} by {key.created_by}",
        "expires": key.expires_at or "never",
        "last used": key.last_used_at or "never",
        "revoked": key.revoked_at or "",
    }
    for name, value in lines.items():
        if value:
            print_line(f"{name:<10} {value}")


def print_new_signing(new: "NewSigningView", as_json: bool) -> None:
    if as_json:
        print_one(new)
        return
    print_key(new, False)
    print_line("")
    _print_credentials(new.id, new.signing_secret)


def _print_credentials(key_id: str, signing_secret: str) -> None:
    print_line("Clients of RocketMQ sign with these; the secret key is shown only now:")
    print_line(f"  access key  {key_id}")
    print_line(f"  secret key  {signing_secret}")


def _shown(secrets: "list[SecretView]") -> str:
    return ", ".join(
        it.prefix + (f" (until {it.expires_at})" if it.expires_at else "")
        for it in secrets
    )
