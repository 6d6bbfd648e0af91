"""Ratings, ids and factors, and the protocol of a factoriser."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from types import TracebackType
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import validate_data

from skdp._input import without_data
from skdp._quiet import no_warnings
from skdp.privacy.accounting._relations import Unit
from skdp.tables._source import Facts, Records

# ---------------------------------------- Pattern and Ratings: codes of ids, and values
# They are apart because with ``privacy_unit="rating_value"`` the pattern is public and
# the values are private.


IntArray = NDArray[np.int32]


@dataclass(frozen=True)
class Order:
    """The pairs sorted by one of their ids; the sort is stable.

    Id j has the entries ``starts[j]`` to ``starts[j + 1]`` of `pairs`, the int32
    positions of its pairs, and of `others`, the int32 other id of each pair. `starts`
    are int64, one more than there are ids.
    """

    starts: NDArray[np.int64]
    pairs: IntArray
    others: IntArray

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of pairs of each id, of shape (n_ids,)."""
        return np.diff(self.starts)


@dataclass(frozen=True, eq=False)
class Pattern:
    """The pairs of a user and an item with a rating; each pair once.

    `users` and `items` are int32 codes from 0, of shape (n_ratings,); `n_users` and
    `n_items` count the known ids, with or without a rating.
    """

    users: IntArray
    items: IntArray
    n_users: int
    n_items: int

    def __len__(self) -> int:
        return len(self.users)

    @cached_property
    def by_user(self) -> Order:
        """The pairs user by user, each user's in the order of items."""
        return _order(self.users, self.items, self.n_users)

    @cached_property
    def by_item(self) -> Order:
        """The pairs item by item, each item's in the order of users."""
        return _order(self.items, self.users, self.n_items)


@dataclass(frozen=True, eq=False)
class Ratings:
    """Pairs with their values.

    `values`, float32 or float64 of shape (n_ratings,), are in units of the ratings.
    Their dtype is that of all computation.
    """

    pattern: Pattern
    values: NDArray[Any]

    def __len__(self) -> int:
        return len(self.values)


def _order(ids: IntArray, others: IntArray, n_ids: int) -> Order:
    pairs = np.lexsort((others, ids)).astype(np.int32)
    starts = np.zeros(n_ids + 1, dtype=np.int64)
    np.cumsum(np.bincount(ids, minlength=n_ids), out=starts[1:])
    return Order(starts, pairs, np.ascontiguousarray(others[pairs]))


# --------------------------------------------------------------- Ids of users and items
# An id is any hashable value.


FROM_TABLE = "Use X, y = pairs_from_sparse(R) for a table R of users by items."
_WIDTH = (
    "The X argument must have two columns: the id of a user and the id of an item, a "
    f"row for each rating. Got another shape. {FROM_TABLE}"
)
_BAD_IDS = (
    "The ids of the {} must be hashable and not missing. Got others. Leave out rows "
    "without an id."
)
_ROUNDED = (
    "The ids of the {} must not be floats so large that they may stand for several "
    "integers, from 2**53 on in double precision. Got one. Give integers or texts."
)
_NO_TEXT = (
    "The ids of the {} must be numbers, texts, dates, or other objects that have a "
    "text. Got one whose text is its place in memory. Give integers or texts."
)


@dataclass(frozen=True, eq=False)
class Ids:
    """The known ids of one kind, in the order of their codes.

    `values`, of shape (n_ids,), are distinct.
    """

    kind: str
    values: NDArray[Any]

    def __len__(self) -> int:
        return len(self.values)

    def codes(self, column: Any) -> IntArray:
        """The code of each id, -1 if it is not known, of shape of `column`.

        Raises `TypeError` or `ValueError` if an id is no id, or is of a kind that no
        known id has.
        """
        column = _as_column(column, self.kind)
        # Every row is judged alone, because private scores rely on it.
        strange = _kinds(column) - _kinds(self.values)
        if len(self.values) and strange:
            asked = "texts" if True in strange else "numbers"
            raise TypeError(
                f"The ids of the {self.kind} must be of the kind that fit got. Got "
                f"{asked} for ids of another kind. Convert them as before."
            )
        found = without_data(
            lambda: _places(self.values, column), _BAD_IDS.format(self.kind)
        )
        return np.asarray(found, dtype=np.int32)

    def texts(self) -> list[str]:
        """A text of each id; 5 and 5.0 have the same text, in any array.

        Raises `TypeError` or `ValueError` if an id's only text is its address in
        memory, which other data may decide.
        """
        found: list[str] = without_data(
            lambda: [_text(value) for value in _objects_of(self.values)],
            _NO_TEXT.format(self.kind),
        )
        return found


