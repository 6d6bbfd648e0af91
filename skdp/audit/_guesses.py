r"""What many right guesses about one release say of its privacy.

Each of m canaries has two versions, and a public coin of its own says which one the
data hold. A guesser sees the release alone, names the versions of r canaries of his
choice, and v of the names are right. If one coin turned over is one step of the
adjacency, an (epsilon, delta)-private release is read so well with probability at most

    P(Binomial(r, p) >= v) + m delta / (1 + exp(epsilon)),  p = 1 / (1 + exp(-epsilon)),

[1]_, Theorem 5.2, with a term for delta of our own, and a mu-Gaussian private one with
probability at most the smallest tau that the recursion of [2]_ refutes. Both are
derived in ``docs/proofs/one_run.md``.

References
----------
.. [1] Steinke, Nasr and Jagielski (2023). Privacy auditing with one (1) training run.
   NeurIPS. https://arxiv.org/abs/2305.08846
.. [2] Mahloujifar, Melis and Chaudhuri (2024). Auditing f-differential privacy in one
   run. https://arxiv.org/abs/2410.22235
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from scipy.special import bdtrc, expit, ndtr, ndtri
from scipy.stats import norm

from skdp._validation import check_count

# What bisections end with; bounds are their refuted end.
_HALVINGS = 50
_LARGEST_EPSILON, _LARGEST_MU = 100.0, 20.0
_LEAST_TAU = 1e-300
# Beyond the rounding of at most 1e5 steps of the recursion.
_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class Guesses:
    """How many canaries there were, how many were guessed, and how many rightly.

    Parameters
    ----------
    n_canaries : int of at least 1
    n_guesses : int of at least 1 and at most `n_canaries`
        Fixed before the release is seen.
    n_right : int of at least 0 and at most `n_guesses`
    """

    n_canaries: int
    n_guesses: int
    n_right: int

    def __post_init__(self) -> None:
        check_count("n_canaries", self.n_canaries)
        check_count("n_guesses", self.n_guesses, high=self.n_canaries)
        check_count("n_right", self.n_right, low=0, high=self.n_guesses)

    def p_value(self, epsilon: float, delta: float) -> float:
        """Bound on the probability of guessing so well under (epsilon, delta)."""
        told = float(expit(epsilon))
        lucky = float(bdtrc(self.n_right - 1, self.n_guesses, told))
        return min(1.0, lucky + self.n_canaries * delta * float(expit(-epsilon)))

    def gaussian_p_value(self, mu: float) -> float:
        """Bound on the probability of guessing so well under mu-Gaussian privacy."""

        def is_refuted(power: float) -> bool:
            return self.refutes_gaussian(mu, 10.0**power)

        if is_refuted(math.log10(_LEAST_TAU)):
            return _LEAST_TAU
        if not is_refuted(0.0):
            return 1.0
        return float(10.0 ** _last(lambda x: not is_refuted(x), -300.0, 0.0)[1])

    def refutes_gaussian(self, mu: float, tau: float) -> bool:
        """Whether mu-Gaussian privacy makes this rarer than `tau`."""

        def least(power: float) -> float:
            return float(ndtr(ndtri(power) - mu)) if power > 0 else 0.0

        return self._least_total(tau, least) > 1 + _ROUNDING

    def _least_total(self, tau: float, least: Callable[[float], float]) -> float:
        """Least total probability of all counts, if so many right ones have `tau`.

        `least` gives the smallest false positive rate of a test by its power. `right`
        is the probability that a given canary is guessed rightly while there are j
        right guesses or more, `wrong` the same of wrong ones.
        """
        m, r, v = self.n_canaries, self.n_guesses, self.n_right
        right, wrong = tau * v / m, tau * (r - v) / m
        for j in range(v - 1, -1, -1):
            more = max(wrong, least(right)) - wrong
            right, wrong = right + j / (r - j) * more, wrong + more
        return (right + wrong) * m / r

    def least_epsilon(self, delta: float, confidence: float) -> float:
        """Largest epsilon that is refuted with this delta; 0.0 if none is."""
        tau = 1 - confidence
        return self._refuted(lambda e: self.p_value(e, delta) < tau, _LARGEST_EPSILON)

    def least_mu(self, confidence: float) -> float:
        """Largest mu that is refuted; 0.0 if none is."""
        tau = 1 - confidence
        return self._refuted(lambda mu: self.refutes_gaussian(mu, tau), _LARGEST_MU)

    def _refuted(self, is_refuted: Callable[[float], bool], high: float) -> float:
        return _last(is_refuted, 0.0, high)[0] if is_refuted(0.0) else 0.0


def _last(
    holds: Callable[[float], bool], low: float, high: float
) -> tuple[float, float]:
    """Both sides of where something that holds at `low` ends, if it does by `high`."""
    if holds(high):
        return high, high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


def expected_guesses(n_canaries: int, n_guesses: int, mu: float) -> Guesses:
    """What a guesser is right about who sees each canary as N(0, 1) or N(mu, 1).

    He guesses those of which he is surest.
    """
    share = n_guesses / n_canaries
    # A score around the middle passes the threshold on either side.
    threshold = _last(lambda t: _passing(t, mu)[2] > share, 0.0, 40 + mu)[0]
    right, wrong, _ = _passing(threshold, mu)
    n_right = math.floor(n_guesses * right / (right + wrong))
    return Guesses(n_canaries=n_canaries, n_guesses=n_guesses, n_right=n_right)


def _passing(threshold: float, mu: float) -> tuple[float, float, float]:
    right = float(norm.sf(threshold - mu / 2))
    wrong = float(norm.sf(threshold + mu / 2))
    return right, wrong, right + wrong
