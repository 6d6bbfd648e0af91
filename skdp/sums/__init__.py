"""Sums over records: what one row adds, and the bound on it. Private."""
