"""Changelogs in files."""
