"""Compiled updates of integer gradient sums; importing this imports numba.

Everything that enters a sum is an integer, so that sums are exact in any order and an
update gives what summing anew would.
"""

from __future__ import annotations

from skdp.solvers._permutation_kernel import compiled, residual_of_one


@compiled
def move_candidate(order, place, starts, first, j, before, after):
    """Move candidate j from one level to another, by one swap a level.

    Members of a level may change places among themselves, which no law depends on.

    Parameters
    ----------
    order, place, starts, first
        Of a `skdp.privacy._selection.Ranking`.
    j, before, after : int
        Levels are counted from 0, not from `first`.
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
def update_scores(
    values, columns, starts_of_rows, targets, present, raw, residuals, form, constants,
    per_unit, most, scores, order, place, starts, shift, first,
):  # fmt: skip
    """Bring the sums to the rounded residuals at `raw`.

    Only the entries of records whose rounded residual is another one are touched.

    Parameters
    ----------
    values, columns, starts_of_rows : ndarray of int32, int32 or int64, int64
        Rows in CSR.
    targets, raw : ndarray of float64 of shape (n,)
    present : ndarray of bool of shape (n,)
        False marks the null record, whose residual stays 0.
    residuals : ndarray of int64 of shape (n,)
        Of the present sums; changed in place.
    form, constants : int and tuple of two floats
        Of the loss.
    per_unit : float
        Steps of a rounded residual in one unit.
    most : int
        Bound on the magnitude of a rounded residual.
    scores, order, place, starts, shift, first
        Of a `Ranking`, whose scores are minus the sums; changed in place.

    Returns
    -------
    int
        Change of the sum of all residuals.
    """
    total = 0
    for i in range(len(targets)):
        if not present[i]:
            continue
        error = residual_of_one(form, constants, targets[i], raw[i]) * per_unit
        rounded = round(min(max(error, -most), most))
        change = rounded - residuals[i]
        if change == 0:
            continue
        residuals[i] = rounded
        total += change
        for p in range(starts_of_rows[i], starts_of_rows[i + 1]):
            # What `add_to_score` does, but a call costs more than this.
            j = columns[p]
            before = abs(scores[j]) >> shift
            scores[j] -= change * values[p]
            after = abs(scores[j]) >> shift
            if before != after:
                move_candidate(order, place, starts, first, j, before, after)
    return total
