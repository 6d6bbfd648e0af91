"""Random words, and continuous noise that is rounded exactly to a grid."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from skdp._arrays import FloatArray, IntArray

# -------- Sources of random words: the operating system, or a seed that determines them


class Entropy(Protocol):
    """A source of random words."""

    def words(self, size: int) -> NDArray[np.uint64]:
        """Independent uniform 64-bit words."""
        ...


@dataclass(frozen=True)
class SystemEntropy:
    """The operating system's cryptographic generator; forks and workers never share."""

    is_private: ClassVar[bool] = True

    def words(self, size: int) -> NDArray[np.uint64]:
        return np.frombuffer(os.urandom(8 * size), dtype=np.uint64)


class SeededEntropy:
    """A reproducible stream, for tests and teaching; its noise is not private."""

    is_private: ClassVar[bool] = False

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Philox(seed)

    def words(self, size: int) -> NDArray[np.uint64]:
        return np.asarray(self._generator.random_raw(size), dtype=np.uint64)


# ------------------------------------------ Continuous noise, rounded exactly to a grid


# The magnitude of N is the inverse survival function at a uniform P in (0, 1) whose
# binary digits are drawn as they are needed. 63 digits and double precision decide the
# rounded value except near a boundary between two grid points, where the distance is
# smaller than a bound on the floating-point error; there more digits of the *same* P
# are drawn and compared with the survival function at the boundary, enclosed in integer
# arithmetic, until the two separate. Proof and error bounds: ``docs/proofs/noise.md``.


# Assumed bound on the error of scipy.special.ndtri and numpy.log, relative to
# 1 + |result|: a thousand units in the last place. Measured below 2**-49 against
# the integer enclosures of this module (tests/privacy/test_noise.py).
_QUANTILE_ERROR = 2.0**-42
# Below this many of 2**63 the 63 digits drawn at first are too coarse.
_TAIL_DIGITS = 2**42
# Quantile error plus the effect of undrawn digits and of rounding P to a double
# (at most 1.26 * (2**-52 + 2**-43) for both laws; see the proof page).
_MARGIN = 2.0**-40


