"""frank_wolfe: its sums, its sensitivities, its optimum and what must not matter."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import Lasso

from skdp.losses import LogisticLoss, SoftmaxLoss, SquaredLoss
from skdp.papers import _frank_wolfe as module
from skdp.papers import _frank_wolfe_kernel as kernel
from skdp.papers._frank_wolfe import (
    ENTRY_BITS,
    SUM_BITS,
    FrankWolfe,
    IntegerRows,
    VertexScores,
    score_sensitivity,
)
from skdp.privacy.noise._noise import NoiseSource
from skdp.sums._floating import GradientSum
from skdp.tables._memory import MemorySource
from skdp.tables._views import EntriesClipped
from tests.door import planned, refusal, run
from tests.papers.problem import BUDGET, by_adjacency, objective_of
from tests.spies import NoNoise, SpyNoise

LOGISTIC, SQUARED = LogisticLoss(), SquaredLoss(2.0, target_bound=1.0)
by_loss = pytest.mark.parametrize("loss", [LOGISTIC, SQUARED], ids=repr)


def problem(adjacency="replace_one", n=60, d=30, **facts):
    facts = {"n_nonzero": 8, "data_norm": 3.0, "feature_bound": 1.0} | facts
    return objective_of(n, d, adjacency=adjacency, **facts)


def resolved(objective, **params):
    return planned(FrankWolfe, objective, BUDGET, **params)


def table(n=60, d=30, seed=0):
    """Sparse rows, some entries and rows beyond their bounds, and targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.3)
    X[0] *= 50
    return X, rng.integers(0, 2, n).astype(float)


def scores_of(X, y, objective, per_unit, present=None):
    source = EntriesClipped(MemorySource(X, y, present), objective.feature_bound)
    return VertexScores(IntegerRows.read(source, objective), objective, per_unit)


def walk(scores, path, most=10**6):
    """Scores after each of the moves: (keep, candidate, weight)."""
    scores.update(most, 8)
    for move in path:
        scores.move(*move)
        scores.update(most, 8)
    return scores


def random_path(objective, steps=12, radius=2.0, seed=1):
    rng, path = np.random.default_rng(seed), []
    for t in range(steps):
        share, candidate = 2 / (t + 2), int(rng.integers(objective.n_columns))
        path.append((1 - share, candidate, share * radius * rng.choice([-1.0, 1.0])))
    return path


# What is kept up to date is what summing anew would give --------------------------


@by_loss
def test_sums_kept_up_to_date_are_the_sums_taken_anew(loss):
    objective, (X, y) = problem(loss=loss), table()
    scores = walk(scores_of(X, y, objective, 200.0), random_path(objective))
    rows = scores._rows.by_row.toarray().astype(np.int64)
    rows = np.hstack([rows, np.full((len(y), 1), 2**ENTRY_BITS)])
    assert np.array_equal(scores.ranking.scores, -rows.T @ scores._residuals)
    # At once instead of step by step: the same integers.
    again = scores_of(X, y, objective, 200.0)
    again._raw[:] = scores._raw
    again.update(10**6, 8)
    assert np.array_equal(again.ranking.scores, scores.ranking.scores)


class Plain:
    """The loops as Python runs them."""

    round_residuals = staticmethod(kernel.round_residuals.py_func)
    add_to_score = staticmethod(kernel.add_to_score.py_func)
    add_by_rows = staticmethod(kernel.add_by_rows.py_func)
    add_by_columns = staticmethod(kernel.add_by_columns.py_func)


def test_by_rows_and_by_columns_compiled_or_not_sums_are_the_same(monkeypatch):
    objective, found = problem(alpha=0.7), []
    for in_order, own in ((3, kernel), (0, Plain), (10**6, kernel), (10**6, Plain)):
        monkeypatch.setattr(module, "_IN_ORDER", in_order)
        scores = scores_of(*table(), objective, 200.0)
        scores._kernel = own
        found.append(walk(scores, random_path(objective, steps=4)).ranking)
    for other in found[1:]:
        assert np.array_equal(other.scores, found[0].scores)
        assert np.array_equal(other.starts, found[0].starts)


# One record against another -------------------------------------------------------


def records(objective, rng):
    """Two records that may stand first in a table."""
    for sign in (1.0, rng.choice([-1.0, 1.0])):
        row = np.where(rng.random(objective.n_features) < 0.7, 0.0, sign)
        row[0], target = sign, float(rng.integers(0, 2))
        yield row, target * 2 - 1 if objective.loss is SQUARED else target


