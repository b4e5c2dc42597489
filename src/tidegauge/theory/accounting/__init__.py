"""What mechanisms lose together, and in which terms: T8."""
