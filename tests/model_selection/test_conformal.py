"""`DPConformalRegressor` and `DPConformalClassifier`: what they hold, and for whom."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import estimator_checks_generator

import skdp
from skdp import BudgetLedger, DPConformalClassifier, DPConformalRegressor
from skdp.exceptions import NoiseDominatesWarning
from skdp.model_selection import _conformal
from skdp.model_selection._conformal import intervals_left_out, most_missed
from tests.contract.test_estimators import _name, run_checks
from tests.model_selection.toys import KnowsNoLabel

# Of the draw of a threshold and of noise, where a test is of one release.
SEED = {"random_state": 0}
seeded = pytest.mark.filterwarnings("ignore::skdp.exceptions.SeededNoiseWarning")
# Deviations of a mean: one false alarm in 20 million runs, and in 2 million at a bound
# if the deviation is estimated from 60 runs.
FAR = 5.5
BOUNDS = (-10, 10)
IDENTITY = LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0])
ONE_OF_TWO = make_pipeline(
    make_column_transformer(("passthrough", ["x"])), LinearRegression()
).fit(pd.DataFrame({"x": [0.0, 1.0], "kind": ["a", "b"]}), [0.0, 1.0])


def table(n=4000, seed=0):
    """A frame whose second kind has errors three times as large, and targets."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.uniform(-4, 4, n)})
    frame["kind"] = rng.choice(["a", "b"], n)
    scale = np.where(frame["kind"] == "b", 1.5, 0.5)
    return frame, frame["x"].to_numpy() + rng.normal(0, scale)


def conformal(model=IDENTITY, epsilon=1.0, **params):
    return DPConformalRegressor(model, epsilon=epsilon, target_bounds=BOUNDS, **params)


def held(found, X, y, *level):
    low, high = found.predict_interval(X, *level).T
    return np.mean((low <= y) & (y <= high))


# ------------------------------------------- The mean number of records that are missed
# Counts of few and of many cells, with records in all, in the last, or in one that
# has more than may be missed.
SHAPES = {
    "even": np.full(40, 5.0),
    "none, then all": np.repeat([0.0, 400.0], [30, 1]),
    "just enough, then all": np.array([19.0, *np.zeros(60), 400.0]),
    "too many": np.array([0.0, 0.0, 90.0, 10.0, 300.0]),
    "rising": np.arange(60.0) / 4,
}
NOISE = {
    "normal": lambda rng, size: rng.normal(0, 1, size),
    "laplace": lambda rng, size: rng.laplace(0, math.sqrt(0.5), size),
}


def missed(counts, law, deviation, left_out, n=400, runs=4000):
    """Mean number of missed records less the largest one, with its error."""
    rng, sums = np.random.default_rng(5), np.append(0.0, np.cumsum(counts))
    most = most_missed(0.95, n, deviation)
    assert most > 0
    noise = deviation * NOISE[law](rng, (runs, len(counts)))
    found = [sums[left_out(counts + z, most, rng.random())] for z in noise]
    return np.mean(found) - most, FAR * np.std(found) / math.sqrt(runs)


@pytest.mark.parametrize("law", NOISE)
@pytest.mark.parametrize("shape", SHAPES)
def test_mean_number_of_missed_records_is_within_the_excess(shape, law):
    for deviation in (0.5, 4.0, 15.0):
        excess, error = missed(SHAPES[shape], law, deviation, intervals_left_out)
        assert excess <= _conformal._EXCESS * deviation + error
        assert excess >= -error


def smallest(counts, most, coin):
    """A twin: the smallest of all thresholds above which the noisy sum is small."""
    return int(np.flatnonzero(np.append(0.0, np.cumsum(counts)) <= most).max())


def never_drawn(counts, most, coin):
    """A twin that always takes the larger of both thresholds."""
    return intervals_left_out(counts, most, 1.0)


def test_twins_miss_too_many_and_too_few():
    excess, error = missed(SHAPES["even"], "normal", 15.0, smallest)
    assert excess > _conformal._EXCESS * 15 + error
    excess, error = missed(SHAPES["too many"], "normal", 4.0, never_drawn)
    assert excess < -error


def coverage(n, runs, *, is_seeded=False, **params):
    """Mean coverage over releases, and what it may be off by chance."""
    found = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-4, 4, n + 2000)
        y = x + rng.standard_t(3, n + 2000)
        given = params | ({"random_state": seed} if is_seeded else {})
        fitted = conformal(**given).fit(x[:n, None], y[:n])
        found.append(held(fitted, x[n:, None], y[n:]))
    return np.mean(found), FAR * np.std(found) / math.sqrt(runs)


