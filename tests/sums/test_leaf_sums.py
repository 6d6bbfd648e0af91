"""Sums over leaves: neighbours searched, bounds attained, bits and twins."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize

from skdp.ensemble._trees import draw_trees
from skdp.losses import CauchyLoss, HuberHingeLoss, PoissonLoss
from skdp.losses._base import LossId, falling_exponential
from skdp.losses._classification import WeightedLoss, heaviest, without_weights
from skdp.losses._regression import ShiftedPoissonLoss
from skdp.privacy.release._plan import Bound, Layout
from skdp.sums import _leaves_kernel as kernel
from skdp.sums._leaves import LeafReader, LeafSums, LeafTerms
from tests.ensemble.coded import (
    MIXED,
    a_leaf_for_each_code,
    codes_of,
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
    terms_of("poisson", 1, 1.0, 2.0, cap=1.5, origin=1.5),
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
    ("quantile", 1),
]
every_loss = pytest.mark.parametrize(("loss", "n_outputs"), LOSSES)


def query_of(terms, trees, n, values=None, start=None):
    values = (
        np.zeros((0, trees.n_leaves, terms.n_outputs)) if values is None else values
    )
    start = np.zeros(terms.n_outputs) if start is None else start
    return LeafSums(terms, trees, start, values, n)


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
    if terms.loss.form is LossId.SHIFTED_POISSON:
        return rng.uniform(-30, 3, size=(n, 1)), rng.uniform(-1.5, 1.5, n)
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


@every_term
def test_broken_twin_of_the_other_relation_is_found(terms):
    assert searched(terms, "replace_one", 5) > 1.3 * terms.bound().zero_out


def test_broken_twin_that_forgets_one_leaf_is_found():
    """As if the exchanged record stayed in its leaf, and as if it never did."""
    heavy, light = terms_of("squared", 1, 0.5, 2.0), terms_of("logistic", 1, 0.7, 1.5)
    assert searched(heavy, "replace_one", 5) > 1.5 * 2 * heavy.clip
    apart = math.sqrt(2) * light.bound().zero_out
    assert searched(light, "replace_one", 5) > 1.3 * apart


@pytest.mark.parametrize("weight", [2.9, 4.0, math.nan, -0.1])
def test_curvatures_that_no_bound_is_proved_for_are_refused(weight):
    with pytest.raises(ValueError, match="Terms of leaves must"):
        terms_of("logistic", 1, 0.5, weight)


def test_broken_twin_of_too_much_curvature_would_pass_its_bound(monkeypatch):
    """Beyond sqrt(8) a smaller residual may come with a larger vector."""
    monkeypatch.setattr("skdp.sums._leaves.MOST_CURVATURE", 9.0)
    terms = terms_of("logistic", 1, 1.0, 8.0)
    assert searched(terms, "zero_out", 5) > 1.2 * terms.bound().zero_out


def unweighted(terms):
    return replace(terms, loss=without_weights(terms.loss))


WEIGHED = [terms for terms in TERMS if terms.loss.label_weights]


@every_adjacency
@pytest.mark.parametrize("terms", WEIGHED, ids=str)
def test_broken_twin_that_charges_the_second_weight_is_found(terms, adjacency):
    plain = unweighted(terms).bound().under(adjacency)
    charged = plain * heaviest(terms.loss)[1]
    assert searched(terms, adjacency, 5) > 1.02 * charged


@every_adjacency
def test_broken_twin_that_forgets_weights_above_one_is_found(adjacency, monkeypatch):
    monkeypatch.setattr(WeightedLoss, "__post_init__", lambda self: None)
    terms = terms_of("logistic", 1, 0.5, 2.0, label_weights=(1.0, 5.0))
    plain = unweighted(terms).bound().under(adjacency)
    assert searched(terms, adjacency, 5) > 2 * plain
    assert searched(terms, adjacency, 5) <= terms.bound().under(adjacency) * 1.001


@pytest.mark.parametrize("terms", WEIGHED, ids=str)
def test_weights_multiply_all_that_a_record_adds(terms):
    raw, y = random_records(terms, np.random.default_rng(0))
    own = np.take(terms.loss.label_weights, y.astype(int))[:, None]
    plain = added(unweighted(terms), raw, y)
    assert added(terms, raw, y) == pytest.approx(own * plain, abs=1e-11)


def test_two_labels_of_unequal_weight_cost_less_than_twice_the_larger():
    light = terms_of("logistic", 1, 0.5, 1.0, label_weights=(1.0, 0.2))
    twice = 2 * light.bound().zero_out
    assert light.bound().replace_one < 0.75 * twice


def test_broken_twin_of_quantiles_without_a_count_or_at_half_the_residual_is_found():
    heavy = terms_of("quantile", 1, 1.0, 1.0, level=0.9)
    assert searched(heavy, "zero_out", 5) > 1.4 * 0.9
    # Residuals of at most the level, as if nobody were below.
    low = terms_of("quantile", 1, 1.0, 0.05, level=0.2)
    assert searched(low, "zero_out", 5) > 3 * math.hypot(0.2, 0.05)


def test_broken_twin_of_counts_without_a_cap_is_found(monkeypatch):
    """Curvatures that are charged for means up to the cap, and not cut off there."""
    honest = kernel.add_leaf_sums

    def uncapped(*arguments):
        *records, clip, weight, cap, unit, sums, first, last = arguments
        honest(*records, clip, 10 * weight, 10 * cap, unit, sums, first, last)

    terms = terms_of("poisson", 1, 0.5, 0.5, cap=0.3)
    monkeypatch.setattr(kernel, "add_leaf_sums", uncapped)
    for adjacency in ("zero_out", "replace_one"):
        assert searched(terms, adjacency, 5) > 1.5 * terms.bound().under(adjacency)


@pytest.mark.parametrize(
    ("loss", "facts", "message"),
    [
        ("quantile", {"level": 0.0}, "'level'"),
        ("quantile", {"level": 1.0}, "'level'"),
        ("poisson", {"origin": -1e-9}, "'origin'"),
        ("poisson", {"cap": 0.0}, "a cap above 0"),
        ("poisson", {"cap": math.nan}, "a cap above 0"),
        ("logistic", {"label_weights": (1.0, 1.1)}, "'label_weights'"),
        ("logistic", {"label_weights": (1.0, 0.0)}, "'label_weights'"),
    ],
)
def test_facts_that_no_bound_is_proved_for_are_refused(loss, facts, message):
    with pytest.raises(ValueError, match=message):
        terms_of(loss, 1, 0.5, 0.5, **facts)


@pytest.mark.parametrize("loss", [HuberHingeLoss(), CauchyLoss(), PoissonLoss(1.0)])
def test_losses_that_no_bound_is_proved_for_are_refused(loss):
    with pytest.raises(ValueError, match="a loss with a proved bound"):
        LeafTerms(loss, 0.5, 0.5)


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
    return query.total(reader, rows), query


@every_loss
def test_sums_are_those_of_plain_numpy(loss, n_outputs):
    terms = terms_of(loss, n_outputs, 0.6, 0.8)
    codes = codes_of(MIXED, 400)
    y = targets_of(loss, codes, n_outputs)
    found, query = fitted_sums(terms, codes, y)
    raw = np.tile(query.start, (len(y), 1))
    for t, values in enumerate(query.values):
        raw += values[walked(query.trees, t, codes)]
    expected = np.zeros_like(found)
    np.add.at(expected, walked(query.trees, 2, codes), plainly(terms, raw, y))
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
    if terms.loss.form is LossId.SHIFTED_POISSON:
        mean = np.minimum(np.exp(raw[:, 0]), 2.0)
        error = np.clip(mean - (y + 1), -terms.clip, terms.clip)
        return np.column_stack([error, terms.weight * np.minimum(mean, 1)])
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


@every_loss
def test_any_order_and_any_number_of_threads_give_the_same_bits(loss, n_outputs):
    terms = terms_of(loss, n_outputs, 0.6, 0.8)
    codes = codes_of(MIXED, 1001)
    y = targets_of(loss, codes, n_outputs)
    order = np.random.default_rng(1).permutation(len(y))
    alone, _ = fitted_sums(terms, codes, y)
    for n_threads in (1, 2, 3, 7):
        found, _ = fitted_sums(terms, codes[order], y[order], n_threads=n_threads)
        assert np.array_equal(alone, found)


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


def test_broken_twin_of_sums_in_doubles_depends_on_the_order():
    terms = terms_of("logistic", 1, 0.6, 0.8)
    rng = np.random.default_rng(0)
    each = plainly(terms, rng.normal(size=(1001, 1)), rng.integers(0, 2, 1001))
    orders = [each[rng.permutation(1001)] for _ in range(5)]
    assert len({np.add.reduce(order, axis=0).tobytes() for order in orders}) > 1


@every_loss
def test_sums_are_whole_units_and_the_slack_covers_their_rounding(loss, n_outputs):
    terms = terms_of(loss, n_outputs, 0.6, 0.8)
    for n in (2, 10**6, 10**9):
        query = query_of(terms, ONE_EACH, n)
        assert n * 4 / query.unit <= 2**53
        assert query.slack(Layout(1)) >= 2 * math.sqrt(terms.width) * query.unit / 2
        assert query.slack(Layout(1)) < 1e-5
    raw, y = random_records(terms, np.random.default_rng(2))
    found = added(terms, raw, y) / query_of(terms, ONE_EACH, 255).unit
    assert np.array_equal(found, np.rint(found))


# ---------------------------------------------------------------------- the null record


def is_without_trace(loss, n_outputs):
    terms = terms_of(loss, n_outputs, 0.6, 0.8)
    codes = codes_of(MIXED, 50)
    y = targets_of(loss, codes, n_outputs)
    present = np.arange(50) < 49
    other, target = codes.copy(), y.copy()
    other[-1], target[-1] = (codes[-1] + 1) % 2, y[0]
    sums = [
        fitted_sums(terms, *table)[0]
        for table in ((codes, y, present), (other, target, present))
    ]
    less = fitted_sums(terms, codes[:49], y[:49])[0]
    return all(np.array_equal(less, each) for each in sums)


@every_loss
def test_the_null_record_leaves_no_trace(loss, n_outputs, monkeypatch):
    assert is_without_trace(loss, n_outputs)
    honest = kernel.add_leaf_sums

    def blind(form, constants, leaves, raw, y, is_present, *rest):
        everyone = np.ones_like(is_present)
        honest(form, constants, leaves, raw, y, everyone, *rest)

    monkeypatch.setattr(kernel, "add_leaf_sums", blind)
    assert not is_without_trace(loss, n_outputs)


def test_rows_that_are_chosen_are_summed_and_no_others():
    terms = terms_of("logistic", 1, 0.6, 0.8)
    codes = codes_of(MIXED, 60)
    y = targets_of("logistic", codes)
    rows = np.array([3, 4, 50])
    present = np.arange(60) != 4
    found, _ = fitted_sums(terms, codes, y, present, rows=rows)
    chosen = np.isin(np.arange(60), [3, 50])
    assert np.array_equal(found, fitted_sums(terms, codes, y, chosen)[0])


# ------------------------------------------------------- what a reader keeps of queries


def test_a_reader_starts_again_where_released_values_are_others():
    terms = terms_of("logistic", 1, 0.6, 0.8)
    codes = codes_of(MIXED, 300)
    y = targets_of("logistic", codes)
    trees = draw_trees(MIXED, n_trees=3, max_depth=4, seed=1)
    ask = partial(query_of, terms, trees, len(y))
    rng = np.random.default_rng(0)
    one, two = (rng.normal(size=(2, trees.n_leaves, 1)) for _ in range(2))
    reader = ask().open(source_of(codes, y))
    for query in (ask(one), ask(one[:1]), ask(two), ask(two, np.ones(1)), ask()):
        fresh = query.open(source_of(codes, y))
        assert np.array_equal(query.total(reader, None), query.total(fresh, None))


def notices_overwritten_values():
    """Whether a tree's values, changed where they lie, are found to be others."""
    terms = terms_of("logistic", 1, 0.6, 0.8)
    codes = codes_of(MIXED, 300)
    source = source_of(codes, targets_of("logistic", codes))
    trees = draw_trees(MIXED, n_trees=4, max_depth=4, seed=1)
    values = np.random.default_rng(0).normal(size=(3, trees.n_leaves, 1))
    reader = query_of(terms, trees, 300).open(source)
    same = []
    for done in (1, 2, 2, 3):
        query = query_of(terms, trees, 300, values[:done])
        fresh = query.total(query.open(source), None)
        same.append(np.array_equal(query.total(reader, None), fresh))
        values[0] += 0.5
    return all(same)


def test_released_values_that_are_overwritten_are_noticed(monkeypatch):
    assert notices_overwritten_values()

    def trusting(self, start, values):
        return self._start is not None and self._n_done <= len(values)

    monkeypatch.setattr(LeafReader, "_continues", trusting)
    assert not notices_overwritten_values()


def test_bounds_are_given_for_tables_alone():
    bound = TERMS[0].bound()
    assert bound.norm == 2
    of_records = Bound(zero_out=bound.zero_out, replace_one=bound.replace_one)
    assert bound == of_records.with_user_bounds()


@pytest.mark.parametrize("origin", [1e18, 1e200, math.inf, math.nan, -1.0])
def test_origins_at_which_steps_would_be_no_numbers_are_refused(origin):
    with pytest.raises(ValueError, match="'origin'"):
        ShiftedPoissonLoss(origin)