@lru_cache(maxsize=8)
def _pi(bits: int) -> int:
    """floor(pi * 2**bits) up to 2 units, from Machin's arctangent formula."""
    guard = bits + 32
    one = 1 << guard

    def arctan_inverse(n: int) -> int:
        power = one // n
        total, k, sign = power, 1, -1
        while power:
            power //= n * n
            k += 2
            total += sign * (power // k)
            sign = -sign
        return total

    return (4 * (4 * arctan_inverse(5) - arctan_inverse(239))) >> 32


class StandardLaw(Protocol):
    """A continuous law symmetric about zero, of unit scale."""

    def quantile(self, p: FloatArray) -> FloatArray:
        """Magnitude exceeded with probability `p`."""
        ...

    def survival(self, t: Fraction, bits: int) -> tuple[int, int]:
        """Integers (low, high) around ``2**bits * P(|N| > t)`` for t >= 0."""
        ...


class StandardGaussian:
    """N(0, 1)."""

    def quantile(self, p: FloatArray) -> FloatArray:
        return np.asarray(-ndtri(0.5 * p), dtype=np.float64)

    def survival(self, t: Fraction, bits: int) -> tuple[int, int]:
        # P(|N| > t) = 1 - sqrt(2/pi) * sum_k (-1)^k t^(2k+1) / (2^k k! (2k+1)).
        # No term exceeds t * exp(t^2/2) < 2**(0.73 t^2 + t), which with the growth
        # of rounding errors along the recursion costs 2 t^2 + 2 t bits at most.
        if t * t > Fraction(7, 5) * bits:  # exp(-t^2/2) < 2**-bits
            return 0, 1
        work = bits + 64 + 2 * math.ceil(t * t + t)
        work = -(-work // 128) * 128  # few distinct precisions, so pi is cached
        x = (t.numerator << work) // t.denominator
        square = (x * x) >> work
        term, total, k = x, x, 0
        while term:
            k += 1
            term = (term * square) >> (work + 1)
            term //= k
            total += (-term if k & 1 else term) // (2 * k + 1)
        inside = (total * math.isqrt((2 << (3 * work)) // _pi(work))) >> work
        shift = work - bits
        outside = (1 << work) - inside
        slack = 1 << (shift - 32)
        return (outside - slack) >> shift, ((outside + slack) >> shift) + 1


class StandardLaplace:
    """Density exp(-|x|) / 2."""

    def quantile(self, p: FloatArray) -> FloatArray:
        return np.asarray(-np.log(p), dtype=np.float64)

    def survival(self, t: Fraction, bits: int) -> tuple[int, int]:
        # exp(-t) by its series; terms stay below exp(t) < 2**(1.45 t).
        if t > Fraction(7, 10) * bits:  # exp(-t) < 2**-bits
            return 0, 1
        work = bits + 64 + 4 * math.ceil(t)
        x = (t.numerator << work) // t.denominator
        term = total = 1 << work
        k = 0
        while term:
            k += 1
            term = ((term * x) >> work) // k
            total += -term if k & 1 else term
        shift = work - bits
        slack = 1 << (shift - 32)
        return max(0, (total - slack) >> shift), ((total + slack) >> shift) + 1


def exceeds(law: StandardLaw, t: Fraction, digits: list[int], entropy: Entropy) -> bool:
    """Whether the magnitude at P exceeds `t`; draws more digits of P if needed.

    `digits` holds [leading integer, number of bits] and is extended in place, so that
    one P answers every comparison with it.
    """
    while True:
        lead, bits = digits
        low, high = law.survival(t, bits)
        if lead + 1 <= low:
            return True
        if lead >= high:
            return False
        digits[0] = (lead << 64) | int(entropy.words(1)[0])
        digits[1] = bits + 64


def _round_exactly(law: StandardLaw, lead: int, ratio: float, entropy: Entropy) -> int:
    """round(ratio * magnitude) for the P whose first 63 digits are `lead`."""
    exact_ratio = Fraction(ratio)
    digits = [lead, 63]
    while digits[0] < _TAIL_DIGITS:  # resolve the far tail before estimating
        digits[0] = (digits[0] << 64) | int(entropy.words(1)[0])
        digits[1] += 64
    probability = math.ldexp(float(digits[0]) + 0.5, -digits[1])
    k = round(ratio * float(law.quantile(np.array([probability]))[0]))
    half = Fraction(1, 2)
    while exceeds(law, (k + half) / exact_ratio, digits, entropy):
        k += 1
    while k > 0 and not exceeds(law, (k - half) / exact_ratio, digits, entropy):
        k -= 1
    return k


def rounded_draws(
    law: StandardLaw, ratio: float, size: int, entropy: Entropy
) -> IntArray:
    """`size` independent copies of round(ratio * N), rounded exactly."""
    words = entropy.words(size)
    lead = words >> np.uint64(1)
    probability = (lead.astype(np.float64) + 0.5) * 2.0**-63
    magnitude = law.quantile(probability)
    scaled = magnitude * ratio
    nearest = np.rint(scaled)
    doubt = (1.0 + magnitude) * (ratio * _MARGIN) + scaled * 2.0**-52
    unsure = (np.abs(scaled - nearest) > 0.5 - doubt) | (lead < _TAIL_DIGITS)
    draws = nearest.astype(np.int64)
    for i in np.flatnonzero(unsure):
        draws[i] = _round_exactly(law, int(lead[i]), ratio, entropy)
    np.negative(draws, out=draws, where=(words & np.uint64(1)).astype(bool))
    return draws


def _small_uniforms(size: int, entropy: Entropy) -> FloatArray:
    """Uniforms on (0, 1/2] with 61 significant digits, even if very small."""
    words = entropy.words(size).copy()
    exponent = np.full(size, -64)
    for i in np.flatnonzero(words < np.uint64(2**61)):
        word = int(words[i])
        while word < 2**64:
            word = (word << 64) | int(entropy.words(1)[0])
            exponent[i] -= 64
        shift = word.bit_length() - 64
        words[i], exponent[i] = np.uint64(word >> shift), exponent[i] + shift
    return np.asarray(np.ldexp(words.astype(np.float64) + 0.5, exponent - 1))


def _exponentials(size: int, entropy: Entropy) -> FloatArray:
    """Standard exponentials of small relative error at both ends."""
    small = _small_uniforms(size, entropy)
    is_upper = (entropy.words(size) & np.uint64(1)).astype(bool)
    return np.where(is_upper, -np.log(small), -np.log1p(-small))


def gamma(twice_shape: int, entropy: Entropy) -> float:
    """A Gamma variable of shape ``twice_shape / 2`` and scale 1.

    A sum of exponentials and, for the half, half the square of a standard Gaussian:
    half the square of a Gaussian pair's norm is exponential, its direction uniform.
    """
    total = math.fsum(_exponentials(twice_shape // 2, entropy))
    if twice_shape % 2:
        radius = float(_exponentials(1, entropy)[0])
        angle = float(_small_uniforms(1, entropy)[0]) * math.pi
        total += radius * math.sin(angle) ** 2
    return total
