"""SELECT -> a query."""
