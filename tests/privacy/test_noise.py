"""The released numbers: right law, exact rounding, nothing told by floating point."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
from scipy import stats

import skdp
from skdp.privacy.noise import _noise, _rounding
from skdp.privacy.noise._noise import (
    _RELEASE_LIMIT,
    _VARIANCE_ERROR,
    NoiseSource,
    gaussian_scale,
    laplace_scale,
    spherical_scale,
)
from skdp.privacy.noise._rounding import (
    _QUANTILE_ERROR,
    _TAIL_DIGITS,
    SeededEntropy,
    StandardGaussian,
    StandardLaplace,
    SystemEntropy,
    _exponentials,
    _round_exactly,
    gamma,
    rounded_draws,
)

LAWS = {"gaussian": StandardGaussian(), "laplace": StandardLaplace()}
every_law = pytest.mark.parametrize("name", LAWS)


def true_survival(name, t):
    """P(|N| > t) in the current precision of mpmath; t is a Fraction."""
    t = mpmath.mpf(t.numerator) / t.denominator
    if name == "laplace":
        return mpmath.exp(-t)
    return mpmath.erfc(t / mpmath.sqrt(2))


def release(source, name, query, multiplier, sensitivity=1.0):
    """A release by either law; the multiplier is scale / sensitivity for both."""
    if name == "gaussian":
        return source.gaussian(
            query, sensitivity=sensitivity, noise_multiplier=multiplier
        )
    return source.laplace(query, sensitivity=sensitivity, epsilon=1 / multiplier)


def scale_of(name, multiplier, size, sensitivity=1.0):
    """The public layout of the noise that `release` adds."""
    if name == "gaussian":
        return gaussian_scale(
            sensitivity=sensitivity, noise_multiplier=multiplier, size=size
        )
    return laplace_scale(sensitivity=sensitivity, epsilon=1 / multiplier, size=size)


# Goodness of fit -----------------------------------------------------------------

N_DRAWS = 20_000


def fit_p_value(source, name, multiplier, size, shrink=1.0):
    """Two-sided Kolmogorov-Smirnov test of released zeros against the declared law.

    `shrink` plants a bug: the noise is drawn that much smaller than declared.
    """
    zeros = np.zeros(size)
    draws = np.concatenate(
        [
            release(source, name, zeros, shrink * multiplier)
            for _ in range(N_DRAWS // size)
        ]
    )
    sigma = scale_of(name, multiplier, size).sigma
    law = stats.norm if name == "gaussian" else stats.laplace
    return stats.kstest(draws, law(scale=sigma).cdf).pvalue


@every_law
@pytest.mark.parametrize(("multiplier", "size"), [(0.05, 200), (4000.0, N_DRAWS)])
def test_noise_has_the_declared_law_and_twins_are_caught(name, multiplier, size):
    def p_value(shrink):
        return fit_p_value(NoiseSource(12345), name, multiplier, size, shrink)

    assert p_value(1.0) > 1e-6
    assert p_value(0.7) < 1e-9
    assert p_value(1.3) < 1e-9


@every_law
def test_coordinates_and_calls_are_uncorrelated(name):
    source = NoiseSource(8)
    draws = np.array([release(source, name, np.zeros(2), 1.0) for _ in range(5000)])
    limit = 6 / math.sqrt(len(draws))
    assert abs(np.corrcoef(draws.T)[0, 1]) < limit
    assert abs(np.corrcoef(draws[1:, 0], draws[:-1, 0])[0, 1]) < limit


# Exact rounding ------------------------------------------------------------------


class Tape:
    """Entropy that hands out given words in order, then one word for ever."""

    def __init__(self, words, last=None):
        self._words, self._last = [int(word) for word in words], last

    def words(self, size):
        taken, self._words = self._words[:size], self._words[size:]
        missing = size - len(taken)
        assert missing == 0 or self._last is not None, "the tape is at its end"
        return np.array([*taken, *[self._last] * missing], dtype=np.uint64)


def far_out(query):
    """A Laplace release of which the first draw is as far below zero as words go."""
    source = NoiseSource()
    source._entropy = Tape([1, *[2**63] * (len(query) - 1)], last=2**40)
    return source.laplace(query, sensitivity=2.0, epsilon=1e-6)


def released_beyond_the_clamp():
    """What is released of the counts 0 and 3 where the draw is beyond the clamp."""
    counts = np.zeros((2, 20_000))
    counts[:, 0] = 0, 3
    return [far_out(query)[0] for query in counts]


def test_a_draw_beyond_the_clamp_shows_no_query(monkeypatch):
    assert len(set(released_beyond_the_clamp())) == 1
    # The twin clamps the draw where it clamps the release: the query, to a digit.
    monkeypatch.setattr(_noise, "_DRAW_LIMIT", _RELEASE_LIMIT)
    scale = laplace_scale(sensitivity=2.0, epsilon=1e-6, size=20_000)
    read = np.array(released_beyond_the_clamp()) + _RELEASE_LIMIT * scale.grid
    assert read.tolist() == [0.0, 3.0]


_rng = np.random.default_rng(20)
POINTS = [
    Fraction(0),
    Fraction(1, 2**200),
    *(Fraction(k, 10) for k in range(1, 121, 3)),
    *(Fraction(x) for x in _rng.uniform(0, 12, 40)),
    *(Fraction(int(k) * 2 + 1, 2 * 40961) for k in _rng.integers(0, 300_000, 40)),
    Fraction(20),
    Fraction(10**6),
]


def encloses(name, survival, t, bits):
    """Whether integers (low, high) hold 2**bits * P(|N| > t) tightly."""
    low, high = survival(t, bits)
    with mpmath.workprec(bits + 200):
        scaled = mpmath.ldexp(true_survival(name, t), bits)
        return low <= scaled <= high and high - low <= 3


@every_law
@pytest.mark.parametrize("bits", [63, 575])
def test_integer_enclosures_hold_the_survival_function_and_no_other(name, bits):
    survival = LAWS[name].survival
    assert all(encloses(name, survival, t, bits) for t in POINTS)

    def shifted(t, bits):  # the twin has a relative error of 2**-60 in t
        return survival(t * (1 + Fraction(1, 2**60)), bits)

    points = [t for t in POINTS if Fraction(1, 10) <= t <= 6]
    assert bits < 127 or not any(encloses(name, shifted, t, bits) for t in points)


def mp_exceeds(name, t, digits, bits):
    """Whether the magnitude at P, the middle of its known digits, exceeds t."""
    with mpmath.workprec(bits + 100):
        return true_survival(name, t) > mpmath.ldexp(digits + mpmath.mpf(0.5), -bits)


def is_rounded(name, k, lead, words, ratio):
    """Whether k = round(ratio * magnitude) for P = 0.(lead)(words)..."""
    digits, bits = int(lead), 63
    for word in words:
        digits, bits = (digits << 64) | int(word), bits + 64
    half, ratio = Fraction(1, 2), Fraction(ratio)
    above = k == 0 or mp_exceeds(name, (k - half) / ratio, digits, bits)
    return above and not mp_exceeds(name, (k + half) / ratio, digits, bits)


RATIOS = [0.3, 20_486.25, 3e9]
LEADS = [
    *(0, 1, 2, 3, 2**20, _TAIL_DIGITS - 1, _TAIL_DIGITS, _TAIL_DIGITS + 1),
    *(2**53 + 1, 2**62 - 1, 2**62, 2**63 - 2**10, 2**63 - 2, 2**63 - 1),
    *(int(lead) for lead in _rng.integers(0, 2**63, 20)),
]


def boundary_leads(name, ratio):
    """First digits of P that lie on the boundary between two grid points."""
    for k in (0, 1, 2, 17, 1000, 40_000):
        t = (k + Fraction(1, 2)) / Fraction(ratio)
        if t < 6:
            with mpmath.workprec(300):
                yield int(mpmath.floor(mpmath.ldexp(true_survival(name, t), 63)))


@every_law
@pytest.mark.parametrize("ratio", RATIOS)
def test_exact_rounding_agrees_with_high_precision(name, ratio):
    words = np.random.default_rng(3).integers(0, 2**64, 8, dtype=np.uint64)
    for lead in [*LEADS, *boundary_leads(name, ratio)]:
        k = _round_exactly(LAWS[name], lead, ratio, Tape(words))
        assert is_rounded(name, k, lead, words, ratio)
    # The far tail, whose first 63 digits are 0.
    for words in ([0, 0, 5, 7, 9], [0, 0, 0, 2**63, 1], [2**41, 3, 3, 3, 3]):
        k = _round_exactly(LAWS[name], 0, ratio, Tape(words))
        assert is_rounded(name, k, 0, words, ratio)


@every_law
@pytest.mark.parametrize("ratio", [0.2, 1e7])
def test_fast_path_agrees_with_the_exact_path(name, ratio, monkeypatch):
    # Both paths see the same P: its digits after the first 63 repeat one word, so
    # it does not matter how many of them a path asks for.
    words = np.random.default_rng(4).integers(0, 2**64, 1000, dtype=np.uint64)
    words[:4] = [0, 1, 2**64 - 1, 2**64 - 2]

    def draws():
        tape = Tape(words, last=0x123456789ABCDEF0)
        return rounded_draws(LAWS[name], ratio, len(words), tape)

    fast = draws()
    calls = []

    def counted(*arguments):
        calls.append(arguments)
        return _round_exactly(*arguments)

    monkeypatch.setattr(_rounding, "_round_exactly", counted)
    draws()
    assert len(calls) < 20  # the fast path is indeed taken
    monkeypatch.setattr(_rounding, "_MARGIN", 2.0**60)
    calls.clear()
    assert np.array_equal(draws(), fast)
    assert len(calls) == len(words)


@every_law
def test_margin_covers_a_quantile_of_the_assumed_error(name, monkeypatch):
    """The result may not change when the quantile is as wrong as the module allows."""
    law, ratio = LAWS[name], 20_486.25
    words = np.random.default_rng(5).integers(0, 2**64, 2000, dtype=np.uint64)
    leads = list(boundary_leads(name, ratio))
    words[: len(leads)] = np.array(leads, dtype=np.uint64) << np.uint64(1)

    class Off:
        survival = staticmethod(law.survival)

        def __init__(self, error):
            self.error = error

        def quantile(self, p):
            exact = law.quantile(p)
            return exact + self.error * (1 + exact)

    def draws(error):
        return rounded_draws(Off(error), ratio, len(words), Tape(words, last=99))

    honest = draws(0.0)
    assert np.array_equal(draws(_QUANTILE_ERROR), honest)
    assert np.array_equal(draws(-_QUANTILE_ERROR), honest)
    monkeypatch.setattr(_rounding, "_MARGIN", 0.0)  # broken twin: no margin
    twin = [draws(_QUANTILE_ERROR), draws(-_QUANTILE_ERROR)]
    assert not all(np.array_equal(draw, honest) for draw in twin)


def quantile_error(name, p):
    """Error of the double-precision quantile at p relative to 1 + |result|."""
    found = float(LAWS[name].quantile(np.array([p]))[0])
    with mpmath.workdps(80):
        q, p = mpmath.mpf(found), mpmath.mpf(p)
        if name == "laplace":
            error = q + mpmath.log(p)
        else:  # one Newton step is exact to the square of the error
            error = (p - mpmath.erfc(q / mpmath.sqrt(2))) / (2 * mpmath.npdf(q))
        return float(abs(error) / (1 + abs(q)))


QUANTILE_POINTS = {
    "random": _rng.uniform(0, 1, 300),
    "small": 2.0 ** _rng.uniform(-160, 0, 300),
    "near one": 1 - 2.0 ** _rng.uniform(-53, 0, 200),
    "extreme": np.r_[2.0**-63, 2.0**-21, 2.0**-1022, 1e-300, 0.5, 1 - 2.0**-53, 1.0],
}


@every_law
def test_quantile_error_is_far_below_the_assumed_bound(name):
    points = np.concatenate(list(QUANTILE_POINTS.values()))
    assert max(quantile_error(name, p) for p in points) < 2.0**-49
    assert _QUANTILE_ERROR >= 2.0**-42


# The grid ------------------------------------------------------------------------


@every_law
@pytest.mark.parametrize("size", [1, 5, 333])
def test_grid_is_charged_to_the_sensitivity(name, size):
    scale = scale_of(name, 3.0, size)
    steps = math.sqrt(size) if name == "gaussian" else size
    charged = Fraction(1) + Fraction(steps) * Fraction(scale.grid)
    assert Fraction(scale.sigma) / 3 >= charged * (1 - Fraction(1, 2**50))
    assert scale.sigma <= 3.0 * 1.001


def released_by(name, seed, query, sensitivity=1.0):
    """A release by one of three laws, its grid and its limit, in steps of the grid."""
    source = NoiseSource(seed)
    if name == "spherical":
        found = source.spherical(query, sensitivity=sensitivity, epsilon=0.5)
        scale = spherical_scale(sensitivity=sensitivity, epsilon=0.5, size=query.size)
        return found, scale.grid, 2.0**46
    found = release(source, name, query, 2.0, sensitivity)
    return found, scale_of(name, 2.0, query.size, sensitivity).grid, 2.0**52


@pytest.mark.parametrize("name", [*LAWS, "spherical"])
@pytest.mark.parametrize("sensitivity", [1e-200, 7.3, 1e150])
def test_releases_are_the_query_on_a_grid_plus_noise(name, sensitivity):
    """The grid is a power of two, and the noise is that of any other query."""
    for shape in ((1,), (4, 3), (1000,)):
        query = sensitivity * np.random.default_rng(6).normal(size=shape)
        before = query.copy()
        released, grid, limit = released_by(name, 6, query, sensitivity)
        noise, _, _ = released_by(name, 6, 0 * query, sensitivity)
        assert math.frexp(grid)[0] == 0.5
        norm = query.size if name == "laplace" else math.sqrt(query.size)
        assert grid * norm <= 2.0**-12 * sensitivity
        assert np.array_equal(np.rint(released / grid) * grid, released)
        assert np.array_equal(released - noise, np.rint(query / grid) * grid)
        assert np.array_equal(query, before)
    # No query is refused: it is clamped, and what is no number counts as 0.
    for value in (1e300, -math.inf, math.nan, sensitivity * 1e17):
        with np.errstate(all="ignore"):  # as where records are read
            released, grid, limit = released_by(name, 2, np.full(4, value), sensitivity)
        at = np.clip(np.nan_to_num(value), -limit / 2 * grid, limit / 2 * grid)
        same, _, _ = released_by(name, 2, np.full(4, at), sensitivity)
        assert np.array_equal(released, same)
        assert np.abs(released).max() <= limit * grid


# Entropy is never shared ---------------------------------------------------------


def some_noise(source):
    return source.gaussian(np.zeros(8), sensitivity=1.0, noise_multiplier=1.0)


def test_words_of_the_operating_system_repeat_nothing():
    words = np.concatenate([SystemEntropy().words(n) for n in (1, 7, 4096, 4096)])
    assert len(np.unique(words)) == len(words)


def test_seed_is_reproducible_and_not_private():
    first, second, other = NoiseSource(5), NoiseSource(5), NoiseSource(6)
    assert not first.is_private
    assert isinstance(first._entropy, SeededEntropy)
    draws = [some_noise(first), some_noise(first)]
    assert np.array_equal(draws, [some_noise(second), some_noise(second)])
    assert not np.array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], some_noise(other))


FORKING = r"""
import os, sys
import numpy as np
from skdp.privacy.noise._noise import NoiseSource
source = NoiseSource(eval(sys.argv[1]))
source.gaussian(np.zeros(8), sensitivity=1.0, noise_multiplier=1.0)
children = []
for _ in range(3):
    child = os.fork()
    if not child:
        children = []
        break
    children.append(child)
