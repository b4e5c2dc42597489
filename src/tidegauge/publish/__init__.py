"""Readings, verification and charts: everything here is public."""
