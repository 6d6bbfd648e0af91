"""knowledge_transfer: all privacy is the teacher's, the student the nearest model."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

from skdp import DPSparseLinearRegression
from skdp.papers._two_stage import KnowledgeTransfer
from skdp.solvers import SOLVERS
from skdp.solvers._registry import named_solver
from tests import door
from tests.door import event_of, planned, refusal
from tests.papers.problem import BUDGET, PURE, by_adjacency, objective_of, source
from tests.spies import SpyNoise

OBJECTIVE = objective_of(60, 8, data_norm=2.0, n_nonzero=3, adjacency="replace_one")
DENSE = replace(OBJECTIVE, n_nonzero=None)
STEPS = {"teacher": "noisy_gd", "teacher_params": {"n_steps": 3}}


def correlated_rows(m=200, d=8, seed=0):
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(d, d)) + 2 * np.eye(d)
    return rng.normal(size=(m, d)) @ mixing * 10.0 ** rng.uniform(-1, 1, d) + 3


def some_weights(seed=1):
    return np.random.default_rng(seed).normal(size=(9, 1))


def resolved(objective=OBJECTIVE, **params):
    return planned(KnowledgeTransfer, objective, BUDGET, **params)


def student_on(rows, weights, objective=OBJECTIVE):
    with np.errstate(all="ignore"):  # as `solve` does
        solver = resolved(objective, public_rows=rows, **STEPS)
        return solver.student(weights, objective)


@by_adjacency
@pytest.mark.parametrize("teacher", ["noisy_gd", "nesterov", "output_perturbation"])
def test_event_sensitivity_and_noise_are_the_teacher_s(teacher, adjacency):
    """The student is computed from what the teacher released, and from nothing else."""
    objective, dense = (replace(x, adjacency=adjacency) for x in (OBJECTIVE, DENSE))
    solver = resolved(objective, teacher=teacher)
    alone = planned(SOLVERS[teacher], dense, BUDGET)
    assert event_of(solver, 3.0, objective) == event_of(alone, 3.0, dense)
    assert solver.sensitivity(objective) == alone.sensitivity(dense)
    student, released = (
        door.run(each, source(60, 8), problem, 2.0, SpyNoise(5))
        for each, problem in ((solver, objective), (alone, dense))
    )
    assert student.noise_scale == released.noise_scale
    assert np.array_equal(student.weights, solver.student(released.weights, objective))


def largest_of(weights, k=3):
    kept = np.argsort(-np.abs(weights[:8, 0]))[:k]
    expected = np.zeros_like(weights)
    expected[kept], expected[8:] = weights[kept], weights[8:]
    return expected


def test_isotropic_rows_leave_the_largest_weights():
    weights = some_weights()
    student = resolved(**STEPS).student(weights, OBJECTIVE)
    assert np.array_equal(student, largest_of(weights))
    # The same by least squares on rows of exactly these second moments.
    simulated = student_on(np.vstack([np.eye(8), -np.eye(8)]), weights)
    assert np.allclose(simulated, student, atol=1e-6)


def error_on(rows, weights, student):
    constant = np.full((len(rows), 1), OBJECTIVE.intercept_value)
    return np.linalg.norm(np.hstack([rows, constant]) @ (weights - student))


def best_error(rows, weights, k=3):
    """Over all choices of k columns, the intercept free."""
    target, centred = rows @ weights[:8, 0], rows - rows.mean(axis=0)
    target -= target.mean()
    left = [
        np.linalg.lstsq(centred[:, list(chosen)], target)[1][0]
        for chosen in combinations(range(8), k)
    ]
    return np.sqrt(min(left))


def test_student_on_public_rows_is_near_the_best_and_better_than_the_largest_weights():
    worse = []
    for seed in range(10):
        rows, weights = correlated_rows(seed=seed), some_weights(seed)
        student = student_on(rows, weights)
        assert np.count_nonzero(student[:8]) <= 3
        found, best = error_on(rows, weights, student), best_error(rows, weights)
        assert best * (1 - 1e-6) <= found < 2 * best
        worse.append(error_on(rows, weights, largest_of(weights)) / found)
    assert min(worse) > 1
    assert np.median(worse) > 3


@pytest.mark.parametrize("storage", [np.asarray, csr_array])
@pytest.mark.parametrize("scale", [1e-300, 1e-161, 1e-154, 1e300])
def test_columns_of_any_size_give_a_finite_student(storage, scale):
    """Inverse deviations may not overflow, nor products of units become inf * 0."""
    rows = correlated_rows()
    rows[:, [2, 5]] *= scale
    for size in (0.0, 1e-200, 1e49):
        assert np.isfinite(student_on(storage(rows), np.full((9, 1), size))).all()


def test_refusals():
    short = refusal(KnowledgeTransfer, OBJECTIVE, BUDGET, public_rows=np.ones((5, 3)))
    assert "8 columns. Got 3. Use" in short
    teacher = refusal(KnowledgeTransfer, OBJECTIVE, PURE, teacher="noisy_gd")
    assert "needs another teacher" in teacher
    assert not refusal(KnowledgeTransfer, OBJECTIVE, PURE)
    for params, message in [
        ({"teacher": LogisticRegression()}, "LogisticRegression.*vouch"),
        ({"teacher": "exact"}, "one record decides which features.*Use None"),
        ({"teacher": "iht"}, "selects features. Use it as the solver"),
        ({"teacher": "noisy_gd", "teacher_params": 3}, "None or a mapping"),
        ({"teacher_params": {"n_steps": 3}}, "Name the solver"),
        ({"public_rows": "gaussian"}, "'isotropic' or rows"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            named_solver("knowledge_transfer", params)


def test_rows_are_kept_as_they_were_and_named_by_their_digest():
    rows, weights = correlated_rows(), some_weights(0)
    solver = resolved(public_rows=rows)
    same = resolved(public_rows=csr_array(rows).toarray())
    before = solver.student(weights, OBJECTIVE)
    rows[0] += 1e3
    assert solver == same
    assert hash(solver) == hash(same)
    assert np.array_equal(solver.student(weights, OBJECTIVE), before)
    assert solver != resolved(public_rows=rows)
    named = resolved(public_rows=rows).params["public_rows"]
    assert (named["shape"], len(named["digest"])) == ((200, 8), 64)


def test_as_an_estimator_s_solver():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (3000, 8))
    params = {"public_rows": rng.uniform(-1, 1, (100, 8))}
    facts = {"data_norm": 3.0, "n_nonzero_coefs": 2, "target_bounds": (-2, 2)}
    facts |= {"solver": "knowledge_transfer", "solver_params": params}
    model = DPSparseLinearRegression(50.0, **facts).fit(X, X[:, 3] - X[:, 6])
    assert list(model.get_support(indices=True)) == [3, 6]
    record = json.loads(model.privacy_.to_json())
    assert record["solver_params"]["teacher"] == "nesterov"
    assert ["law", "gaussian"] in record["solver_params"]["teacher_params"]
    assert record["solver_params"]["public_rows"]["shape"] == [100, 8]
    assert "public_rows" in record["assumed_public"]
