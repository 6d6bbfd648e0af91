"""The picture of utility by epsilon says what it costs."""

from __future__ import annotations

import builtins
import dataclasses
import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from skdp import (
    DPGradientBoostingClassifier,
    DPLinearRegression,
    DPLogisticRegression,
    DPMatrixFactorization,
    DPSparseLogisticRegression,
    private_score,
)
from skdp.model_selection import PrivacyUtilityDisplay, PrivateScore
from skdp.privacy import ComposedEvent, epsilon_of

pyplot = pytest.importorskip("matplotlib.pyplot")
X = np.random.default_rng(0).normal(size=(400, 2))
Y = (X[:, 0] > 0).astype(int)
EPSILONS = (2.0, 0.5, 1.0)


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def models():
    return [DPLogisticRegression(e, classes=[0, 1]).fit(X, Y) for e in EPSILONS]


@pytest.mark.parametrize(
    ("estimator", "shape"),
    [
        (DPLogisticRegression(classes=[0, 1]), (2000, 30)),
        (DPSparseLogisticRegression(classes=[0, 1]), (2000, 30)),
        (DPGradientBoostingClassifier(columns=(0, 1), classes=[0, 1]), (2000, 30)),
        (DPMatrixFactorization(rating_bounds=(1, 5)), (900, 50, 9000)),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_forecast_is_the_estimators_own_and_free(estimator, shape):
    shown = PrivacyUtilityDisplay.from_estimator(estimator, shape, epsilons=EPSILONS)
    own = [
        estimator.set_params(epsilon=e).forecast(*shape).noise_to_signal
        for e in sorted(EPSILONS)
    ]
    assert shown.epsilons == sorted(EPSILONS)
    np.testing.assert_array_equal(shown.line_.get_ydata(), own)
    assert "costs nothing" in shown.ax_.get_title()
    assert own[0] > own[-1]


def composed(records):
    events = ComposedEvent(tuple(record.event for record in records))
    return epsilon_of(events, 1e-6)


def test_the_title_tells_what_all_fits_cost_together(models):
    shown = PrivacyUtilityDisplay.from_scores(models, [0.9, 0.7, 0.8], name="model")
    total = composed([model.privacy_ for model in models])
    assert total > max(EPSILONS)  # a picture of the best alone would say less
    assert f"fits together ({total:.3g}, 1e-06)" in shown.cost
    assert "scores together" not in shown.cost
    assert shown.epsilons == sorted(EPSILONS)
    assert shown.values == [0.7, 0.8, 0.9]
    assert shown.ax_.get_title() == shown.cost
    assert shown.figure_ is shown.ax_.figure


def test_private_scores_bring_their_noise_and_their_cost(models):
    scores = [private_score(m, X, Y, epsilon=1.0, classes=[0, 1]) for m in models]
    _, axes = pyplot.subplots()
    shown = PrivacyUtilityDisplay.from_scores(
        [model.privacy_ for model in models], scores, ax=axes
    )
    assert shown.ax_ is axes
    assert shown.errors == [scores[i].standard_error for i in (1, 2, 0)]
    total = composed([score.privacy for score in scores])
    assert f"scores together ({total:.3g}" in shown.cost
    assert axes.get_ylabel() == "accuracy"


def test_what_cannot_be_added_up_is_refused(models):
    other = DPLogisticRegression(adjacency="zero_out", classes=[0, 1]).fit(X, Y)
    with pytest.raises(ValueError, match=r"Got replace_one and zero_out"):
        PrivacyUtilityDisplay.from_scores([models[0], other], [0.5, 0.6])
    exact = DPLinearRegression(math.inf, target_bounds=(0, 1)).fit(X, Y)
    with pytest.raises(ValueError, match="finite epsilon"):
        PrivacyUtilityDisplay.from_scores([exact], [0.5])


def test_bad_input(models):
    score = PrivateScore(0.5, 0.1, "accuracy", models[0].privacy_)
    r2 = dataclasses.replace(score, scoring="r2")
    draw = PrivacyUtilityDisplay.from_scores
    with pytest.raises(ValueError, match=r"one score for each of 3 models\. Got 2"):
        draw(models, [0.1, 0.2])
    with pytest.raises(TypeError, match="Got both"):
        draw(models[:2], [score, 0.5])
    with pytest.raises(ValueError, match="of one kind"):
        draw(models[:2], [score, r2])
    with pytest.raises(ValueError, match="must have an entry"):
        draw([], [])
    with pytest.raises(TypeError, match=r"LogisticRegression\. Fit it first"):
        draw([LogisticRegression()], [0.5])
    with pytest.raises(TypeError, match="with a forecast"):
        PrivacyUtilityDisplay.from_estimator(LogisticRegression(), (10, 2))


def test_without_matplotlib_an_error_says_what_to_read(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match="needs matplotlib"):
        PrivacyUtilityDisplay([1.0], [1.0]).plot()
