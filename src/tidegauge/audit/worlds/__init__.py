"""Invented tables, their logs, and plans carried out on them; an oracle in plain Python."""
