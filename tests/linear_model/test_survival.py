"""A survival model by hazards in discrete time, and its private scores."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from types import SimpleNamespace

import matplotlib
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.sparse import csr_array
from scipy.special import ndtri
from sklearn.base import clone
from sklearn.utils.estimator_checks import estimator_checks_generator

from skdp import (
    BudgetLedger,
    DPDiscreteTimeSurvival,
    ParquetSource,
    TableEncoder,
    private_score,
)
from skdp.columns import Range
from skdp.exceptions import BudgetExceeded
from skdp.privacy.release._answers import Released
from skdp.solvers import _average_descent, _hazard_effects, _run_noise, _true_weights
from skdp.solvers._average_descent import AverageDescent
from skdp.solvers._default_rules import Pace
from skdp.solvers._hazards import HazardGradient, HazardLoss, HazardObjective
from skdp.solvers._life_table import HazardBase, LifeTable, _NoisyTable, at_risk
from skdp.solvers._run_noise import NoiseOfRun
from skdp.sums._grid_rows import gridded
from skdp.tables._centred import CentredMatrix, StateRows
from skdp.tables._source import Block, Source
from tests.contract.test_estimators import run_checks

matplotlib.use("Agg")

COLUMNS = {"age": (20, 80), "sex": ["f", "m"], "dose": (-1, 1)}
FACTS = {"columns": COLUMNS, "horizon": 5.0}
CONCORDANCE, BRIER = "concordance_index", "neg_integrated_brier_score"
# Intervals and states of a query.
N, D = 5, 3


def study(n, seed=0, effect=1.0):
    """Persons with proportional hazards, some lost to follow-up; and log-hazards."""
    rng = np.random.default_rng(seed)
    age, sex = rng.uniform(20, 80, n), rng.integers(0, 2, n)
    X = pd.DataFrame({"age": age, "sex": np.where(sex, "m", "f")})
    X["dose"] = rng.uniform(-1, 1, n)
    risk = effect * ((age - 50) / 30 + sex - 0.5)
    time, lost = rng.exponential(8 * np.exp(-risk)), rng.exponential(10, n)
    y = pd.DataFrame({"duration": np.minimum(time, lost), "event": time <= lost})
    return X, y, risk


def survival(risk, times):
    return np.exp(-np.exp(risk)[:, None] * times / 8)


# ------------------------------------------------------- The contribution of a person


class OneRow(Source):
    """One row of shares in states, centred at 0; one longer than 1 counts less."""

    def __init__(self, x, y):
        rows = StateRows(csr_array(x[None]), csr_array(np.eye(D)), (D,))
        factor = 1 / np.maximum(np.linalg.norm(x), 1.0)
        X = CentredMatrix(rows, np.zeros(D), np.full(1, factor), None, 1.0)
        self.block = Block(X, np.array([y]))

    def blocks(self):
        yield self.block

    def nothing(self):
        return self.block


class Uncapped(HazardGradient):
    """The twin: a person counts however many events are expected."""

    def _residuals(self, rows, targets):
        effect = rows.raw(self.weights[:D]) / rows.factor[:, None]
        hazard = np.exp(np.minimum(effect - 1.0 + self.weights[D:, 0], 3.0))
        has_event = targets[:, None] == np.arange(1, N + 1)
        of_event = -hazard / np.expm1(hazard)
        return np.where(has_event, of_event, at_risk(targets, N) * hazard)


class Unweighted(HazardGradient):
    """The twin: a long row counts as much as a short one."""

    def added(self, block):
        factor = gridded(block.X, 1.0).factor
        by_state, of_row, of_intervals = super().added(block)
        return by_state / factor[0], of_row / factor, of_intervals


def query_at(weights, kind=HazardGradient):
    facts = {"n_samples": 1, "n_features": D, "data_norm": 1.0}
    facts |= {"loss": HazardLoss(), "adjacency": "zero_out"}
    objective = HazardObjective(**facts, offset=(-1.0,) * N, n_intervals=N)
    return kind(objective, 0.5, weights).at(weights)


def contribution(query, x, y):
    return query.total(OneRow(x, y), None).ravel()


def persons(n, seed):
    """Rows, some longer than 1, targets, and weights at which somebody asks."""
    rng = np.random.default_rng(seed)
    for place in range(n):
        x = rng.uniform(0, 1, D)
        x = np.eye(D)[place % D] if place % 2 else x / max(x.sum(), 1)
        x *= 1.0 if place % 3 else 2.5
        y = rng.choice([rng.integers(1, N + 1), -rng.uniform(0, N), -N])
        size = rng.choice([0.1, 3.0, 30.0])
        yield x, float(y), rng.normal(rng.choice([-20, 0, 3]), size, (D + N, 1))


def plainly(x, y, weights, offset=-1.0, a=0.5):
    """A contribution by a loop over the rows of a person-period table."""
    total, expected = np.zeros(D + N), 0.0
    for k in range(N):
        raw = x @ weights[:D, 0] + weights[D + k, 0] + offset
        hazard = math.exp(max(min(raw, 3.0), -40.0))
        counted = min(hazard, max(1 - expected, 0))
        expected += hazard
        residual = counted * min(max(abs(y) - k, 0), 1)
        if y == k + 1:
            residual = -counted / math.expm1(hazard)
        total[:D] += residual * x / max(np.linalg.norm(x), 1.0)
        total[D + k] = a * residual
    return total


def test_a_person_adds_what_the_rows_of_a_person_period_table_add():
    for x, y, weights in persons(300, 0):
        query = query_at(weights)
        wanted = plainly(x, y, query.weights)
        # The exponential of plain arithmetic is not that of the C library.
        assert np.allclose(contribution(query, x, y), wanted, atol=1e-4)


def shares_of_bounds(kind):
    """Largest contribution and largest distance of two, over their bounds."""
    one, two = [], []
    for (x, y, weights), (other, z, _) in zip(
        persons(600, 1), persons(600, 2), strict=True
    ):
        query = query_at(weights, kind)
        first, second = contribution(query, x, y), contribution(query, other, z)
        bound = query.bound()
        one.append(np.linalg.norm(first) / bound.under("zero_out_user"))
        two.append(np.linalg.norm(first - second) / bound.under("replace_user"))
    return max(one), max(two)


def test_no_person_adds_more_than_the_bound_and_some_attain_it():
    one, two = shares_of_bounds(HazardGradient)
    assert 0.999 < one <= 1 + 1e-9
    assert 0.6 < two <= 1 + 1e-9


def test_broken_twin_without_the_cap_exceeds_both_bounds():
    one, two = shares_of_bounds(Uncapped)
    assert one > 2
    assert two > 1.1


def test_broken_twin_that_does_not_weigh_long_rows_exceeds_both_bounds():
    one, two = shares_of_bounds(Unweighted)
    assert one > 2
    assert two > 1.1


# --------------------------------------------------------------------- The life table


def test_a_table_without_noise_is_the_actuaries():
    # Four events in the first interval, two lost halfway in it; one event later.
    y = np.array([1, 1, 1, 1, -0.5, -0.5, 2, -2, -2, -2.0])
    query = LifeTable.query(10, 2)
    counts = query.added(Block(None, y))[0]
    released = np.zeros(5)
    for places, values in zip(counts.places, counts.values, strict=True):
        np.add.at(released, places, values)
    table = LifeTable.of(Released(released, 0.0, 0.0), 10, 2)
    assert np.allclose(table.exposed, [9, 4])
    assert np.allclose(table.events, [4, 1])
    assert np.allclose(table.rates, [4 / 9, 1 / 4])
    assert np.abs(table.noise).max() < 1e-7
    assert np.allclose(table.shown()["survival"], np.cumprod([5 / 9, 3 / 4]))


# Cumulated hazards until time t, in parts of the horizon.
CUMULATED = {
    "falls": np.sqrt,
    "constant": lambda t: t,
    "rises": np.square,
    "late": lambda t: 0.2 * t + 4.0 * np.maximum(t - 0.7, 0.0),
}


@pytest.mark.parametrize("shape", list(CUMULATED))
def test_limits_of_a_table_count_how_hazards_change(shape):
    """In 60 tables of 5,000 persons, with noise that hides single intervals.

    Limits cover .89 to .93 of the ends of intervals, and are .11 wide. If all hazards
    were expected to be alike, limits would cover .20, .94, .28 and .07; those of the
    noisy counts themselves are .13 to .16 wide.
    """
    rng, n, n_intervals, deviation = np.random.default_rng(0), 5000, 40, 40.0
    grid, cumulated = np.linspace(0, 1, 1001), CUMULATED[shape]
    left = np.exp(-cumulated(np.arange(1, n_intervals + 1) / n_intervals))
    is_inside, widths = [], []
    for _ in range(60):
        time = np.interp(rng.exponential(size=n), cumulated(grid), grid, right=2.0)
        lost = np.where(rng.uniform(size=n) < 0.5, rng.uniform(size=n), 1.0)
        last = np.rint(lost * n_intervals)
        cells = np.where(time <= lost, np.ceil(time * n_intervals), -last).astype(int)
        counts = np.bincount(cells + n_intervals, minlength=2 * n_intervals + 1)
        counts = counts + deviation * rng.normal(size=len(counts))
        table = LifeTable.of(Released(counts, deviation, deviation), n, n_intervals)
        shown = table.shown()
        is_inside.append((shown["lower"] <= left) & (left <= shown["upper"]))
        widths.append(shown["upper"] - shown["lower"])
    # A mean has a standard error of .03: times of one table err together.
    assert 0.85 <= np.mean(is_inside) <= 0.995
    assert np.mean(widths) < 0.125


@pytest.mark.parametrize("events", [5.0, 60.0])
@pytest.mark.parametrize("walk", [0.1, 3.0])
def test_a_hazard_is_near_the_mode_of_its_posterior(events, walk):
    """One interval: the posterior is a function of one number, and is integrated."""
    exposed, of_events, of_exposed = 90.0, np.array([-4.0, 9.0]), np.array([-15.0, 6.0])
    table = _NoisyTable(
        np.array([events]), np.array([exposed]), of_events[None], of_exposed[None]
    )
    found = table._with_walk(walk)
    logs = np.linspace(-11.0, 1.0, 4001)
    rates = -np.expm1(-np.exp(logs))
    noise = np.sum((of_events - rates[:, None] * of_exposed) ** 2, axis=1)
    sample = 1 / np.maximum(exposed * rates, 1.0)
    variance = 1.5**2 + walk**2 / 2 + sample
    each = (events - rates * exposed) ** 2 / noise + np.log(noise)
    each += (logs + 1.0) ** 2 / variance + np.log(variance)
    chances = np.exp(-each / 2)
    assert found.logs[0] == pytest.approx(logs[chances.argmax()], abs=0.1)
    step = (logs[1] - logs[0]) / math.sqrt(2 * math.pi)
    assert found.evidence == pytest.approx(np.log(chances.sum() * step), abs=0.15)
    mean = chances @ logs / chances.sum()
    deviation = math.sqrt(chances @ (logs - mean) ** 2 / chances.sum())
    # The curvature at a mode understates it where little is known.
    assert 0.6 < math.sqrt(found.covariance[0, 0]) / deviation < 1.1


# Normal effects of 400 persons.
NORMAL = ndtri((np.arange(400) + 0.5) / 400)


def test_hazards_of_a_table_are_those_of_persons_without_effects():
    # Log-hazards have deviation 1, and persons at high risk leave first.
    rng = np.random.default_rng(0)
    time = rng.exponential(np.exp(-rng.normal(size=40_000)) / 0.3)
    y = np.where(time <= N, np.ceil(time), -N)
    counts = np.bincount((y + N).astype(int), minlength=2 * N + 1)
    table = LifeTable.of(Released(counts.astype(float), 0.0, 0.0), len(y), N)
    # Each has a standard error of at most .04.
    assert np.allclose(table.hazards(NORMAL).logs, math.log(0.3), atol=6 * 0.04)
    alike = table.hazards(np.zeros(1)).logs
    assert np.ptp(alike) > 0.5
    left = np.exp(-np.cumsum(np.exp(alike)))
    assert np.allclose(left, np.cumprod(1 - table.rates))


def test_curvature_and_squares_are_those_of_the_gradients_of_persons():
    rng = np.random.default_rng(0)
    raw, n = rng.normal(math.log(0.3), 1.0, (40_000, 1)), 40_000
    time = rng.exponential(np.exp(-raw[:, 0]))
    y = np.where(time <= N, np.ceil(time), -N)
    counts = np.bincount((y + N).astype(int), minlength=2 * N + 1)
    table = LifeTable.of(Released(counts.astype(float), 0.0, 0.0), n, N)
    curvature, squares = table.hazards(NORMAL).per_person(n)

    def sums(moved):
        """Sum of each person's residuals, if all log-hazards move."""
        rows = rows_with(raw + 1.0 + moved)
        return query_at(np.zeros((D + N, 1)))._residuals(rows, y).sum(axis=1)

    # The means over 40,000 persons have errors of less than 1 %.
    slope = np.mean(sums(0.05) - sums(-0.05)) / 0.1
    assert abs(squares[0] / np.mean(sums(0.0) ** 2) - 1) < 6 * 0.01
    assert abs(curvature[0] / slope - 1) < 6 * 0.01

    # A model without effects learns slower than this curvature says.
    effects, logs = raw[:, 0] - math.log(0.3), table.hazards(np.zeros(1)).logs
    alike = rows_with(np.tile(logs + 1.0, (n, 1)))
    fall = -(query_at(np.zeros((D + N, 1)))._residuals(alike, y).sum(1) @ effects)
    average = average_of(
        table, logs, n, NORMAL[:, None] / 5, np.full(1, 5.0), np.zeros(1)
    )
    assert abs(average.curvature / (fall / n) - 1) < 6 * 0.01
    assert average.curvature < 0.9 * curvature[0]


