"""The gauge, its loop and its tick."""
