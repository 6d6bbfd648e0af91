"""noisy_newton: its sums, its sensitivity, its standard errors."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.base import clone

from benchmarks import intervals
from skdp import BudgetLedger, DPLinearRegression, DPLogisticRegression
from skdp.exceptions import CoefficientErrorsWarning, Refused
from skdp.linear_model._base import Estimates, _estimate_warnings
from skdp.losses import LogisticLoss, SquaredLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget
from skdp.solvers._newton import NewtonStep, NoisyNewton
from skdp.sums._moments import (
    Coordinates,
    LengthCounts,
    NewtonSums,
    NewtonWeights,
    of_svec,
)
from skdp.tables._memory import MemorySource
from tests.door import planned

LOSSES = {"logistic": LogisticLoss(), "squared": SquaredLoss(2.0, target_bound=1.0)}


def svec(matrix):
    """The diagonal and sqrt(2) times the upper triangle."""
    above = matrix[np.triu_indices(len(matrix), 1)]
    return np.concatenate([np.diag(matrix), math.sqrt(2) * above])


PARTS = [(1.0, 0.5, 0.25), (1.0, 2.0, 0.0), (0.0, 1.0, 0.0), (0.5, 0.2, 3.0)]
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
    rng = np.random.default_rng(0)
    matrix = np.eye(d + has_intercept) + 0.3 * rng.normal(size=[d + has_intercept] * 2)
    # Some rows are longer than the norm, and weigh less.
    return NewtonSums(objective, NewtonWeights(*parts), Coordinates.of(matrix, 1.5))


def make_data(name, n=100, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    y = rng.normal(size=n) if name == "squared" else rng.integers(0, 2, n) * 1.0
    return X, y


def contributions(sums, X, y, weights):
    """The definition, for rows within the norm."""
    objective, full = sums.objective, X
    if objective.fit_intercept:
        full = np.hstack([X, np.full((len(X), 1), objective.data_norm)])
    rows, norm = full @ sums.frame.matrix, sums.frame.norm
    s = np.minimum(1, norm / np.linalg.norm(rows, axis=1))[:, None]
    return added(sums, s * rows / norm, s, y, full @ weights)


def added(sums, u, s, y, raw):
    """What records with these coordinates, weights and predictions add."""
    (g, h, q), loss = vars(sums.parts).values(), sums.objective.loss
    r = s * loss.residual(y, raw) / loss.zero_out_bound(math.inf)
    c = loss.curvature(y, raw).reshape(-1, 1) / loss.smoothness
    i, j = np.triu_indices(u.shape[1], 1)
    squares = np.hstack([u**2, math.sqrt(2) * u[:, i] * u[:, j]])
    parts = [g * r * u] * (g > 0) + [h * c * squares] + [q * r**2 * squares] * (q > 0)
    return np.hstack(parts)


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


def test_rows_longer_than_a_limit_are_counted_once():
    X, y = make_data("logistic")
    frame, limits = sums_of("logistic", PARTS[0]).frame, np.array([1.0, 2.0, 3.0])
    short = X * (2.0 / np.maximum(2.0, np.linalg.norm(X, axis=1)))[:, None]
    rows = np.hstack([short, np.full((100, 1), 2.0)]) @ frame.matrix
    lengths = np.linalg.norm(rows, axis=1)
    wanted = np.histogram(lengths, [*limits, np.inf])[0]
    for store in (np.asarray, csr_array):
        query = LengthCounts(100, 2.0, frame.matrix, limits)
        assert (query.total(MemorySource(store(X), y), None) == wanted).all()


def changes(sums, seed=0, count=5000):
    """Sizes of what one record changes, over the bound at the same weights.

    Coordinates of full length, many of them nearly alike, opposite or orthogonal, and
    predictions of every size that a row can have.
    """
    rng = np.random.default_rng(seed)
    objective, found = sums.objective, 0.0
    for size in (0.0, 0.3, 1.0, 3.0, 30.0, 3000.0):
        weights = rng.normal(size=(objective.n_columns, 1))
        weights *= size / np.linalg.norm(weights)
        reach = np.linalg.norm(weights[: objective.n_features])
        reach += abs(weights[-1, 0]) if objective.fit_intercept else 0.0
        first, second = (rng.normal(size=(count, objective.n_columns)) for _ in "12")
        near = rng.choice([-1.0, 1.0], (count, 1)) * first
        second = np.where(rng.random((count, 1)) < 0.5, near, second)
        pair = []
        for rows in (first, second):
            y = rng.choice([-1.0, 1.0] if _is_squared(sums) else [0, 1], count)
            raw = rng.choice([-1.0, 0.0, 1.0], (count, 1)) * objective.data_norm * reach
            u = rows / np.linalg.norm(rows, axis=1)[:, None]
            pair.append(added(sums, u, 1.0, y, raw))
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
            return honest(replace(self, parts=NewtonWeights(1.0, 1e-9, 0.0)), radius)
        found = honest(self, radius)
        if bug == "one record":
            return replace(found, replace_one=found.zero_out)
        return honest(self, 0.0)  # "start": the residuals of the first answer

    monkeypatch.setattr(NewtonSums, "bound", bound)


@by_loss
@pytest.mark.parametrize("bug", ["matrices", "one record", "start"])
def test_broken_twins_are_found(name, bug, monkeypatch):
    parts = (1.0, 2.0, 1.0) if bug == "matrices" else PARTS[0]
    sums = sums_of(name, parts, d=2)
    planted(monkeypatch, bug)
    assert changes(sums) > 1.1


@by_adjacency
def test_what_whole_numbers_add_is_there_and_is_charged(adjacency):
    """A record, or two of opposite gradients, that only Lemma 7 keeps in the bound."""
    objective = LinearObjective(
        loss=LOSSES["logistic"],
        n_samples=1,
        n_features=3,
        data_norm=1.0,
        adjacency=adjacency,
        fit_intercept=False,
    )
    # Rows of this norm are not shortened, and have the full length in the frame.
    parts, norm = NewtonWeights(1.0, 1e-6, 0.0), 1 - 2.0**-20
    query = NewtonSums(objective, parts, Coordinates(np.eye(3), norm)).at(
        np.zeros((3, 1))
    )
    rows = np.random.default_rng(0).normal(size=(500_000, 3))
    rows *= norm / np.linalg.norm(rows, axis=1)[:, None]
    # Residuals are 1/2. To the lengths of these rows, rounding adds most.
    added = np.linalg.norm(np.rint(rows / norm * 2.0**20), axis=1)
    size, bound = 0.0, query.bound().under(adjacency)
    for row in rows[np.argsort(-added)[:100], None]:
        alone = [query.total(MemorySource(row, np.array([y])), None) for y in (0.0, 1)]
        moved = alone[0] - alone[1] if adjacency == "replace_one" else alone[0]
        size = max(size, float(np.linalg.norm(moved)))
    assert size <= bound
    # Twins that leave it out, or charge it once for two records.
    assert size > bound - query.of._rounded()


@pytest.mark.parametrize("has_intercept", [True, False])
def test_the_variance_of_the_noise_is_what_is_stated(has_intercept):
    """Of ``N_g + N d``, which is linear in the noise of the query: exactly."""
    sums = sums_of("logistic", (1.0, 0.5, 0.25), has_intercept=has_intercept)
    query = sums.at(np.zeros((3 + has_intercept, 1)))
    d = np.array([0.5, -1.0, 3.0, 0.7])[: 3 + has_intercept]
    each = []
    for one in np.eye(*query.shape):
        noise = query.read(one)
        each.append(noise.gradient + noise.curvature @ d)
    nothing = query.read(np.zeros(query.shape))
    noises = sums.noise(2.0)
    start, frame = np.zeros(len(d)), np.eye(len(d))
    step = NewtonStep(start, frame, nothing, *noises, 0.0, 300, 1.0)
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


def test_where_steps_have_not_arrived_there_are_no_errors():
    """One step from the base rate towards strong slopes; more steps arrive."""
    rng = np.random.default_rng(0)
    X = intervals._rows(rng, 20_000, 2)
    y = (rng.uniform(size=len(X)) < expit(12 * X[:, 0] - 6 * X[:, 1])).astype(int)
    few = fitted(X, y, 8.0, solver_params={"n_steps": 1}, random_state=0)
    assert np.isinf(few.estimates_.errors).all()
    params = {"n_steps": 10, "reach": 3.0}
    enough = fitted(X, y, 8.0, solver_params=params, random_state=0)
    assert abs(enough.summary()["coef"]["x0"] - 12) < 1


@by_loss
def test_shares_of_the_budget_grow_and_are_all_of_it(name):
    objective = sums_of(name, PARTS[0]).objective
    solver = planned(NoisyNewton, objective, Budget(1.0, 1e-6))
    shares = solver.shares(objective)
    lines = solver.plan(objective).lines
    assert [line.mu_share for line in lines] == list(shares.values())
    assert sum(shares.values()) == pytest.approx(1.0, rel=1e-15)
    steps = [shares[f"step {k}"] for k in range(solver.n_steps)]
    assert np.allclose(np.diff(np.log(steps)), np.log(3))
    moments = [shares[f"moments {k}"] for k in range(4)]
    assert sum(moments) == pytest.approx(0.2)
    assert np.allclose(np.diff(np.log2(moments)), 1.0)


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


@pytest.mark.parametrize("correlation", [0.0, 0.95])
def test_a_forecast_says_from_how_many_records_on_there_are_errors(correlation):
    def model_of():
        return DPLogisticRegression(
            4.0,
            adjacency="zero_out",
            solver="noisy_newton",
            random_state=0,
            classes=[0, 1],
        )

    def stated(n):
        forecast = model_of().forecast(n, 6)
        (note,) = forecast.notes
        assert f" {note}." in str(forecast)
        assert note in forecast._repr_html_()
        return float(note.split("about ")[1].split()[0].replace(",", ""))

    enough = stated(1000)
    assert stated(100_000) == enough
    for share, has_errors in ((0.3, False), (1.5, True)):
        n, rng = int(share * enough), np.random.default_rng(1)
        X = intervals.correlated(rng, n, correlation * np.ones((6, 6)))
        y = (X[:, 0] > rng.logistic(size=n)).astype(int)
        errors = model_of().fit(X, y).estimates_.errors
        assert np.isfinite(errors).all() == has_errors


def test_columns_that_noise_leaves_alike_are_named_and_hide_no_others():
    """Declared categories add up to a constant, as the intercept does."""
    rng = np.random.default_rng(0)
    kinds = rng.choice(3, 60_000)
    X = np.column_stack([rng.uniform(-1, 1, (60_000, 2)), np.eye(3)[kinds]]) / 2
    y = (X @ [3, -2, 0, 1, 2] > rng.logistic(size=60_000)).astype(int)
    frame = pd.DataFrame(X, columns=["age", "dose", "a", "b", "c"])
    with pytest.warns(CoefficientErrorsWarning, match="of a, b, c, intercept, which"):
        model = fitted(frame, y, 8.0, random_state=0)
    table = model.summary()
    assert table.loc[["age", "dose"]].notna().all(axis=None)
    assert table.loc[["a", "b", "c", "intercept"], "coef"].isna().all()
    assert np.isinf(table.loc[["a", "b", "c", "intercept"], "std err"]).all()
    assert model.estimates_.hidden == ("a", "b", "c", "intercept")
    assert any("Noise hides" in each for each in model.privacy_.warnings)
    # The estimator stays fitted if the warning is an error.
    again = clone(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CoefficientErrorsWarning)
        with pytest.raises(CoefficientErrorsWarning):
            again.fit(frame, y)
    assert again.estimates_.hidden


def test_rows_far_from_others_are_kept_where_noise_allows():
    """One record in 50 is six times as far out, and decides the slope."""
    rng = np.random.default_rng(0)
    far = rng.uniform(size=50_000) < 0.02
    x = np.where(far, 0.3, 0.05) * rng.uniform(-1, 1, 50_000)
    y = 20 * x**3 + 0.1 * rng.uniform(-1, 1, 50_000)
    wanted = (x @ y) / (x @ x)

    def slope(**params):
        own = {"solver_params": params, "random_state": 0}
        model = fitted(x[:, None], y, 8.0, DPLinearRegression, **own)
        return model.summary().loc["x0"]

    own, short = slope(), slope(reach=1.5)
    assert abs(own["coef"] - wanted) < 5 * own["std err"]
    # A twin that weighs them less has the slope of the others.
    assert abs(short["coef"] - wanted) > 5 * short["std err"]


@pytest.mark.parametrize(("far", "n_hidden"), [(0.02, 0), (0.0, 0), (0.02, 2)])
def test_a_warning_says_how_many_records_weigh_less(far, n_hidden):
    covariance = np.diag([np.inf] * n_hidden + [1.0] * (2 - n_hidden))
    estimates = Estimates(("age", "dose"), np.zeros(2), covariance, far)
    (*_, text) = [*_estimate_warnings(estimates)] or [""]
    is_said = far > 0 and n_hidden < 2
    assert ("About 2 % of the records lie far" in text) == is_said
