"""Statistics of scores: how far one record moves them, and what they are worth."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import get_scorer, mean_pinball_loss, mean_tweedie_deviance
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from skdp import (
    BoundedScaler,
    DPGammaRegressor,
    DPGradientBoostingRegressor,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPPoissonRegressor,
    DPQuantileRegressor,
)
from skdp.model_selection import (
    SCORINGS,
    _classification_scoring,
    _regression_scoring,
    _scoring_base,
    resolve_scoring,
)
from skdp.model_selection._classification_scoring import (
    Accuracy,
    BalancedAccuracy,
    NegLogLoss,
)
from skdp.model_selection._histogram_scoring import F1, F1Macro, RocAuc
from skdp.model_selection._regression_scoring import (
    R2,
    NegMeanAbsoluteError,
    NegMeanGammaDeviance,
    NegMeanPinballLoss,
    NegMeanPoissonDeviance,
    NegMeanSquaredError,
)
from skdp.queries._scores import QUANTUM

# scikit-learn 1.6 with a newer SciPy.
pytestmark = pytest.mark.filterwarnings("ignore:.*L-BFGS-B solver:DeprecationWarning")

LOW, HIGH = -2.0, 8.0
SCORERS = {
    "accuracy": Accuracy(),
    "balanced_accuracy": BalancedAccuracy((0, 1, 2)),
    "neg_log_loss": NegLogLoss(),
    "roc_auc": RocAuc((0, 1)),
    "f1": F1((0, 1)),
    "f1_macro": F1Macro((0, 1, 2)),
    "neg_mean_squared_error": NegMeanSquaredError(LOW, HIGH),
    "neg_mean_absolute_error": NegMeanAbsoluteError(LOW, HIGH),
    "neg_mean_pinball_loss": NegMeanPinballLoss(LOW, HIGH, quantile=0.9),
    "neg_mean_poisson_deviance": NegMeanPoissonDeviance(0.0, HIGH),
    "neg_mean_gamma_deviance": NegMeanGammaDeviance(0.5, HIGH),
    "r2": R2(LOW, HIGH),
}
every_scorer = pytest.mark.parametrize("name", SCORERS)
ADJACENCIES = ("replace_one", "zero_out")
RAISES = 12345.0


class Says(BaseEstimator):
    """Predicts what stands in the first column; raises if that is `RAISES`."""

    classes_ = np.array([0, 1, 2])

    def _said(self, X):
        if (X[:, 0] == RAISES).any():
            raise ValueError(f"{X[0, 0]} is private")
        if not np.isfinite(X[:, 0]).all():
            warnings.warn("this depends on the data", UserWarning, stacklevel=1)
        return X[:, 0]

    def predict(self, X):
        return self._said(X)

    def predict_proba(self, X):
        p = self._said(X) / 10
        return np.column_stack([p, 1 - p, np.zeros(len(X))])


WEIRD = [math.nan, math.inf, -math.inf, RAISES, 1e300, -1e300]


def pool(scorer, rng, count=300):
    """Records of every kind: extremes, ordinary ones and ones nobody expects."""
    said = np.concatenate(
        [rng.choice([LOW, HIGH, 0.0, 1.0, 2.0], count), rng.uniform(-10, 20, count)]
    )
    said = np.concatenate([said, WEIRD * 20])
    if scorer.task == "classification":
        y = rng.choice([0, 1, 2, 7], len(said))
    else:
        y = rng.choice([LOW, HIGH, 1.5, 0.5, 1e250, -1e250, 3.0], len(said))
        y = np.where(rng.random(len(y)) < 0.5, y, rng.uniform(-4, 10, len(y)))
    return said[:, None], y


@cache
def distances(name, norm, seed=0):
    """Largest change of the statistic found: {adjacency: L1 or L2 distance}."""
    scorer = SCORERS[name]
    X, y = pool(scorer, np.random.default_rng(seed))
    added = scorer.contributions(Says(), X, y)
    assert added.shape == (len(y), scorer.size)
    between = added[:, None, :] - added[None, :, :]
    return {
        "replace_one": np.linalg.norm(between, ord=norm, axis=2).max(),
        "zero_out": np.linalg.norm(added, ord=norm, axis=1).max(),
    }


@every_scorer
@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_no_record_moves_the_statistic_further_and_some_come_near(
    name, norm, adjacency
):
    scorer = SCORERS[name]
    found = distances(name, norm)[adjacency]
    stated = scorer.sensitivity(adjacency, norm)
    assert 0.99 * stated < found <= stated
    assert found > stated / 2 * 1.5  # a halved sensitivity is caught


@pytest.mark.parametrize("name", ["neg_mean_squared_error", "r2"])
def test_twin_that_does_not_clip_is_caught(name):
    kind = type(SCORERS[name])

    class Unclipped(kind):
        def _residuals(self, estimator, X, y):
            return np.abs(estimator.predict(X) - y) / (self.high - self.low)

    X, y = np.array([[LOW], [20.0]]), np.array([LOW, LOW])
    for twin, is_caught in ((kind(LOW, HIGH), False), (Unclipped(LOW, HIGH), True)):
        first, second = (twin.statistic(Says(), X[i : i + 1], y[:1]) for i in (0, 1))
        change = np.abs(first - second).sum()
        assert bool(change > twin.sensitivity("replace_one", 1)) == is_caught


LOSSES = [
    *(NegMeanPinballLoss(LOW, HIGH, q) for q in (0.01, 0.5, 0.9)),
    *(NegMeanPoissonDeviance(low, HIGH) for low in (0.0, 0.01, 2.0, 7.9)),
    NegMeanPoissonDeviance(0.0, HIGH, floor=0.5),
    NegMeanPoissonDeviance(0.0, 1e100, floor=1e-6),
    *(NegMeanGammaDeviance(low, HIGH) for low in (0.0, 0.5, 7.9)),
    NegMeanGammaDeviance(0.0, HIGH, floor=0.5, most=1e100),
    NegMeanGammaDeviance(1e-100, HIGH, most=1.5),
]


@pytest.mark.parametrize("scorer", LOSSES, ids=repr)
def test_ranges_of_losses_are_those_of_the_formulas(scorer, monkeypatch):
    """Without the clip to the range, which hides a range that is too small."""
    monkeypatch.setattr(_regression_scoring, "_or_worst", lambda losses: losses)
    ends = np.linspace(scorer.low, scorer.high, 201)
    if not isinstance(scorer, NegMeanPinballLoss):
        ends = np.append(ends, [scorer.least_mean, scorer.least_mean * 4])
    said, true = (grid.ravel() for grid in np.meshgrid(ends, ends))
    added = scorer._quality(Says(), said[:, None], true)
    assert added.min() == pytest.approx(-1.0, abs=1e-12)
    assert added.max() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("scorer", LOSSES[:-1], ids=repr)
def test_twin_that_does_not_clip_a_loss_is_caught(scorer, monkeypatch):
    high, stated = scorer.high, scorer.lowest
    said = np.array([high, -1e9 * high, 1e-9 * high, 1e9 * high])
    true = np.array([high, high, 1e9 * high, 1e-9 * high])

    def moved():
        added = scorer.contributions(Says(), said[:, None], true)
        return max(np.abs(added).max(), np.ptp(added))

    assert moved() <= scorer.sensitivity("replace_one", 1)

    def unclipped(self, estimator, X, y):
        return np.maximum(estimator.predict(X), 1e-9), y.astype(float)

    monkeypatch.setattr(_regression_scoring, "_or_worst", lambda losses: losses)
    monkeypatch.setattr(type(scorer), "_clipped", unclipped)
    if not isinstance(scorer, NegMeanPinballLoss):
        monkeypatch.setattr(type(scorer), "least_mean", 1e-9)
    monkeypatch.setattr(type(scorer), "lowest", stated)
    assert moved() > 1.5 * scorer.sensitivity("replace_one", 1)


@pytest.mark.parametrize(
    "scorer",
    [
        kind(low, high)
        for kind in (NegMeanPinballLoss, NegMeanPoissonDeviance, NegMeanGammaDeviance)
        for low, high in [(3.0, 3.0 + 1e-9), (5.0, 5.0 + 1e-7), (7.0, 7.0 + 1e-8)]
    ],
    ids=repr,
)
def test_no_loss_is_out_of_range_where_the_range_is_that_of_rounding(scorer):
    said, true = np.random.default_rng(0).uniform(scorer.low, scorer.high, (2, 4000))
    added = scorer.contributions(Says(), said[:, None], true)
    assert added.min() >= -1
    assert added.max() <= 0


@pytest.mark.parametrize("name", [n for n in SCORERS if n.startswith("neg_mean")])
def test_what_is_no_number_is_the_worst_there_is(name):
    scorer = SCORERS[name]
    said = np.array([math.nan, math.inf, -math.inf, HIGH, 3.0])
    true = np.array([HIGH, HIGH, scorer.low, math.nan, 3.0])
    added = scorer.contributions(Says(), said[:, None], true)[:, 0]
    assert added.tolist() == [-1, -1, -1, -1, 0]


def test_one_sensitivity_does_not_follow_from_the_other():
    """Halving replace_one under-noises zero_out; zero_out's own, replace_one."""
    for name, norm in [("r2", 1), ("r2", 2), ("balanced_accuracy", 2), ("accuracy", 1)]:
        found = distances(name, norm)
        stated = {a: SCORERS[name].sensitivity(a, norm) for a in ADJACENCIES}
        assert found["zero_out"] > stated["replace_one"] / 2
        if name != "accuracy":
            assert found["replace_one"] > stated["zero_out"]