def rows_with(raw):
    return SimpleNamespace(raw=lambda weights: raw, factor=np.ones(len(raw)))


PACE = Pace(n_steps=60, step_size=1.5, momentum=0.8, intercept_weight=0.5)


def run_of(table, logs, n, deviations):
    base = HazardBase((), tuple(logs), 1.0, 1.0, 1.0, (1.0,), (1.0,), table=table)
    return NoiseOfRun([PACE] * len(deviations), deviations, base, n)


def average_of(table, logs, n, rows, true, deviations):
    run = run_of(table, logs, n, deviations)
    return AverageDescent.of(run, rows, true, np.mean(rows**2, axis=0))


def descended(residuals, rows, true, logs, noise, step_size=1.5):
    """The part of the way and the intervals that a descent of 60 steps finds."""
    d = len(true)
    factor = 1 / np.maximum(np.linalg.norm(rows, axis=1), 1.0)
    at = np.append(np.zeros(d), logs)
    velocity, mean = np.zeros(d + N), np.zeros(d + N)
    for t, drawn in enumerate(noise):
        of = residuals.at(at[d:, None] + rows @ at[:d])
        by_rows = of.sum(axis=0) @ (factor[:, None] * rows) + drawn[:d]
        by_intervals = 0.25 * of.sum(axis=1) + 0.5 * drawn[d:]
        velocity = 0.8 * velocity - step_size * np.append(by_rows, by_intervals)
        at = at + velocity
        mean += at / 30 * (t >= 30)
    shares = np.mean(rows**2, axis=0) * true
    return np.append(shares @ mean[:d] / (shares @ true), mean[d:])


