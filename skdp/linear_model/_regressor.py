"""What private linear regressors share: targets, `fit`, predictions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skdp._floats import FloatArray
from skdp._input import refuse_several_targets
from skdp._output import in_dtype
from skdp._targets import targets_of
from skdp._users import users_to_fit
from skdp._validation import check_alpha, check_bool, check_target_bounds
from skdp.io._takes import fit_through
from skdp.linear_model._base import DPEstimator
from skdp.linear_model._rows import public_facts, rows_to_fit, rows_to_predict
from skdp.linear_model._streams import STREAMS, FirstPart, takes_parts
from skdp.losses import SquaredLoss
from skdp.losses._base import Loss
from skdp.objectives._linear import LinearObjective
from skdp.privacy import Budget
from skdp.solvers._base import Solution

# Targets are brought to [-1, 1]; a prediction in there is at most this far from one.
_RESIDUAL_BOUND = 2.0


@dataclass(frozen=True)
class Units:
    """Public units in which a loss has targets and raw predictions.

    A target y is ``(y - middle) / scale`` to the loss, and its raw prediction z is
    ``start + size * z`` to the user. Penalties of weights are `per_alpha` times those
    of the user's weights.

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


class LinearRegressor(RegressorMixin, DPEstimator):
    """A linear model of targets within public bounds; of the mean squared error.

    A subclass documents the parameters. One of another loss has `_loss` and `_units` of
    its own.
    """

    # Whether targets are clipped where no row is: a loss that knows the bounds.
    _always_clips = False

    # scikit-learn has no types.
    @available_if(takes_parts)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Go on with a stream by one part more, or begin one.

        With ``solver="ftrl"``. The first part books the whole stream, at the declared
        epsilon and delta; every later one is free, and is noted down in the ledger.
        The model after each part is released. No record may be in two parts, and with
        ``privacy_unit="user"`` no user: that is assumed, not checked, and a repeated
        part costs its records as much again.
        What the stream must remember is private: it is in no attribute, copy, clone or
        pickle of this object, and none of them can go on.

        Parameters
        ----------
        X : array-like, CSR, data frame or source of shape (n_samples, n_features)
            The first part has as many records, or users, as any; their number is
            public.
        y : array-like of shape (n_samples,)
            Left out with a source, which has its target.
        groups : array-like of shape (n_samples,) or None, default=None
            With ``privacy_unit="user"`` whose each row of the part is, as in `fit`.
            Left out with a source, which names the column of ids.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For a parameter or input out of range. Nothing was spent or read, and the
            stream can go on.
        StreamOverError
            If all parts have been given, or this is a copy, or a part was cut short.
        SourceError
            If a source could not be read to the end. That ends the stream: what was
            read of the part has been used.
        BudgetExceeded
            From the ledger, at the first part. Nothing was read or spent.
        """
        stream = STREAMS[self.solver]
        with stream.one_part(self), self._all_or_nothing():
            return fit_through(self, X, y, lambda: stream.next_part(self, X, y, groups))

    def _begin(self, X: Any, y: Any, groups: Any, part: FirstPart) -> None:
        self._fit(X, y, groups=groups, part=part)

    def _fit(
        self, X: Any, y: Any, *, groups: Any = None, part: FirstPart | None = None
    ) -> Self:
        budget = self._check_privacy_params()
        check_bool("fit_intercept", self.fit_intercept)
        loss, alpha = self._loss(budget), self._penalty()
        users = users_to_fit(self, X, groups, budget)
        is_centred = self._will_centre()
        n_parts = 1 if part is None else part.n_parts
        X = rows_to_fit(self, X, budget, users, n_parts, is_centred=is_centred)
        y = self._targets_of_part(X, y)
        solution, objective, record = self._solve(
            X, y, loss, alpha, budget, public_facts(self.columns, users), users, part
        )
        self._keep_weights(solution, objective, X.dtype)
        self.privacy_ = record
        return self

    def _loss(self, budget: Budget) -> Loss:
        """In units of `_units`; without bounds if nothing is private."""
        if not budget.is_finite:
            return SquaredLoss(math.inf)
        return SquaredLoss(_RESIDUAL_BOUND, target_bound=1.0)

    def _units(self) -> Units:
        """What brings targets to [-1, 1], and predictions back."""
        low, high = check_target_bounds(self.target_bounds)
        middle = low / 2 + high / 2 if self.fit_intercept else 0.0
        scale = max(abs(low - middle), abs(high - middle))
        return Units(low, high, middle, scale, start=middle, size=scale)

    def _penalty(self) -> float:
        """Of the weights inside."""
        return check_alpha(self.alpha) * self._units().per_alpha

    def _targets_of_part(self, X: Any, y: Any) -> Any:
        units, budget = self._units(), Budget(self.epsilon, self.delta)
        clips = budget.is_finite or self._always_clips
        refuse_several_targets(y, "MultiOutputRegressor")

        def scaled(y: FloatArray) -> FloatArray:
            y = np.clip(y, units.low, units.high) if clips else y
            return np.asarray((y - units.middle) / units.scale)

        return targets_of(self, X, y, scaled)

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
        """Predictions for the rows, clipped as in `fit`.

        ``X @ coef_ + intercept_`` for rows within the norm, and for all if epsilon is
        inf. Longer rows are clipped to ``privacy_.data_norm`` first, each by itself;
        with `center_` rows are centred and scaled, and clipped to ``row_norm_``.
        They may be beyond `target_bounds`, to which targets are clipped, not
        predictions: clip these where others make no sense, which costs nothing.

        Parameters
        ----------
        X : array-like, CSR or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._raw(X)

    def _raw(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = rows_to_predict(self, X)
        return self._products(X, self.coef_[:, None])[:, 0] + self.intercept_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Noise, not the method, spoils the scores on tiny data.
        tags.regressor_tags.poor_score = self.epsilon != float("inf")
        return tags
