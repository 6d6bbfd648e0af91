"""Compiled sums of gradients; importing this module imports numba."""

from __future__ import annotations

import math

import numpy as np

from skdp._compiled import compiled, compiled_exactly
from skdp.losses._base import LossId
from skdp.losses._kernel import (
    falling_exponential,
    plain_residual_of_one,
    plain_unweighted_of_one,
    residual_of_one,
    weight_of,
)
from skdp.sums._exact import MOST_ROWS, ROW_BITS
from skdp.tables._coded_kernel import SHARE_OF, STATE_AT, WHOLE, look_up_cells

# --------------------------------------- Compiled loops over gridded rows of one output
# Products and sums are of integers that are exact in double precision, so their order
# does not matter and the loops may be vectorised. Residuals are computed as written.


# Rows and numbers that stay in the nearest caches between loops.
_CHUNK, _NUMBERS = 256, 1 << 16
# Plain integers, which compiled code treats as constants.
_SIGMOID, _ERROR = int(LossId.SIGMOID), int(LossId.ERROR)
_SOFTMAX = int(LossId.SOFTMAX)


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
def _empty(part, total):
    """Move whole numbers from double precision to 64 bits."""
    for j in range(len(part)):
        total[j] += np.int64(part[j])
        part[j] = 0.0


