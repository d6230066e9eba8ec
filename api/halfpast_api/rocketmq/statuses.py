"""How a call went, as a Status.

What is refused carries a code of the API (`halfpast_api.problems`); this maps those to
the codes that clients know. A code that a client does not know is an error to it, and
one of few is a success: `MESSAGE_NOT_FOUND` is, to some of them whatever they have
called, so only a receive is answered with it.
"""

from collections.abc import Mapping
from typing import Final

from halfpast_api.problems import KINDS, Refusal, as_refusal
from halfpast_api.rocketmq.protocol import Code, Status

OK: Final = Status(code=Code.OK, message="OK")

_BY_CODE: Final[Mapping[str, "Code"]] = {
    "invalid_topic": Code.ILLEGAL_TOPIC,
    "reserved_topic": Code.ILLEGAL_TOPIC,
    "name_too_long": Code.ILLEGAL_TOPIC,
    "unknown_topic": Code.TOPIC_NOT_FOUND,
    "unknown_namespace": Code.NOT_FOUND,
    "topic_closed": Code.FORBIDDEN,
    "invalid_group": Code.ILLEGAL_CONSUMER_GROUP,
    "reserved_group": Code.ILLEGAL_CONSUMER_GROUP,
    "unknown_group": Code.CONSUMER_GROUP_NOT_FOUND,
    "invalid_filter": Code.ILLEGAL_FILTER_EXPRESSION,
    "invalid_tag": Code.ILLEGAL_MESSAGE_TAG,
    "invalid_key": Code.ILLEGAL_MESSAGE_KEY,
    "invalid_properties": Code.MESSAGE_PROPERTIES_TOO_LARGE,
    "event_too_large": Code.MESSAGE_BODY_TOO_LARGE,
    "invalid_time": Code.ILLEGAL_DELIVERY_TIME,
    "delay_too_long": Code.ILLEGAL_DELIVERY_TIME,
    "idempotency_key_reused": Code.ILLEGAL_MESSAGE_ID,
    "malformed_receipt": Code.INVALID_RECEIPT_HANDLE,
    "receipt_of_another_group": Code.INVALID_RECEIPT_HANDLE,
    "receipt_expired": Code.INVALID_RECEIPT_HANDLE,
    "unknown_transaction": Code.INVALID_TRANSACTION_ID,
    "invalid_transaction_id": Code.INVALID_TRANSACTION_ID,
    "unknown_event": Code.NOT_FOUND,
    "offset_out_of_range": Code.ILLEGAL_OFFSET,
    "overloaded": Code.TOO_MANY_REQUESTS,  # nothing was stored: come again, later
    "unavailable": Code.HA_NOT_AVAILABLE,
    "metadata_unavailable": Code.HA_NOT_AVAILABLE,
    "not_ready": Code.HA_NOT_AVAILABLE,
    "connection_lost": Code.PROXY_TIMEOUT,  # whether it took effect is unknown
    "store_failed": Code.MASTER_PERSISTENCE_TIMEOUT,
    "fence_lost": Code.MASTER_PERSISTENCE_TIMEOUT,
    "store_full": Code.INTERNAL_ERROR,
}
_BY_HTTP: Final[Mapping[int, "Code"]] = {
    401: Code.UNAUTHORIZED,
    403: Code.FORBIDDEN,
    404: Code.NOT_FOUND,
    408: Code.REQUEST_TIMEOUT,
    413: Code.PAYLOAD_TOO_LARGE,
    429: Code.TOO_MANY_REQUESTS,
    501: Code.NOT_IMPLEMENTED,
}


class CallRefused(Exception):
    """A call that is refused for what only RocketMQ's protocol knows."""

    def __init__(self, code: "Code", detail: str) -> None:
        super().__init__(code, detail)
        self.code: Final = code
        self.detail: Final = detail

    def __str__(self) -> str:
        return f"{Code.Name(self.code)}: {self.detail}"


def code_of(refusal: Refusal) -> "Code":
    """The code for something that the API refuses."""
    code = _BY_CODE.get(refusal.code)
    if code is not None:
        return code
    status = KINDS[refusal.code].status
    if status in _BY_HTTP:
        return _BY_HTTP[status]
    return Code.BAD_REQUEST if status < 500 else Code.INTERNAL_SERVER_ERROR


def known_status(error: Exception) -> Status | None:
    """What was raised on purpose, as a status; None for anything else."""
    if isinstance(error, CallRefused):
        return Status(code=error.code, message=error.detail)
    refusal = as_refusal(error)
    if refusal is None:
        return None
    return Status(code=code_of(refusal), message=refusal.detail)


def status_of(error: Exception, request_id: str = "") -> Status:
    """Any error, as a status."""
    known = known_status(error)
    if known is not None:
        return known
    detail = (
        "the server met an error that it did not expect; whether the call took effect "
        "is unknown"
    )
    if request_id:
        detail += f". Its log has it under the request {request_id}"
    return Status(code=Code.INTERNAL_SERVER_ERROR, message=detail)
