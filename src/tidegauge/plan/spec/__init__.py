"""The declared gauge and its messages."""
