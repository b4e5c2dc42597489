"""HTTP: collecting reports from people's devices, receiving change events.  Needs the extra `tidegauge[serve]`."""
