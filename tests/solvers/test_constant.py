"""The constant model, and descents whose intercept does not overshoot."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.special import expit, rel_entr
from scipy.stats import laplace
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skdp import (
    BudgetLedger,
    DPGammaRegressor,
    DPGradientBoostingClassifier,
    DPGradientBoostingRegressor,
    DPLinearRegression,
    DPLogisticRegression,
    DPMLPClassifier,
    DPPoissonRegressor,
    DPQuantileRegressor,
    DPRobustClassifier,
    DPStandardScaler,
    set_budget,
)
from skdp._fit import Progress
from skdp.audit import audit_estimator
from skdp.audit._exact import marked, replayed, verdict
from skdp.columns import Range
from skdp.exceptions import NoiseDominatesWarning
from skdp.losses import GammaLoss, LogisticLoss, SquaredLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget, LaplaceEvent, calibrate, epsilon_of
from skdp.privacy.accounting._gaussian import gaussian_mu
from skdp.privacy.release._answers import Released
from skdp.privacy.release._plan import Plan
from skdp.solvers._constant import AroundConstant, ConstantModel
from skdp.solvers._objective_perturbation import CertifiedProblem, certified_minimum
from skdp.solvers._target_base import base_rate, released_base
from skdp.sums._counts import StateSums
from skdp.sums._record_sums import TargetSum
from skdp.tables._memory import MemorySource

CLASSES = {"classes": [0, 1]}
MODELS = [
    DPLogisticRegression(0.01, **CLASSES),
    DPLogisticRegression(0.01, **CLASSES, delta=0.0),
    DPRobustClassifier(0.01, **CLASSES, columns=Range(-1, 1)),
    DPMLPClassifier(0.01, **CLASSES),
    DPLinearRegression(0.01, target_bounds=(0, 5)),
    DPPoissonRegressor(0.01, target_bounds=(0, 5), columns=Range(-1, 1)),
    DPGammaRegressor(0.01, target_bounds=(0.1, 5)),
    DPQuantileRegressor(0.01, target_bounds=(0, 5), delta=0.0),
]


def table(n):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, size=(n, 3))
    return X, (X[:, 0] > 0).astype(int)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_where_noise_dominates_all_records_are_predicted_alike(model):
    X, y = table(40)
    with pytest.warns(NoiseDominatesWarning, match="noise dominates"):
        model.fit(X, y)
    raw = model.predict_proba(X)[:, 1] if hasattr(model, "predict_proba") else None
    assert np.ptp(model.predict(X) if raw is None else raw) == 0
    assert "no weights" in model.privacy_.why_solver
    assert model.privacy_.epsilon == 0.01


def excess(rate, noise, is_alone):
    """Expected log-loss beyond the true rate's, over quantiles of Laplace noise."""
    quantiles = (np.arange(200) + 0.5) / 200
    draws = laplace.ppf(quantiles, scale=noise / math.sqrt(2))
    found = [base_rate(rate + draw, noise, 2, is_alone) for draw in draws]
    lost = rel_entr(rate, found) + rel_entr(1 - rate, np.subtract(1, found))
    return float(lost.mean())


@pytest.mark.parametrize("rate", [0.5, 0.38, 0.25])
def test_a_lone_constant_prefers_even_labels_only_in_much_noise(rate):
    in_little, in_much = excess(rate, 0.03, True), excess(rate, 0.1, True)
    assert in_little < 1.4 * excess(rate, 0.03, False)
    if rate == 0.5:
        assert in_much < 0.5 * excess(rate, 0.1, False)


# ------------------------------------------------------- the noise of a constant alone


