"""Tables that are read whole and compared, and tables that keep their history."""
