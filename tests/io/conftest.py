"""Connections of a test end with it, and passes over sources are counted."""

from __future__ import annotations

import pytest

from skdp.io._rows import StreamSource
from tests.io import places


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
