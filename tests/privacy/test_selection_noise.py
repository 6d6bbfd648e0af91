"""Private selection and uniform draws: the exact laws, and pure epsilon exactly."""

from __future__ import annotations

import itertools
import math
import sys
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from skdp.privacy.noise._noise import NoiseSource, laplace_scale, selection_gaps
from skdp.privacy.noise._rounding import SeededEntropy
from skdp.privacy.noise._selection import (
    _LEVEL_WEIGHTS,
    DEEPEST,
    Levels,
    integers,
    permutation,
    poisson_sample,
    subset,
    weighted_index,
)

MECHANISMS = ("permute_and_flip", "exponential_mechanism")
every_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)
# False alarm of each chi-square test with a fresh seed; the seeds are fixed.
ALARM = 1e-9


class Tape:
    """Entropy that hands out given words in order."""

    def __init__(self, words):
        self._words = [int(word) for word in words]

    def words(self, size):
        taken, self._words = self._words[:size], self._words[size:]
        assert len(taken) == size, "the tape is at its end"
        return np.array(taken, dtype=np.uint64)


def law_of(mechanism, gaps):
    """Probability of each index, to 40 digits, from the gaps of the mechanism."""
    with mpmath.workdps(60):
        accept = [mpmath.exp(-mpmath.mpf(g.numerator) / g.denominator) for g in gaps]
        if mechanism == "exponential_mechanism":
            return [p / mpmath.fsum(accept) for p in accept]
        return [
            p * _none_before([q for j, q in enumerate(accept) if j != i])
            for i, p in enumerate(accept)
        ]


def _none_before(others):
    """Probability that no other index is accepted before: arrival times are uniform.

    That is the integral of prod_j (1 - q_j t) over t from 0 to 1.
    """
    polynomial = [mpmath.mpf(1)]
    for q in others:
        shifted = [mpmath.mpf(0), *(-q * c for c in polynomial)]
        polynomial = [a + b for a, b in zip([*polynomial, 0], shifted, strict=True)]
    return mpmath.fsum(c / (k + 1) for k, c in enumerate(polynomial))


def chi_square(counts, probabilities):
    """P-value of observed counts; categories of expectation below 10 are joined."""
    probabilities = np.array([float(p) for p in probabilities])
    counts = np.asarray(counts, dtype=float)
    common = counts.sum() * probabilities >= 10
    observed = [*counts[common], counts[~common].sum()]
    expected = [*probabilities[common], max(0.0, 1 - probabilities[common].sum())]
    if expected[-1] * counts.sum() < 1e-9:
        assert observed.pop() == 0
        expected.pop()
    expected = np.array(expected) / sum(expected) * counts.sum()
    return stats.chisquare(observed, expected).pvalue


# The law -------------------------------------------------------------------------

CASES = {
    "ties": ([3.0, 3.0, 1.0, 2.0], 1.0, 2.0),
    "far": ([1e6, 0.0, -math.inf, 1e6 - 1], 1.0, 0.5),
}


def frequencies(mechanism, case, shrink, runs=6000):
    scores, sensitivity, epsilon = case
    source = NoiseSource(1)
    draw = getattr(source, mechanism)
    asked = {"sensitivity": sensitivity, "epsilon": epsilon / shrink}
    picks = [draw(np.array(scores), **asked) for _ in range(runs)]
    return np.bincount(picks, minlength=len(scores))


@every_mechanism
@pytest.mark.parametrize("case", CASES)
def test_picks_follow_the_exact_law_and_twins_are_caught(mechanism, case):
    scores, sensitivity, epsilon = CASES[case]
    gaps = selection_gaps(np.array(scores), sensitivity=sensitivity, epsilon=epsilon)
    law = law_of(mechanism, gaps)
    counts = frequencies(mechanism, CASES[case], 1.0)
    assert chi_square(counts, law) > ALARM
    half = frequencies(mechanism, CASES[case], 0.5, runs=4000)
    assert chi_square(half, law) < ALARM
    other = law_of(*(name for name in MECHANISMS if name != mechanism), gaps)
    assert chi_square(counts, other) < ALARM