# No record counts for two labels: these are one in single precision.
NEAR = (0.1, float(np.float32(0.1)), 2.0)


def far_apart(scorer):
    """How far one record moves the statistic, in L1 and in L2."""
    X, y = np.ones((2, 1)), np.array([0.1, 2.0], dtype=np.float32)
    first, second = scorer.contributions(Says(), X, y)
    return np.abs(first - second).sum(), np.linalg.norm(first - second)


def test_labels_that_are_one_count_once(monkeypatch):
    for repeated in (("a", "a", "b"), (1, 1.0, 2), (True, 1)):
        with pytest.raises(ValueError, match="different labels"):
            BalancedAccuracy(repeated)
    scorer = BalancedAccuracy(NEAR)
    stated = [scorer.sensitivity("replace_one", norm) for norm in (1, 2)]
    assert (np.array(far_apart(scorer)) <= stated).all()

    def of_all_that_match(y, classes):
        return np.column_stack([y == label for label in classes]).astype(float)

    monkeypatch.setattr(_classification_scoring, "_one_hot", of_all_that_match)
    assert (np.array(far_apart(scorer)) > stated).all()


# One record among others ---------------------------------------------------------


@every_scorer
def test_whatever_a_record_is_the_others_keep_their_contributions(name):
    scorer, rng = SCORERS[name], np.random.default_rng(1)
    X, y = pool(scorer, rng)
    keep = ~np.isin(X[:, 0], [RAISES])
    X, y = X[keep][:64], y[keep][:64]
    before = scorer.contributions(Says(), X, y)
    for place in (0, 17, 63):
        for value in WEIRD:
            Z = X.copy()
            Z[place] = value
            after = scorer.contributions(Says(), Z, y)
            others = np.arange(64) != place
            assert np.array_equal(after[others], before[others])


