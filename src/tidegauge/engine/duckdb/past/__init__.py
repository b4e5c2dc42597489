"""Whole histories: enforced and folded at once, as arrays, in parts that have no unit in common."""
