"""Discrete noise: distributions, samplers, and the error of decoded estimates."""
