"""Sums over leaves: neighbours searched, bounds attained, bits and twins."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from skdp.losses._base import LossId, falling_exponential
from skdp.losses._classification import without_weights
from skdp.privacy.release._plan import Layout
from skdp.sums import _leaves as module
from skdp.sums import _leaves_kernel as kernel
from skdp.sums._leaves import GrownTrees, LeafReader, LeafSums, LeafTerms
from tests.ensemble.coded import (
    MIXED,
    a_leaf_for_each_code,
    codes_of,
    draw_trees,
    source_of,
    targets_of,
)
from tests.ensemble.fits import loss_of

ONE_EACH = a_leaf_for_each_code()


def terms_of(name, n_outputs, clip, weight, cap=1.0, **facts):
    return LeafTerms(loss_of(name, n_outputs, **facts), clip, weight, cap)


TERMS = [
    terms_of("logistic", 1, 0.3, 2.0),
    terms_of("logistic", 1, 0.5, math.sqrt(8)),
    terms_of("logistic", 1, 0.7, 1.5),
    terms_of("logistic", 1, 1.0, 2.5),
    terms_of("logistic", 1, 2.0, 1.0),
    terms_of("softmax", 3, 0.5, 0.5),
    terms_of("softmax", 4, 0.7, 0.3),
    terms_of("softmax", 7, 2.0, 2.0),
    terms_of("squared", 1, 0.4, 0.1),
    terms_of("squared", 1, 0.5, 0.5),
    terms_of("squared", 1, 1.0, 2.0),
    terms_of("poisson", 1, 0.5, 0.1, cap=0.3),
    terms_of("poisson", 1, 2.0, 2.0, cap=1.5, lowest=0.2),
    terms_of("poisson", 1, 0.3, 2.0, cap=0.1, lowest=0.2),
    terms_of("gamma", 1, 1.0, 0.3),
    terms_of("gamma", 1, 4.0, 1.0),
    terms_of("gamma", 1, 0.5, 0.2, half=0.2),
    terms_of("gamma", 1, 3.0, 0.2, half=6.0, most=2.5),
    terms_of("quantile", 1, 1.0, 0.05),
    terms_of("quantile", 1, 1.0, 1.0, level=0.2),
    terms_of("quantile", 1, 0.4, 0.1, level=0.8),
    terms_of("logistic", 1, 0.5, 2.0, label_weights=(0.1, 1.0)),
    terms_of("logistic", 1, 0.7, 0.5, label_weights=(1.0, 0.8)),
    terms_of("softmax", 4, 0.7, 0.1, label_weights=(0.1, 0.5, 1.0, 0.5)),
]
every_term = pytest.mark.parametrize("terms", TERMS, ids=str)
every_adjacency = pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
LOSSES = [
    ("logistic", 1),
    ("softmax", 3),
    ("squared", 1),
    ("poisson", 1),
    ("gamma", 1),
    ("quantile", 1),
]
every_loss = pytest.mark.parametrize(("loss", "n_outputs"), LOSSES)


def query_of(terms, trees, n, values=(), start=None):
    start = np.zeros(terms.n_outputs) if start is None else start
    grown = GrownTrees.of(start, trees, values)
    return LeafSums(terms, trees[len(values)], grown, n)


def added(terms, raw, y, present=None):
    """What each of up to 255 records adds to a leaf of its own, by the real query."""
    n = len(y)
    codes = np.arange(n, dtype=np.uint8)[:, None]
    query = query_of(terms, ONE_EACH, n)
    source = source_of(codes, y, present, offset=np.reshape(raw, (n, terms.n_outputs)))
    return query.total(query.open(source), None)[:n]


def random_records(terms, rng, n=255):
    """Raw predictions small and large, near ties and far, and targets."""
    scale = 10.0 ** rng.uniform(-1, 1.6, size=(n, 1))
    raw = scale * rng.normal(size=(n, terms.n_outputs))
    if terms.loss.form is LossId.POISSON:
        return rng.uniform(-30, 3, size=(n, 1)), rng.uniform(-0.5, 1.5, n)
    if terms.loss.form is LossId.GAMMA:
        ends = 1.2 * terms.loss.half * rng.uniform(-1, 1, size=(2, n))
        return ends[0][:, None], np.exp(ends[1] + terms.loss.half)
    if terms.loss.form.is_of_numbers:
        return rng.uniform(-3, 3, size=(n, 1)), rng.uniform(-1.5, 1.5, n)
    return raw, rng.integers(max(terms.n_outputs, 2), size=n).astype(float)


def moved(one, other, adjacency, same_leaf):
    """By how much two records' sums differ."""
    if adjacency == "zero_out":
        return np.maximum(*(np.linalg.norm(a, axis=-1) for a in (one, other)))
    if same_leaf:
        return np.linalg.norm(one - other, axis=-1)
    return np.hypot(*(np.linalg.norm(a, axis=-1) for a in (one, other)))


