"""Transactions over HTTP, and the producer groups that begin them."""
