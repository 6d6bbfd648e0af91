"""The default for declared columns: what it releases, refuses, and makes of a release.

Exact audits are in tests/audit/test_centred_descent.py.
"""

from __future__ import annotations

import math
import pickle
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skdp import (
    DPGammaRegressor,
    DPGradientBoostingClassifier,
    DPGridSearchCV,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPPoissonRegressor,
    DPQuantileRegressor,
    DPStandardScaler,
    set_budget,
)
from skdp._fit import Progress, release
from skdp.columns import Boolean, Range
from skdp.exceptions import BudgetExceeded, NoiseDominatesWarning, Refused
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
from skdp.privacy.accounting._gaussian import gaussian_mu
from skdp.solvers._centred_descent import CentredDescent, CentredSolution
from skdp.solvers._centred_rows import (
    CentredStates,
    NoiseOfRun,
    States,
    kept_share,
    largest_variance,
    state_variances,
)
from skdp.solvers._default_rules import (
    LEAST_SIGNAL_TO_NOISE,
    STATES,
    Pace,
    Shares,
    row_norm,
)
from skdp.solvers._target_base import (
    Base,
    base_rate,
    clip_after,
    constant_of,
    is_of_squares,
    knots_of,
    known_mean,
    posterior_share,
    rate_clip,
    shift_to_rates,
    target_range,
)
from skdp.sums._histogram import ReleasedHistogram, consistent
from skdp.tables._memory import MemorySource
from tests.door import OpenDoor
from tests.preprocessing.tables import DECLARED, frame
from tests.solvers.centred import BUDGET, Case
from tests.spies import SpyLedger, SpyNoise, SpySource

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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
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
def test_sparse_and_dense_rows_are_predicted_alike(name, monkeypatch):
    X = frame(300)
    model = fit(unfitted(name), X)
    dense = decision(model, X)
    monkeypatch.setattr("skdp.preprocessing._encoder._SPARSE_BELOW", 2.0)
    assert np.allclose(dense, decision(model, X), rtol=1e-9, atol=1e-9)


@every_model
@every_adjacency
def test_what_is_on_the_books_is_what_was_promised(name, adjacency, tmp_path):
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
def test_pickles_and_clones(name):
    X = frame(200)
    model = fit(unfitted(name), X)
    stored = pickle.loads(pickle.dumps(model))
    assert np.array_equal(decision(stored, X), decision(model, X))
    assert not any(hasattr(clone(model), attribute) for attribute in ATTRIBUTES)


@every_model
def test_fitted_anew_without_centring(name):
    X = frame(200)
    model = fit(unfitted(name), X)
    assert all(hasattr(model, attribute) for attribute in ATTRIBUTES)
    fit(model.set_params(solver="noisy_gd"), X)
    assert not any(hasattr(model, attribute) for attribute in ATTRIBUTES)
    plain = fit(unfitted(name, solver="noisy_gd"), X)
    assert np.array_equal(decision(model, X), decision(plain, X))


@every_model
def test_without_noise_it_is_the_limit_of_much_budget(name):
    X = frame(3000)
    y = signal(X) ^ (np.random.default_rng(0).random(3000) < 0.2)
    far, without = (
        decision(fit(unfitted(name, epsilon=epsilon), X, y), X)
        for epsilon in (1e6, math.inf)
    )
    assert np.corrcoef(np.ravel(far), np.ravel(without))[0, 1] > 0.99


@every_model
def test_below_the_least_strength_it_is_a_constant_and_warns(name):
    X = frame(300)
    model = unfitted(name, epsilon=0.1)
    with pytest.warns(NoiseDominatesWarning):
        model.fit(X, np.arange(300) % 2)
    assert not np.any(model.coef_)
    assert len(model.privacy_.event.leaves) == 1
    assert model.forecast(300, len(DECLARED)).noise_dominates


@every_model
@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_the_forecast_is_what_a_fit_does(name, epsilon):
    told = unfitted(name, epsilon=epsilon).forecast(300, len(DECLARED))
    model = fit(unfitted(name, epsilon=epsilon, random_state=None), frame(300))
    record = model.privacy_
    assert (told.solver, told.why_solver) == (record.solver, record.why_solver)
    assert told.solver_params == record.solver_params
    again = model.forecast(300, len(DECLARED))
    assert again.noise_multiplier == told.noise_multiplier


