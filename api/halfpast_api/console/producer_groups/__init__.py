"""Producer groups in the console."""