def test_acceptance_has_the_exact_probability():
    """Of every 63-bit lead, those below 2**63 exp(-gap) accept, and no other."""
    gap = Fraction(7, 10)
    with mpmath.workdps(60):
        boundary = int(mpmath.floor(mpmath.ldexp(mpmath.exp(mpmath.mpf(-7) / 10), 63)))
        rest = mpmath.ldexp(mpmath.exp(mpmath.mpf(-7) / 10), 63) - boundary
        digits = int(mpmath.floor(mpmath.ldexp(rest, 64)))
    source = NoiseSource()
    for words, accepted in [
        ([2 * (boundary - 2)], True),
        ([2 * (boundary + 2)], False),
        ([2 * boundary, digits - 4], True),
        ([2 * boundary, digits + 4], False),
    ]:
        source._entropy = Tape(words)
        assert source._accepts(gap) is accepted
    source._entropy = NoiseSource(0)._entropy
    assert all(source._accepts(Fraction(0)) for _ in range(200))


# Pure epsilon, exactly -----------------------------------------------------------


def exact_loss(mechanism, first, second, gaps=selection_gaps, **asked):
    """Largest logarithm of a ratio of probabilities, in either direction."""
    laws = [law_of(mechanism, gaps(np.array(s), **asked)) for s in (first, second)]
    with mpmath.workdps(60):
        return max(abs(mpmath.log(p / q)) for p, q in zip(*laws, strict=True))


