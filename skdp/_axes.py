"""Where pictures are drawn; matplotlib is imported when one is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np


def new_axes(instead: str) -> Any:
    """Axes of a new figure.

    Raises ImportError without matplotlib, and says what to read `instead`.
    """
    return _pyplot(instead).subplots(layout="constrained")[1]


def new_grid(n_shown: int, n_cols: int, instead: str) -> np.ndarray:
    """Axes of a new figure for several pictures in rows of `n_cols`, one array."""
    n_cols = max(min(n_cols, n_shown), 1)
    n_rows = max(-(-n_shown // n_cols), 1)
    _, axes = _pyplot(instead).subplots(
        n_rows,
        n_cols,
        figsize=(4 * n_cols, 3 * n_rows),
        layout="constrained",
        squeeze=False,
    )
    return np.ravel(axes)


def _pyplot(instead: str) -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError(
            "A picture needs matplotlib. Install it with pip install matplotlib, or "
            f"read {instead}."
        ) from None
    return plt
