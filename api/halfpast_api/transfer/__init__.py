"""Events from a file into a server, and what is pending there into a file."""
