"""What an audit found, and its bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, chdtri, nctdtr, ndtr, stdtrit

from skdp._arrays import FloatArray
from skdp._show import RED, Display, Shown, axes_or_new
from skdp.privacy.accounting._gaussian import gaussian_epsilon, mu_pure_epsilon
from skdp.privacy.release._record import json_ready

# -------------------------------------------------------------------------- AuditResult


_BLUE = "#1f5fa8"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The promise of an estimator.

    Parameters
    ----------
    epsilon, delta : float
    adjacency : str
        The adjacency.
    source : str
        Origin of the claim.
    is_gaussian : bool, default=True
        Whether all noise is taken to be Gaussian. Then the promise is about mu, and the
        observed scores can refute it; otherwise it is about epsilon alone, since the
        tails of scores are not observed.
    """

    epsilon: float
    delta: float
    adjacency: str
    source: str
    is_gaussian: bool = True


@dataclass(frozen=True, kw_only=True)
class EpsilonBound:
    """A lower bound on epsilon, at the delta of the claim.

    Parameters
    ----------
    method : str
    epsilon : float
    confidence : float
        Confidence of this bound alone; 1.0 if nothing was sampled.
    assumption : str
        Assumption of the bound; empty if there is none.
    is_main : bool
        Whether it was chosen before the runs that it is computed from.
    """

    method: str
    epsilon: float
    confidence: float
    assumption: str
    is_main: bool = False


@dataclass(frozen=True, kw_only=True)
class Finding:
    """An irregularity that an audit found.

    Parameters
    ----------
    kind : str
        "epsilon", "noiseless", "repeats", "low_bits" or "transcript".
    message : str
        In one sentence.
    refutes : bool
        Whether the claim is refuted, wrongly with probability below 1e-6 under the
        stated assumptions; otherwise the finding is worth a look.
    """

    kind: str
    message: str
    refutes: bool


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AuditResult(Shown):
    """Result of an audit: whether a claim was refuted, and never that it holds.

    Everything here is about synthetic or sacrificed data, and nothing is private.

    Parameters
    ----------
    estimator : str
    access : {"model", "transcript"}
    claimed : Claim
    bounds : tuple of EpsilonBound
    findings : tuple of Finding
    n_runs : int
        Number of fits that the result rests on.
    neighbours : str
        How the two data sets differ.
    score : str
        The score of a model, in words.
    interrupted : bool
        Whether the user ended the audit early.
    scores : tuple of two ndarray of shape (n_scores,)
        Scores of the test runs, on either data set; empty for transcripts.
    parts : dict of str to tuple of float
        For transcripts: cost and charge of each line of the plan, as mu or as epsilon.
    """

    estimator: str
    access: str
    claimed: Claim
    bounds: tuple[EpsilonBound, ...]
    findings: tuple[Finding, ...]
    n_runs: int
    neighbours: str
    score: str
    interrupted: bool
    scores: tuple[FloatArray, FloatArray]
    parts: dict[str, tuple[float, float]]

    @property
    def epsilon_lower_bound(self) -> float:
        """Epsilon is at least this, with the chosen confidence."""
        return max((x.epsilon for x in self.bounds if x.is_main), default=0.0)

    @property
    def passed(self) -> bool:
        """Whether nothing refutes the claim; a true claim almost surely passes."""
        return not any(finding.refutes for finding in self.findings)

    def sentence(self) -> str:
        """The result in one sentence, to be quoted."""
        claim, verdict = self.claimed, "is refuted" if not self.passed else "stands"
        early = ", interrupted" if self.interrupted else ""
        return (
            f"{self.estimator}: the claim of ({claim.epsilon:g}, {claim.delta:g}) "
            f"under {claim.adjacency} {verdict}; epsilon is at least "
            f"{self.epsilon_lower_bound:.3f} ({self._main()}, {self.n_runs} "
            f"fits{early})."
        )

    def _main(self) -> str:
        return next((_how(x) for x in self.bounds if x.is_main), "nothing was tested")

    def to_dict(self) -> dict[str, Any]:
        """All but the scores, JSON-ready; an infinite number becomes ``"inf"``."""
        values = {
            "estimator": self.estimator,
            "access": self.access,
            "claimed": asdict(self.claimed),
            "passed": self.passed,
            "epsilon_lower_bound": self.epsilon_lower_bound,
            "bounds": [asdict(bound) for bound in self.bounds],
            "findings": [asdict(finding) for finding in self.findings],
            "n_runs": self.n_runs,
            "neighbours": self.neighbours,
            "score": self.score,
            "interrupted": self.interrupted,
            "is_private": False,
            "sentence": self.sentence(),
        }
        plain: dict[str, Any] = json_ready(values)
        return plain

    def plot(self, *, ax: Any = None) -> Display:
        """Draw the scores on both data sets, or the cost of each line of a transcript.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            None makes a figure.

        Returns
        -------
        display
            With `ax_` and `figure_`.

        Raises
        ------
        ImportError
            Without matplotlib.
        """
        ax = axes_or_new(ax, "bounds")
        if self.access == "transcript":
            self._draw_lines(ax)
        else:
            self._draw_scores(ax)
        claim, bound = self.claimed, self.epsilon_lower_bound
        verdict = "stands" if self.passed else "refuted"
        ax.set_title(f"claimed {claim.epsilon:g}, at least {bound:.2f}: {verdict}")
        return Display.of(ax)

    def _draw_scores(self, ax: Any) -> None:
        pooled = np.concatenate(self.scores)
        low, high = np.quantile(pooled, [0.005, 0.995]) if pooled.size else (0.0, 1.0)
        bins = np.linspace(low, high if high > low else low + 1.0, 31)
        sides = zip(self.scores, (_BLUE, RED), ("data", "neighbour"), strict=True)
        for scores, color, name in sides:
            scores = np.clip(scores, low, high)
            ax.hist(scores, bins=bins, alpha=0.55, color=color, label=name)
        ax.set(xlabel="attacker's score of a fitted model", ylabel="runs")
        ax.legend()

    def _draw_lines(self, ax: Any) -> None:
        names = list(self.parts)
        found, charged = zip(*self.parts.values(), strict=True)
        places = np.arange(len(names))
        ax.barh(places, charged, height=0.6, color="0.88", label="charged")
        ax.barh(places, found, height=0.3, color=_BLUE, label="told apart")
        ax.set_yticks(places, names)
        ax.set(xlabel="mu, or epsilon of pure noise", ylim=(-1, len(names)))
        ax.legend()

    def _rows(self) -> list[tuple[str, str]]:
        claim = self.claimed
        return [
            ("claimed", f"{claim.epsilon:g}, {claim.delta:g} ({claim.source})"),
            *(
                (x.method, f"epsilon >= {x.epsilon:.3f}; {_how(x)}")
                for x in self.bounds
            ),
            ("neighbours", self.neighbours),
            ("score", self.score),
            *((_mark(x), x.message) for x in self.findings),
        ]

    @property
    def _is_good(self) -> bool:
        return self.passed


