"""Views of a source: each row changed by itself, and attributes that are true."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array, issparse

from skdp.tables._memory import MemorySource
from skdp.tables._views import ColumnsOf, ConstantColumn, EntriesClipped

VIEWS = {
    "entries": lambda source: EntriesClipped(source, 0.5),
    "columns": lambda source: ColumnsOf(source, np.array([1, 3, 4])),
    "constant": lambda source: ConstantColumn(source, 2.0),
}
STORAGES = {"C": np.ascontiguousarray, "F": np.asfortranarray, "csr": csr_array}
every_view = pytest.mark.parametrize("view", VIEWS)
every_storage = pytest.mark.parametrize("storage", STORAGES)


def table(seed=0):
    X = np.random.default_rng(seed).normal(size=(150, 6))
    X[X < -1] = 0.0
    return X


def source_of(X, storage, present=None):
    source = MemorySource(STORAGES[storage](X), np.arange(150.0), present)
    source.facts = replace(source.facts, largest_block=40)
    return source


def rows_of(source):
    parts = [block.X for block in source.blocks()]
    return np.vstack([x.toarray() if issparse(x) else x for x in parts])


@every_view
@every_storage
def test_what_a_view_says_of_its_blocks_is_true(view, storage):
    source = VIEWS[view](source_of(table(), storage))
    for block in source.blocks():
        assert block.X.shape[0] <= source.facts.largest_block
        assert block.X.shape[1] == source.n_features
        if source.facts.is_row_major:
            assert block.X.flags.c_contiguous


@every_view
@every_storage
def test_a_row_is_changed_by_itself_and_the_data_are_left_alone(view, storage):
    X, present = table(), np.arange(150) != 7
    other = X.copy()
    other[7] = 100.0
    kept = other.copy()
    source = source_of(other, storage, present)
    found, before = (
        rows_of(VIEWS[view](source)),
        rows_of(VIEWS[view](source_of(X, storage))),
    )
    assert np.array_equal(np.delete(found, 7, axis=0), np.delete(before, 7, axis=0))
    assert np.array_equal(other, kept)
    masks = [block.present for block in VIEWS[view](source).blocks()]
    assert np.array_equal(np.concatenate(masks), present)
    expected = {
        "entries": np.clip(other, -0.5, 0.5),
        "columns": other[:, [1, 3, 4]],
        "constant": np.full((150, 1), 2.0),
    }
    assert np.array_equal(found, expected[view])
