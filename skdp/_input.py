"""Data as users pass it: accepted or refused once, before anything is spent.

This is all that `fit` looks at before the commit: shape, dtype, finiteness and
whether labels are declared. Messages name columns and kinds, never a value, a row
or a count, and no exception carries data along in its context.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.utils import indexable
from sklearn.utils.validation import (
    check_consistent_length,
    column_or_1d,
    validate_data,
)

DTYPES = (np.float64, np.float32)

# What scikit-learn's validation may say; anything else might quote an entry.
_SAFE_MESSAGES = (
    "A source of rows",
    "A sparse matrix was passed",
    "Expected 2D array",
    "Found array with",
    "Found input variables with inconsistent",
    "Input y contains",
    "Sparse data was passed",
    "The feature names should match",
    "Unknown label type",
    "X has",
    "y should be a 1d array",
)
_BAD_SPARSE = (
    "A sparse X must have indices within its shape and one entry for each place. Got "
    "others. Call its sum_duplicates() first."
)
_ENCODE_TEXT = (
    "Encode categories with DeclaredOneHotEncoder, which reads none from the data."
)
_IMPUTE_TEXT = (
    "Fill text in with SimpleImputer(strategy='constant', fill_value=..., "
    "keep_empty_features=True), whose rule is declared, or leave it missing: "
    "DeclaredOneHotEncoder encodes that as zeros."
)
_IMPUTE_NAN = (
    "Impute with DPSimpleImputer or by a declared rule; another imputer that learns "
    "from the data is not private."
)
_NAMELESS = (
    "Pass a data frame; a step before hands one on after its "
    "set_output(transform='pandas')."
)
_CLIP_INFINITY = (
    "Clip to finite numbers by a declared rule, such as FunctionTransformer(np.clip, "
    "kw_args={'a_min': low, 'a_max': high}); no imputer fills it in."
)
_NOT_NUMBERS = (
    "category",
    "date",
    "datetime",
    "interval",
    "large_string",
    "object",
    "period",
    "str",
    "string",
    "time",
    "timedelta",
)


def check_rows(
    estimator: Any,
    X: Any,
    *,
    reset: bool,
    accept_sparse: bool,
    allow_nan: bool = False,
) -> Any:
    """`X` as a finite float32 or float64 array (or CSR), or an error without data.

    True `reset` is for ``fit``, and sets the estimator's ``n_features_in_`` and
    ``feature_names_in_``; otherwise they are compared. With `allow_nan`, NaN stands for
    a missing value.

    Returns
    -------
    ndarray or CSR of shape (n_samples, n_features)
        CSR is canonical: one entry for each place.
    """
    _check_kind(X, _IMPUTE_TEXT if allow_nan else _ENCODE_TEXT)
    if issparse(X):
        X = without_data(
            lambda: canonical_csr(X),
            _BAD_SPARSE,
        )
    rows = without_data(
        lambda: validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr" if accept_sparse else False,
            accept_large_sparse=True,
            dtype=DTYPES,
            ensure_all_finite="allow-nan" if allow_nan else True,
        ),
        "The X argument must be an array of numbers. Got an object or string array "
        "with an entry that is neither a string that reads as a number nor a number. "
        + (_IMPUTE_TEXT if allow_nan else _ENCODE_TEXT),
    )
    entries = rows.data if issparse(rows) else rows
    if allow_nan:
        if np.isinf(entries).any():
            raise ValueError(
                "The X argument must be finite or NaN. Got infinity. Mark what is "
                f"missing with NaN. {_CLIP_INFINITY}"
            )
    # A configuration can switch scikit-learn's own check off.
    elif get_config()["assume_finite"] and not np.isfinite(entries).all():
        kind = "NaN" if np.isnan(entries).any() else "infinity"
        remedy = _IMPUTE_NAN if kind == "NaN" else _CLIP_INFINITY
        raise ValueError(f"The X argument must be finite. Got {kind}. {remedy}")
    return rows


def check_targets(estimator: Any, X: Any, y: Any) -> np.ndarray:
    """`y` as finite float64 targets, as long as X, or an error without data.

    The estimator is named in the message if there are none.

    Returns
    -------
    ndarray of float64 of shape (n_samples,)
    """
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is "
            "None. Pass the targets."
        )
    y = without_data(
        lambda: _target_column(X, y),
        "The y argument must be one column of real numbers. Got something else. Fit "
        "one model for each target.",
    )
    if not np.isfinite(y).all():
        raise ValueError(
            "The y argument must be finite. Got NaN or infinity. Impute by a declared "
            "rule before fitting."
        )
    return np.asarray(y)


def check_indexable(X: Any, y: Any) -> tuple[Any, Any]:
    """X and y as rows can be taken of them: CSR if sparse, y as one column if any.

    Nothing else is asked of them, since what is fitted on the rows will do that.
    """
    if issparse(X):
        X = without_data(lambda: canonical_csr(X), _BAD_SPARSE)
    X, y = without_data(
        lambda: indexable(X, y), "The X and y arguments must be as long as each other."
    )
    if y is None or np.ma.isMaskedArray(y):
        return X, y
    return X, without_data(
        lambda: column_or_1d(y, warn=True), "The y argument must be one column."
    )


def refuse_several_targets(y: Any, meta: str) -> None:
    """Raise if `y` has several columns, which is a matter of its public shape.

    Parameters
    ----------
    y : array-like
    meta : str
        scikit-learn's class that fits one model for each target.
    """
    shape = _shape_of(y)
    if len(shape) != 2 or shape[1] < 2:
        return
    k = shape[1]
    raise ValueError(
        f"y should be a 1d array, got an array of shape {shape} instead. A model has "
        f"one target. {meta}(model) fits {k} models, one for each target, and each "
        f"spends its own epsilon and delta: together up to {k} times as much, or about "
        f"{k**0.5:.2g} times the epsilon where all noise is Gaussian. Give the model a "
        "share of the budget, and a ledger that keeps the sum."
    )


def _shape_of(y: Any) -> tuple[int, ...]:
    """What y says of its shape, or that of nested lists; () if there is none."""
    try:
        return tuple(np.shape(y) if isinstance(y, (list, tuple)) else y.shape)
    except Exception:  # ragged, or objects that raise what they like
        return ()


def _target_column(X: Any, y: Any) -> np.ndarray:
    if np.ma.isMaskedArray(y):
        raise TypeError
    y = column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    if y.dtype.kind not in "biufO":
        raise TypeError
    return np.asarray(y, dtype=np.float64)


def declared_labels(classes: Any) -> np.ndarray:
    """The labels a user declared, sorted; public, so a message may quote them."""
    try:
        labels = np.asarray(classes)
        if labels.ndim == 1 and len(labels):
            return np.unique(labels)
    except (TypeError, ValueError):
        pass
    raise ValueError(
        "The 'classes' parameter must be None or a list of labels of one kind, at "
        f"least two classes. Got {classes!r}."
    )


def canonical_csr(X: Any) -> Any:
    """CSR with sorted, unique indices within its shape; what is not so is refused.

    Each row of the result follows from that row alone. Summing duplicates would not do:
    the order of a sum, and with it every other row, would depend on whether some row
    is unsorted. Indices out of bounds would read and write foreign memory.
    """
    if X.format in ("csr", "csc"):
        # Built anew, because SciPy keeps its answers to the questions below.
        X = type(X)((X.data, X.indices, X.indptr), shape=X.shape)
        X.check_format(full_check=True)
    if X.format != "csr":
        places = X.tocoo()
        in_order = np.lexsort((places.col, places.row))
        rows, columns = places.row[in_order], places.col[in_order]
        in_shape = (0 <= rows) & (rows < X.shape[0]) & (0 <= columns)
        in_shape &= columns < X.shape[1]
        twice = (np.diff(rows) == 0) & (np.diff(columns) == 0)
        if not in_shape.all() or twice.any():
            raise ValueError
        X = places.tocsr()
    if not X.has_sorted_indices:
        X = X.copy()
        X.sort_indices()
    same = np.diff(X.indices) == 0
    same[X.indptr[1:-1][(X.indptr[1:-1] > 0) & (X.indptr[1:-1] < X.nnz)] - 1] = False
    if same.any():
        raise ValueError
    return X


def _check_kind(X: Any, remedy: str) -> None:
    """Refuse what holds no numbers by its type, naming a data frame's columns."""
    if np.ma.isMaskedArray(X):
        raise TypeError(
            "The X argument must be an array without a mask. Got a masked array, whose "
            "masked entries would be used. Impute by a declared rule."
        )
    dtype = getattr(X, "dtype", None)
    found = getattr(dtype, "kind", "")
    if found in ("c", "m", "M", "V"):
        kind = "Complex data not supported. " if found == "c" else ""
        raise ValueError(f"{kind}The X argument must be real numbers. Got {dtype}.")
    if not hasattr(X, "columns") or not hasattr(X, "dtypes"):
        return
    names = [str(dtype) for dtype in X.dtypes]
    bad = [
        str(column)
        for column, name in zip(X.columns, names, strict=True)
        if name.split("[")[0].rstrip("0123456789") in _NOT_NUMBERS or "complex" in name
    ]
    if bad:
        raise ValueError(
            f"The columns of X must be numeric. Got other kinds in the columns {bad}. "
            f"{remedy} Turn dates into numbers by a declared rule."
        )


