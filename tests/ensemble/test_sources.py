"""Boosting over records that come in blocks: the same model, whatever the blocks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import cycle

import numpy as np
import pytest

from skdp.ensemble import _estimators
from skdp.ensemble._trees import read_to_predict
from skdp.io._table import Table
from skdp.tables._source import Block, Facts, Source
from tests.ensemble.boosted import decision, labels_of, quietly, table, unfitted

CASES = {
    "two classes": ("two classes", {}),
    "weighted classes": ("two classes", {"class_weight": {0: 1.0, 1: 3.0}}),
    "three classes": ("three classes", {}),
    "squared": ("numbers", {}),
    "poisson": ("numbers", {"loss": "poisson", "target_bounds": (0, 60)}),
    "quantile": ("numbers", {"loss": "quantile", "quantile": 0.3}),
}


class FrameBlocks(Source):
    """A data frame in blocks, in another order at each reading after the first."""

    def __init__(self, X, targets, order):
        self._X, self._targets, self._order = X, targets, order
        n, d = X.shape
        self.facts = Facts(n_samples=n, n_features=d, largest_block=130)
        self.n_readings = 0

    def blocks(self):
        self.n_readings += 1
        order = self._order if self.n_readings == 1 else self._order[::-1]
        for rows in np.split(order, [1, 120, 121, 250]):
            yield Block(self._X.iloc[rows], self._targets[rows])


class RowsEncoded(Source):
    """Rows of a source as a public rule encodes them, block by block."""

    def __init__(self, source, encode, n_features):
        self._source, self._encode = source, encode
        self.facts = replace(source.facts, n_features=n_features, is_row_major=True)

    def blocks(self):
        for block in self._source.blocks():
            yield Block(self._encode(block.X), block.y, block.present)


def fitted(case, monkeypatch, order=None, **params):
    """A model, from memory or from blocks that are encoded one by one."""
    name, needs = CASES[case]
    X, score = table(350)
    y = labels_of(name, score)
    model = unfitted(name, **needs | params)
    sources = []

    def by_blocks(table, codes, targets, users):
        source = FrameBlocks(X, targets, order)
        sources.append(source)
        encode = partial(read_to_predict, model)
        return RowsEncoded(source, encode, codes.shape[1])

    with monkeypatch.context() as patch:
        if order is not None:
            patch.setattr(Table, "source", by_blocks)
        quietly(lambda: model.fit(X, y))
    assert all(source.n_readings == 1 for source in sources)
    return decision(model, X)


def orders():
    return np.arange(350), np.random.default_rng(0).permutation(350)


@pytest.mark.parametrize(
    ("case", "init"), list(zip(CASES, cycle(("constant", "linear"))))
)
def test_blocks_in_any_order_give_the_same_model(case, init, monkeypatch):
    whole = fitted(case, monkeypatch, init=init)
    assert np.ptp(whole) > 0
    for order in orders():
        found = fitted(case, monkeypatch, order, init=init)
        assert np.array_equal(found, whole)


def test_broken_twin_that_reads_anew_is_found(monkeypatch):
    """Raw predictions of one reading beside the codes of another."""
    monkeypatch.setattr(_estimators, "in_memory", lambda source: source)
    with pytest.raises(AssertionError):
        fitted("two classes", monkeypatch, orders()[0], init="linear")
