"""Factorisation of rating matrices: HAMSI, its peers, and private factorisation."""
