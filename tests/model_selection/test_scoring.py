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
    DPGridSearchCV,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPPoissonRegressor,
    DPQuantileRegressor,
    private_score,
)
from skdp.model_selection import (
    PrivateScoring,
    _scorer_sums,
    _scorers,
    resolve_scoring,
)
from skdp.sums._record_sums import QUANTUM

# scikit-learn 1.6 with a newer SciPy.
pytestmark = pytest.mark.filterwarnings("ignore:.*L-BFGS-B solver:DeprecationWarning")

LOW, HIGH = -2.0, 8.0


class Anything(BaseEstimator):
    """No classifier and no regressor, without public facts."""

    predict = predict_proba = decision_function = None


def named(name, **params):
    """The scorer of a name, with public facts and settings."""
    facts = {key: params.pop(key, None) for key in ("classes", "target_bounds")}
    return resolve_scoring(name, Anything(), **facts, params=params or None)


def of_targets(name, low=LOW, high=HIGH, **params):
    return named(name, target_bounds=(low, high), **params)


def is_near(model, X, y):
    """A score of one's own, in [-4, 2]: -1 where a prediction is near."""
    apart = np.abs(model.predict(X) - y)
    return np.where(apart == 0, 1.0, 0.5 * (apart < 2)) * 6 - 4


SCORERS = {
    "accuracy": named("accuracy"),
    "balanced_accuracy": named("balanced_accuracy", classes=[0, 1, 2]),
    "neg_log_loss": named("neg_log_loss"),
    "roc_auc": named("roc_auc", classes=[0, 1]),
    "f1": named("f1", classes=[0, 1]),
    "f1_macro": named("f1_macro", classes=[0, 1, 2]),
    "neg_mean_squared_error": of_targets("neg_mean_squared_error"),
    "neg_mean_absolute_error": of_targets("neg_mean_absolute_error"),
    "neg_mean_pinball_loss": of_targets("neg_mean_pinball_loss", quantile=0.9),
    "neg_mean_poisson_deviance": of_targets("neg_mean_poisson_deviance", 0.0),
    "neg_mean_gamma_deviance": of_targets("neg_mean_gamma_deviance", 0.5),
    "r2": of_targets("r2"),
}
NAMES = tuple(SCORERS)
SCORERS["own"] = PrivateScoring("own", is_near, -4.0, 2.0, task="regression")
SCORERS["own_loss"] = PrivateScoring(
    "own_loss", lambda *rows: is_near(*rows) - 3, -7.0, -1.0, task="regression"
)
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


def pool(scorer, rng, count=60):
    """Records of every kind: extremes, ordinary ones and ones nobody expects."""
    said = np.concatenate(
        [rng.choice([LOW, HIGH, 0.0, 1.0, 2.0], count), rng.uniform(-10, 20, count)]
    )
    said = np.concatenate([said, WEIRD * 6])
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


PINBALL, POISSON, GAMMA = (
    "neg_mean_pinball_loss",
    "neg_mean_poisson_deviance",
    "neg_mean_gamma_deviance",
)
LOSSES = [
    *(of_targets(PINBALL, quantile=q) for q in (0.01, 0.5, 0.9)),
    *(of_targets(POISSON, low) for low in (0.0, 0.01, 2.0, 7.9)),
    of_targets(POISSON, 0.0, floor=0.5),
    of_targets(POISSON, 0.0, 1e100, floor=1e-6),
    *(of_targets(GAMMA, low) for low in (0.0, 0.5, 7.9)),
    of_targets(GAMMA, 0.0, floor=0.5, most=1e100),
    of_targets(GAMMA, 1e-100, most=1.5),
]


@pytest.mark.parametrize("scorer", LOSSES, ids=repr)
def test_ranges_of_losses_are_those_of_the_formulas(scorer, monkeypatch):
    """Without the clip to the range, which hides a range that is too small."""
    monkeypatch.setattr(_scorers, "_or_worst", lambda losses: losses)
    ends = np.linspace(scorer.params["low"], scorer.params["high"], 201)
    if scorer.name != PINBALL:
        least = _scorers._least_mean(scorer.params)
        ends = np.append(ends, [least, least * 4])
    said, true = (grid.ravel() for grid in np.meshgrid(ends, ends))
    added = scorer._quality(Says(), said[:, None], true)
    assert added.min() == pytest.approx(-1.0, abs=1e-12)
    assert added.max() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith("neg_mean")])
