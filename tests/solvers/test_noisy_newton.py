"""noisy_newton: its sums, its sensitivity, its standard errors."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import expit

from benchmarks import intervals
from skdp import BudgetLedger, DPLinearRegression, DPLogisticRegression
from skdp.exceptions import Refused
from skdp.losses import LogisticLoss, SquaredLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget
from skdp.solvers._newton import NewtonStep, NoisyNewton
from skdp.sums._moments import NewtonSums, NewtonWeights, of_svec
from skdp.tables._memory import MemorySource
from tests.door import planned

LOSSES = {"logistic": LogisticLoss(), "squared": SquaredLoss(2.0, target_bound=1.0)}


def svec(matrix):
    """The diagonal and sqrt(2) times the upper triangle."""
    above = matrix[np.triu_indices(len(matrix), 1)]
    return np.concatenate([np.diag(matrix), math.sqrt(2) * above])


PARTS = [(0.5, 0.5, 0.25), (1.0, 2.0, 0.0), (0.1, 0.2, 3.0)]
by_loss = pytest.mark.parametrize("name", LOSSES)
by_parts = pytest.mark.parametrize("parts", PARTS)
by_adjacency = pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])


def sums_of(name, parts, *, adjacency="replace_one", norm=2.0, has_intercept=True, d=3):
    objective = LinearObjective(
        loss=LOSSES[name],
        n_samples=100,
        n_features=d,
        data_norm=norm,
        adjacency=adjacency,
        fit_intercept=has_intercept,
    )
    return NewtonSums(objective, NewtonWeights(*parts))


def make_data(name, n=100, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    y = rng.normal(size=n) if name == "squared" else rng.integers(0, 2, n) * 1.0
    return X, y


def contributions(sums, X, y, weights):
    """The definition, for rows within the norm."""
    objective, (t, h, q) = sums.objective, vars(sums.parts).values()
    loss, u = objective.loss, X / objective.data_norm
    own = weights[: objective.n_features]
    raw = X @ own
    if objective.fit_intercept:
        u = np.hstack([u, np.full((len(u), 1), t)])
        raw = raw + objective.data_norm * weights[-1]
    r = loss.residual(y, raw) / loss.zero_out_bound(math.inf)
    c = loss.curvature(y, raw).reshape(-1, 1) / loss.smoothness
    i, j = np.triu_indices(u.shape[1], 1)
    squares = np.hstack([u**2, math.sqrt(2) * u[:, i] * u[:, j]])
    parts = [r * u, h * c * squares]
    return np.hstack([*parts, q * r**2 * squares] if q else parts)


def asked(sums, source, weights):
    with np.errstate(all="ignore"):  # as `solve` does
        return sums.at(weights).total(source, None)


@by_loss
@by_parts
def test_sums_are_those_of_the_definition(name, parts):
    """To the grid of the rows; that blocks do not matter is of all sums."""
    sums = sums_of(name, parts)
    X, y = make_data(name)
    weights = np.array([[0.3], [-0.7], [0.2], [0.4]])
    short = X * (2.0 / np.maximum(2.0, np.linalg.norm(X, axis=1)))[:, None]
    expected = contributions(sums, short, y, weights).sum(axis=0)
    for store in (np.asarray, csr_array):
        found = asked(sums, MemorySource(store(X), y), weights)
        tolerance = 100 * (1 + sum(parts)) * 2.0**-20
        assert np.allclose(found, expected, rtol=0, atol=tolerance)


def changes(sums, seed=0, count=5000):
    """Sizes of what one record changes, over the bound at the same weights.

    Rows of full norm, many of them nearly alike, opposite or orthogonal, and weights of
    every size across them.
    """
    rng = np.random.default_rng(seed)
    objective, d = sums.objective, sums.objective.n_features
    found = 0.0
    for size in (0.0, 0.3, 1.0, 3.0, 30.0, 3000.0):
        weights = rng.normal(size=(objective.n_columns, 1))
        weights *= size / np.linalg.norm(weights)
        first, second = (rng.normal(size=(count, d)) for _ in range(2))
        across = rng.random((count, 1)) < 0.5
        slope = weights[:d, 0] / (np.linalg.norm(weights[:d]) or 1.0)
        for rows in (first, second):
            rows -= across * np.outer(rows @ slope, slope)
        near = rng.choice([-1.0, 1.0], (count, 1)) * first
        second = np.where(rng.random((count, 1)) < 0.5, near, second)
        pair = []
        for rows in (first, second):
            length = objective.data_norm / np.linalg.norm(rows, axis=1)[:, None]
            y = rng.choice([-1.0, 1.0] if _is_squared(sums) else [0, 1], count)
            pair.append(contributions(sums, rows * length, y, weights))
        moved = pair[0] - pair[1] if objective.adjacency == "replace_one" else pair[0]
        bound = sums.at(weights).bound().under(objective.adjacency)
        found = max(found, float(np.linalg.norm(moved, axis=1).max()) / bound)
    return found


def _is_squared(sums):
    return isinstance(sums.objective.loss, SquaredLoss)


@by_loss
@by_parts
@by_adjacency
@pytest.mark.parametrize("has_intercept", [True, False])
def test_search_never_exceeds_the_sensitivity(name, parts, adjacency, has_intercept):
    sums = sums_of(name, parts, adjacency=adjacency, has_intercept=has_intercept, d=2)
    assert 0.8 < changes(sums) <= 1


def planted(monkeypatch, bug):
    """Bounds that a bug has made too small."""
    honest = NewtonSums.bound

    def bound(self, radius):
        if bug == "matrices":
            return honest(replace(self, parts=NewtonWeights(0.5, 1e-9, 0.0)), radius)
        found = honest(self, radius)
        if bug == "one record":
            return replace(found, replace_one=found.zero_out)
        return honest(self, 0.0)  # "start": the residuals of the first answer

    monkeypatch.setattr(NewtonSums, "bound", bound)


@by_loss
@pytest.mark.parametrize("bug", ["matrices", "one record", "start"])
def test_broken_twins_are_found(name, bug, monkeypatch):
    parts = (0.5, 2.0, 1.0) if bug == "matrices" else PARTS[0]
    sums = sums_of(name, parts, d=2)
    planted(monkeypatch, bug)
    assert changes(sums) > 1.1


# A row of norm 2^22, nearly, whose entries are whole and 3 modulo 4; halved twice, all
# of them are rounded away from 0.
_ROUNDED_UP = np.array([[2420383.0, 2420383.0, 2423979.0]])


@by_adjacency
def test_what_whole_numbers_add_is_there_and_is_charged(adjacency):
    """A record, or two of opposite gradients, that only Lemma 7 keeps in the bound."""
    parts = (1 - 0.49 * 2.0**-20, 1e-6, 0.0)
    sums = sums_of("logistic", parts, adjacency=adjacency, norm=2.0**22)
    query = sums.at(np.zeros((4, 1)))
    alone = [
        asked(sums, MemorySource(_ROUNDED_UP, np.array([y])), query.weights)
        for y in (0.0, 1.0)
    ]
    moved = alone[0] - alone[1] if adjacency == "replace_one" else alone[0]
    size, bound = float(np.linalg.norm(moved)), query.bound().under(adjacency)
    assert size <= bound
    # Twins that leave it out, or charge it once for two records.
    assert size > bound - sums._rounded()


@pytest.mark.parametrize("has_intercept", [True, False])
def test_the_variance_of_the_noise_is_what_is_stated(has_intercept):
    """Of ``N_g + N d``, which is linear in the noise of the query: exactly."""
    sums = sums_of("logistic", (0.5, 0.5, 0.25), has_intercept=has_intercept)
    query = sums.at(np.zeros((3 + has_intercept, 1)))
    d = np.array([0.5, -1.0, 3.0, 0.7])[: 3 + has_intercept]
    each = []
    for one in np.eye(*query.shape):
        noise = query.read(one)
        each.append(noise.gradient + noise.curvature @ d)
    nothing = query.read(np.zeros(query.shape))
    noises = sums.noise(2.0)
    step = NewtonStep(np.zeros(len(d)), nothing, *noises, np.zeros(len(d)), 300, 1.0)
    step.__dict__["length"] = d
    stated = step._variance()
    assert np.allclose(stated, 4 * np.transpose(each) @ np.array(each), rtol=1e-12)
    assert np.allclose(of_svec(svec(stated), len(d)), stated)


def fitted(X, y, epsilon=1.0, kind=DPLogisticRegression, **params):
    given = {"target_bounds": (-2, 2)} if kind is DPLinearRegression else {}
    given |= {} if given else {"classes": [0, 1]}
    return kind(epsilon, solver="noisy_newton", **given | params).fit(X, y)


@pytest.mark.filterwarnings("ignore::skdp.exceptions.LargeDeltaWarning")
def test_with_little_noise_they_are_those_of_a_sandwich():
    drawn = intervals.labelled(5000, 3, 0)
    model = fitted(drawn.X, drawn.y, 1e6, delta=0.4)
    wanted = intervals.newton(intervals.with_constant(drawn.X), drawn.y, np.zeros(4))
    assert np.allclose(model.estimates_.values, wanted, atol=1e-3)
    usual = intervals.of_labels(drawn) / intervals._NEEDED
    assert np.allclose(model.estimates_.errors, usual, rtol=0.01)
    # With a strong penalty, under which gradients have a mean that is no spread.
    model = fitted(drawn.X, drawn.y, 1e6, delta=0.4, C=1 / (5000 * 0.05))
    U, penalty = intervals.with_constant(drawn.X), np.full(4, 5000 * 0.05)
    wanted = intervals.newton(U, drawn.y, penalty)
    chances = expit(U @ wanted)
    bent = (U.T * chances * (1 - chances)) @ U + np.diag(penalty)
    spread = np.cov((U * (chances - drawn.y)[:, None]).T) * 5000
    usual = np.linalg.solve(bent, np.linalg.solve(bent, spread).T)
    assert np.allclose(model.estimates_.values, wanted, atol=1e-3)
    assert np.allclose(model.estimates_.errors**2, np.diag(usual), rtol=0.02)
    uneven = intervals.uneven(5000, 3, 0)
    bounds = {"target_bounds": (-1.5, 2.5)}
    model = fitted(uneven.X, uneven.y, 1e6, DPLinearRegression, delta=0.4, **bounds)
    assert np.allclose(model.estimates_.values, [*model.coef_, model.intercept_])
    usual = intervals.robust(uneven) / intervals._NEEDED
    assert np.allclose(model.estimates_.errors, usual, rtol=0.01)


def test_where_steps_have_not_arrived_nothing_is_told():
    """One step from 0 towards a label that 98 in 100 have; more steps arrive."""
    rng = np.random.default_rng(0)
    X = intervals._rows(rng, 20_000, 2)
    y = (rng.uniform(size=len(X)) < expit(-4.0)).astype(int)
    few = fitted(X, y, 8.0, solver_params={"n_steps": 1})
    assert np.isinf(few.estimates_.errors).all()
    enough = fitted(X, y, 8.0, solver_params={"n_steps": 8})
    assert abs(enough.summary()["coef"]["intercept"] + 4.0) < 0.5


def test_shares_of_the_budget_grow_and_are_all_of_it():
    objective = sums_of("logistic", PARTS[0]).objective
    solver = planned(NoisyNewton, objective, Budget(1.0, 1e-6))
    shares = [line.mu_share for line in solver.plan(objective).lines]
    assert len(shares) == solver.n_steps
    assert sum(shares) == pytest.approx(1.0, rel=1e-15)
    assert np.allclose(np.diff(np.log2(shares)), 1.0)


@pytest.mark.parametrize("facts", [{"offset": (0.5,)}, {"product_norm": 4.0}])
def test_what_the_query_does_not_know_of_is_refused(facts):
    """Predictions from elsewhere, and rows that products have longer."""
    objective = replace(sums_of("logistic", PARTS[0]).objective, **facts)
    with pytest.raises(Refused, match="and nothing more"):
        NoisyNewton.planned({}, objective, Budget(1.0, 1e-6))


def test_refusals_cost_nothing(tmp_path):
    drawn = intervals.labelled(100, 2, 3)
    books = BudgetLedger(tmp_path / "books.db", epsilon=9.0, delta=1e-5)
    for params, reason in (
        ({"delta": 0}, "cannot do delta=0"),
        ({"classes": [0, 1, 2]}, "two classes"),
        ({"class_weight": {1: 3.0}}, "count alike"),
    ):
        with pytest.raises(Refused, match=reason):
            fitted(drawn.X, drawn.y, ledger=books, **params)
    with pytest.raises(Refused, match="at most 1000 features"):
        fitted(np.zeros((100, 1001)), drawn.y, ledger=books)
    assert not books.spends()
    # A fit without them forgets those of another.
    model = fitted(drawn.X, drawn.y, ledger=books)
    assert len(books.spends()) == 1
    model.set_params(solver="noisy_gd", ledger=None)
    model.fit(drawn.X, drawn.y)
    assert not hasattr(model, "estimates_")
    with pytest.raises(ValueError, match="fitted with standard errors"):
        model.summary()


def test_a_forecast_says_from_how_many_records_on_errors_are_told():
    def model_of(n):
        return DPLogisticRegression(
            4.0,
            adjacency="zero_out",
            data_norm=2.0,
            solver="noisy_newton",
            random_state=0,
            classes=[0, 1],
            C=1 / (n * 0.02),
        )

    def told(n):
        forecast = model_of(n).forecast(n, 6)
        (note,) = forecast.notes
        assert f" {note}." in str(forecast)
        assert note in forecast._repr_html_()
        return float(note.split()[-3].replace(",", ""))

    enough = told(1000)
    assert told(100_000) == enough
    for share, is_told in ((0.6, False), (2.0, True)):
        n, rng = int(share * enough), np.random.default_rng(1)
        X = 2 * rng.uniform(-1, 1, (n, 6)) / np.sqrt(6)
        y = (X[:, 0] > rng.logistic(size=n)).astype(int)
        model = model_of(n).fit(X, y)
        assert np.isfinite(model.estimates_.values).all() == is_told