def found_ids(column: Any, kind: str) -> tuple[Ids, IntArray]:
    """The ids in a column, sorted if they can be, and the codes of the column.

    Whether two rows have the same id follows from these two ids alone.
    """
    column = _as_column(column, kind)
    # Some kinds of ids warn when compared, which would reveal that somebody has one.
    with no_warnings():
        values, codes = without_data(lambda: _distinct(column), _BAD_IDS.format(kind))
    return Ids(kind, values), codes.astype(np.int32)


def declared_ids(parameter: str, values: Any, kind: str) -> Ids:
    """The ids a user declared; public, each once, in their order."""
    rule = (
        f"The {parameter!r} parameter must be a list of different ids. Got {{}}. "
        "Declare each id once."
    )
    if values is None or isinstance(values, str) or not hasattr(values, "__len__"):
        raise TypeError(rule.format(f"an instance of {type(values).__name__}"))
    column = _as_column(values, kind)
    if not len(column) or len(found_ids(column, kind)[0]) < len(column):
        raise ValueError(rule.format("none" if not len(column) else "one id twice"))
    return Ids(kind, column)


def check_pairs(estimator: Any, X: Any, *, reset: bool) -> tuple[Any, Any]:
    """The columns of users and of items, or an error without an id.

    True `reset` is for ``fit``, and sets the estimator's ``n_features_in_`` and
    ``feature_names_in_``; otherwise they are compared.
    """
    users, items = split_pairs(X)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return users, items


def split_pairs(X: Any) -> tuple[Any, Any]:
    """The two columns of pairs of ids, or an error without an id."""
    if issparse(X):
        raise TypeError(
            "The X argument must have two columns of ids. Got a sparse matrix of "
            "ratings. Use X, y = pairs_from_sparse(R)."
        )
    if not hasattr(X, "iloc"):
        # As objects: NumPy would make a text of the number in a pair of a text and a
        # number.
        X = X if hasattr(X, "shape") else without_data(lambda: _objects(X), _WIDTH)
        X = np.asarray(X)
        if X.dtype.kind == "c":
            raise ValueError("Complex data not supported. Use other ids.")
    if len(X.shape) != 2 or X.shape[1] != 2:
        raise ValueError(_WIDTH)
    if not len(X):
        raise ValueError("The X argument must have at least one row. Got 0 sample(s).")
    if hasattr(X, "iloc"):
        return X.iloc[:, 0], X.iloc[:, 1]
    return X[:, 0], X[:, 1]


def _objects(rows: Any) -> NDArray[Any]:
    pairs = [tuple(row) for row in rows]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError
    table = np.empty((len(pairs), 2), dtype=object)
    for at, pair in enumerate(pairs):
        table[at, 0], table[at, 1] = pair
    return table


def _as_column(column: Any, kind: str) -> NDArray[Any]:
    """Ids as an array; objects that are all integers become an array of integers.

    No other type that pandas infers of all rows is used: one float among large integers
    would turn them into floats, and make different ids equal.
    """

    def convert() -> NDArray[Any]:
        index = _index(column if hasattr(column, "dtype") else _object_array(column))
        if index.ndim != 1 or index.hasnans:
            raise ValueError
        hash(index[0]) if len(index) else None
        values = np.asarray(index)
        if values.dtype.kind != "O":
            return values
        if pd.api.types.infer_dtype(values) == "integer":
            try:
                return np.array(values.tolist(), dtype=np.int64)
            except OverflowError:
                pass
        return _object_array(_plain(value) for value in values)

    values = np.asarray(without_data(convert, _BAD_IDS.format(kind)))
    if without_data(lambda: _may_be_rounded(values), _BAD_IDS.format(kind)):
        raise ValueError(_ROUNDED.format(kind))
    return values


