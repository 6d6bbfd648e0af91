"""Labels as signs: what losses of margins are made of."""

from __future__ import annotations

import numpy as np

from skdp._floats import FloatArray


def signs_of(y: FloatArray, n_outputs: int) -> FloatArray:
    """+1 for the outputs that should be positive, -1 for the others.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        0 or 1 for one output, else classes in {0, ..., n_outputs - 1}.
    n_outputs : int

    Returns
    -------
    ndarray of shape (n_rows, n_outputs) or (n_rows, 1)
    """
    if n_outputs == 1:
        return np.asarray(2 * y[:, None] - 1)
    return np.where(y[:, None] == np.arange(n_outputs), 1.0, -1.0)
