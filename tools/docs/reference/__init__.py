"""Reference pages that are written from the code:
`python -m tools.docs.reference` updates docs/reference/."""
