"""Discrete noise: its distributions, its samplers, and the error of what is decoded."""
