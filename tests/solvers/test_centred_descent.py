"""The default for declared columns: what it releases, refuses, and makes of a release.

Exact audits are in tests/audit/test_centred_descent.py.
"""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.base import clone
from sklearn.metrics import log_loss

from skdp import (
    DPGammaRegressor,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPPoissonRegressor,
    DPQuantileRegressor,
)
from skdp._fit import Progress, release
from skdp.columns import Categories, Range
from skdp.exceptions import Refused
from skdp.losses import (
    GammaLoss,
    HuberHingeLoss,
    LogisticLoss,
    PoissonLoss,
    QuantileLoss,
    SoftmaxLoss,
    SquaredLoss,
)
from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget, BudgetLedger, epsilon_of
from skdp.privacy.release._answers import Released
from skdp.solvers import _centred_descent as module
from skdp.solvers import _default_rules as rules
from skdp.solvers._centred_descent import CentredDescent
from skdp.solvers._centred_rows import CentredStates, Numbers, States
from skdp.solvers._default_rules import (
    LEAST_SIGNAL_TO_NOISE,
    STATES,
    Pace,
    Shares,
)
from skdp.solvers._run_noise import NoiseOfRun, kept_share
from skdp.solvers._target_base import (
    Base,
    constant_of,
    is_of_squares,
    knots_of,
    known_mean,
    rate_clip,
    shift_to_rates,
)
from skdp.sums._histogram import ReleasedHistogram
from skdp.tables._memory import MemorySource
from tests.door import OpenDoor
from tests.preprocessing.tables import DECLARED, frame
from tests.solvers.centred import BUDGET, Case
from tests.spies import SpyNoise

ADJACENCIES = ("replace_one", "zero_out")
BOUNDS = {"target_bounds": (0, 1)}
# Models with what they are told.
MODELS = {
    "logistic": (DPLogisticRegression, {"classes": [0, 1]}),
    "weighted": (
        DPLogisticRegression,
        {"classes": [0, 1], "class_weight": {0: 1, 1: 3}},
    ),
    "softmax": (DPLogisticRegression, {"classes": [0, 1, 2]}),
    "svc": (DPLinearSVC, {"classes": [0, 1]}),
    "one against the rest": (DPLinearSVC, {"classes": [0, 1, 2]}),
    "regression": (DPLinearRegression, BOUNDS),
    "quantile": (DPQuantileRegressor, BOUNDS),
    "counts": (DPPoissonRegressor, BOUNDS),
    "amounts": (DPGammaRegressor, {"target_bounds": (0.5, 2)}),
}
ATTRIBUTES = ("center_", "scale_", "row_norm_")
LOSSES = [
    LogisticLoss(),
    SoftmaxLoss(3),
    HuberHingeLoss(),
    HuberHingeLoss(n_outputs=3),
    SquaredLoss(2.0, 1.0),
    QuantileLoss(0.3),
]
NUMBERS = [
    SquaredLoss(2.0, 1.0),
    QuantileLoss(0.5),
    PoissonLoss(1.0, 0.1),
    GammaLoss(0.05),
    GammaLoss(3.0),
    GammaLoss(6.9),
]
every_model = pytest.mark.parametrize("name", MODELS)
every_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES)


def unfitted(name, **params):
    kind, needs = MODELS[name]
    facts = {"columns": DECLARED, "random_state": 0, "epsilon": 8.0}
    return kind(**needs, **facts | params)


def fit(model, X, y=None):
    return model.fit(X, np.arange(len(X)) % 2 if y is None else y)


def decision(model, X):
    if hasattr(model, "decision_function"):
        return model.decision_function(X)
    return model._raw(X)


def signal(X):
    """Labels that follow from a column."""
    return X["is_in"].fillna(False).to_numpy(dtype=int)


def of(loss, n=10_000, adjacency="zero_out", **facts):
    return LinearObjective(
        loss=loss,
        n_samples=n,
        n_features=6,
        data_norm=1.0,
        adjacency=adjacency,
        **facts,
    )


# ----------------------------------------------------------------------- what it tells


def by_hand(model, rows):
    """Decisions from the fitted attributes, as the documentation says."""
    t = (rows - model.center_) * model.scale_
    length = np.linalg.norm(t, axis=1)
    factor = model.row_norm_ / np.maximum(length, model.row_norm_)
    coef = np.atleast_2d(model.coef_)
    raw = factor[:, None] * ((rows - model.center_) @ coef.T)
    raw = raw + model.center_ @ coef.T + model.intercept_
    return raw[:, 0] if raw.shape[1] == 1 else raw, length <= model.row_norm_