def test_a_penalty_shrinks_weights_of_centred_rows():
    X = frame(2000)
    y = signal(X)
    sizes = []
    for C in (None, 1e-1, 1e-3):
        model = fit(unfitted("logistic", epsilon=20.0, C=C), X, y)
        assert hasattr(model, "center_")
        sizes.append(np.linalg.norm(model.coef_))
    assert sizes[0] > sizes[1] > sizes[2]


# ----------------------------------------------------------------- through the one door


def solved(case, source, ledger=None, noise=None):
    door = OpenDoor(BUDGET, adjacency=case.adjacency, ledger=ledger, noise=noise)
    return release(
        case.solver, source, case.objective, door, label="fit", progress=Progress()
    )


@every_adjacency
def test_nothing_is_read_before_the_commit(adjacency, tmp_path):
    case, diary = Case("logistic", adjacency), []
    SpyLedger.diary = diary
    ledger = SpyLedger(
        tmp_path / "books.db", epsilon=9.0, delta=1e-5, adjacency=adjacency
    )
    solved(case, SpySource(case.pair[0], diary), ledger)
    # Once for the targets, once for the columns; centred once for all other answers.
    assert diary == ["commit", "read", "read", "read"]


def test_a_refused_fit_reads_and_spends_nothing(tmp_path):
    case, diary = Case("logistic", "zero_out"), []
    ledger = BudgetLedger(
        tmp_path / "books.db", epsilon=0.5, delta=1e-5, adjacency="zero_out"
    )
    with pytest.raises(BudgetExceeded):
        solved(case, SpySource(case.pair[0], diary), ledger)
    assert diary == []
    assert not ledger.spends()


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


def test_only_null_records_return_normally():
    for loss in ("logistic", "squared"):
        case = Case(loss, "zero_out")
        (block,) = case.pair[0].blocks()
        gone = np.zeros(len(block.y), dtype=bool)
        solution, _ = solved(case, MemorySource(block.X, block.y, gone))
        assert isinstance(solution, CentredSolution)
        assert np.isfinite(solution.weights).all()


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


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_flow_time_is_in_proportion_to_the_strength(loss):
    def flow(strength, alpha=0.0):
        pace = Pace.of(of(loss, alpha=alpha), strength)
        return pace.n_steps * pace.flow

    assert flow(200.0) == pytest.approx(2 * flow(100.0))
    assert flow(1e3, alpha=100.0) < flow(1e3)


def test_the_base_rate_of_a_clear_count_is_the_count():
    assert base_rate(0.3, 1e-5, 2) == pytest.approx(0.3, rel=1e-3)
    assert base_rate(0.0, 0.0, 2) == 1e-9
    # Of a count that noise hides: between nothing and the noise.
    assert 0 < base_rate(0.0, 0.01, 2) < 0.01
    assert 0 < base_rate(-0.02, 0.01, 2) < 0.01
    assert 0.99 < base_rate(1.02, 0.01, 2) < 1


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


@pytest.mark.parametrize("loss", NUMBERS, ids=repr)
def test_targets_are_between_knots_that_rise(loss):
    least, most = target_range(loss)
    knots = np.array(knots_of(loss))
    assert (knots[0], knots[-1]) == (least, most)
    assert (np.diff(knots) > 0).all()
    if isinstance(loss, GammaLoss):
        assert (knots[1:] / knots[:-1]).max() < 2 + 1e-9


def test_a_mean_of_which_nothing_is_known_is_the_middle():
    for prior in ((1.0, 1.0), (2.0, 2.0), (0.5, 0.5)):
        assert posterior_share(7.0, 1e3, prior) == pytest.approx(0.5, abs=0.01)
        assert posterior_share(0.3, 1e-4, prior) == pytest.approx(0.3, abs=1e-3)
    assert posterior_share(-0.2, 0.0) == 0
    # A mean near a bound is found, and one beyond it is brought back.
    assert 0.9 < posterior_share(1.3, 0.1, (2.0, 2.0)) < 1