def largest_change(loss, adjacency, clip):
    """Largest change of a score found, over the sensitivity."""
    objective = problem(adjacency, n=12, loss=loss, data_norm=50.0)
    solver = resolved(objective, l1_radius=6.0, residual_clip=clip)
    per_unit = solver.residual_steps / solver.residual_bound(objective, 1.0)
    most, worst = solver.residual_steps, 0.0
    for seed in range(40):
        (X, y), sums = table(12, 30, seed), []
        path = random_path(objective, steps=4, radius=6.0, seed=seed)
        path.append((0.0, 0, 6.0 * (-1) ** seed))
        for i, (X[0], y[0]) in enumerate(
            records(objective, np.random.default_rng(seed))
        ):
            present = np.ones(12, dtype=bool)
            present[0] = adjacency != "zero_out" or i == 0
            scores = scores_of(X, y, objective, per_unit, present)
            sums.append(walk(scores, path, most).ranking.scores.copy())
        worst = max(worst, float(np.abs(sums[0] - sums[1]).max()))
    return worst / score_sensitivity(most, objective)


@by_loss
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out", "replace_user"])
@pytest.mark.parametrize("clip", [math.inf, 0.25])
def test_no_neighbour_moves_a_score_by_more_than_the_sensitivity(loss, adjacency, clip):
    # So near that the sensitivity of zero_out would be exceeded under replace_one.
    assert 0.9 < largest_change(loss, adjacency, clip) <= 1


@by_loss
@by_adjacency
def test_the_first_choice_has_a_smaller_sensitivity(loss, adjacency):
    """At w = 0 a logistic residual is a half, a squared one the target.

    Two opposite records attain it; half of it would be exceeded.
    """
    objective = problem(adjacency, n=1, loss=loss, data_norm=50.0)
    params = {"l1_radius": 9.0, "residual_clip": math.inf, "n_steps": 3}
    solver, choices = resolved(objective, **params), []
    for sign in (1.0, -1.0):
        present = np.array([adjacency == "replace_one" or sign > 0])
        target = np.array([1.0 if loss is LOGISTIC else -1.0])
        noise = SpyNoise(seed=0)
        source = MemorySource(sign * np.ones((1, 30)), target, present)
        run(solver, source, objective, 1.0, noise)
        choices.append(noise.choices)
    first, second, third = [choice.sensitivity for choice in choices[0]]
    assert second == third == score_sensitivity(solver.residual_steps, objective)
    assert first / second == pytest.approx(0.5, rel=0.02)
    assert np.abs(choices[0][0].scores - choices[1][0].scores).max() == first


def test_the_intercept_is_as_sensitive_as_a_feature_at_its_bound():
    objective = problem("zero_out", n=1, data_norm=30.0)
    scores = scores_of(np.ones((1, 30)), np.zeros(1), objective, 64.0)
    scores.update(32, 8)
    assert set(scores.ranking.scores.tolist()) == {-score_sensitivity(32, objective)}


@pytest.mark.parametrize("value", [1e308, 1e200, 5e-324, -1e308])
@pytest.mark.parametrize("storage", [np.asarray, csr_array])
def test_extreme_records_stay_within_the_sensitivity(value, storage):
    objective, (X, y), sums = problem(n=12, data_norm=2.0), table(12), []
    for row in (X[0], np.where(np.arange(30) % 2, value, -value)):
        stored = storage(np.vstack([row, X[1:]]))
        with np.errstate(all="ignore"):
            scores = walk(
                scores_of(stored, y, objective, 64.0), random_path(objective), 64
            )
        sums.append(scores.ranking.scores)
    assert np.abs(sums[0] - sums[1]).max() <= score_sensitivity(64, objective)


def test_a_rows_integers_do_not_tell_whether_another_row_is_beside_it():
    """Of users how many rows there are is private, and so is how long a block is."""
    X = np.asfortranarray(np.random.default_rng(59).normal(size=(2, 5)), dtype="f4")
    # Where an entry is half a step, but for the last bit of the row's norm.
    facts = {"data_norm": 1.0, "feature_bound": 0.9999596585115106, "n_nonzero": None}
    objective = problem("replace_user", 2, 5, **facts)
    alone, beside = (
        IntegerRows.read(MemorySource(rows, np.zeros(len(rows))), objective)
        for rows in (X[:1], X)
    )
    assert np.array_equal(alone.by_row.toarray()[0], beside.by_row.toarray()[0])


def test_null_records_are_in_no_sum():
    objective, (X, y) = problem("zero_out"), table()
    present = np.arange(60) % 3 > 0
    path = random_path(objective)
    some = walk(scores_of(X, y, objective, 64.0, present), path)
    left = replace(objective, n_samples=40)
    alone = walk(scores_of(X[present], y[present], left, 64.0), path)
    assert np.array_equal(some.ranking.scores, alone.ranking.scores)


