"""Which page is where."""

from collections.abc import Iterable

from halfpast_api.console.dead_letters import forms as dead_letter_forms
from halfpast_api.console.dead_letters import pages as dead_letters
from halfpast_api.console.endpoints import forms as endpoint_forms
from halfpast_api.console.endpoints import pages as endpoints
from halfpast_api.console.events import forms as event_forms
from halfpast_api.console.events import pages as events
from halfpast_api.console.groups import forms as group_forms
from halfpast_api.console.groups import pages as groups
from halfpast_api.console.keys import forms as key_forms
from halfpast_api.console.keys import pages as keys
from halfpast_api.console.keys import trail
from halfpast_api.console.limits import forms as limit_forms
from halfpast_api.console.limits import pages as limits
from halfpast_api.console.operations import forms as operation_forms
from halfpast_api.console.operations import pages as operations
from halfpast_api.console.producer_groups import forms as producer_group_forms
from halfpast_api.console.producer_groups import pages as producer_groups
from halfpast_api.console.schedules import forms as schedule_forms
from halfpast_api.console.schedules import pages as schedules
from halfpast_api.console.shelf import Shelf
from halfpast_api.console.topics import forms as topic_forms
from halfpast_api.console.topics import pages as topics
from halfpast_api.console.transactions import forms as transaction_forms
from halfpast_api.console.transactions import pages as transactions
from halfpast_api.router import Route


def page_routes(shelf: Shelf) -> Iterable[Route]:
    """Pages and forms that need nothing but the API."""
    yield from _event_routes(shelf)
    yield from _operation_routes(shelf)
    yield from _topic_routes(shelf)
    yield from _schedule_routes(shelf)
    yield from _transaction_routes(shelf)
    yield from _group_routes(shelf)
    yield from _endpoint_routes(shelf)
    yield from _access_routes(shelf)


def _event_routes(shelf: Shelf) -> Iterable[Route]:
    all_, one = events.PATH, events.PATH + "/{id}"
    show = events.show_event
    yield shelf.page(all_, events.show_events)
    yield shelf.page(f"{all_}:new", events.show_new_event)
    yield shelf.form(
        all_, event_forms.publish_event, events.show_new_event, is_large=True
    )
    yield shelf.form(f"{all_}:ticked", event_forms.change_ticked, events.show_events)
    yield shelf.page(f"{all_}:bulk", operations.show_bulk)
    yield shelf.form(f"{all_}:bulk", operation_forms.begin_bulk, operations.show_bulk)
    yield shelf.page(one, show)
    yield shelf.page(f"{one}/payload", events.download_payload)
    yield shelf.form(f"{one}:cancel", event_forms.cancel_event, show)
    yield shelf.form(f"{one}:reschedule", event_forms.reschedule_event, show)
    yield shelf.form(f"{one}:deliver-now", event_forms.deliver_event_now, show)
    yield shelf.form(f"{one}:redrive", event_forms.redrive_event, show)


def _operation_routes(shelf: Shelf) -> Iterable[Route]:
    running, letters = operations.PATH, dead_letters.PATH
    one = f"{running}/{{id}}"
    yield shelf.page(running, operations.show_operations)
    yield shelf.page(one, operations.show_operation)
    yield shelf.form(
        f"{one}:cancel", operation_forms.stop_operation, operations.show_operation
    )
    yield shelf.page(letters, dead_letters.show_dead_letters)
    yield shelf.form(
        f"{letters}:settle",
        dead_letter_forms.settle_dead_letters,
        dead_letters.show_dead_letters,
    )


def _topic_routes(shelf: Shelf) -> Iterable[Route]:
    all_, one = topics.PATH, topics.PATH + "/{topic}"
    yield shelf.page(all_, topics.show_topics)
    yield shelf.page(f"{all_}:new", topics.show_new_topic)
    yield shelf.form(all_, topic_forms.create_topic, topics.show_new_topic)
    yield shelf.page(one, topics.show_topic)
    yield shelf.form(one, topic_forms.change_topic, topics.show_topic)
    yield shelf.form(f"{one}:pause", topic_forms.pause_topic, topics.show_topic)
    yield shelf.form(f"{one}:resume", topic_forms.resume_topic, topics.show_topic)


