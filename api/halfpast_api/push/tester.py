"""Posts a made-up event to an endpoint, once, beside all deliveries."""

from dataclasses import replace

from halfpast_api.metadata.endpoint_settings import WEBHOOK, EndpointSettings
from halfpast_api.push.attempt import AttemptKind, AttemptState
from halfpast_api.push.call_result import CallResult, Result
from halfpast_api.push.courier_tools import CourierTools
from halfpast_api.push.deliverer import attempt_of
from halfpast_api.push.endpoint_name import split_stored
from halfpast_api.push.envelope import Message, render, signed, webhook_id
from halfpast_api.push.push_server import TestedEndpoint, TestEndpoint
from halfpast_api.push.sample_event import sample_message
from halfpast_api.push.validation import read_permission, request_headers


async def try_endpoint(tools: CourierTools, request: TestEndpoint) -> TestedEndpoint:
    """What came back. It counts in the metrics, and is among the attempts."""
    settings = EndpointSettings(
        url=request.url,
        mode=request.mode,
        secrets=tuple(request.secrets),
        timeout_ms=request.timeout_ms,
    )
    namespace, now_ms = split_stored(request.name)[0], tools.wall_ms()
    message = sample_message(namespace, request.topic, request.data, now_ms)
    body, plain = render(message, settings.mode)
    identity = webhook_id(message, request.name)
    headers = signed(settings.secrets, identity, tools.stamp_ms(), body, plain)
    found = await _ask_first(tools, settings)
    if found is None:
        url, timeout_ms = settings.url, settings.timeout_ms
        found = await tools.caller.call("POST", url, body, headers, timeout_ms)
    tools.tally.called(found)
    _note(tools, request.name, message, found)
    return TestedEndpoint(
        result=found.result.value,
        status=found.status,
        error=found.error,
        response=found.response,
        duration_ms=found.duration_ms,
        event_id=message.event_id,
        headers=headers,
        body=body,
    )


async def _ask_first(
    tools: CourierTools, settings: EndpointSettings
) -> CallResult | None:
    """The handshake where there must be one; what came of it unless it is granted."""
    if settings.mode == WEBHOOK:
        return None
    origin = tools.config.origin
    url, timeout_ms = settings.url, settings.timeout_ms
    headers = request_headers(origin, 0)
    found = await tools.caller.call("OPTIONS", url, None, headers, timeout_ms)
    permission = read_permission(found, origin)
    if permission.is_granted:
        return None
    return replace(found, result=Result.NOT_VALIDATED, error=permission.error)


def _note(tools: CourierTools, name: str, message: Message, found: CallResult) -> None:
    state = AttemptState.DELIVERED if found.is_delivered else AttemptState.DEAD
    number, now_ms = tools.recorder.number(), tools.wall_ms()
    kind = AttemptKind.TEST
    attempt = attempt_of(name, number, found, now_ms, kind=kind, state=state)
    tools.recorder.note(
        replace(attempt, event_id=message.event_id, topic=message.topic, attempt=1)
    )
