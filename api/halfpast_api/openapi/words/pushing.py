"""Endpoints, attempts, and dead letters of those who consume."""

from typing import Final

from halfpast_api.metadata.endpoint_settings import (
    ATTEMPTS_MAX,
    CONCURRENCY_MAX,
    RATE_MAX,
    RETRY_MS_MAX,
    RETRY_MS_MIN,
    SECRETS_MAX,
    TIMEOUT_MS_MAX,
    TIMEOUT_MS_MIN,
    TOPICS_MAX,
    URL_CHARS_MAX,
)
from halfpast_api.openapi import samples
from halfpast_api.openapi.words.word import Word, Words, id_word, instant, number

_SECRET: Final = {"type": "string", "pattern": "^whsec_[A-Za-z0-9+/]{32,86}=*$"}
_URL: Final = "https://crm.example.com/hooks/halfpast"

PUSHING: Final[Words] = {
    "endpoint": Word("The endpoint.", "crm"),
    "endpoints": Word("The endpoints."),
    "url": Word("Where to post.", _URL),
    "EndpointBody.url": Word(
        "Where to post.", _URL, given={"maxLength": URL_CHARS_MAX}
    ),
    "EndpointBody.topics": Word(
        "Names of topics, or patterns with `*`.",
        ["orders", "payments-*"],
        given={"minItems": 1, "maxItems": TOPICS_MAX},
    ),
    "EndpointView.topics": Word("Names and patterns of topics.", ["orders"]),
    "EndpointBody.filter": Word("Which messages; all, if there is none."),
    "EndpointView.filter": Word("Which messages; all, if there is none."),
    "tags": Word("One of these tags, if there are any.", ["paid"]),
    "EventFilter.properties": Word(
        "For each property one of its values.", {"region": ["eu", "us"]}
    ),
    "mode": Word("How it is written.", "webhook"),
    "ordering": Word(
        "`per_key`: a message waits until all earlier ones of its key are done.",
        "parallel",
    ),
    "secrets": Word("How many secrets sign; in one answer the new one itself.", 1),
    "EndpointBody.secrets": Word(
        "What calls are signed with, the newest first.",
        ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
        given={"minItems": 1, "maxItems": SECRETS_MAX, "items": _SECRET},
    ),
    "rate_per_s": Word("No more than so many a second; 0 is no limit.", 10.0),
    "EndpointBody.rate_per_s": Word(
        "No more than so many a second, also less than one; 0 is no limit.",
        10.0,
        given={"minimum": 0, "maximum": RATE_MAX},
    ),
    "concurrency": number("How many calls at once.", 10, 1, CONCURRENCY_MAX),
    "timeout_ms": number(
        "How long a call may take.", 15_000, TIMEOUT_MS_MIN, TIMEOUT_MS_MAX
    ),
    "retry": Word("When failed deliveries are tried again."),
    "RetryBody.max_attempts": number(
        "After so many it is a dead letter.", 16, 1, ATTEMPTS_MAX
    ),
    "initial_ms": number(
        "After the first failure; then twice as long each time.",
        5000,
        RETRY_MS_MIN,
        RETRY_MS_MAX,
    ),
    "max_ms": number("No longer than this.", 14_400_000, RETRY_MS_MIN, RETRY_MS_MAX),
    "start": Word(
        "`latest`: messages from now on; `earliest`: all there are.", "latest"
    ),
    "EndpointView.state": Word("`enabled`, `paused` or `disabled`.", "enabled"),
    "EndpointView.reason": Word("Why it is not enabled.", ""),
    "ReasonBody.reason": Word("Why; shown with the endpoint.", "release at noon"),
    "now": Word("How it stands; null in lists, and while its process is away."),
    "circuit": Word("`closed`, `half_open` or `open`.", "closed"),
    "held_back_until": instant("Nothing is posted before."),
    "NowView.in_flight": Word("Calls that wait for their answer.", 0),
    "waiting": Word("Messages that wait for their turn.", 0),
    "NowView.delivered": Word("How many were delivered.", 1801),
    "failed": Word("How many attempts failed.", 4),
    "last_delivered_at": instant("The latest delivery."),
    "last_failed_at": instant("The latest failure."),
    "last_error": Word("What it was.", ""),
    "secret": Word("What signs; shown this once."),
    "RotateBody.secret": Word("The new one; made by the server if left out."),
    "finish": Word("From now on the newest alone signs.", True),
    "RotatedView.secrets": Word("How many sign.", 2),
    "TestView.delivered": Word("Whether it was taken.", True),
    "TestView.status": Word("The HTTP status; null where there was no answer.", 204),
    "AttemptView.status": Word("The HTTP status; null where there was no answer.", 503),
    "result": Word("What came of it.", "delivered"),
    "error": Word("What went wrong; empty if nothing did.", ""),
    "response": Word("How the answer began.", ""),
    "duration_ms": Word("How long it took.", 18),
    "event_id": id_word("The event.", samples.EVENT),
    "request": Word("What was posted."),
    "headers": Word("Its headers.", {"webhook-id": f"{samples.EVENT}_crm"}),
    "body": Word("Its body, as text.", "{}"),
    "attempts": Word("How often it was tried.", 3),
    "AttemptPageView.attempts": Word("The attempts."),
    "AttemptView.id": Word("Its id.", "0000019a9f0c3c80"),
    "AttemptView.state": Word("`delivered`, `retrying`, `dead` or `held`.", "retrying"),
    "kind": Word("`delivery`, `test` or `validation`.", "delivery"),
    "number": Word("Its place among the dead letters of the group.", 12),
    "counts": Word("Who has any."),
    "DeadCountView.dead_letters": Word("How many.", 12),
    "DeadMessagePageView.dead_letters": Word("The messages."),
    "DeadMessageView.source": Word("`group` or `endpoint`.", "group"),
    "DeadCountView.source": Word("`group` or `endpoint`.", "group"),
    "DeadMessageView.state": Word("Always `dead`.", "dead"),
    "DeadLettersBody.source": Word("Who did not take them.", "group"),
    "FilterView.properties": Word("For each its values.", {"region": ["eu", "us"]}),
    "FilterView.source": Word("Who did not take them.", "group"),
    "ids": Word("These ones.", [samples.EVENT]),
    "dead_after": instant("Dead since this moment or later."),
    "dead_before": instant("Dead since before this moment."),
    "gone": Word("Dead letters that could not be had any more.", 0),
    "event": Word("What is known of it beside its data."),
    "WebhookBody.type": Word("The topic.", "reminders"),
    "WebhookBody.timestamp": instant("When the topic got it."),
    "WebhookBody.data": Word("Its data, if that is JSON.", {"order": 17}),
    "push": Word("`ok`, or what is the matter with deliveries.", "ok"),
}
