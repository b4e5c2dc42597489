"""Files that run in the environments of other libraries (bench/environments.py)."""
