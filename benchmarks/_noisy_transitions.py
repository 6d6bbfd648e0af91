"""SCS13 and BST14 as aggregates: the descent of `bolt_on` with noise in every update.

For times only: the noise is that of general-purpose generators and hides nothing. The
batches of BST14 are taken in the order of the pass, as an aggregate must.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numba
import numpy as np

from skdp.losses._kernel import residual_of_one
from skdp.papers._bolt_on_kernel import _load, _update
from skdp.papers._bolt_on_postgres import DescentText

# Kinds of noise: a Gaussian number for each weight, or of a spherical law.
NONE, GAUSSIAN, SPHERICAL = 0, 1, 2


@numba.njit
def noisy_pass(
    X, y, order, span, norm, steps, batch, alpha, radius, kind, scale, weights, gradient
):  # fmt: skip
    """`dense_pass` of one output without an intercept, and noise in the batches' sums.

    `scale` is the deviation of Gaussian noise, or the scale of a spherical norm.
    """
    d, place = weights.shape[1], span[0]
    row, noise = np.empty(d), np.empty(d)
    constants = (0.0, 0.0)
    for i in order:
        _load(X[i], norm, row)
        raw = 0.0
        for j in range(d):
            raw += row[j] * weights[0, j]
        e = residual_of_one(0, constants, y[i], raw)
        for j in range(d):
            gradient[0, j] += e * row[j]
        place += 1
        if place % batch == 0 or place == span[1]:
            if kind != NONE:
                square = 0.0
                for j in range(d):
                    noise[j] = np.random.normal(0.0, 1.0)  # noqa: NPY002 - compiled
                    square += noise[j] ** 2
                size = scale
                if kind == SPHERICAL:
                    size *= np.random.gamma(d, 1.0) / math.sqrt(square)  # noqa: NPY002 - compiled
                for j in range(d):
                    gradient[0, j] += size * noise[j]
            t = (place - 1) // batch
            _update(weights, gradient, steps[t], batch, alpha, radius)


_NORMAL = "sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random())"


@dataclass(frozen=True)
class NoisyText(DescentText):
    """The aggregate of PostgreSQL with noise in every update.

    Parameters
    ----------
    kind : int
    scale : float
    """

    kind: int = NONE
    scale: float = 0.0

    def _update(self) -> Iterator[str]:
        begins, *rest = super()._update()
        c = self.asked.n_columns
        yield begins
        if self.kind != NONE:
            normals = ", ".join([_NORMAL] * c)
            yield "DECLARE z double precision[]; BEGIN"
            yield f"z := ARRAY[{normals}]; t := {self.scale!r};"
            if self.kind == SPHERICAL:
                squares = " + ".join(f"z[{j}] * z[{j}]" for j in range(1, c + 1))
                # The norm's law is that of a sum of exponentials.
                lengths = " + ".join(["-ln(1 - random())"] * c)
                yield f"t := t * ({lengths}) / sqrt({squares});"
            noisy = ", ".join(f"s[{c + j}] + t * z[{j}]" for j in range(1, c + 1))
            yield f"s[{c + 1}:{2 * c}] := ARRAY[{noisy}];"
            yield "END;"
        yield from rest
