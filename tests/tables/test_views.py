"""Views of a source: each row changed by itself, and attributes that are true."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array, issparse

from skdp.tables._memory import MemorySource, UserSource, equal_shares
from skdp.tables._views import (
    CentredDense,
    ColumnsOf,
    ConstantColumn,
    EntriesClipped,
    parts_of,
)

CENTRE = np.full(6, 0.2)
VIEWS = {
    "entries": lambda source: EntriesClipped(source, 0.5),
    "columns": lambda source: ColumnsOf(source, np.array([1, 3, 4])),
    "constant": lambda source: ConstantColumn(source, 2.0),
    "centred": lambda source: CentredDense(source, 1.0, CENTRE, 0.7),
}
STORAGES = {"C": np.ascontiguousarray, "F": np.asfortranarray, "csr": csr_array}
BOTH = [(v, s) for v in VIEWS for s in STORAGES if (v, s) != ("centred", "csr")]


def table(seed=0):
    X = np.random.default_rng(seed).normal(size=(150, 6))
    X[X < -1] = 0.0
    return X


def source_of(X, storage, present=None):
    source = MemorySource(STORAGES[storage](X), np.arange(1.0 * len(X)), present)
    source.facts = replace(source.facts, largest_block=40)
    return source


def rows_of(source):
    parts = [block.X for block in source.blocks()]
    return np.vstack([x.toarray() if issparse(x) else x for x in parts])


@pytest.mark.parametrize(("view", "storage"), BOTH)
def test_what_a_view_says_of_its_blocks_is_true(view, storage):
    source = VIEWS[view](source_of(table(), storage))
    for block in source.blocks():
        assert block.X.shape[0] <= source.facts.largest_block
        assert block.X.shape[1] == source.n_features
        if source.facts.is_row_major:
            assert block.X.flags.c_contiguous


def centred(X):
    """Rows of at most 1, about a place; those that are then beyond 0.7 are clipped."""
    rows = X / np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, None] - CENTRE
    return rows / np.maximum(np.linalg.norm(rows, axis=1), 0.7)[:, None]


SAID = {
    "entries": lambda X: np.clip(X, -0.5, 0.5),
    "columns": lambda X: X[:, [1, 3, 4]],
    "constant": lambda X: np.full((len(X), 1), 2.0),
    "centred": centred,
}


@pytest.mark.parametrize(("view", "storage"), BOTH)
def test_views_change_rows_as_they_say(view, storage):
    """Each by itself; and data stay as they were given."""
    X, present = table(), np.arange(150) != 7
    X[7] = 100.0
    kept, source = X.copy(), source_of(X, storage, present)
    found = rows_of(VIEWS[view](source))
    assert np.allclose(found, SAID[view](X), rtol=0, atol=1e-15)
    alone = source_of(X[:5], storage)
    assert rows_of(VIEWS[view](alone)).tobytes() == found[:5].tobytes()
    assert np.array_equal(X, kept)
    masks = [block.present for block in VIEWS[view](source).blocks()]
    assert np.array_equal(np.concatenate(masks), present)


def test_a_table_of_users_is_not_cut_by_position():
    codes = np.array([0, 0, 1])
    users = UserSource(np.eye(3), np.zeros(3), equal_shares(codes, 2), 2, codes)
    with pytest.raises(TypeError, match="must arrive one by one"):
        next(iter(parts_of(users, 2)))
