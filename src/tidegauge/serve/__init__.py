"""HTTP: collecting reports from people's devices.  Needs the extra `tidegauge[serve]`."""
