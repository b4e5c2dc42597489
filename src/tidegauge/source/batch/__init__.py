"""What all kinds of source share."""
