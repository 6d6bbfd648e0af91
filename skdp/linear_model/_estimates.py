"""Estimated coefficients with standard errors, as tables that statsmodels' users know.

Post-processing of private outputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from skdp._floats import FloatArray
from skdp._validation import check_real


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
