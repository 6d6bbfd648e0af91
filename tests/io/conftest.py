"""Connections of a test end with it, and passes over sources are counted.

`make test-engines` runs the tests that need an engine of `skdp.io.engines`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from skdp.io._rows import StreamSource
from tests.io import places

FOLDER = Path(__file__).parent / "engines"
# Layouts of `places` and of tests beside it that an engine reads, by name.
OF_ENGINES = {
    "Dask",
    "PostgreSQL",
    "parallel workers",
    "partitions",
    "readers",
    "two readers",
    "workers",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        given = item.callspec.params.values() if hasattr(item, "callspec") else ()
        names = {each for each in given if isinstance(each, str)}
        if FOLDER in item.path.parents or names & OF_ENGINES:
            item.add_marker("engines")


@pytest.fixture(autouse=True)
def _connections_end():
    yield
    places.end_connections()


@pytest.fixture
def passes(monkeypatch):
    """One entry for each pass over a source to its end."""
    blocks, found = StreamSource.blocks, []

    def watched(self):
        yield from blocks(self)
        found.append(self)

    monkeypatch.setattr(StreamSource, "blocks", watched)
    return found