def searched(terms, adjacency, n_rounds=30):
    """The largest among random pairs, and after climbing from the best of them."""
    rng, best = np.random.default_rng(0), []
    for _ in range(n_rounds):
        raw, y = random_records(terms, rng)
        sums = added(terms, raw, y)
        other = rng.permutation(len(y))
        for same_leaf in (False, True):
            found = moved(sums, sums[other], adjacency, same_leaf)
            i = int(np.argmax(found))
            pair = raw[[i, other[i]]], y[[i, other[i]]]
            best.append((float(found[i]), same_leaf, *pair))
    best.sort(key=lambda each: -each[0])
    climbed = [climb(terms, adjacency, *each[1:]) for each in best[:10]]
    return max([best[0][0], *climbed])


def climb(terms, adjacency, same_leaf, raw, y):
    """Gradient ascent over both raw predictions; targets stay."""

    def loss(flat):
        one, other = added(terms, flat.reshape(raw.shape), y)
        return -(float(moved(one, other, adjacency, same_leaf)) ** 2)

    facts = {"method": "L-BFGS-B", "options": {"eps": 1e-4, "maxiter": 200}}
    return math.sqrt(-minimize(loss, raw.ravel(), **facts).fun)


@every_adjacency
@every_term
def test_no_pair_passes_the_bound_and_the_search_attains_it(terms, adjacency):
    bound = terms.bound().under(adjacency)
    slack = query_of(terms, ONE_EACH, 255).slack(Layout(255))
    found = searched(terms, adjacency)
    assert found <= bound + slack
    assert found >= 0.99 * bound


# Of two classes without a clip the curvature is free: it is 0 where residuals are 1.
PAID = [*TERMS[:3], *TERMS[5:8]]


@pytest.mark.parametrize("terms", PAID, ids=str)
def test_broken_twin_of_curvatures_at_no_cost_is_found(terms):
    """What holds without curvatures, under both relations."""
    plain = replace(terms, weight=0.0).bound()
    for adjacency in ("zero_out", "replace_one"):
        assert searched(terms, adjacency, 5) > 1.005 * plain.under(adjacency)


def unweighted(terms):
    return replace(terms, loss=without_weights(terms.loss))


WEIGHED = [terms for terms in TERMS if terms.loss.label_weights]


@pytest.mark.parametrize("terms", WEIGHED, ids=str)
def test_weights_multiply_all_that_a_record_adds(terms):
    raw, y = random_records(terms, np.random.default_rng(0))
    own = np.take(terms.loss.label_weights, y.astype(int))[:, None]
    plain = added(unweighted(terms), raw, y)
    assert added(terms, raw, y) == pytest.approx(own * plain, abs=1e-11)


@pytest.mark.parametrize(
    ("loss", "facts", "message"),
    [
        ("quantile", {"level": 0.0}, "'level'"),
        ("quantile", {"level": 1.0}, "'level'"),
        ("poisson", {"lowest": -1e-9}, "'lowest'"),
        ("gamma", {"most": 1.0}, "'most'"),
        ("poisson", {"cap": 0.0}, "a cap above 0"),
        ("poisson", {"cap": math.nan}, "a cap above 0"),
        ("logistic", {"label_weights": (1.0, 1.1)}, "'label_weights'"),
        ("logistic", {"label_weights": (1.0, 0.0)}, "'label_weights'"),
    ],
)
def test_facts_that_no_bound_is_proved_for_are_refused(loss, facts, message):
    with pytest.raises(ValueError, match=message):
        terms_of(loss, 1, 0.5, 0.5, **facts)