def table_of(effects, level):
    """Expected counts of as many persons, who are watched until the end."""
    left = np.mean(np.exp(-np.outer(np.arange(N + 1), np.exp(effects + level))), axis=1)
    exposed = len(effects) * left[:-1]
    return without_noise(exposed - len(effects) * left[1:], exposed)


def without_noise(events, exposed):
    return LifeTable(events, exposed, events / exposed, np.zeros((N, 1)))


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_a_descent_finds_on_average_what_is_expected(noise):
    """Also with so much noise that it goes farther than without noise."""
    rng = np.random.default_rng(0)
    n, d = 500, 6
    rows, true = rng.normal(0, 0.45, (n, d)), np.array([2.0, -1.5, 1.0, 0, 0, 0])
    table = table_of(rows @ true, -1.2)
    logs = table.hazards(np.zeros(1)).logs
    deviations = np.full(60, noise)
    average = average_of(table, logs, n, rows, true, deviations)
    base = run_of(table, logs, n, deviations).base
    residuals = _average_descent._Residuals.of(base, n, rows @ true)
    drawn = noise * rng.normal(size=(150 if noise else 1, 60, d + N))
    found = [descended(residuals, rows, true, logs, each) for each in drawn]
    # Without noise the part is .986, and with noise .020 more. The standard error of a
    # part is .002, and that of an interval .005; two values of the noise stand for all.
    expected = np.append(average.part, average.constant)
    off = np.abs(np.mean(found, axis=0) - expected)
    assert off[0] < (0.015 if noise else 1e-5)
    assert off[1:].max() < (0.06 if noise else 1e-5)
    assert average.part == pytest.approx(1.010 if noise else 0.986, abs=0.002)