@seeded
def test_coverage_of_few_releases():
    mean, error = coverage(1000, 60, is_seeded=True)
    assert 0.95 - error < mean < 0.965 + error
    assert error < 0.02
    mean, error = coverage(1000, 60, is_seeded=True, confidence_level=0.7)
    assert 0.7 - error < mean < 0.715 + error


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("n", [500, 5000, 50_000])
@pytest.mark.parametrize("has_ledger", [False, True])
def test_coverage_of_the_gate(n, epsilon, has_ledger, tmp_path):
    """All of ``python -m benchmarks conformal``, with fewer runs."""
    params = {"epsilon": epsilon}
    if has_ledger:
        params["ledger"] = BudgetLedger(tmp_path / "x.db", epsilon=1e6, delta=1e-2)
    mean, error = coverage(n, 60 if n > 5000 else 300, **params)
    assert 0.95 - error < mean < 0.965 + error


@seeded
def test_without_noise_it_is_split_conformal():
    X, y = table()
    X = X[["x"]].to_numpy()
    found = conformal(epsilon=math.inf).fit(X, y)
    residuals = np.sort(np.abs(y - X[:, 0]))
    for level in (0.5, 0.9, 0.95, 0.999):
        exact = residuals[math.ceil(level * (len(y) + 1)) - 1]
        half = np.diff(found.predict_interval([[0.0]], level))[0, 0] / 2
        assert exact / 1.12 <= half <= exact * 1.12  # 128 ends, of which one is drawn
    assert found.counts_.sum() == len(y)
    again = pickle.loads(pickle.dumps(found))
    assert np.array_equal(again.predict_interval(X), found.predict_interval(X))
    frozen = clone(conformal(FrozenEstimator(IDENTITY), **SEED)).fit(X, y)
    assert frozen.predict(X) == pytest.approx(X[:, 0])


# ------------------------------------------------------------------------------ groups


@seeded
def test_each_group_has_its_coverage_and_others_everything():
    X, y = table(20_000)
    found = conformal(ONE_OF_TWO, split_by={"kind": ["a", "b", "c"]}, **SEED).fit(X, y)
    narrow, wide, nobody = found.quantile_
    assert 0.8 < narrow < 1.2
    assert 2.5 < wide < 3.5
    assert math.isinf(nobody)
    X, y = table(20_000, seed=1)
    for kind in "ab":
        assert 0.93 < held(found, X[X["kind"] == kind], y[X["kind"] == kind]) < 0.98
    far = found.predict_interval(X.assign(kind="d"))
    assert (far == BOUNDS).all()
    both = conformal(ONE_OF_TWO, split_by={"kind": ["b", "a"], "x": [9.0]}).fit(X, y)
    assert both.quantile_.shape == (2, 1)
    for split_by in ({"z": [1]}, {"kind": []}, {}, ["kind"], {"kind": 3}):
        with pytest.raises(ValueError, match="'split_by'"):
            conformal(ONE_OF_TWO, split_by=split_by).fit(X, y)


@seeded
def test_groups_of_a_source_have_the_bits_of_memory(tmp_path):
    pytest.importorskip("pyarrow")
    X, y = table(500)
    columns = {"x": (-4, 4), "kind": ["a", "b"]}
    model = skdp.DPLinearRegression(9.0, columns=columns, target_bounds=BOUNDS)
    model.fit(X, y)
    X.assign(y=y).to_parquet(tmp_path / "x.parquet")
    source = skdp.ParquetSource(
        tmp_path / "x.parquet", target="y", n_samples=500, batch_size=77
    )
    asked = {"split_by": {"kind": ["a", "b"]}, **SEED}
    one = conformal(model, **asked).fit(X, y)
    other = conformal(model, **asked).fit(source)
    assert np.array_equal(one.counts_, other.counts_)
    assert np.array_equal(one.quantile_, other.quantile_)
    with pytest.raises(TypeError, match=r"'split_by'\. Got a source"):
        other.predict_interval(source)
    ends = conformal(model).fit(source).predict_interval(X)
    assert ends.shape == (500, 2)


# -------------------------------------------------------- Records that say nothing good


class Moody(LinearRegression):
    """Raises for one value, and predicts no number for another."""

    def predict(self, X):
        if (X == 3).any():
            raise SystemExit("3")
        return np.where(X[:, 0] == 2, np.nan, super().predict(X))


