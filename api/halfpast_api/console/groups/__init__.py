"""Consumer groups in the console."""