def random_pairs(count, sensitivity, seed=0):
    """Neighbouring scores, with entries on the edges of the grid's rounding."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        k = int(rng.integers(2, 6))
        scores = rng.uniform(-5, 5, k) * sensitivity * 10 ** rng.uniform(-2, 1)
        sign = rng.choice([-1.0, 1.0, rng.uniform(-1, 1)], k)
        yield scores, scores + sensitivity * sign


@every_mechanism
@pytest.mark.parametrize(("sensitivity", "epsilon"), [(1.0, 1.0), (0.037, 3.0)])
def test_the_exact_ratio_stays_within_epsilon(mechanism, sensitivity, epsilon):
    asked = {"sensitivity": sensitivity, "epsilon": epsilon}
    for pair in random_pairs(60, sensitivity):
        assert exact_loss(mechanism, *pair, **asked) <= epsilon


def half_missing(scores, *, sensitivity, epsilon):
    """Broken twin: exp(-epsilon (max - s) / sensitivity)."""
    return selection_gaps(scores, sensitivity=sensitivity, epsilon=2 * epsilon)


def without_charge(scores, *, sensitivity, epsilon):
    """Broken twin: the grid is not charged to the sensitivity."""
    grid = laplace_scale(sensitivity=sensitivity, epsilon=epsilon, size=1).grid
    on_grid = np.rint(scores / grid)
    unit = Fraction(grid) * Fraction(epsilon) / (2 * Fraction(sensitivity))
    return [int(on_grid.max() - score) * unit for score in on_grid]


@every_mechanism
def test_epsilon_is_nearly_attained_and_the_missing_half_is_caught(mechanism):
    """The best falls and a far worse one rises: no constant is wasted."""
    first, second = np.array([0.0, -90.0]), np.array([-1.0, -89.0])
    asked = {"sensitivity": 1.0, "epsilon": 1.0}
    assert 0.999 < exact_loss(mechanism, first, second, **asked) <= 1
    assert exact_loss(mechanism, first, second, half_missing, **asked) > 1.9


@every_mechanism
def test_a_grid_that_is_not_charged_is_caught(mechanism):
    """Scores beside a boundary of the grid move by more points than they should."""
    sensitivity, epsilon = 1.3, 1.0
    grid = laplace_scale(sensitivity=sensitivity, epsilon=epsilon, size=1).grid
    first = np.array([0.55, 0.45 - 2.0**21]) * grid
    second = first + sensitivity * np.array([-1.0, 1.0])
    asked = {"sensitivity": sensitivity, "epsilon": epsilon}
    assert exact_loss(mechanism, first, second, **asked) <= epsilon
    assert exact_loss(mechanism, first, second, without_charge, **asked) > epsilon


@every_mechanism
@pytest.mark.parametrize("epsilon", [1e-6, 1.0, 1e6])
def test_no_score_is_refused(mechanism, epsilon):
    source = NoiseSource(3)
    for scores in itertools.product([math.nan, math.inf, -math.inf, 1e308, 0.1], [0.0]):
        chosen = getattr(source, mechanism)(
            np.array(scores), sensitivity=1e-3, epsilon=epsilon
        )
        assert chosen in (0, 1)
    hidden = np.array([math.nan, 0.0])
    gaps = selection_gaps(hidden, sensitivity=1.0, epsilon=1.0)
    assert gaps[0] > 1e10
    assert gaps[1] == 0


# Uniform draws -------------------------------------------------------------------


def test_equal_words_are_drawn_again():
    assert list(subset(3, 1, Tape([7, 7, 9, 3, 8, 2]))) == [2]
    words = [7, 7, 1, 9, 3, 5]
    assert permutation(3, Tape(words)).tolist() == [1, 2, 0]
    assert permutation(0, Tape([])).tolist() == []
    assert permutation(1, Tape([4])).dtype == np.int64


def test_words_above_the_last_multiple_are_drawn_again():
    assert integers(3, 2, Tape([2**64 - 1, 4, 2**64 - 1, 5])).tolist() == [2, 1]
    assert integers(1, 2, Tape([2**64 - 1, 4])).tolist() == [0, 0]
    assert integers(2**63, 1, Tape([2**64 - 1])).tolist() == [2**63 - 1]


def test_weighted_index_ends_where_its_weights_end():
    weights = (2**60, 3 * 2**60)
    for place, index in [(2**60 - 1, 0), (2**60, 1), (2**62 - 1, 1)]:
        # The sum has 63 digits, and places beyond it are drawn again.
        tape = Tape([2**64 - 1, 2**63, 2 * place + 1])
        assert weighted_index(weights, tape) == index


def test_weights_of_any_size_are_drawn_from_as_they_are():
    """A sum of 73 digits takes two words, of which the last 55 digits are dropped."""
    weights = (2**70, 0, 3 * 2**70)
    for place, index in [(2**70 - 1, 0), (2**70, 2), (2**72 - 1, 2)]:
        drawn = place << 55
        words = [drawn % 2**64, drawn >> 64][:: 1 if sys.byteorder == "little" else -1]
        assert weighted_index(weights, Tape(words)) == index


@pytest.mark.parametrize(("n", "size"), [(5, 1), (5, 2), (4, 3)])
def test_every_subset_of_a_size_is_equally_likely(n, size):
    seeded = NoiseSource(5)
    sets = list(itertools.combinations(range(n), size))
    draws = [tuple(int(i) for i in seeded.subset(n, size)) for _ in range(3000)]
    counts = [draws.count(chosen) for chosen in sets]
    assert sum(counts) == 3000
    assert chi_square(counts, [1 / len(sets)] * len(sets)) > ALARM
    biased = [draws.count(sets[0]) * 2, *counts[1:]]
    assert chi_square(biased, [1 / len(sets)] * len(sets)) < ALARM


def test_poisson_samples_have_independent_entries_of_the_stated_rate():
    seeded = NoiseSource(6)
    draws = [seeded.poisson_sample(3, 0.3) for _ in range(4000)]
    patterns = [sum(1 << int(i) for i in draw) for draw in draws]
    counts = [patterns.count(k) for k in range(8)]

    def law(rate):
        ones = [bin(k).count("1") for k in range(8)]
        return [rate**k * (1 - rate) ** (3 - k) for k in ones]

    assert chi_square(counts, law(0.3)) > ALARM
    assert chi_square(counts, law(0.36)) < ALARM


def test_poisson_rates_are_rounded_down():
    below, at = 2**63 - 1, 2**63
    assert list(poisson_sample(2, 0.5, Tape([below, at]))) == [0]
    assert list(poisson_sample(2, 1.0, Tape([]))) == [0, 1]
    assert list(poisson_sample(2, 0.0, Tape([0, 1]))) == []


# Several at once -----------------------------------------------------------------


def order_law(scores, k, epsilon):
    """Probability of each sequence of `k` picks without replacement, sensitivity 1."""
    weights = np.exp(epsilon / 2 * (np.array(scores) - max(scores)))
    law = {}
    for picks in itertools.permutations(range(len(scores)), k):
        left, chance = weights.sum(), 1.0
        for i in picks:
            chance *= weights[i] / left
            left -= weights[i]
        law[picks] = chance
    return law


def picks_follow(law, shrink, runs=3000):
    source, scores = NoiseSource(2), np.array([1.0, 0.0, 2.0, 2.0])
    asked = {"sensitivity": 1.0, "epsilon": 2.0 / shrink}
    found = [tuple(source.top_k(scores, 2, **asked).tolist()) for _ in range(runs)]
    counts = [found.count(picks) for picks in law]
    return chi_square(counts, list(law.values())) > ALARM


def test_top_k_follows_the_exact_law_and_half_the_noise_is_caught():
    law = order_law([1.0, 0.0, 2.0, 2.0], 2, 2.0)
    assert picks_follow(law, 1.0)
    assert not picks_follow(law, 0.5)


def test_top_k_takes_every_candidate_once_however_far_below():
    source = NoiseSource(0)
    scores = np.array([0.0, -math.inf, math.nan, 1e300, -1e300, 5.0])
    picks = source.top_k(scores, 6, sensitivity=1e-3, epsilon=1.0)
    assert sorted(picks.tolist()) == list(range(6))
    assert picks[0] == 3
    many = source.top_k(np.zeros(3000), 2000, sensitivity=1.0, epsilon=1e-6)
    assert len(set(many.tolist())) == 2000
    with pytest.raises(ValueError, match="'k' parameter"):
        source.top_k(scores, 7, sensitivity=1.0, epsilon=1.0)


def test_every_candidate_is_in_its_level():
    """After picks, too: levels are below the best candidate left."""
    gaps = np.array([0, 2**40, 1, 2**52, 3, 2], dtype=np.int64)
    for unit in (Fraction(1), Fraction(1, 3), Fraction(2.0**-30), Fraction(5)):
        levels, taken = Levels(gaps, unit), []
        while len(taken) < len(gaps):
            left = np.sort(np.delete(gaps, taken))
            starts = levels.starts()
            assert (starts[0], starts[-1]) == (0, len(left))
            for level, (start, end) in enumerate(itertools.pairwise(starts)):
                for number in range(start, end):
                    steps = int(left[number] - left[0])
                    assert levels.gap(number) == min(steps * unit, DEEPEST)
                    assert int(levels.gap(number)) == level
            taken.append(levels.draw(SeededEntropy(len(taken)), lambda _: True))
        assert sorted(taken) == list(range(len(gaps)))


def test_weights_of_the_levels_are_exponentials():
    with mpmath.workdps(90):
        for level, weight in enumerate(_LEVEL_WEIGHTS):
            exact = mpmath.ldexp(mpmath.exp(-level), 256)
            assert abs(weight / exact - 1) < mpmath.ldexp(1, -160)


@pytest.mark.parametrize("bad", [[], [0], [2, -1]])
def test_weights_that_are_none_are_refused(bad):
    with pytest.raises(ValueError, match="with a positive sum"):
        weighted_index(bad, Tape([]))
