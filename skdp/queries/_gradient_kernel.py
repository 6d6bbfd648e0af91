"""The compiled gradient pass for one output; importing this imports numba.

One visit of every row, while it is in the nearest cache, in place of two products of
the whole block: large dense tables are read from memory once, and single precision is
widened number by number. `GradientSum` decides when to use it.
"""

from __future__ import annotations

from skdp._compiled import compiled
from skdp.losses._kernel import residual_of_one, weight_of


@compiled
def add_gradients(
    rows, factor, targets, weights, intercept, form, constants, limit, total
):  # fmt: skip
    """Add the gradients of dense rows; returns the sum of their residuals.

    `rows` are float32 or float64 in row order. `factor` clips each row; 0 leaves the
    row out. `intercept` is added to every raw prediction, `form` and `constants` are
    those of the loss, and the residual is clipped to `limit`, times its record's
    weight if the loss has weights. `total` is added to.
    """
    sum_of_residuals = 0.0
    for i in range(len(rows)):
        if factor[i] == 0.0:
            continue
        product = 0.0
        for j in range(rows.shape[1]):
            product += rows[i, j] * weights[j]
        raw = product * factor[i] + intercept
        error = residual_of_one(form, constants, targets[i], raw)
        own = limit * weight_of(constants, targets[i])
        clipped = min(max(error, -own), own)
        sum_of_residuals += clipped
        clipped *= factor[i]
        for j in range(rows.shape[1]):
            total[j] += clipped * rows[i, j]
    return sum_of_residuals
