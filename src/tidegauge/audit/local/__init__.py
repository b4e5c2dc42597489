"""Local surveys: the reports of real reporters, and the estimates that are published."""
