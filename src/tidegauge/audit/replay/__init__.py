"""The audited plan on pairs of neighbours, with frozen noise: what one unit can change, and what it costs."""