ALONE = {
    "linear": DPLogisticRegression(0.1, **CLASSES, adjacency="zero_out"),
    "boosting": DPGradientBoostingClassifier(
        0.1, **CLASSES, columns=Range(-1, 1), adjacency="zero_out"
    ),
    "boosted numbers": DPGradientBoostingRegressor(
        0.1, target_bounds=(0, 1), columns=Range(-1, 1)
    ),
    "three labels": DPLogisticRegression(0.1, classes=[0, 1, 2], adjacency="zero_out"),
    "boosted labels": DPGradientBoostingClassifier(
        0.1, classes=[0, 1, 2], columns=Range(-1, 1)
    ),
    "quantile": DPQuantileRegressor(0.1, target_bounds=(0, 1)),
}
# Of two labels, zero_out: each is half of a unit from the middle. Targets of squares
# have a range of 2 units. One count of labels or knots changes by 1, or two by 1 each.
BOUNDS = {"linear": 0.5, "boosting": 0.5, "three labels": 1.0}


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.filterwarnings("ignore::skdp.exceptions.NoiseDominatesWarning")
def test_a_constant_alone_has_the_law_of_least_noise(name):
    model = clone(ALONE[name]).fit(*table(200))
    event = model.privacy_.event
    assert isinstance(event, LaplaceEvent)
    assert 0.1 * (1 - 1e-5) < event.pure_epsilon <= 0.1
    bound = BOUNDS.get(name, 2.0)
    assert model.privacy_.noise_scale == pytest.approx(bound / 0.1, rel=1e-3)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-3), (0.005, 1e-6)])
@pytest.mark.parametrize("name", ["linear", "boosting"])
@pytest.mark.filterwarnings("ignore::skdp.exceptions.NoiseDominatesWarning")
def test_a_constant_alone_keeps_epsilon_without_delta(name, epsilon, delta):
    model = clone(ALONE[name]).set_params(epsilon=epsilon, delta=delta)
    event = model.fit(*table(100)).privacy_.event
    assert isinstance(event, LaplaceEvent)
    assert epsilon * (1 - 1e-5) < event.pure_epsilon <= epsilon


@pytest.mark.parametrize("way", ["ledger", "law", "set_budget"])
@pytest.mark.parametrize("name", ALONE)
@pytest.mark.filterwarnings("ignore::skdp.exceptions.NoiseDominatesWarning")
def test_a_constant_whose_cost_adds_up_has_gaussian_noise(name, way, tmp_path):
    model = clone(ALONE[name])
    if way == "ledger":
        facts = {"epsilon": 1.0, "delta": 1e-6, "adjacency": model.adjacency}
        model.set_params(ledger=BudgetLedger(tmp_path / "books.db", **facts))
    if way == "law":
        solver = "newton_boosting" if "boost" in name else "auto"
        model.set_params(solver=solver, solver_params={"law": "gaussian"})
    if way == "set_budget":
        scaler = DPStandardScaler(bounds=(-1, 1), adjacency=model.adjacency)
        two = set_budget(make_pipeline(scaler, model), epsilon=0.1, delta=1e-6)
        model = clone(two[-1])
    assert model.step_privacy().adds_in_squares
    model.fit(*table(200))
    event = model.privacy_.event
    assert event.pure_epsilon == 0
    if way == "set_budget":  # the scaler has a quarter
        assert event.mu_squared <= 0.75 * gaussian_mu(0.1, 1e-6) ** 2


@pytest.mark.parametrize(
    ("given", "adds"),
    [
        ({}, False),
        ({"n_estimators": 0}, False),
        ({"n_estimators": 10}, True),
        ({"solver_params": {"law": "gaussian"}}, True),
    ],
)
def test_boosting_says_whether_its_costs_add_up_in_squares(given, adds):
    model = clone(ALONE["boosting"]).set_params(**given)
    assert model.step_privacy().adds_in_squares == adds


def test_a_law_that_is_named_is_kept(tmp_path):
    facts = {"epsilon": 1.0, "delta": 1e-6, "adjacency": "zero_out"}
    model = clone(ALONE["boosting"]).set_params(
        solver="newton_boosting", solver_params={"law": "laplace"}
    )
    model._use_composable_noise()
    assert model.solver_params == {"law": "laplace"}
    model.set_params(ledger=BudgetLedger(tmp_path / "books.db", **facts))
    assert not model.step_privacy().adds_in_squares
    with pytest.raises(ValueError, match="law must be None or 'gaussian' for trees"):
        model.set_params(n_estimators=10).fit(*table(200))


