"""Weights shrunk to what they are worth: rules, and what is made of the answers.

Exact audits are in tests/audit/test_shrunken.py.
"""

from __future__ import annotations

import math
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.base import clone

from skdp import DPLinearRegression, DPLinearSVC, DPLogisticRegression
from skdp.data import MemorySource
from skdp.exceptions import BudgetExceeded
from skdp.losses import LogisticLoss, SoftmaxLoss, SquaredLoss
from skdp.objectives import LinearObjective
from skdp.privacy import Budget, BudgetLedger, epsilon_of
from skdp.privacy._answers import Released
from skdp.solvers import choose_solver, solve
from skdp.solvers._as_they_come import as_they_come, leverage
from skdp.solvers._margins import target_scale
from skdp.solvers._progress import Progress
from skdp.solvers._scaled_targets import ScaledTargets
from skdp.solvers._shrunken import Candidates, Shrunken, best_share, known
from skdp.solvers._strength import share_of_gains, strength_of
from tests.door import OpenDoor
from tests.spies import SpyLedger, SpyNoise, SpySource

N, D = 4000, 5
BUDGET = Budget(1.0, 1e-6)
MODELS = {
    "logistic": (DPLogisticRegression, {"classes": [0, 1]}),
    "softmax": (DPLogisticRegression, {"classes": [0, 1, 2]}),
    "svc": (DPLinearSVC, {"classes": [0, 1]}),
    "regression": (DPLinearRegression, {"target_bounds": (-9, 9)}),
}
every_model = pytest.mark.parametrize("name", MODELS)


def objective(loss=None, n=N, adjacency="zero_out", **facts):
    return LinearObjective(
        loss=loss or LogisticLoss(),
        n_samples=n,
        n_features=D,
        data_norm=1.0,
        adjacency=adjacency,
        **facts,
    )


def table(n=N, signal=4.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, D)) / math.sqrt(D)
    raw = signal * X @ np.resize([2.0, -2.0], D)
    return X, (raw + rng.logistic(size=n) > 0).astype(int)


def unfitted(name, epsilon=1.0, **params):
    kind, needs = MODELS[name]
    return kind(epsilon, **needs | {"random_state": 0} | params)