@pytest.mark.parametrize("error", ["noise", "table", "sample"])
def test_the_size_and_the_intervals_err_together_as_is_said(error):
    """Over 600 descents, each of which has other noise, another table or sample.

    A standard deviation has a standard error of .03, and a correlation one of .04.
    """
    rng = np.random.default_rng(0)
    n, d = 500, 3
    rows, true = rng.normal(0, 0.45, (n, d)), np.array([2.0, -1.5, 1.0])
    effects = rows @ true
    table, more = table_of(effects, -1.5), 1.0 if error == "sample" else 1e9
    table = replace(table, events=more * table.events, exposed=more * table.exposed)
    if error == "table":
        table = replace(table, noise=0.003 * rng.normal(size=(N, 2 * N)))
    logs = table.hazards(np.zeros(1)).logs
    deviations = np.full(60, 0.005 * (error == "noise"))
    run = run_of(table, logs, more * n, deviations)
    # With small steps a part of the table is left.
    run = replace(run, paces=[replace(PACE, step_size=0.2)] * 60)
    stated = AverageDescent.of(run, rows, true, np.mean(rows**2, axis=0)).errors
    residuals = _average_descent._Residuals.of(run.base, more * n, effects)
    found, intervals = [], np.arange(1, N + 1)[:, None]
    for _ in range(600):
        at = logs + table.noise @ rng.normal(size=table.noise.shape[1])
        if error == "sample":
            ends = np.ceil(rng.exponential(size=n) / np.exp(effects - 1.5))
            at_risk, has_event = ends >= intervals, ends == intervals
            counts = has_event.sum(axis=1), at_risk.sum(axis=1)
            at = without_noise(*counts).hazards(np.zeros(1)).logs
            residuals = _average_descent._Residuals(at_risk / n, has_event / n)
        drawn = deviations[:, None] * rng.normal(size=(60, d + N))
        found.append(descended(residuals, rows, true, at, drawn, 0.2))
    seen = np.cov(np.transpose(found))
    sizes = np.sqrt([np.diag(stated), np.diag(seen)])
    np.testing.assert_allclose(*sizes, rtol=0.18)
    related = [
        each / np.outer(size, size)
        for each, size in zip((stated, seen), sizes, strict=True)
    ]
    np.testing.assert_allclose(*related, atol=0.24)
    assert np.abs(related[0][0, 1:]).max() > 0.2


def test_a_gate_that_refuses_all_leaves_the_intervals_of_the_table():
    rng = np.random.default_rng(0)
    rows, true = rng.normal(0, 0.45, (500, 2)), np.array([2.0, -1.5])
    table = table_of(rows @ true, -1.2)
    table = replace(table, noise=0.01 * rng.normal(size=(N, 2 * N)))
    logs = table.hazards(np.zeros(1)).logs
    run = run_of(table, logs, 500, np.full(60, 0.01))
    average = AverageDescent.of(run, rows, true, np.ones(2), kept=0.0)
    np.testing.assert_array_equal(average.constant, logs)
    left = 1 - table.rates
    of_sample = np.diag((1 - left) / left / table.exposed / np.log(left) ** 2)
    of_noise = table.noise @ table.noise.T
    np.testing.assert_allclose(average.errors[1:, 1:], of_sample + of_noise)


@pytest.mark.filterwarnings("ignore::skdp.exceptions.SeededNoiseWarning")
def test_typical_persons_have_the_released_shares(monkeypatch):
    X, y, _ = study(4000)
    X.loc[::2, "age"] = np.nan
    columns = FACTS["columns"] | {"age": Range(20, 80, missing=True)}
    found = {}
    monkeypatch.setattr(
        _hazard_effects,
        "typical_persons",
        lambda rows: found.setdefault(
            "persons", _average_descent.typical_persons(found.setdefault("rows", rows))
        ),
    )
    model = DPDiscreteTimeSurvival(8.0, **(FACTS | {"columns": columns}))
    model.fit(X, y)
    rows, persons = found["rows"], found["persons"]
    moments = np.concatenate([part.spreads for part in rows.principal])
    # Rows between two knots vary less than rows at knots, most where curves are fine.
    assert 0.7 < np.mean(persons**2, axis=0).sum() / moments.sum() < 1
    assert np.abs(persons.mean(axis=0)).max() < 0.05 * math.sqrt(moments.sum())
    # Half of the ages are missing, and nobody is between a knot and no age.
    age = rows.principal[0]
    missing = rows.states.parts[0] - 1
    assert 0.4 < rows.margins[missing] < 0.6
    own = persons[:, : len(age.spreads)]
    is_missing = np.isclose(own, age.places[missing]).all(axis=1)
    assert is_missing.mean() == pytest.approx(rows.margins[missing], abs=0.01)
    to_missing = np.linalg.norm(own - age.places[missing], axis=1)[~is_missing]
    others = np.delete(age.places, missing, axis=0)
    nearest = np.linalg.norm(others - age.places[missing], axis=1).min()
    assert to_missing.min() > 0.9 * nearest


def covered(n, epsilon, n_fits, n_rows=200):
    """Shares of pointwise 95 % limits that hold the truth: of persons, and of all."""
    X, _, risk = study(n_rows, seed=10**6)
    of_persons, of_all = [], []
    for seed in range(n_fits):
        model = DPDiscreteTimeSurvival(epsilon, **FACTS, random_state=seed)
        model.fit(*study(n, seed)[:2])
        true = survival(risk, model.times_)
        low, high = model.survival_bands(X)
        of_persons.append((low <= true) & (true <= high))
        # The mean over ages and both sexes.
        grid = np.linspace(-1, 1, 2001)
        mean = np.mean([survival(grid + s, model.times_) for s in (-0.5, 0.5)], (0, 1))
        table = model.life_table_
        of_all.append((table["lower"] <= mean) & (mean <= table["upper"]))
    return np.mean(of_persons), np.mean(of_all)


def columns_of(deviations, slopes, n=2000):
    """True weights and `Seen` of categories (slope None) and curves."""
    rng = np.random.default_rng(0)
    for deviation, slope in zip(deviations, slopes, strict=True):
        learned, chance = rng.uniform(0.3, 1.0, n), rng.uniform(0.1, 0.5, n)
        line = rng.normal(size=n)
        line /= np.linalg.norm(line)
        true = rng.normal(0, deviation, n)
        if slope is not None:
            true += slope * line
        weights = learned * true + np.sqrt(chance) * rng.normal(size=n)
        lines = None if slope is None else line[:, None]
        yield true, _true_weights.Seen(weights, learned, chance, lines)


