"""Predictions of networks that begin with convolutions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skdp._floats import FloatArray
from skdp._rows import clip_rows
from skdp.objectives._activations import Activation

# So few that their patches are no burden to memory.
_ROWS = 256


def convolved_raw(
    X: Any,
    norm: float,
    convolved: list[Any],
    layers: list[tuple[Any, Any]],
    activation: Activation,
) -> np.ndarray:
    """Raw predictions of rows that are clipped as in `fit`.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_rows, n_features)
    norm : float in (0, inf]
    convolved : list of ConvolutionLayer
    layers : list of pairs of ndarray
        Released weights and biases, of convolutions first.
    activation : Activation

    Returns
    -------
    ndarray of shape (n_rows, n_outputs)
    """
    starts = range(0, X.shape[0], _ROWS) or [0]
    return np.concatenate(
        [
            _of_some(X[start : start + _ROWS], norm, convolved, layers, activation)
            for start in starts
        ]
    )


def _of_some(
    X: Any,
    norm: float,
    convolved: list[Any],
    layers: list[tuple[Any, Any]],
    activation: Activation,
) -> FloatArray:
    rows = X.toarray() if issparse(X) else X
    values = clip_rows(rows, norm) if math.isfinite(norm) else rows
    for own, (coef, intercept) in zip(convolved, layers, strict=False):
        largest, _ = own.largest(own.patches(values) @ coef + intercept)
        values = activation.value(largest)
    n = len(convolved)
    raw = values @ layers[n][0] + layers[n][1]
    for coef, intercept in layers[n + 1 :]:
        raw = activation.value(raw) @ coef + intercept
    return np.asarray(raw)
