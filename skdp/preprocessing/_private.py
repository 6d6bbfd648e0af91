"""Steps that release statistics: scaler, clipper, imputer."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.special import ndtri
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import FloatArray, clip_rows, in_dtype
from skdp._base import PrivateEstimator, public_of_tables
from skdp._checks import check_bool, check_choice, check_count, check_real
from skdp._fit import PlannedFit, Progress, Question, ReleasedT, Statistics, fit
from skdp._input import (
    check_rows,
    in_column_order,
    match_bounds,
    middle_and_half,
    to_unit,
)
from skdp.io._table import AppendsToSources, Table
from skdp.preprocessing._declared import BringsToNorm
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._relations import Adjacency, TableUnit
from skdp.privacy.noise._laws import LAWS, NoiseLaw
from skdp.privacy.release._answers import Answers, Released
from skdp.privacy.release._plan import Query
from skdp.privacy.release._record import FREE, StepPrivacy
from skdp.sums._counts import PRESENCE, SQUARES, Counts, PairSums, shrunken_mean
from skdp.tables._source import Source

# --------------------------------------- PrivateTransformer: one release, fixed queries


class PrivateTransformer(TransformerMixin, PrivateEstimator):
    """A transformer whose `fit` releases noisy answers."""

    _allows_missing: ClassVar[bool] = False

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Release the statistics privately.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Numbers, as `transform` takes them.
        y : ignored
        %(groups)s

        Returns
        -------
        self

        Raises
        ------
        %(ValueError, BudgetExceeded)s
        """
        with self._all_or_nothing():
            return Table.of(X, groups=groups).fitted(self, self._fit)

    @abstractmethod
    def _fit(self, table: Table) -> None:
        """Set the fitted attributes, from rows or a source."""

    def _release(
        self,
        query: Query,
        source: Source,
        budget: Budget,
        *,
        key: str,
        params: dict[str, Any],
        times: int = 1,
        data_norm: float = math.inf,
        read: Callable[[Answers], ReleasedT] | None = None,
    ) -> Any:
        """Fit to answers; sets ``privacy_``.

        `query` is the first of `times` similar queries; later ones may depend on
        answers. `source` is private. `key` names the mechanism in ``privacy_`` and
        `params` is its public configuration; rows are clipped to `data_norm` before
        they are queried.

        Returns
        -------
        object
            What `read` makes of the answers; by default the answer to the query, or
            None without noise, where statistics are computed from the rows.
        """
        law, relation = _law_of(budget, math.prod(query.shape), times), self._relation()
        why = "the mechanism of this step"
        if law is None:
            why = "epsilon=inf: the statistics themselves"
        shape = source.n_samples, source.n_features
        planned = PlannedFit(
            problem=Question(query, relation, *shape, times),
            solver=StepStatistics(
                law=law,
                read=read or partial(_answer, query),
                name=key if law else "exact",
                given={"law": law.name} | params if law else {},
            ),
            reason=why,
            bounds={"data_norm": data_norm if law else math.inf},
            assumed_public=public_of_tables(relation),
            label=f"{type(self).__name__}({key})",
        )
        return fit(self, planned, source, self._door(budget))

    def _source(self, table: Table, X: Any, budget: Budget) -> Source:
        """Checked rows as a source of records, or of users; refuses wrong ids."""
        users = table.users(self, budget)
        if not (table.holds_rows or budget.is_finite):
            raise ValueError(
                "The 'epsilon' parameter must be finite with a source: without noise "
                "this step needs all rows in memory. Got inf. Use a finite epsilon, or "
                "read the table into memory."
            )
        rows = table.rows(X, allows_missing=self._allows_missing)
        return table.source(rows, None, users)

    @staticmethod
    def _shares(source: Source) -> FloatArray | None:
        """Weights of the rows of users, without noise; None: equal weights."""
        return getattr(source, "shares", None)

    def _is_finite(self) -> bool:
        """Whether `fit` will clip and add noise."""
        return Budget(self.epsilon, self.delta).is_finite

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@dataclass(frozen=True, kw_only=True)
class StepStatistics(Statistics[ReleasedT]):
    """The noisy answers of a step; `read` turns them into its statistics."""

    read: Callable[[Answers], ReleasedT]
    name: str
    given: dict[str, Any]

    @property
    def named(self) -> str:
        return self.name

    @property
    def params(self) -> dict[str, Any]:
        return self.given

    def run(
        self, answers: Answers, problem: Question, progress: Progress, /
    ) -> ReleasedT:
        return self.read(answers)