def fit(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


def released(*values, deviation):
    return Released(np.array(values), deviation, deviation)


# --------------------------------------------------------------------- when it is asked


def test_nothing_is_asked_where_nothing_could_be_told():
    few = objective(n=20)
    for adjacency in ("replace_one", "zero_out"):
        budget = Budget(0.1, 1e-6)
        assert strength_of(20, budget, adjacency) < 15
        solver = as_they_come(replace(few, adjacency=adjacency), budget).solver
        assert not isinstance(solver, (Shrunken, ScaledTargets))


def test_the_share_falls_with_what_is_known():
    shares = [share_of_gains(s) for s in (14.9, 15, 100, 300, 1000, 1e5)]
    assert shares[0] == 0
    assert shares[1] == 0.15
    assert shares[1:] == sorted(shares[1:], reverse=True)
    assert shares[-1] == 0.005


@pytest.mark.parametrize(
    "facts", [{"alpha": 1e-3}, {"fit_intercept": False}, {"n_nonzero": 2}]
)
def test_who_asked_for_more_gets_what_was_asked_for(facts):
    solver = choose_solver("auto", None, objective(**facts), BUDGET).solver
    assert not isinstance(solver, (Shrunken, ScaledTargets))


def test_named_solvers_are_as_their_pages_say():
    for key in ("noisy_gd", "nesterov"):
        assert choose_solver(key, None, objective(), BUDGET).solver.key == key
    pure = choose_solver("auto", None, objective(), Budget(1.0, 0.0)).solver
    assert pure.key == "objective_perturbation"


def test_leverage_is_of_what_is_learned():
    """A record is one in n of each parameter learned, and of no more than there are."""
    parameters = [
        leverage(objective(n=n), BUDGET) * n * LogisticLoss().curvature_trace
        for n in (100, 1000, 10_000, 10**6)
    ]
    assert parameters == sorted(parameters)
    assert parameters[0] < 0.99 * D
    assert parameters[-1] == pytest.approx(D)


def test_rows_of_more_features_than_records_get_less_noise():
    def flow(d):
        asked = replace(objective(n=2000), n_features=d)
        inner = as_they_come(asked, Budget(2.0, 1e-6)).solver.inner
        return inner.params["n_steps"]

    assert flow(2000) < 0.8 * flow(1999)


def test_a_regression_scales_its_targets_first():
    solver = as_they_come(objective(SquaredLoss(2.0, 1.0)), BUDGET).solver
    assert isinstance(solver, ScaledTargets)
    assert isinstance(solver.inner, Shrunken)
    assert solver.named == solver.inner.named == "noisy_gd"


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize(
    "loss", [LogisticLoss(), SoftmaxLoss(3), SquaredLoss(2.0, 1.0)]
)
def test_the_whole_budget_is_used_and_no_more(loss, adjacency):
    asked = objective(loss, adjacency=adjacency)
    solver = as_they_come(asked, BUDGET).solver
    source = MemorySource(np.zeros((N, D)), np.zeros(N))
    door = OpenDoor(BUDGET, adjacency=adjacency)
    _, answers = solve(solver, source, asked, door, label="fit", progress=Progress())
    assert 0.999 < epsilon_of(answers.event, BUDGET.delta) <= 1.0


# ------------------------------------------------------------- what is made of answers


def test_the_share_that_is_worth_most():
    assert best_share(released(10.0, 7.0, 4.0, deviation=1.0)) == 1.0
    assert best_share(released(-10.0, 7.0, 4.0, deviation=1.0)) == 0.5
    assert best_share(released(-10.0, -7.0, 4.0, deviation=1.0)) == 0.25
    assert best_share(released(-10.0, -7.0, -4.0, deviation=1.0)) == 0.0


def test_noise_is_no_gain_and_no_difference():
    assert best_share(released(0.9, -9.0, -9.0, deviation=1.0)) == 0.0
    assert best_share(released(6.6, 7.0, 4.0, deviation=1.0)) == 1.0
    assert best_share(released(6.4, 7.0, 4.0, deviation=1.0)) == 0.5


def test_a_mean_within_its_noise_is_not_known():
    assert known(released(1.9, deviation=1.0), 10) == 0
    assert known(released(0.0, deviation=1.0), 10) == 0
    assert known(released(0.0, deviation=0.0), 10) == 0
    assert known(released(4.0, deviation=1.0), 10) == pytest.approx(0.3)
    assert known(released(4.0, deviation=0.0), 10) == pytest.approx(0.4)


def candidates(coef, intercept, mean, loss=None, **facts):
    asked = objective(loss, **facts)
    answer = Released(np.array(mean) * N, 0.0, 0.0)
    return Candidates.of(
        np.atleast_2d(coef), np.array(intercept), answer, asked, asked.loss.flattening
    )


def test_all_of_the_weights_keep_their_intercept():
    found = candidates(np.arange(D), [0.7], [0.3])
    assert found.at(1.0) == pytest.approx(0.7)


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0])
def test_intercepts_keep_the_mean_prediction(share):
    """Where weights are noise, over rows of the norm they are clipped to."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20_000, 40))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    coef, intercept = 1.5 * rng.normal(size=40), np.array([-1.0])
    asked = replace(objective(n=len(rows)), n_features=40)
    products = rows @ coef
    answer = Released(np.array([products.sum()]), 0.0, 0.0)
    found = Candidates.of(coef[None], intercept, answer, asked, asked.loss.flattening)
    before = expit(intercept + products).mean()
    after = expit(found.at(share) + share * products).mean()
    assert after == pytest.approx(before, abs=0.01)
    if share < 1:  # the twin whose intercept stays as it is
        assert abs(expit(intercept + share * products).mean() - before) > 0.015


def test_a_regression_keeps_its_mean():
    found = candidates(np.arange(D), [0.7], [0.3], SquaredLoss(2.0, 1.0))
    assert found.at(0.0) == pytest.approx(1.0)
    assert found.at(0.5) == pytest.approx(0.85)


# ------------------------------------------------------------------------------ models


@every_model
def test_weights_without_a_signal_are_shrunk_and_those_with_one_kept(name):
    X, y = table(8000)
    noise = np.random.default_rng(1).permutation(y)
    assert fit(unfitted(name), X, y).shrinkage_ >= 0.5
    shares = [
        fit(unfitted(name, 0.2, random_state=seed), X[:2000], noise[:2000]).shrinkage_
        for seed in range(8)
    ]
    assert np.mean(shares) < 0.5
    assert set(shares) <= {0.0, 0.25, 0.5, 1.0}


@every_model
def test_sparse_and_dense_rows_give_the_same(name):
    X, y = table()
    dense, sparse = fit(unfitted(name), X, y), fit(unfitted(name), csr_array(X), y)
    assert dense.shrinkage_ == sparse.shrinkage_
    assert np.allclose(dense.coef_, sparse.coef_, rtol=1e-6, atol=1e-6)


@every_model
def test_what_is_fitted_says_so(name):
    X, y = table()
    model = fit(unfitted(name), X, y)
    told = model.privacy_.solver_params
    assert (
        told["shrinkage"]["share"]
        == share_of_gains(strength_of(N, BUDGET, "replace_one"))
        or name == "regression"
    )
    assert model.privacy_.solver in ("noisy_gd", "nesterov")
    assert pickle.loads(pickle.dumps(model)).shrinkage_ == model.shrinkage_
    assert not hasattr(clone(model), "shrinkage_")
    fit(model.set_params(solver="noisy_gd"), X, y)
    assert not hasattr(model, "shrinkage_")


@every_model
def test_without_privacy_nothing_changes(name):
    X, y = table()
    model = fit(unfitted(name, math.inf), X, y)
    assert not hasattr(model, "shrinkage_")


def test_a_regression_in_a_corner_of_its_bounds_learns():
    X, _ = table(8000)
    target = 90 + 4 * X @ np.resize([2.0, -2.0], D)
    model = unfitted("regression", target_bounds=(-100, 100))
    assert fit(model, X, target).score(X, target) > 0.9
    plain = clone(model).set_params(solver="noisy_gd")
    assert fit(plain, X, target).score(X, target) < fit(model, X, target).score(
        X, target
    )


@pytest.mark.parametrize(
    ("part", "epsilon"),
    [(0.03, 10.0), (0.05, 1.0), (0.05, 10.0), (0.08, 1.0), (0.12, 1.0)],
)
def test_rare_targets_far_from_all_others_are_not_cut_off(part, epsilon):
    rng = np.random.default_rng(1)
    far = rng.random(20_000) < part
    X = np.c_[far, 0.1 * rng.normal(size=(20_000, 2))] / 1.6
    y = np.where(far, 80 + 5 * rng.normal(size=20_000), 0.0).clip(0, 100)
    model = unfitted("regression", epsilon, target_bounds=(0, 100))
    assert fit(model, X, y).score(X, y) > 0.9


@pytest.mark.parametrize("noise", [0.0, 0.001, 0.01])
def test_the_scale_is_that_of_the_targets(noise):
    rng = np.random.default_rng(0)
    knots = np.linspace(-1, 1, 33)
    shares = np.exp(-(((knots + 0.9) / 0.1) ** 2))
    shares /= shares.sum()
    halves = [
        target_scale(shares + noise * rng.normal(size=33), noise).half
        for _ in range(200)
    ]
    assert 0.15 < np.median(halves) < 0.4
    far = 0.9 * shares + 0.1 * (knots == 0.75)
    found = target_scale(far + noise * rng.normal(size=33), noise)
    assert found.middle + found.half > 0.4


# ----------------------------------------------------------------- through the one door


@pytest.mark.parametrize("loss", [LogisticLoss(), SquaredLoss(2.0, 1.0)])
def test_nothing_is_read_before_the_commit(loss, tmp_path):
    diary = []
    SpyLedger.diary = diary
    ledger = SpyLedger(
        tmp_path / "books.db", epsilon=9.0, delta=1e-5, adjacency="zero_out"
    )
    X, y = table(600)
    asked = objective(loss, n=600)
    solver = as_they_come(asked, BUDGET, has_ledger=True).solver
    door = OpenDoor(BUDGET, adjacency="zero_out", ledger=ledger)
    source = SpySource(MemorySource(X, y.astype(float)), diary)
    solve(solver, source, asked, door, label="fit", progress=Progress())
    assert diary[0] == "commit"
    assert diary.count("commit") == 1
    assert "read" in diary


def test_a_refused_fit_reads_and_spends_nothing(tmp_path):
    ledger = BudgetLedger(
        tmp_path / "books.db", epsilon=0.5, delta=1e-5, adjacency="replace_one"
    )
    X, y = table(600)
    with pytest.raises(BudgetExceeded):
        fit(unfitted("logistic", ledger=ledger, random_state=None), X, y)
    assert not ledger.spends()


@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(3)])
def test_noise_drawn_is_noise_declared(loss):
    asked = objective(loss, n=600)
    solver, noise = as_they_come(asked, BUDGET).solver, SpyNoise(seed=0)
    X, y = table(600)
    door = OpenDoor(BUDGET, adjacency="zero_out", noise=noise)
    solution, answers = solve(
        solver,
        MemorySource(X, y.astype(float)),
        asked,
        door,
        label="fit",
        progress=Progress(),
    )
    z, (part, *lines) = answers.noise_multiplier, solver.plan(asked).lines
    *steps, mean, gains = noise.draws
    assert len(steps) == sum(line.times for line in part.plan.lines)
    for draw, line in zip((mean, gains), lines, strict=True):
        assert draw.noise_multiplier == line.multiplier(z)
    assert mean.query.size == loss.n_outputs
    assert gains.query.size == 3
    assert solution.shrinkage == best_share(
        released(*gains.released, deviation=gains.sigma)
    )
