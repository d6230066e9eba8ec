"""Whether traces are wanted, by the environment variables that OpenTelemetry has."""

from collections.abc import Mapping

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def is_wanted(environment: Mapping[str, str]) -> bool:
    """True if there is somewhere to send them, or OTLP is named as the exporter."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporters = environment.get("OTEL_TRACES_EXPORTER", "").strip()
    if exporters:
        return "otlp" in {it.strip() for it in exporters.split(",")}
    return any(environment.get(name, "").strip() for name in _ENDPOINTS)
