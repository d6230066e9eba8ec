"""What is administered: settings of topics and groups, and limits."""