draw = source.gaussian(np.zeros(8), sensitivity=1.0, noise_multiplier=1.0)
os.write(1, (draw.tobytes().hex() + "\n").encode())  # one write, so none is torn
for child in children:
    os.waitpid(child, 0)
"""


def draws_of_a_family(seed):
    """What a parent and three forked children draw from one source."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING, repr(seed)],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(skdp.__file__).parents[1])},
        timeout=60,
    )
    return done.stdout.split()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_forks_never_share_noise():
    draws = draws_of_a_family(None)
    assert len(draws) == len(set(draws)) == 4
    # Broken twin: a generator that lives in memory is copied by a fork.
    twin = draws_of_a_family(0)
    assert len(twin) == 4
    assert len(set(twin)) == 1


# Pure epsilon, outcome by outcome ------------------------------------------------

BITS = 300


def laplace_probability(k, ratio):
    """Integers around 2**BITS * P(draw = k), from the module's own enclosures."""
    half, ratio, k = Fraction(1, 2), Fraction(ratio), abs(k)
    survival = LAWS["laplace"].survival
    outer = survival((k + half) / ratio, BITS)
    if k == 0:
        return (1 << BITS) - outer[1], (1 << BITS) - outer[0]
    inner = survival((k - half) / ratio, BITS)
    return (inner[0] - outer[1]) // 2, -((outer[0] - inner[1]) // 2)


