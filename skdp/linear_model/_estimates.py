"""Estimated coefficients with standard errors, as tables that statsmodels' users know.

Post-processing of private outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri
from sklearn.utils.validation import check_is_fitted

from skdp._floats import FloatArray
from skdp._validation import check_real
from skdp.linear_model._base import DPEstimator
from skdp.objectives._linear import LinearObjective
from skdp.solvers._base import Solution
from skdp.solvers._moment_errors import EstimatedSolution


@dataclass(frozen=True, eq=False)
class Estimates:
    """Coefficients without shrinkage, and their covariance.

    Parameters
    ----------
    names : tuple of str
        Of the features, and ``"intercept"`` last if there is one.
    values : ndarray of shape (n_names,)
        Private output; NaN where noise drowns a direction of the rows.
    covariance : ndarray of shape (n_names, n_names)
        Private output; inf there.
    """

    names: tuple[str, ...]
    values: FloatArray
    covariance: FloatArray

    @property
    def errors(self) -> pd.Series:
        """Standard errors by name."""
        return pd.Series(np.sqrt(np.diag(self.covariance)), self.names)

    def conf_int(self, level: float = 0.95) -> pd.DataFrame:
        """Intervals by name, with columns ``"lower"`` and ``"upper"``.

        Parameters
        ----------
        level : float in (0, 1), default=0.95
            How often intervals hold what they are of.

        Returns
        -------
        DataFrame of shape (n_names, 2)
        """
        level = check_real(
            "level", level, low=0.0, high=1.0, low_open=True, high_open=True
        )
        reach = float(ndtri((1 + level) / 2)) * self.errors.to_numpy()
        ends = {"lower": self.values - reach, "upper": self.values + reach}
        return pd.DataFrame(ends, index=list(self.names))

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """Estimate, standard error, z, p-value and interval by name.

        Parameters
        ----------
        level : float in (0, 1), default=0.95

        Returns
        -------
        DataFrame of shape (n_names, 6)
            The columns are named as statsmodels names them.
        """
        ends, errors = self.conf_int(level), self.errors.to_numpy()
        z = self.values / errors
        low, high = (1 - level) / 2, (1 + level) / 2
        return pd.DataFrame(
            {
                "coef": self.values,
                "std err": errors,
                "z": z,
                "P>|z|": 2 * ndtr(-np.abs(z)),
                f"[{low:.4g}": ends["lower"].to_numpy(),
                f"{high:.4g}]": ends["upper"].to_numpy(),
            },
            index=list(self.names),
        )


class HasEstimates(DPEstimator):
    """A model that keeps the standard errors that some solvers give.

    To stand before a class that has `_keep_weights`.
    """

    estimates_: Estimates

    def _keep_weights(
        self, solution: Solution, objective: LinearObjective, dtype: Any
    ) -> None:
        super()._keep_weights(solution, objective, dtype)
        self.__dict__.pop("estimates_", None)
        if not isinstance(solution, EstimatedSolution):
            return
        middle, scale = self._target_units()
        values = scale * solution.estimate
        names = getattr(self, "feature_names_in_", None)
        if hasattr(self, "encoder_"):
            names = self.encoder_.get_feature_names_out()
        if names is None:
            names = [f"x{j}" for j in range(objective.n_features)]
        if objective.fit_intercept:
            names, values[-1] = [*names, "intercept"], values[-1] + middle
        covariance = scale**2 * solution.covariance
        self.estimates_ = Estimates(tuple(names), values, covariance)

    def _target_units(self) -> tuple[float, float]:
        """What is 0 in units of the loss, and what is 1 more than that."""
        return 0.0, 1.0

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """Estimates, standard errors, z, p-values and intervals; post-processing.

        As statsmodels has them, of the coefficients that the objective has in the
        population: of rows clipped to `data_norm`, and penalised if a penalty was
        given; by adassp, of least squares without shrinkage. Errors of the noise and of
        the records count, the latter taken by adassp to have one variance; of users,
        whatever the rows of each have in common. NaN and inf where noise drowns a
        direction of the rows, as it does if columns add up to a constant, which those
        of declared categories do.

        Parameters
        ----------
        level : float in (0, 1), default=0.95
            How often intervals hold the coefficients.

        Returns
        -------
        DataFrame of shape (n_features + 1, 6)
            Without the last row if there is no intercept.

        Raises
        ------
        ValueError
            If the fit has no standard errors.
        """
        check_is_fitted(self)
        if not hasattr(self, "estimates_"):
            raise ValueError(
                "The summary needs standard errors, which are released if they are "
                f"asked for. Got solver={self.privacy_.solver!r} without them. Fit "
                "with solver='noisy_newton' and a finite epsilon; a regression may "
                "also use solver='adassp', solver_params={'squares_weight': 0.5}."
            )
        return self.estimates_.summary(level)
