"""Compiled sums of gradients; importing this module imports numba."""

from __future__ import annotations

import numpy as np

from skdp._compiled import compiled, compiled_exactly
from skdp.losses._base import LossId
from skdp.losses._kernel import plain_residual_of_one, residual_of_one, weight_of

# --------------------------------------- Compiled loops over gridded rows of one output
# Products and sums are of integers that are exact in double precision, so their order
# does not matter and the loops may be vectorised. Residuals are computed as written.


_CHUNK = 256  # rows that stay in the nearest caches between loops
# Plain integers, which compiled code treats as constants.
_SIGMOID, _ERROR = int(LossId.SIGMOID), int(LossId.ERROR)


@compiled
def _predict(rows, weights, raw):
    for i in range(len(rows)):
        product = 0.0
        for j in range(rows.shape[1]):
            product += rows[i, j] * weights[j]
        raw[i] = product


@compiled
def _add_up(rows, units, part):
    # Four rows at a time: sums are read and written a quarter as often.
    in_fours = len(rows) - len(rows) % 4
    for i in range(0, in_fours, 4):
        a, b, c, d = units[i], units[i + 1], units[i + 2], units[i + 3]
        for j in range(rows.shape[1]):
            part[j] += (
                a * rows[i, j]
                + b * rows[i + 1, j]
                + c * rows[i + 2, j]
                + d * rows[i + 3, j]
            )
    for i in range(in_fours, len(rows)):
        for j in range(rows.shape[1]):
            part[j] += units[i] * rows[i, j]


@compiled_exactly
def _residuals(raw, targets, facts, form, constants):
    """Overwrite products with residuals on their grid."""
    constant, unit, offset, limit, scale = facts
    for i in range(len(raw)):
        prediction = (raw[i] + constant) * unit + offset
        residual = plain_residual_of_one(form, constants, targets[i], prediction)
        own = limit * weight_of(constants, targets[i])
        raw[i] = np.floor(min(max(residual, -own), own) * scale + 0.5)


@compiled_exactly
def _to_units(raw, targets, present, facts, form, constants):
    """Overwrite products with residuals on their grid, 0 for null records."""
    # The loop is vectorised only if the form is a constant, without branches.
    if form == _SIGMOID:
        _residuals(raw, targets, facts, _SIGMOID, constants)
    elif form == _ERROR:
        _residuals(raw, targets, facts, _ERROR, constants)
    else:
        _residuals(raw, targets, facts, form, constants)
    for i in range(len(present)):
        # Multiply by presence, or by a share, and cut towards 0.
        raw[i] = np.trunc(raw[i] * present[i]) if present[i] else 0.0


@compiled_exactly
def add_gradients(rows, targets, present, weights, facts, form, constants, part):
    """Add the gradients of gridded rows to `part`; returns the sum of residuals.

    At most 2^13 rows. `facts` are an addend and the unit of products, an addend of raw
    predictions, and the clip and the factor of residuals. `present` is empty, or holds
    for each row whether it is present, or its share.
    """
    buffer = np.empty(_CHUNK)
    sum_of_units = 0.0
    for start in range(0, len(rows), _CHUNK):
        end = min(start + _CHUNK, len(rows))
        raw, chunk = buffer[: end - start], rows[start:end]
        _predict(chunk, weights, raw)
        _to_units(raw, targets[start:end], present[start:end], facts, form, constants)
        for i in range(len(raw)):
            sum_of_units += raw[i]
        _add_up(chunk, raw, part)
    return sum_of_units


@compiled_exactly
def _floor_row(row, scale, units):
    for j in range(len(row)):
        units[j] = np.floor(row[j] * scale + 0.5)


@compiled
def _squares(units):
    total = 0.0
    for j in range(len(units)):
        total += units[j] * units[j]
    return total


@compiled_exactly
def grid_block(rows, scale, longest, shortened, most, grid, squares):
    """Put dense rows on `grid` and shorten the long ones; `squares` of the far ones."""
    units = np.empty(rows.shape[1])
    for i in range(len(rows)):
        _floor_row(rows[i], scale, units)
        total = _squares(units)
        squares[i] = 0.0 if total < most else total
        if total > longest * longest and total < most:
            factor = shortened / np.sqrt(total)
            for j in range(len(units)):
                units[j] = np.trunc(units[j] * factor)
        for j in range(len(units)):
            grid[i, j] = units[j]


# ------------------------------ Compiled gradient pass over floating rows of one output
# The loop uses every row once, while it is in the nearest cache, instead of two
# products of the whole block. So large dense tables are read from memory once, and
# numbers in single precision are converted one by one. `GradientSum` decides when to
# use it.


@compiled
def add_double_gradients(
    rows, factor, targets, weights, intercept, form, constants, limit, total
):  # fmt: skip
    """Add the gradients of dense rows to `total`, and return the sum of the residuals.

    `rows` are float32 or float64 in row-major order. `factor` clips each row; a row of
    factor 0 is left out. `intercept` is added to every raw prediction, and `form` and
    `constants` describe the loss. The residual is clipped to `limit`, times the weight
    of its record if the loss has weights.
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
