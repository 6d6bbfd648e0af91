"""Scores of several models on the same records: bounds in three norms, and twins."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from skdp.model_selection import resolve_scoring
from skdp.model_selection._candidates import ScoredTable
from skdp.privacy.noise._laws import Gaussian, Laplace
from skdp.privacy.noise._noise import NoiseSource
from skdp.privacy.release._answers import Grant, LocalAnswers
from skdp.privacy.release._plan import Line, Plan
from skdp.sums._record_sums import Scores

NORMS = (1, 2, math.inf)
RECORDS = [(0, 0), (1, 0), (0, 1), (1, 1)]


class Says(BaseEstimator):
    """Predicts a column of the row."""

    classes_ = np.array([0, 1])

    def __init__(self, column=0):
        self.column = column

    def fit(self, X, y):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict(self, X):
        return X[:, self.column]


MODELS = (Says(0), Says(1), Says(0))


def scores_of(models, norm):
    return Scores(resolve_scoring("accuracy", Says(), classes=[0, 1]), models, norm)


def exact(query, records, y):
    table = ScoredTable(np.array(records), np.array(y))
    return query.total(query.open(table), None)


def farthest(models, norm, adjacency):
    """Over all neighbours of one record among three."""
    query, rest = scores_of(models, norm), [(1, 1), (0, 1)]
    sums = {
        (row, label): exact(query, [row, *rest], [label, 0, 1])
        for row in RECORDS
        for label in (0, 1)
    }
    others = list(sums.values())
    if adjacency == "zero_out":  # without the record
        others = [exact(query, rest, [0, 1])]
    return max(
        float(np.linalg.norm(a - b, ord=norm)) for a in sums.values() for b in others
    )


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("count", [1, 3])
def test_bounds_are_attained_and_never_exceeded(adjacency, norm, count):
    models = MODELS[:count]
    stated = scores_of(models, norm).bound()
    found = farthest(models, norm, adjacency)
    assert found == pytest.approx(stated.under(adjacency))
    assert stated.rating_value == stated.replace_one


@pytest.mark.parametrize("norm", [1, 2])
def test_broken_twin_with_one_models_bound_for_several_is_found_out(norm):
    alone = scores_of(MODELS[:1], norm).bound().under("replace_one")
    assert farthest(MODELS, norm, "replace_one") > 1.01 * alone


def test_broken_twin_with_the_bound_of_each_one_for_noise_is_refused():
    """It would hide one model's score, and not that of all of them."""
    table, relation = ScoredTable(np.array(RECORDS), np.zeros(4)), "replace_one"
    for law in (Laplace(), Gaussian()):
        plan = Plan((Line(2, law=law),))
        grant = Grant(plan.event(1.0, relation), 1.0, relation)
        answers = LocalAnswers(plan, table, grant, NoiseSource(0))
        assert answers.ask(scores_of(MODELS, law.norm)).value.shape == (3,)
        with pytest.raises(TypeError, match="Nothing was read"):
            answers.ask(scores_of(MODELS, math.inf))
