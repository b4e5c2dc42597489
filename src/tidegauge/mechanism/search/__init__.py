"""Candidates, tuned parameters and numerical optima: what the planner chooses from."""
