"""Local differential privacy: people report for themselves, and no one is trusted."""
