"""What a declared gauge would have published of a known history; everything here is secret."""