def _distinct(column: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Each id once, in order, and the position of each row's id among them."""
    if column.dtype.kind != "O":
        codes, values = pd.factorize(column, sort=True)
        return np.asarray(values), codes
    # Whether pandas tells objects apart follows from all of them together.
    first: dict[Any, int] = {}
    found = [first.setdefault(value, len(first)) for value in column]
    values, codes = _object_array(first), np.array(found, dtype=np.int64)
    try:
        keys = [(isinstance(value, str), value) for value in first]
        order = np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)
    except TypeError:  # not ordered: as they came
        return values, codes
    return values[order], np.argsort(order)[codes]


def _plain(value: Any) -> Any:
    """An id without NumPy's type, since some NumPy values compare equal by mistake.

    A duration of 5 equals both 5 seconds and 5 days.
    """
    if isinstance(value, np.datetime64):
        return pd.Timestamp(value)
    if isinstance(value, np.timedelta64):
        return pd.Timedelta(value)
    return value.item() if isinstance(value, np.generic) else value


def _may_be_rounded(values: NDArray[Any]) -> bool:
    """Whether there is a float to which several integers would be rounded."""
    if values.dtype.kind in "fc":
        limit = 2.0 ** (np.finfo(values.dtype).nmant + 1)
        return bool((np.abs(values) >= limit).any())
    kinds: Any = (float, complex, np.inexact)
    return values.dtype.kind == "O" and any(
        isinstance(value, kinds) and abs(value) >= 2.0**53 for value in values
    )


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(_text(part) for part in value)})"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(_text(part) for part in value))}}}"
    kind: Any = type(value)
    if issubclass(kind, Real) and value == int(value):
        return str(int(value))
    if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
        raise TypeError
    return str(value)


def _places(known: NDArray[Any], column: NDArray[Any]) -> list[int] | NDArray[Any]:
    """Position of each id of the column among the known ids, -1 if unknown."""
    # As doubles two integers could be equal, and True equals 1 only among objects.
    kinds = {known.dtype.kind, column.dtype.kind}
    if kinds == {"i", "u"} or (len(kinds) == 1 and "O" not in kinds):
        return np.asarray(_index(known).get_indexer(_index(column)))
    # A comparison by pandas follows from all objects of a column together.
    places = {value: place for place, value in enumerate(_objects_of(known))}
    return [places.get(value, -1) for value in _objects_of(column)]


def _objects_of(values: NDArray[Any]) -> list[Any]:
    """The ids as objects of Python and pandas."""
    return list(_index(values).astype(object))


def _object_array(values: Iterable[Any]) -> NDArray[Any]:
    """One-dimensional, whatever the values are."""
    values = list(values)
    table = np.empty(len(values), dtype=object)
    for at, value in enumerate(values):  # NumPy would look into tuples
        table[at] = value
    return table


def _index(values: Any) -> pd.Index:
    """An index without a common dtype for objects and texts; tuples stay whole."""
    kind = getattr(getattr(values, "dtype", None), "kind", "")
    dtype = object if kind in ("O", "U", "S") else None
    return pd.Index(values, dtype=dtype, tupleize_cols=False)


def _kinds(values: NDArray[Any]) -> set[bool]:
    """Whether ids are texts: both answers, if some are texts and some are not."""
    if values.dtype.kind in "biufmM":
        return {False} if len(values) else set()
    return {isinstance(value, str) for value in values.tolist()}


# -------------------------------------------------- pairs_from_sparse: tables as pairs


_TABLE = (
    "The R argument must be a table of users by items: a sparse matrix whose stored "
    "entries are the ratings, or a frame or array of numbers with NaN where there is "
    "no rating. Got {}."
)