def in_column_order(
    parameter: str, declared: Mapping[str, Any], names: Any
) -> list[Any]:
    """What a mapping declares for each column of X, which it must name exactly."""
    if names is None or set(declared) != set(names):
        got = "an array without column names" if names is None else list(names)
        raise ValueError(
            f"The {parameter!r} mapping must name exactly the columns of X. Got "
            f"{sorted(map(str, declared))} and {got}. "
            + ("Declare an entry for each column." if names is not None else _NAMELESS)
        )
    return [declared[name] for name in names]


def without_data(call: Callable[[], Any], otherwise: str) -> Any:
    """The result of a validation; its error is raised again without any entry.

    `otherwise` is said if its own text cannot be shown.
    """
    problem: Exception | None = None
    try:
        # scikit-learn's first sum may overflow, which is no reason to warn.
        with np.errstate(all="ignore"):
            return call()
    except MemoryError:
        raise
    except Exception as error:  # objects among the entries may raise what they like
        problem = error
    # Outside of the handler, so that the first error is not carried along.
    raise_without_data(problem, otherwise)


def raise_without_data(problem: Exception, otherwise: str) -> NoReturn:
    """Raise an error's own text if it is known to quote no entry, else `otherwise`."""
    text = str(problem)
    kind = TypeError if isinstance(problem, TypeError) else ValueError
    if text.startswith("Complex data not supported"):
        raise kind("Complex data not supported. Use real numbers.")
    if text.startswith("Expected 2D array"):
        first = text.partition("\n")[0].rstrip(":")
        raise kind(
            f"{first}. Reshape your data with array.reshape(-1, 1) if it has a single "
            "feature or array.reshape(1, -1) if it is a single sample."
        )
    if text.startswith("Input X contains"):
        first = text.partition("\n")[0]
        remedy = _CLIP_INFINITY if "infinity" in first else _IMPUTE_NAN
        raise kind(f"{first} {remedy}")
    if text.startswith(_SAFE_MESSAGES):
        raise kind(text)
    raise kind(otherwise)
