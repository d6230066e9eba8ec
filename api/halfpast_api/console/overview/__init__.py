"""The first page in the console."""
