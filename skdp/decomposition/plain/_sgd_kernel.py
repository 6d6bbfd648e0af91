"""Compiled pass of stochastic gradient descent; importing this imports numba."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from skdp._compiled import compiled


@cache
def pass_of(width: int) -> Any:
    """The pass over one block, for rows of `width` numbers: a constant of its loops.

    A multiple of a register, so that no number of a row is left over.
    """

    def visit(first, last, users, items, targets, alphas, steps, p, q, p_own, q_own):
        """Take a step for each of the ratings from `first` to `last` in turn.

        Both rows of a rating move by the gradients at their values before it, each
        times its step over the root of its sum of squared gradients.

        `alphas` and `steps` are penalties and step sizes of biases and of factors.
        Changed in place: `p` and `q`, the factors, padded with zeros, and `p_own` and
        `q_own`, of width 4, with the bias, and the sums of squares of its gradients and
        of the factors', these averaged over a row.
        """
        zero, two = p.dtype.type(0), p.dtype.type(2)
        share = p.dtype.type(1 / max(width, 1))
        alpha_bias, alpha = alphas
        step_bias, step = steps
        for j in range(first, last):
            x, y = p[users[j]], q[items[j]]
            b, c = p_own[users[j]], q_own[items[j]]
            xy = xx = yy = zero
            for a in range(width):
                xy += x[a] * y[a]
                xx += x[a] * x[a]
                yy += y[a] * y[a]
            residual = targets[j] - b[0] - c[0] - xy
            square, cross = residual * residual, two * residual * alpha * xy
            ridge = alpha * alpha
            b[2] += share * max(square * yy - cross + ridge * xx, zero)
            c[2] += share * max(square * xx - cross + ridge * yy, zero)
            step_x, step_y = step / np.sqrt(b[2]), step / np.sqrt(c[2])
            keep_x, keep_y = -step_x * alpha, -step_y * alpha
            move_x, move_y = step_x * residual, step_y * residual
            for a in range(width):
                old = x[a]
                x[a] += keep_x * old + move_x * y[a]
                y[a] += keep_y * y[a] + move_y * old
            slope = residual - alpha_bias * b[0]
            b[1] += slope * slope
            b[0] += step_bias / np.sqrt(b[1]) * slope
            slope = residual - alpha_bias * c[0]
            c[1] += slope * slope
            c[0] += step_bias / np.sqrt(c[1]) * slope

    return compiled(visit)
