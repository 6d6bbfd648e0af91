"""Measurements that anyone can repeat in a checkout: ``python -m benchmarks``.

A benchmark is a function that yields lines (`benchmarks._runner`), over the tables of
`benchmarks._tables` and the models of `benchmarks._models`.
"""
