"""`private_score`: its order, its noise, its books and what it refuses."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import get_scorer, make_scorer, mean_pinball_loss
from sklearn.pipeline import make_pipeline

from skdp import (
    BoundedScaler,
    BudgetExceeded,
    BudgetLedger,
    DPLinearRegression,
    DPLogisticRegression,
    private_score,
)
from skdp.exceptions import LargeDeltaWarning, SeededNoiseWarning
from skdp.model_selection import SCORINGS, _scorer_sums, resolve_scoring
from skdp.privacy import (
    ComposedEvent,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    PureEvent,
    epsilon_of,
)
from skdp.privacy.ledger._allowance import Allowance
from skdp.privacy.release import _door
from tests.spies import SpyLedger, SpyNoise
from tests.wide import covering

# scikit-learn 1.6 with a newer SciPy.
pytestmark = pytest.mark.filterwarnings("ignore:.*L-BFGS-B solver:DeprecationWarning")


def classified(n=200, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return rng.normal(size=(n, 4)) + 2 * np.eye(3, 4)[y], y


def regressed(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    return X, X @ [1.0, -2.0, 0.5] + rng.normal(0, 0.1, n)


DEVIANCES = ("neg_mean_poisson_deviance", "neg_mean_gamma_deviance")


def fitted(task, scoring=None):
    """A fitted model, its data and the public facts that a score needs."""
    if task == "classification":
        X, y = classified()
        if scoring in ("f1", "roc_auc"):  # of two labels
            y = np.minimum(y, 1)
        return LogisticRegression(max_iter=500).fit(X, y), X, y, {}
    X, y = regressed()
    if scoring in DEVIANCES:  # of amounts
        y = y + 6
        return Ridge().fit(X, y), X, y, {"target_bounds": (1, 11)}
    return Ridge().fit(X, y), X, y, {"target_bounds": (-4, 4)}


def of_scikit_learn(scoring):
    if scoring == "neg_mean_pinball_loss":  # a metric there, without a name
        return make_scorer(mean_pinball_loss, greater_is_better=False)
    return get_scorer(scoring)


every_scoring = pytest.mark.parametrize("scoring", SCORINGS)


class Noting(ClassifierMixin, BaseEstimator):
    """A classifier that notes every prediction."""

    classes_ = np.array([0, 1, 2])

    def __init__(self, diary=None):
        self.diary = diary

    def fit(self, X, y):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict(self, X):
        self.diary.append("predict")
        return np.zeros(len(X))


# The order -----------------------------------------------------------------------


def test_the_event_is_in_the_ledger_before_anything_is_predicted(tmp_path, monkeypatch):
    diary = []
    monkeypatch.setattr(SpyLedger, "diary", diary)
    ledger = SpyLedger(tmp_path / "a.db", epsilon=1.5, delta=0)
    X, y = classified()
    asked = {"epsilon": 1.0, "delta": 0.0, "ledger": ledger}
    score = private_score(Noting(diary), X, y, **asked)
    assert diary == ["commit", "predict"]
    assert score.privacy.event == LaplaceEvent(score.privacy.noise_multiplier)
    diary.clear()
    with pytest.raises(BudgetExceeded):
        private_score(Noting(diary), X, y, **asked)
    assert diary == []


def test_a_rehearsal_declares_and_reads_nothing():
    diary, X, y = [], *classified()
    allowance = Allowance("replace_one", "record")
    score = private_score(Noting(diary), X, y, epsilon=1.0, ledger=allowance)
    assert diary == []
    assert allowance.noted == [score.privacy.event]
    assert float(score) == 0.0


def test_scores_and_fits_add_up_in_one_ledger(tmp_path):
    ledger = BudgetLedger(tmp_path / "a.db", epsilon=3.0, delta=1e-6)
    X, y = classified()
    model = DPLogisticRegression(classes=[0, 1, 2], ledger=ledger, data_norm=4.0)
    model.fit(X, y)
    score = private_score(model, X, y, epsilon=1.0, delta=1e-6, ledger=ledger)
    assert isinstance(score.privacy.event, GaussianEvent)
    assert "squares" in score.privacy.why_solver
    both = ComposedEvent((model.privacy_.event, score.privacy.event))
    assert ledger.spent().epsilon == pytest.approx(epsilon_of(both, 1e-6), rel=1e-3)
    assert 1.1 < ledger.spent().epsilon < 1.5


# The noise -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scoring", "adjacency", "delta"),
    [
        (name, ("replace_one", "zero_out")[i % 2], 1e-6 * (i // 2 % 2))
        for i, name in enumerate(SCORINGS)
    ],
)
def test_what_is_drawn_is_what_was_declared(scoring, adjacency, delta, monkeypatch):
    spy = SpyNoise(seed=1)
    spy.is_private = True
    monkeypatch.setattr(_door, "NoiseSource", lambda seed: spy)
    model, X, y, facts = fitted(SCORINGS[scoring].task, scoring)
    score = private_score(
        model,
        X,
        y,
        scoring=scoring,
        epsilon=0.7,
        delta=delta,
        adjacency=adjacency,
        **facts,
    )
    (draw,) = spy.draws
    scorer = resolve_scoring(scoring, model, **facts)
    assert np.array_equal(draw.query, scorer.statistic(model, X, y))
    norm = 1 if draw.law == "laplace" else 2
    assert draw.sensitivity == scorer.sensitivity(adjacency, norm)
    multiplier = score.privacy.noise_multiplier
    assert draw.noise_multiplier == pytest.approx(multiplier, rel=1e-12)
    kinds = {"laplace": LaplaceEvent, "gaussian": GaussianEvent}
    event = (
        PureEvent(1 / multiplier)
        if draw.law == "spherical"
        else kinds[draw.law](multiplier)
    )
    assert score.privacy.event == event
    assert epsilon_of(event, score.privacy.delta) <= 0.7
    assert multiplier <= 1 / 0.7 * 1.0001  # all of the budget is used
    assert float(score) == scorer.score(draw.released, len(y))


def test_the_law_with_the_least_noise_is_taken():
    def law(scoring, delta, epsilon=1.0):
        model, X, y, facts = fitted(SCORINGS[scoring].task)
        asked = {"scoring": scoring, "epsilon": epsilon, "delta": delta}
        return private_score(model, X, y, **asked, **facts).privacy

    assert law("accuracy", 1e-6).solver == "laplace"
    assert law("accuracy", 1e-6).delta == 0.0  # none of it is used
    assert law("balanced_accuracy", 1e-6).solver == "laplace"
    assert law("r2", 0.0).solver == "spherical"
    with pytest.warns(LargeDeltaWarning):
        gaussian = law("r2", 0.2, epsilon=0.01)
    assert (gaussian.solver, gaussian.delta) == ("gaussian", 0.2)


@pytest.mark.parametrize("scoring", ["accuracy", "neg_mean_absolute_error"])
def test_standard_error_is_that_of_the_noise(scoring):
    model, X, y, facts = fitted(SCORINGS[scoring].task)
    if facts:
        facts = {"target_bounds": (-1.5, 1.5)}
        model = Ridge(alpha=1e6).fit(X, y)  # far from the best score
    scorer = resolve_scoring(scoring, model, **facts)
    scores = [
        private_score(
            model, X, y, scoring=scoring, epsilon=2.0, random_state=seed, **facts
        )
        for seed in range(250)
    ]
    exact = scorer.score(scorer.statistic(model, X, y), len(y))
    ratio = (np.array([float(s) for s in scores]) - exact) / scores[0].standard_error
    # Laplace of unit variance; nothing is clipped so far from the ends. A false alarm
    # has probability below 1e-8 each.
    assert stats.kstest(ratio, stats.laplace(scale=math.sqrt(0.5)).cdf).pvalue > 1e-8
    assert stats.kstest(3 * ratio, stats.laplace(scale=0.5**0.5).cdf).pvalue < 1e-8
    assert scores[0].standard_error < 0.02 * (scorer.highest - scorer.lowest)


def in_errors(scoring):
    """Distances of 200 releases from the exact score, in errors; label 0 is rare."""
    rng = np.random.default_rng(0)
    X = rng.normal(scale=1.5, size=(4000, 1)) + 4
    if SCORINGS[scoring].task == "regression":
        y, kind = rng.normal(X[:, 0], 1.0).clip(-4, 12), LinearRegression
        facts = {"target_bounds": (-4, 12), "epsilon": 4.0}
    else:
        y, kind = (rng.random(4000) < expit(X[:, 0])).astype(int), LogisticRegression
        facts = {"epsilon": 1.0}
    model = kind().fit(X, y)
    exact, facts = get_scorer(scoring)(model, X, y), facts | {"scoring": scoring}
    scores = [private_score(model, X, y, random_state=i, **facts) for i in range(200)]
    return np.array([abs(x.value - exact) / x.standard_error for x in scores])


# Where an interval holds the score with probability 0.93, fewer than 163 of 200 have
# probability 2e-8.
LEAST_HELD = 163


@pytest.mark.parametrize(
    "scoring",
    covering(
        ["roc_auc", "balanced_accuracy", "f1_macro", "r2"], lambda name: (name == "r2",)
    ),
)
def test_errors_hold_the_exact_score(scoring):
    away = in_errors(scoring)
    assert np.sum(away <= 1.96) >= LEAST_HELD
    assert np.sum(3 * away <= 1.96) < LEAST_HELD  # errors are not far too large


def test_broken_twin_without_the_noise_of_one_label_is_caught(monkeypatch):
    whole = _scorer_sums._pseudo_noise

    def of_positive(size):
        return whole(size) * (np.arange(size) % 2)  # labels take turns

    monkeypatch.setattr(_scorer_sums, "_pseudo_noise", of_positive)
    assert np.sum(in_errors("balanced_accuracy") <= 1.96) < LEAST_HELD


# Statistics that no records have, with the end at which the score is.
AT_AN_END = [
    ("r2", [-500.0, 0.0, 300.0], 1.0),
    ("r2", [50.0, 0.0, -300.0], -1.0),
    ("f1", [900.0, 50.0, 60.0, -400.0], 0.0),
    ("f1", [900.0, -400.0, -400.0, 300.0], 1.0),
    ("f1_macro", [-400.0, 500.0, 400.0, -400.0], 0.0),
    ("balanced_accuracy", [900.0, 50.0, -400.0, -400.0], 1.0),
]


def at_an_end(scoring, statistic):
    """The score, and the error from noise of deviation 50 on 1,000 records."""
    noise = {"statistic": np.array(statistic), "n_samples": 1000}
    return scoring.score(**noise), scoring.error(**noise, deviation=50.0)


@pytest.mark.parametrize(("name", "statistic", "end"), AT_AN_END)
def test_error_is_not_0_where_noise_moved_a_score_to_an_end(name, statistic, end):
    is_regression = SCORINGS[name].task == "regression"
    facts = {"target_bounds": (-1, 1)} if is_regression else {"classes": [0, 1]}
    estimator = LinearRegression() if is_regression else LogisticRegression()
    scoring = resolve_scoring(name, estimator, **facts)
    value, error = at_an_end(scoring, statistic)
    assert value == end
    assert error > 0.04
    # Noise around the impossible statistic itself, the broken twin, stays at the end.
    assert at_an_end(replace(scoring, possible=None), statistic) == (end, 0.0)


@every_scoring
def test_without_privacy_the_score_is_scikit_learn_s(scoring, tmp_path):
    model, X, y, facts = fitted(SCORINGS[scoring].task, scoring)
    if facts:
        low = 0 if scoring in DEVIANCES else -0.1
        facts = {"target_bounds": (low, 0.1)}  # nothing is clipped
    score = private_score(model, X, y, scoring=scoring, epsilon=math.inf, **facts)
    assert float(score) == of_scikit_learn(scoring)(model, X, y)
    assert score.standard_error == 0.0
    assert not score.privacy.is_private
    assert score.privacy.event == NonPrivateEvent()
    assert "NOT a private release" in repr(score)
    ledger = BudgetLedger(tmp_path / "a.db", epsilon=1.0, delta=0)
    with pytest.raises(ValueError, match="private"):
        private_score(
            model, X, y, scoring=scoring, epsilon=math.inf, ledger=ledger, **facts
        )


# What it shows -------------------------------------------------------------------


def test_what_a_score_shows():
    model, X, y, _ = fitted("classification")
    score = private_score(model, X, y, epsilon=1.0)
    assert 0 <= float(score) <= 1
    assert score.scoring == "accuracy"
    assert score.privacy.statement() in repr(score).replace("\n", " ")
    assert "accuracy = " in repr(score)
    assert "standard error: 0.0071" in repr(score)
    assert "<table>" in score._repr_html_()
    record = json.loads(score.privacy.to_json())
    assert record["event"]["event"] == "laplace"
    assert (record["n_samples"], record["n_features"]) == (200, 4)
    balanced = private_score(model, X, y, scoring="balanced_accuracy", epsilon=1.0)
    assert 0.01 < balanced.standard_error < 0.05
    assert "standard error" in repr(balanced)
    assert json.loads(balanced.privacy.to_json())["solver_params"] == {
        "classes": [0, 1, 2]
    }


# What it takes -------------------------------------------------------------------


class Brittle(TransformerMixin, BaseEstimator):
    """Somebody's own step, which raises for some rows and quotes them."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        if np.isnan(X).any():
            raise ValueError(f"cannot transform {X[np.isnan(X).any(axis=1)]}")
        return X


