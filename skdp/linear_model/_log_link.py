"""Private regression with a logarithmic link: Poisson and gamma regression."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from sklearn.metrics import d2_tweedie_score

from skdp._checks import check_real
from skdp._export import Step, step
from skdp.linear_model._regressors import LinearRegressor, Units
from skdp.losses._base import Loss
from skdp.losses._objective import LinearObjective
from skdp.losses._regression import (
    GammaLoss,
    Means,
    PoissonLoss,
    means_of_amounts,
    means_of_counts,
)
from skdp.preprocessing._encoder import TableEncoder
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._relations import Adjacency, TableUnit
from skdp.solvers._base import Solution
from skdp.solvers._registry import SolverName
from skdp.tables._columns import Columns

# -------------------------------------- LogLinkRegressor: units, predictions, deviances


class LogLinkRegressor(LinearRegressor):
    """A model of the logarithm of the mean of amounts within public bounds.

    A subclass documents the parameters.
    """

    _always_clips = True
    # Power of the Tweedie deviance.
    _deviance_power: ClassVar[int]
    # The default score of `private_score` for this model.
    _scored_by: ClassVar[str]
    # Bounds of the logarithm of the mean at the time of `fit`; public.
    _log_bounds: tuple[float, float]

    @abstractmethod
    def _means(self) -> Means:
        """Checked public facts about targets."""

    @property
    def _effect_units(self) -> tuple[str, ...]:
        return ("log of the mean",)

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
        self._log_bounds = self._means().log_bounds

    def predict(self, X: Any) -> np.ndarray:
        """Predicted means for the rows, within the bounds of the targets.

        With a finite epsilon, rows are clipped as in `fit`. The means are
        ``exp(X @ coef_ + intercept_)``, clipped to `target_bounds`; they are above 0
        also if the lower bound is 0.

        Parameters
        ----------
        X : array-like, CSR or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return np.asarray(np.exp(np.clip(self._raw(X), *self._log_bounds)))

    def _steps(self) -> list[Step]:
        low, high = self._log_bounds
        return [*super()._steps(), step("exponential", low=low, high=high)]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Fraction of deviance explained (D²); reads raw data and is not private.

        Parameters
        ----------
        X : array-like, CSR, data frame or source of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Leave it out with a source, which includes the target.
        sample_weight : array-like of shape (n_samples,) or None, default=None

        Returns
        -------
        float
            At most 1; a model that always predicts the mean of `y` has 0.
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
        # `fit` clips targets below the bounds; in `score` their deviance is undefined.
        tags.target_tags.positive_only = True
        return tags


# ------------------------------------------------------------------- DPPoissonRegressor


class DPPoissonRegressor(LogLinkRegressor):
    r"""Poisson regression with differential privacy.

    The model minimises ``mean_i (m_i - y_i log m_i) + alpha / 2 * ||w, b||^2``
    privately, where ``m_i = exp(x_i w + b)`` are the means of counts or other amounts
    of at least 0. It differs from scikit-learn's `PoissonRegressor` in two ways. The
    intercept is penalised, and the loss is a straight line where a mean is outside
    `target_bounds` (`PoissonLoss`), because private solvers need a bounded gradient.
    Targets are clipped to `target_bounds` and rows to `data_norm`. The intercept is the
    weight of one more column with the constant value `data_norm`. It starts at the
    logarithm of the middle of `target_bounds`, and the penalty applies to its distance
    from there. `predict` clips means to `target_bounds` and, with a finite epsilon,
    rows as `fit` does.

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records public. ``coef_`` and ``intercept_`` are
    released; see ``privacy_``, and ``docs/guide/before_you_sign.md`` also for what is
    not covered. `predict` is post-processing; ``score(X, y)`` reads raw data and is
    **not** private.

    Parameters
    ----------
    %(epsilon)s
        With inf rows are not clipped.
    %(columns, delta, adjacency, privacy_unit, data_norm, alpha)s
        The loss is half the deviance, as in scikit-learn, in units of the target.
    %(fit_intercept)s
    target_bounds : pair of floats in [0, 1e100]
        %(target_bounds)s
        The bounds are at least 2 % apart. The noise is proportional to the upper bound,
        so it is better to clip a few very large targets than to raise the bound.
    %(solver, solver_params, init, random_state, ledger, verbose)s

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients of the logarithm of the mean. Private output, with the dtype of X.
    intercept_ : float
        Private output. If there is no intercept, its start value, which is public.
    %(center_, row_norm_, coef_path_, privacy_)s
        Only its ``noise_scale`` is not public, but post-processing of the release.
    %(encoder_, n_features_in_, feature_names_in_)s

    See Also
    --------
    DPGammaRegressor : For amounts whose standard deviation grows with their mean.
    DPGradientBoostingRegressor : Boosted trees, with ``loss="poisson"``.
    sklearn.linear_model.PoissonRegressor : The estimator without privacy.

    Notes
    -----
    Internally, targets are divided by the upper bound. ``fit`` has no
    ``sample_weight``, because unbounded weights would invalidate the sensitivity. To
    model a rate, divide the target by the exposure.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPPoissonRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(5000, 3))
    >>> y = rng.poisson(np.exp(1 + 2 * X[:, 0]))
    >>> model = DPPoissonRegressor(
    ...     epsilon=2.0, columns=(-0.5, 0.5), target_bounds=(0, 15)
    ... ).fit(X, y)
    >>> bool(model.predict(X).min() > 0), model.privacy_.epsilon
    (True, 2.0)
    """

    _deviance_power: ClassVar[int] = 1
    _scored_by: ClassVar[str] = "neg_mean_poisson_deviance"

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        columns: Columns | TableEncoder | None = None,
        delta: float = 1e-6,
        adjacency: Adjacency = "replace_one",
        privacy_unit: TableUnit = "record",
        data_norm: float = 1.0,
        alpha: float | None = None,
        fit_intercept: bool = True,
        target_bounds: Any = None,
        solver: SolverName = "auto",
        solver_params: Any = None,
        init: Any = None,
        random_state: int | None = None,
        ledger: Any = None,
        verbose: bool | int | None = None,
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
        self.init = init
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose

    def _loss(self, budget: Budget) -> Loss:
        return PoissonLoss.of(self._means())

    def _means(self) -> Means:
        return means_of_counts(self.target_bounds)


