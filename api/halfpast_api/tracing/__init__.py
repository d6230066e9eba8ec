"""Traces by OpenTelemetry: optional; off, and free, unless asked for."""
