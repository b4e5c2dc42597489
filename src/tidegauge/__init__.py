"""Private statistics of living databases."""
