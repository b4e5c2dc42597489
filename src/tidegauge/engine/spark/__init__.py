"""The distributed engine: enforcement and folding in a Spark session."""
