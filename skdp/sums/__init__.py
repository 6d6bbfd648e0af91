"""Sums over records: the contribution of a row, and its bound. Private."""