# The optimum, and what must not matter --------------------------------------------


def test_without_noise_it_reaches_the_lasso_of_the_same_radius():
    rng = np.random.default_rng(3)
    X, w = rng.uniform(-1, 1, size=(300, 40)), np.zeros(40)
    w[[3, 8, 20]] = [0.3, -0.2, 0.1]
    y = np.clip(X @ w + 0.05 * rng.normal(size=300), -1, 1)
    lasso = Lasso(alpha=0.02, fit_intercept=False, tol=1e-12).fit(X, y).coef_
    facts = {"loss": SQUARED, "data_norm": 10.0, "n_nonzero": 40}
    objective = problem(n=300, d=40, fit_intercept=False, **facts)

    def excess(radius):
        params = {"n_steps": 1500, "l1_radius": radius, "residual_steps": 2**18}
        solver = resolved(objective, residual_clip=math.inf, **params)
        found = run(solver, MemorySource(X, y), objective, 1.0, NoNoise())
        found = found.weights.ravel()
        assert np.abs(found).sum() <= radius * (1 + 1e-12)
        values = [np.mean((X @ v - y) ** 2) / 2 for v in (found, lasso)]
        return values[0] - values[1], np.abs(found - lasso).max()

    radius = float(np.abs(lasso).sum())
    value, distance = excess(radius)
    assert abs(value) < 1e-5
    assert distance < 0.01
    assert excess(0.8 * radius)[0] > 1e-4  # a twin in another ball is elsewhere


class InParts(MemorySource):
    def __init__(self, *data):
        super().__init__(*data)
        self.facts = replace(self.facts, largest_block=7)


def weights_of(X, y, factor=1.0, kind=MemorySource):
    objective = problem(data_norm=3.0 * factor, feature_bound=factor)
    source = EntriesClipped(kind(X * factor, y), factor)
    solver = resolved(objective, n_steps=10)
    return factor * run(solver, source, objective, 3.0, NoiseSource(2)).weights


def test_units_storage_and_blocks_do_not_matter():
    X, y = table()
    S, plain = csr_array(X), weights_of(X, y)
    before = S.data.copy(), X.copy()
    assert np.count_nonzero(plain[:30]) <= 8
    assert np.allclose(weights_of(X, y, 1024.0), plain, rtol=1e-12)
    for stored, kind in ((S, MemorySource), (X, InParts), (S, InParts)):
        assert np.array_equal(weights_of(stored, y, kind=kind), plain)
    # Data are left as they are.
    assert np.array_equal(S.data, before[0])
    assert np.array_equal(X, before[1])


# The range of whole numbers -------------------------------------------------------


def test_several_outputs_and_too_many_records_are_refused_with_a_remedy():
    several = refusal(FrankWolfe, problem(loss=SoftmaxLoss(3)), BUDGET)
    assert "Use solver='iht'. See https:" in several
    many = problem(n=2**30)
    records = refusal(FrankWolfe, many, BUDGET, residual_steps=4096)
    assert "at most 2047 'residual_steps'" in records
    assert refusal(FrankWolfe, many, BUDGET, residual_steps=2047) == ""
    # The rule is coarser where sums would not be whole.
    assert 2**30 * resolved(many).residual_steps * 2**ENTRY_BITS < 2**SUM_BITS
    beyond = refusal(FrankWolfe, problem(n=2**41), BUDGET)
    assert "so many records" in beyond


def test_scores_are_gradients_up_to_the_rounding_of_residuals():
    objective, (X, y) = problem(), table()
    scores = walk(scores_of(X, y, objective, 64.0), random_path(objective))
    source = EntriesClipped(MemorySource(X, y), objective.feature_bound)
    gradient = GradientSum(source, objective)(scores.weights()).ravel()
    gradient[-1] *= objective.entry_bound / objective.intercept_value
    unit = objective.entry_bound / 2**ENTRY_BITS / 64.0
    error = np.abs(gradient + scores.ranking.scores * unit)
    entries = np.append(np.count_nonzero(X, axis=0), len(y))
    # Entries are rounded to 2^-20 of their bound.
    assert np.all(error <= entries * 0.5 / 64.0 + len(y) * 1e-5)


def test_candidates_are_kept_in_the_order_of_their_levels():
    objective = problem()
    scores = scores_of(*table(), objective, 200.0)
    scores.update(10**6, 4)
    for move in random_path(objective):
        scores.move(*move)
        scores.update(10**6, 4)
        ranking = scores.ranking
        ranking.settle()
        levels = (np.abs(ranking.scores) >> 4) - ranking.first
        levels = np.clip(levels, 0, len(ranking.starts) - 2)
        assert np.all(np.diff(levels[ranking.order]) >= 0)
