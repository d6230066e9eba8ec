"""Problems as the API answers them: RFC 9457 and a stable `code` for programs.

`KINDS` is the whole list. Status, title and whether the same request may succeed
later belong to the code; `detail` tells what is wrong this time and what to do.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from halfpast_api.metadata.errors import MetadataError
from halfpast_core_store.errors import CoreError, IndexFailed, StoreFailed

TYPE_PREFIX: Final = "urn:halfpast:problem:"
PROBLEM_TYPE: Final = "application/problem+json"


class FieldProblem(msgspec.Struct, frozen=True):
    """One member of the request at fault; `pointer` is a JSON pointer (RFC 6901)."""

    pointer: str
    detail: str


class Problem(msgspec.Struct, omit_defaults=True):
    """The body of an error answer."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    retryable: bool
    request_id: str = ""
    errors: Sequence[FieldProblem] = ()
    outcome: str = ""
    state: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """What all problems of one code have in common."""

    status: int
    title: str
    retryable: bool = False


KINDS: Final[dict[str, Kind]] = {
    # the request as such
    "malformed_http": Kind(400, "Not an HTTP request"),
    "malformed_json": Kind(400, "The body is not JSON"),
    "malformed_msgpack": Kind(400, "The body is not MessagePack"),
    "malformed_body": Kind(400, "The body cannot be read"),
    "malformed_path": Kind(400, "The path cannot be read"),
    "unknown_route": Kind(404, "No such resource"),
    "method_not_allowed": Kind(405, "This resource has no such method"),
    "unauthenticated": Kind(401, "Who are you?"),
    "key_expired": Kind(401, "The key has expired"),
    "forbidden": Kind(403, "Not allowed"),
    "namespace_suspended": Kind(403, "The namespace is suspended"),
    "csrf": Kind(403, "The token of the session is missing"),
    "cross_site": Kind(403, "This comes from another web site"),
    "forbidden_host": Kind(403, "This is not the name of this server"),
    "request_timeout": Kind(408, "The request did not arrive in time", True),
    "body_too_large": Kind(413, "The body is too large"),
    "request_too_large": Kind(413, "The request is too large"),
    "frame_too_large": Kind(413, "The request is too large"),
    "unsupported_media_type": Kind(415, "This content type is not understood"),
    "expectation_failed": Kind(417, "This Expect header is not understood"),
    # what it says
    "invalid_request": Kind(422, "The request is not valid"),
    "unknown_field": Kind(422, "A field is not known"),
    "missing_field": Kind(422, "A field is missing"),
    "duplicate_key": Kind(422, "A key is given twice"),
    "too_deep": Kind(422, "The data is nested too deeply"),
    "too_many_events": Kind(422, "Too many events in one batch"),
    "event_too_large": Kind(413, "The event is too large"),
    "no_messages": Kind(422, "A transaction without messages"),
    "too_many_messages": Kind(422, "Too many messages in one transaction"),
    "too_many_transactions": Kind(422, "Too many transactions in one request"),
    "transaction_too_large": Kind(413, "The transaction is too large"),
    "invalid_check_policy": Kind(422, "Not a policy for check-backs"),
    "invalid_reference": Kind(422, "The reference is not valid"),
    "invalid_transaction_id": Kind(422, "Not the id of a transaction"),
    "reason_required": Kind(422, "A reason is missing"),
    "malformed_answer": Kind(422, "Not an answer to a check-back"),
    "invalid_data": Kind(422, "The data cannot be stored"),
    "invalid_key": Kind(422, "The key is not valid"),
    "invalid_tag": Kind(422, "The tag is not valid"),
    "invalid_properties": Kind(422, "The properties are not valid"),
    "invalid_time": Kind(422, "The time is not valid"),
    "several_times": Kind(422, "More than one time is given"),
    "delay_too_long": Kind(422, "The time is too far away"),
    "invalid_topic": Kind(422, "Not the name of a topic"),
    "invalid_group": Kind(422, "Not the name of a group"),
    "invalid_producer_group": Kind(422, "Not the name of a producer group"),
    "reserved_topic": Kind(422, "This topic is kept by the suite itself"),
    "reserved_group": Kind(422, "This group is kept by the suite itself"),
    "invalid_event_id": Kind(422, "Not the id of an event"),
    "invalid_parameter": Kind(422, "A query parameter is not valid"),
    "invalid_page_token": Kind(422, "Not a page token"),
    "invalid_version": Kind(422, "Not the version of an event"),
    "invalid_settings": Kind(422, "The settings are not valid"),
    "invalid_endpoint": Kind(422, "Not a URL for check-backs"),
    "forbidden_endpoint": Kind(422, "Check-backs may not go to this address"),
    "invalid_secret": Kind(422, "Not a secret that can sign calls"),
    "invalid_endpoint_name": Kind(422, "Not the name of an endpoint"),
    "invalid_url": Kind(422, "Not a URL to push to"),
    "forbidden_url": Kind(422, "Deliveries may not go to this address"),
    "producer_group_required": Kind(422, "This producer group has no settings"),
    "invalid_idempotency_key": Kind(422, "Not an idempotency key"),
    "invalid_filter": Kind(422, "The filter cannot be read"),
    "filter_required": Kind(422, "It is not said which events are meant"),
    "invalid_operation_id": Kind(422, "Not the id of an operation"),
    "invalid_schedule": Kind(422, "Such a schedule cannot be meant"),
    "invalid_cron": Kind(422, "Not a cron expression"),
    "unknown_time_zone": Kind(422, "Not a time zone"),
    "never_occurs": Kind(422, "It would never occur"),
    "invalid_schedule_id": Kind(422, "Not the id of a schedule"),
    "idempotency_key_reused": Kind(422, "The idempotency key was used before"),
    "malformed_receipt": Kind(422, "Not a receipt"),
    "receipt_of_another_group": Kind(422, "The receipt belongs to another group"),
    "name_too_long": Kind(422, "The name is too long for its namespace"),
    "invalid_scope": Kind(422, "Not a scope"),
    "invalid_subject": Kind(422, "Not somebody who can be limited"),
    "offset_out_of_range": Kind(422, "The queue does not hold this offset"),
    "queues_shrink": Kind(422, "A topic cannot have fewer queues than before"),
    # the state of things
    "unknown_event": Kind(404, "No such event"),
    "unknown_operation": Kind(404, "No such operation"),
    "operation_ended": Kind(409, "The operation has ended"),
    "too_many_operations": Kind(429, "Too many operations are running", True),
    "unknown_schedule": Kind(404, "No such schedule"),
    "schedule_ended": Kind(409, "The schedule has ended"),
    "event_dead": Kind(409, "The event is a dead letter"),
    "event_not_dead": Kind(409, "The event is not a dead letter"),
    "topic_closed": Kind(409, "The topic takes no events"),
    "too_many_pending": Kind(429, "Too many events are pending", True),
    "rate_limited": Kind(429, "Too many requests", True),
    "bytes_limited": Kind(429, "Too many bytes", True),
    "unknown_topic": Kind(404, "No such topic"),
    "unknown_queue": Kind(404, "No such queue"),
    "unknown_group": Kind(404, "No such group"),
    "unknown_producer_group": Kind(404, "No such producer group"),
    "unknown_endpoint": Kind(404, "No such endpoint"),
    "unknown_transaction": Kind(404, "No such transaction"),
    "transaction_conflict": Kind(409, "The transaction has another outcome"),
    "transaction_parked": Kind(409, "The transaction waits for an operator"),
    "wrong_producer_group": Kind(409, "Another producer group's transaction"),
    "messages_out_of_order": Kind(409, "Messages before these are missing"),
    "event_in_transaction": Kind(409, "The event's transaction is still open"),
    "unknown_key": Kind(404, "No such key"),
    "key_revoked": Kind(409, "The key is revoked"),
    "unknown_namespace": Kind(404, "No such namespace"),
    "no_limits": Kind(404, "No limits"),
    "namespace_in_use": Kind(409, "The namespace is in use"),
    "topic_exists": Kind(409, "The topic exists already"),
    "already_delivered": Kind(409, "The event has been delivered"),
    "already_cancelled": Kind(409, "The event has been cancelled"),
    "clock_not_virtual": Kind(409, "The clock is the machine's"),
    "clock_goes_forward": Kind(409, "Clocks do not go back"),
    "receipt_expired": Kind(409, "The receipt has expired"),
    "stale_version": Kind(412, "Changed since you last looked"),
    # the server
    "too_many_connections": Kind(503, "Too many connections", True),
    "overloaded": Kind(503, "The server is overloaded", True),
    "not_ready": Kind(503, "Not ready", True),
    "unavailable": Kind(503, "A service is away", True),
    "connection_lost": Kind(503, "The outcome is unknown", True),
    "metadata_unavailable": Kind(503, "The metadata database is away", True),
    "store_failed": Kind(503, "The store is restarting", True),
    "fence_lost": Kind(503, "Another instance took over", True),
    "clock_stuck": Kind(503, "What is due now takes too long", True),
    "store_full": Kind(507, "The store is full", True),
    "corrupt_log": Kind(500, "The log is damaged here"),
    "internal": Kind(500, "Something unexpected happened"),
}

