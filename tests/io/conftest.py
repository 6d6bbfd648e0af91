"""Connections of a test end with it."""

from __future__ import annotations

import pytest

from tests.io import places


@pytest.fixture(autouse=True)
def _connections_end():
    yield
    places.end_connections()