def _how(bound: EpsilonBound) -> str:
    sure = "exact" if bound.confidence == 1 else f"confidence {bound.confidence:g}"
    return f"{sure}, if {bound.assumption}" if bound.assumption else sure


def _mark(finding: Finding) -> str:
    return f"{'FOUND' if finding.refutes else 'look at'}: {finding.kind}"


# ----------------------------------- Lower bounds on epsilon from two samples of scores
# Let an attacker's score be S under one data set and T under its neighbour.
#
# Without assumptions [1]_: (epsilon, delta) implies ``P(S in A) <= exp(epsilon) P(T in
# A) + delta`` for every event A. For thresholds chosen beforehand, Clopper and Pearson
# bound both probabilities, each with its share of the error.
#
# For Gaussian scores with one variance: S and T are ``mu`` standard deviations apart,
# which no post-processing of a mu'-GDP release with mu' < mu can be. The bound on mu
# turns into a bound on epsilon at delta. For independent samples, Student's statistic
# has a noncentral t law with mu. For pairs that share their noise, the gap and the
# deviation are bounded separately, each with half of the error: the variance of both
# samples together is at least as concentrated as the variance of one of them.
#
# References
# ----------
# .. [1] Jagielski, Ullman and Oprea (2020). Auditing differentially private machine
#    learning: how private is private SGD? NeurIPS. https://arxiv.org/abs/2006.07709


# Excess of `gaussian_epsilon` over the truth, at most; subtracted from bounds.
_ROUNDED_UP = 1e-6
# Steps of bisections; a bound is the refuted end of the last interval.
_HALVINGS = 50
# Above this, the noncentral t law is nearly normal, and hard to compute.
_LARGEST_T = 30.0


def last(
    holds: Callable[[float], bool], low: float, high: float
) -> tuple[float, float]:
    """Interval in which a condition that holds at `low` ends, if it does by `high`."""
    if holds(high):
        return high, high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


def lower_rate(found: int, n: int, error: float) -> float:
    """Clopper and Pearson's lower bound on a probability."""
    return float(betaincinv(found, n - found + 1, error)) if found else 0.0


def upper_rate(found: int, n: int, error: float) -> float:
    """Clopper and Pearson's upper bound on a probability."""
    return float(betaincinv(found + 1, n - found, 1 - error)) if found < n else 1.0


def epsilon_of_rates(low: float, high: float, delta: float) -> float:
    """Smallest epsilon with which an event may have these probabilities."""
    if low <= delta:
        return 0.0
    return max(0.0, math.log((low - delta) / high)) if high > 0 else math.inf


def epsilon_of_event(
    inside: int, n_inside: int, outside: int, n_outside: int, delta: float, error: float
) -> float:
    """Bound on epsilon from the frequency of one event under each data set.

    Parameters
    ----------
    inside, outside : int
        Occurrences in `n_inside` and `n_outside` runs.
    error : float in (0, 1)
        Probability of being wrong.
    """
    low = lower_rate(inside, n_inside, error / 2)
    high = upper_rate(outside, n_outside, error / 2)
    return epsilon_of_rates(low, high, delta)


