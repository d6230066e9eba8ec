"""Load: what is let in while more comes than can be done."""
