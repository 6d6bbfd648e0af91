"""Scores of classifiers with bounded sensitivity."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp._floats import FloatArray
from skdp._validation import check_real
from skdp.model_selection._scoring_base import (
    MeanLoss,
    PrivateScoring,
    PublicFacts,
    column,
)
from skdp.privacy._adjacency import Adjacency


class _Hits(PrivateScoring):
    """Scores that follow from which records are labelled right."""

    task = "classification"
    _worst = 0.0

    @property
    def lowest(self) -> float:
        return 0.0

    def _quality(self, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
        predicted = column(estimator.predict(X), len(y))
        return np.broadcast_to(predicted == y, y.shape).astype(np.float64)


@dataclass(frozen=True)
class Accuracy(_Hits):
    """Fraction of the records that are labelled right."""

    name = "accuracy"
    is_single = True

    @classmethod
    def of(cls, facts: PublicFacts) -> Self:
        return cls()

    def sensitivity(self, adjacency: Adjacency, norm: int) -> float:
        return {"replace_one": 1.0, "zero_out": 1.0}[adjacency]

    def score(self, statistic: FloatArray, n_samples: int) -> float:
        return float(np.clip(statistic[0] / n_samples, 0.0, 1.0))


@dataclass(frozen=True)
class BalancedAccuracy(_Hits):
    """Mean over the classes of the fraction of its records that are labelled right.

    The statistic counts, for each class, the records labelled right and the others.
    Classes with less than half a record in these (released) counts are left out, as
    scikit-learn leaves out those that do not occur.

    Parameters
    ----------
    classes : tuple
        The labels, each once. Public.
    """

    name = "balanced_accuracy"
    is_single = False

    classes: tuple[Any, ...]

    def __post_init__(self) -> None:
        if len(set(self.classes)) < len(self.classes):
            raise ValueError(
                "The 'classes' parameter must hold different labels. Got one twice. "
                "Declare each label once."
            )

    @classmethod
    def of(cls, facts: PublicFacts) -> Self:
        if facts.classes is None:
            raise ValueError(
                "scoring='balanced_accuracy' needs the set of labels. Got none. Pass "
                "classes=[...]."
            )
        return cls(facts.classes)

    @property
    def size(self) -> int:
        return 2 * len(self.classes)

    @property
    def n_nonzero(self) -> int:
        return 1

    def sensitivity(self, adjacency: Adjacency, norm: int) -> float:
        return {
            ("replace_one", 1): 2.0,
            ("replace_one", 2): math.sqrt(2) * (1 + 1e-12),
            ("zero_out", 1): 1.0,
            ("zero_out", 2): 1.0,
        }[adjacency, norm]

    def score(self, statistic: FloatArray, n_samples: int) -> float:
        right, wrong = np.maximum(np.reshape(statistic, (2, -1)), 0.0)
        occurs = right + wrong >= 0.5
        if not occurs.any():
            return self.lowest
        return float(np.mean(right[occurs] / (right + wrong)[occurs]))

    def _spread(self, quality: FloatArray, y: NDArray[Any]) -> FloatArray:
        of_class, right = _one_hot(y, self.classes), quality[:, None]
        return np.hstack([of_class * right, of_class * (1 - right)])


@dataclass(frozen=True)
class NegLogLoss(MeanLoss):
    """Minus the mean logarithmic loss, with probabilities raised to `floor`.

    The statistic is minus the sum of the losses in units of the largest,
    ``log(1 / floor)``.

    Parameters
    ----------
    floor : float in [1e-12, 0.5], default=0.01
        Lower bound on the probability of the true label. Public.
    """

    name = "neg_log_loss"
    task = "classification"
    method = "predict_proba"

    floor: float = 0.01

    def __post_init__(self) -> None:
        floor = check_real("floor", self.floor, low=1e-12, high=0.5)
        object.__setattr__(self, "floor", floor)

    @classmethod
    def of(cls, facts: PublicFacts) -> Self:
        return cls()

    @property
    def lowest(self) -> float:
        return math.log(self.floor)

    def _quality(self, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
        proba = np.asarray(estimator.predict_proba(X), dtype=np.float64)
        is_label = _one_hot(y, tuple(estimator.classes_)) > 0
        if proba.shape != is_label.shape:
            raise ValueError
        # NaN, and a label that the estimator does not know, are the worst.
        p = np.nan_to_num(np.where(is_label, proba, 0.0).sum(axis=1), posinf=0.0)
        loss = np.log(np.clip(p, self.floor, 1.0)) / self.lowest
        return -np.asarray(np.clip(loss, 0.0, 1.0))


def _one_hot(y: NDArray[Any], classes: tuple[Any, ...]) -> FloatArray:
    """Which label each record has: zeros for a label that is not among the classes.

    One at most: different labels may be equal in the precision of `y`.
    """
    if y.dtype == object:  # whose comparison may raise, for one record
        code_of = {label: code for code, label in enumerate(classes)}
        codes = np.array([_code(code_of, label) for label in y], dtype=np.int64)
        hits = codes[:, None] == np.arange(len(classes))
        return np.asarray(hits, dtype=np.float64)
    found = np.column_stack([np.broadcast_to(y == label, y.shape) for label in classes])
    is_first = np.cumsum(found, axis=1) == 1
    return np.asarray(found & is_first, dtype=np.float64)


def _code(code_of: dict[Any, int], label: Any) -> int:
    """Position of a label among the classes, -1 if it is none of them."""
    try:
        return code_of.get(label, -1)
    except Exception:
        return -1
