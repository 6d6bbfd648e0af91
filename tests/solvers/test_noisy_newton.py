"""noisy_newton: its sums, its sensitivity, its standard errors."""

from __future__ import annotations

import math
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from scipy.special import expit
from scipy.stats import chi2

from benchmarks import intervals
from skdp import BudgetLedger, DPLinearRegression, DPLogisticRegression
from skdp.exceptions import Refused
from skdp.losses import LogisticLoss, SquaredLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget, epsilon_of
from skdp.solvers._newton import NewtonStep, NoisyNewton
from skdp.sums._moments import NewtonAnswer, NewtonSums, NewtonWeights, of_svec
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
def test_blocks_storages_and_definition_agree(name, parts):
    """To the last bit among themselves, with the definition to the grid of the rows."""
    sums = sums_of(name, parts)
    X, y = make_data(name)
    X = X.astype(np.float32).astype(float)
    weights = np.array([[0.3], [-0.7], [0.2], [0.4]])
    short = X * (2.0 / np.maximum(2.0, np.linalg.norm(X, axis=1)))[:, None]
    expected = contributions(sums, short, y, weights).sum(axis=0)
    found = asked(sums, MemorySource(X, y), weights)
    assert found.shape == sums.at(weights).shape == expected.shape
    assert np.allclose(found, expected, rtol=0, atol=100 * (1 + sum(parts)) * 2.0**-20)
    order = np.random.default_rng(1).permutation(100)
    for each in (X, np.asfortranarray(X), X.astype(np.float32), csr_array(X)):
        for block in (1, 64, 100):
            source = MemorySource(each[order], y[order])
            source.facts = replace(source.facts, largest_block=block)
            assert np.array_equal(asked(sums, source, weights), found)
    nobody = MemorySource(X, y, present=np.zeros(100, dtype=bool))
    assert not asked(sums, nobody, weights).any()


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


def test_whole_numbers_are_not_longer_than_what_is_charged():
    """One record in the query as it runs, against the definition and `_rounded`."""
    sums = sums_of("logistic", PARTS[0])
    X, y = make_data("logistic", n=50)
    short = X * (2.0 / np.maximum(2.0, np.linalg.norm(X, axis=1)))[:, None]
    weights = np.array([[0.3], [-0.7], [0.2], [0.4]])
    exact = contributions(sums, short, y, weights)
    for i in range(50):
        found = asked(sums, MemorySource(X[i : i + 1], y[i : i + 1]), weights)
        # The row's own rounding is no longer row; it is not in what is charged.
        assert np.linalg.norm(found - exact[i]) < sums._rounded() + 2.0**-19
    assert 0 < sums._rounded() < 1e-5


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


def test_sums_of_many_products_are_exact():
    """To the last bit, of more rows than double precision adds up."""
    rng = np.random.default_rng(0)
    sums = sums_of("squared", PARTS[0], norm=2.0**21, has_intercept=False, d=2)
    X = rng.integers(2**19, 2**20, (2**15, 2)) * 1.0
    source = MemorySource(X, np.zeros(len(X)))
    (total,) = sums.at(np.zeros((2, 1))).whole_sums(source, None)
    found = total._high.astype(object) * 2**32 + total._low.astype(object)
    whole = X.astype(np.int64).astype(object)
    exact = whole.T @ whole
    # The gradient comes before the curvature.
    assert found[2:5].tolist() == [exact[0, 0], exact[1, 1], exact[0, 1]]


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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kind(epsilon, solver="noisy_newton", **given | params).fit(X, y)


