"""Recurring schedules in the console."""
