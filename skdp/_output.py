"""How released numbers become fitted attributes."""

from __future__ import annotations

from typing import Any

import numpy as np


def in_dtype(released: np.ndarray, dtype: Any) -> np.ndarray:
    """Released numbers in the dtype of X, its largest in place of an overflow."""
    largest = np.finfo(dtype).max
    clipped = np.clip(released, -largest, largest)
    return np.asarray(clipped.astype(dtype, copy=False))
