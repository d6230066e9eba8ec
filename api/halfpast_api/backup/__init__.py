"""Copies of a data folder, taken while the suite runs, and the way back from them."""
