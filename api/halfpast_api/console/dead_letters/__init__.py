"""Dead letters in the console."""
