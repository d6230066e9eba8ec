"""Forms about producer groups."""

import msgspec

from halfpast_api.console.form import Form
from halfpast_api.console.moment import span_ms_of
from halfpast_api.console.page_names import path_of
from halfpast_api.console.producer_groups.pages import group_view
from halfpast_api.console.producer_groups.reading import ProducerGroup
from halfpast_api.console.said import Said
from halfpast_api.console.visit import Redirect, View, Visit
from halfpast_api.problems import Refusal

_SPANS = {
    "check_after": "check_after_ms",
    "check_interval": "check_interval_ms",
    "check_timeout": "check_timeout_ms",
}
_NUMBERS = ("check_max", "check_concurrency_max")


async def put_producer_group(visit: Visit, form: Form) -> Redirect | View:
    """POST /console/producer-groups

    A secret that is made by this is shown once.
    """
    name = form.text("name")
    if not name:
        raise Refusal("missing_field", "give the group a name")
    body: dict[str, object] = {"description": form.text("description")}
    if url := form.text("check_url"):
        body["check_url"] = url
    for field, key in _SPANS.items():
        if text := form.text(field):
            body[key] = span_ms_of(text)
    for field in _NUMBERS:
        if (number := form.number(field)) is not None:
            body[field] = number
    answer = await visit.send(
        "PUT", "producer-groups", name, body=body, version=form.text("version")
    )
    group = msgspec.json.decode(answer.content, type=ProducerGroup)
    if isinstance(group.check_secrets, list):
        secrets, group.check_secrets = group.check_secrets, len(group.check_secrets)
        return group_view(visit, group, is_known=True, secrets=secrets)
    return Redirect(path_of("producer-groups", name), Said("Saved."))


async def delete_producer_group(visit: Visit, form: Form) -> Redirect:
    """POST /console/producer-groups/{group}:delete"""
    name, version = visit.parameter, form.text("version")
    await visit.send("DELETE", "producer-groups", name, version=version)
    return Redirect("/console/producer-groups", Said(f"{name} has its defaults again."))