def test_with_little_noise_they_are_those_of_a_sandwich():
    drawn = intervals.labelled(5000, 3, 0)
    model = fitted(drawn.X, drawn.y, 1e6, delta=0.4)
    wanted = intervals.newton(intervals.with_constant(drawn.X), drawn.y, np.zeros(4))
    assert np.allclose(model.estimates_.values, wanted, atol=1e-3)
    usual = intervals.of_labels(drawn) / intervals._NEEDED
    assert np.allclose(model.estimates_.errors, usual, rtol=0.01)
    # With rows that are clipped, and a penalty.
    longer = intervals.labelled(20_000, 3, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = intervals.CASES["clipped"].model(1e6, delta=0.4)
        model.fit(longer.X, longer.y)
    U = intervals.with_constant(intervals._clipped(longer.X))
    wanted = intervals.newton(U, longer.y, intervals._penalty(len(U), 4))
    assert np.allclose(model.estimates_.values, wanted, atol=1e-3)
    usual = intervals.of_labels(longer, is_clipped=True) / intervals._NEEDED
    assert np.allclose(model.estimates_.errors, usual, rtol=0.01)
    # With a strong one, under which gradients have a mean that is no spread.
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


def how_far_off(name, size, epsilon, adjacency, count):
    """Squared errors in units of the covariance, a coefficient, and how many they are.

    Their mean is 1, as of a chi-square, where intervals are neither short nor wide.
    """
    case, squares = intervals.CASES[name], []
    for seed in range(count):
        drawn = case.drawn(*size, seed)
        model = case.model(epsilon, adjacency=adjacency)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = model.fit(drawn.X, drawn.y).estimates_
        if np.isfinite(found.covariance).all():
            off = found.values - drawn.truth
            squares.append(off @ np.linalg.solve(found.covariance, off))
    assert len(squares) > count / 2
    return np.sum(squares) / (len(squares) * len(off)), len(squares) * len(off)


def limits(count):
    """Left by chance once in 10^9 by variances that are a tenth off, either way."""
    ends = chi2.ppf(5e-10, count) / 1.1, chi2.isf(5e-10, count) * 1.1
    return np.array(ends) / count


LABELS = "logistic", (6000, 1), 0.5, "replace_one"
UNEQUAL = "unequal", (2000, 2), 4.0, "zero_out"


@pytest.mark.parametrize("case", [LABELS, UNEQUAL])
def test_errors_are_as_large_as_is_told(case):
    found, count = how_far_off(*case, 60)
    low, high = limits(count)
    assert low < found < high


@pytest.mark.parametrize("bug", ["little noise", "no records", "too wide"])
def test_broken_twins_of_the_variance_are_found(bug, monkeypatch):
    honest = NewtonStep._variance

    def variance(self):
        if bug == "little noise":
            of_gradient, of_curvature = self.gradient_noise, self.curvature_noise
            less = {"gradient_noise": of_gradient / 4}
            return honest(replace(self, **less, curvature_noise=of_curvature / 4))
        if bug == "too wide":
            return 9 * honest(self)
        nothing = np.zeros_like(self.sums.squares)
        return honest(replace(self, sums=replace(self.sums, squares=nothing)))

    monkeypatch.setattr(NewtonStep, "_variance", variance)
    monkeypatch.setattr(NewtonStep, "_left", lambda *_: 0.0)
    name, size, epsilon, adjacency = LABELS
    epsilon = 4.0 if bug == "no records" else epsilon
    found, count = how_far_off(name, size, epsilon, adjacency, 50)
    low, high = limits(count)
    assert found < low if bug == "too wide" else found > high


def test_a_table_as_others_have_it():
    drawn = intervals.labelled(8000, 3, 1)
    frame = pd.DataFrame(drawn.X, columns=["a", "b", "c"])
    model = fitted(frame, drawn.y, epsilon=4.0)
    table = model.summary()
    names = ["coef", "std err", "z", "P>|z|", "[0.025", "0.975]"]
    assert list(table.columns) == names
    assert list(table.index) == ["a", "b", "c", "intercept"]
    assert np.allclose(table["coef"], [*model.coef_[0], model.intercept_[0]])
    assert pickle.loads(pickle.dumps(model)).summary().equals(table)
    without = fitted(drawn.X, drawn.y, fit_intercept=False).summary()
    assert list(without.index) == ["x0", "x1", "x2"]
    told = model.privacy_
    assert epsilon_of(told.event, 1e-6) == pytest.approx(4.0, rel=1e-6)
    assert told.solver == "noisy_newton"
    # The units of rows do not matter.
    longer = fitted(10 * drawn.X, drawn.y, epsilon=4.0, data_norm=10.0, random_state=0)
    same = fitted(drawn.X, drawn.y, epsilon=4.0, random_state=0)
    assert np.allclose(10 * longer.coef_, same.coef_)
    assert np.allclose(longer.intercept_, same.intercept_)
    errors = longer.estimates_.errors * [10, 10, 10, 1]
    assert np.allclose(errors, same.estimates_.errors, rtol=1e-4)


def test_where_noise_drowns_a_direction_nothing_is_told():
    drawn = intervals.labelled(100, 3, 2)
    model = fitted(drawn.X, drawn.y, epsilon=0.1)
    assert model.summary()["coef"].isna().all()
    assert np.isinf(model.estimates_.errors).all()
    assert np.isfinite(model.coef_).all()
    twins = np.hstack([drawn.X, drawn.X])
    assert np.isinf(fitted(twins, drawn.y, 1e3).estimates_.errors).all()


@pytest.mark.parametrize(("height", "is_told"), [(3.9, False), (4.1, True)])
def test_four_edges_of_the_noise_have_to_be_passed(height, is_told):
    """In every direction: here the edge is 2 and the other curvature is large."""
    curvature = np.diag([2 * height, 1000.0])
    sums = NewtonAnswer(np.ones(2), curvature, np.eye(2))
    step = NewtonStep(np.zeros(2), sums, 1.0, 1.0, np.zeros(2), 100, 1.0)
    assert np.isfinite(step.covariance(0.0)).all() == is_told


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
    with pytest.raises(ValueError, match="'lift' parameter"):
        fitted(drawn.X, drawn.y, ledger=books, solver_params={"lift": -1.0})
    with pytest.raises(Refused, match="at most 1000 features"):
        fitted(np.zeros((100, 1001)), drawn.y, ledger=books)
    assert not books.spends()
    # A fit without them forgets those of another.
    model = fitted(drawn.X, drawn.y, ledger=books)
    assert len(books.spends()) == 1
    model.set_params(solver="noisy_gd", ledger=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(drawn.X, drawn.y)
    assert not hasattr(model, "estimates_")
    with pytest.raises(ValueError, match="summary needs standard errors"):
        model.summary()


@by_loss
@pytest.mark.parametrize("penalty", [None, 0.02])
def test_a_forecast_says_from_how_many_records_on_errors_are_told(name, penalty):
    kinds = {"logistic": DPLogisticRegression, "squared": DPLinearRegression}
    facts = {"logistic": {"classes": [0, 1]}, "squared": {"target_bounds": (-1, 1)}}

    def of(n):
        model = kinds[name](
            4.0,
            adjacency="zero_out",
            data_norm=2.0,
            solver="noisy_newton",
            random_state=0,
            **facts[name],
        )
        if penalty is not None:  # of the mean loss, in units of the loss
            strength = {
                "logistic": {"C": 1 / (n * penalty)},
                "squared": {"alpha": 0.04},
            }
            model.set_params(**strength[name])
        return model

    def told(n):
        (note,) = of(n).forecast(n, 6).notes
        assert f" {note}." in str(of(n).forecast(n, 6))
        assert note in of(n).forecast(n, 6)._repr_html_()
        return float(note.split()[-3].replace(",", ""))

    enough = told(1000)
    assert told(100_000) == enough
    for share, is_told in ((0.6, False), (2.0, True)):
        n = int(share * enough)
        rng = np.random.default_rng(1)
        X = 2 * rng.uniform(-1, 1, (n, 6)) / np.sqrt(6)
        y = X[:, 0] > rng.logistic(size=n) if name == "logistic" else X[:, 0] / 2
        fitted = of(n).fit(X, y.astype(int) if name == "logistic" else y)
        assert np.isfinite(fitted.estimates_.values).all() == is_told


def test_other_solvers_foretell_nothing_of_errors():
    assert DPLogisticRegression(1.0, classes=[0, 1]).forecast(1000, 3).notes == ()