def test_a_constant_that_noise_hides_is_the_one_that_costs_nothing():
    loss, squared = LogisticLoss(), SquaredLoss(2.0, 1.0)
    counts = partial(ReleasedHistogram, np.array([0.1, 0.9]))
    for alone, least in ((True, 0.0), (False, 0.5)):
        (hidden,) = Base.of(loss, counts(0.5), is_alone=alone).constant
        (clear,) = Base.of(loss, counts(0.01), is_alone=alone).constant
        assert least < hidden < 1.2
        assert clear == pytest.approx(math.log(9), abs=0.2)
        (mean,) = Base.of(squared, None, 0.8, 1.0, is_alone=alone).constant
        assert least / 5 < mean < 0.3
        (mean,) = Base.of(squared, None, 0.8, 0.01, is_alone=alone).constant
        assert mean == pytest.approx(0.8, abs=0.01)
    # Hardly more than even where nothing is known.
    (hidden,) = Base.of(loss, counts(5.0), is_alone=True).constant
    assert abs(hidden) < 0.05


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


def test_mean_probabilities_of_several_labels_are_brought_to_the_base_rates():
    rates = np.array([0.45, 0.1, 0.45])
    moved = shifted(rates, [0.475, 0.05, 0.475], 1e-4)
    assert moved == pytest.approx(np.log(rates / [0.475, 0.05, 0.475]), abs=1e-3)
    assert np.array_equal(shifted(rates, rates, 1e-4), np.zeros(3))
    for released in (1e300, -1e300, 0.0):
        found = shifted(rates, [released, 0.1, 0.1], 1e-3)
        assert np.all(np.isfinite(found))
        assert np.abs(found).max() < 8


@pytest.mark.parametrize("model", [DPLogisticRegression, DPGradientBoostingClassifier])
def test_a_rare_label_of_three_has_its_base_rate(model):
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 1, (20_000, 3))
    y = np.where(X[:, 1] > 0.5, 2, 0)
    y[rng.random(len(y)) < 0.25 * X[:, 0] ** 2] = 1
    given = {"columns": (0, 1), "classes": [0, 1, 2], "random_state": 0}
    found = model(20.0, **given).fit(X, y).predict_proba(X).mean(axis=0)
    assert found[1] == pytest.approx(np.mean(y == 1), rel=0.2)


