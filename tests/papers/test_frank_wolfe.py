"""frank_wolfe: its sums, its sensitivities, its optimum and its rules."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import Lasso

from skdp.losses import LogisticLoss, SoftmaxLoss, SquaredLoss
from skdp.losses._objective import LinearObjective
from skdp.papers import _frank_wolfe as vertex_scores
from skdp.papers import _frank_wolfe_kernel
from skdp.papers._frank_wolfe import (
    ENTRY_BITS,
    FrankWolfe,
    IntegerRows,
    VertexScores,
    score_sensitivity,
)
from skdp.privacy import Budget, calibrate
from skdp.privacy.noise._noise import NoiseSource
from skdp.tables._memory import MemorySource
from skdp.tables._views import EntriesClipped
from tests.door import event_of, planned, refusal, run
from tests.spies import NoNoise, SpyNoise

LOGISTIC, SQUARED = LogisticLoss(), SquaredLoss(2.0, target_bound=1.0)
LOSSES = pytest.mark.parametrize(
    "loss", [LOGISTIC, SQUARED], ids=["logistic", "squared"]
)
ADJACENCIES = pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
OBJECTIVE = LinearObjective(
    loss=LOGISTIC,
    n_samples=2000,
    n_features=500,
    data_norm=4.0,
    feature_bound=1.0,
    adjacency="replace_one",
    n_nonzero=20,
)
BUDGET = Budget(1.0, 1e-6)


def resolved(objective=OBJECTIVE, budget=BUDGET, **params):
    return planned(FrankWolfe, objective, budget, **params)


def table(n=60, d=30, seed=0, targets=2):
    """Sparse rows, some entries and rows beyond their bounds, and targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.3)
    X[0] *= 50
    return X, rng.integers(0, targets, n).astype(float)


def small_problem(adjacency="replace_one", **changes):
    values = {"n_samples": 60, "n_features": 30, "n_nonzero": 8, "data_norm": 3.0}
    return replace(OBJECTIVE, adjacency=adjacency, **(values | changes))


def scores_of(X, y, objective, per_unit, path=(), present=None):
    """Scores after each of the moves in `path`: (keep, candidate, weight)."""
    source = EntriesClipped(MemorySource(X, y, present), objective.feature_bound)
    scores = VertexScores(IntegerRows.read(source, objective), objective, per_unit)
    return scores, list(path)


def walk(scores, path, most=10**6, shift=8):
    scores.update(most, shift)
    for move in path:
        scores.move(*move)
        scores.update(most, shift)
    return scores


def random_path(objective, steps=12, radius=2.0, seed=1):
    rng = np.random.default_rng(seed)
    path = []
    for t in range(steps):
        share = 2 / (t + 2)
        candidate = int(rng.integers(objective.n_columns))
        path.append((1 - share, candidate, share * radius * rng.choice([-1.0, 1.0])))
    return path


# What is kept up to date is what summing anew would give --------------------------


@LOSSES
def test_sums_kept_up_to_date_are_the_sums_taken_anew(loss):
    objective = small_problem(loss=loss)
    X, y = table()
    scores, path = scores_of(X, y, objective, 200.0, random_path(objective))
    walk(scores, path)
    rows = scores._rows.by_row.toarray().astype(np.int64)
    rows = np.hstack([rows, np.full((len(y), 1), 2**ENTRY_BITS)])
    assert np.array_equal(scores.ranking.scores, -rows.T @ scores._residuals)
    # At once instead of step by step: the same integers.
    again, _ = scores_of(X, y, objective, 200.0)
    again._raw[:] = scores._raw
    again.update(10**6, 8)
    assert np.array_equal(again.ranking.scores, scores.ranking.scores)


class Plain:
    """The loops as Python runs them, by rows or by columns only."""

    round_residuals = staticmethod(_frank_wolfe_kernel.round_residuals.py_func)
    add_to_score = staticmethod(_frank_wolfe_kernel.add_to_score.py_func)


