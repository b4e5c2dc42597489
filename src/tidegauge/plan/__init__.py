"""The declared gauge, its queries, and the choice of a strategy."""