def pairs_from_sparse(R: Any) -> tuple[np.ndarray, np.ndarray]:
    """Convert a table of users by items to pairs of ids and their ratings.

    Parameters
    ----------
    R : sparse matrix, data frame or array of shape (n_users, n_items)
        Users in rows, items in columns. In a sparse matrix every stored entry is a
        rating, even if it is 0. In a frame or an array every number is a rating, and
        NaN is none.

    Returns
    -------
    X : ndarray of shape (n_ratings, 2)
        User and item of each rating: the labels of a frame, otherwise the numbers of
        row and column, int64.
    y : ndarray of shape (n_ratings,)
        The ratings.

    Raises
    ------
    TypeError, ValueError
        If R is no table of numbers, or has zeros and no NaN, so that it does not say
        which entries are ratings.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import pairs_from_sparse
    >>> films = {"heat": [5.0, None], "alien": [4.0, 2.0]}
    >>> X, y = pairs_from_sparse(pd.DataFrame(films, index=["ann", "bob"]))
    >>> X.tolist(), y.tolist()
    ([['ann', 'heat'], ['ann', 'alien'], ['bob', 'alien']], [5.0, 4.0, 2.0])
    """
    if issparse(R):
        entries = R.tocoo()
        X = np.column_stack([entries.row, entries.col]).astype(np.int64)
        return X, np.asarray(entries.data)
    values = without_data(lambda: _numbers_of(R), _TABLE.format("something else"))
    rated = ~np.isnan(values)
    if rated.all() and not values.all():
        rule = _TABLE.format("zeros and no NaN")
        raise ValueError(f"{rule} Use scipy.sparse.csr_array(R) if 0 is no rating.")
    users, items = np.nonzero(rated)
    if not hasattr(R, "iloc"):
        return np.column_stack([users, items]), values[rated]
    ids = (_object_array(_objects_of(labels)) for labels in (R.index, R.columns))
    return np.column_stack([next(ids)[users], next(ids)[items]]), values[rated]


def _numbers_of(table: Any) -> NDArray[np.float64]:
    if hasattr(table, "iloc"):  # whose missing values may be no floats
        table = table.to_numpy(dtype=np.float64, na_value=np.nan)
    numbers = np.asarray(table, dtype=np.float64)
    if numbers.ndim != 2:
        raise ValueError
    return numbers


# ------------------------------------------------ RatingSource: ratings behind the door


class RatingSource(Records):
    """Ratings, and the public facts that answers need.

    `ratings` are private. `n_samples`, the number of ratings or users (the units of
    privacy), is public.
    """

    def __init__(self, ratings: Ratings, n_samples: int) -> None:
        self.ratings = ratings
        # Sums are not taken in blocks.
        self.facts = Facts(n_samples=n_samples, largest_block=n_samples)


# --------------------------------------------- Limited numbers of ratings for each user
# A user's items get pseudorandom keys, and the items with the smallest keys are kept.
# The keys depend on a public seed, on the item and on the set of the user's items. They
# do not depend on the user's code, which shifts when another user appears or
# disappears, nor on the values. So a change of one user's ratings changes only what is
# kept of this user. The set of items is in the keys for the sake of the catalogue: one
# order for all users would never keep some items of users who rated much.


_KeyArray = NDArray[np.uint64]


def kept_ratings(ratings: Ratings, max_ratings: int | None, seed: int) -> Ratings:
    """The ratings that are used, user by user, each user's in the order of items.

    At most `max_ratings` of each user's distinct pairs; None: all. `seed` is the seed
    of the keys; no privacy rests on it.
    """
    order = ratings.pattern.by_user
    starts, pairs, items = order.starts, order.pairs, order.others
    if max_ratings is not None and (order.counts > max_ratings).any():
        stays = _smallest_keys(order, np.uint64(seed) << np.uint64(32), max_ratings)
        pairs, items = pairs[stays], items[stays]
        starts = np.concatenate([[0], np.cumsum(stays)])[starts].astype(np.int64)
    old = ratings.pattern
    pattern = Pattern(old.users[pairs], items, old.n_users, old.n_items)
    places = np.arange(len(pairs), dtype=np.int32)
    pattern.__dict__["by_user"] = Order(starts, places, items)  # it is sorted already
    return Ratings(pattern, ratings.values[pairs].astype(np.float64))


