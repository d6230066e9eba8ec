"""Load generator, benchmarks and the demo."""
