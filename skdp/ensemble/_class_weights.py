"""Declared weights of labels: what is allowed, and how a fit uses them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from skdp._validation import check_real

_LEAST, _MOST = 1e-6, 1e6


def label_weights(given: Any, classes: Any) -> tuple[float, ...]:
    """Of each class, in units of the largest; empty if all are alike.

    Parameters
    ----------
    given : mapping of labels to numbers, or None
    classes : ndarray of shape (n_classes,)
    """
    if given is None:
        return ()
    declared = declared_weights(given)
    labels = np.asarray(classes).tolist()
    unknown = [label for label in declared if label not in labels]
    if unknown:
        raise ValueError(
            f"The 'class_weight' parameter must be of labels among {labels}. Got "
            f"{unknown}. Use labels as they are in 'classes'."
        )
    weights = [declared.get(label, 1.0) for label in labels]
    if len(set(weights)) == 1:
        return ()
    return tuple(weight / max(weights) for weight in weights)


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
