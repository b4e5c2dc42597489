"""Decoding many readings at once, or one after another, in about the time that their measurements take."""
