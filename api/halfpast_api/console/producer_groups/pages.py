"""Pages of producer groups: all that have settings, one with its policy for checks."""

from collections.abc import Sequence
from typing import Final

from halfpast_api.console.moment import span_text
from halfpast_api.console.pager import LIMIT, TOKEN, pager_of
from halfpast_api.console.producer_groups.reading import (
    ProducerGroup,
    ProducerGroupPage,
)
from halfpast_api.console.visit import View, Visit
from halfpast_api.metadata.settings import ProducerGroupSettings
from halfpast_api.problems import Refusal

PATH: Final = "/console/producer-groups"


async def show_producer_groups(visit: Visit) -> View:
    """GET /console/producer-groups"""
    query = visit.query(TOKEN)
    page = await visit.get(
        ProducerGroupPage, "producer-groups", limit=LIMIT, page_token=query.text(TOKEN)
    )
    pager = pager_of(PATH, query, page.next_page_token)
    values = {"groups": page.producer_groups, "pager": pager}
    return View("producer_groups/list.html", values)


async def show_producer_group(visit: Visit) -> View:
    """GET /console/producer-groups/{group}

    Also of one without settings: it has the defaults, and may be given some.
    """
    name = visit.parameter
    try:
        group = await visit.get(ProducerGroup, "producer-groups", name)
        is_known = True
    except Refusal as refusal:
        if refusal.code != "unknown_producer_group":
            raise
        group, is_known = _with_defaults(name), False
    return group_view(visit, group, is_known)


async def show_new_producer_group(visit: Visit) -> View:
    """GET /console/producer-groups:new"""
    return group_view(visit, _with_defaults(""), False)


def group_view(
    visit: Visit, group: ProducerGroup, is_known: bool, secrets: Sequence[str] = ()
) -> View:
    """`secrets`: those to be shown, this once."""
    values = {
        "group": group,
        "is_known": is_known,
        "secrets": secrets,
        "settings": visit.typed(_field_values(group)),
    }
    return View("producer_groups/one.html", values)


def _with_defaults(name: str) -> ProducerGroup:
    settings = ProducerGroupSettings()
    return ProducerGroup(
        name=name,
        check_secrets=0,
        check_after_ms=settings.check_after_ms,
        check_interval_ms=settings.check_interval_ms,
        check_max=settings.check_max,
        check_timeout_ms=settings.check_timeout_ms,
        check_concurrency_max=settings.check_concurrency_max,
    )


def _field_values(group: ProducerGroup) -> dict[str, object]:
    return {
        "name": group.name,
        "check_url": group.check_url,
        "check_after": span_text(group.check_after_ms),
        "check_interval": span_text(group.check_interval_ms),
        "check_max": group.check_max,
        "check_timeout": span_text(group.check_timeout_ms),
        "check_concurrency_max": group.check_concurrency_max,
        "description": group.description,
        "version": group.version or "",
    }
