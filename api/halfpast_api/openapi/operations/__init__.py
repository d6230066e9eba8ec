"""What each call does, one module for each group of calls."""
