"""For whoever runs the server."""

from halfpast_api.exposition import CONTENT_TYPE
from halfpast_api.health import AliveView, ReadyView
from halfpast_api.openapi.operation import Example, Operation, Reply, Tag

TAG = Tag("Server", "Whether it lives, whether it can work, and what it counts.")

OPERATIONS = (
    Operation(
        method="GET",
        template="/healthz",
        name="isAlive",
        tag=TAG.name,
        summary="Whether the process lives",
        replies={200: Reply("It does.", AliveView)},
        examples=(Example(text="Alive"),),
    ),
    Operation(
        method="GET",
        template="/readyz",
        name="isReady",
        tag=TAG.name,
        summary="Whether all that requests need answers",
        replies={200: Reply("It does.", ReadyView)},
        problems=("not_ready",),
        examples=(Example(text="Ready"),),
    ),
    Operation(
        method="GET",
        template="/metrics",
        name="readMetrics",
        tag=TAG.name,
        summary="Metrics for Prometheus",
        replies={
            200: Reply("Prometheus' text format.", content_type=CONTENT_TYPE),
        },
        examples=(Example(text="Metrics"),),
    ),
    Operation(
        method="GET",
        template="/openapi.json",
        name="readDescription",
        tag=TAG.name,
        summary="This description",
        replies={200: Reply("OpenAPI 3.1.", content_type="application/json")},
        examples=(Example(text="The description"),),
    ),
)
