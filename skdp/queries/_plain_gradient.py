"""A gradient sum as plain arithmetic, for sources that add up where the records are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from skdp._floats import FloatArray
from skdp.data import Block
from skdp.losses._base import Form


@dataclass(frozen=True, eq=False)
class PlainGradient:
    """What a gradient of one output at released weights is made of; public numbers.

    A row's numbers x become integers by the rule of ``_row_grid.py``, its raw
    prediction is ``(row @ weights + constant) * unit + offset``, its residual, of the
    plain form of ``losses/_plain.py`` and clipped to `limit`, becomes
    ``floor(residual * fineness + 1/2)``, and both are multiplied and added up.

    Parameters
    ----------
    weights : ndarray of shape (n_features,)
    constant, unit, offset : float
    scale : float
        What numbers are multiplied by before they are rounded.
    form : Form
    form_constants : tuple of float
    limit : float in (0, inf]
    fineness : float
    """

    weights: FloatArray
    constant: float
    unit: float
    offset: float
    scale: float
    form: Form
    form_constants: tuple[float, ...]
    limit: float
    fineness: float


@dataclass(frozen=True, eq=False)
class PlainSums:
    """Sums of integers, and the records that were left out. Private.

    Parameters
    ----------
    residuals : int
    products : list of int of length n_features
    far : iterable of Block
        Records whose squares on the grid add up to `MOST_SQUARES` or more.
    """

    residuals: int
    products: list[int]
    far: Iterable[Block]


class AddsUp(Protocol):
    """A source that can add up gradients itself."""

    def gradient_sums(self, asked: PlainGradient) -> PlainSums | None:
        """Sums over all records, in any order; None if it cannot."""
        ...
