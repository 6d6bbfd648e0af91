"""Small private estimators whose every number is known, so that a search takes ms."""

from __future__ import annotations

import os

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from skdp._base import PrivateEstimator
from skdp._fit import PlannedFit, Question, Statistics, fit
from skdp._input import check_rows, check_targets
from skdp.model_selection._candidates import ScoredTable
from skdp.privacy.noise._laws import Gaussian, Laplace
from skdp.privacy.release._plan import Bound

# How far one record can move the sum of entries in [-1, 1].
SENSITIVITY = {"replace_one": 2.0, "zero_out": 1.0}


class ClippedSum:
    """The sum of the first column, clipped to [-1, 1], as a query of a norm."""

    shape, family = (1,), "toy"

    def __init__(self, norm, before):
        self._norm, self._before = norm, before

    def bound(self):
        return Bound(**SENSITIVITY, norm=self._norm)

    def slack(self, layout):
        return 0.0

    def open(self, source):
        return source

    def total(self, reader, rows):
        self._before(reader.X)
        return np.array([np.clip(reader.X[:, 0], -1, 1).sum()])


class Toy(Statistics):
    """States the scale of the noise, not its deviation."""

    @property
    def params(self):
        return {}

    def run(self, answers, problem, progress, /):
        return answers.ask(problem.query)

    def noise_scale(self, released, answers, problem, /):
        return answers.noise_multiplier * SENSITIVITY[problem.adjacency]


class NoisySum(ClassifierMixin, PrivateEstimator):
    """Releases the sum of the first column, clipped to [-1, 1], with noise.

    Row (x, t) is labelled 1 if the released sum is above t, and 0 otherwise. A record
    of zeros contributes nothing, so it stands for the null record of `zero_out`.

    Parameters
    ----------
    answer : int or None, default=None
        Label that is always predicted. None: the rule above.
    """

    def __init__(
        self,
        answer=None,
        *,
        classes=(0, 1, 2),
        epsilon=1.0,
        delta=1e-6,
        adjacency="replace_one",
        random_state=None,
        ledger=None,
    ):
        self.answer = answer
        self.classes = classes
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.random_state = random_state
        self.ledger = ledger

    def fit(self, X, y):
        with self._all_or_nothing():
            budget = self._check_privacy_params()
            if self.answer is not None and self.answer not in (0, 1, 2):
                raise ValueError("The 'answer' parameter must be a label.")
            X = check_rows(self, X, reset=True, accept_sparse=False)
            check_targets(self, X, y)
            law = Gaussian() if budget.delta else Laplace()
            query = ClippedSum(law.norm, self._before_reading)
            planned = PlannedFit(
                problem=Question(query, self.adjacency, *X.shape),
                solver=Toy(law=law),
                reason="",
                label=type(self).__name__,
            )
            released = fit(self, planned, ScoredTable(X, y), self._door(budget))
            self.classes_ = np.array(self.classes)
            (self.total_,) = released.value
        return self

    def _before_reading(self, X):
        """What a broken toy does with private rows."""

    def predict(self, X):
        check_is_fitted(self)
        X = check_rows(self, X, reset=False, accept_sparse=False)
        if self.answer is not None:
            return np.full(len(X), self.answer)
        return (self.total_ > X[:, 1]).astype(int)


class Fragile(NoisySum):
    """Fails in the midst of reading, for a reason that lies in the data."""

    def _before_reading(self, X):
        if self.answer == 2:
            raise FloatingPointError(f"the third column is {X[0, 0]}")


class Interrupted(NoisySum):
    """Stands for a user who stops a search in the midst of a fit."""

    def _before_reading(self, X):
        raise KeyboardInterrupt


class Deadly(NoisySum):
    """Takes its process with it, as running out of memory does."""

    def _before_reading(self, X):
        os._exit(1)


class KnowsNothing(RegressorMixin, BaseEstimator):
    """A regressor that is fitted from the start, and predicts 0."""

    def fit(self, X, y=None):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict(self, X):
        return np.zeros(check_array(X, accept_sparse=True).shape[0])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.regressor_tags.poor_score = True
        return tags


class KnowsNoLabel(ClassifierMixin, BaseEstimator):
    """A classifier that is fitted from the start, to whom two labels are as likely."""

    classes_ = np.array([0, 1])

    def fit(self, X, y=None):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict_proba(self, X):
        return np.full((check_array(X, accept_sparse=True).shape[0], 2), 0.5)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.classifier_tags.poor_score = True
        return tags