def test_twin_that_gives_up_on_all_records_is_caught():
    """One record that raises would change the whole statistic."""

    class GivesUp(Accuracy):
        def contributions(self, estimator, X, y, shares=None):
            try:
                return self._quality(estimator, X, y)[:, None]
            except ValueError:
                return np.zeros((len(y), 1))

    X, y = np.ones((10, 1)), np.ones(10)
    Z = X.copy()
    Z[3] = RAISES
    for scorer, change in ((Accuracy(), 1.0), (GivesUp(), 10.0)):
        moved = scorer.statistic(Says(), X, y) - scorer.statistic(Says(), Z, y)
        assert abs(moved[0]) == change


class FixedShape(Says):
    """Compiled for arrays of `n_rows` rows: refuses any other."""

    def __init__(self, n_rows):
        self.n_rows = n_rows

    def _said(self, X):
        if len(X) != self.n_rows:
            raise ValueError("compiled for another shape")
        return super()._said(X)


class AtLeastTwo(Says):
    """Refuses a single row."""

    def _said(self, X):
        if len(X) < 2:
            raise ValueError("at least two rows")
        return super()._said(X)


def moved_by_one_that_raises(estimator):
    X, y = np.ones((10, 1)), np.ones(10)
    Z = X.copy()
    Z[3] = RAISES
    before, after = (Accuracy().statistic(estimator, rows, y) for rows in (X, Z))
    return abs(before - after)[0]


