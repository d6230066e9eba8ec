"""Limits in the console: one's own, and those of keys, users and namespaces."""
