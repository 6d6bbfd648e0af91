"""Centred rows: never longer than 1, and products within what is charged for them."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array

from skdp._arrays import row_norms
from skdp.privacy.release import _answers
from skdp.privacy.release._answers import Grant, LocalAnswers
from skdp.privacy.release._plan import Bound, Buckets, Layout, Line, Plan, Poisson
from skdp.sums._exact import Summed, WholeSum, blocks_of
from skdp.tables._centred import CentredMatrix, CentredSource, Centring, StateRows
from skdp.tables._memory import MemorySource
from tests.spies import SpyNoise

SCALES = ("ones", "uneven", "hostile")
CENTRES = ("random", "a row", "beside a row", "near a row", "huge", "tiny", "zero")


def unit_rows(rng, n, d):
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    return X / np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, None]


def centring_of(rng, X, centre, scale):
    """A centring, its norm among others that of one of the rows, or nothing."""
    d = X.shape[1]
    place = {
        "random": rng.normal(size=d),
        "a row": X[0],
        "beside a row": np.nextafter(X[0], math.inf),
        "near a row": X[0] + 1e-8 * rng.normal(size=d),
        "huge": 1e6 * rng.normal(size=d),
        "tiny": 1e-300 * rng.normal(size=d),
        "zero": np.zeros(d),
    }[centre]
    scales = {
        "ones": np.ones(d),
        "uneven": rng.uniform(0.5, 2, d),
        "hostile": 10.0 ** rng.uniform(-6, 6, d),
    }[scale]
    of_a_row = float(np.linalg.norm((X[1] - place) * scales))
    norm = float(rng.choice([1e-12, 1e-3, 1.0, 1e6, of_a_row + 1e-300]))
    return Centring(place, scales, norm)


def square(rows, i):
    """Of the norm of a row as the products see it, without rounding."""
    X = rows.X.toarray() if hasattr(rows.X, "toarray") else rows.X
    pairs = zip(X[i].tolist(), rows.centre.tolist(), strict=True)
    terms = (Fraction(x) - Fraction(c) for x, c in pairs)
    return sum(t * t for t in terms) * Fraction(float(rows.factor[i])) ** 2


def hostile_rows(times=4):
    """Centrings and rows that cancel, in both forms."""
    for seed, centre, scale in itertools.product(range(times), CENTRES, SCALES):
        rng = np.random.default_rng(seed)
        X = unit_rows(rng, 4, int(rng.integers(1, 12)))
        centring = centring_of(rng, X, centre, scale)
        yield centring, X
        yield centring, csr_array(X)


def test_no_row_is_longer_than_one_in_exact_arithmetic():
    largest = 0
    for centring, X in hostile_rows():
        rows = centring.of(X)
        assert (rows.norms <= 1).all()
        largest = max(largest, *(square(rows, i) for i in range(4)))
    assert 1 - 1e-9 < largest <= 1


def test_twin_without_what_is_lost_to_cancellation_is_found(monkeypatch):
    monkeypatch.setattr("skdp.tables._centred.UNIT_ROUNDOFF", 0.0)
    largest = max(
        square(centring.of(X), i) for centring, X in hostile_rows() for i in range(4)
    )
    assert largest > 1 + 1e-3


# ------------------------------------------------------------------------ its rounding


def long_products(rows, W, r):
    """Both products of centred rows, in long doubles."""
    X = rows.X.toarray() if hasattr(rows.X, "toarray") else rows.X
    wide = np.longdouble
    exact = (X.astype(wide) - rows.centre.astype(wide)) * rows.factor.astype(wide)[
        :, None
    ]
    return exact @ W.astype(wide), exact.T @ r.astype(wide)


def largest_errors(factor=1.0):
    """Errors of both products over what is charged for them, `factor` of it."""
    found = [0.0, 0.0]
    for centring, X in hostile_rows():
        if np.linalg.norm(centring.centre * centring.scale) > 1e7:
            continue
        X = np.repeat(X.toarray(), 50, axis=0) if hasattr(X, "toarray") else X
        rng = np.random.default_rng(0)
        rows, (n, d) = centring.of(X), X.shape
        W, r = rng.normal(size=(d, 1)), rng.normal(size=(n, 1))
        raw, sums = long_products(rows, W, r)
        u = np.finfo(float).eps / 2
        grown = centring.amplification * factor
        charged = (d + 16) * u * grown * np.linalg.norm(W)
        found[0] = max(found[0], np.abs(rows @ W - raw).max() / charged)
        charged = (n + 17) * u * grown * np.abs(r).sum()
        found[1] = max(found[1], np.linalg.norm(rows.T @ r - sums) / charged)
    return [float(ratio) for ratio in found]


def test_products_err_by_less_than_is_charged():
    raw, sums = largest_errors()
    assert 0 < raw < 0.5
    assert 0 < sums < 0.5


def test_twin_that_charges_as_for_plain_rows_is_found(monkeypatch):
    monkeypatch.setattr(Centring, "amplification", 1.0)
    assert min(largest_errors()) > 1


def test_a_source_states_its_amplification_and_reads_once():
    centring = Centring(np.full(3, 0.2), np.ones(3), 0.01)
    reads = []

    def encode(X):
        reads.append(X.shape[0])
        return X

    X = unit_rows(np.random.default_rng(0), 20, 3)
    source = CentredSource(MemorySource(X, np.zeros(20)), encode, centring)
    assert source.facts.amplification == centring.amplification > 100
    assert [block.X for block in source.blocks()] == [b.X for b in source.blocks()]
    assert reads == [0, 20]
    assert isinstance(next(source.blocks()).X, CentredMatrix)


def centred():
    centring = Centring(np.full(3, 0.1), np.ones(3), 0.5)
    source = MemorySource(np.eye(3), np.zeros(3))
    return CentredSource(source, np.asarray, centring)


class Spied(Summed):
    """A query that keeps the layouts for which it was charged."""

    shape, family = (1,), "spied"

    def __init__(self):
        self.layouts = []

    def bound(self):
        return Bound(zero_out=1.0, replace_one=1.0)

    def slack(self, layout):
        self.layouts.append(layout)
        return 0.0

    def open(self, source):
        return source

    def whole_sums(self, reader, rows):
        total = WholeSum((1,))
        for block in blocks_of(reader, rows):
            total.add(np.array([len(block.y)]))
        return (total,)

    def from_whole(self, source, sums):
        return sums[0].value()


def charges_amplification(sample):
    source, query = centred(), Spied()
    facts, plan = source.facts, Plan((Line(1, sample=sample),))
    assert (facts.amplification, facts.cells) != (1.0, 0)
    event = plan.event(1.0, "zero_out")
    answers = LocalAnswers(
        plan, source, Grant(event, 1.0, "zero_out"), SpyNoise(seed=0)
    )
    answers.ask(query)
    charged = query.layouts[-1]
    return (charged.amplification, charged.cells) == (facts.amplification, facts.cells)


both_samples = pytest.mark.parametrize("sample", [Buckets(2), Poisson(0.5)])


@both_samples
def test_buckets_and_samples_are_charged_with_the_amplification(sample):
    assert charges_amplification(sample)


@both_samples
def test_broken_twin_that_charges_for_plain_rows_is_found(sample, monkeypatch):
    def plain(source, *_):
        return Layout(source.facts.largest_block)

    monkeypatch.setattr(_answers, "_layout_of", plain)
    assert not charges_amplification(sample)


# ------------------------------------------------------------------ by way of states


def state_rows(n=200, seed=0):
    """Rows between knots of three columns."""
    rng = np.random.default_rng(seed)
    sizes = (5, 9, 2)
    starts = np.cumsum([0, *sizes[:-1]])
    knots = [
        start + rng.integers(0, m - 1, n)
        for start, m in zip(starts, sizes, strict=True)
    ]
    shares = rng.uniform(size=(3, n))
    states = np.zeros((n, sum(sizes)))
    for knot, share in zip(knots, shares, strict=True):
        states[np.arange(n), knot] = 1 - share
        states[np.arange(n), knot + 1] = share
    basis = rng.normal(size=(sum(sizes), 7)) / 5
    return StateRows(csr_array(states), csr_array(basis), sizes)


def test_rows_by_way_of_states_are_the_rows():
    rows, rng = state_rows(), np.random.default_rng(1)
    X = rows.states.toarray() @ rows.basis.toarray()
    centring = Centring(X.mean(axis=0), rng.uniform(0.1, 3, 7), 0.5)
    held, plain = centring.of(rows), centring.of(X)
    weights, residuals = rng.normal(size=(7, 2)), rng.normal(size=(200, 2))
    assert np.allclose(held @ weights, plain @ weights, rtol=1e-9, atol=1e-12)
    assert np.allclose(held.T @ residuals, plain.T @ residuals, rtol=1e-9, atol=1e-12)
    assert np.allclose(held.norms, plain.norms, rtol=1e-9)
    assert held.norms.max() <= 1


def test_terms_bound_what_a_row_is_the_sum_of():
    rows = state_rows()
    magnitudes = rows.states.toarray() @ np.abs(rows.basis.toarray())
    longest = np.linalg.norm(magnitudes, axis=1).max()
    assert longest <= rows.terms
    # Broken twin: the longest row alone, which cancelled terms may exceed.
    assert longest > row_norms(rows).max()
