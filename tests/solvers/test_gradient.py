"""Gradient sums: agreement of storages, clipping, sensitivity over neighbours."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix

from skdp.losses import HuberHingeLoss, LogisticLoss, SoftmaxLoss, SquaredLoss
from skdp.losses._classification import WeightedLoss
from skdp.losses._objective import LinearObjective
from skdp.sums._floating import GradientSum, rounding_slack
from skdp.tables._memory import MemorySource
from tests.gradients import query_sensitivity

LOSSES = [
    LogisticLoss(),
    SoftmaxLoss(3),
    SquaredLoss(2.0),
    HuberHingeLoss(),
    HuberHingeLoss(n_outputs=3),
    WeightedLoss(LogisticLoss(), (0.3, 1.0)),
    WeightedLoss(SoftmaxLoss(3), (1.0, 1.0, 0.3)),
]
by_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
by_adjacency = pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
# A quick search, and a long one for `make test-all`.
by_rounds = pytest.mark.parametrize(
    "rounds", [250, pytest.param(1500, marks=pytest.mark.slow)]
)


def make_problem(**changes):
    facts = {"n_samples": 300, "n_features": 4, "data_norm": 1.0}
    facts |= {"loss": LogisticLoss(), "adjacency": "replace_one"}
    return LinearObjective(**(facts | changes))


def make_data(loss, n=300, d=4, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = scale * rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    return X, rng.integers(0, max(2, loss.n_outputs), n).astype(float)


def plain_sum(objective, X, y, W, clip=math.inf):
    """The definition, one record after the other."""
    total = np.zeros_like(W)
    for x, target in zip(X, y, strict=True):
        row = x * min(1.0, objective.data_norm / max(np.linalg.norm(x), 1e-300))
        if objective.fit_intercept:
            row = np.append(row, objective.intercept_value)
        residual = objective.loss.residual(np.array([target]), (row @ W)[None, :])[0]
        own = clip * dict(enumerate(objective.loss.label_weights)).get(int(target), 1.0)
        residual = residual * min(1.0, own / max(np.linalg.norm(residual), 1e-300))
        total += np.outer(row, residual)
    return total


def weights(objective, scale=2.0, seed=9):
    shape = (objective.n_columns, objective.loss.n_outputs)
    return scale * np.random.default_rng(seed).normal(size=shape)


@by_loss
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("clip", [math.inf, 0.3])
def test_blocks_storages_and_definition_agree(loss, fit_intercept, clip):
    objective = make_problem(loss=loss, fit_intercept=fit_intercept, data_norm=0.8)
    X, y = make_data(loss)
    W = weights(objective)
    expected = plain_sum(objective, X, y, W, clip)
    for stored in (X, np.asfortranarray(X), csr_array(X), csr_matrix(X)):
        for block in (7, 64, 300):
            source = MemorySource(stored, y)
            source.facts = replace(source.facts, largest_block=block)
            found = GradientSum(source, objective, clip)
            assert np.allclose(found(W), expected, rtol=1e-12, atol=1e-12)
            assert np.array_equal(found(W), found(W))  # kept factors change nothing


@by_loss
def test_null_records_contribute_exactly_nothing(loss):
    objective = make_problem(loss=loss)
    X, y = make_data(loss)
    W = weights(objective)
    present = np.random.default_rng(3).random(len(y)) < 0.6
    masked = GradientSum(MemorySource(X, y, present), objective)(W)
    expected = plain_sum(objective, X[present], y[present], W)
    assert np.allclose(masked, expected, rtol=1e-12, atol=1e-12)
    # A row of zeros is another thing: its intercept column still speaks.
    zeroed = np.where(present[:, None], X, 0.0)
    assert not np.allclose(GradientSum(MemorySource(zeroed, y), objective)(W), masked)


def neighbours(objective, rng):
    """Two neighbouring data sets that differ in the first record, adversarially."""
    n, d, R = 5, objective.n_features, objective.data_norm
    X = R * rng.normal(size=(n, d))
    top = max(1, objective.loss.n_outputs - 1)
    y = rng.integers(0, top + 1, n).astype(float)
    X2, y2 = X.copy(), y.copy()
    kind = rng.integers(4)
    X2[0] = [
        R * rng.normal(size=d),
        X[0],
        -X[0],
        -X[0] + 0.02 * R * rng.normal(size=d),
    ][kind]
    y2[0] = rng.integers(0, top + 1)
    if isinstance(objective.loss, SquaredLoss):
        y[0], y2[0] = 50 * rng.choice([-1, 1], 2)
    present = np.ones(n, dtype=bool)
    if objective.adjacency == "zero_out":
        present[0] = False
        X2, y2 = X, y
    else:
        present = None
    return MemorySource(X, y), MemorySource(X2, y2, present)


def largest_share_of(stated, objective, clip=math.inf, weight=1.0, rounds=250):
    """Largest difference over neighbours, as a share of the stated sensitivity."""
    shape = np.ones((objective.n_columns, 1))
    shape[-1] = weight if objective.fit_intercept else 1.0
    rng = np.random.default_rng(17)
    largest = 0.0
    for _ in range(rounds):
        a, b = neighbours(objective, rng)
        scale = np.exp(rng.uniform(-3, 5)) / objective.data_norm
        W = scale * rng.normal(size=(objective.n_columns, objective.loss.n_outputs))
        if rng.random() < 0.2:
            W[:] = 0
        norm = float(np.linalg.norm(W / shape, 2))
        difference = GradientSum(a, objective, clip)(W)
        difference -= GradientSum(b, objective, clip)(W)
        stated_value = stated(objective, clip, norm, weight)
        share = np.linalg.norm(shape * difference) / stated_value
        largest = max(largest, float(share))
    return largest


@by_loss
@by_adjacency
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("data_norm", [0.1, 12.0])
@by_rounds
def test_neighbours_never_exceed_the_sensitivity(
    loss, adjacency, fit_intercept, data_norm, rounds
):
    objective = make_problem(
        loss=loss,
        n_samples=5,
        n_features=2,
        adjacency=adjacency,
        data_norm=data_norm,
        fit_intercept=fit_intercept,
    )
    share = largest_share_of(query_sensitivity, objective, rounds=rounds)
    assert share <= 1 + 1e-9
    assert share > 0.75  # the search is strong enough to see a factor of 4/3


def half(objective, clip, norm, weight):
    return query_sensitivity(objective, clip, norm) / 2


def without_intercept_column(objective, clip, norm, weight):
    """The un-noised intercept of other libraries: rows counted with norm R."""
    bare = replace(objective, fit_intercept=False)
    return query_sensitivity(bare, clip, norm)


def halved_under_the_other_adjacency(objective, clip, norm, weight):
    """zero_out taken as half of replace_one, and used under replace_one."""
    other = replace(objective, adjacency="zero_out")
    return query_sensitivity(other, clip, norm)


def radius_without_the_row_norm(objective, clip, norm, weight):
    return query_sensitivity(objective, clip, norm / objective.row_norm)


@pytest.mark.parametrize(
    "twin",
    [
        half,
        without_intercept_column,
        halved_under_the_other_adjacency,
        radius_without_the_row_norm,
    ],
)
def test_broken_sensitivities_are_found_out(twin):
    objective = make_problem(n_samples=5, n_features=2, data_norm=12.0)
    assert largest_share_of(twin, objective) > 1.05


def test_summation_error_stays_below_what_is_charged():
    """Same records in another order: the float sums differ, by less than the slack."""
    loss, n, d = LogisticLoss(), 20_000, 3
    objective = make_problem(loss=loss, n_samples=n, n_features=d)
    X, y = make_data(loss, n=n, d=d)
    source = MemorySource(X, y)
    W = weights(objective)
    norm = float(np.linalg.norm(W, 2))
    slack = rounding_slack(objective, source.facts.largest_block, norm)
    sums = [
        GradientSum(MemorySource(X[order], y[order]), objective)(W)
        for order in (np.arange(n), np.arange(n)[::-1], np.argsort(X[:, 0]))
    ]
    worst = max(np.linalg.norm(a - b) for a in sums for b in sums)
    assert 0 < worst <= slack < 1e-6


@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray, csr_array])
def test_a_huge_record_changes_no_other_records_rounding(layout):
    """Found in review: a copy in another memory order moved all other products."""
    loss, n, d = LogisticLoss(), 3000, 40
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, d)), np.zeros(n)
    objective = make_problem(loss=loss, n_samples=n, n_features=d, fit_intercept=False)
    W = 1e10 * rng.normal(size=(d, 1))
    present = np.ones(n, dtype=bool)
    present[7] = False  # what is left are the others
    sums = []
    for value in (0.1, 1e150):
        X[7] = value
        source = MemorySource(layout(X), y, present)
        with np.errstate(all="ignore"):
            sums.append(GradientSum(source, objective)(W))
    assert np.array_equal(sums[0], sums[1])