_UNKNOWN_OUTCOME: Final = (
    "; whether the request took effect is unknown: look first, or repeat it with the "
    "same Idempotency-Key"
)
_ADVICE: Final = {
    "store_full": "; nothing was stored: free space on the server, then repeat",
    "request_too_large": "; send it in several smaller requests",
    "frame_too_large": "; send it, or ask for it, in smaller pieces",
    "idempotency_key_reused": "",
    "already_delivered": "; publish a new event instead",
    "already_cancelled": "; publish a new event instead",
    "stale_version": "; read it again and decide anew",
    "offset_out_of_range": "; begin within that range",
    "overloaded": ", nothing was stored",
    "unavailable": "; nothing was done: repeat it after a moment",
    "metadata_unavailable": "; events still flow: repeat this after a moment",
    "store_failed": _UNKNOWN_OUTCOME,
    "fence_lost": _UNKNOWN_OUTCOME,
    "unknown_event": "; check the id, it may also have been forgotten after its time",
    "unknown_operation": "; check the id, it may also have been forgotten after its "
    "time",
    "operation_ended": "; what it has changed stays so",
    "too_many_operations": "; wait until one has ended, or stop one with POST "
    "/v1/operations/{id}:cancel",
    "unknown_schedule": "; check the id, it may also have ended long ago",
    "schedule_ended": "; make a new one",
    "event_dead": "; POST /v1/events/{id}:redrive to have it tried again, or DELETE it",
    "event_not_dead": "; to have it at once, POST /v1/events/{id}:deliver-now",
    "too_many_pending": ", nothing was stored: repeat it when some are delivered, or "
    "have max_pending raised, in the settings of the topic or yours (GET /v1/limits)",
    "unknown_transaction": "; check the id, which ends in 0000; it may also have been "
    "forgotten after its time",
    "transaction_conflict": ", which does not change any more; act by that",
    "transaction_parked": "; an operator resumes the check-backs with POST "
    "/v1/transactions/{id}:resume or gives the outcome with :force",
    "wrong_producer_group": "; a producer of that group must answer",
    "messages_out_of_order": "; give as first_index how many were sent before",
    "too_many_messages": "; begin another transaction for the rest",
}
_RETRY_AFTER_S: Final = 1
_WITH_FIELD: Final = frozenset(
    {
        "invalid_settings",
        "invalid_schedule",
        "invalid_cron",
        "unknown_time_zone",
        "never_occurs",
        "invalid_filter",
    }
)
_SERVICES_SAY: Final = KINDS.keys() - {"internal"}


