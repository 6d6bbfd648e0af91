"""Steps that need declarations and no privacy budget."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Literal, Self, cast

import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from skdp._arrays import clip_rows
from skdp._base import DeclaredEstimator
from skdp._checks import check_bool, check_choice, check_data_norm
from skdp._input import check_rows, in_column_order, match_bounds, to_unit, without_data
from skdp.io._table import AppendsToSources, Table
from skdp.preprocessing._blocks import look_up

# ----------------------------------------------------------------- Norms of output rows


class StatesOutputNorm:
    """A step that states the largest norm of its output rows."""

    @abstractmethod
    def output_norm(self, input_norm: float | None = None) -> float | None:
        """Largest L2 norm of an output row; None if unknown."""

    # Not stored, so that fitted state of older versions also has it.
    @property
    def output_norm_(self) -> float | None:
        """Largest L2 norm of an output row, whatever comes in. Public."""
        check_is_fitted(self)
        return self.output_norm()


class BringsToNorm(StatesOutputNorm):
    """A private step that scales rows to `data_norm_`, which is inf if it does not."""

    @abstractmethod
    def _planned_norm(self) -> float:
        """The value of `data_norm_` that `fit` would set."""

    def output_norm(self, input_norm: float | None = None) -> float | None:
        """Largest L2 norm of an output row; None if there is no such bound.

        Parameters
        ----------
        input_norm : float or None, default=None
            Largest norm of an input row; not used.

        Returns
        -------
        float or None
            By the parameters before the fit, as `data_norm_` after it. Public.
        """
        norm = getattr(self, "data_norm_", None)
        norm = self._planned_norm() if norm is None else norm
        return norm if math.isfinite(norm) else None


# ------------------------------------------------------------------------ BoundedScaler


class BoundedScaler(
    AppendsToSources,
    StatesOutputNorm,
    OneToOneFeatureMixin,
    TransformerMixin,
    DeclaredEstimator,
):
    """Clip to declared bounds, centre, and scale rows to norm at most 1.

    Each feature is clipped to its bounds, moved so that their middle is 0, and divided
    by half their width times sqrt(n_features): every row comes out with L2 norm at most
    1, the default ``data_norm`` of the estimators. A feature whose values mostly lie at
    one of its bounds uses up norm without information; a logarithm before this step, or
    other bounds, may be better.

    **Privacy.** Costs nothing: the parameters are declared, and each row is transformed
    separately. `fit` uses the number and the names of the columns and nothing else. The
    null record stays null. Bounds taken from the data, such as their minimum and
    maximum, would be a leak that no later noise repairs; use prior knowledge.

    Parameters
    ----------
    %(bounds)s

    Attributes
    ----------
    low_, high_ : ndarray of shape (n_features_in_,)
        The declared bounds. Public.
    output_norm_ : float
        1.0: no output row is longer. Public.
    %(n_features_in_, feature_names_in_)s

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import BoundedScaler
    >>> X = np.array([[17.0, 1.0], [90.0, 99.0], [200.0, 50.0]])
    >>> scaler = BoundedScaler(bounds=([17, 1], [90, 99])).fit(X)
    >>> scaler.transform(X).round(3)
    array([[-0.707, -0.707],
           [ 0.707,  0.707],
           [ 0.707,  0.   ]])
    """

    def __init__(self, bounds: Any = None) -> None:
        self.bounds = bounds

    def fit(self, X: Any, y: Any = None) -> Self:
        """Match the bounds with the columns of X; reads no values.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Checked for shape, kind and finiteness.
        y : ignored

        Returns
        -------
        self
        """
        X = check_rows(self, Table.of(X).sample(), reset=True, accept_sparse=False)
        names = getattr(self, "feature_names_in_", None)
        self.low_, self.high_ = match_bounds(self.bounds, X.shape[1], names)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Rows of norm at most 1, up to rounding.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features), float32 if X is
        """
        check_is_fitted(self)
        X = check_rows(self, X, reset=False, accept_sparse=False)
        scaled = to_unit(X, self.low_, self.high_) / math.sqrt(X.shape[1])
        return scaled.astype(X.dtype)

    def output_norm(self, input_norm: float | None = None) -> float:
        """Largest L2 norm of an output row: 1.0.

        Parameters
        ----------
        input_norm : float or None, default=None
            Largest norm of an input row; not used.

        Returns
        -------
        float
            Public.
        """
        return 1.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


# ----------------------------------------------------------------------- RowNormClipper


