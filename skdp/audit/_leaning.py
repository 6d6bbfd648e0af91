"""How far a model leans towards the labels of some rows: what attacks look at."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier

from skdp._floats import FloatArray

# Added to probabilities: a forest's 0 and 1 are a few votes away from others, and with
# log-odds far beyond those of the rest they would hide all else (settled on forests of
# breast_cancer with noisy labels).
_LEAST_PROBABILITY = 1e-3


def margins(model: Any, X: Any, y: Any) -> FloatArray:
    """Of a classifier: by how much the scores of the labels `y` exceed the others'.

    Differences of its decision function; log-odds if it has probabilities only; 1 or
    -1 if it has predictions only.

    Returns
    -------
    ndarray of shape (n_rows,)
    """
    y = np.asarray(y)
    if hasattr(model, "decision_function"):
        scores = np.asarray(model.decision_function(X), dtype=np.float64)
        if scores.ndim == 1:
            return np.asarray(np.where(y == model.classes_[1], scores, -scores))
        return _lead(scores, y, model.classes_)
    if not hasattr(model, "predict_proba"):
        return np.where(np.asarray(model.predict(X)) == y, 1.0, -1.0)
    chances = np.asarray(model.predict_proba(X), dtype=np.float64)
    own, others = _apart(chances, y, model.classes_)
    odds = (own + _LEAST_PROBABILITY) / (others.sum(axis=1) + _LEAST_PROBABILITY)
    return np.asarray(np.log(odds))


def _apart(scores: FloatArray, y: Any, classes: Any) -> tuple[FloatArray, FloatArray]:
    """Scores of the labels, and of all others, with 0 in the labels' places."""
    is_own = y[:, None] == np.asarray(classes)[None, :]
    own = np.where(is_own, scores, 0.0).sum(axis=1)
    return own, np.where(is_own, 0.0, scores)


def _lead(scores: FloatArray, y: Any, classes: Any) -> FloatArray:
    is_own = y[:, None] == np.asarray(classes)[None, :]
    # A label that the model has never seen leads by nothing: it has the least score.
    least = scores.min(axis=1)
    own = np.where(is_own.any(axis=1), _apart(scores, y, classes)[0], least)
    return np.asarray(own - np.where(is_own, -np.inf, scores).max(axis=1))


def leaning(model: Any, X: Any, y: Any, centre: float = 0.0) -> FloatArray:
    """Margins of a classifier; of others, predictions times targets from a centre.

    Returns
    -------
    ndarray of shape (n_rows,)
        In units of scores, or of targets squared.
    """
    if is_classifier(model):
        return margins(model, X, y)
    away = np.asarray(y, dtype=np.float64) - centre
    return away * np.asarray(model.predict(X), dtype=np.float64)
