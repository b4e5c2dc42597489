"""Enforce and fold: mutations -> exact integer sums."""