class RowNormClipper(
    AppendsToSources,
    StatesOutputNorm,
    OneToOneFeatureMixin,
    TransformerMixin,
    DeclaredEstimator,
):
    """Scale every row down to a declared L2 norm; shorter rows stay as they are.

    The estimators clip rows themselves. This step gives clipped rows to the steps
    before an estimator, and makes rows of known norm from the columns of several
    transformers.

    **Privacy.** Costs nothing: each row is transformed separately by a fixed rule.
    The null record stays null.

    Parameters
    ----------
    data_norm : float in [1e-100, 1e100], default=1.0
        Largest norm of an output row, in units of the features.

    Attributes
    ----------
    output_norm_ : float
        `data_norm`: no output row is longer. Public.
    %(n_features_in_, feature_names_in_)s

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import RowNormClipper
    >>> RowNormClipper(data_norm=1.0).fit_transform(np.array([[3.0, 4.0], [0.3, 0.4]]))
    array([[0.6, 0.8],
           [0.3, 0.4]])
    """

    def __init__(self, data_norm: float = 1.0) -> None:
        self.data_norm = data_norm

    def fit(self, X: Any, y: Any = None) -> Self:
        """Store the number and names of the columns of X; reads no values.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self
        """
        check_data_norm(self.data_norm)
        check_rows(self, Table.of(X).sample(), reset=True, accept_sparse=True)
        return self

    def transform(self, X: Any) -> Any:
        """Rows of norm at most `data_norm`, up to rounding; CSR stays CSR.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)

        Returns
        -------
        ndarray or CSR of shape (n_samples, n_features), float32 if X is
        """
        check_is_fitted(self, "n_features_in_")
        X = check_rows(self, X, reset=False, accept_sparse=True)
        with np.errstate(all="ignore"):
            clipped = clip_rows(X, float(self.data_norm))
            return clipped.astype(X.dtype, copy=False)

    def output_norm(self, input_norm: float | None = None) -> float:
        """Largest L2 norm of an output row: `data_norm`, or what comes in.

        Parameters
        ----------
        input_norm : float or None, default=None
            Largest norm of an input row; None if unknown.

        Returns
        -------
        float
            Public.
        """
        norm = check_data_norm(self.data_norm)
        return norm if input_norm is None else min(norm, input_norm)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


# ---------------------------------------------------------------- DeclaredOneHotEncoder