@pytest.mark.long
def test_true_weights_are_as_near_as_is_said():
    """Of categories, of a curve with bends, and of one without."""
    pairs = list(columns_of([0.7, 0.4, 0.0], [None, 2.0, -1.5]))
    true, columns = zip(*pairs, strict=True)
    for typical in (0.1, 3.0):
        found = _true_weights.true_weights(list(columns), typical)
        for truth, seen, each in zip(true[:2], columns, found, strict=False):
            # A mean of 2,000 squares has a standard error of .032.
            off = (truth - each.gains @ seen.weights) ** 2
            assert abs(np.mean(off / each.left) - 1) < 6 * 0.032
            spread = np.sum(each.errors**2, axis=1)
            assert abs(np.mean((truth - each.middle) ** 2 / spread) - 1) < 6 * 0.032
        categories, _, straight = found
        _, learned, chance, _ = columns[0]
        # The variance of 2,000 true weights is known within 7 %.
        best = 0.49 * learned / (0.49 * learned**2 + chance)
        np.testing.assert_allclose(np.diag(categories.gains), best, rtol=0.2)
        # Bands of categories have no prior.
        np.testing.assert_allclose(categories.middle, columns[0].weights / learned)
        of_bands = np.sqrt(chance) / learned
        np.testing.assert_allclose(categories.errors, np.diag(of_bands))
        # Of a curve without bends little more than the slope is left. Its standard
        # error is about .6, and that of each of the 2,000 weights otherwise.
        assert np.mean(np.sum(straight.errors**2, axis=1)) < 0.01
        assert np.mean((straight.middle - true[2]) ** 2) < 0.01
        assert abs(straight.middle @ columns[2].lines[:, 0] + 1.5) < 6 * 0.6


@pytest.mark.parametrize("n_lines", [1, 2])
def test_slopes_and_bends_are_those_of_normal_vectors(n_lines):
    (_, seen), *_ = columns_of([0.4], [3.0], n=12)
    others = np.random.default_rng(1).normal(size=(12, n_lines - 1))
    lines = np.linalg.qr(np.hstack([seen.lines, others]))[0]
    seen, across = seen._replace(lines=lines), lines @ lines.T
    curve = _true_weights._Curve(seen, np.array([[0.2]]))
    found = curve.found(np.ones(1), 5.0)
    prior = 0.2 * np.eye(12) + 5.0 * across
    learned = np.diag(seen.learned)
    of_weights = learned @ prior @ learned + np.diag(seen.chance)
    gains = prior @ learned @ np.linalg.inv(of_weights)
    np.testing.assert_allclose(found.gains, gains, atol=1e-12)
    left = np.diag(prior - gains @ learned @ prior)
    np.testing.assert_allclose(found.left, left, rtol=1e-9)
    # A slope without a prior is the limit of one with a wide prior.
    wide = curve.found(np.ones(1), 1e9)
    np.testing.assert_allclose(wide.gains @ seen.weights, found.middle, atol=1e-6)
    np.testing.assert_allclose(np.sum(found.errors**2, axis=1), wide.left, rtol=1e-6)
    # And so is its likelihood, up to a factor that is the same for all sizes.
    sizes = np.array([[0.2], [0.7]])
    several = _true_weights._Curve(seen, sizes).log_likelihood
    expected = []
    for size in sizes[:, 0]:
        prior = size * np.eye(12) + 1e9 * across
        of_weights = learned @ prior @ learned + np.diag(seen.chance)
        expected.append(stats.multivariate_normal(cov=of_weights).logpdf(seen.weights))
    assert several[1] - several[0] == pytest.approx(expected[1] - expected[0], rel=1e-5)


@pytest.mark.filterwarnings("ignore::skdp.exceptions.SeededNoiseWarning")
def test_positions_heaps_and_missing_cells_are_no_bends(monkeypatch):
    X, y, _ = study(4000)
    # Most cells are missing, so that their indicator varies more than positions.
    X.loc[::2, "age"], X.loc[::3, "dose"] = np.nan, 0.5
    columns = FACTS["columns"] | {
        "age": Range(-1, 1, missing=True),
        "dose": Range(0, 1, heaps=[0.5]),
    }
    found = {}
    lines = _hazard_effects._lines

    def spied(rows, parts):
        found["rows"], found["lines"] = rows, lines(rows, parts)
        return found["lines"]

    monkeypatch.setattr(_hazard_effects, "_lines", spied)
    model = DPDiscreteTimeSurvival(8.0, **(FACTS | {"columns": columns}))
    model.fit(X, y)
    names, rows = model.encoder_.get_feature_names_out(), found["rows"]
    each = zip(rows.principal, rows._parts(), found["lines"], strict=True)
    free = {}
    for part, (features, *_), own in each:
        if own is None:
            assert all("hat" not in name for name in names[features])
            continue
        varies = part.spreads > 1e-12 * part.spreads.max()
        directions = part.directions * varies[:, None]
        apart = directions - own @ (own.T @ directions)
        is_free = np.linalg.norm(apart, axis=0) < 1e-6
        free[names[features[0]]] = list(names[features[is_free]])
        assert own.shape[1] == is_free.sum()
    assert list(free.values()) == [
        ["age_linear", "age_missing"],
        ["dose_linear", "dose_at_0.5"],
    ]


@pytest.mark.long
def test_where_nothing_is_learned_the_prior_is_left():
    columns = [
        seen._replace(weights=0 * seen.weights, learned=1e-6 + 0 * seen.learned)
        for _, seen in columns_of([0.7, 0.4], [None, 1.0])
    ]
    found = _true_weights.true_weights(columns, 1.0)
    # The mean of a lognormal prior. Bends have one more level, and are smaller or none.
    assert 2 < found[0].left.mean() < 4
    assert 1 < found[1].left.mean() < 2.5
    assert found[0].bends == 0
    # The rest is what is not known of the slope.
    assert found[1].bends == pytest.approx(found[1].left.mean(), rel=0.01)