class ByRows(Plain):
    add_by_rows = staticmethod(_frank_wolfe_kernel.add_by_rows.py_func)


class ByColumns(Plain):
    add_by_columns = staticmethod(_frank_wolfe_kernel.add_by_columns.py_func)


@pytest.mark.parametrize(("plain", "in_order"), [(ByRows, 0), (ByColumns, 10**6)])
def test_compiled_and_plain_updates_agree_by_rows_and_by_columns(
    plain, in_order, monkeypatch
):
    objective = small_problem()
    path = random_path(objective, steps=4)
    usual, _ = scores_of(*table(), objective, 100.0)
    walk(usual, path)
    monkeypatch.setattr(vertex_scores, "_IN_ORDER", in_order)
    compiled, _ = scores_of(*table(), objective, 100.0)
    walk(compiled, path)
    slow, _ = scores_of(*table(), objective, 100.0)
    slow._kernel = plain
    walk(slow, path)
    assert np.array_equal(usual.ranking.scores, slow.ranking.scores)
    assert np.array_equal(compiled.ranking.scores, slow.ranking.scores)
    assert np.array_equal(compiled.ranking.order, slow.ranking.order)
    assert np.array_equal(compiled.ranking.starts, slow.ranking.starts)


# One record against another -------------------------------------------------------


def neighbours(objective, seed):
    """A table, and two records that may stand first in it."""
    rng = np.random.default_rng(seed)
    X, y = table(12, objective.n_features, seed)
    records = []
    for sign in (1.0, rng.choice([-1.0, 1.0])):
        row = sign * np.ones(objective.n_features) * objective.entry_bound
        row[rng.random(len(row)) < 0.7] = 0.0
        row[0] = sign * objective.entry_bound
        target = float(rng.integers(0, 2))
        records.append((row, target * 2 - 1 if objective.loss is SQUARED else target))
    return X, y, records


def largest_change(
    loss, adjacency, sensitivity=score_sensitivity, seeds=range(60), clip=math.inf
):
    """Largest change of a score found, over the sensitivity."""
    objective = small_problem(adjacency, loss=loss, n_samples=12, data_norm=50.0)
    solver = resolved(objective, l1_radius=6.0, residual_clip=clip)
    per_unit = solver.residual_steps / solver.residual_bound(objective, 1.0)
    most = solver.residual_steps
    bound = sensitivity(most, objective)
    worst = 0.0
    for seed in seeds:
        X, y, records = neighbours(objective, seed)
        path = random_path(objective, steps=4, radius=6.0, seed=seed)
        path.append((0.0, 0, 6.0 * (-1) ** seed))
        sums = []
        for i, (row, target) in enumerate(records):
            present = np.ones(12, dtype=bool)
            present[0] = adjacency != "zero_out" or i == 0
            Z, z = X.copy(), y.copy()
            Z[0], z[0] = row, target
            scores, _ = scores_of(Z, z, objective, per_unit, present=present)
            sums.append(walk(scores, path, most).ranking.scores)
        worst = max(worst, float(np.abs(sums[0] - sums[1]).max()) / bound)
    return worst


@LOSSES
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out", "replace_user"])
@pytest.mark.parametrize("clip", [math.inf, 0.25])
def test_no_neighbour_moves_a_score_by_more_than_the_sensitivity(loss, adjacency, clip):
    assert 0.9 < largest_change(loss, adjacency, clip=clip) <= 1


@LOSSES
@ADJACENCIES
def test_the_first_choice_has_a_smaller_sensitivity(loss, adjacency):
    """At w = 0 a logistic residual is a half, a squared one the target."""
    objective = small_problem(adjacency, loss=loss)
    noise = SpyNoise(seed=0)
    solver = resolved(objective, l1_radius=9.0, residual_clip=math.inf, n_steps=3)
    X, y = table()
    run(solver, MemorySource(X, y), objective, 1.0, noise)
    first, second, third = [choice.sensitivity for choice in noise.choices]
    assert second == third == score_sensitivity(solver.residual_steps, objective)
    assert first / second == pytest.approx(0.5, rel=0.02)