def epsilon_of_thresholds(
    inside: FloatArray,
    outside: FloatArray,
    thresholds: Iterable[float],
    delta: float,
    error: float,
) -> float:
    """Bound on epsilon from thresholds that were chosen without these scores.

    Parameters
    ----------
    inside, outside : ndarray of shape (n_runs,)
        Larger scores mean the first data set.
    thresholds : iterable of float
        The thresholds share the error.
    """
    chosen = tuple(thresholds)
    share = error / len(chosen)
    return max(
        max(
            _beyond(inside > t, outside > t, delta, share),
            _beyond(outside <= t, inside <= t, delta, share),
        )
        for t in chosen
    )


def _beyond(
    first: NDArray[np.bool_], second: NDArray[np.bool_], delta: float, error: float
) -> float:
    # Both events of a threshold are bounded by the same two rates.
    seen, other = int(np.sum(first)), int(np.sum(second))
    return epsilon_of_event(seen, len(first), other, len(second), delta, error)


def epsilon_lower_bound(
    scores_in: FloatArray,
    scores_out: FloatArray,
    delta: float,
    confidence: float = 0.999,
) -> float:
    """Bound on epsilon from a threshold chosen on half of the scores, tested on half.

    Valid without any assumption.
    """
    half = len(scores_in) // 2
    candidates = np.quantile(scores_out[:half], np.linspace(0.5, 0.999, 60))
    error = 1 - confidence

    def bound(threshold: float, first: FloatArray, second: FloatArray) -> float:
        # The least bad of useless thresholds must still be distinguishable.
        low = lower_rate(int(np.sum(first > threshold)), len(first), error / 2)
        high = upper_rate(int(np.sum(second > threshold)), len(second), error / 2)
        return math.log(max(low - delta, 1e-300) / high)

    best = max(candidates, key=lambda t: bound(t, scores_in[:half], scores_out[:half]))
    return max(0.0, bound(best, scores_in[half:], scores_out[half:]))


def mu_of_samples(inside: FloatArray, outside: FloatArray, error: float) -> float:
    """Bound on mu from two independent Gaussian samples with one variance."""
    n, m = len(inside), len(outside)
    size = math.sqrt(1 / n + 1 / m)
    squares = (n - 1) * np.var(inside, ddof=1) + (m - 1) * np.var(outside, ddof=1)
    gap, spread = (
        float(np.mean(inside) - np.mean(outside)),
        math.sqrt(squares / (n + m - 2)),
    )
    if gap <= 0 or spread == 0:
        return 0.0 if gap <= 0 else math.inf
    return size * _least_noncentrality(gap / (spread * size), n + m - 2, error)


def _least_noncentrality(t: float, df: int, error: float) -> float:
    """The noncentrality under which a statistic this large has probability `error`."""
    if t > _LARGEST_T:
        # t is at least (Z + nc) / sqrt(chi2 / df): both are bounded apart.
        spread = math.sqrt(float(chdtri(df, 1 - error / 2)) / df)
        return max(0.0, t * spread + float(stdtrit(1e9, error / 2)))
    if 1 - float(nctdtr(df, 0.0, t)) >= error:
        return 0.0

    def is_rare(noncentrality: float) -> bool:
        return 1 - float(nctdtr(df, noncentrality, t)) < error

    return last(is_rare, 0.0, t)[0]


def mu_of_pairs(inside: FloatArray, outside: FloatArray, error: float) -> float:
    """Bound on mu from Gaussian pairs with one variance that share their noise."""
    n = len(inside)
    changes = inside - outside
    far = float(stdtrit(n - 1, 1 - error / 2)) * np.std(changes, ddof=1) / math.sqrt(n)
    gap = float(np.mean(changes) - far)
    variance = (np.var(inside, ddof=1) + np.var(outside, ddof=1)) / 2
    least = float(chdtri(n - 1, 1 - error / 2)) / (n - 1)
    if gap <= 0 or variance == 0:
        return 0.0 if gap <= 0 else math.inf
    return gap / math.sqrt(variance / least)


def epsilon_of_mu(mu: float, delta: float) -> float:
    """Epsilon at delta for scores that are mu apart, rounded down.

    At delta = 0 a Gaussian score has no epsilon; then it is the least epsilon of a pure
    release from which the score can follow.
    """
    if mu <= 0:
        return 0.0
    if math.isinf(mu):
        return math.inf
    epsilon = mu_pure_epsilon(mu) if delta == 0 else gaussian_epsilon(mu, delta)
    return epsilon * (1 - _ROUNDED_UP)


def epsilon_of_halves(mu: float, delta: float) -> float:
    """Epsilon from the event that a Gaussian score is beyond the middle, rounded down.

    Scores are observed in the middle, not in their tails.
    """
    if mu <= 0:
        return 0.0
    if delta == 0 or math.isinf(mu):
        return epsilon_of_mu(mu, 0.0)
    rates = float(ndtr(mu / 2)), float(ndtr(-mu / 2))
    return epsilon_of_rates(*rates, delta) * (1 - _ROUNDED_UP)
