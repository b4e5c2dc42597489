"""Benchmarks: `python -m bench.all` runs every script and writes docs/benchmarks.md."""