def test_rows_for_which_a_pipeline_raises_are_the_worst_and_nothing_is_said():
    X, y = classified()
    model = make_pipeline(Brittle(), LogisticRegression(max_iter=500)).fit(X, y)
    X, y = np.vstack([X, X]), np.concatenate([y, y])
    right = model.predict(X) == y
    X[::40] = math.nan
    right[::40] = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", SeededNoiseWarning)
        found = private_score(model, X, y, epsilon=1e6, random_state=0)
    assert float(found) == pytest.approx(right.mean(), abs=1e-4)


def refusal(call):
    """The message of a refusal, which may not carry a value of the data."""
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert caught.value.__context__ is None
    return str(caught.value)


SECRET = 31415926.5


def test_labels_of_another_kind_are_refused_and_cost_nothing(tmp_path):
    """Found by a newcomer: the accuracy was 0, without a word."""
    X, y = classified()
    model = LogisticRegression().fit(X, np.array(["a", "b", "c"])[y])
    ledger = BudgetLedger(tmp_path / "x.db", epsilon=1.0, delta=1e-5)
    with pytest.raises(TypeError, match="numbers in y, and text in classes_"):
        private_score(model, X, y, epsilon=0.5, ledger=ledger)
    assert not ledger.spends()
    # Labels that may be of any kind, and those that the model never saw, are scored.
    for labels in (np.array(["a", "d", "c"])[y], y.astype(object)):
        private_score(model, X, labels, epsilon=0.5, ledger=None)


