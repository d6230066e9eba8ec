"""Topics in the console."""