def _answer(query: Query, answers: Answers) -> Released | None:
    return None if answers.is_exact else answers.ask(query)


def _law_of(budget: Budget, size: int, times: int) -> NoiseLaw | None:
    """The noise law for this many answers of one size; None without noise."""
    if not budget.is_finite:
        return None
    law = LAWS["gaussian" if budget.delta > 0 else "spherical"]
    if not law.is_possible(times / budget.epsilon, size):
        raise ValueError(
            "The 'epsilon' parameter is too small for delta=0 with so many features. "
            f"Got {budget.epsilon:g}. Use a larger epsilon, or a delta above 0."
        )
    return law


# --------------------------------------------------------------------- DPStandardScaler


# Least variance in units of the bounds; below it noise is smaller than rounding.
_LEAST_VARIANCE = 1e-12


class DPStandardScaler(
    AppendsToSources, BringsToNorm, OneToOneFeatureMixin, PrivateTransformer
):
    r"""Standardise features by a private mean and variance; rows of norm at most 1.

    Values are clipped to declared `bounds`, in `fit` and in `transform`; one release
    with noise gives the mean and the variance of every feature. `transform` subtracts
    the mean, divides by the standard deviation times sqrt(n_features), and scales every
    row longer than 1 down to norm 1: typical rows come out with a norm of about 1, and
    none with more than the default ``data_norm`` of the estimators.

    Where `bounds` are close to the spread of the data, `BoundedScaler` does nearly as
    well and costs nothing (``docs/guide/pipelines.md``).

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records public. Released are, for all features
    together, the sums of v and of v^2, where v is the value in units of its bounds, in
    [-1, 1]; see ``docs/proofs/preprocessing.md``. What `transform` returns is as
    private as the rows given to it.

    Parameters
    ----------
    %(epsilon)s
        With inf neither `fit` nor `transform` clips, and mean and variance are those of
        scikit-learn's `StandardScaler`.
    %(delta, adjacency, privacy_unit, bounds, random_state, ledger)s

    Attributes
    ----------
    mean_ : ndarray of shape (n_features_in_,)
        In units of the features, within the bounds. Private output; where the noise is
        larger than the bounds it is near their middle.
    var_, scale_ : ndarray of shape (n_features_in_,)
        Variance, and the standard deviation that is the divisor. Private outputs, at
        least the smallest variance that can be told from 0 under the noise, and at most
        the largest variance within the bounds.
    low_, high_ : ndarray of shape (n_features_in_,)
        The declared bounds (-inf and inf with ``epsilon=inf``). Public.
    data_norm_ : float
        Largest norm of an output row: 1.0 (inf with ``epsilon=inf``). Public.
    %(output_norm_, privacy_, n_features_in_, feature_names_in_)s

    See Also
    --------
    BoundedScaler : Scaling by declared bounds, at no privacy cost.
    sklearn.preprocessing.StandardScaler : The transformer without privacy.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPStandardScaler
    >>> X = np.random.default_rng(0).normal(170, 10, size=(5000, 1))
    >>> scaler = DPStandardScaler(epsilon=1.0, bounds=(100, 250)).fit(X)
    >>> bool(165 < scaler.mean_[0] < 175), scaler.privacy_.epsilon
    (True, 1.0)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-6,
        adjacency: Adjacency = "replace_one",
        privacy_unit: TableUnit = "record",
        bounds: Any = None,
        random_state: int | None = None,
        ledger: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.privacy_unit = privacy_unit
        self.bounds = bounds
        self.random_state = random_state
        self.ledger = ledger

    def _fit(self, table: Table) -> None:
        budget = self._check_privacy_params()
        X = check_rows(self, table.sample(), reset=True, accept_sparse=False)
        names = getattr(self, "feature_names_in_", None)
        low, high = match_bounds(self.bounds, X.shape[1], names)
        source = self._source(table, X, budget)
        sums = PairSums(SQUARES, low, high, source.n_samples)
        params = {"square_weight": SQUARES.weight}
        found = self._release(sums, source, budget, key="noisy_moments", params=params)
        self.data_norm_ = 1.0 if budget.is_finite else math.inf
        if found is None:
            self.mean_, self.var_ = _exact_moments(X, self._shares(source))
            self.scale_ = np.sqrt(np.where(self.var_ > 0, self.var_, 1.0))
            low, high = np.full_like(low, -math.inf), np.full_like(high, math.inf)
        else:
            mean, variance = _moments(sums, found)
            middle, half = middle_and_half(low, high)
            tiny, largest = np.finfo(float).tiny, np.finfo(float).max
            self.mean_ = middle + half * mean
            with np.errstate(all="ignore"):  # of bounds beyond the roots of all doubles
                self.scale_ = np.maximum(half * np.sqrt(variance), tiny)
                self.var_ = np.clip(self.scale_**2, tiny, largest)
        self.low_, self.high_ = low, high

    def transform(self, X: Any) -> np.ndarray:
        """Standardised rows of norm at most `data_norm_`, up to rounding.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features), float32 if X is
        """
        check_is_fitted(self)
        X = check_rows(self, X, reset=False, accept_sparse=False)
        with np.errstate(all="ignore"):
            # Halved first: bounds may be as far apart as doubles can be.
            moved = np.clip(X, self.low_, self.high_) / 2 - self.mean_ / 2
            rows = moved / self.scale_ * (2 / math.sqrt(X.shape[1]))
            if math.isfinite(self.data_norm_):
                rows = clip_rows(rows, self.data_norm_)
            return np.asarray(rows.astype(X.dtype))

    def _planned_norm(self) -> float:
        return 1.0 if self._is_finite() else math.inf


def _exact_moments(
    X: np.ndarray, shares: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of rows with weights; not private."""
    with np.errstate(all="ignore"):
        X = X.astype(np.float64, copy=False)
        mean = np.average(X, axis=0, weights=shares)
        return mean, np.average((X - mean) ** 2, axis=0, weights=shares)