def test_no_spectrum_gives_noise_more_than_the_gate_takes():
    rng = np.random.default_rng(0)
    for strength in (50.0, 1e3, 1e5):
        pace = Pace.of(of(LogisticLoss()), strength)
        base = Base((0.0,), (0.0,), 1.0, 1.0, 0.5, (0.25,), (0.25,))
        deviations = np.full(pace.n_steps, 1 / strength)
        noise = NoiseOfRun([pace] * pace.n_steps, deviations, base, 10_000)
        for d in (2, 10, 300):
            largest, _ = largest_variance(d, noise)
            even = np.full(d, 1 / d)
            spectra = [even, *rng.dirichlet(np.full(d, 0.1), size=40)]
            spectra += [
                np.append(np.full(d - 1, far), 1 - (d - 1) * far)
                for far in even[0] * np.geomspace(1e-4, 1, 20)
            ]
            energies = [s @ noise.variance(s).sum(axis=1) for s in spectra]
            # The hull is of 66 shares.
            assert max(energies) <= largest * 1.02


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
    paces = [pace] * (pace.n_steps // 3)
    paces += [later] * (pace.n_steps - len(paces))
    base = Base((0.0,), (0.0,), 1.0, 1.0, 0.5, (0.25,), (0.0,))
    deviations = np.linspace(2.0, 1.0, pace.n_steps) / 1000
    spread = np.array([1e-6, 0.1, 1.0])
    expected = NoiseOfRun(paces, deviations, base, 10**9).variance(spread)[:, 0]
    rng = np.random.default_rng(0)
    weights, velocity, total = (np.zeros((20_000, 3)) for _ in range(3))
    for t in range(pace.n_steps):
        noise = deviations[t] * rng.normal(size=weights.shape)
        gradient = 0.25 * spread * weights + noise
        velocity = paces[t].momentum * velocity - paces[t].step_size * gradient
        weights = weights + velocity
        if t >= pace.n_steps - pace.n_steps // 2:
            total += weights
    found = np.var(total / (pace.n_steps // 2), axis=0)
    # The standard error of a variance of 20,000 is 1 %.
    assert found == pytest.approx(expected, rel=0.04)


def test_predictions_of_noise_have_the_variance_of_their_states():
    rng = np.random.default_rng(1)
    pace = Pace.of(of(LogisticLoss()), 500.0)
    base = Base((0.0,), (0.0,), 1.0, 1.0, 0.5, (0.0,), (0.0,))
    noise = NoiseOfRun([pace] * pace.n_steps, np.full(pace.n_steps, 0.01), base, 10**9)
    centred = rng.normal(size=(4, 3))
    shares = np.full(4, 0.25)
    centred -= shares @ centred
    found, deviation, _ = state_variances([centred], [shares], noise)
    # Without curvature all directions have the same noise.
    flat = noise.variance(np.zeros(1))[0, 0]
    assert np.allclose(found, flat * np.sum(centred**2, axis=1), rtol=1e-6)
    # Of predictions of such weights, by simulation; a record is in each state as often.
    weights = math.sqrt(flat) * rng.normal(size=(3, 20_000))
    ratios = np.mean((centred @ weights) ** 2, axis=0) / np.mean(found)
    assert np.mean(ratios) == pytest.approx(1, abs=0.03)
    assert np.std(ratios) == pytest.approx(deviation, rel=0.03)


@pytest.mark.parametrize("strength", [LEAST_SIGNAL_TO_NOISE, 300.0, 1e4, 1e7])
@pytest.mark.parametrize("error", [-1.0, 0.0, 0.01, 0.3, 1.0])
def test_later_steps_go_farther_where_errors_are_few_and_stay_stable(strength, error):
    loss = LogisticLoss()
    pace = Pace.of(of(loss), strength)
    later = pace.after(error, 0.01, 0.4)
    assert pace.flow <= later.flow <= 8.0001 * pace.flow
    if error == 1.0:
        assert later.flow == pytest.approx(pace.flow)
    if error <= 0:
        assert later.flow > 4 * pace.flow
    smoothness = loss.smoothness * (1 + pace.intercept_weight**2)
    assert later.step_size * smoothness < 2 * (1 + later.momentum)


@pytest.mark.parametrize("error", [-1e300, 0.0, 0.2, 1e300])
def test_a_clip_follows_errors_within_its_limits(error):
    assert 0.05 * 0.4 <= clip_after(error, 0.01, 0.4) <= 0.4
    # Normal errors of half a unit are clipped at a little more than their deviation.
    assert 0.2 < clip_after(0.8 * 0.2, 0.0, 0.4) < 0.3


def test_no_released_error_divides_by_zero():
    pace = Pace.of(of(LogisticLoss()), 500.0)
    for of_constant in (0.0, 0.4):
        for errors, noise in ((0.0, 0.0), (-0.01, 0.01), (1e300, 0.0)):
            assert math.isfinite(pace.after(errors, noise, of_constant).flow)


def test_noise_without_any_curvature_is_finite():
    pace = Pace.of(of(LogisticLoss()), 500.0)
    base = Base((0.0,), (0.0,), 1.0, 1.0, 0.5, (0.0,), (0.0,))
    noise = NoiseOfRun([pace] * pace.n_steps, np.full(pace.n_steps, 1.0), base, 10**9)
    found = [noise.variance(np.full(size, 1e-3)) for size in (3, 500)]
    assert np.allclose(found[1], found[0][0])


def test_noise_is_interpolated_between_many_curvatures():
    pace = Pace.of(of(LogisticLoss()), 500.0)
    base = Base((0.0,), (0.0,), 1.0, 1.0, 0.5, (0.25,), (0.0,))
    noise = NoiseOfRun([pace] * pace.n_steps, np.full(pace.n_steps, 1.0), base, 10**9)
    spread = np.geomspace(1e-6, 1.0, 500)
    few = np.concatenate([noise.variance(part) for part in np.split(spread, 10)])
    assert np.allclose(noise.variance(spread), few, rtol=0.02)


def test_the_gate_keeps_what_is_more_than_noise():
    kept = [kept_share(ratio, 0.0) for ratio in (-1, 1, 1.25, 1.5, 6)]
    assert kept == [0, 0, 0.5, 1, 1]
    assert kept_share(1.5, 0.25) == 0.5
    assert known_mean(0.0, 0.1) == known_mean(0.1, 0.1) == 0
    assert known_mean(-10.0, 0.1) == pytest.approx(-10, rel=1e-3)


@every_model
def test_targets_at_random_leave_next_to_nothing(name):
    X, squares = frame(3000), []
    for seed in range(8):
        y = np.random.default_rng(3 + seed).integers(0, 2, 3000)
        model = fit(unfitted(name, epsilon=1.0, random_state=seed), X, y)
        raw = decision(model, X)
        if isinstance(model, DPLinearSVC):
            # Hinges are straight between -1 and 1: noise there costs nothing.
            raw = np.maximum(np.abs(raw) - 1, 0.0)
        squares.append(np.var(raw, axis=0))
    # A fifth of a log-odds changes the log-loss by less than .005.
    assert np.max(np.mean(squares, axis=0)) < 0.2**2


@pytest.mark.parametrize("label", [0, 1])
def test_one_label_alone_is_what_is_predicted(label):
    model = fit(unfitted("logistic"), frame(2000), np.full(2000, label))
    assert (model.predict_proba(frame(100, 1))[:, label] > 0.98).all()


def test_a_rare_label_stays_as_rare_as_it_is():
    X = frame(20_000)
    y = (np.random.default_rng(0).random(20_000) < 0.005).astype(int)
    # The count alone is known to 5 % then.
    model = fit(unfitted("logistic", epsilon=4.0, adjacency="zero_out"), X, y)
    mean = model.predict_proba(X)[:, 1].mean()
    assert 0.8 < mean / y.mean() < 1.25


# ------------------------------------------------------------------- what is refused


def test_what_cannot_be_done_is_refused():
    facts = of(LogisticLoss())
    for objective, budget, text in (
        (replace(facts, fit_intercept=False), Budget(1.0, 1e-6), "intercept"),
        (facts, Budget(1.0, 0.0), "delta"),
        (replace(facts, n_nonzero=2), Budget(1.0, 1e-6), "every feature"),
    ):
        with pytest.raises(Refused, match=text):
            CentredDescent.check_possible(objective, budget)


@pytest.mark.parametrize(
    "params", [{"delta": 0.0}, {"fit_intercept": False}, {"solver": "nesterov"}]
)
def test_rows_stay_as_they_are(params):
    model = fit(unfitted("logistic", **params), frame(300))
    assert not hasattr(model, "center_")
    if "fit_intercept" in params:
        assert not model.intercept_.any()


def test_errors_and_warnings_say_the_same_of_other_data():
    said = []
    for seed in (0, 1):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = unfitted("logistic", random_state=None)
            model.fit(frame(300, seed), np.zeros(300, dtype=int))
        said.append([str(warning.message) for warning in caught])
        said.append([model.privacy_.warnings, model.privacy_.solver_params])
    assert said[:2] == said[2:]


def test_columns_that_do_not_vary():
    X = pd.DataFrame({"a": [True] * 300, "b": [0.5] * 300})
    columns = {"a": Boolean(), "b": Range(0, 1)}
    model = fit(unfitted("logistic", columns=columns), X)
    assert np.isfinite(decision(model, X)).all()
    assert model.row_norm_ > 0


# ------------------------------------------------------------------- several together


def test_it_adds_up_in_squares():
    pipeline = make_pipeline(
        DPStandardScaler(bounds=(-1, 1)), unfitted("logistic", columns=Range(-3, 3))
    )
    pipeline.set_params(dplogisticregression__random_state=None)
    pipeline = set_budget(pipeline, epsilon=8.0, delta=1e-6)
    X = np.random.default_rng(0).uniform(-1, 1, size=(500, 2))
    fit(pipeline, X)
    scaler, model = (step for _, step in pipeline.steps)
    together = sum(s.privacy_.event.gdp_mu_squared for s in (scaler, model))
    assert 0.99 < math.sqrt(together) / gaussian_mu(8.0, 1e-6) <= 1
    assert hasattr(model, "center_")


def test_a_search_is_charged_for_it(tmp_path):
    X = frame(600)
    ledger = BudgetLedger(tmp_path / "books.db", epsilon=9.0, delta=1e-5)
    model = unfitted("logistic", random_state=None, epsilon=1.0)
    grid = {"C": [None, 1.0, 100.0]}
    search = DPGridSearchCV(model, grid, epsilon=8.0, ledger=ledger, delta=1e-6)
    fit(search, X)
    assert hasattr(search.best_estimator_, "encoder_")
    (spend,) = ledger.spends()
    assert epsilon_of(spend.event, 1e-6) <= 8.0


# ------------------------------------------------------------- margins: post-processing


def test_the_nearest_shares_are_shares():
    rng = np.random.default_rng(0)
    for size in (1, 2, 5, 40):
        for spread in (1e-9, 1.0, 1e3, 1e18, 1e300):
            found = consistent(spread * rng.normal(size=size), 1.0)
            assert (found >= 0).all()
            if spread <= 1e3:
                assert found.sum() == pytest.approx(1)
    given = np.array([0.2, 0.5, 0.3])
    assert np.allclose(consistent(given, 1.0), given)
    # Against a search over a grid.
    point = np.array([0.9, 0.4, -0.5])
    grid = [
        np.array([a, b, 1 - a - b])
        for a in np.linspace(0, 1, 101)
        for b in np.linspace(0, 1 - a, 101)
    ]
    best = min(grid, key=lambda share: np.linalg.norm(share - point))
    assert np.allclose(consistent(point, 1.0), best, atol=0.01)


def test_noise_alone_is_spread_evenly():
    rng = np.random.default_rng(0)
    parts, n, deviation = (5, 2, 9), 1000, 400.0

    def shares(counts, noise):
        each = ReleasedHistogram(counts, noise).split(parts)
        return np.concatenate([part.shares for part in each])

    truth = np.concatenate([[n, 0, 0, 0, 0], [n, 0], np.full(9, n / 9)])
    clear = shares(truth / n, 0.0)
    assert np.allclose(clear, truth / n, atol=2e-3)
    even = np.repeat(1 / np.array(parts), parts)
    drowned = shares(even + rng.normal(size=16) / n, deviation / n)
    assert np.allclose(drowned, even, atol=1e-9)
    assert [p.sum() for p in np.split(clear, [5, 7])] == pytest.approx([1, 1, 1])


def test_moments_are_those_of_a_table_of_these_shares():
    rng = np.random.default_rng(0)
    states = rng.integers(0, 4, size=5000)
    basis = rng.normal(size=(4, 3))
    shares = np.bincount(states, minlength=4) / 5000
    rows = basis[states]
    # A weight picks one feature, whose variance then is that of the rows.
    for weights in np.eye(3):
        table = States((4,), csr_array(basis), weights)
        centring = CentredStates(table, shares).centring
        assert np.allclose(centring.centre, rows.mean(axis=0))
        variance = float(rows.var(axis=0) @ weights)
        assert centring.norm == pytest.approx(row_norm(variance, 1))


@pytest.mark.parametrize("released", [0.0, 1e12, -1e12, 1e300])
def test_any_release_makes_a_scale_of_targets(released):
    shares = np.full(33, released)
    shares[3] = -released
    with np.errstate(all="ignore"):  # as `solve` does
        middle, half = ReleasedHistogram(shares, 0.1).middle_and_half()
    assert -1 <= middle <= 1
    assert 1 / 16 <= half <= 2


@pytest.mark.parametrize("noise", [0.0, 0.001, 0.01])
def test_the_scale_is_that_of_the_targets(noise):
    rng = np.random.default_rng(0)
    knots = np.linspace(-1, 1, 33)
    shares = np.exp(-(((knots + 0.9) / 0.1) ** 2))
    shares /= shares.sum()

    def found(truth):
        noisy = truth + noise * rng.normal(size=33)
        return ReleasedHistogram(noisy, noise).middle_and_half()

    halves = [found(shares)[1] for _ in range(200)]
    assert 0.15 < np.median(halves) < 0.4
    far = 0.9 * shares + 0.1 * (knots == 0.75)
    middle, half = found(far)
    assert middle + half > 0.4
