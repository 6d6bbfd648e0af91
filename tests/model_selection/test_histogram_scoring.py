"""Scores of cells: what they are worth, in exact arithmetic and by noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.metrics import (
    f1_score,
    roc_auc_score,
)

from skdp.model_selection import resolve_scoring
from skdp.model_selection._scorer_sums import (
    LOG_ODDS,
    average_precision,
    log_odds_grid,
    roc_auc,
)


class Says(BaseEstimator):
    """Predicts the probability, or the label, that stands in the first column."""

    classes_ = np.array([0, 1])

    def predict_proba(self, X):
        return np.column_stack([1 - X[:, 0], X[:, 0]])

    def predict(self, X):
        return X[:, 0]


class Anything(BaseEstimator):
    """An estimator without public facts."""

    predict = predict_proba = None


def named(name, classes=(0, 1), thresholds=LOG_ODDS):
    """The scorer of a name."""
    params = {"thresholds": thresholds} if name == "roc_auc" else None
    return resolve_scoring(name, Anything(), classes=classes, params=params)


def scored(n=4000, seed=0):
    """Labels, and scores of every third interval, so that others do not order them."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.3).astype(int)
    p = np.clip(rng.normal(0.35 + 0.25 * y, 0.2), 0, 1)
    return y, np.array(LOG_ODDS)[1::3][np.rint(p * 7).astype(int)]


def test_roc_auc_of_tied_scores_is_scikit_learn_s():
    y, p = scored()
    scorer = named("roc_auc")
    found = scorer.score(scorer.statistic(Says(), p[:, None], y), len(y))
    assert found == pytest.approx(roc_auc_score(y, p), abs=1e-12)


def test_f_scores_are_scikit_learn_s():
    rng = np.random.default_rng(0)
    y, said = rng.integers(0, 3, (2, 500))
    scorer = named("f1_macro", (0, 1, 2))
    statistic = scorer.statistic(Says(), said[:, None], y)
    assert scorer.score(statistic, 500) == pytest.approx(
        f1_score(y, said, average="macro")
    )
    two = named("f1")
    y, said = np.minimum(y, 1), np.minimum(said, 1)
    statistic = two.statistic(Says(), said[:, None], y)
    assert two.score(statistic, 500) == pytest.approx(f1_score(y, said))


def test_a_record_at_a_threshold_is_above_it():
    y, p = np.ones(3, dtype=int), np.array([0.5, math.nextafter(0.5, 0), 1.0])
    scorer = named("roc_auc", (0, 1), (0.0, 0.5, 1.0))
    found = scorer.contributions(Says(), p[:, None], y).reshape(3, 2, 2)
    assert found[:, 1].tolist() == [[0, 1], [1, 0], [0, 1]]


def test_a_record_that_fails_is_the_worst_of_its_label():
    y, p = np.array([0, 1]), np.full(2, math.nan)
    found = named("roc_auc").contributions(Says(), p[:, None], y).reshape(2, 2, -1)
    assert found[0, 0, -1] == found[1, 1, 0] == 1
    wrong = named("f1").contributions(Says(), p[:, None], y).reshape(2, 2, 2)
    assert wrong[0, 0, 1] == wrong[1, 1, 0] == 1


def test_other_labels_are_in_no_cell():
    found = named("roc_auc").contributions(
        Says(), np.full((2, 1), 0.5), np.array([7, 1])
    )
    assert found.sum(axis=1).tolist() == [0, 1]


@pytest.mark.parametrize("kind", ["roc_auc", "f1"])
def test_counts_are_the_sums_of_contributions(kind):
    y, p = scored(500)
    y[:5], p[5:8] = 7, math.nan
    said = p[:, None] if kind == "roc_auc" else np.rint(p)[:, None]
    scorer = named(kind)
    added = scorer.contributions(Says(), said, y).sum(axis=0)
    assert np.array_equal(scorer.statistic(Says(), said, y), added)
    assert added.sum() == 495


BAD = [
    (0.0, 1.0),
    (0.0, 0.5),
    (0.1, 0.5, 1.0),
    (0.0, 0.5, 0.5, 1.0),
    (0.0, math.nan, 1.0),
    "01",
    None,
    tuple(np.linspace(0, 1, 1002)),
]


@pytest.mark.parametrize("thresholds", BAD, ids=lambda x: str(x)[:20])
def test_thresholds_that_are_none(thresholds):
    with pytest.raises(ValueError, match="rise from 0 to 1"):
        named("roc_auc", (0, 1), thresholds)


def test_labels_that_are_not_two():
    for kind in ("roc_auc", "f1"):
        with pytest.raises(ValueError, match="two labels"):
            named(kind, (0, 1, 2))
    for classes in ((0,), (0, 0)):
        with pytest.raises(ValueError, match="two different labels"):
            named("f1_macro", classes)


def test_ties_of_an_interval_are_corrected():
    rng = np.random.default_rng(0)
    y = (rng.random(20_000) < 0.3).astype(int)
    odds = rng.normal(size=20_000) + 1.5 * y
    exact = roc_auc_score(y, odds)
    ends = np.quantile(odds, np.linspace(0, 1, 7)[1:-1])
    counts = np.zeros((2, 6))
    np.add.at(counts, (y, np.searchsorted(ends, odds)), 1)
    assert abs(roc_auc(counts) - exact) < 0.002
    # Every second interval is empty: nothing orders the records of the others.
    apart = np.insert(counts, range(1, 7), 0.0, axis=1)
    assert abs(roc_auc(np.insert(apart, range(0, 12, 2), 0.0, axis=1)) - exact) > 0.008


def test_counts_of_nothing_are_worth_what_chance_is():
    nothing = np.zeros((2, 4))
    assert roc_auc(nothing) == 0.5
    assert average_precision(nothing) == 0.0
    # One positive record, in the last interval alone.
    assert average_precision(np.array([[3.0, 0, 0], [0, 0, 1.0]])) == 1.0


def test_the_grid_of_the_roc_auc_follows_from_public_facts():
    """Records times epsilon decide; no records have the fewest intervals."""
    sizes = {(0, np.inf): 24, (9_999, 4.0): 24, (10_000, 4.0): 48, (10**6, 1.0): 96}
    for facts, n_intervals in sizes.items():
        grid = log_odds_grid(*facts)
        assert len(grid) == n_intervals + 1
        assert np.all(np.diff(grid) > 0)
        assert (grid[0], grid[-1]) == (0.0, 1.0)
    assert log_odds_grid(1, np.inf) == log_odds_grid(10**6)
