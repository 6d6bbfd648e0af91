"""Attribute inference: what a model and the rest of a record say of one column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.special import log_expit
from sklearn.base import is_classifier

from skdp._floats import FloatArray, IntArray
from skdp.audit._leaning import margins
from skdp.columns import Boolean, Categories
from skdp.columns._given import declaration


@dataclass(frozen=True, kw_only=True)
class AttributeInference:
    """How often a column is guessed from the rest of a record, its label and a model.

    What is guessed of non-members as well follows from what the model says of
    everybody; what is guessed of members beyond that is what it has kept of them [1]_.

    Parameters
    ----------
    column : str or int
    values : tuple
        That it may have.
    members, non_members : float in [0, 1]
        Share of records that are guessed rightly.
    most_frequent : float in [0, 1]
        Share of members with the value that is most frequent among all.

    References
    ----------
    .. [1] Yeom, Giacomelli, Fredrikson and Jha (2018). Privacy risk in machine
       learning: analyzing the connection to overfitting. CSF, Definition 5.
       https://arxiv.org/abs/1709.01604
    """

    column: Any
    values: tuple[Any, ...]
    members: float
    non_members: float
    most_frequent: float

    @property
    def advantage(self) -> float:
        """Of members minus of non-members; negative by chance."""
        return self.members - self.non_members

    def to_dict(self) -> dict[str, Any]:
        """The numbers, JSON-ready."""
        return {
            "column": self.column,
            "values": list(self.values),
            "accuracy_members": self.members,
            "accuracy_non_members": self.non_members,
            "most_frequent": self.most_frequent,
            "advantage": self.advantage,
        }


def declared_values(attribute: Any) -> tuple[Any, tuple[Any, ...]]:
    """A column, and the few values that it is declared to have."""
    if not isinstance(attribute, Mapping) or len(attribute) != 1:
        raise ValueError(
            "The 'attribute' parameter must declare one column, such as "
            "{'sex': ['Female', 'Male']}. Got "
            f"{'several' if isinstance(attribute, Mapping) else 'another type'}. "
            "Attack columns one by one."
        )
    ((column, given),) = attribute.items()
    declared = declaration(given, column)
    if isinstance(declared, Boolean):
        return column, (False, True)
    if isinstance(declared, Categories):
        return column, tuple(declared.values)
    raise ValueError(
        "The 'attribute' parameter must declare Categories or a Boolean: guesses are "
        f"of one value among few. Got {declared!r}. Divide the column into ranges."
    )


def infer_attribute(
    model: Any, X: Any, y: Any, is_member: np.ndarray, attribute: Any
) -> AttributeInference:
    """Guess a column of every record: the value that makes its label likeliest.

    Values count by how frequent they are among all records.
    """
    column, values = declared_values(attribute)
    if issparse(X):
        raise ValueError(
            "A column of a sparse matrix cannot be guessed. Got one as X. Pass an "
            "array or a data frame."
        )
    true = _codes(X, column, values)
    known = true >= 0
    shares = np.bincount(true[known], minlength=len(values)) / max(1, known.sum())
    seen = np.array([_likelihood(model, _with(X, column, v), y) for v in values])
    with np.errstate(divide="ignore"):
        guessed = np.argmax(seen + np.log(shares)[:, None], axis=0)
    is_right, frequent = guessed == true, true == np.argmax(shares)
    return AttributeInference(
        column=column,
        values=values,
        members=_share(is_right, is_member & known),
        non_members=_share(is_right, ~is_member & known),
        most_frequent=_share(frequent, is_member & known),
    )


def _share(chosen: np.ndarray, among: np.ndarray) -> float:
    return float(np.mean(chosen[among])) if among.any() else 0.0


def _codes(X: Any, column: Any, values: tuple[Any, ...]) -> IntArray:
    """Places of the cells among the values; -1 for others."""
    cells = np.asarray(X[column] if hasattr(X, "iloc") else X[:, column])
    codes = np.full(len(cells), -1, dtype=np.int64)
    for place, value in enumerate(values):
        codes[cells == value] = place
    return codes


def _with(X: Any, column: Any, value: Any) -> Any:
    if hasattr(X, "iloc"):
        changed = X.copy()
        changed[column] = np.full(len(X), value, dtype=X[column].dtype)
        return changed
    changed = X.copy()
    changed[:, column] = value
    return changed


def _likelihood(model: Any, X: Any, y: Any) -> FloatArray:
    """Log-likelihoods of the labels; residuals count as Gaussian of their own size."""
    if is_classifier(model):
        return np.asarray(log_expit(margins(model, X, y)))
    squares = (np.asarray(y, dtype=np.float64) - np.asarray(model.predict(X))) ** 2
    return np.asarray(-0.5 * squares / max(squares.mean(), np.finfo(float).tiny))