def largest_ratio(ratio, steps):
    """Upper bound on P(outcome | x) / P(outcome | x + steps) over many outcomes."""
    rng = np.random.default_rng(0)
    near = range(-3, 4)
    outcomes = {*near, *(steps + k for k in near), *(-steps + k for k in near)}
    outcomes |= {int(k) for k in rng.integers(-4 * steps, 5 * steps, 60)}
    worst = Fraction(0)
    for k in outcomes:
        one, two = laplace_probability(k, ratio), laplace_probability(k - steps, ratio)
        worst = max(worst, Fraction(one[1], two[0]), Fraction(two[1], one[0]))
    return worst


def exp_below(epsilon):
    """A rational number just below exp(epsilon)."""
    with mpmath.workprec(200):
        return Fraction(
            int(mpmath.floor(mpmath.ldexp(mpmath.exp(epsilon), 150))), 2**150
        )


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_laplace_outcomes_obey_pure_epsilon_exactly(epsilon):
    scale = laplace_scale(sensitivity=1.0, epsilon=epsilon, size=1)
    # Two queries at most 1 apart are at most this many grid steps apart.
    steps = int(1.0 / scale.grid) + 1
    for apart in (1, steps // 2, steps):
        assert largest_ratio(scale.sigma / scale.grid, apart) <= exp_below(epsilon)
    # Broken twin: the grid is not charged to the sensitivity.
    uncharged = 1.0 / epsilon / scale.grid
    assert largest_ratio(uncharged, steps) > exp_below(epsilon)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 1e-320])
