"""Rows, labels, label weights and bounds as users pass them, checked before a fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any, NoReturn

import numpy as np
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.utils import indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_consistent_length,
    column_or_1d,
    validate_data,
)

from skdp._arrays import FloatArray
from skdp._checks import check_real
from skdp._quiet import warn
from skdp.exceptions import PublicLabelsWarning

# ---------------------------------------------------------------- Validation of X and y
# Before the commit `fit` looks only at shape, dtype, finiteness and whether labels are
# declared. Messages name columns and kinds, never a value, a row or a count, and no
# exception has data in its context.


DTYPES = (np.float64, np.float32)

# Messages of scikit-learn's validation that may be shown; others might quote an entry.
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
    "A sparse X must have indices within its shape and at most one entry for each "
    "place. Got other indices. Call its sum_duplicates() first."
)
_ENCODE_TEXT = (
    "Encode categories with DeclaredOneHotEncoder, which takes no categories from the "
    "data."
)
_DECLARE_TEXT = (
    "Declare the columns with columns=, which also takes categories, truth values and "
    "dates; skdp.columns.template(X) makes a draft. Or encode categories with "
    "DeclaredOneHotEncoder."
)
_IMPUTE_TEXT = (
    "Fill in missing text with SimpleImputer(strategy='constant', fill_value=..., "
    "keep_empty_features=True), whose rule is declared, or leave it missing: "
    "DeclaredOneHotEncoder encodes missing text as zeros."
)
_IMPUTE_NAN = (
    "Impute with DPSimpleImputer or by a fixed rule; another imputer that learns "
    "from the data is not private."
)
_NAMELESS = (
    "Pass a data frame; an earlier step of a pipeline returns one after its "
    "set_output(transform='pandas')."
)
_CLIP_INFINITY = (
    "Clip to finite numbers by a fixed rule, such as FunctionTransformer(np.clip, "
    "kw_args={'a_min': low, 'a_max': high}); imputers do not replace infinity."
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
    """Return `X` as a finite float32 or float64 array or CSR; errors quote no data.

    ``reset=True``, for ``fit``, sets the estimator's ``n_features_in_`` and
    ``feature_names_in_``; otherwise X is compared with them. With `allow_nan`, NaN
    stands for a missing value.

    Returns
    -------
    ndarray or CSR of shape (n_samples, n_features)
        CSR is canonical: one entry for each place.
    """
    remedy = _DECLARE_TEXT if hasattr(estimator, "columns") else _ENCODE_TEXT
    remedy = _IMPUTE_TEXT if allow_nan else remedy
    refuse_path(X)
    _check_kind(X, remedy)
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
        + remedy,
    )
    entries = rows.data if issparse(rows) else rows
    if allow_nan:
        if np.isinf(entries).any():
            raise ValueError(
                "The X argument must be finite or NaN. Got infinity. Mark missing "
                f"values with NaN. {_CLIP_INFINITY}"
            )
    # A configuration can switch scikit-learn's own check off.
    elif get_config()["assume_finite"] and not np.isfinite(entries).all():
        kind = "NaN" if np.isnan(entries).any() else "infinity"
        remedy = _IMPUTE_NAN if kind == "NaN" else _CLIP_INFINITY
        raise ValueError(f"The X argument must be finite. Got {kind}. {remedy}")
    return rows


def check_targets(estimator: Any, X: Any, y: Any) -> np.ndarray:
    """Return `y` as finite float64 targets, as long as X; errors quote no data.

    If `y` is None, the message names the estimator.

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
        "The y argument must be one column of real numbers. Got something else. For "
        "labels use a classifier; fit one model for each target.",
    )
    if not np.isfinite(y).all():
        raise ValueError(
            "The y argument must be finite. Got NaN or infinity. Impute by a declared "
            "rule before fitting."
        )
    return np.asarray(y)


def check_indexable(X: Any, y: Any) -> tuple[Any, Any]:
    """X and y in a form whose rows can be indexed: CSR if sparse, y as one column.

    Everything else is checked by the estimator that is fitted to the rows.
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


def refuse_path(X: Any) -> None:
    """Raise if `X` is text, such as the name of a file, and no table."""
    if isinstance(X, (str, PathLike)):
        raise TypeError(
            "The X argument must be a data frame or an array. Got text or a path. Read "
            "the file first, for example with pd.read_csv, or pass a source of "
            "skdp.io, such as ParquetSource."
        )


def refuse_several_targets(y: Any, meta: str) -> None:
    """Raise if `y` has several columns, as its public shape says.

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
        f"{k**0.5:.2g} times the epsilon if all noise is Gaussian. Give the model a "
        "fraction of the budget, and a ledger that adds up the cost."
    )


