"""The public file: one SQLite file with plan, guarantee, ledger, seals and readings, and nothing else."""
