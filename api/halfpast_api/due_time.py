"""When an event is due, from what a request says and when it was accepted."""

from halfpast_api.problems import Refusal, refuse_field
from halfpast_api.times import BadTime, due_ms_of, parse_duration, parse_instant

TIME_FIELDS = ("deliver_at", "delay", "delay_ms")
_DAY_MS = 86_400_000


def due_ms(
    deliver_at: str | None,
    delay: str | None,
    delay_ms: int | None,
    accepted_ns: int,
    max_delay_ms: int,
) -> int:
    """Epoch ms, rounded up; 0 if no time is given. What is past is due at once.

    Delays count from the moment of acceptance, by our clock. Raises Refusal.
    """
    given = (deliver_at is not None) + (delay is not None) + (delay_ms is not None)
    if given == 0:
        return 0
    if given > 1:
        raise several_times(deliver_at, delay, delay_ms)
    now_ms = due_ms_of(accepted_ns)
    if delay_ms is not None:
        field, due = "delay_ms", now_ms + delay_ms
        if delay_ms < 0:
            raise refuse_field(
                "invalid_time",
                "/delay_ms",
                f"{delay_ms} is negative; a delay counts forward, from now",
            )
    elif delay is not None:
        field, due = "delay", due_ms_of(accepted_ns + _read_duration(delay))
    else:
        assert deliver_at is not None
        field, due = "deliver_at", max(now_ms, _read_instant(deliver_at))
    if due - now_ms > max_delay_ms:
        raise refuse_field(
            "delay_too_long",
            f"/{field}",
            f"this is {_days(due - now_ms)} ahead, and max_delay_ms is "
            f"{max_delay_ms} ({_days(max_delay_ms)}); give a nearer time, or have the "
            "limit raised, in the settings of the topic or yours (GET /v1/limits)",
        )
    return due


def several_times(
    deliver_at: str | None, delay: str | None, delay_ms: int | None
) -> Refusal:
    """The Refusal for a request that gives more than one time."""
    values = (deliver_at, delay, delay_ms)
    given = [
        name for name, it in zip(TIME_FIELDS, values, strict=True) if it is not None
    ]
    return refuse_field(
        "several_times", f"/{given[1]}", f"give only one of {' and '.join(given)}"
    )


def _read_duration(text: str) -> int:
    try:
        return parse_duration(text)
    except BadTime as error:
        raise refuse_field("invalid_time", "/delay", str(error)) from None


def _read_instant(text: str) -> int:
    try:
        return parse_instant(text)
    except BadTime as error:
        raise refuse_field("invalid_time", "/deliver_at", str(error)) from None


def _days(ms: int) -> str:
    return f"{ms / _DAY_MS:.6g} days"
