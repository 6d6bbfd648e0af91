"""`Plan`: every query of a release, as public lines. The event follows from them.

Plan((Line(100),))                                    a hundred Gaussian answers
Plan((Line(9), Line(11, multiple=5.0)))               nine, and eleven of more noise
Plan((Line(300, sample=Poisson(0.01)),))              each from a fresh secret sample
Plan((Line(80, sample=Correlated(99, matrix)),))      one Gaussian vector
Plan((Line(10, law=Choices(2.0)), Part(other, 1.4)))  ten choices, then another plan
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from skdp.privacy.accounting._events import (
    ComposedEvent,
    Event,
    PoissonGaussianEvent,
    PureEvent,
)
from skdp.privacy.accounting._gaussian import batch_epsilon
from skdp.privacy.accounting._relations import Relation, check_adjacency, is_of_users
from skdp.privacy.noise._correlated import Correlation
from skdp.privacy.noise._laws import Choices, Gaussian, NoiseLaw


class Sample(Protocol):
    """The records that enter an answer."""

    def event(
        self, law: NoiseLaw, multiplier: float, times: int, relation: Relation
    ) -> Event:
        """Cost of `times` answers."""
        ...

    def covering(self, relation: Relation) -> Relation:
        """The relation under which the bound of one answer is taken."""
        ...

    def takes(self, law: NoiseLaw | Choices) -> bool:
        """Whether `event` is the cost of answers with this law."""
        ...


@dataclass(frozen=True)
class Everyone:
    """All records, every time."""

    def event(
        self, law: NoiseLaw, multiplier: float, times: int, relation: Relation
    ) -> Event:
        return law.event(multiplier, times)

    def covering(self, relation: Relation) -> Relation:
        return relation

    def takes(self, law: NoiseLaw | Choices) -> bool:
        return True


@dataclass(frozen=True)
class Poisson:
    """A fresh secret sample for each answer; every record has the same probability.

    The noise multiplier is relative to one record's contribution, under both
    adjacencies: replace_one is two steps, by the null record, for all answers together
    (``docs/proofs/noisy_sgd.md``).

    `rate` is in (0, 1].
    """

    rate: float

    def event(
        self, law: NoiseLaw, multiplier: float, times: int, relation: Relation
    ) -> Event:
        adjacency = check_adjacency(relation)
        return PoissonGaussianEvent(multiplier, self.rate, times, adjacency)

    def covering(self, relation: Relation) -> Relation:
        # A record is in the sample or not; `event` charges an exchange as two steps.
        return "zero_out"

    def takes(self, law: NoiseLaw | Choices) -> bool:
        return isinstance(law, Gaussian)


@dataclass(frozen=True)
class Batch:
    """A fresh secret batch of constant size for each answer, without replacement.

    If a record is missing, another real record takes its place, so the bound of one
    answer is that of an exchange under both adjacencies.
    """

    size: int
    n_samples: int

    def event(
        self, law: NoiseLaw, multiplier: float, times: int, relation: Relation
    ) -> Event:
        _check_of_rows(relation)
        rate = self.size / self.n_samples
        return PureEvent(batch_epsilon(1 / multiplier, rate), times)

    def covering(self, relation: Relation) -> Relation:
        return "replace_one"

    def takes(self, law: NoiseLaw | Choices) -> bool:
        # The cost of a secret batch is known for pure epsilon only.
        return not isinstance(law, Choices) and law.is_pure


@dataclass(frozen=True)
class Buckets:
    """Runs of consecutive records, with one answer each; no record is in two runs."""

    size: int

    def event(
        self, law: NoiseLaw, multiplier: float, times: int, relation: Relation
    ) -> Event:
        _check_of_rows(relation)
        # Parallel composition: all answers cost as much as one (docs/proofs/online.md).
        return law.event(multiplier)

    def covering(self, relation: Relation) -> Relation:
        return relation

    def takes(self, law: NoiseLaw | Choices) -> bool:
        return not isinstance(law, Choices)


def _check_of_rows(relation: Relation) -> None:
    """Refuse samples of rows if neighbours differ in all rows of a user."""
    if is_of_users(relation):
        raise ValueError(
            "Samples of rows must go with a relation in which one row changes. Got "
            f"{relation!r}. Ask all rows."
        )


@dataclass(frozen=True)
class Correlated(Buckets):
    """Buckets whose answers are released as weighted sums, with noise in each sum.

    All sums together are one Gaussian vector. Their cost is that of one answer with the
    bound `joint` (``docs/proofs/correlated_noise.md``).

    Parameters
    ----------
    size : int
        Records of a part; the last part may have fewer, and so may parts of a stream.
    matrix : Correlation
        Weights of the sums, and the order and number of answers about each part.
    """

    matrix: Correlation

    @property
    def times(self) -> int:
        """Total number of answers."""
        return self.matrix.times

    @property
    def joint(self) -> float:
        """Bound of all weighted sums together, for answers bounded by 1."""
        return self.matrix.norm + self.matrix.slack(self.size)

    def on_grid(self, law: NoiseLaw, multiplier: float, size: int) -> float:
        """`joint` plus the effect of the noise's grid on sums of `size` numbers.

        The grid may change the distance of every sum with the record; laws charge one.
        """
        moved = self.matrix.n_sums
        more = (math.sqrt(moved) - 1) * math.sqrt(size) * (1 + 1e-12)
        exact = bound = self.joint
        # The grid may grow with the bound.
        while (
            wanted := exact + more * law.scale(bound, multiplier, size).grid
        ) > bound:
            bound = wanted
        return bound

    @property
    def spread(self) -> float:
        """Noise deviation of one answer over the deviation of the drawn noise.

        In the sums for which the matrix is made most of the noise cancels.
        """
        return self.joint * self.matrix.answer_spread

    @property
    def excess(self) -> float:
        """Noise in the sum of a pass, relative to one answer about all records."""
        return self.joint * self.matrix.prefix_spread / self.matrix.asks

    def event(
        self, law: NoiseLaw, multiplier: float, times: int, relation: Relation
    ) -> Event:
        # Also for users whose parts arrive; a table of users is not cut (`parts_of`).
        return law.event(multiplier)

    def takes(self, law: NoiseLaw | Choices) -> bool:
        return isinstance(law, Gaussian)


EVERYONE = Everyone()
GAUSSIAN: NoiseLaw = Gaussian()


@dataclass(frozen=True)
class Line:
    """Answers of one kind.

    Parameters
    ----------
    times : int
        Number of answers.
    multiple : float, default=1.0
        Noise multiplier of each answer over the plan's.
    mu_share : float, default=1.0
        Alternatively, each answer's share of the plan's mu^2.
    strength : float, default=1.0
        Alternatively, mu or epsilon of each answer over the plan's.
    is_hidden : bool, default=False
        Whether the answers are not released: see `Inside`.
    is_fine : bool, default=False
        Whether the noise is not added to a query: it uses the finest grid. For
        `Inside` only.

    Raises
    ------
    ValueError
        If the noise would have no positive, finite size, or if there are more answers
        than a matrix of correlated noise has rows.
    TypeError
        If the cost of this law with this sample is unknown.
    """

    times: int = 1
    multiple: float = 1.0
    mu_share: float = 1.0
    strength: float = 1.0
    law: NoiseLaw | Choices = GAUSSIAN
    sample: Sample = EVERYONE
    is_hidden: bool = False
    is_fine: bool = False

    def __post_init__(self) -> None:
        # A separately declared event would not show a line without noise.
        sizes = (self.multiple, self.mu_share, self.strength)
        if self.times < 0 or not all(0 < size < math.inf for size in sizes):
            raise ValueError(
                "A line of a plan must have a number of answers of at least 0, and "
                "noise of a positive, finite size. Got another. Leave the line out."
            )
        if isinstance(self.sample, Correlated) and self.times > self.sample.times:
            raise ValueError(
                "A line with correlated noise must have at most as many answers as its "
                f"matrix has rows, {self.sample.times}. Got {self.times}. Declare "
                "more passes."
            )
        if not self.sample.takes(self.law):
            raise TypeError(
                f"Answers from {type(self.sample).__name__} samples must have a law "
                f"whose cost is known. Got {type(self.law).__name__}. Use Gaussian() "
                "with Poisson, a pure law with Batch, and EVERYONE with choices."
            )

    def multiplier(self, plan_multiplier: float) -> float:
        multiplier = plan_multiplier * self.multiple / math.sqrt(self.mu_share)
        return multiplier / self.strength

    def event(self, plan_multiplier: float, relation: Relation) -> Event:
        multiplier = self.multiplier(plan_multiplier)
        if isinstance(self.law, Choices):
            return self.law.event(multiplier, self.times)
        return self.sample.event(self.law, multiplier, self.times, relation)


@dataclass(frozen=True)
class Part:
    """A plan within a plan, with separate answers.

    `multiple` is its noise multiplier over that of the outer plan.
    """

    plan: Plan
    multiple: float = 1.0
    times: ClassVar[int] = 1

    def multiplier(self, plan_multiplier: float) -> float:
        return plan_multiplier * self.multiple

    def event(self, plan_multiplier: float, relation: Relation) -> Event:
        """Cost of the whole inner plan."""
        return self.plan.event(self.multiplier(plan_multiplier), relation)


@dataclass(frozen=True)
class Plan:
    """Every query of one release, in public lines.

    Parameters
    ----------
    declared : callable or None, default=None
        Maps the noise multiplier to the event, where hidden lines cost less than seen
        ones: a hidden path, a tilted objective, a search. None: the cost of all lines
        together.
    is_seen : bool, default=False
        Whether a declared event pays for every answer as if it were seen.

    Raises
    ------
    TypeError
        If several lines are about buckets without correlated noise.
    """

    lines: tuple[Line | Part, ...]
    declared: Callable[[float], Event] | None = None
    is_seen: bool = False

    def __post_init__(self) -> None:
        cut = [
            line
            for line in self.lines
            if isinstance(line, Line)
            and isinstance(line.sample, Buckets)
            and not isinstance(line.sample, Correlated)
        ]
        # Answers go through the records once, together for all lines; lines with
        # correlated noise go through them separately.
        if len(cut) > 1:
            raise TypeError(
                "A plan must have at most one line about buckets. Got "
                f"{len(cut)}. Declare the others as a Part, with a plan of its own."
            )

    def event(self, noise_multiplier: float, relation: Relation) -> Event:
        """Event of the whole release, for accounting."""
        if self.declared is not None:
            return self.declared(noise_multiplier)
        parts = tuple(
            line.event(noise_multiplier, relation) for line in self.lines if line.times
        )
        return parts[0] if len(parts) == 1 else ComposedEvent(parts)
