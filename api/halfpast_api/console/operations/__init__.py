"""Changes of many events in the console."""
