"""Events, and their cost in epsilon and delta."""
