"""The scikit-learn classes that apply a declared rule to each row separately.

One table has the exact types, with a reason for each. A listed class takes nothing from
the data in `fit` but their shape, types and column names, transforms every row without
regard to the others, and refuses no finite value (read in the source of scikit-learn
1.6 and 1.9, and tested). If this depends on the parameters of a class, its entry has a
condition, which returns its demand, or nothing if it is met.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import scipy.special
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
)
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.kernel_approximation import PolynomialCountSketch, RBFSampler
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
)
from sklearn.random_projection import (
    GaussianRandomProjection,
    SparseRandomProjection,
)
from sklearn.utils import get_tags


def _nothing(step: Any) -> str:
    return ""


def _unknown(step: Any, norm: float | None) -> float | None:
    return None


@dataclass(frozen=True)
class RowWiseRule:
    """Why a class works row by row, and what its parameters must be for it.

    `norm` is the largest norm of an output row, for input rows of at most a given norm.
    `of_users` says what else to do if the number of rows is private.
    """

    reason: str
    asks_for: Callable[[Any], str] = _nothing
    norm: Callable[[Any, float | None], float | None] = _unknown
    of_users: Callable[[Any], str] = _nothing


def _of_function(step: Any) -> str:
    if step.func is None and step.inverse_func is None:
        return ""
    if step.check_inverse and step.func is not None and step.inverse_func is not None:
        return "check_inverse=False, since the check looks at the rows"
    if _clips_to_numbers(step):
        return ""
    if step.func is not None and not _is_elementwise(step.func):
        return (
            "func=None or a function of numpy or scipy.special of one argument, since "
            "other functions cannot be checked"
        )
    return "kw_args=None" if step.kw_args else ""


def _clips_to_numbers(step: Any) -> bool:
    """Whether cells are clipped to declared numbers, without an inverse."""
    given = step.kw_args or {}
    return (
        step.func is np.clip
        and step.inverse_func is None
        and set(given) == {"a_min", "a_max"}
        and all(isinstance(end, Real) for end in given.values())
    )


def _is_elementwise(func: Any) -> bool:
    """Whether a function is a known ufunc; `frompyfunc` makes ufuncs of anything."""
    if not isinstance(func, np.ufunc) or func.nin != 1 or func.nout != 1:
        return False
    known = (getattr(home, func.__name__, None) for home in (np, scipy.special))
    return func.signature is None and any(func is other for other in known)


def _of_encoder(step: Any, handling: str) -> str:
    if isinstance(step.categories, str):
        return "declared categories"
    if step.handle_unknown != handling:
        return f"handle_unknown={handling!r}, since an error would reveal what occurs"
    if step.min_frequency is not None or step.max_categories is not None:
        return "min_frequency=None and max_categories=None, which count the data"
    return ""


def _of_one_hot(step: Any) -> str:
    missing = _of_encoder(step, "ignore")
    return missing or ("" if step.drop is None else "drop=None")


def _of_ordinal(step: Any) -> str:
    return _of_encoder(step, "use_encoded_value")


def _of_spline(step: Any) -> str:
    if isinstance(step.knots, str):
        return "declared knots"
    if step.extrapolation == "error":
        return "another extrapolation, since an error would reveal what occurs"
    return ""


def _of_imputer(step: Any) -> str:
    if step.strategy != "constant" or step.fill_value is None:
        return "strategy='constant' with a declared fill_value"
    if step.add_indicator or not step.keep_empty_features:
        return (
            "keep_empty_features=True and add_indicator=False, since otherwise the "
            "data decide which columns come out"
        )
    return ""


def _of_indicator(step: Any) -> str:
    return "" if step.features == "all" else "features='all'"


def _of_rbf(step: Any) -> str:
    return "" if isinstance(step.gamma, Real) else "a number for gamma"


def _of_words(step: Any) -> str:
    parts = (step.preprocessor, step.tokenizer, step.analyzer, step.strip_accents)
    if any(callable(part) for part in parts):
        return "no functions, since they cannot be checked"
    return "" if step.input == "content" else "input='content'"


def _of_counts(step: Any) -> str:
    return _of_words(step) if step.vocabulary is not None else "a declared vocabulary"


def _of_tfidf(step: Any) -> str:
    return "use_idf=False" if step.use_idf else ""


def _of_components(step: Any) -> str:
    if isinstance(step.n_components, str):
        return (
            "set n_components to a number: the default follows from the number of "
            "rows, which is private with privacy_unit='user'"
        )
    return ""


def _multiplies(step: Any) -> str:
    return (
        "leave it out with privacy_unit='user': it multiplies matrices, so that the "
        "number of other users' rows changes the last bits of every row"
    )


def _norm_of_function(step: Any, norm: float | None) -> float | None:
    return norm if step.func is None else None


def _norm_of_divided(step: Any, norm: float | None) -> float | None:
    """Norm of rows divided by their L1 or L2 norm; the L1 norm is the larger."""
    return 1.0 if step.norm in ("l1", "l2") else None


def _norm_of_one_hot(step: Any, norm: float | None) -> float | None:
    # The encoder's fit refuses anything else.
    is_list = isinstance(step.categories, (list, tuple, np.ndarray))
    return math.sqrt(len(step.categories)) if is_list else None


_SHAPE = "fit takes the number of columns only"
_RANDOM = "a random map, drawn from the shape of the data alone"
_CELLS = "each cell is looked up in declared categories; column types are public"

DATA_INDEPENDENT: dict[type, RowWiseRule] = {
    Binarizer: RowWiseRule("each cell is compared with a declared threshold"),
    CountVectorizer: RowWiseRule("counts words of a declared vocabulary", _of_counts),
    FeatureHasher: RowWiseRule("each row is hashed; nothing is learned"),
    FunctionTransformer: RowWiseRule(
        "a known function of each cell", _of_function, _norm_of_function
    ),
    GaussianRandomProjection: RowWiseRule(_RANDOM, of_users=_multiplies),
    HashingVectorizer: RowWiseRule(
        "each document is hashed; nothing is learned", _of_words, _norm_of_divided
    ),
    MissingIndicator: RowWiseRule(
        "says of each cell whether it is missing", _of_indicator
    ),
    Normalizer: RowWiseRule(
        "each row is divided by its own norm", norm=_norm_of_divided
    ),
    OneHotEncoder: RowWiseRule(_CELLS, _of_one_hot, _norm_of_one_hot),
    OrdinalEncoder: RowWiseRule(_CELLS, _of_ordinal),
    PolynomialCountSketch: RowWiseRule(_RANDOM),
    PolynomialFeatures: RowWiseRule(_SHAPE),
    RBFSampler: RowWiseRule(_RANDOM, _of_rbf, of_users=_multiplies),
    SimpleImputer: RowWiseRule("missing cells become a declared value", _of_imputer),
    SparseRandomProjection: RowWiseRule(_RANDOM, of_users=_of_components),
    SplineTransformer: RowWiseRule(
        "each cell is expanded at declared knots", _of_spline
    ),
    TfidfTransformer: RowWiseRule(
        "each row is scaled by itself", _of_tfidf, _norm_of_divided
    ),
}

_ALWAYS_SPARSE = (CountVectorizer, FeatureHasher, HashingVectorizer, TfidfTransformer)


def may_emit_sparse(step: Any) -> bool:
    """Whether a step's output can be sparse: always, or if its input is."""
    if isinstance(step, str):
        return step == "passthrough"
    return (
        get_tags(step).input_tags.sparse
        or type(step) in _ALWAYS_SPARSE
        or getattr(step, "sparse_output", False) is True
        or getattr(step, "sparse", False) is True
    )
