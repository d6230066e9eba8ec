"""Limits of callers: how much a key, a user or a namespace may ask for."""
