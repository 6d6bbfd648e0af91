"""Compiled updates of integer gradient sums; importing this imports numba.

Everything in a sum is an integer, so sums are exact in any order, and an update equals
a new summation.
"""

from __future__ import annotations

from skdp._compiled import compiled
from skdp.losses._kernel import residual_of_one, weight_of


@compiled
def move_candidate(order, place, starts, first, j, before, after):
    """Move candidate j from one level to another, by one swap a level.

    Members of a level may be reordered, on which no law depends. The arrays are those
    of a `skdp.privacy.noise._selection.Ranking`; levels are counted from 0, not from
    `first`.
    """
    last = len(starts) - 2
    level = min(max(before - first, 0), last)
    wanted = min(max(after - first, 0), last)
    at = place[j]
    while level != wanted:
        if level < wanted:  # the last of the level becomes the first of the next
            level += 1
            starts[level] -= 1
            to = starts[level]
        else:
            to = starts[level]
            starts[level] += 1
            level -= 1
        other = order[to]
        order[at] = other
        place[other] = at
        order[to] = j
        at = to
    place[j] = at


@compiled
def add_to_score(scores, order, place, starts, shift, first, j, change):
    """Change the score of candidate j of a `Ranking`."""
    before = abs(scores[j]) >> shift
    scores[j] += change
    after = abs(scores[j]) >> shift
    if before != after:
        move_candidate(order, place, starts, first, j, before, after)


@compiled
def round_residuals(
    starts_of_rows, targets, shares, raw, residuals, form, constants, per_unit, most,
    changes,
):  # fmt: skip
    """Round all residuals at `raw`; return the changes that sums must follow.

    Where `shares` is 0 there is a null record, whose residual stays 0. A share below 1
    belongs to a user's row; the rounded residual is multiplied by it and cut towards 0.
    `residuals` change in place, and `changes` are their changes. `form` and `constants`
    describe the loss. `per_unit` steps of a rounded residual are one unit, and its
    magnitude is at most `most`, times the record's weight if the loss has weights.

    Returns
    -------
    total, touched : int
        Sum of the changes, and number of entries of the records with a new residual.
    """
    total, touched = 0, 0
    for i in range(len(targets)):
        if shares[i] == 0.0:
            continue
        error = residual_of_one(form, constants, targets[i], raw[i]) * per_unit
        own = most * weight_of(constants, targets[i])
        rounded = int(shares[i] * round(min(max(error, -own), own)))
        changes[i] = rounded - residuals[i]
        residuals[i] = rounded
        total += changes[i]
        if changes[i] != 0:
            touched += starts_of_rows[i + 1] - starts_of_rows[i]
    return total, touched


@compiled
def add_by_rows(
    values, columns, starts_of_rows, changes, scores, order, place, starts, shift, first
):
    """Subtract the changed records' parts from the scores; visit no other record."""
    for i in range(len(changes)):
        if changes[i] == 0:
            continue
        for p in range(starts_of_rows[i], starts_of_rows[i + 1]):
            # The code of `add_to_score`, since a call would cost more.
            j = columns[p]
            before = abs(scores[j]) >> shift
            scores[j] -= changes[i] * values[p]
            after = abs(scores[j]) >> shift
            if before != after:
                move_candidate(order, place, starts, first, j, before, after)


@compiled
def add_by_columns(
    values, rows, starts_of_columns, changes, scores, order, place, starts, shift, first
):
    """`add_by_rows` for all records: every score is visited once, and in order."""
    for j in range(len(starts_of_columns) - 1):
        change = 0
        for p in range(starts_of_columns[j], starts_of_columns[j + 1]):
            change -= changes[rows[p]] * values[p]
        if change == 0:
            continue
        before = abs(scores[j]) >> shift
        scores[j] += change
        after = abs(scores[j]) >> shift
        if before != after:
            move_candidate(order, place, starts, first, j, before, after)
