"""Imports among the measurements run one way too."""

from __future__ import annotations

from pathlib import Path

import benchmarks
from tests.imports import circles, graph, sources


def test_no_circle():
    arrows = graph(sources(Path(benchmarks.__file__).parent))
    assert "benchmarks._line" in arrows["benchmarks._published"]
    assert circles(arrows) == set()
