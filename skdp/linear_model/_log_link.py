"""Private regression with a logarithmic link: Poisson and gamma."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.metrics import d2_tweedie_score

from skdp._checks import check_real, check_target_bounds
from skdp.linear_model._regressors import LinearRegressor, Units
from skdp.losses._base import FARTHEST, Loss
from skdp.losses._objective import LinearObjective
from skdp.losses._regression import GammaLoss, PoissonLoss
from skdp.privacy.accounting._calibrate import Budget
from skdp.solvers._base import Solution

# -------------------------------------- LogLinkRegressor: units, predictions, deviances


# Least ratio of the largest target to the lowest: the rounding of residuals is
# negligible beside the residuals that these bounds allow.
_NARROWEST = 1.02


@dataclass(frozen=True)
class Means:
    """Bounds of means and of targets, and the loss's unit of targets; public.

    Parameters
    ----------
    low, high : float
    start : float
        The mean at weights of 0.
    unit : float
        Unit of targets.
    per_alpha : float, default=1.0
        Penalties of the loss over scikit-learn's penalties.
    """

    low: float
    high: float
    start: float
    unit: float
    per_alpha: float = 1.0


class LogLinkRegressor(LinearRegressor):
    """A model of the logarithm of the mean of amounts within public bounds.

    A subclass documents the parameters.
    """

    _always_clips = True
    # Power of the Tweedie deviance.
    _deviance_power: ClassVar[int]
    # The score that rates the model if none is named.
    _scored_by: ClassVar[str]
    # Bounds of the logarithm of the mean, as they were in `fit`; public.
    _log_bounds: tuple[float, float]

    @abstractmethod
    def _means(self) -> Means:
        """Checked public facts about targets."""

    def _checked_bounds(self) -> tuple[float, float]:
        low, high = check_target_bounds(self.target_bounds)
        if low < 0:
            raise ValueError(
                "The 'target_bounds' parameter must be of at least 0 for a model of "
                f"the logarithm of a mean. Got {self.target_bounds!r}. Use "
                "DPLinearRegression for targets below 0."
            )
        if high < _NARROWEST * low:
            raise ValueError(
                "The 'target_bounds' parameter must be at least 2 % apart for a model "
                f"of the logarithm of a mean. Got {self.target_bounds!r}. Widen them."
            )
        return low, high

    def _units(self) -> Units:
        means = self._means()
        return Units(
            means.low,
            means.high,
            middle=0.0,
            scale=means.unit,
            start=math.log(means.start),
            size=1.0,
            per_alpha=means.per_alpha,
        )

    def _keep_weights(
        self, solution: Solution, objective: LinearObjective, dtype: Any
    ) -> None:
        super()._keep_weights(solution, objective, dtype)
        means = self._means()
        high = math.log(means.high)
        # The loss does not tell smaller means apart.
        low = high - FARTHEST
        if means.low > 0:
            low = max(low, math.log(means.low))
        self._log_bounds = low, high

    def predict(self, X: Any) -> np.ndarray:
        """Means for the rows, clipped as in `fit`, within the bounds of the targets.

        Rows are clipped as by the other linear models, at finite epsilon; means are
        ``exp(X @ coef_ + intercept_)`` of these, clipped to `target_bounds`, and above
        0 where the lowest is 0.

        Parameters
        ----------
        X : array-like, CSR or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return np.asarray(np.exp(np.clip(self._raw(X), *self._log_bounds)))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Share of the deviance that is explained (D²); reads raw data, not private.

        Parameters
        ----------
        X : array-like, CSR, data frame or source of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Left out with a source, which has its target.
        sample_weight : array-like of shape (n_samples,) or None, default=None

        Returns
        -------
        float
            At most 1; 0 of the constant mean of `y`.
        """
        return super().score(X, y, sample_weight)

    def _score_rows(self, X: Any, y: Any, sample_weight: Any) -> float:
        predicted = self.predict(X)
        return float(
            d2_tweedie_score(
                y, predicted, sample_weight=sample_weight, power=self._deviance_power
            )
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # `fit` clips targets below the bounds; their deviance in `score` is undefined.
        tags.target_tags.positive_only = True
        return tags


# ------------------------------------------------------------------- DPPoissonRegressor


class DPPoissonRegressor(LogLinkRegressor):
    r"""Poisson regression with differential privacy.

    Minimises ``mean_i (m_i - y_i log m_i) + alpha / 2 * ||w, b||^2`` privately, for
    the means ``m_i = exp(x_i w + b)`` of counts and other amounts of at least 0:
    scikit-learn's `PoissonRegressor`, its intercept penalised, and the loss a straight
    line where a mean is beyond `target_bounds` (`PoissonLoss`), because private solvers
    need a bounded gradient. Targets are clipped to `target_bounds`, rows to
    `data_norm`. The intercept is the weight of one more column that holds the constant
    `data_norm`; what is penalised is its distance from the logarithm of the middle of
    `target_bounds`, where it starts. `predict` clips rows as `fit` does, at finite
    epsilon, and means to `target_bounds`.

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records public. Released are ``coef_`` and
    ``intercept_``; see ``privacy_``, ``docs/guide/before_you_sign.md`` and, for what is
    not covered, ``docs/guide/before_you_sign.md``. `predict` is post-processing;
    ``score(X, y)`` reads raw data and is **not** private.

    Parameters
    ----------
    %(epsilon)s
        With inf rows are not clipped.
    %(columns, delta, adjacency, privacy_unit, data_norm, alpha)s
        The loss is half the deviance, as in scikit-learn, in units of the target.
    %(fit_intercept)s
    target_bounds : pair of floats in [0, 1e100]
        %(target_bounds)s
        At least 2 % apart. The noise is proportional to the upper bound: it is better
        to clip a few much larger targets.
    %(solver, solver_params, random_state, ledger, verbose)s

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients of the logarithm of the mean. Private output. Of the dtype of X.
    intercept_ : float
        Private output (without an intercept where it starts, public).
    %(center_, row_norm_, coef_path_, privacy_)s
        Its ``noise_scale`` is no public fact: it is post-processing of the release.
    %(encoder_, n_features_in_, feature_names_in_)s

    See Also
    --------
    DPGammaRegressor : Of amounts whose deviation goes with their mean.
    DPGradientBoostingRegressor : Boosted trees, with ``loss="poisson"``.
    sklearn.linear_model.PoissonRegressor : The estimator without privacy.

    Notes
    -----
    Inside, targets are divided by the highest. ``fit`` has no ``sample_weight``:
    unbounded weights would void the sensitivity; for a rate divide by the exposure.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPPoissonRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(5000, 3))
    >>> y = rng.poisson(np.exp(1 + 2 * X[:, 0]))
    >>> model = DPPoissonRegressor(epsilon=2.0, target_bounds=(0, 15)).fit(X, y)
    >>> bool(model.predict(X).min() > 0), model.privacy_.epsilon
    (True, 2.0)
    """

    _deviance_power: ClassVar[int] = 1
    _scored_by: ClassVar[str] = "neg_mean_poisson_deviance"

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        columns: Any = None,
        delta: float = 1e-6,
        adjacency: str = "replace_one",
        privacy_unit: str = "record",
        data_norm: float = 1.0,
        alpha: float | None = None,
        fit_intercept: bool = True,
        target_bounds: Any = None,
        solver: str = "auto",
        solver_params: Any = None,
        random_state: int | None = None,
        ledger: Any = None,
        verbose: bool | int = False,
    ) -> None:
        self.epsilon = epsilon
        self.columns = columns
        self.delta = delta
        self.adjacency = adjacency
        self.privacy_unit = privacy_unit
        self.data_norm = data_norm
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.target_bounds = target_bounds
        self.solver = solver
        self.solver_params = solver_params
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose

    def _loss(self, budget: Budget) -> Loss:
        means = self._means()
        return PoissonLoss(math.log(means.high / means.start), means.low / means.high)

    def _means(self) -> Means:
        low, high = self._checked_bounds()
        return Means(low, high, start=low / 2 + high / 2, unit=high, per_alpha=1 / high)


# --------------------------------------------------------------------- DPGammaRegressor


# Largest ratio of target bounds: plain floating-point arithmetic is too coarse beyond.
_WIDEST = 1e6


class DPGammaRegressor(LogLinkRegressor):
    r"""Gamma regression with differential privacy.

    Minimises ``mean_i (y_i / m_i + log m_i) + alpha / 2 * ||w, b||^2`` privately, for
    the means ``m_i = exp(x_i w + b)`` of amounts above 0: scikit-learn's
    `GammaRegressor`, its intercept penalised, and the loss a straight line where a mean
    is beyond `target_bounds` or a target is more than `most` means (`GammaLoss`),
    because private solvers need a bounded gradient. Targets are clipped to
    `target_bounds`, rows to `data_norm`. The intercept is the weight of one more column
    that holds the constant `data_norm`; what is penalised is its distance from the mean
    of the logarithms of `target_bounds`, where it starts. `predict` clips rows as `fit`
    does, at finite epsilon, and means to `target_bounds`.

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records public. Released are ``coef_`` and
    ``intercept_``; see ``privacy_``, ``docs/guide/before_you_sign.md`` and, for what is
    not covered, ``docs/guide/before_you_sign.md``. `predict` is post-processing;
    ``score(X, y)`` reads raw data and is **not** private.

    Parameters
    ----------
    %(epsilon)s
        With inf rows are not clipped.
    %(columns, delta, adjacency, privacy_unit, data_norm, alpha)s
        The loss is half the deviance, as in scikit-learn.
    %(fit_intercept)s
    target_bounds : pair of floats in [1e-100, 1e100]
        %(target_bounds)s
        The highest is 1.02 to 1e6 times the lowest.
    %(solver, solver_params, random_state, ledger, verbose)s
    most : float in (1, inf), default=4.0
        A target counts as at most this many means. Noise is proportional to ``most -
        1``, and means come out too low where targets often exceed it. Public.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients of the logarithm of the mean. Private output. Of the dtype of X.
    intercept_ : float
        Private output (without an intercept where it starts, public).
    %(center_, row_norm_, coef_path_, privacy_)s
        Its ``noise_scale`` is no public fact: it is post-processing of the release.
    %(encoder_, n_features_in_, feature_names_in_)s

    See Also
    --------
    DPPoissonRegressor : Of counts, and of amounts that may be 0.
    sklearn.linear_model.GammaRegressor : The estimator without privacy.

    Notes
    -----
    Inside, targets are divided by the lowest. ``fit`` has no ``sample_weight``:
    unbounded weights would void the sensitivity.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPGammaRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(5000, 3))
    >>> y = rng.gamma(3.0, np.exp(1 + 2 * X[:, 0]) / 3.0)
    >>> model = DPGammaRegressor(epsilon=2.0, target_bounds=(0.1, 50)).fit(X, y)
    >>> bool(model.predict(X).min() > 0), model.privacy_.epsilon
    (True, 2.0)
    """

    _deviance_power: ClassVar[int] = 2
    _scored_by: ClassVar[str] = "neg_mean_gamma_deviance"

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        columns: Any = None,
        delta: float = 1e-6,
        adjacency: str = "replace_one",
        privacy_unit: str = "record",
        data_norm: float = 1.0,
        alpha: float | None = None,
        fit_intercept: bool = True,
        target_bounds: Any = None,
        solver: str = "auto",
        solver_params: Any = None,
        random_state: int | None = None,
        ledger: Any = None,
        verbose: bool | int = False,
        most: float = 4.0,
    ) -> None:
        self.epsilon = epsilon
        self.columns = columns
        self.delta = delta
        self.adjacency = adjacency
        self.privacy_unit = privacy_unit
        self.data_norm = data_norm
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.target_bounds = target_bounds
        self.solver = solver
        self.solver_params = solver_params
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose
        self.most = most

    def _loss(self, budget: Budget) -> Loss:
        means = self._means()
        most = check_real("most", self.most, low=1.0, high=1e100, low_open=True)
        return GammaLoss(math.log(means.high / means.low) / 2, most)

    def _means(self) -> Means:
        low, high = self._checked_bounds()
        if not 0 < low <= high <= _WIDEST * low:
            raise ValueError(
                "The 'target_bounds' parameter must be above 0 and at most 1e6 times "
                f"apart for a gamma regression. Got {self.target_bounds!r}. Raise the "
                "lowest: targets below are raised to it."
            )
        return Means(low, high, start=math.sqrt(low) * math.sqrt(high), unit=low)
