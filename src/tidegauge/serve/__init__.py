"""The web process: HTTP API and pages over a public file, which is all that it opens."""
