"""Webhooks on a developer's own machine: a topic is forwarded to a local URL."""
