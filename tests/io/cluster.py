"""A Dask cluster on this machine: two workers, each a process of its own."""

from __future__ import annotations

import functools
import logging

import dask

N_WORKERS = 2


@functools.cache
def client():
    """A client of the cluster, which is started once and ends with this process."""
    from distributed import Client, LocalCluster

    dask.config.set({"distributed.worker.daemon": True})
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    cluster = LocalCluster(
        n_workers=N_WORKERS,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address=None,
        silence_logs=logging.CRITICAL,
    )
    return Client(cluster)
