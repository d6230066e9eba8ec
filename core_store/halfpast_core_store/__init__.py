"""The commit log and everything that is projected from it."""
