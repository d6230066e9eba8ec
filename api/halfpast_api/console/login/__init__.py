"""Coming in, and who one is then."""