def _smallest_keys(order: Order, seed: np.uint64, n_kept: int) -> NDArray[np.bool_]:
    """Which pairs, user by user, are among the user's `n_kept` smallest keys."""
    users = np.repeat(np.arange(len(order.counts)), order.counts)
    marks = _mixed(order.others.astype(np.uint64) ^ seed)
    own = np.concatenate([np.zeros(1, np.uint64), np.cumsum(marks)])  # modulo 2^64
    sums = own[order.starts[1:]] - own[order.starts[:-1]]
    keys = _mixed(marks ^ _mixed(sums)[users])
    by_key = np.lexsort((keys, users))
    rank = np.empty(len(users), dtype=np.int64)
    rank[by_key] = np.arange(len(users)) - np.repeat(order.starts[:-1], order.counts)
    return rank < n_kept


def _mixed(values: _KeyArray) -> _KeyArray:
    """Vigna's splitmix64, one step."""
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


# -------------------------------------------- Task: the public facts of a factorisation


@dataclass(frozen=True, kw_only=True)
class Task:
    r"""Public facts of one factorisation. Nothing here may be computed from ratings.

    The objective over biases b, c and factors p, q is the mean over ratings of

    ``((r - mean - b_u - c_i - p_u q_i)^2
    + alpha (b_u^2 + c_i^2 + |p_u|^2 + |q_i|^2)) / 2``

    in which a user's penalty grows with the number of the user's ratings, as in [1]_,
    so that the objective is a sum of one function for each rating. With biases the mean
    of all ratings is subtracted first; without biases it is 0. A fit without privacy
    measures ratings in units in which their range has a width of 4.

    Parameters
    ----------
    n_users, n_items : int
        Ids that are known.
    n_components : int
        k; 0 for biases alone.
    alpha : float in [0, inf)
        Penalty of each rating.
    unit : {"rating_value", "user"} or None
        What the release protects; None: nothing.
    rating_bounds : pair of floats
        Ratings are clipped to them if there is a unit.
    max_ratings : int or None
        Most ratings of a user that are used, under ``unit="user"``.
    pattern : Pattern or None
        The rated pairs, where they are public: not under ``unit="user"``.
    seed : int, default=0
        Seed of starts and orders, on which no privacy rests; public.
    n_jobs : int or None, default=None
        Threads of a solver without privacy.

    References
    ----------
    .. [1] Zhou, Wilkinson, Schreiber and Pan (2008). Large-scale parallel
       collaborative filtering for the Netflix prize. AAIM, equation (3).
    """

    n_users: int
    n_items: int
    n_components: int
    alpha: float
    biases: bool
    unit: Unit | None = None
    rating_bounds: tuple[float, float] | None = None
    max_ratings: int | None = None
    pattern: Pattern | None = None
    seed: int = 0
    n_jobs: int | None = None
    n_features: ClassVar[int] = 2  # a user and an item

    @property
    def adjacency(self) -> Unit | None:
        """`unit`, by the name that the door has for it."""
        return self.unit

    @property
    def n_samples(self) -> int:
        """Number of ratings, or of users if the pattern is private; public."""
        return self.n_users if self.pattern is None else len(self.pattern)

    @property
    def declared_bounds(self) -> tuple[float, float]:
        """`rating_bounds` of a private task, which must have them."""
        if self.rating_bounds is None:
            raise ValueError("This task declares no rating_bounds. Set them.")
        return self.rating_bounds

    @property
    def public_pattern(self) -> Pattern:
        """`pattern` of a task in which it is public."""
        if self.pattern is None:
            raise ValueError("The rated pairs are private here. Use another unit.")
        return self.pattern


# ----------------------------------------------------- Factors: rows of users and items


# Rows are padded with zeros to a multiple of this many numbers, which the compiled
# loops take at a time: a register of single precision, or two of double.
_ROW = 8
# Pairs whose rows are copied at a time.
_TOGETHER = 1 << 14


