"""DPLinearRegression as its users meet it."""

from __future__ import annotations

import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression, Ridge

from skdp import DPLinearRegression
from tests.problems import make_ledger
from tests.spies import SpyArray, SpyLedger

BOUNDS = (0.0, 350.0)
SQUARED = ("adassp", "noisy_gd")
by_solver = pytest.mark.parametrize("solver", SQUARED)


@pytest.fixture
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return 10 * X / math.sqrt(X.shape[1]), y


@pytest.fixture
def many():
    """Rows of norm at most 1 and targets far from zero."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(20_000, 3)) / math.sqrt(3)
    return X, 100 + 30 * X @ np.array([1.0, -2.0, 0.5]) + rng.normal(size=20_000)


def test_infinite_epsilon_equals_least_squares(diabetes):
    X, y = diabetes
    for bounds in (BOUNDS, (-5.0, 10.0)):  # nothing is clipped
        ours = DPLinearRegression(math.inf, target_bounds=bounds).fit(X, y)
        theirs = LinearRegression().fit(X, y)
        scale = np.abs(theirs.coef_).max()
        assert np.abs(ours.coef_ - theirs.coef_).max() < 1e-4 * scale
        assert abs(ours.intercept_ - theirs.intercept_) < 1e-4 * theirs.intercept_
        assert not ours.privacy_.is_private


@pytest.mark.parametrize("alpha", [0.001, 0.1])
def test_infinite_epsilon_equals_ridge(diabetes, alpha):
    X, y = diabetes
    ridge = Ridge(alpha=len(y) * alpha, fit_intercept=False, tol=1e-12)
    ours = DPLinearRegression(
        math.inf, alpha=alpha, fit_intercept=False, target_bounds=BOUNDS
    ).fit(X, y)
    theirs = ridge.fit(X, y)
    assert np.abs(ours.coef_ - theirs.coef_).max() < 1e-4
    assert ours.intercept_ == 0.0
    # With an intercept: one more column, its weight penalised from the middle.
    ours = DPLinearRegression(math.inf, alpha=alpha, target_bounds=BOUNDS).fit(X, y)
    middle = sum(BOUNDS) / 2
    theirs = ridge.fit(np.column_stack([X, np.ones(len(y))]), y - middle)
    assert np.abs(ours.coef_ - theirs.coef_[:-1]).max() < 1e-4
    assert abs(ours.intercept_ - middle - theirs.coef_[-1]) < 1e-4


@by_solver
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_private_models_are_useful(many, solver, adjacency):
    X, y = many
    model = DPLinearRegression(
        1.0, adjacency=adjacency, target_bounds=(0, 200), solver=solver
    ).fit(X, y)
    assert model.score(X, y) > 0.8 * LinearRegression().fit(X, y).score(X, y)
    assert model.privacy_.solver == solver


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_pure_models_are_useful_and_never_wild(many, diabetes, adjacency, tmp_path):
    """Far above a constant with many records, near it with few."""
    ledger = make_ledger(tmp_path, adjacency=adjacency)
    common = {"delta": 0, "adjacency": adjacency, "ledger": ledger}
    X, y = many
    model = DPLinearRegression(target_bounds=(0, 200), **common).fit(X, y)
    assert model.score(X, y) > 0.8
    assert ledger.spent().epsilon <= 1.0
    assert model.privacy_.delta == 0
    scores = [
        DPLinearRegression(0.1, target_bounds=BOUNDS, **common)
        .fit(*diabetes)
        .score(*diabetes)
        for _ in range(20)
    ]
    assert np.median(scores) > -1  # diffprivlib: -6.6e6 at ten times the epsilon


def test_auto_chooses_from_public_facts_and_says_why(many):
    for delta, key, why in (
        (0, "adassp", "delta=0"),
        (1e-6, "centred_descent", "centred rows"),
    ):
        for X, y in (many, (many[0][:900], many[1][:900])):
            model = DPLinearRegression(delta=delta, target_bounds=(0, 200)).fit(X, y)
            assert model.privacy_.solver == key
            assert why in model.privacy_.why_solver


@by_solver
def test_without_intercept_zero_stays_zero(many, solver):
    X, y = many
    model = DPLinearRegression(
        fit_intercept=False, target_bounds=(-60, 90), solver=solver
    ).fit(X, y - 100)
    assert model.intercept_ == 0.0
    assert model.predict(np.zeros((1, 3)))[0] == 0.0
    assert model.score(X, y - 100) > 0.8


@by_solver
def test_units_of_the_target_do_not_matter(many, solver):
    """Seeded fits in metres and in shifted millimetres are the same fit."""
    X, y = many
    common = {"solver": solver, "random_state": 0}
    small = DPLinearRegression(target_bounds=(0, 200), **common).fit(X, y)
    bounds = (-5000.0, 195_000.0)
    large = DPLinearRegression(target_bounds=bounds, **common).fit(X, 1000 * y - 5000)
    assert np.allclose(large.coef_, 1000 * small.coef_, rtol=1e-6)
    assert large.intercept_ == pytest.approx(1000 * small.intercept_ - 5000, rel=1e-6)


@by_solver
def test_targets_beyond_their_bounds_count_as_the_bounds(many, solver):
    X, y = many
    common = {"solver": solver, "random_state": 0, "target_bounds": (90, 110)}
    wild = np.where(y > 110, 1e300, y)
    models = [DPLinearRegression(**common).fit(X, t) for t in (y, wild)]
    assert np.array_equal(models[0].coef_, models[1].coef_)
    assert models[0].intercept_ == models[1].intercept_


def test_predictions_are_exactly_the_linear_form_within_the_norm(diabetes):
    X, y = diabetes
    X = X / np.linalg.norm(X, axis=1).max() / 2
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(10)])
    for stored in (X, X.astype(np.float32), csr_array(X), frame):
        model = DPLinearRegression(target_bounds=BOUNDS, solver="noisy_gd")
        model.fit(stored, y)
        assert model.coef_.shape == (10,)
        assert isinstance(model.intercept_, float)
        dtype = getattr(stored, "dtype", np.float64)
        assert model.coef_.dtype == model.predict(stored).dtype == dtype
        expected = np.asarray(stored @ model.coef_) + model.intercept_
        assert np.array_equal(model.predict(stored), expected)
    assert list(model.feature_names_in_) == list(frame.columns)


def test_clones_never_share_noise_and_pickles_keep_the_model(diabetes):
    X, y = diabetes
    model = DPLinearRegression(target_bounds=BOUNDS).fit(X, y)
    assert model.intercept_ != clone(model).fit(X, y).intercept_
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.coef_, model.coef_)
    assert again.privacy_ == model.privacy_


def test_data_are_converted_once_before_the_commit(tmp_path, diabetes):
    X, y = diabetes
    diary = SpyLedger.diary = []
    ledger = SpyLedger(tmp_path / "ledger.db", epsilon=3.0, delta=1e-6)
    model = DPLinearRegression(ledger=ledger, target_bounds=BOUNDS)
    model.fit(SpyArray(X, "X", diary), SpyArray(y, "y", diary))
    assert diary[-1] == "commit"
    assert diary.count("convert X") == 1
    assert diary.count("convert y") <= 2


def public_traces(X, y, capsys, **params):
    """Everything a fit shows of itself, apart from its private outputs."""
    model = DPLinearRegression(random_state=0, verbose=True, **params)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    shapes = {
        name: getattr(value, "shape", None)
        for name, value in vars(model).items()
        if name.endswith("_")
    }
    record = model.privacy_.to_dict() | {"noise_scale": None}  # follows the iterates
    messages = [str(warning.message) for warning in caught]
    return shapes, record, messages, capsys.readouterr().out


@by_solver
def test_nothing_but_the_outputs_depends_on_the_data(solver, capsys):
    rng = np.random.default_rng(0)
    y = rng.normal(size=60)
    tame, wild = rng.normal(size=(60, 3)), 1e200 * rng.normal(size=(60, 3))
    traces = [
        public_traces(X, t, capsys, solver=solver, target_bounds=(-1, 3))
        for X in (tame, wild, np.zeros((60, 3)))
        for t in (y, 1e300 * y, np.zeros(60))
    ]
    assert all(trace == traces[0] for trace in traces)


def test_the_ledger_is_charged(tmp_path, diabetes):
    ledger = make_ledger(tmp_path)
    model = DPLinearRegression(ledger=ledger, target_bounds=BOUNDS).fit(*diabetes)
    (spend,) = ledger.spends()
    assert spend.event == model.privacy_.event
    assert "DPLinearRegression" in spend.label
    assert model.privacy_.assumed_public == (
        "number of records",
        "number and names of features",
        "storage type of X: dense or sparse, and its dtype",
    )


SECRET = 123456.789
BAD = [
    ({"target_bounds": None}, "'target_bounds'.*Got None"),
    ({"target_bounds": 3.0}, "'target_bounds'"),
    ({"target_bounds": (1, 1)}, "first must be below"),
    ({"target_bounds": (2, 1)}, "first must be below"),
    ({"target_bounds": (0, math.inf)}, r"'target_bounds\[1\]'.*without looking"),
    ({"target_bounds": (0, math.nan)}, r"'target_bounds\[1\]'.*without looking"),
    ({"target_bounds": ("0", 1)}, r"'target_bounds\[0\]'.*without looking"),
    ({"target_bounds": (0, 1, 2)}, "'target_bounds'"),
    ({"alpha": -1.0}, "'alpha'"),
    ({"alpha": math.nan}, "'alpha'"),
    ({"epsilon": 0.0}, "'epsilon'"),
    ({"fit_intercept": 1}, "'fit_intercept'"),
    ({"solver": "lbfgs"}, "'solver'"),
    ({"solver_params": {"n_steps": 5}}, "must be None with solver='auto'"),
    ({"solver": "noisy_gd", "delta": 0.0}, "cannot do delta=0"),
]
BAD_TARGETS = [
    (None, "requires y"),
    (np.full(30, math.nan), "finite"),
    (np.r_[np.zeros(29), math.inf], "finite"),
    (np.zeros((30, 2)), "1d"),
    (np.zeros(20), "inconsistent"),
    (np.array(["a", str(SECRET) + "x"] * 15), "real numbers"),
    (np.array([None, SECRET] * 15, dtype=object), "finite"),
    (np.array([10**400] * 30, dtype=object), "real numbers"),
    (np.full(30, SECRET + 1j), "real numbers"),
    (np.ma.masked_array(np.full(30, SECRET), mask=np.arange(30) % 2), "real numbers"),
]


def assert_refused(model, X, y, match, ledger):
    before = dict(vars(model))
    with pytest.raises((ValueError, TypeError), match=match) as caught:
        model.fit(X, y)
    assert dict(vars(model)) == before
    assert ledger.spends() == []
    assert str(SECRET) not in str(caught.value)
    assert caught.value.__context__ is None or str(SECRET) not in str(
        caught.value.__context__
    )


@pytest.mark.parametrize(("params", "match"), BAD, ids=range(len(BAD)))
def test_bad_parameters(params, match, tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 3))
    ledger = make_ledger(tmp_path)
    model = DPLinearRegression(
        **({"ledger": ledger, "target_bounds": (-3, 3)} | params)
    )
    assert_refused(model, X, X[:, 0], match, ledger)


@pytest.mark.parametrize(("y", "match"), BAD_TARGETS, ids=range(len(BAD_TARGETS)))
def test_bad_targets(y, match, tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 3))
    ledger = make_ledger(tmp_path)
    model = DPLinearRegression(ledger=ledger, target_bounds=(-3, 3))
    assert_refused(model, X, y, match, ledger)


def test_extreme_bounds_and_norms_stay_finite():
    X = np.random.default_rng(0).normal(size=(60, 3))
    for bounds in ((-1e100, 1e100), (0.0, 1e-99), (1e99, 1e100)):
        for norm in (1e-100, 1e100):
            for dtype in (np.float64, np.float32):
                model = DPLinearRegression(target_bounds=bounds, data_norm=norm)
                model.fit(X.astype(dtype), X[:, 0])
                assert np.isfinite(model.coef_).all()
                assert np.isfinite(model.intercept_)
