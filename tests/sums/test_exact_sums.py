"""Whole units: sums that no order changes, and functions that no place changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp

from skdp.sums._exact import WholeSum, added, below, nearest, unit_for
from skdp.sums._moments import MomentSums, MomentWeights
from skdp.tables._memory import MemorySource

SIZES = [1, 2, 3, 1000, 2**20, 10**9, 2**40]


@pytest.mark.parametrize("most", [1.0, 4.0, 64.0, 3.0])
@pytest.mark.parametrize("n", SIZES)
def test_the_largest_sums_are_exact(n, most):
    units = n * most / unit_for(n, most)
    assert units <= 2**53
    # Broken twin: a unit a few bits finer, and the largest sum is lost.
    assert unit_for(n, most) == 2.0**-40 or 4 * units >= 2**53


@pytest.mark.parametrize("rounded", [nearest, below])
def test_any_order_gives_the_same_sum(rounded):
    rng = np.random.default_rng(0)
    values = rng.uniform(-1, 1, size=100_000)
    whole = rounded(values, unit_for(100_000))
    sums = {values.sum(), values[::-1].sum(), np.add.accumulate(values)[-1]}
    exact = {whole.sum(), whole[::-1].sum(), np.add.accumulate(whole)[-1]}
    assert len(sums) > 1 == len(exact)
    assert np.abs(whole - values).max() <= unit_for(100_000)
    assert (below(values, 0.25) <= values).all()


def test_two_words_hold_what_one_does_not():
    rng = np.random.default_rng(0)
    parts = rng.integers(-(2**61), 2**61, size=(1000, 3))
    parts[:, 0] = 2**61
    total = WholeSum((3,))
    for part in parts:
        total.add(part)
    total.add(np.array([-1.0, 2.0, -(2.0**52)]))
    exact = [sum(map(int, column)) for column in parts.T]
    exact = [exact[0] - 1, exact[1] + 2, exact[2] - 2**52]
    assert total.value().tolist() == [float(number) for number in exact]
    # Broken twin: one word.
    assert int(parts[:, 0].sum()) != sum(map(int, parts[:, 0]))


FUNCTIONS = {
    "exp": np.exp,
    "log": np.log,
    "log1p": np.log1p,
    "logaddexp": lambda x: np.logaddexp(0.0, x),
    "sqrt": np.sqrt,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_records_value_depends_on_no_place_in_memory(name):
    """What fills a vector register and what is left over at the end are alike."""
    function = FUNCTIONS[name]
    x = np.random.default_rng(0).uniform(1e-3, 20, size=1031)
    alone = np.array([function(x[i : i + 1])[0] for i in range(len(x))])
    for start in range(9):
        assert np.array_equal(function(x[start:]), alone[start:])
    for step in (2, 3, 50):
        apart = np.zeros((len(x), step))
        apart[:, 0] = x
        assert np.array_equal(function(apart[:, 0]), alone)


def test_a_records_softmax_depends_on_no_other():
    raw = np.random.default_rng(0).normal(size=(1031, 5))
    alone = np.concatenate([logsumexp(row[None], axis=1) for row in raw])
    for stored in (raw, np.asfortranarray(raw)):
        assert np.array_equal(logsumexp(stored, axis=1), alone)
        assert np.array_equal(logsumexp(stored[3:], axis=1), alone[3:])


def test_products_of_many_rows_add_up_exactly():
    """Of one long block, and of parts of it: the same bits."""
    n = 1 << 16
    X = 1 - np.random.default_rng(0).random((n, 2)) / 9
    query = MomentSums(MomentWeights(0.5, 1.0), n, 2, 2.0)

    def summed(runs):
        sums = []
        for run in runs:
            source = MemorySource(X[run], np.ones(len(X[run])))
            source.facts = replace(source.facts, largest_block=n)
            sums.append(query.whole_sums(query.open(source), None))
        return query.from_whole(source, added(sums)).tobytes()

    assert summed([slice(n)]) == summed([slice(i, i + 999) for i in range(0, n, 999)])
