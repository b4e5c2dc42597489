"""What one unit can do to all measurements together, over every path it can take: T10, T13, T14."""
