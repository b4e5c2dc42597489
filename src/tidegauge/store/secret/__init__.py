"""State, exact sums and stream state: the part of a store that no reader may see."""
