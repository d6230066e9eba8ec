"""Transactions in the console, those in doubt first."""