@LOSSES
@ADJACENCIES
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_no_neighbour_exceeds_the_smaller_sensitivity_of_the_first_choice(
    loss, adjacency, share
):
    """Two opposite records attain it; a twin that claims half of it is exceeded."""
    objective = small_problem(adjacency, loss=loss, n_samples=1, data_norm=50.0)
    solver = resolved(objective, l1_radius=9.0, residual_clip=math.inf, n_steps=1)
    target = 1.0 if loss is LOGISTIC else -1.0
    noise = SpyNoise(seed=0)
    for sign in (1.0, -1.0):
        present = np.array([adjacency == "replace_one" or sign > 0])
        source = MemorySource(sign * np.ones((1, 30)), np.array([target]), present)
        run(solver, source, objective, 1.0, noise)
    sums = [choice.scores for choice in noise.choices]
    claimed = share * noise.choices[0].sensitivity
    found = np.abs(sums[0] - sums[1]).max()
    assert (found <= claimed) == (share == 1)
    assert found >= claimed


def test_the_intercept_is_as_sensitive_as_a_feature_at_its_bound():
    objective = small_problem("zero_out", n_samples=1, data_norm=30.0)
    X, y = np.ones((1, 30)), np.zeros(1)
    scores, _ = scores_of(X, y, objective, 64.0)
    scores.update(32, 8)
    assert set(scores.ranking.scores.tolist()) == {-score_sensitivity(32, objective)}


@pytest.mark.parametrize("value", [1e308, 1e200, 5e-324, -1e308])
@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_extreme_records_stay_within_the_sensitivity(value, storage):
    objective = small_problem("replace_one", n_samples=12, data_norm=2.0)
    X, y, _ = neighbours(objective, 0)
    sums = []
    for row in (X[0], np.where(np.arange(30) % 2, value, -value)):
        Z = X.copy()
        Z[0] = row
        stored = csr_array(Z) if storage == "csr" else Z
        with np.errstate(all="ignore"):
            scores, _ = scores_of(stored, y, objective, 64.0)
            sums.append(walk(scores, random_path(objective), 64).ranking.scores)
    assert np.abs(sums[0] - sums[1]).max() <= score_sensitivity(64, objective)


def test_a_rows_integers_do_not_tell_whether_another_row_is_beside_it():
    """Of users how many rows there are is private, and so is how long a block is."""
    X = np.asfortranarray(np.random.default_rng(59).normal(size=(2, 5)), dtype="f4")
    # Where an entry is half a step, but for the last bit of the row's norm.
    objective = LinearObjective(
        loss=LogisticLoss(),
        n_samples=2,
        n_features=5,
        data_norm=1.0,
        adjacency="replace_user",
        feature_bound=0.9999596585115106,
    )
    alone, beside = (
        IntegerRows.read(MemorySource(rows, np.zeros(len(rows))), objective)
        for rows in (X[:1], X)
    )
    first = beside.by_row.toarray()[0]
    assert np.array_equal(alone.by_row.toarray()[0], first)


def test_null_records_are_in_no_sum():
    objective = small_problem("zero_out")
    X, y = table()
    present = np.arange(len(y)) % 3 > 0
    path = random_path(objective)
    some = walk(scores_of(X, y, objective, 64.0, present=present)[0], path)
    left = replace(objective, n_samples=int(present.sum()))
    alone = walk(scores_of(X[present], y[present], left, 64.0)[0], path)
    assert np.array_equal(some.ranking.scores, alone.ranking.scores)


# What is drawn --------------------------------------------------------------------


