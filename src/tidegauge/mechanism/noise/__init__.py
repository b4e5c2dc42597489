"""Discrete noise: its laws, its samplers, and the error of what is decoded."""
