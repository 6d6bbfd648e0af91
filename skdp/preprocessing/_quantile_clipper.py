"""Clipping to private quantiles, found by noisy bisection."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import ndtri
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from skdp._bounds import match_bounds, to_unit
from skdp._floats import FloatArray
from skdp._input import check_rows
from skdp._output import in_dtype
from skdp._validation import check_bool, check_count, check_real
from skdp.data._source import holds_users
from skdp.io._takes import AppendsToSources, fit_through, shown
from skdp.preprocessing._output_norm import BringsToNorm
from skdp.preprocessing._private import PrivateTransformer
from skdp.privacy._answers import Answers
from skdp.queries._counts import Counts

# Probability that some count of nobody, or of everybody, is taken for a quantile.
_WRONG_TURN = 0.05
# A cell of the last grid is then wider than rounding.
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

    What is found is a cell of width ``(high - low) / 2**n_steps``; its outer end is
    taken. Noise hides quantiles that are a few standard deviations of a count from
    either end, so ranks are aimed for that are at least as far inside; if that would be
    more than a quarter of the records, the declared bounds are kept. Both follow from
    public facts. A larger epsilon, fewer features or fewer steps help.

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records public. Released are `n_steps` vectors of
    counts, one for each feature and quantile; later thresholds depend on earlier
    releases only; see ``docs/proofs/preprocessing.md``. What `transform` returns is as
    private as the rows given to it.

    Parameters
    ----------
    epsilon : float in [1e-6, 1e8] or inf, default=1.0
        Privacy loss, of all rounds together. inf: the exact quantiles of
        `numpy.quantile`, or of users bisection without noise; not private.
    delta : 0 or float in [1e-50, 1), default=1e-6
        Probability with which the guarantee may fail; far below ``1 / n_samples``.
        0 asks for pure epsilon.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What neighbouring data sets are: one record exchanged for any other, or for
        the null record, which contributes nothing.
    privacy_unit : {"record", "user"}, default="record"
        What neighbours differ in: one row, or all rows of one user, whose ids come by
        ``fit(X, groups=ids)``. Then each user counts as one record, with the mean over
        the own rows, and `adjacency` is of users (``docs/users.md``).
    quantiles : pair of floats in [0, 1], default=(0.01, 0.99)
        Lower and upper quantile, the first below the second.
    bounds : pair of floats, pair of array-likes, or mapping
        ``(low, high)`` for all features, ``(lows, highs)`` with one entry per feature,
        or ``{column name: (low, high)}``, known without looking at the data; wide
        bounds cost only resolution. Required; None raises in `fit`.
    n_steps : int from 1 to 40, default=16
        Rounds. One more halves the width of a cell and adds noise to all rounds.
    scale : bool, default=True
        False: values stay in their units, and the norm of a row is *not* at most 1.
    random_state : int or None, default=None
        None: private noise. An integer makes the fit reproducible and **not private**.
    ledger : BudgetLedger or None, default=None
        Books that every fit is charged to before it reads the data.

    Attributes
    ----------
    low_, high_ : ndarray of shape (n_features_in_,)
        What values are clipped to, in units of the features: ``low_ < high_``, within
        the bounds. Private outputs.
    data_norm_ : float
        Largest norm of a row that comes out: 1.0 (inf with ``scale=False``). Public.
    output_norm_ : float or None
        `data_norm_`, or None if that is inf. Public.
    privacy_ : PrivacyRecord
        Public facts.
    n_features_in_ : int
        Public.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Public; only if X has feature names that are strings.

    See Also
    --------
    BoundedScaler : The same with declared bounds, for nothing.

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
        adjacency: str = "replace_one",
        privacy_unit: str = "record",
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

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Release the quantiles privately.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Finite numbers.
        y : ignored
        groups : array-like of shape (n_samples,) or None, default=None
            With ``privacy_unit="user"`` whose each row is: integers or texts, none
            missing. A categorical declares users without rows as well. Left out with
            a source, which names the column of ids.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For a parameter or input out of range. Nothing was spent, and the
            transformer is as it was before.
        BudgetExceeded
            If the ledger's cap does not allow this fit. Nothing was read or spent.
        """
        with self._all_or_nothing():
            return fit_through(self, X, None, lambda: self._fit(X, groups))

    def _fit(self, given: Any, groups: Any) -> Self:
        budget = self._check_privacy_params()
        check_bool("scale", self.scale)
        quantiles = _checked_quantiles(self.quantiles)
        n_steps = check_count("n_steps", self.n_steps, high=_MOST_STEPS)
        X = check_rows(self, shown(given), reset=True, accept_sparse=False)
        names = getattr(self, "feature_names_in_", None)
        low, high = match_bounds(self.bounds, X.shape[1], names)
        source = self._source(given, X, groups, budget)
        bisection = Bisection(low, high, quantiles, n_steps, source.n_samples)
        answers = self._commit(
            bisection.first,
            source,
            budget,
            key="noisy_bisection",
            params={"quantiles": quantiles, "n_steps": n_steps},
            times=n_steps,
        )
        if answers.is_exact and not holds_users(source):
            with np.errstate(all="ignore"):
                found = np.quantile(X.astype(np.float64), quantiles, axis=0)
        else:
            found = bisection.run(answers)
        # Cells may be closer together than doubles, and exact quantiles equal.
        is_proper = (found[0] < found[1]) & (found[1] / 2 - found[0] / 2 > 0)
        self.low_ = np.where(is_proper, found[0], low)
        self.high_ = np.where(is_proper, found[1], high)
        self.data_norm_ = 1.0 if self.scale else math.inf
        return self

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

    Bounds are the declared ones, of shape (n_features,).
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
        # A union bound over all counts keeps searches out of empty places.
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
        # Noise may have brought the upper one below the lower.
        ends = np.stack([cells.min(axis=0), cells.max(axis=0) + 0.5**self.n_steps])
        return self._at(ends)

    def _counts(self, share: FloatArray) -> Counts:
        return Counts(self._at(share))

    def _at(self, share: FloatArray) -> FloatArray:
        """Points on the way from low to high, which cannot overflow."""
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
