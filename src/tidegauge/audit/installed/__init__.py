"""Checks of the installed code that are independent of the audited plan: small gauges and definitions."""
