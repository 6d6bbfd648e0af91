"""The only source of noise: laws, exact rounding, selection."""
