"""Endpoints in the console: where messages are pushed to, and how that goes."""
