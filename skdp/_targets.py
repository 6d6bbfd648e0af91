"""Targets of a regression, of records in memory or of a source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skdp._floats import FloatArray
from skdp._input import check_targets
from skdp.io._rows import check_kind
from skdp.io._targets import Numbers


def targets_of(
    model: Any, X: Any, y: Any, then: Callable[[FloatArray], FloatArray]
) -> Any:
    """Finite targets, changed number by number by a public rule.

    Parameters
    ----------
    model : estimator
    X : rows as the model reads them
    y : array-like of shape (n_samples,), or None of a source
        Private.
    then : callable

    Returns
    -------
    ndarray of float64 of shape (n_samples,), or Numbers
        What of a source is read when its rows are.
    """
    if not hasattr(X, "table"):
        return then(check_targets(model, X, y))
    check_kind(X.table, "number", "The targets of a regression")
    return Numbers(then)
