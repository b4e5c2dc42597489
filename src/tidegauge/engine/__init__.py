"""Engines: enforce the constraint and add up exact integer sums."""