def _shape_of(y: Any) -> tuple[int, ...]:
    """Shape of y, or of nested lists; () if it has none."""
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
    """The labels that a user declared, sorted; public, so a message may quote them."""
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
    """CSR with sorted, unique indices within its shape; other CSR is refused.

    Each row of the result must follow from the same row of X alone. Duplicates are
    therefore refused and not summed: whether some row is unsorted would change the
    order of sums, and with it all other rows. Indices out of bounds would read and
    write foreign memory.
    """
    if X.format in ("csr", "csc"):
        # A new object, because SciPy caches the results of the checks below.
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
    """Refuse an X whose type holds no numbers, and name a data frame's columns."""
    if np.ma.isMaskedArray(X):
        raise TypeError(
            "The X argument must be an array without a mask. Got a masked array, whose "
            "masked entries would be used as data. Impute them by a fixed rule."
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
            f"{remedy} Convert dates to numbers by a fixed rule."
        )


def in_column_order(
    parameter: str, declared: Mapping[str, Any], names: Any
) -> list[Any]:
    """The entries of a mapping in the order of X's columns, all of which it names."""
    if names is None or set(declared) != set(names):
        got = "an array without column names" if names is None else list(names)
        raise ValueError(
            f"The {parameter!r} mapping must name exactly the columns of X. Got "
            f"{sorted(map(str, declared))} and {got}. "
            + ("Declare an entry for each column." if names is not None else _NAMELESS)
        )
    return [declared[name] for name in names]


def without_data(call: Callable[[], Any], otherwise: str) -> Any:
    """The result of a validation; if it fails, an error that quotes no entry of X.

    The message is `otherwise` if the text of the original error might quote an entry.
    """
    problem: Exception | None = None
    try:
        # scikit-learn's first sum may overflow; a warning could depend on the data.
        with np.errstate(all="ignore"):
            return call()
    except MemoryError:
        raise
    except Exception as error:  # objects among the entries may raise what they like
        problem = error
    # Outside of the handler, so that the new error has no context with data.
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
    if text.startswith("y should be a 1d array, got an array of shape ()"):
        raise kind(f"{text} Pass the column itself, as frame.pop(name), not its name.")
    if text.startswith("Unknown label type"):
        raise kind(f"{text} Use a regressor, such as DPLinearRegression.")
    if text.startswith(_SAFE_MESSAGES):
        raise kind(text)
    raise kind(otherwise)


# --------------------------------------------------------------- Labels of a classifier
# Labels are declared, or they are taken from y and the statement calls them public.