def _schedule_routes(shelf: Shelf) -> Iterable[Route]:
    all_, one = schedules.PATH, schedules.PATH + "/{id}"
    show, change = schedules.show_schedule, schedules.show_schedule_change
    yield shelf.page(all_, schedules.show_schedules)
    yield shelf.page(f"{all_}:new", schedules.show_new_schedule)
    yield shelf.form(
        all_,
        schedule_forms.create_schedule,
        schedules.show_new_schedule,
        is_large=True,
    )
    yield shelf.page(one, show)
    yield shelf.page(f"{one}:change", change)
    yield shelf.form(
        f"{one}:change", schedule_forms.change_schedule, change, is_large=True
    )
    yield shelf.form(f"{one}:pause", schedule_forms.pause_schedule, show)
    yield shelf.form(f"{one}:resume", schedule_forms.resume_schedule, show)
    yield shelf.form(f"{one}:delete", schedule_forms.delete_schedule, show)


def _transaction_routes(shelf: Shelf) -> Iterable[Route]:
    all_, one = transactions.PATH, transactions.PATH + "/{id}"
    show = transactions.show_transaction
    yield shelf.page(all_, transactions.show_transactions)
    yield shelf.page(one, show)
    yield shelf.form(f"{one}:resume", transaction_forms.resume_transaction, show)
    yield shelf.form(f"{one}:force", transaction_forms.force_transaction, show)


def _group_routes(shelf: Shelf) -> Iterable[Route]:
    all_, one = groups.PATH, groups.PATH + "/{group}"
    yield shelf.page(all_, groups.show_groups)
    yield shelf.page(one, groups.show_group)
    yield shelf.form(one, group_forms.change_group, groups.show_group)
    yield shelf.form(f"{one}:offsets", group_forms.reset_offsets, groups.show_group)
    all_, one = producer_groups.PATH, producer_groups.PATH + "/{group}"
    new = producer_groups.show_new_producer_group
    yield shelf.page(all_, producer_groups.show_producer_groups)
    yield shelf.page(f"{all_}:new", new)
    yield shelf.form(all_, producer_group_forms.put_producer_group, new)
    yield shelf.page(one, producer_groups.show_producer_group)
    yield shelf.form(
        f"{one}:delete",
        producer_group_forms.delete_producer_group,
        producer_groups.show_producer_group,
    )


def _endpoint_routes(shelf: Shelf) -> Iterable[Route]:
    all_, one = endpoints.PATH, endpoints.PATH + "/{name}"
    show, new = endpoints.show_endpoint, endpoints.show_new_endpoint
    yield shelf.page(all_, endpoints.show_endpoints)
    yield shelf.page(f"{all_}:new", new)
    yield shelf.form(all_, endpoint_forms.create_endpoint, new)
    yield shelf.page(one, show)
    for path, act in (
        (one, endpoint_forms.change_endpoint),
        (f"{one}:pause", endpoint_forms.pause_endpoint),
        (f"{one}:resume", endpoint_forms.resume_endpoint),
        (f"{one}:enable", endpoint_forms.enable_endpoint),
        (f"{one}:rotate-secret", endpoint_forms.rotate_endpoint_secret),
        (f"{one}:test", endpoint_forms.test_endpoint),
        (f"{one}:delete", endpoint_forms.delete_endpoint),
    ):
        yield shelf.form(path, act, show)


def _access_routes(shelf: Shelf) -> Iterable[Route]:
    all_, one = keys.PATH, keys.PATH + "/{id}"
    yield shelf.page(all_, keys.show_keys)
    yield shelf.page(f"{all_}:new", keys.show_new_key)
    yield shelf.form(all_, key_forms.create_key, keys.show_new_key)
    yield shelf.page(one, keys.show_key)
    yield shelf.form(one, key_forms.change_key, keys.show_key)
    yield shelf.form(f"{one}:rotate", key_forms.rotate_key, keys.show_key)
    yield shelf.form(f"{one}:revoke", key_forms.revoke_key, keys.show_key)
    yield shelf.form(f"{one}:rotate-signing", key_forms.rotate_signing, keys.show_key)
    yield shelf.form(f"{one}:drop-signing", key_forms.drop_signing, keys.show_key)
    all_, one = limits.PATH, limits.PATH + "/{subject}"
    yield shelf.page(all_, limits.show_limits)
    yield shelf.form(all_, limit_forms.create_limits, limits.show_limits)
    yield shelf.page(one, limits.show_limits_of)
    yield shelf.form(one, limit_forms.change_limits, limits.show_limits_of)
    yield shelf.form(f"{one}:clear", limit_forms.clear_limits, limits.show_limits_of)
    yield shelf.page(trail.TRAIL, trail.show_trail)
    spaces = trail.NAMESPACES
    yield shelf.page(spaces, trail.show_namespaces)
    yield shelf.form(spaces, trail.put_namespace, trail.show_namespaces)
    yield shelf.form(
        f"{spaces}/{{name}}:delete", trail.delete_namespace, trail.show_namespaces
    )