class Refusal(Exception):
    """A request that is refused, with all that its answer says.

    `closes`: the connection cannot be used any further.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        errors: Sequence[FieldProblem] = (),
        *,
        outcome: str = "",
        state: str = "",
        headers: Sequence[tuple[str, str]] = (),
        closes: bool = False,
    ) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail
        self.errors = errors
        self.outcome = outcome
        self.state = state
        self.headers = headers
        self.closes = closes

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"

    def under(self, prefix: str) -> "Refusal":
        """The same, where `prefix` points to what was refused."""
        errors = [FieldProblem(prefix + e.pointer, e.detail) for e in self.errors]
        return Refusal(
            self.code, self.detail, errors, outcome=self.outcome, state=self.state
        )


def refuse_field(code: str, pointer: str, detail: str) -> Refusal:
    """A Refusal for one member of the request."""
    return Refusal(code, f"{detail} (at {pointer})", [FieldProblem(pointer, detail)])


def as_refusal(error: Exception) -> Refusal | None:
    """What was raised on purpose, as a Refusal; None for anything else."""
    if isinstance(error, Refusal):
        return error
    code = getattr(error, "code", "")
    if isinstance(error, CoreError | MetadataError) and code in _SERVICES_SAY:
        field = getattr(error, "field", None)
        if code in _WITH_FIELD and isinstance(field, str):
            return Refusal(code, str(error), [FieldProblem(f"/{field}", str(error))])
        state = getattr(error, "state", "")
        wait_ms = getattr(error, "retry_after_ms", _RETRY_AFTER_S * 1000)
        return refusal_of(code, str(error), state=state, retry_after_ms=wait_ms)
    if isinstance(error, IndexFailed):
        return refusal_of(StoreFailed.code, str(error))
    if isinstance(error, ConnectionError | TimeoutError):
        detail = f"a service behind the API does not answer ({error!r})"
        headers = [("Retry-After", str(_RETRY_AFTER_S))]
        return Refusal("connection_lost", detail + _UNKNOWN_OUTCOME, headers=headers)
    return None


def refusal_of(
    code: str,
    detail: str,
    *,
    state: str = "",
    retry_after_ms: int = _RETRY_AFTER_S * 1000,
) -> Refusal:
    """What a service has refused with this code, and what to do now."""
    if code not in _SERVICES_SAY:
        code = "internal"
    headers: list[tuple[str, str]] = []
    if KINDS[code].status in (429, 503):
        headers.append(("Retry-After", str(max(1, math.ceil(retry_after_ms / 1000)))))
    return Refusal(code, detail + _ADVICE.get(code, ""), state=state, headers=headers)


def problem_of(refusal: Refusal, request_id: str = "") -> Problem:
    """The body that tells of a Refusal."""
    kind = KINDS[refusal.code]
    return Problem(
        type=TYPE_PREFIX + refusal.code,
        title=kind.title,
        status=kind.status,
        detail=refusal.detail,
        code=refusal.code,
        retryable=kind.retryable,
        request_id=request_id,
        errors=refusal.errors,
        outcome=refusal.outcome,
        state=refusal.state,
    )