def test_a_scale_that_is_none_is_refused_before_any_draw(scale):
    with pytest.raises(ValueError, match="positive, finite scale"):
        NoiseSource().gaussian(np.zeros(2), sensitivity=scale, noise_multiplier=1.0)
    for draw in (NoiseSource().laplace, NoiseSource().spherical):
        with pytest.raises(ValueError, match="positive, finite scale"):
            draw(np.zeros(2), sensitivity=scale, epsilon=1.0)


# Spherical noise ------------------------------------------------------------------


def spherical_rows(source, size, count):
    zeros = np.zeros(size)
    return np.array(
        [source.spherical(zeros, sensitivity=1.0, epsilon=0.5) for _ in range(count)]
    )


def twin_of(shape, of_laplace=False, in_ball=False):
    """Draws that look like the mechanism: another direction, or law of the norm."""

    def draw(source, size, count):
        rng = np.random.default_rng(1)
        rows = rng.laplace(size=(count, size)) if of_laplace else None
        rows = rng.normal(size=(count, size)) if rows is None else rows
        rows /= np.linalg.norm(rows, axis=1)[:, None]
        radius = rng.gamma(shape(size), size=(count, 1))
        radius *= rng.uniform(size=(count, 1)) ** (1 / size) if in_ball else 1
        return rows * radius * scale_of_norm(size)

    return draw