def test_what_is_no_number_is_the_worst_there_is(name):
    scorer = SCORERS[name]
    said = np.array([math.nan, math.inf, -math.inf, HIGH, 3.0])
    true = np.array([HIGH, HIGH, scorer.params["low"], math.nan, 3.0])
    added = scorer.contributions(Says(), said[:, None], true)[:, 0]
    assert added.tolist() == [-1, -1, -1, -1, 0]


# No record counts for two labels: these are one in single precision.
NEAR = (0.1, float(np.float32(0.1)), 2.0)


def far_apart(scorer):
    """How far one record moves the statistic, in L1 and in L2."""
    X, y = np.ones((2, 1)), np.array([0.1, 2.0], dtype=np.float32)
    first, second = scorer.contributions(Says(), X, y)
    return np.abs(first - second).sum(), np.linalg.norm(first - second)


def test_labels_that_are_one_count_once():
    for repeated in (("a", "a", "b"), (1, 1.0, 2)):
        found = named("balanced_accuracy", classes=repeated)
        assert len(found.params["classes"]) == 2
    for alone in ((True, 1), ["a"]):
        with pytest.raises(ValueError, match="two different labels"):
            named("balanced_accuracy", classes=alone)
    scorer = named("balanced_accuracy", classes=NEAR)
    stated = [scorer.sensitivity("replace_one", norm) for norm in (1, 2)]
    assert (np.array(far_apart(scorer)) <= stated).all()

    # The twin counts it for each label that matches, right.
    def of_all_that_match(params, quality, y):
        right = np.column_stack([y == label for label in params["classes"]])
        return np.hstack([right, np.zeros_like(right)]).astype(float)

    added = replace(scorer.added, spread=of_all_that_match, is_counted=False)
    assert (np.array(far_apart(replace(scorer, added=added))) > stated).all()


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
    monkeypatch.setattr(_scorer_sums, "rows_in_places", lambda rows, at: rows.iloc[at])
    distance, is_kept = moved()
    assert not is_kept
    assert distance > 3 * bound


ANSWERS = [
    *(None, "text", [["a", "b"]], np.zeros((7, 2)), np.zeros(3), csr_array((7, 7))),
    *([object()] * 7, np.full(7, "a"), np.full(7, None)),
]


@every_scorer
def test_no_answer_of_an_estimator_raises_or_warns(name):
    class Answers(Says):
        def predict(self, X):
            return self.answer

        predict_proba = predict

    scorer, model = SCORERS[name], Answers()
    X, y = np.zeros((7, 1)), np.arange(7) % 3
    for model.answer in ANSWERS:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            added = scorer.contributions(model, X, y)
        assert added.shape == (7, scorer.size)
        assert np.abs(added).max() <= 1


@pytest.mark.parametrize("name", ["accuracy", "balanced_accuracy", "neg_log_loss"])
def test_no_label_raises_or_moves_others(name):
    """Comparing pandas.NA or an array raises, for the whole column."""
    scorer, X = SCORERS[name], np.array([[0.0], [1.0], [2.0], [1.0]])
    y = np.array([0, 1, 0, 1], dtype=object)
    before = scorer.contributions(Says(), X, y)
    worst = {"balanced_accuracy": 0.0, "accuracy": 0.0, "neg_log_loss": -1.0}
    for odd in (pd.NA, None, math.nan, [1], {}, np.zeros(3), "1"):
        y[1] = odd
        after = scorer.contributions(Says(), X, y)
        assert np.array_equal(np.delete(after, 1, 0), np.delete(before, 1, 0))
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
        for s in range(-3, 12, 2)
        for _ in range(10)
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
@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ([0, 1, 2], np.asarray),
        (["a", "b", "c"], pd.DataFrame),
        ([-1.0, 0.0, 5.0], csr_array),
    ],
)
def test_classification_scores_are_those_of_scikit_learn(name, labels, kind):
    X, y = blobs()
    X, y = kind(X), np.array(labels)[y]
    model = LogisticRegression(max_iter=500).fit(X, y)
    scorer = resolve_scoring(name, model)
    if name == "neg_log_loss":
        # Nothing is clipped.
        scorer = resolve_scoring(name, model, params={"floor": 1e-12})
    found = scorer.score(scorer.statistic(model, X, y), len(y))
    assert found == pytest.approx(get_scorer(name)(model, X, y), abs=1e-6)


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
    name = {1: POISSON, 2: GAMMA}[power]
    scorer, model = of_targets(name, 1.0, 200.0), Says()
    found = scorer.score(scorer.statistic(model, X, y), len(y))
    expected = mean_tweedie_deviance(y, X[:, 0], power=power)
    assert found == pytest.approx(-expected, rel=1e-5)
    for quantile in (0.1, 0.8):
        pinball = of_targets(PINBALL, 1.0, 200.0, quantile=quantile)
        found = pinball.score(pinball.statistic(model, X, y), len(y))
        expected = mean_pinball_loss(y, X[:, 0], alpha=quantile)
        assert found == pytest.approx(-expected, rel=1e-6)