def test_bends_between_knots_are_those_of_finer_hats(monkeypatch):
    seen = {}
    monkeypatch.setattr(
        _hazard_effects,
        "_between_knots",
        lambda *args: seen.update(rows=args[0], found=args[1]) or 0.5,
    )
    X, y, _ = study(2000)
    model = DPDiscreteTimeSurvival(2.0, **FACTS, random_state=0)
    assert model.fit(X, y)._between_knots == 0.5
    monkeypatch.undo()
    of_model = _hazard_effects._between_knots(seen["rows"], seen["found"])
    assert model.fit(X, y)._between_knots == of_model > 0
    rows, sizes = seen["rows"], [0.3 if each.bends else 0.0 for each in seen["found"]]
    assert sorted(sizes) == [0.0, 0.3, 0.3]
    found = [
        each._replace(bends=b) for each, b in zip(seen["found"], sizes, strict=True)
    ]
    at = np.linspace(-1, 1, 20_001)

    def hats(n):
        knots = np.linspace(-1, 1, n + 1)
        return np.maximum(1 - np.abs(at[:, None] - knots) * n / 2, 0.0)

    coarse, _ = np.linalg.qr(hats(8))
    variance = 0.0
    for level in range(1, 7):
        finer = hats(8 * 2**level)
        left = finer - coarse @ (coarse.T @ finer)
        variance += np.mean(np.sum(left**2, axis=1)) / 2**level
    # The finest of three levels.
    finest = 2**-1.5 / rows.centring.norm
    expected = 2 * 0.3 * finest**2 * variance
    measured = _hazard_effects._between_knots(rows, found)
    assert measured == pytest.approx(expected, rel=0.05)


def test_a_straight_line_has_nothing_between_its_knots(monkeypatch):
    """With a heap it is no category, but it has no hats."""
    of_curves, seen = _hazard_effects._between_knots, []
    monkeypatch.setattr(
        _hazard_effects,
        "_between_knots",
        lambda *args: seen.append(of_curves(*args)) or 0.0,
    )
    X, y, _ = study(1000)
    columns = FACTS["columns"] | {"dose": Range(0, 1, heaps=[0.25])}
    for numeric in ("linear", "hats"):
        given = FACTS | {"columns": TableEncoder(columns, numeric=numeric)}
        DPDiscreteTimeSurvival(2.0, **given, random_state=0).fit(X, y)
    assert seen[0] == 0
    assert seen[1] > 0


@pytest.mark.filterwarnings("ignore::skdp.exceptions.SeededNoiseWarning")
def test_stated_noise_shrinks_with_the_weights(monkeypatch):
    """And the middle of bands does not."""
    X, y, _ = study(2000)
    found = []
    of_descent = _hazard_effects._Effects.of

    def scaled(by):
        def of(solution, lines, assumed=None):
            true = of_descent(solution, lines, assumed)
            # The curvature of the run itself, so that only the factor differs.
            run, before = solution.found.noise, true.found
            found = [
                each._replace(gains=by * np.eye(len(each.left))) for each in before
            ]
            columns = solution.centred.principal
            weights = solution.centred.along(columns, solution.found.mean[:, 0])
            ends = np.cumsum([len(each.left) for each in found])[:-1]
            means = np.split(by * weights, ends)
            return true._replace(run=run, found=found, means=means)

        return staticmethod(of)

    for by in (1.0, 0.5):
        monkeypatch.setattr(_hazard_effects._Effects, "of", scaled(by))
        model = DPDiscreteTimeSurvival(8.0, **FACTS, random_state=0).fit(X, y)
        found.append((model.coef_, model._states.deviations, model._middle))
    assert found[0][0].any()
    np.testing.assert_allclose(found[1][0], found[0][0] / 2)
    np.testing.assert_allclose(found[1][1], found[0][1] / 2)
    np.testing.assert_array_equal(found[1][2], found[0][2])