@seeded
def test_bad_records_count_as_the_largest_residual_and_nothing_is_raised():
    x = np.repeat([0.0, 2.0, 3.0], 100)
    model = Moody().fit([[0.0], [1.0]], [0.0, 1.0])
    found = conformal(model, 1e5, **SEED).fit(x[:, None], np.zeros(300))
    assert found.counts_[[0, -1]] == pytest.approx([200, 100], abs=0.1)
    assert math.isinf(found.quantile_)
    assert (found.predict_interval(x[[0, 100], None]) == BOUNDS).all()
    found = conformal(model, 1e5, split_by={0: [0.0, 2.0, 3.0]}, **SEED)
    found.fit(x[:, None], np.zeros(300))
    # The group of a record on which the model raises is not known.
    assert found.counts_.sum(axis=1) == pytest.approx([100, 100, 0], abs=0.1)


@seeded
def test_targets_and_residuals_are_clipped():
    x = np.zeros((100, 1))
    found = conformal(epsilon=1e5, residual_bound=5.0, **SEED)
    found.fit(x, np.full(100, 1e300))
    assert found.counts_[0] == pytest.approx(100, abs=0.1)
    assert found.predict_interval([[1e9]]).tolist() == [list(BOUNDS)]
    found = conformal(IDENTITY, 1e5, **SEED).fit(x, np.zeros(100))
    (_, near), (_, far) = found.predict_interval([[5.0], [1e9]])
    assert 5.0 <= near < 5.03
    assert far == 10.0


@seeded
def test_labels_that_are_not_known_count_as_improbable():
    model = LogisticRegression().fit([[0.0], [1.0], [2.0]], [0, 1, 1])
    X, y = np.ones((300, 1)), np.repeat([0, 1, 7], 100)
    found = DPConformalClassifier(model, epsilon=1e5, confidence_level=0.7, **SEED)
    found.fit(X, y)
    assert found.counts_[0] == pytest.approx(100, abs=0.1)
    assert found.predict_set(X[:1]).tolist() == [[True, True]]
    assert found.predict_set(X[:1], 0.3).tolist() == [[False, True]]
    assert found.classes_.tolist() == [0, 1]


def test_a_user_counts_once():
    ids = np.repeat(np.arange(50), 2)
    y = np.tile([0.0, 5.0], 50)
    found = conformal(epsilon=1e5, privacy_unit="user").fit(np.zeros((100, 1)), y, ids)
    assert found.counts_.sum() == pytest.approx(50, abs=0.1)
    assert found.counts_.max() == pytest.approx(25, abs=0.1)


# ------------------------------------------------------------------- Costs and refusals


def test_one_event_is_charged_and_nothing_for_what_is_refused(tmp_path):
    X, y = table(100)
    X = X[["x"]].to_numpy()
    ledger = BudgetLedger(tmp_path / "x.db", epsilon=1.0, delta=1e-5)
    labels = LogisticRegression().fit([[0], [1]], [0, 1])
    for wrong, match in (
        (conformal(labels), "model of regression"),
        (conformal(confidence_level=1.0), "'confidence_level'"),
        (conformal(residual_bound=21.0), "'residual_bound'"),
    ):
        with pytest.raises(ValueError, match=match):
            wrong.set_params(ledger=ledger).fit(X, y)
    assert not ledger.spends()
    asked = conformal(epsilon=0.1, ledger=ledger)
    with pytest.warns(NoiseDominatesWarning, match="Use 840 records or more"):
        found = asked.fit(X, y)
    assert len(ledger.spends()) == 1
    assert found.privacy_.solver == "gaussian"  # which adds up in squares
    assert math.isinf(found.quantile_)
    assert (found.predict_interval(X) == BOUNDS).all()


# The labels of a set are those of the model, whatever the labels of the records.
OF_THE_MODEL = {
    "check_classifiers_one_label",
    "check_classifiers_classes",
    "check_classifiers_regression_target",
    "check_supervised_y_no_nan",
    "check_supervised_y_2d",
}


@pytest.mark.filterwarnings("ignore")
def test_sklearn_checks_of_sets():
    checks = [
        (estimator, check)
        for estimator, check in estimator_checks_generator(
            DPConformalClassifier(KnowsNoLabel())
        )
        if _name(check).partition("[")[0] not in OF_THE_MODEL
    ]
    ran, _ = run_checks(checks)
    assert len(ran) > 45
