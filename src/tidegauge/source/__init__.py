"""Rows change -> mutations."""
