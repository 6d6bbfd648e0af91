"""Kernels are compiled once for all workers."""

from __future__ import annotations

import pytest

# A run of fewer tests compiles what it comes across.
_MANY = 3000


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session):
    """Compile a share of the kernels in each worker, before any worker gets a test.

    Tests are handed out when all workers have said what they collected, which they do
    after this. What is in the cache already is loaded in no time, and used later on.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None or len(session.items) < _MANY:
        return
    from tests.kernels import compile_share

    place = int(worker["workerid"].removeprefix("gw"))
    compile_share(place, worker["workercount"])
