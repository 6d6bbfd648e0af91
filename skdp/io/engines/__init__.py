"""Engines of sources that few tables need: PostgreSQL, Spark and Dask.

An annex: nothing else in skdp imports it. `SqlSource` loads an engine by name when it
is given a connection to it, and `skdp.io` loads `DaskSource` when it is asked for.
"""