@every_model
@pytest.mark.parametrize("is_sparse", [False, True])
def test_decisions_follow_from_the_attributes(name, is_sparse, monkeypatch):
    if is_sparse:
        monkeypatch.setattr("skdp.preprocessing._encoder._SPARSE_BELOW", 2.0)
    X = frame(300)
    model = fit(unfitted(name, epsilon=50.0), X, signal(X))
    rows = model.encoder_.transform(X)
    rows = rows.toarray() if hasattr(rows, "toarray") else rows
    expected, is_within = by_hand(model, rows)
    found = decision(model, X)
    tolerance = 1e-9 * max(1, np.abs(expected).max())
    assert np.allclose(found, expected, rtol=0, atol=tolerance)
    assert is_within.any()
    assert not is_within.all()
    linear = rows @ np.atleast_2d(model.coef_).T + model.intercept_
    linear = linear[:, 0] if linear.shape[1] == 1 else linear
    assert np.allclose(found[is_within], linear[is_within], rtol=0, atol=tolerance)
    assert not np.allclose(found[~is_within], linear[~is_within], rtol=1e-3)


@every_model
@every_adjacency
def test_what_is_in_the_ledger_is_what_was_promised(name, adjacency, tmp_path):
    ledger = BudgetLedger(
        tmp_path / "books.db", epsilon=9.0, delta=1e-5, adjacency=adjacency
    )
    model = unfitted(name, adjacency=adjacency, ledger=ledger, random_state=None)
    fit(model, frame(300))
    (spend,) = ledger.spends()
    assert spend.event == model.privacy_.event
    assert 0.99 * 8 < epsilon_of(spend.event, model.delta) <= 8
    shares = model.privacy_.solver_params["shares"]
    sums, *_ = spend.event.leaves
    assert sums.gdp_mu_squared == pytest.approx(
        shares["states"] * spend.event.gdp_mu_squared, rel=1e-2
    )


@every_model
def test_fitted_anew_without_centring(name):
    X = frame(200)
    model = fit(unfitted(name), X)
    assert all(hasattr(model, attribute) for attribute in ATTRIBUTES)
    fit(model.set_params(solver="noisy_gd"), X)
    assert not any(hasattr(model, attribute) for attribute in ATTRIBUTES)
    plain = fit(unfitted(name, solver="noisy_gd"), X)
    assert np.array_equal(decision(model, X), decision(plain, X))


# ----------------------------------------------------------------- through the one door


def solved(case, source, ledger=None, noise=None):
    door = OpenDoor(BUDGET, adjacency=case.adjacency, ledger=ledger, noise=noise)
    return release(
        case.solver, source, case.objective, door, label="fit", progress=Progress()
    )


@every_adjacency
def test_the_first_release_bounds_all_columns_of_a_record(adjacency):
    case, draws = Case("logistic", adjacency), []
    for source in case.pair:
        noise = SpyNoise(seed=0)
        solved(case, source, noise=noise)
        draws.append(noise.draws[0])
    one, other = draws
    apart = np.linalg.norm(one.query - other.query)
    assert 0.99 * one.sensitivity < apart <= one.sensitivity * (1 + 1e-9)


@every_adjacency
@pytest.mark.parametrize("loss", ["logistic", "softmax", "squared"])
def test_noise_drawn_is_noise_declared(loss, adjacency):
    case, noise = Case(loss, adjacency), SpyNoise(seed=0)
    solution, answers = solved(case, case.pair[0], noise=noise)
    z, (*first, part) = answers.noise_multiplier, case.plan.lines
    assert case.solver.plan(case.objective) == case.plan
    drawn = [draw.noise_multiplier for draw in noise.draws]
    descent, *others, errors = part.plan.lines
    pace = case.solver.pace
    before = pace.errors_at(case.objective.loss)
    asked = [descent] * before + [errors] + [descent] * (descent.times - before)
    inner = [line.multiplier(part.multiplier(z)) for line in [*asked, *others]]
    outer = [line.multiplier(z) for line in first]
    assert sorted(drawn) == sorted(outer + inner)
    assert drawn[len(first) :] == inner
    worst = case.solver.sensitivity(case.objective) * (1 + 1e-6)
    steps = noise.draws[len(first) : len(first) + pace.n_steps + 1]
    del steps[before]
    assert all(draw.sensitivity <= worst for draw in steps)
    assert solution.noise_scale == max(draw.sigma for draw in noise.draws)