def test_floor_of_a_probability_bounds_the_loss():
    X, y = np.array([[0.0], [10.0], [5.0]]), np.array([0, 0, 0])
    added = named("neg_log_loss", floor=0.1).contributions(Says(), X, y)[:, 0]
    assert added[:2].tolist() == [-1, 0]
    assert added[2] == pytest.approx(math.log(0.5) / math.log(10), abs=QUANTUM)
    assert named("neg_log_loss").lowest == pytest.approx(-math.log(100))


# Which score for which estimator ------------------------------------------------


def test_defaults_and_public_facts_come_from_the_estimator():
    def found(scoring, model, **facts):
        scorer = resolve_scoring(scoring, model, **facts)
        return scorer.name, dict(scorer.params)

    scaler = BoundedScaler(bounds=(0, 1))
    classifier = make_pipeline(scaler, DPLogisticRegression(classes=["b", "a"]))
    regressor = make_pipeline(scaler, DPLinearRegression(target_bounds=(0, 9)))
    squared = ("neg_mean_squared_error", {"low": 0.0, "high": 9.0})
    assert found(None, classifier) == ("accuracy", {})
    assert found(None, regressor) == squared
    balanced = ("balanced_accuracy", {"classes": ("a", "b")})
    assert found("balanced_accuracy", classifier) == balanced
    quantiles = DPQuantileRegressor(quantile=0.9, target_bounds=(0, 9))
    pinball = (PINBALL, {"low": 0.0, "high": 9.0, "quantile": 0.9})
    assert found(None, make_pipeline(scaler, quantiles)) == pinball
    median = found(PINBALL, quantiles, params={"quantile": 0.5})
    assert median == (PINBALL, pinball[1] | {"quantile": 0.5})
    assert found(PINBALL, regressor) == median
    search = DPGridSearchCV(make_pipeline(scaler, quantiles), {})
    search.best_estimator_ = search.estimator  # as a fitted search has it
    assert found(None, search) == pinball
    counts = DPPoissonRegressor(target_bounds=(0, 9))
    poisson = (POISSON, {"low": 0.0, "high": 9.0, "floor": 0.01})
    assert found(None, counts) == poisson
    amounts = DPGammaRegressor(target_bounds=(1, 9))
    gamma = (GAMMA, {"low": 1.0, "high": 9.0, "floor": 0.01, "most": 8.0})
    assert found(None, amounts) == gamma
    for loss, quantile, expected in (
        ("squared_error", None, squared),
        ("quantile", 0.9, pinball),
        ("poisson", None, poisson),
        ("gamma", None, gamma),
    ):
        trees = DPGradientBoostingRegressor(
            loss=loss, quantile=quantile, target_bounds=(int(loss == "gamma"), 9)
        )
        assert found(None, trees) == expected
    declared = ("r2", {"low": -1.0, "high": 1.0, "least": -1.0})
    assert found("r2", regressor, target_bounds=(-1, 1)) == declared
    finer = resolve_scoring("neg_log_loss", classifier, params={"floor": 0.05})
    assert resolve_scoring(finer, classifier) is finer
    assert finer.lowest == pytest.approx(math.log(0.05))
    fitted = LogisticRegression().fit(*blobs())
    assert resolve_scoring("balanced_accuracy", fitted).params == {"classes": (0, 1, 2)}