def scale_of_norm(size):
    return spherical_scale(sensitivity=1.0, epsilon=0.5, size=size).sigma


def spherical_p_value(draw, size, seed=21):
    """Smallest p-value of the norm's and the direction's goodness of fit."""
    rows = draw(NoiseSource(seed), size, 3000)
    norms = np.linalg.norm(rows, axis=1)
    values = [stats.kstest(norms / scale_of_norm(size), stats.gamma(size).cdf).pvalue]
    unit = rows / norms[:, None]
    if size == 1:
        values.append(stats.binomtest(int(np.sum(unit > 0)), len(unit)).pvalue)
        return min(values)
    # Any coordinate u of a uniform direction: both of these have Beta laws.
    law, square = (
        stats.beta((size - 1) / 2, (size - 1) / 2),
        stats.beta(0.5, (size - 1) / 2),
    )
    axes = np.random.default_rng(5).normal(size=(2, size))
    axes = np.vstack([np.eye(size)[:2], axes / np.linalg.norm(axes, axis=1)[:, None]])
    values += [stats.kstest((1 + unit @ axis) / 2, law.cdf).pvalue for axis in axes]
    values += [stats.kstest((unit @ axis) ** 2, square.cdf).pvalue for axis in axes]
    # The norm and the direction are independent.
    values.append(stats.spearmanr(norms, np.abs(unit[:, 0])).pvalue)
    return min(values)


