"""Forms about keys. A new secret is in the answer itself and nowhere else."""

from typing import Final

import msgspec

from halfpast_api.console.form import Form
from halfpast_api.console.keys.pages import key_view
from halfpast_api.console.keys.reading import Key
from halfpast_api.console.moment import span_ms_of
from halfpast_api.console.page_names import path_of
from halfpast_api.console.said import Said
from halfpast_api.console.visit import Redirect, View, Visit

_DAY_MS: Final = 86_400_000


async def create_key(visit: Visit, form: Form) -> View:
    """POST /console/keys"""
    body = _rights(form)
    if form.ticked("all_namespaces"):
        body["all_namespaces"] = True
    elif namespace := form.text("namespace"):
        body["namespace"] = namespace
    if span := form.text("expires_in"):
        body["expires_in"] = f"PT{max(1, span_ms_of(span) // 1000)}S"
    answer = await visit.send("POST", "keys", body=body)
    return key_view(visit, msgspec.json.decode(answer.content, type=Key))


async def change_key(visit: Visit, form: Form) -> Redirect:
    """POST /console/keys/{id}"""
    body = _rights(form)
    if span := form.text("expires_in"):
        body["expires_in"] = f"PT{max(1, span_ms_of(span) // 1000)}S"
    key_id, version = visit.parameter, form.text("version")
    await visit.send("PATCH", "keys", key_id, body=body, version=version)
    return Redirect(path_of("keys", key_id), Said("Changed, within a second."))


async def rotate_key(visit: Visit, form: Form) -> View:
    """POST /console/keys/{id}:rotate"""
    return await _rotate(visit, form, "rotate")


async def rotate_signing(visit: Visit, form: Form) -> View:
    """POST /console/keys/{id}:rotate-signing"""
    return await _rotate(visit, form, "rotate-signing")


async def drop_signing(visit: Visit, form: Form) -> Redirect:
    """POST /console/keys/{id}:drop-signing"""
    key_id = visit.parameter
    await visit.send("POST", "keys", key_id, verb="drop-signing")
    return Redirect(path_of("keys", key_id), Said("Nobody signs with it any more."))


async def revoke_key(visit: Visit, form: Form) -> Redirect:
    """POST /console/keys/{id}:revoke"""
    key_id = visit.parameter
    await visit.send("POST", "keys", key_id, verb="revoke")
    return Redirect(path_of("keys", key_id), Said("Revoked, for good.", "warn"))


async def _rotate(visit: Visit, form: Form, verb: str) -> View:
    keep = form.text("keep_old")
    body = {"keep_old_ms": span_ms_of(keep) if keep else _DAY_MS}
    answer = await visit.send("POST", "keys", visit.parameter, verb=verb, body=body)
    return key_view(visit, msgspec.json.decode(answer.content, type=Key))


def _rights(form: Form) -> dict[str, object]:
    found: dict[str, object] = {
        "description": form.text("description"),
        "view_payload": form.ticked("view_payload"),
    }
    if role := form.text("role"):
        found["role"] = role
    else:
        found["scopes"] = form.text("scopes").replace(",", " ").split()
    return found