# ---------------------------------------------------------------- rules: public, pure


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("strength", [LEAST_SIGNAL_TO_NOISE, 300.0, 1e4, 1e7, math.inf])
def test_shares_add_up_and_steps_are_stable(loss, strength):
    shares = Shares.of(loss, strength, STATES.share(strength, 14))
    assert sum(vars(shares).values()) + shares.descent == pytest.approx(1)
    assert shares.descent > 0.1
    pace = Pace.of(of(loss), strength)
    # Heavy-ball steps are stable below 2 (1 + momentum) / L.
    smoothness = loss.smoothness * (1 + pace.intercept_weight**2)
    assert pace.step_size * smoothness < 2 * (1 + pace.momentum)
    assert 10 <= pace.n_steps <= 300


@pytest.mark.parametrize("released", [0.0, 1e12, -1e12, 1e300])
def test_any_release_makes_a_base(released):
    knots = np.full(33, released)
    knots[3] = -released
    noisy = partial(ReleasedHistogram, deviation=0.1)
    with np.errstate(all="ignore"):  # as `solve` does
        bases = [
            Base.of(loss, noisy(knots[: len(knots_of(loss))]), mean, 0.1)
            for loss in NUMBERS
            for mean in (None, released)
            if mean is not None or not is_of_squares(loss)
        ]
        bases += [
            Base.of(LogisticLoss(), noisy(knots[2:4])),
            Base.of(SoftmaxLoss(3), noisy(knots[2:5])),
            Base.of(PoissonLoss(1.0, 0.1), None, released, 0.1),
            Base.of(SquaredLoss(2.0, 1.0), None, released, 0.1),
        ]
    for base in bases:
        assert np.isfinite(base.offset).all()
        assert np.isfinite(base.constant).all()
        assert base.unit > 0
        assert base.residual_clip > 0


def shifted(rates, means, noise):
    """What is added to raw predictions."""
    rates, means = np.atleast_1d(rates), np.atleast_1d(means)
    found = shift_to_rates(rates.astype(float), means.astype(float), noise)
    return found if len(found) > 1 else float(found[0])


def test_a_mean_probability_is_brought_to_the_base_rate():
    # Too high by a half, and as it is.
    assert shifted(0.02, 0.03, 1e-4) == pytest.approx(-math.log(1.5), abs=0.02)
    assert shifted(0.02, 0.02, 1e-4) == 0
    # Within its noise nothing is known, and what a clip took is not missed.
    assert shifted(0.02, 0.03, 0.01) == 0
    assert shifted(0.02, 0.01, 1e-4) == 0
    assert rate_clip(np.array([0.02])) == pytest.approx(0.16)
    # Frequent labels are not clipped, so that a mean may be too low.
    assert rate_clip(np.array([0.5])) == 1
    assert shifted(0.5, 0.4, 1e-4) == pytest.approx(math.log(1.5), abs=0.02)
    for released in (1e300, -1e300, 0.0):
        assert abs(shifted(0.02, released, 1e-3)) < 8


def test_the_constant_is_the_one_that_loses_least():
    labels, shares = np.array([0.0, 1.0]), np.array([0.7, 0.3])
    (found,) = constant_of(LogisticLoss(), labels, shares, math.inf)
    assert found == pytest.approx(math.log(0.3 / 0.7))
    classes, own = np.arange(3.0), np.array([0.5, 0.3, 0.2])
    found = np.array(constant_of(SoftmaxLoss(3), classes, own, math.inf))
    assert np.allclose(np.exp(found) / np.exp(found).sum(), own)
    knots = np.linspace(-1, 1, 33)
    even = np.full(33, 1 / 33)
    (found,) = constant_of(QuantileLoss(0.25, 0.01), knots, even, math.inf)
    assert found == pytest.approx(-0.5, abs=0.05)
    (found,) = constant_of(SquaredLoss(2.0, 1.0), knots, even, math.inf)
    assert found == pytest.approx(0, abs=1e-9)


