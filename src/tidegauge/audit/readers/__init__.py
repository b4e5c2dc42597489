"""Small logs through the readers of real sources."""