REFUSED = {
    "ranks": ("roc_auc_ovr", DPLogisticRegression(), ValueError, "with several labels"),
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
    "instance": (
        SCORERS["r2"],
        DPLogisticRegression(),
        ValueError,
        "is for regression",
    ),
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


def test_what_cannot_be_released_is_refused_with_the_reason():
    for scoring, estimator, kind, reason in REFUSED.values():
        with pytest.raises(kind, match=reason):
            resolve_scoring(scoring, estimator)
    with pytest.raises(TypeError, match="None or a mapping"):
        resolve_scoring("neg_log_loss", Anything(), params=[0.1])
    with pytest.raises(ValueError, match="None with a PrivateScoring"):
        resolve_scoring(SCORERS["own"], Anything(), params={"floor": 0.1})
    needs = PrivateScoring("p", is_near, 0, 1, "regression", "predict_proba")
    with pytest.raises(ValueError, match="needs an estimator with predict_proba"):
        resolve_scoring(needs, Near())
    for name, params in OUT_OF_RANGE:
        with pytest.raises(ValueError, match="must be"):
            (of_targets if "low" in params else named)(name, **params)


OUT_OF_RANGE = [
    ("neg_log_loss", {"floor": math.nan}),
    ("r2", {"low": 1.0, "high": 1.0}),
    ("r2", {"low": 0.0, "high": 1.0, "least": 2.0}),
    ("neg_mean_squared_error", {"low": 0.0, "high": math.inf}),
    (PINBALL, {"low": 0.0, "high": 1.0, "quantile": 1.0}),
    (POISSON, {"low": 0.0, "high": 1.0, "floor": 0.0}),
    (GAMMA, {"low": 0.0, "high": 1.0, "most": 1.0}),
    ("accuracy", {"floor": 0.1}),
]


# Scores of one's own ------------------------------------------------------------


class Near(BaseEstimator):
    """Predicts the first column."""

    def fit(self, X, y):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict(self, X):
        return X[:, 0]


@pytest.mark.parametrize("name", ["own", "own_loss"])
def test_a_score_of_ones_own_is_its_mean(name):
    rng, scorer = np.random.default_rng(0), SCORERS[name]
    X = rng.integers(0, 5, (200, 1)).astype(float)
    y = X[:, 0] + rng.integers(0, 4, 200)
    exact = np.mean(scorer.per_record(Near(), X, y))
    assert scorer.of_raw_data(Near(), X, y) == exact
    found = scorer.score(scorer.statistic(Near(), X, y), 200)
    assert found == pytest.approx(exact, abs=1e-6)
    # A null record counts as the end of the range that is nearer to 0.
    assert scorer.score(np.zeros(1), 200) == {"own": -4.0, "own_loss": -1.0}[name]


def test_a_score_of_ones_own_is_released_with_the_noise_of_its_range(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 5, (4000, 1))
    y, scorer = X[:, 0] + rng.uniform(-4, 4, 4000), SCORERS["own"]
    released = private_score(Near(), X, y, scoring=scorer, epsilon=1.0)
    assert released.scoring == "own"
    assert released.privacy.solver_params == {"lowest": -4.0, "highest": 2.0}
    assert set(scorer.assumed_public) <= set(released.privacy.assumed_public)
    # Laplace noise of scale width / n.
    expected = math.sqrt(2) * 6 / 4000
    assert released.standard_error == pytest.approx(expected, rel=1e-3)
    exact = float(private_score(Near(), X, y, scoring=scorer, epsilon=math.inf))
    assert abs(float(released) - exact) < 30 * expected


def test_twin_that_does_not_clip_a_score_of_ones_own_is_caught(monkeypatch):
    scorer = PrivateScoring("far", lambda m, X, y: m.predict(X), 0, 1, "regression")
    X = np.array([[-50.0], [50.0], [math.inf], [math.nan]])
    bound = scorer.sensitivity("replace_one", 1)

    def moved():
        return np.ptp(scorer.contributions(Near(), X, np.zeros(4)))

    assert moved() == bound
    monkeypatch.setattr(np, "clip", lambda values, low, high: values)
    assert moved() > 10 * bound


@pytest.mark.parametrize(
    ("fields", "kind", "reason"),
    [
        ({"per_record": 0.5}, TypeError, "must be a function"),
        ({"lowest": 2.0}, ValueError, "below 'highest'"),
        ({"highest": 0.0}, ValueError, "below 'highest'"),
        ({"highest": math.inf}, ValueError, "'highest'"),
        ({"lowest": "0"}, TypeError, "'lowest'"),
        ({"task": "ranking"}, ValueError, "'task'"),
        ({"response_method": "fit"}, ValueError, "'response_method'"),
    ],
)
def test_a_score_of_ones_own_must_state_its_range(fields, kind, reason):
    given = {"per_record": is_near, "lowest": 0.0, "highest": 1.0, "task": "regression"}
    with pytest.raises(kind, match=reason):
        PrivateScoring("own", **given | fields)


@pytest.mark.parametrize("name", ["own", "own_loss"])
def test_a_score_of_ones_own_that_1_0_stored_is_the_same(name):
    scorer, again = SCORERS[name], object.__new__(PrivateScoring)
    fields = ("name", "per_record", "lowest", "highest", "task", "response_method")
    again.__setstate__({key: vars(scorer)[key] for key in (*fields, "params")})
    assert vars(again) == vars(scorer)
    X, y = pool(scorer, np.random.default_rng(0))
    stored, now = (each.statistic(Says(), X, y) for each in (again, scorer))
    assert np.array_equal(stored, now)
    assert again.score(stored, len(y)) == scorer.score(now, len(y))