def _moments(sums: PairSums, released: Released) -> tuple[FloatArray, FloatArray]:
    """Mean and variance in units of the bounds; post-processing only."""
    total, squares = sums.read(released.value)
    n_samples = sums.n_samples
    mean = shrunken_mean(total, n_samples, released.deviation)
    noise = released.deviation / n_samples  # of the mean
    # About a standard deviation of the noise in the variance.
    least = noise / SQUARES.weight + 2 * np.abs(mean) * noise
    least = np.clip(least, _LEAST_VARIANCE, 1.0)
    return mean, np.clip(squares / n_samples - mean**2, least, 1.0)


# --------------------------------------- DPQuantileClipper: bisection with noisy counts


# Probability that a count of no records, or of all, is mistaken for a quantile.
_WRONG_TURN = 0.05
# Within this limit a cell of the last grid is wider than rounding.
_MOST_STEPS = 40


class DPQuantileClipper(
    AppendsToSources, BringsToNorm, OneToOneFeatureMixin, PrivateTransformer
):
    """Clip each feature to two private quantiles, and scale rows to norm at most 1.

    For features whose usual range is not known: `bounds` may be wide. Both quantiles of
    every feature are found together by bisection of the bounds: in each of `n_steps`
    rounds one release counts the records at or below all thresholds. As
    `BoundedScaler` does with declared bounds, `transform` clips to the quantiles,
    centres, and divides by half their distance times sqrt(n_features).

    The bisection ends in a cell of width ``(high - low) / 2**n_steps``, whose outer end
    is taken. Noise hides quantiles within a few standard deviations of a count from
    either end, so the target ranks are at least this far inside; if this is more than a
    quarter of the records, the declared bounds are kept. Both follow from public facts.
    A larger epsilon, fewer features or fewer steps help.

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records public. Released are `n_steps` vectors of
    counts, one for each feature and quantile; later thresholds depend on earlier
    releases only; see ``docs/proofs/preprocessing.md``. What `transform` returns is as
    private as the rows given to it.

    Parameters
    ----------
    %(epsilon)s
        All rounds share it. With inf the quantiles are those of `numpy.quantile`, or of
        bisection without noise for users.
    %(delta, adjacency, privacy_unit)s
    quantiles : pair of floats in [0, 1], default=(0.01, 0.99)
        Lower and upper quantile, the first below the second.
    %(bounds)s
        Wide bounds cost only resolution.
    n_steps : int from 1 to 40, default=16
        Rounds. One more halves the width of a cell and adds noise to all rounds.
    scale : bool, default=True
        False: values stay in their units, and the norm of a row is *not* at most 1.
    %(random_state, ledger)s

    Attributes
    ----------
    low_, high_ : ndarray of shape (n_features_in_,)
        Ends to which values are clipped, in units of the features: ``low_ < high_``,
        within the bounds. Private outputs.
    data_norm_ : float
        Largest norm of an output row: 1.0 (inf with ``scale=False``). Public.
    %(output_norm_, privacy_, n_features_in_, feature_names_in_)s

    See Also
    --------
    BoundedScaler : The same with declared bounds, at no privacy cost.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPQuantileClipper
    >>> X = np.random.default_rng(0).exponential(30_000, size=(20_000, 1))
    >>> clipper = DPQuantileClipper(quantiles=(0.05, 0.95), bounds=(0, 1e7))
    >>> bool(70_000 < clipper.fit(X).high_[0] < 110_000)
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-6,
        adjacency: Adjacency = "replace_one",
        privacy_unit: TableUnit = "record",
        quantiles: Any = (0.01, 0.99),
        bounds: Any = None,
        n_steps: int = 16,
        scale: bool = True,
        random_state: int | None = None,
        ledger: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.privacy_unit = privacy_unit
        self.quantiles = quantiles
        self.bounds = bounds
        self.n_steps = n_steps
        self.scale = scale
        self.random_state = random_state
        self.ledger = ledger

    def _fit(self, table: Table) -> None:
        budget = self._check_privacy_params()
        check_bool("scale", self.scale)
        quantiles = _checked_quantiles(self.quantiles)
        n_steps = check_count("n_steps", self.n_steps, high=_MOST_STEPS)
        X = check_rows(self, table.sample(), reset=True, accept_sparse=False)
        names = getattr(self, "feature_names_in_", None)
        low, high = match_bounds(self.bounds, X.shape[1], names)
        source = self._source(table, X, budget)
        bisection = Bisection(low, high, quantiles, n_steps, source.n_samples)

        def read(answers: Answers) -> FloatArray:
            if answers.is_exact and not source.facts.is_of_users:
                exact = np.quantile(X.astype(np.float64), quantiles, axis=0)
                return np.asarray(exact)
            return bisection.run(answers)

        found = self._release(
            bisection.first,
            source,
            budget,
            key="noisy_bisection",
            params={"quantiles": quantiles, "n_steps": n_steps},
            times=n_steps,
            read=read,
        )
        # Cells may be narrower than doubles resolve, and exact quantiles may be equal.
        is_proper = (found[0] < found[1]) & (found[1] / 2 - found[0] / 2 > 0)
        self.low_ = np.where(is_proper, found[0], low)
        self.high_ = np.where(is_proper, found[1], high)
        self.data_norm_ = 1.0 if self.scale else math.inf

    def transform(self, X: Any) -> np.ndarray:
        """Clipped rows; of norm at most 1, up to rounding, unless ``scale=False``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features), float32 if X is
        """
        check_is_fitted(self)
        X = check_rows(self, X, reset=False, accept_sparse=False)
        if not math.isfinite(self.data_norm_):
            return in_dtype(np.clip(X, self.low_, self.high_), X.dtype)
        scaled = to_unit(X, self.low_, self.high_) / math.sqrt(X.shape[1])
        return scaled.astype(X.dtype)

    def _planned_norm(self) -> float:
        return 1.0 if self.scale else math.inf


@dataclass(frozen=True, eq=False)
class Bisection:
    """A search for two quantiles of each feature; public facts only.

    `low` and `high` are the declared bounds, of shape (n_features,).
    """

    low: FloatArray
    high: FloatArray
    quantiles: tuple[float, float]
    n_steps: int
    n_samples: int

    @property
    def first(self) -> Counts:
        return self._counts(np.full((2, len(self.low)), 0.5))

    def run(self, answers: Answers) -> FloatArray:
        """Outer ends of the cells in which the quantiles are found."""
        n = self.n_samples
        # A union bound over all counts keeps searches out of empty regions.
        margin = -float(ndtri(_WRONG_TURN / (2 * len(self.low) * self.n_steps)))
        margin *= answers.expected(self.first).deviation
        aimed = n * np.array(self.quantiles)
        ranks = np.clip(aimed, min(margin, n / 2), max(n - margin, n / 2))
        cells = np.zeros((2, len(self.low)))
        for step in range(1, self.n_steps + 1):
            middle = cells + 0.5**step
            counts = self._counts(middle)
            at_or_below = counts.at_or_below(answers.ask(counts).value, n)
            cells = np.where(at_or_below >= ranks[:, None], cells, middle)
        if margin > n / 4:
            return np.stack([self.low, self.high])
        # Noise may have moved the upper cell below the lower.
        ends = np.stack([cells.min(axis=0), cells.max(axis=0) + 0.5**self.n_steps])
        return self._at(ends)

    def _counts(self, share: FloatArray) -> Counts:
        return Counts(self._at(share))

    def _at(self, share: FloatArray) -> FloatArray:
        """Points between low and high, computed without overflow."""
        return self.low * (1 - share) + self.high * share


def _checked_quantiles(quantiles: Any) -> tuple[float, float]:
    rule = (
        "The 'quantiles' parameter must be two numbers in [0, 1], the first below the "
        f"second. Got {quantiles!r}. Use for example (0.01, 0.99)."
    )
    try:
        first, second = quantiles
    except (TypeError, ValueError):
        raise ValueError(rule) from None
    first = check_real("quantiles[0]", first, low=0.0, high=1.0)
    second = check_real("quantiles[1]", second, low=0.0, high=1.0)
    if not first < second:
        raise ValueError(rule)
    return first, second


# ---------------------------------------------------------------------- DPSimpleImputer


class DPSimpleImputer(AppendsToSources, OneToOneFeatureMixin, PrivateTransformer):
    """Replace NaN by a private mean of each feature, or by a declared constant.

    Which entries are missing is private: no column is dropped or added for it, and a
    feature with hardly any values is filled with the middle of its bounds. Present
    values are returned unchanged; `bounds` clip only the values of which the mean is
    taken, so put a step that clips after this one.

    **Privacy.** ``strategy="mean"``: (epsilon, delta)-differential privacy for one
    record, under `adjacency`, with the number of records public. Released are, for all
    features together, the sum of the values present (clipped to `bounds`) and their
    number; see ``docs/proofs/preprocessing.md``. ``strategy="constant"`` reads no
    values and costs nothing; epsilon, delta and `ledger` are then not used, and the
    null record stays null. What `transform` returns is as private as the rows given to
    it.

    Parameters
    ----------
    %(epsilon)s
        With inf values are not clipped to `bounds`, and the mean is that of
        scikit-learn's `SimpleImputer`.
    %(delta, adjacency, privacy_unit)s
    strategy : {"mean", "constant"}, default="mean"
    fill_value : float, array-like of shape (n_features,), or mapping, default=None
        With ``strategy="constant"``: one finite number for all features, one for each,
        or ``{column name: number}``; None then raises an error in `fit`.
    %(bounds)s
        With ``strategy="constant"`` they are not used.
    %(random_state, ledger)s
        With ``strategy="constant"`` it is not used.

    Attributes
    ----------
    statistics_ : ndarray of shape (n_features_in_,)
        Values that replace NaN, in units of the features, within the bounds. Private
        output (public with ``strategy="constant"``).
    %(privacy_)s
        Absent with ``strategy="constant"``.
    %(n_features_in_, feature_names_in_)s

    See Also
    --------
    sklearn.impute.SimpleImputer : The transformer without privacy.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPSimpleImputer
    >>> X = np.array([[17.0, np.nan], [90.0, 40.0]])
    >>> imputer = DPSimpleImputer(strategy="constant", fill_value=[40, 38])
    >>> imputer.fit_transform(X)
    array([[17., 38.],
           [90., 40.]])
    """

    _allows_missing: ClassVar[bool] = True

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-6,
        adjacency: Adjacency = "replace_one",
        privacy_unit: TableUnit = "record",
        strategy: Literal["mean", "constant"] = "mean",
        fill_value: Any = None,
        bounds: Any = None,
        random_state: int | None = None,
        ledger: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.privacy_unit = privacy_unit
        self.strategy = strategy
        self.fill_value = fill_value
        self.bounds = bounds
        self.random_state = random_state
        self.ledger = ledger

    def _fit(self, table: Table) -> None:
        check_choice("strategy", self.strategy, ("mean", "constant"))
        budget = None
        if self.strategy == "mean":
            budget = self._check_privacy_params()
        X = check_rows(
            self, table.sample(), reset=True, accept_sparse=False, allow_nan=True
        )
        names = getattr(self, "feature_names_in_", None)
        if budget is None:
            self.__dict__.pop("privacy_", None)
            self.statistics_ = _match_constants(self.fill_value, X.shape[1], names)
            return
        low, high = match_bounds(self.bounds, X.shape[1], names)
        middle, half = middle_and_half(low, high)
        source = self._source(table, X, budget)
        sums = PairSums(PRESENCE, low, high, source.n_samples)
        params = {"count_weight": PRESENCE.weight}
        released = self._release(
            sums, source, budget, key="noisy_moments", params=params
        )
        if released is None:
            self.statistics_ = _exact_means(X, middle, self._shares(source))
            return
        mean = shrunken_mean(*sums.read(released.value), released.deviation)
        self.statistics_ = middle + half * mean

    def transform(self, X: Any) -> np.ndarray:
        """X with NaN filled in.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Finite numbers, or NaN where a value is missing.

        Returns
        -------
        ndarray of shape (n_samples, n_features), float32 if X is
        """
        check_is_fitted(self)
        X = check_rows(self, X, reset=False, accept_sparse=False, allow_nan=True)
        return np.where(np.isnan(X), in_dtype(self.statistics_, X.dtype), X)

    def step_privacy(self) -> StepPrivacy:
        """What this object costs, planned or spent; never fits anything."""
        return FREE if self.strategy == "constant" else super().step_privacy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _match_constants(fill_value: Any, n_features: int, names: Any) -> FloatArray:
    """The declared constant of each column."""
    declared = fill_value
    if isinstance(fill_value, Mapping):
        declared = in_column_order("fill_value", fill_value, names)
    try:
        values = np.asarray(declared, dtype=np.float64)
        values = np.broadcast_to(values, (n_features,)).copy()
        is_valid = bool(np.isfinite(values).all())
    except (TypeError, ValueError):
        is_valid = False
    if not is_valid:
        raise ValueError(
            f"The 'fill_value' parameter must be a finite number, {n_features} of them "
            f"or a mapping from column names to them. Got {fill_value!r}. Declare what "
            "to fill in, or use strategy='mean'."
        )
    return values


def _exact_means(
    X: np.ndarray, empty: FloatArray, shares: FloatArray | None
) -> FloatArray:
    """Means of present values; `empty` if there are none; not private."""
    counted = np.ones(len(X)) if shares is None else shares
    with np.errstate(all="ignore"):
        is_present = ~np.isnan(X)
        total = counted @ np.where(is_present, X, 0.0).astype(np.float64)
        count = counted @ is_present
        found = np.divide(total, count, out=np.zeros_like(total), where=count > 0)
        return np.where(count > 0, found, empty)