# ------------------------------------------------------------------------ exact numbers


def fitted_sums(terms, codes, y, present=None, n_threads=1, rows=None):
    """Sums of the third of three trees, after made-up values of the others."""
    trees = draw_trees(MIXED, n_trees=3, max_depth=5, seed=3)
    rng = np.random.default_rng(5)
    values = rng.normal(size=(2, trees.n_leaves, terms.n_outputs)) / 3
    start = np.linspace(-0.1, 0.3, terms.n_outputs)
    query = query_of(terms, trees, len(y), values, start)
    reader = query.open(source_of(codes, y, present))
    reader.n_threads = n_threads
    return query.total(reader, rows), query, trees


@every_loss
def test_sums_are_those_of_plain_numpy(loss, n_outputs):
    terms = terms_of(loss, n_outputs, 0.6, 0.8)
    codes = codes_of(MIXED, 400)
    y = targets_of(loss, codes, n_outputs)
    found, query, trees = fitted_sums(terms, codes, y)
    raw = np.tile(query.grown.start, (len(y), 1))
    for t, values in enumerate(query.grown.values):
        raw += values[walked(trees, t, codes)]
    expected = np.zeros_like(found)
    np.add.at(expected, walked(trees, 2, codes), plainly(terms, raw, y))
    assert np.allclose(found, expected, rtol=0, atol=400 * query.unit)


def walked(trees, tree, codes):
    """The leaf of each record, by its public steps."""
    leaves = []
    for row in codes:
        node = 0
        for _ in range(trees.depth):
            side = trees.goes_right(tree, node)[row[trees.feature[tree, node]]]
            node = 2 * node + 1 + int(side)
        leaves.append(node - trees.n_leaves + 1)
    return np.array(leaves)


def plainly(terms, raw, y):
    if terms.loss.form is LossId.POISSON:
        mean = np.minimum(np.exp(raw[:, 0] - 0.7), 1.0)
        error = np.clip(mean - y, -terms.clip, terms.clip)
        return np.column_stack([error, terms.weight * mean])
    if terms.loss.form is LossId.GAMMA:
        ratio = np.minimum(y / np.exp(np.clip(raw[:, 0] + 1.5, 0, 3)), 4)
        error = np.clip(1 - ratio, -terms.clip, terms.clip)
        return np.column_stack([error, np.full(len(y), terms.weight)])
    if terms.loss.form is LossId.QUANTILE:
        error = np.where(y < raw[:, 0], 0.5, -0.5)
        return np.column_stack([error, np.full(len(y), terms.weight)])
    if terms.loss.form is LossId.ERROR:
        error = np.clip(raw[:, 0] - y, -terms.clip, terms.clip)
        return np.column_stack([error, np.full(len(y), terms.weight)])
    if terms.loss.form is LossId.SIGMOID:
        p = 1 / (1 + np.exp(-raw[:, 0]))
        residual = np.clip(p - y, -terms.clip, terms.clip)
        return np.column_stack([residual, terms.weight * p * (1 - p)])
    p = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
    residual = p - np.eye(terms.n_outputs)[y.astype(int)]
    norm = np.linalg.norm(residual, axis=1, keepdims=True)
    return np.hstack([residual * np.minimum(1, terms.clip / norm), terms.weight * p])


def with_exponential(raw, y, unit, exponential):
    """Sums of two classes in whole units, by NumPy."""
    tail = exponential(np.abs(raw[:, 0]))
    p = np.where(raw[:, 0] >= 0, 1.0, tail) / (1.0 + tail)
    parts = np.clip(p - y, -0.6, 0.6), 0.8 * (p * (1.0 - p))
    return [np.rint(part / unit).sum() for part in parts]