class DeclaredOneHotEncoder(
    AppendsToSources, StatesOutputNorm, TransformerMixin, DeclaredEstimator
):
    """One column of zeros and ones for each declared category.

    **Privacy.** Costs nothing: categories are declared, and each row is encoded
    separately. The set of categories that *occur* is private, so a value that was not
    declared raises no error: it becomes zeros, or a one in the column of other values.
    The null record stays null.

    Parameters
    ----------
    categories : mapping, list of lists, or list
        ``{column name: [categories]}`` for every column of a data frame, one list for
        each column, or one list for all of them. Required; None raises in `fit`.
    handle_unknown : {"ignore", "other"}, default="ignore"
        Undeclared and missing values: all zeros, or one in a further column.
    sparse_output : bool, default=False
        Return CSR.

    Attributes
    ----------
    categories_ : list of ndarray
        The declared categories of each column. Public.
    output_norm_ : float
        Root of the number of columns: each has at most one 1. Public.
    %(n_features_in_, feature_names_in_)s

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import DeclaredOneHotEncoder
    >>> X = pd.DataFrame({"sex": ["Female", "Male", "?"]})
    >>> encoder = DeclaredOneHotEncoder({"sex": ["Female", "Male"]})
    >>> encoder.fit_transform(X)
    array([[1., 0.],
           [0., 1.],
           [0., 0.]])
    >>> list(encoder.get_feature_names_out())
    ['sex_Female', 'sex_Male']
    """

    def __init__(
        self,
        categories: Any = None,
        *,
        handle_unknown: Literal["ignore", "other"] = "ignore",
        sparse_output: bool = False,
    ) -> None:
        self.categories = categories
        self.handle_unknown = handle_unknown
        self.sparse_output = sparse_output

    def fit(self, X: Any, y: Any = None) -> Self:
        """Match the declared categories with the columns of X; reads no values.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self
        """
        check_choice("handle_unknown", self.handle_unknown, ("ignore", "other"))
        check_bool("sparse_output", self.sparse_output)
        self._check(Table.of(X).sample(), reset=True)
        names = getattr(self, "feature_names_in_", None)
        self.categories_ = _match_categories(
            self.categories, self.n_features_in_, names
        )
        if self.handle_unknown == "other" and any(
            "other" in categories.tolist() for categories in self.categories_
        ):
            raise ValueError(
                "With handle_unknown='other' no entry of 'categories' may be 'other'. "
                "Got one. Rename it, or use handle_unknown='ignore'."
            )
        return self

    def transform(self, X: Any) -> Any:
        """Zeros and ones.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray, or CSR array, of float64 of shape (n_samples, n_encoded_features)
        """
        check_is_fitted(self)
        X = self._check(X, reset=False)
        codes, offset = [], 0
        for column, categories in zip(X.T, self.categories_, strict=True):
            # Cell by cell: a look-up of the whole column would first find a common type
            # for it, and one record would change the encoding of all others.
            code_of = {category: i for i, category in enumerate(categories.tolist())}
            code = np.array([look_up(code_of, cell) for cell in column], dtype=int)
            if self.handle_unknown == "other":
                code = np.where(code < 0, len(categories), code)
            codes.append(np.where(code < 0, -1, code + offset))
            offset += len(categories) + (self.handle_unknown == "other")
        hot = np.column_stack(codes)
        if self.sparse_output:
            known = hot >= 0
            indptr = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
            ones = np.ones(indptr[-1])
            return csr_array((ones, hot[known], indptr), shape=(len(hot), offset))
        encoded = np.zeros((len(hot), offset))
        rows, columns = np.nonzero(hot >= 0)
        encoded[rows, hot[rows, columns]] = 1.0
        return encoded

    def output_norm(self, input_norm: float | None = None) -> float | None:
        """Largest L2 norm of an output row: root of the number of columns.

        Parameters
        ----------
        input_norm : float or None, default=None
            Largest norm of an input row; not used.

        Returns
        -------
        float or None
            None before the fit if one list is for all columns. Public.
        """
        columns = getattr(self, "categories_", None)
        if columns is None:
            columns = _lists_by_column(self.categories)
        return None if columns is None else math.sqrt(len(columns))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names ``<column>_<category>``.

        Parameters
        ----------
        input_features : array-like of str or None, default=None

        Returns
        -------
        ndarray of str objects
        """
        check_is_fitted(self)
        # The mixin checks the names; encoding adds a suffix to each of them.
        names = OneToOneFeatureMixin.get_feature_names_out(self, input_features)
        other = ["other"] if self.handle_unknown == "other" else []
        return np.array(
            [
                f"{name}_{category}"
                for name, categories in zip(names, self.categories_, strict=True)
                for category in [*categories, *other]
            ],
            dtype=object,
        )

    def _check(self, X: Any, *, reset: bool) -> Any:
        """X as an array of objects or numbers; missing values are accepted."""
        if getattr(getattr(X, "dtype", None), "kind", "") == "c":
            raise ValueError("Complex data not supported. Declare real categories.")
        if np.ma.isMaskedArray(X):
            X = cast(Any, X)  # NumPy types no masked arrays
            X = (
                X.filled(np.nan)
                if X.dtype.kind == "f"
                else X.astype(object).filled(None)
            )
        return without_data(
            lambda: validate_data(
                self, X, reset=reset, dtype=object, ensure_all_finite=False
            ),
            "The X argument must be a table of categories. Got something else.",
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        return tags


def _match_categories(categories: Any, n_features: int, names: Any) -> list[np.ndarray]:
    """The declared categories of each column, as one-dimensional arrays."""
    if isinstance(categories, Mapping):
        lists = in_column_order("categories", categories, names)
    else:
        lists = _lists_by_column(categories) or [categories] * n_features
    if len(lists) != n_features or not all(_is_declared(item) for item in lists):
        raise ValueError(
            "The 'categories' parameter must be a mapping from column names to lists, "
            f"one list for each of {n_features} columns, or one list for all, each of "
            f"distinct categories. Got {categories!r}. Declare what may occur; do not "
            "read it from the data."
        )
    return [np.asarray(item, dtype=_dtype(item)) for item in lists]


def _lists_by_column(categories: Any) -> list[Any] | None:
    """The declared list of each column; None if one list holds for all."""
    if isinstance(categories, Mapping):
        return list(categories.values())
    if _is_list(categories) and len(categories) and _is_list(categories[0]):
        return list(categories)
    return None


def _is_list(item: Any) -> bool:
    return isinstance(item, (list, tuple, np.ndarray))


def _is_declared(item: Any) -> bool:
    return _is_list(item) and len(item) > 0 and pd.Index(item).is_unique


def _dtype(item: Any) -> Any:
    return object if any(isinstance(value, str) for value in item) else None
