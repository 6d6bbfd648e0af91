"""Exact draws from finite laws, made from random words of the caller's entropy source.

Nothing is rounded, so all laws are exactly as stated. Whether a word is drawn again
depends only on the words, never on data.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise

import numpy as np

from skdp._arrays import IntArray
from skdp._checks import check_count, check_real
from skdp.privacy.noise._rounding import Entropy

# Candidates more e-folds below the best remaining one count as this far below.
DEEPEST = 64
# exp(-level) for every level, in units of 2**-256: relative errors below 2**-163.
_DIGITS = Context(prec=120)
_LEVEL_WEIGHTS = [
    int(_DIGITS.multiply(_DIGITS.exp(Decimal(-level)), Decimal(2**256)))
    for level in range(DEEPEST + 1)
]


def permutation(n: int, entropy: Entropy) -> IntArray:
    """A uniform order of 0, ..., n - 1: the ranks of distinct random words."""
    n = check_count("n", n, low=0, high=2**31)
    while True:
        words = entropy.words(n)
        order = np.argsort(words).astype(np.int64)
        ranked = words[order]
        if np.all(ranked[1:] > ranked[:-1]):  # false if two words are equal
            return order


def subset(n: int, size: int, entropy: Entropy) -> IntArray:
    """A uniform subset of 0, ..., n - 1 of a fixed size, in increasing order."""
    n = check_count("n", n, high=2**31)
    size = check_count("size", size, high=n)
    while True:
        words = entropy.words(n)
        chosen = np.flatnonzero(words <= np.partition(words, size - 1)[size - 1])
        if len(chosen) == size:  # false if words are equal, about once in 2^64 / n^2
            return chosen


def poisson_sample(n: int, rate: float, entropy: Entropy) -> IntArray:
    """Each of 0, ..., n - 1 independently with probability `rate`, in increasing order.

    The probability is rounded down to a multiple of 2^-64.
    """
    n = check_count("n", n, high=2**31)
    rate = check_real("rate", rate, low=0.0, high=1.0)
    if rate == 1:
        return np.arange(n)
    return np.flatnonzero(entropy.words(n) < np.uint64(math.floor(rate * 2.0**64)))


def integers(n: int, size: int, entropy: Entropy) -> IntArray:
    """`size` independent uniform draws from {0, ..., n - 1}."""
    n = check_count("n", n, high=2**63)
    # The largest word below the last multiple of n; larger words are drawn again.
    largest = np.uint64(2**64 - 2**64 % n - 1)
    words = entropy.words(size).copy()
    while (again := np.flatnonzero(words > largest)).size:
        words[again] = entropy.words(again.size)
    return (words % np.uint64(n)).astype(np.int64)


def weighted_index(weights: Sequence[int], entropy: Entropy) -> int:
    """An index drawn with probability exactly proportional to its integer weight."""
    total = sum(weights)
    if min(weights, default=0) < 0 or total <= 0:
        raise ValueError(
            "The 'weights' parameter must hold integers of at least 0 with a positive "
            f"sum. Got {weights!r}."
        )
    n_words = -(-total.bit_length() // 64)
    surplus = 64 * n_words - total.bit_length()
    place = total
    while place >= total:
        place = int.from_bytes(entropy.words(n_words).tobytes(), sys.byteorder)
        place >>= surplus
    return bisect_right(list(accumulate(weights)), place)


class Levels:
    """Candidates by e-folds below the best remaining one; drawing removes a candidate.

    A candidate `g` e-folds below the best has weight exp(-g), with g at most `DEEPEST`.
    Whole e-folds are levels, which are drawn by integer weights. The fractional part of
    `g` is handled by an exact acceptance, which takes less than three proposals on
    average. Remaining candidates are numbered from the best, and a list has the
    positions of removed ones, so that the time of a draw does not grow with the number
    of candidates.

    `gaps`, private, are steps below the best, each of `unit` e-folds.
    """

    def __init__(self, gaps: IntArray, unit: Fraction) -> None:
        self._order = np.argsort(gaps, kind="stable")
        self._gaps, self._unit = gaps[self._order], unit
        # The first step of each level.
        up, down = unit.denominator, unit.numerator
        steps = [min(-(-level * up // down), 2**62) for level in range(DEEPEST + 1)]
        self._steps = np.array(steps, dtype=np.int64)
        self._taken: list[int] = []  # positions, increasing

    def _place(self, number: int) -> int:
        """Position of a remaining candidate among all candidates."""
        taken = self._taken
        # Position taken[i] has taken[i] - i remaining candidates before it.
        before = bisect_right(range(len(taken)), number, key=lambda i: taken[i] - i)
        return number + before

    def starts(self) -> list[int]:
        """Numbers at which each level of remaining candidates begins, and the end."""
        best = self._gaps[self._place(0)]
        begins = np.searchsorted(self._gaps, best + self._steps).tolist()
        ends = [*begins, len(self._gaps)]
        return [place - bisect_left(self._taken, place) for place in ends]

    def gap(self, number: int) -> Fraction:
        """E-folds from the best remaining candidate to another one."""
        steps = int(self._gaps[self._place(number)] - self._gaps[self._place(0)])
        return min(steps * self._unit, Fraction(DEEPEST))

    def draw(self, entropy: Entropy, accepts: Callable[[Fraction], bool]) -> int:
        """A remaining candidate, drawn by its weight and removed.

        `accepts` is true with probability exp(-x) for a given x of at least 0.
        """
        starts = self.starts()
        counts = [end - start for start, end in pairwise(starts)]
        weights = [n * w for n, w in zip(counts, _LEVEL_WEIGHTS, strict=True)]
        while True:
            level = weighted_index(weights, entropy)
            number = starts[level] + int(integers(counts[level], 1, entropy)[0])
            if accepts(self.gap(number) - level):
                break
        place = self._place(number)
        insort(self._taken, place)
        return int(self._order[place])


# Number of separate levels; candidates below the lowest level are put into it.
_KEPT_LEVELS = 512


class Ranking:
    """Candidates ordered by level, updated by the code that changes their scores.

    A level has ``2**shift`` magnitudes of a score. Code that changes a score also moves
    its candidate, by one swap for each level crossed, so that the time of a draw grows
    with the number of levels and not of candidates. The stored order affects only the
    time of a draw, never its law.

    `scores`, private, are int64 of magnitude below 2**63, which other code changes in
    place; `shift` is in [0, 62]. `order` has the candidates by increasing level, and
    `place` has the position of each; `starts` has the position in `order` at which each
    level starts, and the end of the last. `first` is the lowest separate level.
    """

    def __init__(self, scores: IntArray, shift: int) -> None:
        self.scores, self.shift = scores, shift
        self.sort()

    def sort(self) -> None:
        """Order all candidates, with the best in the middle of the separate levels."""
        levels = np.abs(self.scores)
        levels >>= self.shift  # in place: there may be millions
        self.first = max(0, int(levels.max()) - _KEPT_LEVELS // 2)
        levels -= self.first
        kept = np.clip(levels, 0, _KEPT_LEVELS - 1, out=levels).astype(np.int16)
        del levels
        self.order = self.place = np.empty(0, dtype=np.int32)
        self.order = np.argsort(kept, kind="stable").astype(np.int32)
        self.place = np.empty_like(self.order)
        self.place[self.order] = np.arange(len(kept), dtype=np.int32)
        counts = np.bincount(kept, minlength=_KEPT_LEVELS)
        self.starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    def settle(self) -> int:
        """The highest level with a candidate, counted from `first`."""
        top = self._top()
        is_cut = self.first > 0 and top < _KEPT_LEVELS // 4
        if top == _KEPT_LEVELS - 1 or is_cut:
            self.sort()
            top = self._top()
        return top

    def _top(self) -> int:
        return int(np.searchsorted(self.starts, len(self.order))) - 1


@lru_cache(maxsize=16)
def _weights_by_level(folds: Fraction) -> tuple[int, ...]:
    """exp(-level * folds) for all less than `DEEPEST`, in units of 2**-256."""
    one = _DIGITS.divide(Decimal(-folds.numerator), Decimal(folds.denominator))
    n_levels = min(math.ceil(DEEPEST / folds), _KEPT_LEVELS)
    weights = (_DIGITS.exp(_DIGITS.multiply(one, level)) for level in range(n_levels))
    return tuple(int(_DIGITS.multiply(weight, 2**256)) for weight in weights)


def signed_choice(
    ranking: Ranking,
    unit: Fraction,
    entropy: Entropy,
    accepts: Callable[[Fraction], bool],
) -> tuple[int, int]:
    """A candidate and a sign, drawn with weight exp(unit * sign * score).

    A level is drawn as if its members were at its upper end, then a member and a sign;
    an exact acceptance corrects the excess. All members more than `DEEPEST` e-folds
    down form one group, drawn as if at that distance. Less than ten proposals are
    expected if a level is at most one e-fold.
    """
    top = ranking.settle()
    weights = _weights_by_level(unit * 2**ranking.shift)
    lowest = max(0, top - len(weights) + 1)
    # Group 0 has all levels below `lowest`; group g is level lowest + g - 1.
    ends = [0, *ranking.starts[lowest : top + 2].tolist()]
    heights = [_LEVEL_WEIGHTS[DEEPEST], *reversed(weights[: top - lowest + 1])]
    counts = [end - start for start, end in pairwise(ends)]
    masses = [n * weight for n, weight in zip(counts, heights, strict=True)]
    while True:
        group = weighted_index(masses, entropy)
        drawn = int(integers(2 * counts[group], 1, entropy)[0])
        candidate = int(ranking.order[ends[group] + drawn // 2])
        sign = 1 - 2 * (drawn % 2)
        level = ranking.first + (lowest + group if group else top + 1)
        below = ((level << ranking.shift) - 1) - sign * int(ranking.scores[candidate])
        if accepts(below * unit - (0 if group else DEEPEST)):
            return candidate, sign
