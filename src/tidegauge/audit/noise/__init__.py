"""Real noise: the draws against their distributions, and how well canaries can be distinguished."""
