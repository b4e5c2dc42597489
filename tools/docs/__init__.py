"""The documentation site: stage the pages, build them with Zensical, check what was built."""
