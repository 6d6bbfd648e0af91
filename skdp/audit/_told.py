"""What runs tell of a claim: all is chosen on one half, and tested on the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from skdp._floats import FloatArray
from skdp.audit._battery import repeats, told_by_low_bits
from skdp.audit._bounds import (
    epsilon_of_event,
    epsilon_of_halves,
    epsilon_of_mu,
    epsilon_of_thresholds,
    mu_of_pairs,
    mu_of_samples,
)
from skdp.audit._outputs import Runs
from skdp.audit._result import Claim, EpsilonBound, Finding
from skdp.audit._score import (
    Event,
    Noiseless,
    NoiselessText,
    Score,
    bound_by,
    learned_event,
    learned_score,
    noiseless,
)

# A true claim is refuted with less than this probability, by all tests together.
WRONG = 1e-6
_TESTS = 6
# Quantiles of the scores that were learned from, at which scores are cut.
_CUTS = (0.25, 0.5, 0.75, 0.9)
# Scores are not taken for Gaussian if they are so improbable for Gaussian ones.
_NOT_GAUSSIAN = 1e-5
# Error of the bounds by which the main one is chosen.
_SURE = 0.05
_GAUSSIAN = "the scores are Gaussian and of one variance"
_SEEDED = "a seed changes no law"


@dataclass(frozen=True)
class Halves:
    """Runs on both data sets, to learn from and to test with.

    Parameters
    ----------
    inside, outside : Runs
        To learn from, with fresh noise.
    test_inside, test_outside : Runs
    n_samples : int
        Records of either data set.
    change : pair of Runs or None, default=None
        Runs with next to no noise between them.
    where : str, default=""
        What these are, in words.
    """

    inside: Runs
    outside: Runs
    test_inside: Runs
    test_outside: Runs
    n_samples: int
    change: tuple[Runs, Runs] | None = None
    where: str = ""


class Told:
    """What runs tell of a claim: all is chosen on one half, and tested on the other."""

    def __init__(self, claim: Claim, halves: Halves, *, is_paired: bool) -> None:
        self._claim, self._halves, self._is_paired = claim, halves, is_paired
        given = halves.inside, halves.outside
        self._score: Score | None = learned_score(*given, halves.change, halves.where)
        self._still: list[Noiseless | NoiselessText] = noiseless(*given)
        self._event: Event | None = learned_event(*given)
        self._cuts: tuple[float, ...] = (0.0,)
        self._is_gaussian = False
        self._main = ""
        self.scores = np.empty(0), np.empty(0)
        if self._score is not None:
            learned = [self._score.of(runs) for runs in given]
            self._cuts = tuple(np.quantile(np.concatenate(learned), _CUTS))
            tests = halves.test_inside, halves.test_outside
            self.scores = self._score.of(tests[0]), self._score.of(tests[1])
            # Of pairs, the other side would tell the same once more.
            self._is_gaussian = _look_gaussian([*learned, self.scores[0]])
            self._main = self._chosen(*learned)

    def _chosen(self, inside: FloatArray, outside: FloatArray) -> str:
        """The bound that would be the best on the runs that were learned from."""
        if self._still or self._is_gaussian or self._event is None:
            return ""
        delta = self._claim.delta
        free = epsilon_of_thresholds(inside, outside, self._cuts, delta, _SURE)
        given = self._halves.inside, self._halves.outside
        event = bound_by(self._event, *given, delta, _SURE)
        return "learned event" if event > free else "thresholds"

    @property
    def what(self) -> str:
        """The score in words."""
        if self._score is None:
            return "none: no output varies"
        shared = "; fits in pairs of one seed" if self._is_paired else ""
        return f"linear read-out, {self._score.what}{shared}"

    def bounds(self, error: float) -> tuple[EpsilonBound, ...]:
        """Each with its own error; the main one was chosen without the test."""
        if self._score is None and not self._still:
            return ()
        found = {
            "event": self._by_event,
            "gaussian": self._by_gaussian,
            "thresholds": self._by_thresholds,
            "learned event": self._by_learned_event,
        }
        if not self._still:
            del found["event"]
        # Without noise no score is Gaussian, however it looks.
        if self._still or not self._is_gaussian:
            del found["gaussian"]
        if self._score is None:
            found = {"event": found["event"]}
        main = self._main if self._main in found else next(iter(found))
        return tuple(
            EpsilonBound(
                method=name,
                epsilon=bound(error),
                confidence=1 - error,
                assumption=self._assumption(name),
                is_main=name == main,
            )
            for name, bound in found.items()
        )

    def _assumption(self, method: str) -> str:
        rests_on = [_GAUSSIAN] if method == "gaussian" else []
        return ", and ".join(rests_on + [_SEEDED] * self._is_paired)

    def _by_event(self, error: float) -> float:
        still = self._still[0]
        sides = self._halves.test_inside, self._halves.test_outside
        seen = [int(np.sum(still.holds(runs))) for runs in sides]
        sizes = len(sides[0]), len(sides[1])
        delta = self._claim.delta
        return epsilon_of_event(seen[0], sizes[0], seen[1], sizes[1], delta, error)

    def _by_learned_event(self, error: float) -> float:
        if self._event is None:
            return 0.0
        sides = self._halves.test_inside, self._halves.test_outside
        return bound_by(self._event, *sides, self._claim.delta, error)

    def _by_gaussian(self, error: float) -> float:
        mu_of = mu_of_pairs if self._is_paired else mu_of_samples
        mu, delta = mu_of(*self.scores, error), self._claim.delta
        if self._claim.is_gaussian:
            return epsilon_of_mu(mu, delta)
        return epsilon_of_halves(mu, delta)

    def _by_thresholds(self, error: float) -> float:
        delta = self._claim.delta
        return epsilon_of_thresholds(*self.scores, self._cuts, delta, error)

    def findings(self) -> tuple[Finding, ...]:
        """What should not be; each test has its share of the error."""
        return (
            *self._epsilon_finding(),
            *self._still_finding(),
            *self._repeat_findings(),
            *self._bits_finding(),
        )

    def _epsilon_finding(self) -> Iterator[Finding]:
        if self._score is None:
            return
        error, claimed = WRONG / _TESTS, self._claim.epsilon
        found = {
            "by thresholds": self._by_thresholds(error),
            "by an event": self._by_learned_event(error),
        }
        if self._is_gaussian and not self._still:
            found[f"if {_GAUSSIAN}"] = self._by_gaussian(error)
        for how, epsilon in found.items():
            if epsilon > claimed:
                text = f"epsilon is at least {epsilon:.3g} {how}; claimed {claimed:g}"
                yield Finding(kind="epsilon", message=text, refutes=True)

    def _still_finding(self) -> Iterator[Finding]:
        if not self._still:
            return
        epsilon = self._by_event(WRONG / _TESTS)
        names = ", ".join(still.what for still in self._still[:5])
        more = len(self._still) - 5
        text = (
            f"without noise, and another on the neighbour: {names}"
            + (f" and {more} more" if more > 0 else "")
            + f"; epsilon is at least {epsilon:.3g}, infinite if it is always so"
        )
        is_sure = epsilon > self._claim.epsilon
        yield Finding(kind="noiseless", message=text, refutes=is_sure)

    def _repeat_findings(self) -> Iterator[Finding]:
        for runs, name in (
            (self._halves.inside, "the data"),
            (self._halves.outside, "the neighbour"),
        ):
            pairs, chance = repeats(runs)
            if chance < WRONG / _TESTS / 2:
                text = (
                    f"{pairs} pairs of {len(runs)} fits on {name} are the same to the "
                    "last bit: the noise has few seeds"
                )
                yield Finding(kind="repeats", message=text, refutes=True)

    def _bits_finding(self) -> Iterator[Finding]:
        columns = told_by_low_bits(
            self._halves.inside, self._halves.outside, self._halves.n_samples
        )
        if columns:
            names = ", ".join(columns[:5])
            text = (
                "the last bits are the same in all fits, and others on the neighbour: "
                f"{names}; its noise has fewer digits than the sum that it hides"
            )
            yield Finding(kind="low_bits", message=text, refutes=True)


def _look_gaussian(several: list[FloatArray]) -> bool:
    """Whether samples, each moved and scaled to the same, look Gaussian together.

    The shape of Gaussian samples is independent of their means and deviations (Basu),
    so that this look leaves the bounds of both as they are.
    """
    # Imported here, because scipy.stats takes half a second.
    from scipy.stats import normaltest

    if any(np.ptp(scores) == 0 for scores in several):
        return False
    scaled = [(x - np.mean(x)) / np.std(x) for x in several]
    return bool(normaltest(np.concatenate(scaled)).pvalue > _NOT_GAUSSIAN)
