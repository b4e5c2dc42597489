"""A table of the state: sorted blocks in the store's file, read and written a column at a time."""
