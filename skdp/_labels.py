"""Labels of a classifier: declared, or taken from y and said to be public."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from skdp._input import declared_labels, refuse_several_targets, without_data
from skdp._quiet import warn
from skdp.exceptions import PublicLabelsWarning

_COUNTED_ELSEWHERE = (
    " scikit-learn's stacking, voting and out-of-fold probabilities number the labels: "
    "for them pass y as numbers 0, 1, ... and declare these."
)


def encode_labels(model: Any, X: Any, y: Any) -> tuple[np.ndarray, Any]:
    """The public labels of a model, sorted, and the index of each record's label.

    Parameters
    ----------
    model : estimator
        Its `classes` are the declared labels, or None.
    X : array-like of n_samples rows
    y : array-like of shape (n_samples,)
        Private.

    Returns
    -------
    classes : ndarray of shape (n_classes,)
    codes : ndarray of float64 of shape (n_samples,), or Labels
        Private. Of a source they are read when its rows are.
    """
    name = type(model).__name__
    if hasattr(X, "table"):
        return _declared_alone(model, name), X.labels(declared_labels(model.classes))
    if y is None:
        raise ValueError(
            f"{name} requires y to be passed, but the target y is None. Pass the "
            "labels."
        )
    declared = model.classes is not None
    # Which labels occur is private if they are declared: then nothing of
    # scikit-learn's opinion on y, which it may put in a warning, is asked for.
    refuse_several_targets(y, "MultiOutputClassifier")
    y = without_data(
        lambda: _label_column(X, y, ask_for_kind=not declared),
        "The y argument must be a column of labels. Got something else.",
    )
    classes = declared_labels(model.classes) if declared else np.unique(y)
    if len(classes) < 2:
        raise ValueError(
            f"{name} needs at least two classes. Got 1 class. Declare all labels that "
            "may occur with classes=[...]."
        )
    codes = without_data(
        lambda: _codes(classes, y),
        "The labels in y must be among those declared in 'classes'. Got others. "
        "Declare every label that may occur, of the same kind: 1 is not '1'."
        + ("" if _are_counted(classes) else _COUNTED_ELSEWHERE),
    )
    if not declared:
        warn(
            "The set of labels was taken from y and is assumed to be public. "
            "Pass classes=[...] to declare it.",
            PublicLabelsWarning,
        )
    return classes, codes.astype(np.float64)


def _declared_alone(model: Any, name: str) -> np.ndarray:
    """The declared labels of a model of a source, which has no others."""
    if model.classes is None:
        raise ValueError(
            f"{name} needs declared labels with a source, since finding them would be "
            "a release of its own. Got classes=None. Declare them with classes=[...]."
        )
    classes = declared_labels(model.classes)
    if len(classes) < 2:
        raise ValueError(
            f"{name} needs at least two classes. Got 1 class. Declare all labels that "
            "may occur with classes=[...]."
        )
    return classes


def _codes(classes: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Position of each record's label among the classes."""
    codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    if not np.array_equal(classes[codes], y):
        raise ValueError
    return codes


def _are_counted(classes: np.ndarray) -> bool:
    """Whether labels, which are public here, are 0, 1, ... up to their number."""
    return np.array_equal(classes, np.arange(len(classes)))


def _label_column(X: Any, y: Any, *, ask_for_kind: bool) -> np.ndarray:
    """`y` as one column, as long as X has rows."""
    y = column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    if ask_for_kind:
        check_classification_targets(y)
    return np.asarray(y)
