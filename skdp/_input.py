"""Data as users pass it: accepted or refused once, before anything is spent.

This is all that `fit` looks at before the commit: shape, dtype, finiteness and
whether labels are declared. Messages name columns and kinds, never a value, a row
or a count, and no exception carries data along in its context.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import validate_data

DTYPES = (np.float64, np.float32)


def check_rows(estimator: Any, X: Any, *, reset: bool, accept_sparse: bool) -> Any:
    """`X` as a finite float32 or float64 array (or CSR), or an error without data.

    Parameters
    ----------
    estimator : estimator
        Its ``n_features_in_`` and ``feature_names_in_`` are set or compared.
    X : array-like or CSR of shape (n_samples, n_features)
    reset : bool
        True in ``fit``.
    accept_sparse : bool

    Returns
    -------
    ndarray or CSR of shape (n_samples, n_features)
    """
    check_numeric_columns(X)
    problem = None
    try:
        rows = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr" if accept_sparse else False,
            accept_large_sparse=True,
            dtype=DTYPES,
        )
    except (TypeError, ValueError) as error:
        problem = error
    if problem is not None:
        _raise_without_data(problem)
    if issparse(rows) and not rows.has_canonical_format:
        # Entries of one place add up; norms taken entry by entry would miss that, and
        # a row could pass the clipping with more than its share.
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def check_numeric_columns(X: Any) -> None:
    """Refuse a data frame with columns that hold no numbers, by their names."""
    dtypes = getattr(X, "dtypes", None)
    if dtypes is None or not hasattr(X, "columns"):
        return
    bad = {
        str(name): str(dtype)
        for name, dtype in zip(X.columns, dtypes, strict=True)
        if str(dtype) in ("object", "str", "category") or str(dtype)[:4] in _NOT_NUMBERS
    }
    if bad:
        kinds = sorted(set(bad.values()))
        raise ValueError(
            f"The columns of X must be numeric. Got {', '.join(kinds)} in the columns "
            f"{list(bad)}. Encode them with DeclaredOneHotEncoder, whose categories "
            "are declared and not read from the data."
        )


_NOT_NUMBERS = ("stri", "date", "time", "peri", "inte", "larg")


def _raise_without_data(problem: Exception) -> None:
    """Raise what scikit-learn's validation found, unless its text quotes a value."""
    text = str(problem)
    if "could not convert" in text or "argument must be" in text:
        raise type(problem)(
            "The X argument must be an array of numbers. Got an object or string "
            "array with an entry that is neither a string that reads as a number nor "
            "a number. Encode such columns with DeclaredOneHotEncoder."
        )
    raise type(problem)(text)
