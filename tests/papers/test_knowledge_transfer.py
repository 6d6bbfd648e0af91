"""knowledge_transfer: all privacy is the teacher's, the student the nearest model."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from skdp import DPSparseLinearRegression, DPSparseLogisticRegression
from skdp.losses import LogisticLoss, SquaredLoss
from skdp.losses._objective import LinearObjective
from skdp.papers._two_stage import KnowledgeTransfer, PublicRows
from skdp.privacy import Budget, epsilon_of
from skdp.solvers import SOLVERS
from skdp.solvers._registry import named_solver
from skdp.tables._memory import MemorySource
from tests import door
from tests.door import event_of, planned, refusal
from tests.solvers.deaf import DeafNoise
from tests.spies import SpyNoise

LOSS = LogisticLoss()
OBJECTIVE = LinearObjective(
    loss=LOSS,
    n_samples=60,
    n_features=8,
    data_norm=2.0,
    adjacency="replace_one",
    n_nonzero=3,
)
DENSE = replace(OBJECTIVE, n_nonzero=None)
BUDGET = Budget(1.0, 1e-6)
STEPS = {"teacher": "noisy_gd", "teacher_params": {"n_steps": 3}}


def data(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 8))
    return MemorySource(X, (X[:, 2] > 0).astype(float))


def correlated_rows(m=200, d=8, seed=0):
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(d, d)) + 2 * np.eye(d)
    return rng.normal(size=(m, d)) @ mixing * 10.0 ** rng.uniform(-1, 1, d) + 3


def resolved(objective=OBJECTIVE, budget=BUDGET, **params):
    return planned(KnowledgeTransfer, objective, budget, **params)


def run(solver, objective=OBJECTIVE, noise=None, source=None, multiplier=2.0):
    noise = noise or SpyNoise(5)
    return door.run(solver, source or data(), objective, multiplier, noise)


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("teacher", ["noisy_gd", "nesterov", "output_perturbation"])
def test_event_sensitivity_and_noise_are_the_teacher_s(teacher, adjacency):
    objective, dense = (replace(x, adjacency=adjacency) for x in (OBJECTIVE, DENSE))
    solver = resolved(objective, teacher=teacher)
    alone = planned(SOLVERS[teacher], dense, BUDGET)
    assert event_of(solver, 3.0, objective) == event_of(alone, 3.0, dense)
    assert solver.sensitivity(objective) == alone.sensitivity(dense)
    student = run(solver, objective)
    released = run(alone, dense)
    assert student.noise_scale == released.noise_scale
    assert np.array_equal(student.weights, solver.student(released.weights, objective))


def largest_of(weights, k):
    kept = np.argsort(-np.abs(weights[:8, 0]))[:k]
    expected = np.zeros_like(weights)
    expected[kept], expected[8:] = weights[kept], weights[8:]
    return expected


def test_isotropic_rows_leave_the_largest_weights():
    weights = np.random.default_rng(1).normal(size=(9, 1))
    student = resolved(**STEPS).student(weights, OBJECTIVE)
    assert np.array_equal(student, largest_of(weights, 3))
    # The same by least squares on rows of exactly these second moments.
    rows = np.vstack([np.eye(8), -np.eye(8)])
    simulated = resolved(public_rows=rows, **STEPS).student(weights, OBJECTIVE)
    assert np.allclose(simulated, student, atol=1e-6)


def test_the_student_is_at_most_twice_as_far_as_the_teacher():
    """From any weights of as few features: here the true ones, and unlucky teachers."""
    rng = np.random.default_rng(3)
    solver, most = resolved(), OBJECTIVE.n_nonzero
    for _ in range(200):
        truth = np.zeros((8, 1))
        truth[rng.choice(8, most, replace=False)] = rng.normal(size=(most, 1))
        noise = rng.normal(size=(8, 1)) * 10.0 ** rng.uniform(-2, 1)
        weights = np.vstack([truth + noise, np.zeros((OBJECTIVE.n_columns - 8, 1))])
        student = solver.student(weights, OBJECTIVE)[:8]
        assert np.linalg.norm(student - truth) <= 2 * np.linalg.norm(noise)


def error_on(rows, weights, student):
    constant = np.full((len(rows), 1), OBJECTIVE.intercept_value)
    return np.linalg.norm(np.hstack([rows, constant]) @ (weights - student))


def best_error(rows, weights, k):
    """Over all choices of k columns, the intercept free."""
    target = rows @ weights[:8, 0]
    target -= target.mean()
    centred = rows - rows.mean(axis=0)
    return min(
        np.sqrt(np.linalg.lstsq(centred[:, list(chosen)], target)[1][0])
        for chosen in combinations(range(8), k)
    )


def test_student_on_public_rows_is_near_the_best_and_better_than_the_largest_weights():
    worse = []
    for seed in range(20):
        rows = correlated_rows(seed=seed)
        weights = np.random.default_rng(seed).normal(size=(9, 1))
        student = resolved(public_rows=rows, **STEPS).student(weights, OBJECTIVE)
        assert np.count_nonzero(student[:8]) <= 3
        found, best = error_on(rows, weights, student), best_error(rows, weights, 3)
        assert found >= best * (1 - 1e-6)
        assert found < 2 * best
        worse.append(error_on(rows, weights, largest_of(weights, 3)) / found)
    assert min(worse) > 1
    assert np.median(worse) > 3


def test_the_intercept_takes_up_the_mean_of_what_is_left_out():
    rows = correlated_rows()
    weights = np.random.default_rng(3).normal(size=(9, 1))
    student = resolved(public_rows=rows, **STEPS).student(weights, OBJECTIVE)
    constant = np.full((len(rows), 1), OBJECTIVE.intercept_value)
    difference = np.hstack([rows, constant]) @ (weights - student)
    assert np.abs(difference.mean()) < 1e-6 * np.abs(difference).max()
    forgotten = student.copy()
    forgotten[8] = weights[8]  # the broken twin
    assert error_on(rows, weights, forgotten) > 1.2 * error_on(rows, weights, student)
    # Without an intercept nothing is centred.
    free = replace(OBJECTIVE, fit_intercept=False)
    solver = resolved(free, public_rows=rows, **STEPS)
    alone = solver.student(weights[:8], free)
    chosen = np.flatnonzero(alone)
    products = rows[:, chosen].T @ (rows @ (weights[:8] - alone))
    assert np.abs(products).max() < 1e-6 * np.abs(rows.T @ rows).max()


def test_csr_rows_give_the_same_student_and_constant_columns_are_left_out():
    rows = np.where(np.random.default_rng(0).random((100, 8)) < 0.3, 1.5, 0.0)
    rows[:, 4] = 7.0
    weights = np.random.default_rng(1).normal(size=(9, 1))
    weights[4] = 100.0
    dense, sparse = (
        resolved(public_rows=x, **STEPS).student(weights, OBJECTIVE)
        for x in (rows, csr_array(rows))
    )
    assert np.allclose(dense, sparse, rtol=1e-9, atol=1e-12)
    assert dense[4] == 0
    assert np.isclose(dense[8], weights[8] + 700.0 / 2.0, rtol=0.01)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_students_stay_finite(scale):
    rows = correlated_rows() * scale
    solver = resolved(public_rows=rows, **STEPS)
    for size in (0.0, 1e-200, 1e49):
        with np.errstate(all="ignore"):  # as `solve` does
            student = solver.student(np.full((9, 1), size), OBJECTIVE)
        assert np.isfinite(student).all()


@pytest.mark.parametrize("storage", [np.asarray, csr_array])
def test_columns_of_any_size_give_a_finite_student(storage):
    """Inverse deviations may not overflow, nor products of units become inf * 0."""
    for scale in (1e-154, 1e-158, 1e-161, 1e-300):
        rows = correlated_rows()
        rows[:, [2, 5]] *= scale
        solver = resolved(public_rows=storage(rows), **STEPS)
        wide = replace(OBJECTIVE, n_nonzero=7)
        with np.errstate(all="ignore"):
            student = solver.student(np.ones((9, 1)), wide)
        assert np.isfinite(student).all()
    rows = np.array([[1e300] * 8, [-1e300] * 8])  # nothing is left out on average
    with np.errstate(all="ignore"):
        solver = resolved(public_rows=storage(rows), **STEPS)
        student = solver.student(np.full((9, 1), 4e49), OBJECTIVE)
    assert np.isfinite(student).all()


def test_entries_given_twice_are_summed_and_checked_again():
    places = (np.array([0, 0]), np.array([0, 2]))
    rows = PublicRows.of("rows", csr_array((np.ones(2), *places), shape=(1, 3)))
    assert rows._X.toarray().tolist() == [[2.0, 0.0, 0.0]]
    with pytest.raises(ValueError, match="infinity"):
        PublicRows.of("rows", csr_array((np.full(2, 1e308), *places), shape=(1, 3)))


class StudentOfPrivateRows(KnowledgeTransfer):
    """Broken twin: its covariates are the records."""

    def run(self, answers, objective, progress):
        rows = PublicRows.of("rows", answers._source.whole().X)
        object.__setattr__(self, "public_rows", rows)
        return super().run(answers, objective, progress)


@pytest.mark.parametrize("kind", [KnowledgeTransfer, StudentOfPrivateRows])
def test_nothing_but_the_noisy_releases_reaches_the_student(kind):
    solver = planned(kind, OBJECTIVE, BUDGET, public_rows=correlated_rows(), **STEPS)
    students = [
        run(solver, noise=DeafNoise(), source=data(seed)).weights for seed in (0, 1)
    ]
    assert np.array_equal(*students) == (kind is KnowledgeTransfer)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"teacher": LogisticRegression()}, "LogisticRegression.*vouch"),
        ({"teacher": "exact"}, "one record decides which features.*Use None"),
        ({"teacher": "lasso"}, "Without noise nothing"),
        ({"teacher": "iht"}, "selects features. Use it as the solver"),
        ({"teacher": "noisy_gd", "teacher_params": {"sigma": 1}}, "must be among"),
        ({"teacher": "noisy_gd", "teacher_params": 3}, "None or a mapping"),
        ({"teacher_params": {"n_steps": 3}}, "Name the solver"),
        ({"public_rows": "gaussian"}, "'isotropic' or rows"),
        ({"public_rows": np.array([[np.nan, 1.0]])}, "NaN"),
    ],
)
def test_wrong_parameters_are_named(params, message):
    with pytest.raises((TypeError, ValueError), match=message):
        named_solver("knowledge_transfer", params)


def test_refusals():
    rows = refusal(KnowledgeTransfer, OBJECTIVE, BUDGET, public_rows=np.ones((5, 3)))
    assert "8 columns. Got 3. Use" in rows
    pure = Budget(1.0, 0.0)
    teacher = refusal(KnowledgeTransfer, OBJECTIVE, pure, teacher="noisy_gd")
    assert "needs another teacher" in teacher
    assert "cannot do delta=0" in teacher
    assert not refusal(KnowledgeTransfer, OBJECTIVE, pure)
    assert "number of features" in refusal(KnowledgeTransfer, DENSE, BUDGET)


@pytest.mark.parametrize("loss", [LOSS, SquaredLoss(2.0, target_bound=1.0)])
def test_delta_zero_takes_a_pure_teacher(loss):
    pure = Budget(1.0, 0.0)
    objective = OBJECTIVE.with_loss(loss)
    solver = resolved(objective, budget=pure)
    assert not KnowledgeTransfer.adds_in_squares(solver.params)
    event = event_of(solver, 1.0, objective)
    assert np.isfinite(epsilon_of(event, 0.0))


def test_rows_are_kept_as_they_were_and_named_by_their_digest():
    rows = correlated_rows()
    solver = resolved(public_rows=rows)
    same = resolved(public_rows=csr_array(rows).toarray())
    assert solver == same
    assert hash(solver) == hash(same)
    weights = np.random.default_rng(0).normal(size=(9, 1))
    before = solver.student(weights, OBJECTIVE)
    rows[0] += 1e3
    assert solver == same
    assert np.array_equal(solver.student(weights, OBJECTIVE), before)
    assert solver != resolved(public_rows=rows)
    named = resolved(public_rows=rows).params["public_rows"]
    assert named["shape"] == (200, 8)
    assert len(named["digest"]) == 64


def test_as_an_estimator_s_solver():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (3000, 8))
    y = X[:, 3] - X[:, 6]
    params = {"public_rows": rng.uniform(-1, 1, (100, 8))}
    model = DPSparseLinearRegression(
        50.0,
        data_norm=3.0,
        n_nonzero_coefs=2,
        target_bounds=(-2, 2),
        solver="knowledge_transfer",
        solver_params=params,
    )
    fitted = clone(model).fit(X, y)
    assert list(fitted.get_support(indices=True)) == [3, 6]
    record = json.loads(fitted.privacy_.to_json())
    assert record["solver_params"]["teacher"] == "nesterov"
    assert ["law", "gaussian"] in record["solver_params"]["teacher_params"]
    assert record["solver_params"]["public_rows"]["shape"] == [100, 8]
    assert "public_rows" in record["assumed_public"]
    classifier = DPSparseLogisticRegression(
        50.0,
        data_norm=3.0,
        n_nonzero_coefs=2,
        classes=[0, 1, 2],
        solver="knowledge_transfer",
    ).fit(X, np.digitize(y, [-0.5, 0.5]))
    assert "public_rows" not in classifier.privacy_.assumed_public
    assert np.count_nonzero(np.any(classifier.coef_ != 0, axis=0)) == 2
