"""Events in the console."""
