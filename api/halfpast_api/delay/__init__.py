"""The calls around delayed delivery, beyond single events."""
