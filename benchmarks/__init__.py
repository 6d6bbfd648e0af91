"""Measurements that anyone can repeat in a checkout: ``python -m benchmarks``."""