@compiled_exactly
def add_gradients(rows, targets, present, weights, facts, form, constants, total):
    """Add the gradients of gridded rows to `total`; returns the sum of residuals.

    `facts` are an addend and the unit of products, an addend of raw predictions, and
    the clip and the factor of residuals. `present` is empty, or holds for each row
    whether it is present, or its share. `total` are whole numbers of 64 bits.
    """
    size = min(_CHUNK, max(1, _NUMBERS // len(weights)))
    buffer, part, n_added = np.empty(size), np.zeros(len(weights)), 0
    sum_of_units = 0.0
    for start in range(0, len(rows), size):
        end = min(start + size, len(rows))
        raw, chunk = buffer[: end - start], rows[start:end]
        n_added += end - start
        if n_added > MOST_ROWS:  # more would not be exact in double precision
            _empty(part, total)
            n_added = end - start
        _predict(chunk, weights, raw)
        _to_units(raw, targets[start:end], present[start:end], facts, form, constants)
        for i in range(len(raw)):
            sum_of_units += raw[i]
        _add_up(chunk, raw, part)
    _empty(part, total)
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


@compiled_exactly
def _shorten(units, squares, shortened):
    factor = shortened / np.sqrt(squares)
    for j in range(len(units)):
        units[j] = np.trunc(units[j] * factor)


@compiled_exactly
def _floor_far_row(row, scale, shortened, most, units):
    """As `_of_far` of `_grid_rows.py` does; False if a number is not finite."""
    largest = 0.0
    for j in range(len(row)):
        if not np.isfinite(row[j]):
            return False
        largest = max(largest, abs(row[j]))
    power = ROW_BITS - math.frexp(scale)[1] - math.frexp(np.float64(largest))[1]
    squares = np.inf
    while not squares < most:
        half = power // 2
        first, second = math.ldexp(1.0, half), math.ldexp(1.0, power - half)
        for j in range(len(row)):
            units[j] = np.floor(row[j] * first * second * scale + 0.5)
        squares = _squares(units)
        power -= 4
    _shorten(units, max(squares, 1.0), shortened)
    return True


@compiled_exactly
def add_rows(rows, scale, longest, shortened, most, total):
    """Add dense rows on their grid, and last their squared norms over `longest`.

    False, and an unfinished total, if a row is not finite.
    """
    units = np.empty(rows.shape[1])
    for i in range(len(rows)):
        _floor_row(rows[i], scale, units)
        squares = _squares(units)
        if not squares < most:
            if not _floor_far_row(rows[i], scale, shortened, most, units):
                return False
            squares = _squares(units)
        elif squares > longest * longest:
            _shorten(units, squares, shortened)
            squares = _squares(units)
        for j in range(len(units)):
            total[j] += units[j]
        total[len(units)] += np.trunc(min(squares / longest, longest))
    return True


# ---------------------------------------- Compiled pass over rows of codes, any outputs
# A record's raw prediction is a sum of whole numbers, one for each code, and its
# residual, in whole units, is added to the sums of the same codes. A run of records
# stays in the nearest cache between these loops. Each record is computed by itself, as
# `_gradient_sum.py` computes rows of other kinds, to the last bit.


@compiled_exactly
def _look_up(codes, starts, table, raw):
    """Write the sum of the table's entries for each record."""
    for i in range(len(codes)):
        total = np.int64(0)
        for j in range(codes.shape[1]):
            # Unsigned indices need no test for negative values.
            total += table[np.uintp(starts[j]) + np.uintp(codes[i, j])]
        raw[i] = total


@compiled_exactly
def _add_to_codes(codes, starts, units, sums):
    """Add each record's units to the sums of its codes."""
    for i in range(len(codes)):
        own = np.int64(units[i])
        for j in range(codes.shape[1]):
            sums[np.uintp(starts[j]) + np.uintp(codes[i, j])] += own


@compiled_exactly
def _softmax_residuals(units, constants, targets, raw):
    """Overwrite raw predictions with residuals; `units` scale the exponentials."""
    n_outputs, n = raw.shape
    largest, total = raw[0].copy(), np.zeros(n)
    for k in range(1, n_outputs):
        for i in range(n):
            largest[i] = max(largest[i], raw[k, i])
    for k in range(n_outputs):
        for i in range(n):
            part = np.floor(falling_exponential(largest[i] - raw[k, i]) * units)
            raw[k, i] = part
            total[i] += part
    for k in range(n_outputs):
        for i in range(n):
            share = raw[k, i] / total[i] - (1.0 if targets[i] == k else 0.0)
            raw[k, i] = share * weight_of(constants, targets[i])


@compiled_exactly
def _residuals_of_one(form, constants, targets, raw):
    for i in range(len(raw)):
        raw[i] = plain_residual_of_one(form, constants, targets[i], raw[i])


@compiled_exactly
def _residuals_of_outputs(form, units, constants, targets, raw):
    """Overwrite raw predictions, one array for each output, with residuals."""
    n_outputs, n = raw.shape
    # Loops are vectorised only if the form is a constant, without branches.
    if form == _SOFTMAX:
        _softmax_residuals(units, constants, targets, raw)
    elif n_outputs > 1:  # one against the rest
        for k in range(n_outputs):
            for i in range(n):
                own = 1.0 if targets[i] == k else 0.0
                found = plain_unweighted_of_one(form, constants, own, raw[k, i])
                raw[k, i] = found * weight_of(constants, targets[i])
    elif form == _SIGMOID:
        _residuals_of_one(_SIGMOID, constants, targets, raw[0])
    elif form == _ERROR:
        _residuals_of_one(_ERROR, constants, targets, raw[0])
    else:
        _residuals_of_one(form, constants, targets, raw[0])


@compiled_exactly
def _clip(clip, constants, targets, residuals):
    """Clip residuals to a norm, times the weights of their labels."""
    n_outputs, n = residuals.shape
    if n_outputs == 1:
        for i in range(n):
            limit = clip * weight_of(constants, targets[i])
            residuals[0, i] = min(max(residuals[0, i], -limit), limit)
    elif clip < np.inf:
        factors = np.zeros(n)
        for k in range(n_outputs):
            for i in range(n):
                factors[i] += residuals[k, i] * residuals[k, i]
        for i in range(n):
            limit = clip * weight_of(constants, targets[i])
            factors[i] = limit / max(np.sqrt(factors[i]), limit)
        for k in range(n_outputs):
            for i in range(n):
                residuals[k, i] *= factors[i]


@compiled_exactly
def _round(scales, factor, present, are_shares, residuals):
    """Overwrite residuals with whole fine units; return their sum in coarse units.

    Coarse units are those of the intercept. If rows have shares, features move by whole
    coarse units too, so that a user's gradient moves along one ray.
    """
    coarse, fine, unit = scales
    total = np.int64(0)
    for i in range(len(residuals)):
        if len(present) and not present[i]:
            residuals[i] = 0.0
        own = np.floor(residuals[i] * coarse + 0.5)
        if are_shares:
            own = np.trunc(own * present[i])
            residuals[i] = own * unit
        total += np.int64(own)
        residuals[i] = np.floor(residuals[i] * factor[i] * fine + 0.5)
    return total


@compiled_exactly
def add_code_gradients(codes, records, tables, loss, scales, are_shares, sums, totals):
    """Add the gradients of rows of codes, in whole units, to `sums` and `totals`.

    `records` are targets, presence or shares (empty: all are present), and the factors
    of rows in sums. `tables` are where each column starts, whole numbers of shape
    (n_outputs, n_codes), their unit, and for each output two addends of raw
    predictions. `loss` is its form, its constants, the clip of residuals, and the scale
    of a softmax; `scales` are those of `_round`. `sums` have the shape of the table.
    """
    targets, present, factor = records
    starts, table, unit, addends = tables
    form, constants, clip, softmax_units = loss
    n_outputs = len(table)
    buffer = np.empty((n_outputs, _CHUNK))
    for first in range(0, len(codes), _CHUNK):
        last = min(first + _CHUNK, len(codes))
        run, own, size = codes[first:last], targets[first:last], last - first
        # A part of the buffer would not be contiguous.
        raw = buffer if size == _CHUNK else np.empty((n_outputs, size))
        for k in range(n_outputs):
            _look_up(run, starts, table[k], raw[k])
            for i in range(size):
                raw[k, i] = raw[k, i] * unit + addends[k, 0] + addends[k, 1]
        _residuals_of_outputs(form, softmax_units, constants, own, raw)
        _clip(clip, constants, own, raw)
        for k in range(n_outputs):
            there = factor[first:last], present[first:last], are_shares
            totals[k] += _round(scales, *there, raw[k])
            _add_to_codes(run, starts, raw[k], sums[k])


# ---------------------------------------- Compiled pass over rows of cells, any outputs
# Cells are explained in ``skdp/tables/_coded_kernel.py``.


@compiled_exactly
def _add_to_cells(cells, starts, units, sums):
    """Add each record's units to the sums of its states, and to the last sum."""
    for i in range(len(cells)):
        own = np.int64(units[i])
        sums[-1] += own
        for j in range(cells.shape[1]):
            cell = np.int64(cells[i, j])
            place = np.uintp(starts[j]) + np.uintp(cell >> STATE_AT)
            second = (cell >> 1) & SHARE_OF
            sums[place] += (WHOLE - second - (cell & 1)) * own
            sums[place + np.uintp(1)] += second * own


@compiled_exactly
def add_cell_gradients(cells, records, tables, loss, scales, are_shares, sums, totals):
    """Add the gradients of rows of cells, in whole units, to `sums` and `totals`.

    As `add_code_gradients`, for at most 2^16 rows. `tables` also have the products of
    the centre, and the norm of centred rows. The last sum is that of the residuals.
    """
    targets, present, factor = records
    starts, table, unit, moved, norm, addends = tables
    form, constants, clip, softmax_units = loss
    n_outputs = len(table)
    buffer, in_sums = np.empty((n_outputs, _CHUNK)), np.empty(_CHUNK)
    for first in range(0, len(cells), _CHUNK):
        last = min(first + _CHUNK, len(cells))
        run, own, size = cells[first:last], targets[first:last], last - first
        # A part of the buffer would not be contiguous.
        raw = buffer if size == _CHUNK else np.empty((n_outputs, size))
        for k in range(n_outputs):
            look_up_cells(run, starts, table[k], raw[k])
            for i in range(size):
                centred = (raw[k, i] * unit - moved[k]) * factor[first + i]
                raw[k, i] = centred + addends[k, 0] + addends[k, 1]
        _residuals_of_outputs(form, softmax_units, constants, own, raw)
        _clip(clip, constants, own, raw)
        for i in range(size):
            in_sums[i] = factor[first + i] * norm
        for k in range(n_outputs):
            there = in_sums[:size], present[first:last], are_shares
            totals[k] += _round(scales, *there, raw[k])
            _add_to_cells(run, starts, raw[k], sums[k])


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
