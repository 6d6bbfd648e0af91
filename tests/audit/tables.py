"""Private scores, and descriptions of tables, on the worst pairs."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone

from skdp import (
    DPConformalClassifier,
    DPConformalRegressor,
    describe,
    private_score,
    propose_ranges,
)
from skdp.audit._exact import replayed, verdict
from skdp.columns import Range
from skdp.model_selection import SCORINGS, _scores
from skdp.model_selection._scorers import resolve_scoring
from skdp.privacy.accounting._relations import adjacency_of, is_of_users
from skdp.privacy.noise._laws import law_for
from skdp.privacy.release._door import audited_by
from tests.audit.linear import BUDGETS


@contextmanager
def answered_by(noise):
    """Doors that are opened in here answer with this noise."""
    with pytest.MonkeyPatch.context() as patch, audited_by(noise):
        yield patch


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


# Of a description: other cells everywhere, values that are not declared among them.
DECLARED = {"x": Range(-1, 1), "y": Range(0, 1, missing=True), "z": ["a", "b"]}
FIRST, SECOND = (1.0, 1.0, "?"), (-1.0, 0.0, "b")
OTHERS = [(0.3, 0.2, "b"), (-0.7, math.nan, "?")]


def described(X, **facts):
    return describe(X, DECLARED, crosses=[("x", "z")], n_bins=4, cross_bins=2, **facts)


def proposed(X, **facts):
    return propose_ranges(X, ["x", "y"], **facts)


def of_a_table(call, relation, law, seeds, **bugs):
    """Smallest and largest found over charged, of a record, or of a user's rows."""
    budget, event, facts = BUDGETS[law], [], {}
    of_users, is_gone = is_of_users(relation), relation.startswith("zero_out")

    def run(own, noise):
        X = pd.DataFrame([*own, *OTHERS], columns=list(DECLARED))
        noise.absent = None
        if of_users:
            codes = [*[0] * len(own), 1, 1]
            ids = pd.Categorical.from_codes(codes, categories=[0, 1])
            facts.update(privacy_unit="user", groups=ids)
        elif own == [SECOND] and is_gone:
            noise.absent = 0
        with audited_by(noise):
            found = call(
                X,
                epsilon=budget.epsilon,
                delta=budget.delta,
                adjacency=adjacency_of(relation),
                **facts,
            )
        event.append(found.privacy_.event)
        return found.privacy_.to_json()

    pair = [FIRST], [SECOND]
    if of_users:
        pair = [FIRST] * 3, [] if is_gone else [SECOND] * 2
    found = []
    for seed in seeds:
        first, second, (one, other) = replayed(run, pair, seed, **bugs)
        assert one == other
        found.append(verdict(first, second, event[0]))
    return min(x.total for x in found), max(x.largest for x in found)


class SaysNumber(RegressorMixin, Says):
    """The same as a regressor."""


class SaysLabel(ClassifierMixin, Says):
    """The same as a classifier."""


CONFORMAL = {
    "intervals": DPConformalRegressor(SaysNumber(), target_bounds=(0, 1)),
    "sets": DPConformalClassifier(SaysLabel()),
}
# Prediction, group and target of the first record; one of no group counts as null.
CLOSE, FAR, NOWHERE = (1.0, 0.0, 1), (0.0, 1.0, 1), (0.0, 9.0, 1)


def conformal(kind, relation, law, seeds, **bugs):
    """Smallest and largest found over charged, of a record, or of a user's rows."""
    budget, event, given = BUDGETS[law], [], {}
    of_users, is_gone = is_of_users(relation), relation.startswith("zero_out")

    def run(own, noise):
        rows = np.array([*own, CLOSE, FAR])
        if of_users:
            codes = [*[0] * len(own), 1, 1]
            given["groups"] = pd.Categorical.from_codes(codes, categories=[0, 1])
        model = clone(CONFORMAL[kind]).set_params(
            split_by={1: [0.0, 1.0]},
            epsilon=budget.epsilon,
            delta=budget.delta,
            adjacency=adjacency_of(relation),
            privacy_unit="user" if of_users else "record",
        )
        with answered_by(noise) as patch:
            patch.setattr(
                _scores, "law_for", lambda *facts, adds_up: law_for(*facts, adds_up=1)
            )
            model.fit(rows[:, :2], rows[:, 2].astype(int), **given)
        event.append(model.privacy_.event)
        return model.privacy_.to_json(), model.quantile_.tolist()

    pair = [FAR], [NOWHERE if is_gone else CLOSE]
    if of_users:
        pair = [FAR] * 3, [] if is_gone else [CLOSE] * 2
    found = []
    for seed in seeds:
        first, second, (one, other) = replayed(run, pair, seed, **bugs)
        assert one == other
        found.append(verdict(first, second, event[0]))
    return min(x.total for x in found), max(x.largest for x in found)
