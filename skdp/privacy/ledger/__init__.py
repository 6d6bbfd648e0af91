"""Spending on a data set, and its cap."""