def test_probabilities_are_those_of_plain_arithmetic_to_the_last_bit():
    """So that other engines can find them; broken twin: a library's exponential."""
    rng, n = np.random.default_rng(0), 200_000
    raw, y = 9 * rng.normal(size=(n, 1)), rng.integers(0, 2, size=n).astype(float)
    terms, unit = terms_of("logistic", 1, 0.6, 0.8), 2.0**-30
    sums = np.zeros((1, 2), dtype=np.int64)
    loss = int(terms.loss.form), terms.loss.form_constants
    records = np.zeros(n, dtype=np.uint16), raw, y, np.ones(n, dtype=bool)
    limits = terms.clip, terms.weight, terms.cap, 1 / unit
    kernel.add_leaf_sums(*loss, *records, *limits, sums, 0, n)
    assert sums[0].tolist() == with_exponential(raw, y, unit, falling_exponential)
    other = with_exponential(raw, y, unit, lambda t: np.exp(-t))
    assert sums[0].tolist() != other
    assert np.allclose(sums[0], other, atol=n * 2.0**-8)


# ---------------------------------------------------------------------- the null record


# ------------------------------------------------------- what a reader keeps of queries


def reads_like_a_new_reader(changed):
    """Whether a reader that knows other trees answers as a reader that knows none.

    `changed` maps trees and values to those of the next query.
    """
    terms = terms_of("logistic", 1, 0.6, 0.8)
    codes = codes_of(MIXED, 300)
    source = source_of(codes, targets_of("logistic", codes))
    trees = draw_trees(MIXED, n_trees=4, max_depth=4, seed=1)
    values = np.random.default_rng(0).normal(size=(3, trees.n_leaves, 1))
    start, same = np.zeros(1), []
    reader = query_of(terms, trees, 300).open(source)
    for done in (1, 2, 2, 3, 1):
        query = query_of(terms, trees, 300, values[:done], start)
        fresh = query.total(query.open(source), None)
        same.append(np.array_equal(query.total(reader, None), fresh))
        trees, values, start = changed(trees, values, start)
    return all(same)


def overwritten(trees, values, start):
    values[0] += 0.5
    return trees, values, start


CHANGES = {
    "nothing": lambda trees, values, start: (trees, values, start),
    "values where they are": overwritten,
    "values of another model": lambda trees, values, start: (trees, -values, start),
    "an earlier tree": lambda trees, values, start: (
        replace(trees, cut=trees.cut[[1, 0, 2, 3]]),
        values,
        start,
    ),
    "the start": lambda trees, values, start: (trees, values, start + 1),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_reader_notices_what_changes_between_queries(what, monkeypatch):
    assert reads_like_a_new_reader(CHANGES[what])

    def trusting(self, grown):
        return self._done != b"" and self._n_done <= len(grown)

    monkeypatch.setattr(LeafReader, "_continues", trusting)
    assert what == "nothing" or not reads_like_a_new_reader(CHANGES[what])


def test_a_query_keeps_the_values_that_it_was_made_of():
    terms, codes = terms_of("logistic", 1, 0.6, 0.8), codes_of(MIXED, 300)
    source = source_of(codes, targets_of("logistic", codes))
    trees = draw_trees(MIXED, n_trees=2, max_depth=4, seed=1)
    values, start = np.ones((1, trees.n_leaves, 1)), np.zeros(1)
    query = query_of(terms, trees, 300, values, start)
    expected = query.total(query.open(source), None)
    for own in (values, start, trees.cut, trees.rank):
        own[:] = 0
    assert np.array_equal(query.total(query.open(source), None), expected)


def test_each_tree_is_added_once_though_later_trees_are_drawn_anew(monkeypatch):
    """Also by a reader in another process, which gets copies of queries."""
    added, n_trees = [], 6
    monkeypatch.setattr(module, "add_values", lambda *given: added.append(given))
    terms, codes = terms_of("logistic", 1, 0.6, 0.8), codes_of(MIXED, 300)
    source = source_of(codes, targets_of("logistic", codes))
    reader, grown = None, GrownTrees.of(np.zeros(1))
    trees = draw_trees(MIXED, n_trees=n_trees, max_depth=4, seed=0)
    for t in range(n_trees):
        if t % 2 == 0:
            other = draw_trees(MIXED, n_trees=n_trees, max_depth=4, seed=t)
            for name in ("feature", "cut", "rank"):
                getattr(trees, name)[t:] = getattr(other, name)[t:]
        query = pickle.loads(pickle.dumps(LeafSums(terms, trees[t], grown, 300)))
        reader = query.open(source) if reader is None else reader
        query.total(reader, None)
        grown = grown.plus(trees[t], np.ones((trees.n_leaves, 1)))
    assert len(added) == n_trees - 1
