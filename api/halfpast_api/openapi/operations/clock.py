"""The virtual clock."""

from halfpast_api.clock.clock_handlers import AdvanceBody, AdvancedView, ClockView
from halfpast_api.openapi import codes
from halfpast_api.openapi.operation import Example, Operation, Reply, Tag

TAG = Tag(
    "Clock",
    "For tests: a server that was started with `halfpast dev --clock virtual` goes by "
    "a clock that stands still until it is moved. All others answer "
    "`clock_not_virtual`.",
)

OPERATIONS = (
    Operation(
        method="GET",
        template="/v1/clock",
        name="showClock",
        tag=TAG.name,
        summary="What the virtual clock shows",
        replies={200: Reply("The time.", ClockView)},
        problems=("clock_not_virtual",),
        examples=(Example(text="What time is it?"),),
    ),
    Operation(
        method="POST",
        template="/v1/clock:advance",
        name="advanceClock",
        tag=TAG.name,
        summary="Move the virtual clock forward",
        text="It is answered when everything that became due on the way has been "
        "fired, stored and made visible, each at its own time and in due order: also "
        "recurring schedules, check-backs, retries, and messages that come back. "
        "Deliveries to endpoints are over by then too. Give `to` rather than `by` "
        "where the request may be repeated.",
        body=AdvanceBody,
        replies={200: Reply("What it shows now.", AdvancedView)},
        problems=(
            *codes.BODY,
            *codes.SERVICES,
            "invalid_time",
            "several_times",
            "clock_not_virtual",
            "clock_goes_forward",
            "clock_stuck",
        ),
        examples=(
            Example(text="Half an hour on", body={"by": "PT30M"}),
            Example(text="To a moment", body={"to": "2030-01-01T00:00:00Z"}),
        ),
    ),
)