def test_a_sum_of_labels_has_the_information_of_their_counts():
    loss, n = LogisticLoss(), 500

    def of_sum(name, query):
        assert name == "mean"
        return Released(np.array([0.5 * n - 100.0]), 20.0, 20.0)

    def of_counts(name, query):
        assert name == "targets"
        noise = np.array([3.0, 3.0])  # of both counts, and of the number of records
        deviation = 20.0 * math.sqrt(2)
        return Released(np.array([100.0, n - 100.0]) + noise, deviation, deviation)

    found = released_base(loss, n, of_sum, ["mean"], is_alone=True)
    same = released_base(loss, n, of_counts, ["targets"], is_alone=True)
    assert found.constant == pytest.approx(same.constant)


@pytest.mark.filterwarnings("ignore::skdp.exceptions.NoiseDominatesWarning")
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("name", ALONE)
def test_a_transcript_of_a_constant_attains_its_claim(name, adjacency, monkeypatch):
    model, (X, y) = clone(ALONE[name]).set_params(adjacency=adjacency), table(60)
    result = audit_estimator(model, X, y, access="transcript")
    assert result.passed
    assert result.claimed.delta == 0
    assert 0.0999 < result.epsilon_lower_bound <= 0.1 * (1 + 1e-9)
    # A twin whose noise is for half of the bound.
    for kind in (TargetSum, StateSums):
        monkeypatch.setattr(kind, "row_bound", halved(kind.row_bound))
    assert not audit_estimator(model, X, y, access="transcript").passed


def halved(honest):
    def row_bound(query):
        bound = honest(query)
        half = {"zero_out": bound.zero_out / 2, "replace_one": bound.replace_one / 2}
        return replace(bound, **half)

    return row_bound


WIDE = LinearObjective(
    loss=SquaredLoss(2.0, target_bound=1.0),
    n_samples=2_001,
    n_features=1,
    data_norm=1.0,
    adjacency="replace_one",
)


class HistogramForNothing(ConstantModel):
    """Planted bug: the histogram of the targets is not on the books."""

    def plan(self, objective):
        honest = super().plan(objective)
        booked = Plan(honest.lines[1:])
        return Plan(honest.lines, partial(booked.event, relation=objective.adjacency))


def of_two_targets(kind, adjacency, shrink=1.0):
    """What two targets far apart tell, over what is charged."""
    objective = replace(WIDE, adjacency=adjacency)
    budget = Budget(0.2, 1e-6, adds_up=True)
    solver = kind.planned({}, objective, budget)
    assert solver.histogram_share > 0
    plan = solver.plan(objective)
    multiplier = calibrate(partial(plan.event, relation=adjacency), budget)
    others = 0.6 + 0.01 * np.arange(2_000) % 0.2
    present = np.ones(2_001, dtype=bool)
    first = MemorySource(np.zeros((2_001, 1)), np.append(others, 1.0), present)
    present = np.append(present[1:], adjacency == "replace_one")
    second = MemorySource(np.zeros((2_001, 1)), np.append(others, -1.0), present)

    def run(source, noise):
        answers = marked(plan, source, multiplier, adjacency, noise)
        return solver.run(answers, objective, Progress())

    one, other, (found, again) = replayed(run, (first, second), 0, shrink=shrink)
    assert np.array_equal(found.weights, again.weights)
    return verdict(one, other, plan.event(multiplier, adjacency))


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_a_histogram_and_a_mean_cost_what_is_charged(adjacency):
    found = of_two_targets(ConstantModel, adjacency)
    assert found.largest <= 1 + 1e-9
    assert found.lines[0,] > 0.999
    assert found.lines[1,] > (0.5 if adjacency == "zero_out" else 0.99)
    assert of_two_targets(ConstantModel, adjacency, shrink=0.5).largest > 1.9


def test_a_histogram_that_is_not_charged_is_refuted():
    assert of_two_targets(HistogramForNothing, "replace_one").total > 1.1


