"""Declared bounds of features, and features in units of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from skdp._floats import FloatArray
from skdp._input import in_column_order


def middle_and_half(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Middle and half width of bounds, which may be close or far apart."""
    return low / 2 + high / 2, high / 2 - low / 2


def to_unit(X: np.ndarray, low: FloatArray, high: FloatArray) -> FloatArray:
    """X clipped to its bounds and moved to [-1, 1], in double precision; NaN stays."""
    middle, half = middle_and_half(low, high)
    with np.errstate(all="ignore"):
        return np.asarray(np.clip((np.clip(X, low, high) - middle) / half, -1.0, 1.0))


def match_bounds(
    bounds: Any, n_features: int, names: Any
) -> tuple[FloatArray, FloatArray]:
    """Lower and upper bound of each column."""
    pairs = None
    _refuse_order_of_scipy(bounds)
    if isinstance(bounds, Mapping):
        pairs = in_column_order("bounds", bounds, names)
    try:
        if pairs is not None:
            bounds = tuple(zip(*((low, high) for low, high in pairs), strict=True))
        low, high = (
            np.broadcast_to(np.asarray(side, dtype=np.float64), (n_features,))
            for side in bounds
        )
        half = high / 2 - low / 2
        is_valid = bool(np.all(np.isfinite(low) & np.isfinite(high) & (half > 0)))
    except (TypeError, ValueError):
        is_valid = False
    if not is_valid:
        raise ValueError(
            "The 'bounds' parameter must be a pair (low, high) of finite numbers or "
            f"of {n_features} finite numbers each, with low < high, or a mapping from "
            f"column names to pairs. Got {bounds!r}. Use what is known of the "
            "quantity, never the minimum and maximum of the data."
        )
    return low.copy(), high.copy()


def _refuse_order_of_scipy(bounds: Any) -> None:
    """Refuse a list of tuples, which means one pair for each column elsewhere.

    For two columns it could be read either way, and wrong bounds raise nothing.
    """
    if not isinstance(bounds, list) or not bounds:
        return
    if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in bounds):
        return
    low, high = ([pair[side] for pair in bounds] for side in (0, 1))
    raise ValueError(
        "The 'bounds' parameter must be a pair (low, high), or a mapping from column "
        f"names to pairs. Got a list of pairs, {bounds!r}, as SciPy has one for each "
        f"column. If so, pass ({low!r}, {high!r}); if not, pass a tuple of two lists."
    )
