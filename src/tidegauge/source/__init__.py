"""Rows change -> mutations: one folder for each kind of source, and the registry of kinds."""
