"""Standard errors of adassp: variances of the noise, coverage, and what is refused."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pandas as pd
import pytest

from benchmarks import intervals
from benchmarks.intervals import covered, sample
from skdp import BudgetLedger, DPLinearRegression
from skdp.exceptions import CoefficientErrorsWarning, Refused
from skdp.solvers import _adassp as module
from skdp.solvers._adassp import estimated
from skdp.sums._moments import Moments, MomentSums, MomentWeights
from skdp.tables._memory import MemorySource

PARAMS = {"squares_weight": 0.5}


def fitted(X, y, epsilon=1.0, **params):
    facts = {"target_bounds": (-2, 2), "solver": "adassp", "solver_params": PARAMS}
    return DPLinearRegression(epsilon, **facts | params).fit(X, y)


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


def test_intervals_hold_the_coefficients(monkeypatch):
    """Of 60 fits, 180 coefficients: 95 % within six deviations of fits."""

    def held():
        fits = (covered(sample(4000, 2, s), 0.5, "replace_one")[0] for s in range(60))
        return np.mean(list(fits))

    assert abs(held() - 0.95) < 6 * math.sqrt(0.95 * 0.05 / 60)
    # The broken twin counts the records' errors alone.
    monkeypatch.setattr(module, "_noise_covariance", lambda *_: np.zeros((3, 3)))
    assert held() < 0.8 - 0.02


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
    assert pickle.loads(pickle.dumps(model)).summary().equals(table)
    bare = fitted(drawn.X, drawn.y, fit_intercept=False).summary()
    assert list(bare.index) == ["x0", "x1", "x2"]


def test_columns_that_noise_leaves_alike_are_named_and_hide_no_others():
    """Two columns correlate by .999; the third is apart."""
    rng = np.random.default_rng(0)
    X = intervals.correlated(
        rng, 60_000, np.array([[1, 0.999, 0], [0.999, 1, 0], [0, 0, 1]])
    )
    y = X @ [1.0, -1.0, 1.0] + 0.1 * rng.normal(size=len(X))
    frame = pd.DataFrame(X, columns=["high", "low", "apart"])
    with pytest.warns(CoefficientErrorsWarning, match="of high, low, which"):
        model = fitted(frame, y, epsilon=8.0, random_state=0)
    table = model.summary()
    assert table.loc[["high", "low"], "coef"].isna().all()
    assert table.loc[["apart", "intercept"]].notna().all(axis=None)
    assert abs(table["coef"]["apart"] - 1) < 6 * table["std err"]["apart"]


def test_where_noise_hides_all_directions_nothing_is_stated():
    drawn = sample(60, 3, 2)
    table = fitted(drawn.X, drawn.y, epsilon=0.1).summary()
    assert table["coef"].isna().all()
    assert np.isinf(table["std err"]).all()


@pytest.mark.parametrize(("height", "is_told"), [(2.5, False), (3.5, True)])
def test_three_edges_of_the_noise_have_to_be_passed(height, is_told):
    edge = 2.0 * math.sqrt(2 * 3)
    nothing = np.zeros(3)
    moments = Moments(height * edge * np.eye(3), nothing, nothing, 0.0, 9.0)
    found, _ = estimated(moments, MomentWeights(0.5, 1.0, 0.5), 1000, 2.0)
    assert np.isfinite(found).all() == is_told


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
    model.fit(drawn.X, drawn.y)
    assert not hasattr(model, "estimates_")
    with pytest.raises((ValueError, TypeError), match="'level' parameter"):
        fitted(drawn.X, drawn.y).summary(level=1.5)
