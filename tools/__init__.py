"""Programs that work on the repository itself; none of them is part of the package."""