@pytest.mark.filterwarnings("ignore::skdp.exceptions.SeededNoiseWarning")
def test_effects_that_are_noise_shrink_and_others_do_not():
    X, y, _ = study(4000)
    model = DPDiscreteTimeSurvival(8.0, **FACTS, random_state=0).fit(X, y)
    found = {
        name: table["effect"].to_numpy() for name, table in model.effects().items()
    }
    # The true effect of a dose is 0, and that of an age a straight line.
    assert np.ptp(found["sex"]) > 0.7
    assert np.ptp(found["dose"]) < 0.3
    assert np.abs(np.diff(found["age"], 2)).max() < 0.05 * np.ptp(found["age"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skdp.exceptions.SeededNoiseWarning")
def test_bands_hold_the_truth():
    # Of 100 independent fits one point has a standard error of .022; ten points of a
    # curve, which depend on each other, have at most that. Means over persons vary by
    # .03 from fit to fit. Effects are straight lines here, and bands leave room for
    # others, so that they cover more than .95; and bands of all curves would cover 1.
    of_persons, of_all = covered(5000, 1.0, 100)
    assert 0.95 - 6 * 0.022 < of_all
    assert 0.95 - 6 * 0.003 < of_persons < 0.999


# ------------------------------------------------------------------------- The model


@pytest.fixture(scope="module")
def model():
    X, y, _ = study(4000)
    return DPDiscreteTimeSurvival(8.0, **FACTS).fit(X, y)


def test_effects_are_log_hazard_ratios_and_curves_fall(model):
    X, _, risk = study(3000, seed=1)
    effect = model.effects()["sex"].set_index("value")["effect"]
    assert abs(effect["m"] - effect["f"] - 1.0) < 0.4
    assert np.corrcoef(model.predict(X), risk)[0, 1] > 0.9
    curves = model.predict_survival_function(X)
    hazards = model.predict_hazard(X)
    assert np.all(np.diff(curves, axis=1) <= 0)
    assert np.allclose(curves, np.cumprod(1 - hazards, axis=1))
    assert np.abs(curves - survival(risk, model.times_)).mean() < 0.06
    low, high = model.survival_bands(X, 0.5)
    assert np.all((low <= curves) & (curves <= high))


@pytest.mark.filterwarnings("ignore::skdp.exceptions.SeededNoiseWarning")
def test_the_error_of_a_row_is_that_of_its_weights():
    """Also between two knots, where errors of both are smaller than each."""
    X, y, _ = study(4000)
    model = DPDiscreteTimeSurvival(8.0, **FACTS, random_state=0).fit(X, y)
    X = study(500, seed=2)[0]
    rows = np.asarray(model.encoder_.transform(X))
    rows = (rows - model.center_) * model.scale_ / model.row_norm_
    # Long rows count less in `fit`, and are not clipped here.
    assert np.linalg.norm(rows, axis=1).max() > 1.1

    def effects_of(weights):
        twin = copy.copy(model)
        twin.coef_ = (weights * model.scale_ / model.row_norm_)[None]
        return twin.predict(X) - twin.coef_[0] @ model.center_

    middle = effects_of(model._middle[:, 0])
    np.testing.assert_allclose(middle, rows @ model._middle[:, 0], atol=1e-5)
    found = sum(
        effects_of(errors) ** 2
        for errors in np.hstack([each.toarray() for each in model._of_weights]).T
    )
    low, high = model.survival_bands(X, 0.5)
    reach = np.log(np.log(low) / np.log(high)) / 2 / ndtri(0.75)
    logs = np.log(np.log(low) * np.log(high)) / 2 - middle[:, None]
    total = np.logaddexp.accumulate(model._middle_constant)
    assert np.allclose(logs, total, rtol=1e-5, atol=1e-6)
    common = model._common
    moved = effects_of(common.effects[:, 0])[:, None]
    shared = effects_of(common.with_weights[:, 0])[:, None]
    found = found[:, None] + moved**2 * common.of_size - 2 * moved * shared
    found = found + 2 * moved * common.with_times + common.of_times
    found += model._between_knots
    assert np.allclose(reach**2, found, rtol=1e-5)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::skdp.exceptions.SeededNoiseWarning")
def test_large_effects_err_as_far_as_is_said():
    """In straight lines, which have no prior; the twin forgets the common size."""
    columns = {"x": (-1, 1), "z": (-1, 1)}
    facts = {"columns": TableEncoder(columns, numeric="linear"), "horizon": 15.0}
    ends = pd.DataFrame({"x": [-1.0, 1.0], "z": [0.0, 0.0]})
    told, alone, seen = [], [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame(rng.uniform(-1, 1, (1000, 2)), columns=list(columns))
        time = rng.exponential(5, 1000) / np.exp(2 * X["x"])
        y = pd.DataFrame({"event": time <= 15, "duration": np.minimum(time, 15)})
        model = DPDiscreteTimeSurvival(8.0, **facts, random_state=seed).fit(X, y)
        rows = np.asarray(model.encoder_.transform(ends)) * model.scale_
        apart = (rows[1] - rows[0]) / model.row_norm_
        common = model._common
        effect, of_size = apart @ np.hstack([model._middle, common.effects])
        found = sum(np.sum((each.T @ apart) ** 2) for each in model._of_weights)
        shared = float(apart @ common.with_weights[:, 0])
        told.append(found + of_size * (of_size * common.of_size - 2 * shared))
        alone.append(found)
        seen.append((effect - 4) ** 2)
    ratio = math.sqrt(np.mean(seen) / np.mean(told))
    assert 0.75 < ratio < 1.15
    assert math.sqrt(np.mean(seen) / np.mean(alone)) > 1.3


@pytest.mark.long
def test_without_noise_it_is_the_model_of_cox():
    X, y, risk = study(8000)
    exact = DPDiscreteTimeSurvival(math.inf, **FACTS, n_intervals=20).fit(X, y)
    slope = np.polyfit(risk, exact.predict(X), 1)[0]
    assert abs(slope - 1) < 0.12
    assert not exact.privacy_.is_private


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::skdp.exceptions.SeededNoiseWarning")
def test_weights_do_not_pass_the_gate_if_nothing_is_to_be_learned(monkeypatch):
    X, y, _ = study(3000, effect=0.0)

    def passed():
        seeded = (
            DPDiscreteTimeSurvival(0.2, **FACTS, random_state=s) for s in range(20)
        )
        return sum(bool(fitted.fit(X, y).coef_.any()) for fitted in seeded)

    # Of 120 fits to other tables 4 passed.
    assert passed() <= 3
    # The test sees a gate that expects less noise.
    monkeypatch.setattr(_run_noise, "_DEVIATIONS", -5.0)
    assert passed() >= 10


@pytest.mark.filterwarnings("ignore::skdp.exceptions.SeededNoiseWarning")
def test_the_bits_depend_on_no_order_and_users_count_once():
    X, y, _ = study(600)
    order = np.random.default_rng(0).permutation(600)
    seeded = DPDiscreteTimeSurvival(**FACTS, random_state=0)
    first = clone(seeded).fit(X, y)
    second = clone(seeded).fit(X.iloc[order], y.iloc[order])
    users = clone(seeded).set_params(privacy_unit="user")
    third = users.fit(X, y, groups=np.arange(600) % 200)
    assert first.coef_.tobytes() == second.coef_.tobytes()
    assert first.intercept_.tobytes() == second.intercept_.tobytes()
    assert (third.privacy_.n_samples, third.privacy_.unit) == (200, "user")


def test_y_has_many_forms_and_durations_are_clipped():
    y = study(300)[1]
    y.loc[:20, "duration"] = -3.0
    y.loc[20:40, "duration"] = 1e300
    forms = [
        y,
        y[["event", "duration"]].to_numpy(dtype=float),
        y[["event", "duration"]].to_records(index=False),
    ]
    found = [DPDiscreteTimeSurvival(**FACTS)._targets(form, 300) for form in forms]
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
    assert set(found[0][21:41]) == {-10.0}
    assert set(found[0][:20]) == {0.0, 1.0}


@pytest.mark.long
@pytest.mark.parametrize(
    "y",
    [
        pd.DataFrame({"event": np.zeros(300), "duration": np.ones(300)}),
        pd.DataFrame({"event": np.ones(300), "duration": np.zeros(300)}),
        pd.DataFrame({"event": np.ones(300), "duration": np.full(300, 1e9)}),
    ],
    ids=["nobody", "all at once", "beyond the horizon"],
)
@pytest.mark.parametrize("epsilon", [0.01, 8.0, math.inf])
@pytest.mark.parametrize("cells", ["present", "missing", "on heaps"])
def test_extreme_outcomes_raise_and_warn_of_nothing(y, epsilon, cells):
    X, facts = study(300)[0], FACTS
    if cells != "present":
        X["age"] = np.nan if cells == "missing" else 0.0
        age = Range(-1, 1, heaps=[0.0, 0.5], missing=True)
        facts = FACTS | {"columns": FACTS["columns"] | {"age": age}}
    fitted = DPDiscreteTimeSurvival(epsilon, **facts)
    curves = fitted.fit(X, y).predict_survival_function(X)
    assert np.isfinite(curves).all()
    assert np.isfinite(np.concatenate(fitted.survival_bands(X))).all()
    for scoring in (CONCORDANCE, BRIER):
        score = private_score(fitted, X, y, scoring=scoring, epsilon=1.0)
        assert math.isfinite(score.value)


@pytest.mark.parametrize(
    ("params", "y", "match"),
    [
        ({"horizon": None}, None, "horizon"),
        ({"horizon": -1.0}, None, "horizon"),
        ({"n_intervals": 0}, None, "n_intervals"),
        ({"columns": None}, None, "columns"),
        ({"delta": 0.0}, None, "delta above 0"),
        ({}, np.ones(299), "two columns"),
        ({}, np.ones((300, 3)), "two columns"),
        ({}, np.full((300, 2), np.nan), "two columns"),
        ({}, np.full((300, 2), 7.0), "two columns"),
        ({}, np.ones((299, 2)), "two columns"),
        ({}, np.append(np.ones(299), np.nan), "two columns"),
    ],
)
def test_bad_input_spends_nothing(params, y, match, tmp_path):
    X, good, _ = study(300)
    ledger = BudgetLedger(tmp_path / "study.db", epsilon=1.0, delta=1e-6)
    refusing = DPDiscreteTimeSurvival(**FACTS | params, ledger=ledger)
    with pytest.raises((ValueError, TypeError), match=match):
        refusing.fit(X, good if y is None else y)
    assert not ledger.spends()


def test_a_source_has_durations_with_a_sign(tmp_path):
    X, y, _ = study(2000)
    signed = np.where(y["event"], y["duration"], -y["duration"])
    X.assign(signed=signed).to_parquet(tmp_path / "study.parquet")
    facts = {"horizon": 5.0, "random_state": 0}
    source = ParquetSource(
        tmp_path / "study.parquet", target="signed", columns=COLUMNS, n_samples=2000
    )
    model = DPDiscreteTimeSurvival(**facts).fit(source)
    for targets in (y, signed):
        other = DPDiscreteTimeSurvival(**facts, columns=COLUMNS).fit(X, targets)
        assert np.array_equal(other.coef_, model.coef_)
        assert np.array_equal(other.intercept_, model.intercept_)
    with pytest.raises(ValueError, match="must be in memory for a score"):
        private_score(model, source, epsilon=1.0)


def test_figures_exports_and_forecasts(model, tmp_path):
    X = study(4)[0]
    assert len(model.plot_survival(X).ax_.lines) == 4
    assert len(model.plot_effects().axes_) == 3
    model.export_predictor(tmp_path / "hazards.py")
    scope = {}
    exec((tmp_path / "hazards.py").read_text(), scope)
    assert np.allclose(
        np.exp(scope["model"].raw(X)), -np.log1p(-model.predict_hazard(X))
    )
    assert json.loads(model.to_json())["privacy"]["solver"] == "hazard_descent"
    told = DPDiscreteTimeSurvival(**FACTS).forecast(4000)
    assert told.solver == "hazard_descent"


# ---------------------------------------------------------------------- Private scores


def harrell(y, risk):
    """The index of all pairs, in continuous time."""
    time, event = np.minimum(y["duration"], 5.0).to_numpy(), y["event"].to_numpy()
    event = event & (y["duration"].to_numpy() <= 5.0)
    first = event[:, None] & (time[:, None] < time)
    ahead = (risk[:, None] > risk) + 0.5 * (risk[:, None] == risk)
    return ahead[first].mean()


def test_scores_are_near_the_exact_ones_and_in_the_ledger(model, tmp_path):
    X, y, risk = study(6000, seed=1)
    path = tmp_path / "test.db"
    ledger = BudgetLedger(path, epsilon=4.0, delta=1e-5)
    budget = {"epsilon": 2.0, "delta": 1e-6, "ledger": ledger}
    index = private_score(model, X, y, **budget)
    assert index.scoring == CONCORDANCE
    # Pairs within an interval are left out, which are the hardest.
    assert abs(index.value - harrell(y, model.predict(X))) < 0.02 + 6 * 0.01
    brier = private_score(model, X, y, scoring=BRIER, **budget)
    true = survival(risk, model.times_)
    errors = (model.predict_survival_function(X) - true) ** 2 + true * (1 - true)
    assert abs(brier.value + errors.mean()) < 0.01 + 6 * brier.standard_error
    assert len(ledger.spends()) == 2
    with pytest.raises(BudgetExceeded):
        private_score(model, X, y, **budget | {"epsilon": 20.0})


def test_scores_of_the_reverse_and_of_unknown_names(model):
    X, y, _ = study(2000, seed=1)
    reverse = clone(model).fit(X, y)
    reverse.coef_, reverse.intercept_ = -model.coef_, model.intercept_
    exact = {"epsilon": math.inf}
    good, bad = (private_score(m, X, y, **exact).value for m in (model, reverse))
    assert abs(good + bad - 1) < 0.03
    assert good > 0.65
    with pytest.raises(ValueError, match="concordance_index"):
        private_score(model, X, y, scoring="accuracy", epsilon=1.0)


# ---------------------------------------------------------------- scikit-learn's checks


class OfOneColumn(DPDiscreteTimeSurvival):
    """For checks, whose y has one column: all have the event at the time ``|y|``."""

    def fit(self, X, y=None, groups=None):
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        y = np.asarray(y)
        if y.ndim == 1 and y.dtype.kind in "ifO":
            y = np.column_stack([np.ones(len(y)), np.abs(y.astype(float))])
        return super().fit(X, y, groups)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "epsilon", [1.0, pytest.param(math.inf, marks=pytest.mark.long)]
)
def test_scikit_learn_accepts_it(epsilon):
    columns = Range(-10, 10, missing=True)
    checked = OfOneColumn(epsilon, horizon=3.0, n_intervals=3, columns=columns)
    ran, _ = run_checks(estimator_checks_generator(checked))
    assert len(ran) >= 38