_COUNTED_ELSEWHERE = (
    " scikit-learn's stacking, voting and out-of-fold probabilities replace labels by "
    "numbers: for these, pass y as numbers 0, 1, ... and declare these numbers."
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
    codes : ndarray of float64 of shape (n_samples,)
        Private.
    """
    name = type(model).__name__
    if y is None:
        raise ValueError(
            f"{name} requires y to be passed, but the target y is None. Pass the "
            "labels."
        )
    declared = model.classes is not None
    # Which labels occur is private if labels are declared. scikit-learn's check of y
    # could put them in a warning, so it is not called.
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
    kinds = kind_of_labels(classes), kind_of_labels(y)
    got = "other labels, which are not shown since they may be private"
    if None not in kinds and kinds[0] != kinds[1]:
        got = f"{kinds[1]} in y, and {kinds[0]} in 'classes'"
    codes = without_data(
        lambda: _codes(classes, y),
        f"The labels in y must be among those declared in 'classes'. Got {got}. "
        "Declare every label that may occur, with the same type: 1 is not '1'. Rows "
        "without a label (NaN or None) must be left out by a fixed rule."
        + ("" if _are_counted(classes) else _COUNTED_ELSEWHERE),
    )
    if not declared:
        warn(
            "The set of labels was taken from y and is assumed to be public. "
            "Pass classes=[...] to declare it.",
            PublicLabelsWarning,
        )
    return classes, codes.astype(np.float64)


def declared_alone(model: Any) -> np.ndarray:
    """The declared labels of a model that is fitted to a source."""
    name = type(model).__name__
    if model.classes is None:
        raise ValueError(
            f"{name} needs declared labels with a source, since finding the labels "
            "would be a separate release. Got classes=None. Declare all labels that "
            "may occur with classes=[...]."
        )
    classes = declared_labels(model.classes)
    if len(classes) < 2:
        raise ValueError(
            f"{name} needs at least two classes. Got 1 class. Declare all labels that "
            "may occur with classes=[...]."
        )
    return classes


def kind_of_labels(labels: np.ndarray) -> str | None:
    """Kind of labels by their dtype, which is public; None for objects."""
    if labels.dtype.kind in "biuf":
        return "numbers"
    return "text" if labels.dtype.kind in "UT" else None


def _codes(classes: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Position of each record's label among the classes."""
    codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    if not np.array_equal(classes[codes], y):
        raise ValueError
    return codes


def _are_counted(classes: np.ndarray) -> bool:
    """Whether labels, which are public here, are 0, 1, ..., n_classes - 1."""
    return np.array_equal(classes, np.arange(len(classes)))


def _label_column(X: Any, y: Any, *, ask_for_kind: bool) -> np.ndarray:
    """`y` as one column, as long as X has rows."""
    y = column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    if ask_for_kind:
        check_classification_targets(y)
    return np.asarray(y)


# -------------------------------------------------------------------- Weights of labels


_LEAST, _MOST = 1e-6, 1e6


def label_weights(given: Any, classes: Any) -> tuple[float, ...]:
    """Weight of each class, as a fraction of the largest; empty if all are equal."""
    weights = _weights_of(given, classes)
    largest = max(weights)
    return tuple(w / largest for w in weights) if min(weights) < largest else ()


def largest_weight(given: Any, classes: Any) -> float:
    """The largest weight, by which `label_weights` and penalties are divided."""
    return max(_weights_of(given, classes))


def expected_labels(declared: Any, given: Any) -> Any:
    """Labels for a forecast without y: declared or weighted labels, or two labels."""
    if declared is not None:
        return declared_labels(declared)
    weighted = [*declared_weights(given or {})]
    return [*weighted, *[None] * (2 - len(weighted))]


def weighted_by(label_weights: tuple[float, ...]) -> FloatArray:
    """Amount by which the weights of labels shift raw predictions."""
    logs = np.log(label_weights or (1.0, 1.0))
    if len(logs) == 2:
        return np.asarray(logs[1:] - logs[:1])
    return np.asarray(logs - logs.mean())


def unweighted(raw: np.ndarray, weights: tuple[float, ...]) -> np.ndarray:
    """Log-odds without weights of labels, from weighted log-odds.

    Parameters
    ----------
    raw : ndarray of shape (n_samples,) or (n_samples, n_classes)
    weights : tuple of float
        Weight of each class; empty: equal weights.
    """
    if not weights:
        return raw
    moved = weighted_by(weights)
    return np.asarray(raw - (moved[0] if raw.ndim == 1 else moved))


def _weights_of(given: Any, classes: Any) -> list[float]:
    """Declared weight of each class.

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
            f"The keys of the 'class_weight' parameter must be among {labels}. Got "
            f"{unknown}. Use the labels of 'classes'."
        )
    return [declared.get(label, 1.0) for label in labels]


def declared_weights(given: Any) -> dict[Any, float]:
    """Checked weights by label."""
    if not isinstance(given, Mapping):
        told = given if isinstance(given, str) else type(given).__name__
        raise ValueError(
            "The 'class_weight' parameter must be None or a mapping of labels to "
            f"numbers that are known without looking at the data. Got {told!r}. "
            "'balanced' would compute weights from the number of records with each "
            "label, which is private. Declare weights, for example {'ill': 20}."
        )
    return {
        label: check_real(f"class_weight[{label!r}]", weight, low=_LEAST, high=_MOST)
        for label, weight in given.items()
    }


# ------------------------------------------------------------------- Bounds of features


def middle_and_half(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Middle and half width of bounds, which may be close or far apart."""
    return low / 2 + high / 2, high / 2 - low / 2


def to_unit(X: np.ndarray, low: FloatArray, high: FloatArray) -> FloatArray:
    """X clipped to its bounds and moved to [-1, 1], in double precision; NaN stays."""
    middle, half = middle_and_half(low, high)
    with np.errstate(all="ignore"):
        return np.asarray(np.clip((np.clip(X, low, high) - middle) / half, -1.0, 1.0))


def match_bounds(
    bounds: Any, n_features: int, names: Any
) -> tuple[FloatArray, FloatArray]:
    """Lower and upper bound of each column."""
    pairs = None
    _refuse_order_of_scipy(bounds)
    if isinstance(bounds, Mapping):
        pairs = in_column_order("bounds", bounds, names)
    try:
        if pairs is not None:
            bounds = tuple(zip(*((low, high) for low, high in pairs), strict=True))
        low, high = (
            np.broadcast_to(np.asarray(side, dtype=np.float64), (n_features,))
            for side in bounds
        )
        half = high / 2 - low / 2
        is_valid = bool(np.all(np.isfinite(low) & np.isfinite(high) & (half > 0)))
    except (TypeError, ValueError):
        is_valid = False
    if not is_valid:
        raise ValueError(
            "The 'bounds' parameter must be a pair (low, high) of finite numbers or "
            f"of {n_features} finite numbers each, with low < high, or a mapping from "
            f"column names to pairs. Got {bounds!r}. Use bounds that are known "
            "beforehand, never the minimum and maximum of the data."
        )
    return low.copy(), high.copy()


def _refuse_order_of_scipy(bounds: Any) -> None:
    """Raise for a list of pairs, which in SciPy means one pair for each column.

    With two columns the list could be read either way, and wrong bounds would not raise
    an error.
    """
    if not isinstance(bounds, list) or not bounds:
        return
    if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in bounds):
        return
    low, high = ([pair[side] for pair in bounds] for side in (0, 1))
    raise ValueError(
        "The 'bounds' parameter must be a pair (low, high), or a mapping from column "
        f"names to pairs. Got a list of pairs, {bounds!r}. If they are one pair for "
        f"each column, as in SciPy, pass ({low!r}, {high!r}); if not, pass a tuple of "
        "two lists."
    )
