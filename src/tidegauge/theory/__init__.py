"""One theorem, one function: exact rationals in and out."""
