"""What /metrics of a server says, as numbers by name.

A name keeps its labels as they are printed: `halfpast_checks_total{transport="poll"}`.
"""

from collections.abc import Mapping

from halfpast_loadtest.patient_client import PatientClient

Metrics = Mapping[str, float]


async def read_metrics(host: str, port: int) -> Metrics:
    """All samples of a server, now. Raises RequestFailed or WireError."""
    client = PatientClient(host, port)
    try:
        answer = await client.request("GET", "/metrics")
    finally:
        client.close()
    return parse_metrics(answer.body.decode())


def parse_metrics(text: str) -> Metrics:
    """The samples of Prometheus' text format, without time stamps."""
    samples: dict[str, float] = {}
    for line in text.splitlines():
        name, _, value = line.rpartition(" ")
        if name and not line.startswith("#"):
            samples[name] = float(value)
    return samples


def total(metrics: Metrics, name: str, *labels: str) -> float:
    """The sum over all samples of `halfpast_{name}` that carry these labels.

    A label is written as it is printed: `lane="send"`.
    """
    full = f"halfpast_{name}"
    return sum(
        value
        for sample, value in metrics.items()
        if sample.partition("{")[0] == full and all(one in sample for one in labels)
    )


def grown(before: Metrics, after: Metrics, name: str, *labels: str) -> int:
    """By how much such a counter has grown in between."""
    return round(total(after, name, *labels) - total(before, name, *labels))
