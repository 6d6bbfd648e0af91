"""Private transformers and scores on the worst pairs of records."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from skdp import (
    DPPCA,
    DPQuantileClipper,
    DPSimpleImputer,
    DPStandardScaler,
    private_score,
)
from skdp.audit._exact import replayed, verdict
from skdp.io import _table
from skdp.model_selection import SCORINGS, _scores
from skdp.model_selection._scorers import resolve_scoring
from skdp.privacy.noise._laws import law_for
from skdp.privacy.release._door import audited_by
from skdp.tables._memory import MemorySource
from tests.audit.linear import BUDGETS

# What the first record is in the two data sets.
TRANSFORMERS = {
    "DPStandardScaler": (DPStandardScaler, {"bounds": (-2, 2)}, [2, 2], [-2, -2]),
    "DPQuantileClipper": (
        DPQuantileClipper,
        {"bounds": (-2, 2), "n_steps": 3},
        [-9, 9],
        [9, -9],
    ),
    "DPSimpleImputer": (DPSimpleImputer, {"bounds": (0, 4)}, [4, 0], [math.nan, 4]),
    # Lemma 2 of moments at t = 1/2, k = 0: cosine -t^2.
    "DPPCA": (DPPCA, {"data_norm": 3.0}, [3, 0], [-0.75, 3 * math.sqrt(1 - 0.25**2)]),
}


@contextmanager
def answered_by(noise):
    """Doors that are opened in here answer with this noise."""
    with pytest.MonkeyPatch.context() as patch, audited_by(noise):
        yield patch


def transformer(name, adjacency, law, seeds, **bugs):
    """Smallest and largest found over charged."""
    kind, params, first, second = TRANSFORMERS[name]
    budget = BUDGETS[law]
    facts = {"epsilon": budget.epsilon, "delta": budget.delta, "adjacency": adjacency}
    event = []

    def run(record, noise):
        X = np.array([second if record is None else record, [0.7, 0.3]], dtype=float)
        there = np.array([record is not None, True])
        with answered_by(noise) as patch:
            patch.setattr(
                _table, "MemorySource", lambda X, y: MemorySource(X, y, there)
            )
            fitted = kind(**facts, **params).fit(X)
        event.append(fitted.privacy_.event)

    pair = (first, None) if adjacency == "zero_out" else (first, second)
    found = []
    for seed in seeds:
        one, other, _ = replayed(run, pair, seed, **bugs)
        found.append(verdict(one, other, event[0]))
    return min(x.total for x in found), max(x.largest for x in found)


class Says(BaseEstimator):
    """Predicts what stands in the first column."""

    classes_ = np.array([0, 1])

    def fit(self, X, y):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict(self, X):
        return X[:, 0]

    def predict_proba(self, X):
        return np.column_stack([1 - X[:, 0], X[:, 0]])


# The first record (prediction, target) of two neighbouring data sets, targets in
# [0, 1]; the null record is written as the one that contributes zeros.
SCORE_PAIRS = {
    "accuracy": ((1, 1), (0, 1)),
    "balanced_accuracy": ((1, 1), (0, 0)),
    "neg_log_loss": ((1, 1), (0, 1)),
    "roc_auc": ((1, 1), (0, 1)),
    "f1": ((1, 1), (0, 1)),
    "f1_macro": ((1, 1), (0, 0)),
    "neg_mean_absolute_error": ((0, 1), (1, 1)),
    "neg_mean_squared_error": ((0, 1), (1, 1)),
    "neg_mean_pinball_loss": ((0, 1), (1, 1)),
    "neg_mean_poisson_deviance": ((0, 1), (1, 1)),
    "neg_mean_gamma_deviance": ((0, 1), (1, 1)),
    "r2": ((0, 1), (0, 0)),
}
# Under zero_out the record that contributes the most.
LARGEST = {"neg_log_loss": (0, 1)}


FACTS = {"classes": [0, 1], "target_bounds": (0, 1)}


def scorer_of(scoring):
    return resolve_scoring(scoring, Says(), **FACTS)


def score(scoring, adjacency, law, seeds, **bugs):
    """Smallest and largest found over charged: there is one answer."""
    budget, event = BUDGETS[law], []
    beside_fits = partial(law_for, adds_up=True)

    def run(record, noise):
        records = np.array([record, (1, 1), (0, 0), (0, 1)], dtype=float)
        if SCORINGS[scoring].task == "classification":
            records = records.astype(int)
        with answered_by(noise) as patch:
            # As beside a ledger's Gaussian fits, if delta allows it.
            patch.setattr(
                _scores, "law_for", lambda *facts, adds_up: beside_fits(*facts)
            )
            result = private_score(
                Says(),
                records[:, :1],
                records[:, 1],
                scoring=scoring,
                epsilon=budget.epsilon,
                delta=budget.delta,
                adjacency=adjacency,
                **FACTS,
            )
        event.append(result.privacy.event)
        return records

    first, second = SCORE_PAIRS[scoring]
    if adjacency == "zero_out":
        first = second = LARGEST.get(scoring, first)
    found = []
    for seed in seeds:
        one, other, (records, _) = replayed(run, (first, second), seed, **bugs)
        if adjacency == "zero_out":  # without what stands in the null record's place
            scorer = scorer_of(scoring)
            row = scorer.contributions(Says(), records[:1, :1], records[:1, 1])
            other = [replace(other[0], query=other[0].query - row[0])]
        found.append(verdict(one, other, event[0]))
    return min(x.total for x in found), max(x.largest for x in found)
