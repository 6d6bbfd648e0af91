"""Facts about a source: each view hands on all of them but those that it changes."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from skdp.io._rows import PresentOnly
from skdp.tables._centred import CentredSource, Centring
from skdp.tables._coded import CodeBasis, CodeSource
from skdp.tables._memory import (
    CachedSource,
    MemorySource,
    UserSource,
    WithOffset,
)
from skdp.tables._source import Block, Facts, Remote, Source
from skdp.tables._views import (
    Bucket,
    CentredDense,
    ChunkSource,
    ColumnsOf,
    ConstantColumn,
    Encoded,
    EntriesClipped,
)

N, D = 12, 4
BLOCK = Block(np.zeros((N, D), dtype=np.uint8), np.zeros(N))
# No field has its default here.
TOLD = Facts(
    n_samples=N,
    largest_block=5,
    n_features=D,
    is_row_major=True,
    is_stable=True,
    holds_rows=False,
    is_ordered=True,
    is_permutable=True,
    is_of_users=True,
    max_overcount=1.5,
    n_partitions=3,
    row_bytes=2.0,
    memory=11,
    disk=12,
    amplification=7.0,
    cells=9,
)


class There(Source, Remote):
    """A source with every fact stated, whose records are added up by itself."""

    facts = TOLD

    @property
    def remote(self):
        return self

    def blocks(self):
        yield BLOCK


CENTRING = Centring(np.zeros(D), np.ones(D), 0.5)
BASIS = CodeBasis(tuple(np.ones((1, 2)) for _ in range(D)))
# What each view changes; it hands on the rest.
VIEWS = {
    EntriesClipped: (lambda s: EntriesClipped(s, 1.0), {}),
    ColumnsOf: (lambda s: ColumnsOf(s, np.array([1, 3, 0])), {"n_features": 3}),
    CentredDense: (lambda s: CentredDense(s, 1.0, np.zeros(D), 1.0), {}),
    Encoded: (lambda s: Encoded(s, lambda rows: rows), {}),
    ConstantColumn: (lambda s: ConstantColumn(s, 2.0), {"n_features": 1}),
    WithOffset: (lambda s: WithOffset(s, None), {}),
    CachedSource: (CachedSource, {"holds_rows": True}),
    PresentOnly: (PresentOnly, {"is_stable": False}),
    CentredSource: (
        lambda s: CentredSource(s, lambda rows: rows, CENTRING),
        {
            "is_row_major": False,
            "is_stable": False,
            "memory": 0.0,
            "disk": 0.0,
            "amplification": CENTRING.amplification,
            "cells": 0,
        },
    ),
    CodeSource: (
        lambda s: CodeSource(s, BASIS),
        {
            "n_features": 2 * D,
            "is_row_major": False,
            "amplification": BASIS.terms,
            "cells": D,
            "largest_block": 2**20,
        },
    ),
    Bucket: (
        lambda s: Bucket(s.facts, [BLOCK]),
        {"largest_block": N, "is_row_major": False, "holds_rows": True},
    ),
    ChunkSource: (lambda s: ChunkSource(s, 3), {"n_samples": 3 * N}),
}
every_view = pytest.mark.parametrize("kind", VIEWS)


def test_no_fact_here_has_its_default():
    for field in fields(Facts):
        assert getattr(TOLD, field.name) != field.default


@every_view
def test_a_view_hands_on_every_fact_that_it_does_not_change(kind):
    make, changes = VIEWS[kind]
    assert make(There()).facts == replace(TOLD, **changes)


@pytest.mark.parametrize(
    "kind", [kind for kind in VIEWS if kind not in (Bucket, ChunkSource, PresentOnly)]
)
def test_a_view_is_added_up_where_its_records_are(kind):
    there = There()
    assert VIEWS[kind][0](there).remote is there


def kinds_of(kind):
    yield kind
    for below in kind.__subclasses__():
        yield from kinds_of(below)


def test_every_view_of_the_package_is_here():
    own = {kind for kind in kinds_of(Source) if kind.__module__.startswith("skdp.")}
    others = {"Source", "_View", "MemorySource", "UserSource", "StreamSource"}
    assert {kind.__name__ for kind in own | {ChunkSource}} - others == {
        kind.__name__ for kind in VIEWS
    }


@pytest.mark.parametrize("storage", [np.asarray, csr_array])
def test_facts_of_rows_in_memory(storage):
    X, y = storage(np.ones((N, D))), np.zeros(N)
    is_dense = storage is np.asarray
    of_records = Facts(
        n_samples=N,
        n_features=D,
        largest_block=N,
        is_row_major=is_dense,
        is_stable=True,
        is_ordered=True,
        is_permutable=True,
    )
    source = MemorySource(X, y)
    assert source.facts == of_records
    assert source.remote is None
    # How many rows users have is private: the size of blocks follows from D alone.
    assert UserSource(X, y, np.ones(N), 3).facts == replace(
        of_records,
        n_samples=3,
        largest_block=source.most_rows,
        is_ordered=False,  # no order of rows is one of users
        is_of_users=True,
    )