# The optimum ----------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.002, 0.02])
def test_without_noise_it_reaches_the_lasso_of_the_same_radius(alpha):
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, size=(300, 40))
    w = np.zeros(40)
    w[[3, 8, 20]] = [0.3, -0.2, 0.1]
    y = X @ w + 0.05 * rng.normal(size=300)
    y = np.clip(y, -1, 1)
    lasso = Lasso(alpha=alpha, fit_intercept=False, tol=1e-12).fit(X, y).coef_
    objective = LinearObjective(
        loss=SQUARED,
        n_samples=300,
        n_features=40,
        data_norm=10.0,
        feature_bound=1.0,
        adjacency="replace_one",
        n_nonzero=40,
        fit_intercept=False,
    )

    def excess(radius):
        solver = resolved(
            objective,
            n_steps=1500,
            l1_radius=radius,
            residual_clip=math.inf,
            residual_steps=2**18,
        )
        source = MemorySource(X, y)
        found = run(solver, source, objective, 1.0, NoNoise())
        found = found.weights.ravel()
        assert np.abs(found).sum() <= radius * (1 + 1e-12)
        values = [np.mean((X @ v - y) ** 2) / 2 for v in (found, lasso)]
        return values[0] - values[1], np.abs(found - lasso).max()

    radius = float(np.abs(lasso).sum())
    value, distance = excess(radius)
    assert abs(value) < 1e-5
    assert distance < 0.01
    assert excess(0.8 * radius)[0] > 1e-4  # a twin in another ball is elsewhere


# What must not matter -------------------------------------------------------------


def weights_of(X, y, objective=None, source=None, factor=1.0):
    objective = objective or small_problem()
    objective = replace(
        objective,
        data_norm=factor * objective.data_norm,
        feature_bound=factor * objective.feature_bound,
    )
    source = source or MemorySource(factor * X, y)
    source = EntriesClipped(source, objective.feature_bound)
    solver = resolved(objective, n_steps=10)
    z = calibrate(lambda z: event_of(solver, z, objective), BUDGET)
    return factor * run(solver, source, objective, z, NoiseSource(2)).weights


def test_units_storage_and_blocks_do_not_matter():
    X, y = table()
    plain = weights_of(X, y)
    assert np.allclose(weights_of(X, y, factor=1024.0), plain, rtol=1e-12)
    assert np.array_equal(weights_of(csr_array(X), y), plain)

    class InParts(MemorySource):
        def __init__(self, *data):
            super().__init__(*data)
            self.facts = replace(self.facts, largest_block=7)

    assert np.array_equal(weights_of(X, y, source=InParts(X, y)), plain)
    parts = InParts(csr_array(X), y)
    assert np.array_equal(weights_of(X, y, source=parts), plain)


# Rules and refusals ---------------------------------------------------------------


def test_several_outputs_and_too_many_records_are_refused_with_a_remedy():
    several = refusal(FrankWolfe, OBJECTIVE.with_loss(SoftmaxLoss(3)), BUDGET)
    assert "Use solver='iht'. See https:" in several
    many = replace(OBJECTIVE, n_samples=2**30)
    records = refusal(FrankWolfe, many, BUDGET, residual_steps=4096)
    assert "at most 2047 'residual_steps'" in records
    assert refusal(FrankWolfe, many, BUDGET, residual_steps=2047) == ""
    assert refusal(FrankWolfe, many, BUDGET, residual_steps=64) == ""
    dense = replace(OBJECTIVE, n_nonzero=None)
    assert "Use DPSparse" in refusal(FrankWolfe, dense, BUDGET)


def test_sums_of_the_most_records_fit_into_their_integers():
    """The largest sum, a penalty of the largest size beside it, and a level of both."""
    largest = 2**vertex_scores.SUM_BITS + 2**vertex_scores.SUM_BITS
    assert largest < 2**63
    objective = small_problem(alpha=1e100)
    X, y = table()
    scores = walk(scores_of(X, y, objective, 64.0)[0], random_path(objective), 64)
    assert np.abs(scores.ranking.scores.astype(float)).max() <= largest
