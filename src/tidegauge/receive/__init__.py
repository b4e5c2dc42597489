"""HTTP endpoints on the secret side: change events, and reports of local surveys."""
