"""Privacy loss of several mechanisms together, and conversions of it: T8."""
