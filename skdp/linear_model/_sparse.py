"""What private sparse linear models share: few features, and which they are."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdp._forecast import Signal, relaxed
from skdp._rows import clip_entries, columns_at
from skdp._validation import check_count, check_data_norm, check_real
from skdp.linear_model._base import DPEstimator
from skdp.losses._base import Loss
from skdp.objectives._linear import LinearObjective
from skdp.privacy import Budget
from skdp.privacy._gaussian import gaussian_mu
from skdp.solvers import SOLVERS
from skdp.solvers._strength import TYPICAL_DELTA


def default_n_nonzero(objective: LinearObjective, budget: Budget) -> int:
    """How many features the noise lets be told from the rest; public facts only.

    Of k features that matter alike each has 1 / sqrt(k) of the signal. Of rows that
    have m entries or more, as many as the bounds on rows and entries say, each holds
    1 / sqrt(m) of a record's part in the sensitivity. The quotient of both with the
    noise has to exceed the largest noise in d features some five times, for all steps
    and what is clipped. Where entries have no bound of their own m is 1, and the other
    limit counts: all k together have to stand out.
    """
    n, d = objective.n_samples, objective.n_features
    mu = gaussian_mu(budget.epsilon, budget.delta or TYPICAL_DELTA)
    entries = min(objective.full_entries, d)
    level = 2 * math.log(d + 1)
    wanted = min((n * mu / 5) ** 2 / (entries * level), 6 * n * mu / level, d)
    return max(1, math.floor(wanted))


class SparseModel(DPEstimator):
    """A linear model with few nonzero coefficients.

    A subclass has the parameters alpha, feature_bound and n_nonzero_coefs.
    """

    _can_centre = False

    def _objective(
        self, loss: Loss, n_samples: int, n_features: int, alpha: float, budget: Budget
    ) -> LinearObjective:
        objective = super()._objective(loss, n_samples, n_features, alpha, budget)
        bound = self._checked_bound()
        if self.columns is not None:
            bound = min(bound, float(self.encoder_.entry_bound_))
        most = self.n_nonzero_coefs
        if most is None:
            stated = replace(objective, data_norm=self.data_norm, feature_bound=bound)
            most = default_n_nonzero(stated, budget)
        remedy = "There are only so many features; use None for the default rule."
        most = check_count("n_nonzero_coefs", most, high=n_features, remedy=remedy)
        if not budget.is_finite:
            bound = math.inf
        return replace(objective, feature_bound=bound, n_nonzero=most)

    def _signal_of(self, objective: LinearObjective, budget: Budget) -> Signal:
        if self.n_nonzero_coefs is None:
            # The rule takes more features the less the noise, whether they matter or
            # not. Without a number that is stated there has to be one that does.
            objective = replace(objective, n_nonzero=1)
        return super()._signal_of(objective, budget)

    def _remedies(self, budget: Budget) -> tuple[str, ...]:
        fewer = "a smaller n_nonzero_coefs"
        return ("a larger epsilon", "fewer columns", fewer, *relaxed(budget))

    def _products(self, X: Any, coef: np.ndarray) -> np.ndarray:
        record = self.privacy_
        if record.solver in SOLVERS and SOLVERS[record.solver].clips_selected:
            chosen = self.get_support(indices=True)
            X, coef = columns_at(X, chosen), coef[chosen]
        if record.feature_bound < record.data_norm:
            X = clip_entries(X, record.feature_bound)
        return super()._products(X, coef)

    def _checked_bound(self) -> float:
        if self.feature_bound is None:
            return math.inf
        return check_real("feature_bound", self.feature_bound, low=1e-100, high=1e100)

    @property
    def n_nonzero_coefs_(self) -> int:
        """Most features with a nonzero coefficient, the default's rule filled in."""
        most: int = self.privacy_.n_nonzero_coefs
        return most

    def _adds_in_squares(self) -> bool:
        return self.solver != "auto" and super()._adds_in_squares()

    def _be_one_of_several(self) -> None:
        if self.solver == "auto" and self.delta > 0 and not self._may_select():
            self.solver = "iht"

    def _may_select(self) -> bool:
        """Whether "auto" takes private selections for some number of features.

        They do not add up in squares, but where they are better they are so by far
        more than that costs.
        """
        fewest = check_count("n_nonzero_coefs", self.n_nonzero_coefs or 1)
        norm = check_data_norm(self.data_norm)
        return norm >= math.sqrt(2 * fewest) * self._checked_bound()

    def get_support(self, indices: bool = False) -> np.ndarray:
        """Which features have a nonzero coefficient; post-processing of ``coef_``.

        Returns
        -------
        ndarray of bool of shape (n_features,), or of int of shape (n_selected,)
            A mask, or the features' indices in rising order.
        """
        check_is_fitted(self)
        mask = np.any(np.atleast_2d(self.coef_) != 0, axis=0)
        return np.flatnonzero(mask) if indices else mask