def test_a_clip_by_the_exact_histogram_is_refuted(monkeypatch):
    """Paid for with noise, and used without it: the second query tells."""
    honest = StateSums.total

    def total(self, reader, rows):
        total.seen = honest(self, reader, rows)
        return total.seen

    def exactly(loss, n_samples, ask, asked, **how):
        def asked_exactly(name, query):
            released = ask(name, query)
            is_seen = name == "targets"
            return replace(released, value=total.seen) if is_seen else released

        return released_base(loss, n_samples, asked_exactly, asked, **how)

    monkeypatch.setattr(StateSums, "total", total)
    monkeypatch.setattr("skdp.solvers._constant.released_base", exactly)
    for adjacency in ("replace_one", "zero_out"):
        with pytest.raises(AssertionError):
            of_two_targets(ConstantModel, adjacency)


# -------------------------------------------------------- delta = 0: about the constant


class ConstantForNothing(AroundConstant):
    """Planted bug: only the minimisation is on the books."""

    def plan(self, objective):
        honest = super().plan(objective)
        charged = Plan(honest.lines[1:])
        return Plan(
            honest.lines, lambda z: charged.event(z, objective.adjacency), is_seen=True
        )


def spent(kind, loss, adjacency):
    """Share of the constant that was asked for, and epsilons of both releases."""
    budget = Budget(2.0, 0.0)
    asked = LinearObjective(
        loss=loss, n_samples=900, n_features=4, data_norm=1.0, adjacency=adjacency
    )
    solver = kind.planned({}, asked, budget)
    plan = solver.plan(asked)
    z = calibrate(partial(plan.event, relation=adjacency), budget)
    first, fit = (
        epsilon_of(Plan((line,)).event(z, adjacency), 0.0) for line in plan.lines
    )
    return solver.share, first, fit


@pytest.mark.parametrize(
    ("loss", "adjacency"),
    [(LogisticLoss(), "replace_one"), (GammaLoss(2.0), "zero_out")],
)
def test_a_minimisation_about_the_constant_pays_for_both(loss, adjacency):
    """Pure epsilons add up to the budget of 2; the twin's are more."""
    share, first, fit = spent(AroundConstant, loss, adjacency)
    assert first + fit <= 2.0 * (1 + 1e-9)
    assert first + fit == pytest.approx(2.0, rel=1e-3)
    assert first == pytest.approx(share * 2.0, rel=0.2)
    assert fit < 2.0 * (1 - share / 2)
    _, *releases = spent(ConstantForNothing, loss, adjacency)
    assert sum(releases) > 2.0 * (1 + share / 2)


@pytest.mark.parametrize("kind", [DPPoissonRegressor, DPGammaRegressor])
def test_a_pure_penalty_does_not_take_the_mean_away(kind):
    # Objective perturbation alone predicted half of it and less.
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(3000, 5))
    y = np.full(3000, 8.0)
    model = kind(
        1.0, target_bounds=(0.1, 40), delta=0.0, columns=Range(-1, 1), random_state=0
    )
    model.fit(X, y)
    assert model.privacy_.solver == "objective_perturbation"
    assert model.predict(X) == pytest.approx(8.0, rel=0.3)


def test_the_certificate_allows_for_an_offset():
    """Weights about a constant are those of losses that are moved by it."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, size=(300, 4)) / 2, rng.integers(0, 2, 300) * 1.0
    asked = LinearObjective(
        loss=LogisticLoss(),
        n_samples=300,
        n_features=4,
        data_norm=1.0,
        adjacency="zero_out",
        offset=(2.5,),
    )
    problem = CertifiedProblem(asked, 3.0)
    assert problem.farthest > CertifiedProblem(replace(asked, offset=()), 3.0).farthest
    tolerance = 2 * problem.rounding_error(300)
    found = certified_minimum(MemorySource(X, y), problem, np.zeros((5, 1)), tolerance)
    rows = np.c_[X, np.ones(300)]
    left = rows.T @ (expit(rows @ found[:, 0] + 2.5) - y) + 3.0 * found[:, 0]
    assert np.linalg.norm(left) <= tolerance
