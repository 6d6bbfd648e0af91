"""Permuted descent as plain arithmetic, for sources that train where they are."""

from __future__ import annotations

from dataclasses import dataclass

from skdp._floats import FloatArray
from skdp.losses._base import Form


@dataclass(frozen=True, eq=False)
class PlainDescent:
    """What a descent of one output over all records is made of; public numbers.

    Pass j goes through the records in the order of a permutation of their ids by
    ``keys[j]``. Every `batch_size` of them, and the last of a pass, end an update,
    ``weights = (1 - step * alpha) * weights - step / batch_size * gradient``, which is
    projected to `radius` and enters the average with its share.

    Parameters
    ----------
    steps, shares : ndarray of shape (n_passes, updates_per_pass)
    keys : tuple of str of length n_passes
        Hexadecimal.
    batch_size, n_samples, n_features : int
    alpha : float
    radius : float in (0, inf]
    data_norm : float
        Rows are clipped to this norm, and followed by `intercept`.
    intercept : float or None
        None: rows have no column for it.
    form : Form
    form_constants : tuple of float
    """

    steps: FloatArray
    shares: FloatArray
    keys: tuple[str, ...]
    batch_size: int
    n_samples: int
    n_features: int
    alpha: float
    radius: float
    data_norm: float
    intercept: float | None
    form: Form
    form_constants: tuple[float, ...]

    @property
    def n_columns(self) -> int:
        """Weights, the intercept's included."""
        return self.n_features + (self.intercept is not None)
