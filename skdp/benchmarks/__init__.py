"""Measurements that anyone can repeat: ``python -m skdp.benchmarks``."""
