"""Fixtures of the tests of sources."""

from __future__ import annotations

from tests.io.conftest import _connections_end, passes

__all__ = ["_connections_end", "passes"]