def test_a_predictor_of_one_shape_loses_one_record(monkeypatch):
    for estimator in (FixedShape(10), AtLeastTwo()):
        assert moved_by_one_that_raises(estimator) == 1.0
    # The twin asks for shorter arrays, which fail whatever is in them.
    monkeypatch.setattr(np, "resize", lambda rows, size: rows)
    assert moved_by_one_that_raises(FixedShape(10)) == 10.0
    assert moved_by_one_that_raises(AtLeastTwo()) > 1.0


TABLES = (np.copy, pd.DataFrame, csr_array)


@pytest.mark.parametrize("as_table", TABLES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", ["accuracy", "neg_log_loss", "roc_auc", "f1_macro"])
def test_rows_that_are_changed_in_place_are_nobody_else_s(name, as_table, monkeypatch):
    """A step changes all rows, then the model refuses one: others are asked anew."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)) + 10
    y = (X[:, 0] > 10).astype(int)
    scale = MaxAbsScaler().fit(X / 20)
    model = Pipeline(
        [("scale", scale), ("model", LogisticRegression().fit(scale.transform(X), y))]
    )
    scale.set_params(copy=False)
    refused = X.copy()
    refused[3, 1] = np.nan
    scorer = resolve_scoring(name, model)

    def moved():
        tables = as_table(X), as_table(refused)
        before, after = (scorer.statistic(model, table, y) for table in tables)
        kept = tables[0].toarray() if as_table is csr_array else np.asarray(tables[0])
        return np.abs(before - after).sum(), np.array_equal(kept, X)

    bound = scorer.sensitivity("replace_one", 1)
    distance, is_kept = moved()
    assert is_kept
    assert distance <= bound
    if as_table is not pd.DataFrame:
        return
    # The twin: pandas makes a view of all rows in their order.
    monkeypatch.setattr(_scoring_base, "rows_in_places", lambda rows, at: rows.iloc[at])
    distance, is_kept = moved()
    assert not is_kept
    assert distance > 3 * bound


class Joins(Says):
    """Joins what it makes of the rows to them, by their labels."""

    def _said(self, X):
        made = pd.Series(super()._said(X.to_numpy()), X.index, name="said")
        return X.join(made)["said"].to_numpy()


def test_labels_of_rows_are_in_no_table_twice(monkeypatch):
    X, y = pd.DataFrame({"said": np.ones(10)}).add_prefix("was_"), np.ones(10)
    refused = X.copy()
    refused.iloc[3] = RAISES

    def moved():
        before, after = (Accuracy().statistic(Joins(), t, y) for t in (X, refused))
        return abs(before - after)[0]

    assert moved() == 1.0
    # The twin puts another row in the place of one, under its own label.
    monkeypatch.setattr(
        _scoring_base, "rows_in_places", lambda rows, at: rows.iloc[at].copy()
    )
    assert moved() == 10.0


def test_only_arrays_of_the_public_shape_are_asked_for():
    asked = set()

    class Notes(Says):
        def _said(self, X):
            asked.add(X.shape)
            return super()._said(X)

    X = np.full((13, 1), RAISES)
    X[[2, 3, 11]] = 1.0
    added = Accuracy().contributions(Notes(), X, np.ones(13))
    assert np.flatnonzero(added).tolist() == [2, 3, 11]
    assert asked == {(13, 1)}


def test_every_digit_of_the_others_is_kept_where_a_row_is_refused():
    """skdp's own models refuse a row with NaN, here hidden behind another step."""
    rng = np.random.default_rng(2)
    X, y = rng.uniform(-1, 1, (501, 7)), rng.uniform(-3, 3, 501)
    model = DPLinearRegression(target_bounds=(-3, 3), random_state=0).fit(X, y)
    scorer = NegMeanAbsoluteError(-3, 3)
    before = scorer.contributions(model, X, y)
    X[100, 3] = math.nan
    after = scorer.contributions(model, X, y)
    assert after[100] == -1
    assert np.array_equal(np.delete(after, 100), np.delete(before, 100))


@every_scorer
def test_an_estimator_that_only_fails_gives_the_worst_of_all(name):
    class Fails(Says):
        def _said(self, X):
            raise RuntimeError

    scorer = SCORERS[name]
    y = np.array([0, 1, 2, 1, 0])
    statistic = scorer.statistic(Fails(), np.zeros((5, 1)), y)
    assert scorer.score(statistic, 5) == pytest.approx(scorer.lowest)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "text",
        [["a", "b"]],
        np.zeros((7, 2)),
        np.zeros(3),
        csr_array((7, 7)),
        [object()] * 7,
        np.full(7, "a"),
        np.full(7, None),
    ],
    ids=lambda answer: type(answer).__name__,
)
@every_scorer
def test_no_answer_of_an_estimator_raises_or_warns(name, answer):
    class Answers(Says):
        def _said(self, X):
            return answer

        def predict_proba(self, X):
            return answer

    scorer = SCORERS[name]
    X, y = np.zeros((7, 1)), np.arange(7) % 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        added = scorer.contributions(Answers(), X, y)
    assert added.shape == (7, scorer.size)
    assert np.abs(added).max() <= 1