# --------------------------------------------------------------------- DPGammaRegressor


class DPGammaRegressor(LogLinkRegressor):
    r"""Gamma regression with differential privacy.

    The model minimises ``mean_i (y_i / m_i + log m_i) + alpha / 2 * ||w, b||^2``
    privately, where ``m_i = exp(x_i w + b)`` are the means of amounts above 0. It
    differs from scikit-learn's `GammaRegressor` in two ways. The intercept is
    penalised, and the loss is a straight line where a mean is outside `target_bounds`
    or a target is more than `most` times the mean (`GammaLoss`), because private
    solvers need a bounded gradient. Targets are clipped to `target_bounds` and rows to
    `data_norm`. The intercept is the weight of one more column with the constant value
    `data_norm`. It starts at the mean of the logarithms of `target_bounds`, and the
    penalty applies to its distance from there. `predict` clips means to `target_bounds`
    and, with a finite epsilon, rows as `fit` does.

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records public. ``coef_`` and ``intercept_`` are
    released; see ``privacy_``, and ``docs/guide/before_you_sign.md`` also for what is
    not covered. `predict` is post-processing; ``score(X, y)`` reads raw data and is
    **not** private.

    Parameters
    ----------
    %(epsilon)s
        With inf rows are not clipped.
    %(columns, delta, adjacency, privacy_unit, data_norm, alpha)s
        The loss is half the deviance, as in scikit-learn.
    %(fit_intercept)s
    target_bounds : pair of floats in [1e-100, 1e100]
        %(target_bounds)s
        The upper bound is 1.02 to 1e6 times the lower bound.
    %(solver, solver_params, init, random_state, ledger, verbose)s
    most : float in (1, inf), default=4.0
        A target counts as at most this many times its mean. Noise is proportional to
        ``most - 1``, and means are underestimated where targets are often larger.
        Public.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients of the logarithm of the mean. Private output, with the dtype of X.
    intercept_ : float
        Private output. If there is no intercept, its start value, which is public.
    %(center_, row_norm_, coef_path_, privacy_)s
        Only its ``noise_scale`` is not public, but post-processing of the release.
    %(encoder_, n_features_in_, feature_names_in_)s

    See Also
    --------
    DPPoissonRegressor : For counts, and for amounts that may be 0.
    sklearn.linear_model.GammaRegressor : The estimator without privacy.

    Notes
    -----
    Internally, targets are divided by the lower bound. ``fit`` has no
    ``sample_weight``, because unbounded weights would invalidate the sensitivity.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPGammaRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(5000, 3))
    >>> y = rng.gamma(3.0, np.exp(1 + 2 * X[:, 0]) / 3.0)
    >>> model = DPGammaRegressor(
    ...     epsilon=2.0, columns=(-0.5, 0.5), target_bounds=(0.1, 50)
    ... ).fit(X, y)
    >>> bool(model.predict(X).min() > 0), model.privacy_.epsilon
    (True, 2.0)
    """

    _deviance_power: ClassVar[int] = 2
    _scored_by: ClassVar[str] = "neg_mean_gamma_deviance"

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        columns: Columns | TableEncoder | None = None,
        delta: float = 1e-6,
        adjacency: Adjacency = "replace_one",
        privacy_unit: TableUnit = "record",
        data_norm: float = 1.0,
        alpha: float | None = None,
        fit_intercept: bool = True,
        target_bounds: Any = None,
        solver: SolverName = "auto",
        solver_params: Any = None,
        init: Any = None,
        random_state: int | None = None,
        ledger: Any = None,
        verbose: bool | int | None = None,
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
        self.init = init
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose
        self.most = most

    def _loss(self, budget: Budget) -> Loss:
        most = check_real("most", self.most, low=1.0, high=1e100, low_open=True)
        return GammaLoss.of(self._means(), most)

    def _means(self) -> Means:
        return means_of_amounts(self.target_bounds)