def test_data_are_refused_before_the_commit_and_without_a_value(tmp_path):
    ledger = BudgetLedger(tmp_path / "a.db", epsilon=1.0, delta=0)
    X, y = regressed()
    plain = Ridge().fit(X, y)
    own = make_pipeline(
        BoundedScaler(bounds=(-1, 1)), DPLinearRegression(target_bounds=(-4, 4))
    ).fit(X, y)
    bad = X.copy()
    bad[:2, 1] = SECRET, math.nan
    cases = [
        (plain, bad, y, "NaN"),
        (own, bad, y, "NaN"),
        (own, X[:, :2], y, "features"),
        (own, X, y[:-1], "inconsistent"),
        (plain, X, np.where(y > y.mean(), SECRET, math.nan), "finite|NaN"),
        (plain, X, None, "None"),
        (plain, X, np.full(len(y), "31415926.5"), "real numbers"),
        (plain, X[:0], y[:0], "0 sample|1 to"),
        (own, csr_array(X), y, "Sparse"),
    ]
    for model, rows, targets, text in cases:
        message = refusal(
            lambda m=model, r=rows, t=targets: private_score(
                m, r, t, epsilon=1.0, target_bounds=(-4, 4), ledger=ledger
            )
        )
        assert any(part in message for part in text.split("|")), (text, message)
        assert "31415926" not in message
    assert ledger.spent().epsilon == 0


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"epsilon": 0.0}, ValueError),
        ({"epsilon": "1"}, TypeError),
        ({"delta": 1.0}, ValueError),
        ({"adjacency": "add_remove"}, ValueError),
        ({"random_state": np.random.default_rng(0)}, TypeError),
        ({"ledger": "a.db"}, TypeError),
        ({"scoring": "roc_auc_ovr"}, ValueError),
        ({"classes": 3, "scoring": "balanced_accuracy"}, ValueError),
    ],
)
def test_parameters_out_of_range_are_refused_before_anything_is_predicted(
    changed, kind
):
    diary, X, y = [], *classified()
    with pytest.raises(kind):
        private_score(Noting(diary), X, y, **{"epsilon": 1.0, **changed})
    assert diary == []


@pytest.mark.parametrize(("value", "hides"), [(0.0, True), (-0.9, True), (-4.0, False)])
def test_a_score_says_if_noise_hides_it(value, hides):
    X, y = regressed()
    released = private_score(
        Ridge().fit(X, y), X, y, epsilon=1.0, target_bounds=(-4, 4)
    )
    shown = replace(released, value=value, standard_error=1.3)._headline()
    assert ("noise hides this score" in shown) == hides
