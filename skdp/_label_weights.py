"""Declared weights of labels: what is allowed, and how a fit uses them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from skdp._floats import FloatArray
from skdp._input import declared_labels
from skdp._validation import check_real

_LEAST, _MOST = 1e-6, 1e6


def label_weights(given: Any, classes: Any) -> tuple[float, ...]:
    """Of each class, in units of the largest; empty if all are alike."""
    weights = _weights_of(given, classes)
    largest = max(weights)
    return tuple(w / largest for w in weights) if min(weights) < largest else ()


def largest_weight(given: Any, classes: Any) -> float:
    """The unit of `label_weights`, in which penalties are divided."""
    return max(_weights_of(given, classes))


def expected_labels(declared: Any, given: Any) -> Any:
    """Before there is a y: those declared; else those of weights, and two at least."""
    if declared is not None:
        return declared_labels(declared)
    weighted = [*declared_weights(given or {})]
    return [*weighted, *[None] * (2 - len(weighted))]


def weighted_by(label_weights: tuple[float, ...]) -> FloatArray:
    """By how much weights of labels move raw predictions."""
    logs = np.log(label_weights or (1.0, 1.0))
    if len(logs) == 2:
        return np.asarray(logs[1:] - logs[:1])
    return np.asarray(logs - logs.mean())


def unweighted(raw: np.ndarray, weights: tuple[float, ...]) -> np.ndarray:
    """Log-odds of records as they are, from those of weighted ones.

    Parameters
    ----------
    raw : ndarray of shape (n_samples,) or (n_samples, n_classes)
    weights : tuple of float
        Of each class; empty: all alike.
    """
    if not weights:
        return raw
    moved = weighted_by(weights)
    return np.asarray(raw - (moved[0] if raw.ndim == 1 else moved))


def _weights_of(given: Any, classes: Any) -> list[float]:
    """Of each class, as declared.

    Parameters
    ----------
    given : mapping of labels to numbers, or None
    classes : ndarray of shape (n_classes,)
    """
    labels = classes if isinstance(classes, list) else np.asarray(classes).tolist()
    declared = {} if given is None else declared_weights(given)
    unknown = [label for label in declared if label not in labels]
    if unknown:
        raise ValueError(
            f"The 'class_weight' parameter must be of labels among {labels}. Got "
            f"{unknown}. Use labels as they are in 'classes'."
        )
    return [declared.get(label, 1.0) for label in labels]


def declared_weights(given: Any) -> dict[Any, float]:
    """Checked weights by label."""
    if not isinstance(given, Mapping):
        told = given if isinstance(given, str) else type(given).__name__
        raise ValueError(
            "The 'class_weight' parameter must be None or a mapping of labels to "
            f"numbers that are known without looking at the data. Got {told!r}. "
            "'balanced' would take its weights from how many records have each label, "
            "which is private; declare for example {'ill': 20}."
        )
    return {
        label: check_real(f"class_weight[{label!r}]", weight, low=_LEAST, high=_MOST)
        for label, weight in given.items()
    }
