"""From rows to changes: one folder for each kind of source, and the registry of kinds."""
