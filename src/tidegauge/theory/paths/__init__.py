"""Sensitivity of all measurements together, over every path that one unit can take: T10, T13, T14."""
