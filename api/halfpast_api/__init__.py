"""The HTTP API and the command line of Halfpast."""
