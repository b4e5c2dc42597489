"""Positive controls: known bugs, seeded one at a time, each of which the checks must find.

Bugs are seeded in a process of their own, which does nothing else and ends: no run can meet one.
"""
