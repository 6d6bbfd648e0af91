"""Private linear regressors of means and quantiles."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import in_dtype
from skdp._checks import check_alpha, check_bool, check_real, check_target_bounds
from skdp.io._table import ScoresSources, Table, scaling
from skdp.linear_model._base import (
    STREAMS,
    DPEstimator,
    FirstPart,
    HasEstimates,
    takes_parts,
)
from skdp.linear_model._rows import (
    LinearRows,
    public_facts,
    rows_to_fit,
    rows_to_predict,
)
from skdp.losses._base import Loss
from skdp.losses._objective import LinearObjective
from skdp.losses._regression import QuantileLoss, SquaredLoss
from skdp.preprocessing._encoder import TableEncoder
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._relations import Adjacency, TableUnit
from skdp.solvers._base import Solution
from skdp.solvers._registry import SolverName
from skdp.tables._columns import Columns

# ------------------------------------------- LinearRegressor: targets, fit, predictions


# Targets are scaled to [-1, 1], so a prediction in this range differs by at most 2.
_RESIDUAL_BOUND = 2.0


@dataclass(frozen=True)
class Units:
    """Units of targets and raw predictions in the loss; public.

    The loss gets a target y as ``(y - middle) / scale``, and the user gets a raw
    prediction z of the loss as ``start + size * z``. The penalty in the loss is
    `per_alpha` times the user's `alpha`.

    Parameters
    ----------
    low, high : float
        Bounds that targets are clipped to.
    middle, scale : float
    start, size : float
    per_alpha : float
    """

    low: float
    high: float
    middle: float
    scale: float
    start: float
    size: float
    per_alpha: float = 1.0


class LinearRegressor(ScoresSources, RegressorMixin, DPEstimator):
    """A linear model of targets within public bounds, by default with squared loss.

    A subclass documents the parameters. A subclass with another loss overrides `_loss`
    and `_units`.
    """

    # Whether targets are clipped even if rows are not, because the loss uses the
    # bounds.
    _always_clips = False

    # scikit-learn has no types.
    # scikit-learn's decorator has no types.
    @available_if(takes_parts)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Begin a stream with its first part, or continue it with one more part.

        Only with ``solver="ftrl"``. The first part charges the ledger for the whole
        stream, at the declared epsilon and delta. Later parts cost nothing more; they
        are recorded in the ledger too. The model is released after each part. No record
        may be in two parts, and with ``privacy_unit="user"`` no user may be. This is
        assumed and not checked: if a part is repeated, its records pay for it once
        more. The state of the stream is private. No attribute, copy, clone or pickle of
        this object contains it, and none of them can continue the stream.

        Parameters
        ----------
        X : array-like, CSR, data frame or source of shape (n_samples, n_features)
            A part may not have more records, or users, than the first part. Their
            number is public.
        y : array-like of shape (n_samples,)
            Leave it out with a source, which includes the target.
        groups : array-like of shape (n_samples,) or None, default=None
            Id of each row's user with ``privacy_unit="user"``, as in `fit`. Leave it
            out with a source, which names the column of ids.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If a parameter or an input is out of range. Nothing was spent or read, and
            the stream can be continued.
        StreamOverError
            If all parts have been given, if this object is a copy, or if an earlier
            part was interrupted.
        SourceError
            If a source could not be read to the end. This ends the stream, because a
            part of the data has been used.
        BudgetExceeded
            If the ledger's cap does not allow the stream; raised at the first part.
            Nothing was read or spent.
        """
        stream = STREAMS[self.solver]
        with stream.one_part(self), self._all_or_nothing():
            table = Table.of(X, y, groups)
            table.fitted(self, partial(stream.next_part, self))
        return self._warned_of_release()

    def _begin(self, table: Table, part: FirstPart) -> None:
        self._fit(table, part)

    def _fit(self, table: Table, part: FirstPart | None = None) -> Self:
        budget = self._check_privacy_params()
        check_bool("fit_intercept", self.fit_intercept)
        loss, alpha = self._loss(budget), self._penalty()
        users = table.users(self, budget)
        is_centred = self._will_centre()
        n_parts = 1 if part is None else part.n_parts
        rows = rows_to_fit(
            self,
            table,
            budget,
            users,
            n_parts,
            is_centred=is_centred,
            has_lines=self._has_lines(),
        )
        y = self._targets_of_part(table, rows)
        source = table.source(rows.X, y, users, is_private=budget.is_finite)
        assumed = public_facts(self.columns, users)
        solution, objective = self._solve(
            source, rows, loss, alpha, budget, assumed, part
        )
        self._keep_weights(solution, objective, rows.X.dtype)
        return self

    def _loss(self, budget: Budget) -> Loss:
        """The loss in the units of `_units`; it has no bounds if epsilon is inf."""
        if not budget.is_finite:
            return SquaredLoss(math.inf)
        return SquaredLoss(_RESIDUAL_BOUND, target_bound=1.0)

    def _units(self) -> Units:
        """The units that scale targets to [-1, 1] and predictions back."""
        low, high = check_target_bounds(self.target_bounds)
        middle = low / 2 + high / 2 if self.fit_intercept else 0.0
        scale = max(abs(low - middle), abs(high - middle))
        return Units(low, high, middle, scale, start=middle, size=scale)

    @property
    def _effect_units(self) -> tuple[str, ...]:
        return ("units of the target",)

    @property
    def _raw_unit(self) -> float:
        return self._units().size

    def _penalty(self) -> float:
        """Penalty of the weights in the units of the loss."""
        return check_alpha(self.alpha) * self._units().per_alpha

    def _targets_of_part(self, table: Table, rows: LinearRows) -> Any:
        units, low, high = self._units(), -math.inf, math.inf
        if Budget(self.epsilon, self.delta).is_finite or self._always_clips:
            low, high = units.low, units.high
        scaled = scaling(low, high, units.middle, units.scale)
        return table.numbers(self, rows.X, scaled)

    def _keep_weights(
        self, solution: Solution, objective: LinearObjective, dtype: Any
    ) -> None:
        start, size = self._units().start, self._units().size
        coef, intercept = solution.unpack(objective)
        self.coef_ = in_dtype(size * coef[0], dtype)
        self.intercept_ = float(in_dtype(start + size * intercept[0], dtype))
        path = solution.unpack_path(objective)
        own = [(size * w[0], start + size * b[0]) for w, b in path]
        self._keep_path(own, dtype)

    def _planned_objective(
        self, n_samples: int, n_features: int, budget: Budget
    ) -> LinearObjective:
        loss, alpha = self._loss(budget), self._penalty()
        return self._objective(loss, n_samples, n_features, alpha, budget)

    def predict(self, X: Any) -> np.ndarray:
        """Predictions for the rows, which are clipped as in `fit`.

        The result is ``X @ coef_ + intercept_`` for rows with a norm of at most
        ``privacy_.data_norm``, and for all rows if epsilon is inf. Longer rows are
        clipped to this norm first, each row separately. If the model has `center_`,
        rows are then centred, scaled and clipped to ``row_norm_``. Predictions may lie
        outside `target_bounds`, since only targets are clipped to them. Clipping
        predictions as well costs no privacy.

        Parameters
        ----------
        X : array-like, CSR or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._raw(X)

    def _raw_rows(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = rows_to_predict(self, X)
        return self._products(X, self.coef_[:, None])[:, 0] + self.intercept_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # On the tiny data of scikit-learn's checks, noise makes the scores poor.
        tags.regressor_tags.poor_score = self.epsilon != float("inf")
        return tags


# ------------------------------------------------------------------- DPLinearRegression


class DPLinearRegression(HasEstimates, LinearRegressor):
    r"""Linear regression with differential privacy.

    The model minimises ``mean_i (y_i - x_i w - b)^2 / 2 + alpha / 2 * ||w, b||^2``
    privately. This is the objective of scikit-learn's `Ridge` with a penalty of
    ``n_samples * alpha`` that includes the intercept. Targets are clipped to
    `target_bounds` and rows to `data_norm`. The intercept is the weight of one more
    column with the constant value `data_norm`, and the penalty applies to its distance
    from the middle of `target_bounds`. With a finite epsilon, `predict` clips rows as
    `fit` does; for rows that this leaves unchanged it returns
    ``X @ coef_ + intercept_``.

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records public. ``coef_`` and ``intercept_`` are
    released; see ``privacy_``, and ``docs/guide/before_you_sign.md`` also for what is
    not covered. `predict` is post-processing; ``score(X, y)`` reads raw data and is
    **not** private.

    Parameters
    ----------
    %(epsilon)s
        With inf rows are not clipped, and the model is the least squares fit.
    %(columns, delta, adjacency, privacy_unit, data_norm, alpha, fit_intercept)s
    %(target_bounds, solver, solver_params, init, random_state, ledger, verbose)s

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Private output, with the dtype of X.
    intercept_ : float
        Private output. 0.0 if there is no intercept, which is public.
    %(center_, row_norm_, coef_path_)s
    estimates_ : Estimates
        Coefficients without shrinkage, with standard errors: `values`, `covariance`,
        `conf_int()`; see `summary`. Private output. Only with
        ``solver="noisy_newton"``, for which residuals may have different variances, or
        with ``solver="adassp"`` and ``solver_params={"squares_weight": 0.5}``, which
        assume residuals of the same variance.
    %(privacy_)s
        Only its ``noise_scale`` is not public, but post-processing of the release.
    %(encoder_, n_features_in_, feature_names_in_)s

    See Also
    --------
    sklearn.linear_model.Ridge : The estimator without privacy.

    Notes
    -----
    Internally, targets are shifted and scaled from `target_bounds` to [-1, 1] (without
    an intercept they are only scaled, since 0 must stay 0). ``fit`` has no
    ``sample_weight``, because unbounded weights would invalidate the sensitivity.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdp import BoundedScaler, DPLinearRegression
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = make_pipeline(
    ...     BoundedScaler(bounds=(-0.2, 0.2)),
    ...     DPLinearRegression(epsilon=1.0, delta=1e-6, target_bounds=(0, 350)),
    ... ).fit(X, y)
    >>> model[-1].coef_.shape, model[-1].privacy_.epsilon
    ((10,), 1.0)
    """

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

    def _target_units(self) -> tuple[float, float]:
        units = self._units()
        return units.start, units.size


# ------------------------------------------------------------------ DPQuantileRegressor


class DPQuantileRegressor(LinearRegressor):
    r"""Linear quantile regression with differential privacy.

    The model minimises ``mean_i pinball(y_i - x_i w - b) + alpha / 2 * ||w, b||^2``
    privately, so that a fraction `quantile` of the targets lies below the predictions.
    Private solvers need a smooth loss, so the kink of the pinball loss is rounded
    within a distance `h` (`QuantileLoss`); the gradient of this loss is bounded for all
    targets. In contrast, scikit-learn's `QuantileRegressor` has an L1 penalty and a
    sharp kink. Targets are clipped to `target_bounds` and rows to `data_norm`. The
    intercept is the weight of one more column with the constant value `data_norm`. It
    starts at the middle of `target_bounds`, and the penalty applies to its distance
    from there. With a finite epsilon, `predict` clips rows as `fit` does; for rows that
    this leaves unchanged it returns ``X @ coef_ + intercept_``.

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records public. ``coef_`` and ``intercept_`` are
    released; see ``privacy_``, and ``docs/guide/before_you_sign.md`` also for what is
    not covered. `predict` is post-processing; ``score(X, y)`` reads raw data and is
    **not** private.

    Parameters
    ----------
    %(epsilon)s
        With inf rows are not clipped.
    %(columns, delta, adjacency, privacy_unit, data_norm)s
    quantile : float in [0.01, 0.99], default=0.5
        Proportion of the targets that lie below the predictions.
    %(alpha)s
        In units of the target.
    %(fit_intercept, target_bounds, solver, solver_params, init, random_state, ledger)s
    %(verbose)s
    h : float in [1e-3, 1], default=0.05
        Half the width of the rounded kink, in units of half the width of
        `target_bounds`. Public. A smaller `h` gives a loss of larger curvature and
        shorter steps; a larger `h` moves outer quantiles outwards.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Private output, with the dtype of X.
    intercept_ : float
        Private output. 0.0 if there is no intercept, which is public.
    %(center_, row_norm_, coef_path_, privacy_)s
        Only its ``noise_scale`` is not public, but post-processing of the release.
    %(encoder_, n_features_in_, feature_names_in_)s

    See Also
    --------
    DPGradientBoostingRegressor : Boosted trees, with ``loss="quantile"``.
    sklearn.linear_model.QuantileRegressor : The estimator without privacy.

    Notes
    -----
    Internally, targets are shifted and scaled from `target_bounds` to [-1, 1] (without
    an intercept they are only scaled, since 0 must stay 0). ``fit`` has no
    ``sample_weight``, because unbounded weights would invalidate the sensitivity.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPQuantileRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(20_000, 3))
    >>> y = X[:, 0] + rng.exponential(size=20_000)
    >>> model = DPQuantileRegressor(
    ...     epsilon=2.0, quantile=0.9, columns=(-0.5, 0.5), target_bounds=(-1, 9)
    ... ).fit(X, y)
    >>> bool(0.85 < (y <= model.predict(X)).mean() < 0.95)
    True
    """

    _always_clips = True
    # The default score of `private_score` for this model.
    _scored_by: ClassVar[str] = "neg_mean_pinball_loss"

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        columns: Columns | TableEncoder | None = None,
        delta: float = 1e-6,
        adjacency: Adjacency = "replace_one",
        privacy_unit: TableUnit = "record",
        data_norm: float = 1.0,
        quantile: float = 0.5,
        alpha: float | None = None,
        fit_intercept: bool = True,
        target_bounds: Any = None,
        solver: SolverName = "auto",
        solver_params: Any = None,
        init: Any = None,
        random_state: int | None = None,
        ledger: Any = None,
        verbose: bool | int | None = None,
        h: float = 0.05,
    ) -> None:
        self.epsilon = epsilon
        self.columns = columns
        self.delta = delta
        self.adjacency = adjacency
        self.privacy_unit = privacy_unit
        self.data_norm = data_norm
        self.quantile = quantile
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.target_bounds = target_bounds
        self.solver = solver
        self.solver_params = solver_params
        self.init = init
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose
        self.h = h

    def _loss(self, budget: Budget) -> Loss:
        level = check_real("quantile", self.quantile, low=0.01, high=0.99)
        return QuantileLoss(level, check_real("h", self.h, low=1e-3, high=1.0))

    def _units(self) -> Units:
        units = super()._units()
        return replace(units, per_alpha=units.scale)
