"""Events, and what they cost in epsilon and delta."""