@pytest.mark.parametrize("name", ["accuracy", "balanced_accuracy", "neg_log_loss"])
@pytest.mark.parametrize("odd", [pd.NA, None, math.nan, [1], {}, np.zeros(3), "1"])
def test_no_label_raises_or_moves_others(name, odd):
    """Comparing pandas.NA or an array raises, for the whole column."""
    scorer, X = SCORERS[name], np.array([[0.0], [1.0], [2.0], [1.0]])
    y = np.array([0, 1, 0, 1], dtype=object)
    before = scorer.contributions(Says(), X, y)
    y[1] = odd
    after = scorer.contributions(Says(), X, y)
    assert np.array_equal(np.delete(after, 1, 0), np.delete(before, 1, 0))
    worst = {"balanced_accuracy": 0.0, "accuracy": 0.0, "neg_log_loss": -1.0}
    assert after[1].min() == worst[name]
    assert after[1].max() <= 0


@every_scorer
def test_sums_are_exact_whatever_the_order(name):
    scorer, rng = SCORERS[name], np.random.default_rng(3)
    X, y = pool(scorer, rng)
    added = scorer.contributions(Says(), X, y)
    assert np.array_equal(np.rint(added / QUANTUM) * QUANTUM, added)
    order = rng.permutation(len(y))
    total = scorer.statistic(Says(), X, y)
    assert np.array_equal(scorer.statistic(Says(), X[order], y[order]), total)
    exact = [math.fsum(column) for column in added.T]
    assert np.array_equal(total, exact)


@every_scorer
def test_any_released_statistic_gives_a_score_in_range(name):
    scorer, rng = SCORERS[name], np.random.default_rng(4)
    scores = [
        scorer.score(rng.normal(0, 10**s, scorer.size), 10)
        for s in range(-3, 12)
        for _ in range(20)
    ]
    assert np.isfinite(scores).all()
    assert scorer.lowest <= min(scores)
    assert max(scores) <= scorer.highest


# What the scores are -------------------------------------------------------------


def blobs(n=400, seed=5):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 4)) + np.eye(3, 4)[y] * 2
    return X, y


CLASSIFIERS = ["accuracy", "balanced_accuracy"]


@pytest.mark.parametrize("name", [*CLASSIFIERS, "neg_log_loss"])
@pytest.mark.parametrize("labels", [[0, 1, 2], ["a", "b", "c"], [-1.0, 0.0, 5.0]])
@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, csr_array])
def test_classification_scores_are_those_of_scikit_learn(name, labels, kind):
    X, y = blobs()
    X, y = kind(X), np.array(labels)[y]
    model = LogisticRegression(max_iter=500).fit(X, y)
    scorer = resolve_scoring(name, model)
    if name == "neg_log_loss":
        scorer = NegLogLoss(floor=1e-12)  # nothing is clipped
    found = scorer.score(scorer.statistic(model, X, y), len(y))
    assert found == pytest.approx(get_scorer(name)(model, X, y), abs=1e-6)