@pytest.mark.parametrize("size", [1, 3, 50])
def test_spherical_noise_has_its_law_in_norm_and_direction(size):
    assert spherical_p_value(spherical_rows, size) > 1e-5


SPHERICAL_TWINS = [
    (twin_of(lambda p: p - 1), 50),
    (twin_of(lambda p: p + 1), 1),
    (twin_of(lambda p: p, of_laplace=True), 3),
    (twin_of(lambda p: p, in_ball=True), 3),
]


@pytest.mark.parametrize(("twin", "size"), SPHERICAL_TWINS)
def test_broken_twins_of_spherical_noise_are_caught(twin, size):
    assert spherical_p_value(twin, size) < 1e-7


def mp_exponential(word, is_upper):
    """The exponential of a word that has no later digits, in high precision."""
    with mpmath.workdps(60):
        u = (mpmath.mpf(int(word)) + mpmath.mpf(0.5)) / mpmath.mpf(2) ** 65
        return -mpmath.log(u) if is_upper else -mpmath.log1p(-u)


def test_error_of_the_random_variance_is_far_below_the_assumed_bound():
    """Of its parts: exponentials and squares of sines, in a sum of positive terms."""
    words = np.random.default_rng(34).integers(2**61, 2**64, 400, dtype=np.uint64)
    for is_upper in (0, 1):
        found = _exponentials(400, Tape([*words, *[is_upper] * 400]))
        for value, word in zip(found, words, strict=True):
            exact = mp_exponential(word, is_upper)
            assert abs(mpmath.mpf(float(value)) / exact - 1) < 2.0**-50
    for word, angle in zip(words[:200], words[200:], strict=True):
        found = gamma(1, Tape([word, 0, angle]))
        with mpmath.workdps(60):
            turn = (mpmath.mpf(int(angle)) + mpmath.mpf(0.5)) / mpmath.mpf(2) ** 65
            exact = mp_exponential(word, 0) * mpmath.sin(mpmath.pi * turn) ** 2
            assert abs(mpmath.mpf(found) / exact - 1) < 2.0**-49
    assert _VARIANCE_ERROR >= 2.0**-47


@pytest.mark.parametrize(
    ("epsilon", "size"), [(1e-3, 1), (0.3, 333), (1.0, 20_000), (50.0, 5)]
)
def test_spherical_scale_is_one_sided_and_tight(epsilon, size):
    for sensitivity in (1e-150, 0.7, 1e150):
        scale = spherical_scale(sensitivity=sensitivity, epsilon=epsilon, size=size)
        assert math.frexp(scale.grid)[0] == 0.5
        charged = sensitivity + math.sqrt(size) * scale.grid
        excess = scale.sigma * epsilon / charged - 1
        assert 0 < excess <= 2e-3
        # What the rounded variance costs: proof page, with the norm of what is seen.
        seen = 1.5 * 2.0**46 * math.sqrt(size) * scale.grid / scale.sigma
        needed = _VARIANCE_ERROR * (size + seen) * (1 + 2.0**-40)
        assert charged / scale.sigma + needed <= epsilon
        # Broken twin: nothing is set aside.
        assert charged / (charged / epsilon) + needed > epsilon