@dataclass(frozen=True)
class Factors:
    r"""A prediction of each rating: ``mean + users[u] @ items[i]``.

    A row has the k factors first. With biases, column k is the user's bias (1 in rows
    of items) and column k + 1 the item's (1 in rows of users), so that one product of
    rows is everything but the mean. The other columns are zeros.

    `flat` has the rows of all users, then of all items, all of the same width: the
    solvers' unknowns, with constants between them. `mean` is the mean of the ratings,
    or a solver's replacement for it; 0.0 without biases. `n_passes` counts the passes
    over the ratings without privacy.
    """

    flat: NDArray[Any]
    mean: float
    task: Task
    n_passes: int = 0

    @classmethod
    def zeros(cls, task: Task, mean: float = 0.0, dtype: Any = np.float64) -> Self:
        """Factors without biases, which predict the mean."""
        size = (task.n_users + task.n_items) * width(task)
        factors = cls(np.zeros(size, dtype), mean, task)
        if task.biases:
            factors.items[:, task.n_components] = 1
            factors.users[:, task.n_components + 1] = 1
        return factors

    @property
    def users(self) -> NDArray[Any]:
        """Rows of users, of shape (n_users, width); a view."""
        size = self.task.n_users * width(self.task)
        return self.flat[:size].reshape(self.task.n_users, -1)

    @property
    def items(self) -> NDArray[Any]:
        """Rows of items, of shape (n_items, width); a view."""
        size = self.task.n_users * width(self.task)
        return self.flat[size:].reshape(self.task.n_items, -1)

    def predictions(self, users: IntArray, items: IntArray) -> NDArray[Any]:
        """Predicted ratings of pairs of codes, of shape (n_pairs,).

        Code -1 is an unknown id: no factors, no bias.
        """
        predicted = np.empty(len(users), dtype=self.flat.dtype)
        of_users = _with_nobody(self.users, self.task, self.task.n_components + 1)
        of_items = _with_nobody(self.items, self.task, self.task.n_components)
        for start in range(0, len(users), _TOGETHER):
            part = slice(start, start + _TOGETHER)
            predicted[part] = np.einsum(
                "ij,ij->i", of_users[users[part]], of_items[items[part]]
            )
        predicted += self.mean
        return predicted

    def scaled(self, factor: float) -> Self:
        """A copy that predicts `factor` times as much; items keep their factors."""
        k, biases = self.task.n_components, int(self.task.biases)
        copy = self.copy()
        copy.users[:, : k + biases] *= factor
        copy.items[:, k + 1 : k + 1 + biases] *= factor
        return replace(copy, mean=self.mean * factor)

    def copy(self) -> Self:
        """A copy whose numbers are not shared."""
        return replace(self, flat=self.flat.copy())


def _with_nobody(rows: NDArray[Any], task: Task, constant: int) -> NDArray[Any]:
    """The rows and, at the end, where -1 points to, the row of an unknown id."""
    nobody = np.zeros((1, rows.shape[1]), dtype=rows.dtype)
    if task.biases:
        nobody[0, constant] = 1
    return np.concatenate([rows, nobody])


def width(task: Task) -> int:
    """Numbers in a row: factors, biases and padding."""
    return -(-max(1, task.n_components + 2 * task.biases) // _ROW) * _ROW


# ------------------------------------------------------------------------------ Threads
# Disjoint blocks run at the same time, with the same result as one after another.


class Threads:
    """A pool for compiled loops that release the interpreter's lock.

    It is not numba's parallel loops: on some machines two fits must not enter their
    default layer at once.
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_threads = _resolved(n_jobs)
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Self:
        if self.n_threads > 1:
            self._pool = ThreadPoolExecutor(self.n_threads)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def each(self, work: Callable[..., Any], blocks: Iterable[tuple[Any, ...]]) -> None:
        """Call ``work(*block)`` for every block and wait for all of them."""
        if self._pool is None:
            for block in blocks:
                work(*block)
            return
        for done in [self._pool.submit(work, *block) for block in blocks]:
            done.result()


def _resolved(n_jobs: int | None) -> int:
    if n_jobs is None:
        return 1
    processors = os.cpu_count() or 1
    return max(1, processors + 1 + n_jobs if n_jobs < 0 else n_jobs)
