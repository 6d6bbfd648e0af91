"""Standard errors of adassp: variances of the noise, coverage, and what is refused."""

from __future__ import annotations

import math
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from benchmarks.intervals import covered, sample
from skdp import BudgetLedger, DPLinearRegression
from skdp.exceptions import Refused
from skdp.privacy import epsilon_of
from skdp.solvers import _adassp as module
from skdp.solvers._adassp import estimated
from skdp.sums._moments import MomentSums, MomentWeights
from skdp.tables._memory import MemorySource
from tests.audit.linear import Cell
from tests.audit.linear_pairs import pairs

PARAMS = {"squares_weight": 0.5}


def fitted(X, y, epsilon=1.0, **params):
    facts = {"target_bounds": (-2, 2), "solver": "adassp", "solver_params": PARAMS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return DPLinearRegression(epsilon, **facts | params).fit(X, y)


class WithSquares(Cell):
    """Moments with the squares of the targets."""

    params = PARAMS


def attained(adjacency):
    """Found over charged, by transcripts on all pairs."""
    cell = WithSquares("adassp", "squared", adjacency, "gaussian")
    return max(cell.bounds(pair, (0,))[1] for pair in pairs(cell.objective))


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_the_squares_are_charged_for(adjacency):
    assert 0.9 < attained(adjacency) <= 1 + 1e-9


def test_broken_twin_that_gives_them_away_is_caught(monkeypatch):
    """Under zero_out; under replace_one the worst pairs have the same squares."""
    honest = MomentWeights.record_norm
    monkeypatch.setattr(
        MomentWeights, "record_norm", lambda w: honest(replace(w, squares=0.0))
    )
    assert attained("zero_out") > 1.03


@pytest.mark.parametrize("has_intercept", [True, False])
def test_the_variance_of_the_noise_is_what_is_stated(has_intercept):
    """Of ``N_h - N theta``, against draws of the noise of the query."""
    rng, n, d, sigma = np.random.default_rng(0), 1000, 3, 2.0
    weights = MomentWeights(0.5 if has_intercept else 0.0, 0.8, 0.5)
    query = MomentSums(weights, n, d, 1.0)
    theta = np.array([0.5, -1.0, 0.2, 0.7])[: d + has_intercept]
    draws = sigma * rng.normal(size=(200_000, *query.shape))
    found = []
    for draw in draws[:20_000]:
        noise = query.read(draw)
        matrix, vector = module._equations(noise, weights, 0)
        found.append(vector - matrix @ theta)
    stated = module._noise_covariance(theta, query.read(draws[0]), weights, sigma)
    assert np.allclose(np.cov(np.array(found).T), stated, atol=0.25)
    assert np.diag(stated).min() > 2.0


def test_without_noise_they_are_those_of_least_squares():
    drawn = sample(3000, 3, 0)
    query = MomentSums(MomentWeights(0.5, 1.0, 0.5), 3000, 3, 1.0, 2.0)
    moments = query.read(query.total(MemorySource(drawn.X, drawn.y), None))
    found, covariance = estimated(moments, query.weights, 3000, 0.0)
    X = np.column_stack([drawn.X, np.ones(3000)])
    wanted, (squares,), _, _ = np.linalg.lstsq(X, drawn.y, rcond=None)
    assert np.allclose(2 * found, wanted, atol=1e-4)
    stated = squares / 2996 * np.linalg.inv(X.T @ X)
    assert np.allclose(4 * covariance, stated, rtol=1e-3)


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_intervals_hold_the_coefficients(epsilon, adjacency):
    """300 fits, 900 coefficients: 95 % within six deviations."""
    held = [covered(sample(4000, 2, s), epsilon, adjacency)[0] for s in range(300)]
    assert abs(np.mean(held) - 0.95) < 6 * math.sqrt(0.95 * 0.05 / 300)


def test_broken_twin_that_counts_the_records_errors_alone_is_found(monkeypatch):
    monkeypatch.setattr(module, "_noise_covariance", lambda *_: np.zeros((3, 3)))
    held = [covered(sample(4000, 2, s), 0.5, "replace_one")[0] for s in range(100)]
    assert np.mean(held) < 0.8


def test_a_table_as_others_have_it():
    drawn = sample(4000, 3, 1)
    frame = pd.DataFrame(drawn.X, columns=["a", "b", "c"])
    model = fitted(frame, drawn.y, epsilon=4.0)
    table = model.summary()
    names = ["coef", "std err", "z", "P>|z|", "[0.025", "0.975]"]
    assert list(table.columns) == names
    assert list(table.index) == ["a", "b", "c", "intercept"]
    assert np.allclose(table["z"], table["coef"] / table["std err"])
    narrow, wide = (model.estimates_.conf_int(level) for level in (0.5, 0.99))
    assert (narrow["lower"] > wide["lower"]).all()
    assert ((table["P>|z|"] >= 0) & (table["P>|z|"] <= 1)).all()
    stored = pickle.loads(pickle.dumps(model))
    assert stored.summary().equals(table)
    assert list(fitted(drawn.X, drawn.y, fit_intercept=False).summary().index) == [
        "x0",
        "x1",
        "x2",
    ]
    told = fitted(drawn.X, drawn.y, epsilon=0.7).privacy_
    assert epsilon_of(told.event, 1e-6) == pytest.approx(0.7, rel=1e-6)


def test_where_noise_drowns_a_direction_nothing_is_told():
    drawn = sample(60, 3, 2)
    table = fitted(drawn.X, drawn.y, epsilon=0.1).summary()
    assert table["coef"].isna().all()
    assert np.isinf(table["std err"]).all()


def test_refusals_cost_nothing(tmp_path):
    drawn = sample(100, 2, 3)
    books = BudgetLedger(tmp_path / "books.db", epsilon=9.0, delta=1e-5)
    for params in ({"delta": 0}, {"alpha": 0.1}):
        with pytest.raises(Refused, match="gives standard errors of Gaussian noise"):
            fitted(drawn.X, drawn.y, ledger=books, **params)
    with pytest.raises((ValueError, TypeError), match="squares_weight"):
        fitted(drawn.X, drawn.y, ledger=books, solver_params={"squares_weight": -1.0})
    assert not books.spends()
    plain = fitted(drawn.X, drawn.y, solver_params=None)
    with pytest.raises(ValueError, match="fitted with standard errors"):
        plain.summary()
    # A fit without them forgets those of another.
    model = fitted(drawn.X, drawn.y)
    model.set_params(solver_params=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(drawn.X, drawn.y)
    assert not hasattr(model, "estimates_")
    with pytest.raises((ValueError, TypeError), match="'level' parameter"):
        fitted(drawn.X, drawn.y).summary(level=1.5)