@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
def test_classes_that_do_not_occur_are_left_out_as_in_scikit_learn():
    X, y = blobs()
    model = LogisticRegression(max_iter=500).fit(X, y)
    X, y = X[y < 2], y[y < 2]
    scorer = resolve_scoring("balanced_accuracy", model)
    found = scorer.score(scorer.statistic(model, X, y), len(y))
    expected = get_scorer("balanced_accuracy")(model, X, y)
    assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    "name", ["neg_mean_squared_error", "neg_mean_absolute_error", "r2"]
)
def test_regression_scores_are_those_of_scikit_learn(name):
    rng = np.random.default_rng(6)
    X = rng.uniform(-1, 1, (300, 3))
    y = 100 + 20 * X @ [1, -2, 0.5] + rng.uniform(-10, 10, 300)
    model = Ridge(alpha=1.0).fit(X, y)
    scorer = resolve_scoring(name, model, target_bounds=(0, 200))
    found = scorer.score(scorer.statistic(model, X, y), len(y))
    expected = get_scorer(name)(model, X, y)
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("power", [1, 2])
def test_deviances_and_pinball_losses_are_those_of_scikit_learn(power):
    rng = np.random.default_rng(7)
    X = rng.uniform(10, 90, (300, 1))
    y = X[:, 0] * rng.uniform(0.5, 2, 300)
    kind = {1: NegMeanPoissonDeviance, 2: NegMeanGammaDeviance}[power]
    scorer, model = kind(1.0, 200.0), Says()
    found = scorer.score(scorer.statistic(model, X, y), len(y))
    expected = mean_tweedie_deviance(y, X[:, 0], power=power)
    assert found == pytest.approx(-expected, rel=1e-5)
    for quantile in (0.1, 0.8):
        pinball = NegMeanPinballLoss(1.0, 200.0, quantile)
        found = pinball.score(pinball.statistic(model, X, y), len(y))
        expected = mean_pinball_loss(y, X[:, 0], alpha=quantile)
        assert found == pytest.approx(-expected, rel=1e-6)


def test_deviances_are_least_near_the_mean_though_they_are_bounded():
    y = np.random.default_rng(9).exponential(size=100_000)
    means = np.linspace(0.8, 1.2, 41)
    for scorer in (NegMeanPoissonDeviance(0.0, 20.0), NegMeanGammaDeviance(0.0, 1e3)):
        scorer = replace(scorer, floor=1e-6)
        added = [scorer._quality(Says(), np.full((y.size, 1), m), y) for m in means]
        best = means[np.argmax([each.mean() for each in added])]
        assert best == pytest.approx(1.0, abs=0.03)


def test_a_pinball_loss_is_least_at_its_quantile():
    y = np.random.default_rng(8).exponential(size=4000)
    for quantile in (0.2, 0.5, 0.9):
        scorer = NegMeanPinballLoss(0.0, 20.0, quantile)
        at = np.quantile(y, [0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 0.97])
        scores = [scorer.statistic(Says(), np.full((4000, 1), z), y)[0] for z in at]
        assert at[np.argmax(scores)] == np.quantile(y, quantile)


def test_a_target_without_spread_has_the_lowest_r2():
    scorer = R2(0, 1, least=-3.0)
    assert scorer.score(np.array([0.1, 5.0, 5.0]), 5) == -3.0
    assert scorer.score(np.array([-5.0, 0.0, 5.0]), 5) == 1.0


def test_floor_of_a_probability_bounds_the_loss():
    X, y = np.array([[0.0], [10.0], [5.0]]), np.array([0, 0, 0])
    added = NegLogLoss(floor=0.1).contributions(Says(), X, y)[:, 0]
    assert added[:2].tolist() == [-1, 0]
    assert added[2] == pytest.approx(math.log(0.5) / math.log(10), abs=QUANTUM)
    assert NegLogLoss().lowest == pytest.approx(-math.log(100))


# Which score for which estimator ------------------------------------------------


