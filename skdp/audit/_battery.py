"""Signs of noise that is not what it should be, beside what a score tells.

Each looks for something that sound noise shows with next to no probability:

- repeats: runs that show the same numbers to the last bit. Noise has at least 2^12
  values in reach, unless outputs are few for all to see; then as many repeats are
  expected as their grid says, and as the few most frequent values say;
- low bits: noise of fewer digits than the sum that it is added to. The last digits are
  then those of the sum, the same in all runs, and others on the neighbour [1]_.

References
----------
.. [1] Mironov (2012). On significance of the least significant bits for differential
   privacy. CCS. https://doi.org/10.1145/2382196.2382264
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import pdtrc

from skdp._floats import FloatArray
from skdp.audit._outputs import Runs
from skdp.audit._score import scaling_of

# So many values of noise are in reach, at least.
_VALUES = 2.0**12
# Bits that must agree, in so many of the runs, and of how many different values.
_BITS, _QUORUM, _DISTINCT = 8, 0.9, 20
# Of the last bits some are lost by the rounding of sums of another size.
_ROUNDED = 4.0
_COLUMNS = 400
# Values of a column that may have probabilities of their own: both bounds, and zero.
_ATOMS = 3


def repeats(runs: Runs) -> tuple[int, float]:
    """Pairs of runs that show the same numbers, and how probable so many are.

    Returns
    -------
    pairs : int
    chance : float in [0, 1]
        1.0 if no output varies.
    """
    used = runs.table[:, np.ptp(runs.table, axis=0) > 0]
    if not used.size:
        return 0, 1.0
    counts = np.unique(used, axis=0, return_counts=True)[1]
    found = int(np.sum(counts * (counts - 1) // 2))
    n_pairs = len(used) * (len(used) - 1) / 2
    by_column = [_expected_share(x) + _share_of_atoms(x) for x in used.T[:_COLUMNS]]
    expected = n_pairs * max(min(by_column), 1 / _VALUES)
    return found, float(pdtrc(found - 1, expected)) if found else 1.0


def _share_of_atoms(column: FloatArray) -> float:
    """Share of pairs that agree on the most frequent values, such as bounds.

    They are expected to agree as often as they do: few seeds repeat many values.
    """
    shares = np.sort(np.unique(column, return_counts=True)[1]) / len(column)
    return float(np.sum(shares[-_ATOMS:] ** 2))


def _expected_share(column: FloatArray) -> float:
    """Share of pairs that agree if the column is Gaussian on its own grid."""
    values = np.unique(column)
    if len(values) < _DISTINCT:
        return 1.0
    grid = float(np.min(np.diff(values)))
    middle = np.quantile(column, [0.25, 0.75])
    deviation = float(middle[1] - middle[0]) / 1.349
    if deviation <= 0:
        return 1.0
    # The closest two of n values of a fine grid are closer by chance than the grid's
    # step is wide only if there are no repeats; a coarse grid shows itself.
    step = grid if _is_on(values, grid) else 0.0
    return min(1.0, step / (2 * math.sqrt(math.pi) * deviation))


def _is_on(values: FloatArray, grid: float) -> bool:
    """Whether all values are multiples of a step, from the first one on."""
    steps = (values - values[0]) / grid
    return bool(np.all(np.abs(steps - np.rint(steps)) < 1e-6 * (1 + np.abs(steps))))


def told_by_low_bits(inside: Runs, outside: Runs, n_samples: int) -> list[str]:
    """Columns whose last bits are the same in all runs, and differ between the two.

    Their own bits, or those of the sums that they are the means of.
    """
    used = scaling_of(inside, outside).used[:_COLUMNS]
    return [
        inside.names[j]
        for j in used
        if any(
            _has_own_bits(times * inside.table[:, j], times * outside.table[:, j])
            for times in (1, n_samples)
        )
    ]


def _has_own_bits(first: FloatArray, second: FloatArray) -> bool:
    largest = float(max(np.abs(first).max(), np.abs(second).max()))
    few = min(len(np.unique(first)), len(np.unique(second))) < _DISTINCT
    if few or not 1e-250 < largest < 1e250:
        return False
    unit = _ROUNDED * 2.0 ** (math.floor(math.log2(largest)) - 52)
    sides = [np.rint(side / unit).astype(np.int64) for side in (first, second)]
    for bits in range(_BITS, 50):
        found = [_common(side, bits) for side in sides]
        if None in found:
            return False
        if _differ(found[0], found[1], bits):
            return True
    return False


def _differ(a: int | None, b: int | None, bits: int) -> bool:
    # Neighbouring residues may come of one sum, rounded up and down.
    gap = ((a or 0) - (b or 0)) % (1 << bits)
    return min(gap, (1 << bits) - gap) > 1


def _common(whole: np.ndarray, bits: int) -> int | None:
    """The last bits that nearly all have; None if they do not."""
    values, counts = np.unique(whole & ((1 << bits) - 1), return_counts=True)
    at = int(np.argmax(counts))
    return int(values[at]) if counts[at] >= _QUORUM * len(whole) else None
