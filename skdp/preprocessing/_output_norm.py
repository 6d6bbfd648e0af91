"""The norm of the rows that a step lets out, by declaration."""

from __future__ import annotations

import math
from abc import abstractmethod

from sklearn.utils.validation import check_is_fitted


class StatesOutputNorm:
    """A step that says how long its rows are at most."""

    @abstractmethod
    def output_norm(self, input_norm: float | None = None) -> float | None:
        """Largest L2 norm of a row that comes out; None if unknown."""

    # Not stored, so that fitted state of older versions says it too.
    @property
    def output_norm_(self) -> float | None:
        """Largest L2 norm of a row that comes out, whatever comes in. Public."""
        check_is_fitted(self)
        return self.output_norm()


class BringsToNorm(StatesOutputNorm):
    """A private step that brings rows to `data_norm_`, which is inf if it does not."""

    @abstractmethod
    def _planned_norm(self) -> float:
        """What `fit` would set `data_norm_` to."""

    def output_norm(self, input_norm: float | None = None) -> float | None:
        """Largest L2 norm of a row that comes out; None if there is no such bound.

        Parameters
        ----------
        input_norm : float or None, default=None
            Of the rows that come in; not used.

        Returns
        -------
        float or None
            By the parameters before the fit, as `data_norm_` after it. Public.
        """
        norm = getattr(self, "data_norm_", None)
        norm = self._planned_norm() if norm is None else norm
        return norm if math.isfinite(norm) else None