def test_defaults_and_public_facts_come_from_the_estimator():
    scaler = BoundedScaler(bounds=(0, 1))
    classifier = make_pipeline(scaler, DPLogisticRegression(classes=["b", "a"]))
    regressor = make_pipeline(scaler, DPLinearRegression(target_bounds=(0, 9)))
    assert resolve_scoring(None, classifier) == Accuracy()
    assert resolve_scoring(None, regressor) == NegMeanSquaredError(0.0, 9.0)
    balanced = resolve_scoring("balanced_accuracy", classifier)
    assert balanced == BalancedAccuracy(("a", "b"))
    quantiles = DPQuantileRegressor(quantile=0.9, target_bounds=(0, 9))
    pinball = NegMeanPinballLoss(0.0, 9.0, quantile=0.9)
    assert resolve_scoring(None, make_pipeline(scaler, quantiles)) == pinball
    counts = DPPoissonRegressor(target_bounds=(0, 9))
    assert resolve_scoring(None, counts) == NegMeanPoissonDeviance(0.0, 9.0)
    amounts = DPGammaRegressor(target_bounds=(1, 9))
    assert resolve_scoring(None, amounts) == NegMeanGammaDeviance(1.0, 9.0)
    for loss, quantile, found in (
        ("squared_error", None, NegMeanSquaredError(0.0, 9.0)),
        ("quantile", 0.9, pinball),
        ("poisson", None, NegMeanPoissonDeviance(0.0, 9.0)),
    ):
        trees = DPGradientBoostingRegressor(
            loss=loss, quantile=quantile, target_bounds=(0, 9)
        )
        assert resolve_scoring(None, trees) == found
    declared = resolve_scoring("r2", regressor, target_bounds=(-1, 1))
    assert declared == R2(-1.0, 1.0)
    assert resolve_scoring(NegLogLoss(floor=0.05), classifier).floor == 0.05
    fitted = LogisticRegression().fit(*blobs())
    assert resolve_scoring("balanced_accuracy", fitted).classes == (0, 1, 2)


REFUSED = {
    "ranks": ("roc_auc_ovr", DPLogisticRegression(), ValueError, "of several labels"),
    "precision": (
        "average_precision",
        DPLogisticRegression(),
        ValueError,
        "private_evaluation",
    ),
    "f1": ("f1_micro", DPLogisticRegression(), ValueError, "only 'f1' and 'f1_macro'"),
    "unknown": ("acuracy", DPLogisticRegression(), ValueError, "one of .*'accuracy'"),
    "callable": (lambda e, X, y: 0.0, DPLogisticRegression(), TypeError, "not known"),
    "several": (["accuracy"], DPLogisticRegression(), TypeError, "one name"),
    "mapping": ({"a": "r2"}, DPLogisticRegression(), TypeError, "one name"),
    "regressor": ("accuracy", Ridge(), ValueError, "for classification"),
    "classifier": ("r2", DPLogisticRegression(), ValueError, "is for regression"),
    "instance": (R2(0, 1), DPLogisticRegression(), ValueError, "is for regression"),
    "bounds": ("r2", Ridge(), ValueError, "Pass target_bounds"),
    "below 0": (
        "neg_mean_poisson_deviance",
        DPLinearRegression(target_bounds=(-1, 1)),
        ValueError,
        "target_bounds of at least 0",
    ),
    "labels": ("balanced_accuracy", LogisticRegression(), ValueError, "set of labels"),
    "no proba": ("neg_log_loss", DPLinearSVC(), ValueError, "predict_proba"),
    "neither": (None, StandardScaler(), ValueError, "must be named"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_released_is_refused_with_the_reason(case):
    scoring, estimator, kind, reason = REFUSED[case]
    with pytest.raises(kind, match=reason):
        resolve_scoring(scoring, estimator)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (NegLogLoss, {"floor": 0.0}),
        (NegLogLoss, {"floor": math.nan}),
        (R2, {"low": 1.0, "high": 1.0}),
        (R2, {"low": 0.0, "high": 1.0, "least": 2.0}),
        (NegMeanSquaredError, {"low": 0.0, "high": math.inf}),
        (NegMeanPinballLoss, {"low": 0.0, "high": 1.0, "quantile": 1.0}),
        (NegMeanPoissonDeviance, {"low": 0.0, "high": 1.0, "floor": 0.0}),
        (NegMeanGammaDeviance, {"low": 0.0, "high": 1.0, "most": 1.0}),
    ],
)
def test_public_facts_out_of_range_are_refused(kind, fields):
    with pytest.raises(ValueError, match="must be"):
        kind(**fields)


def test_the_registry_names_every_scorer():
    assert {name: type(scorer) for name, scorer in SCORERS.items()} == SCORINGS
    assert all(name == kind.name for name, kind in SCORINGS.items())
    singles = {name for name, kind in SCORINGS.items() if kind.is_single}
    several = {"balanced_accuracy", "f1", "f1_macro", "r2", "roc_auc"}
    assert singles == set(SCORINGS) - several
    assert all(scorer.size == 1 for n, scorer in SCORERS.items() if n in singles)