def test_noise_in_weights_is_what_a_run_of_noise_alone_makes():
    """Against simulated runs in directions of three curvatures."""
    pace = Pace.of(of(LogisticLoss()), 500.0)
    later = pace.after(0.1, 0.01, 0.5)
    assert later.flow > 4 * pace.flow
    less = replace(pace, reach=0.5).after(0.1, 0.01, 0.5)
    assert less.flow == pytest.approx(math.sqrt(pace.flow * later.flow))
    paces = [pace] * (pace.n_steps // 3)
    paces += [later] * (pace.n_steps - len(paces))
    base = Base((0.0,), (0.0,), 1.0, 1.0, 0.5, (0.25,), (0.0,))
    deviations = np.linspace(2.0, 1.0, pace.n_steps) / 1000
    spread = np.array([1e-6, 0.1, 1.0])
    expected = NoiseOfRun(paces, deviations, base, 10**9).variance(spread)[:, 0]
    found = by_simulation(paces, deviations, spread, 1.0)
    # The standard error of a variance of 20,000 is 1 %.
    assert found == pytest.approx(expected, rel=0.04)

    # A preconditioner changes the steps of each direction.
    paces = [replace(each, preconditioning=0.9, n_parts=3) for each in paces]
    speed = 1 / (0.9 * 3 * 2.0 * spread + 0.1)
    expected = NoiseOfRun(paces, deviations, base, 10**9).variance(spread, 2.0)[:, 0]
    found = by_simulation(paces, deviations, spread, speed)
    assert found == pytest.approx(expected, rel=0.04)


def by_simulation(paces, deviations, spread, speed):
    """Variance of the mean of the last half of the iterates over runs of noise."""
    rng = np.random.default_rng(0)
    weights, velocity, total = (np.zeros((20_000, len(spread))) for _ in range(3))
    for t, (pace, deviation) in enumerate(zip(paces, deviations, strict=True)):
        noise = deviation * rng.normal(size=weights.shape)
        gradient = speed * (0.25 * spread * weights + noise)
        velocity = pace.momentum * velocity - pace.step_size * gradient
        weights = weights + velocity
        if t >= len(paces) - len(paces) // 2:
            total += weights
    return np.var(total / (len(paces) // 2), axis=0)


@pytest.mark.parametrize("loss", [LogisticLoss(), SquaredLoss(2.0, 1.0)], ids=repr)
def test_with_more_signal_as_many_steps_reach_farther(loss):
    """In flat directions as far as without a limit on the number of steps."""
    paces = [Pace.of(of(loss, n=10**6), ratio, 12) for ratio in (1e3, 1e5, 1e6, 1e7)]
    few, *many = paces
    assert few == Pace.of(of(loss, n=10**6), 1e3)
    assert "n_parts" not in few.params
    assert few.n_steps < 100
    assert dependent_states().preconditioner(few) is None
    assert [pace.n_steps for pace in many] == [100] * 3
    flat = [pace.n_steps * pace.flow * pace.speed(0.0) for pace in paces]
    for ratio, reached in zip((1e5, 1e6, 1e7), flat[1:], strict=True):
        # A few steps are lost by rounding up, of which the flow has the square.
        assert reached / flat[0] == pytest.approx(ratio / 1e3, rel=0.05)
    without = Pace.of(of(loss, n=10**6), math.inf, 12)
    assert without.n_steps == 120
    assert 0.999 < without.preconditioning < 1


def dependent_states(n_columns=4, n_states=5):
    """Equal columns of one category each: their parts depend on each other fully."""
    basis = csr_array(np.eye(n_columns * n_states))
    own = States((n_states,) * n_columns, basis, np.ones(n_columns * n_states))
    shares = np.array([0.5, 0.3, 0.15, 0.05, 0.0])
    return CentredStates(own, np.tile(shares, n_columns))


def test_directions_are_found_again_and_not_saved():
    given = dependent_states()
    found = given.principal
    assert given.principal is found
    again = pickle.loads(pickle.dumps(given))
    assert list(vars(again)) == ["states", "margins", "deviation"]
    for one, other in zip(again.principal, found, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


def largest_preconditioned(pace):
    """The largest second moment of preconditioned rows of `dependent_states`."""
    given = dependent_states()
    codes = np.arange(5)
    rows = np.tile(np.eye(5)[codes], 4)
    made = given.centring.of(rows).made()
    moments = (made.T * given.margins[:5]) @ made
    found = given.preconditioner(pace)(moments)
    return float(np.max(np.abs(np.linalg.eigvals(found))))


def test_preconditioned_steps_are_stable():
    """The worst rows, whose columns depend on each other, reach the bound."""
    pace = Pace.of(of(LogisticLoss(), n=10**6), 1e6, 4)
    assert 0.8 < largest_preconditioned(pace) <= 1
    # The test sees a bound that holds for independent columns only.
    assert largest_preconditioned(replace(pace, n_parts=1)) > 2


def test_a_preconditioned_gradient_has_entries_where_rows_have():
    """Not for a state without records, and the intercept's row stays."""
    given, pace = dependent_states(), Pace.of(of(LogisticLoss(), n=10**6), 1e6, 4)
    gradient = np.ones((21, 2))
    found = given.preconditioner(pace)(gradient)
    assert np.array_equal(found[-1], gradient[-1])
    # The centred rows of a part have entries that add up to 0.
    assert np.allclose(found[:20].reshape(4, 5, 2).sum(axis=1), 0, atol=1e-6)
    assert np.allclose(found[4], found[9])


# ------------------------------------------------------ second moments of plain numbers


def test_second_moments_are_released_where_they_save_steps():
    """Not with few steps, much noise, many features, or without privacy."""
    for n, epsilon, d, expected in (
        (100_000, 1.0, 4, True),
        (10_000, 1.0, 4, False),
        (100_000, 1.0, 120, False),
        (1_000_000, 1.0, 60, True),
        (10**9, 4.0, 501, False),
        (100_000, math.inf, 4, False),
    ):
        facts = replace(of(LogisticLoss(), n=n), n_features=d)
        rows = {"rows": Numbers(d, 1.0)}
        solver = CentredDescent.planned(rows, facts, Budget(epsilon, 1e-9))
        assert solver.rows.has_moments is expected
        if expected:
            assert solver.pace.n_steps == (50 if n > 200_000 else 100)
            assert solver.pace.n_parts == 1
            assert 0.01 <= solver.shares.states <= 0.1


def skewed_rows(n=4000, d=5):
    """Correlated rows of norm at most 1 about a mean that is not 0."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, d)) * [1, 0.5, 0.3, 0.1, 0.02] @ rng.normal(size=(d, d))
    rows = 0.3 * rows / np.linalg.norm(rows, axis=1).max() + 0.2
    return rows / np.linalg.norm(rows, axis=1).max()


def given_moments(deviation=0.0):
    rows = skewed_rows()
    n, d = rows.shape
    numbers = Numbers(d, 1.0, has_moments=True)
    query = numbers.query(n)
    total = query.total(query.open(MemorySource(rows, np.zeros(n))), None)
    noise = deviation * np.random.default_rng(1).normal(size=total.shape)
    return rows, numbers.centred(Released(total + noise, deviation, 0.0), n)


@pytest.mark.parametrize("deviation", [0.0, 4.0])
def test_rows_of_numbers_have_the_released_moments(deviation):
    rows, given = given_moments(deviation)
    error = 6 * deviation / len(rows)
    assert np.allclose(given.mean, rows.mean(axis=0), atol=1e-5 + 2 * error)
    # The room for noise is its usual largest eigenvalue.
    above = given.moments - np.cov(rows.T, bias=True)
    least, *_, most = np.linalg.eigvalsh(above)
    assert least > -1e-5 - 0.3 * error
    assert most < 1e-5 + 3 * error


@pytest.mark.parametrize("has_moments", [True, False])
def test_a_continued_descent_has_the_moments_of_the_model_before(has_moments):
    _, given = given_moments()
    if not has_moments:
        numbers = replace(given.numbers, has_moments=False)
        given = replace(given, numbers=numbers, moments=None)
    facts = replace(of(LogisticLoss(), n=10**6), n_features=5)
    own = {True: Budget(0.1, 1e-9), False: Budget(4.0, 1e-9)}[has_moments]
    solver = CentredDescent.planned({"rows": Numbers(5, 1.0)}, facts, own)
    before = SimpleNamespace(centred=given, information=1e10)
    pace = solver.after(before, facts).pace
    assert pace.n_parts == int(has_moments)
    assert (given.preconditioner(pace) is None) is not has_moments


@pytest.mark.parametrize("deviation", [0.0, 4.0])
def test_preconditioned_steps_on_numbers_are_stable(deviation):
    rows, given = given_moments(deviation)
    pace = Pace.of(of(LogisticLoss(), n=10**6), 1e5, 1)
    made = given.centring.of(rows).made()
    found = given.preconditioner(pace)(made.T @ made / len(made))
    assert np.abs(np.linalg.eigvals(found)).max() <= 1
    # The test sees moments that are too small.
    small = replace(given, moments=given.moments / 4)
    small = small.preconditioner(pace)(made.T @ made / len(made))
    assert np.abs(np.linalg.eigvals(small)).max() > 1.5


def test_noise_alone_passes_the_gate_of_numbers_at_a_ratio_near_1():
    rows, given = given_moments()
    pace = Pace.of(of(LogisticLoss(), n=10**6), 1e5, 1)
    rng, made = np.random.default_rng(2), given.centring.of(rows).made()
    moments = made.T @ made / len(made)
    base = Base((0.0,), (0.0,), 1.0, 1.0, 0.5, (0.25,), (0.0,))
    deviations = np.full(pace.n_steps, 1e-4)
    run = NoiseOfRun([pace] * pace.n_steps, deviations, base, 10**9)
    variance, deviation, _ = given.variances(run)
    ratios = []
    for _ in range(400):
        weights, velocity, total = (np.zeros(5) for _ in range(3))
        for t in range(pace.n_steps):
            noisy = 0.25 * moments @ weights + 1e-4 * rng.normal(size=5)
            step = pace.step_size * given.preconditioner(pace)(noisy[:, None])[:, 0]
            velocity = pace.momentum * velocity - step
            weights = weights + velocity
            if t >= pace.n_steps - pace.n_steps // 2:
                total += weights
        mean = total / (pace.n_steps // 2)
        ratios.append(float(mean @ moments @ mean) / variance[0])
    assert 0.6 < np.mean(ratios) < 1.1
    assert deviation == pytest.approx(np.std(ratios), rel=0.4)


@pytest.mark.parametrize("C", [None, 0.5])
def test_a_preconditioned_descent_finds_the_same_minimum(C, monkeypatch):
    """With few steps and no noise: nearly the loss of many plain steps."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.uniform(-1, 1, 2000), "b": rng.choice(30, 2000)})
    X["c"] = X["a"] + 0.05 * rng.normal(size=2000)
    y = rng.random(2000) < expit(3 * X["a"] - 2 * X["c"] ** 2 + 0.1 * X["b"] - 1.5)
    columns = {
        "a": Range(-1, 1),
        "b": Categories(range(30)),
        "c": Range(-1.2, 1.2),
    }
    losses = {}
    for most in (30, 400):
        monkeypatch.setattr(rules, "_MOST_STEPS", most)
        model = DPLogisticRegression(
            math.inf, columns=columns, classes=[False, True], C=C
        ).fit(X, y)
        losses[most] = log_loss(y, model.predict_proba(X))
    assert losses[30] == pytest.approx(losses[400], abs=0.002)
    monkeypatch.setattr(rules, "_MOST_STEPS", 30)
    monkeypatch.setattr(rules, "_MOST_WANTED", 1.0)
    plain = clone(model).fit(X, y)
    assert log_loss(y, plain.predict_proba(X)) > losses[30] + 0.001


def test_the_gate_keeps_what_is_more_than_noise():
    kept = [kept_share(ratio, 0.0) for ratio in (-1, 1, 1.25, 1.5, 6)]
    assert kept == [0, 0, 0.5, 1, 1]
    assert kept_share(1.5, 0.25) == 0.5
    assert known_mean(0.0, 0.1) == known_mean(0.1, 0.1) == 0
    assert known_mean(-10.0, 0.1) == pytest.approx(-10, rel=1e-3)


# ------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("name", ["svc", "regression", "counts"])
def test_what_the_gate_refuses_leaves_the_constant(name, monkeypatch):
    bases, find = [], module.released_base

    def found(*asked):
        bases.append(find(*asked))
        return bases[-1]

    monkeypatch.setattr(module, "released_base", found)
    monkeypatch.setattr(module, "kept_share", lambda ratio, margin: 0.0)
    X = frame(300)
    model = fit(unfitted(name), X, signal(X))
    assert not model.coef_.any()
    constant = bases[0].constant[0]
    if name != "svc":
        constant = model._units().start + model._units().size * constant
    assert model.intercept_ == pytest.approx(constant)


def test_what_cannot_be_done_is_refused():
    facts = of(LogisticLoss())
    for objective, budget, text in (
        (replace(facts, fit_intercept=False), Budget(1.0, 1e-6), "intercept"),
        (facts, Budget(1.0, 0.0), "delta"),
        (replace(facts, n_nonzero=2), Budget(1.0, 1e-6), "every feature"),
    ):
        with pytest.raises(Refused, match=text):
            CentredDescent.check_possible(objective, budget)
