"""Queries, and the `Plan` of a release: public lines that determine its event.

Plan((Line(100),))                                    100 Gaussian answers
Plan((Line(9), Line(11, multiple=5.0)))               9, and 11 with more noise
Plan((Line(300, sample=Poisson(0.01)),))              each from a fresh secret sample
Plan((Line(80, sample=Correlated(99, matrix)),))      one Gaussian vector
Plan((Line(10, law=Choices(2.0)), Part(other, 1.4)))  10 choices, then another plan
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from skdp._arrays import FloatArray, IntArray
from skdp.exceptions import UnboundedQueryError
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

# -------------------- Draws: orders, samples and counts, which are random but not noise


class Draws(Protocol):
    """Exact draws from finite laws, none of which can serve as noise."""

    def permutation(self, n: int) -> IntArray:
        """A uniform order of 0, ..., n - 1."""
        ...

    def subset(self, n: int, size: int) -> IntArray:
        """A uniform subset of {0, ..., n - 1} of a public size, in increasing order."""
        ...

    def poisson_sample(self, n: int, rate: float) -> IntArray:
        """Each of 0, ..., n - 1 independently with probability `rate`, increasing."""
        ...

    def integers(self, n: int, size: int) -> IntArray:
        """Independent uniform draws from {0, ..., n - 1}, of shape (size,)."""
        ...

    def weighted_index(self, weights: Sequence[int]) -> int:
        """An index drawn with probability exactly proportional to its weight."""
        ...


class DrawsOf:
    """The draws of a noise source, without its noise."""

    def __init__(self, noise: Draws) -> None:
        self._noise = noise

    def permutation(self, n: int) -> IntArray:
        return self._noise.permutation(n)

    def subset(self, n: int, size: int) -> IntArray:
        return self._noise.subset(n, size)

    def poisson_sample(self, n: int, rate: float) -> IntArray:
        return self._noise.poisson_sample(n, rate)

    def integers(self, n: int, size: int) -> IntArray:
        return self._noise.integers(n, size)

    def weighted_index(self, weights: Sequence[int]) -> int:
        return self._noise.weighted_index(weights)


# ------------------------------ Queries of records: public functions with a known bound
# A `Query` is a sum over records of a bounded function. An `Inside` is an algorithm
# that needs several exact answers, which stay within `Answers.inside`. Both are public,
# frozen values: released weights are their fields, and records are arguments of their
# methods.


@dataclass(frozen=True, kw_only=True)
class Bound:
    """Largest distance of two neighbours' answers, in exact arithmetic.

    None means that no bound was derived for the adjacency; the query is then refused.

    Parameters
    ----------
    zero_out, replace_one : float or None
        One record is replaced by the null record, or by any other record. Neither bound
        follows from the other.
    rating_value : float or None
        The value of one rating is changed.
    user : float or None
        All ratings of one user are replaced. These are many rows, which may count
        separately or be summed and clipped together.
    zero_out_user, replace_user : float or None
        All rows of one user of a table are removed; or replaced by any other rows, or
        none. Only a query that multiplies the contribution of each row by the row's
        weight may state these bounds.
    norm : {1, 2, inf}, default=2
        Norm of the bounds; inf bounds each entry separately, for choices.
    """

    zero_out: float | None = None
    replace_one: float | None = None
    rating_value: float | None = None
    user: float | None = None
    zero_out_user: float | None = None
    replace_user: float | None = None
    norm: float = 2

    def with_user_bounds(self) -> Bound:
        """Add bounds for users, whose rows have weights with a sum of at most 1.

        By Lemma 1 of ``docs/proofs/adder.md``, a user's contribution lies in the convex
        hull of 0 and the possible contributions of a record. This holds for sums in
        which the contribution of each row is multiplied by the row's weight, or by a
        number between 0 and the weight.
        """
        if self.zero_out is None or self.replace_one is None:
            return self
        return replace(
            self,
            zero_out_user=self.zero_out,
            replace_user=max(self.replace_one, self.zero_out),
        )

    def under(self, relation: Relation) -> float:
        """The bound under one adjacency.

        Raises
        ------
        UnboundedQueryError
            If none was derived.
        """
        bound = {
            "zero_out": self.zero_out,
            "replace_one": self.replace_one,
            "zero_out_user": self.zero_out_user,
            "replace_user": self.replace_user,
            "rating_value": self.rating_value,
            "user": self.user,
        }[relation]
        if bound is None:
            raise UnboundedQueryError(
                f"The query must have a bound under {relation!r} to be answered with "
                "noise. Got none. Use another solver or adjacency."
            )
        return bound


@dataclass(frozen=True)
class Layout:
    """Public facts about the layout of a sum, which bound the effect of rounding.

    Parameters
    ----------
    largest_block : int
        Number of rows of the largest block.
    moved_rows : int, default=1
        Number of rows for which neighbours may differ in rounding: one, or all rows if
        it is secret which rows share a block.
    amplification : float, default=1.0
        Bound on the terms of a row's products, in units of the row.
    cells : int, default=0
        Number of values that are summed instead of features, if rows are made of parts;
        0 otherwise.
    rows_of_unit : int, default=1
        Largest number of rows of one record or one user, in which neighbours differ.
    """

    largest_block: int
    moved_rows: int = 1
    amplification: float = 1.0
    cells: int = 0
    rows_of_unit: int = 1


class Query(Protocol):
    """A bounded function of each record, summed over the records."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the answer; public."""
        ...

    @property
    def family(self) -> Hashable:
        """Queries of equal family may share the reader that `open` returns."""
        ...

    def bound(self) -> Bound:
        """Largest distance of two neighbours' answers, in exact arithmetic."""
        ...

    def slack(self, layout: Layout) -> float:
        """Bound on the effect of floating point arithmetic, to be added to `bound`."""
        ...

    def open(self, source: Any) -> Any:
        """A reader of the source; it may keep values that depend on single rows."""
        ...

    def total(self, reader: Any, rows: IntArray | None) -> FloatArray:
        """The exact answer over all records, or over increasing `rows`. Private."""
        ...


class Inside(Protocol):
    """An algorithm that computes several answers from exact values; `Answers.inside`.

    It yields exact numbers in the order of the plan's lines, and receives each with
    noise. Only answers of lines that are not hidden are released. An algorithm that
    supports users has an attribute `takes_shares` that is True.
    """

    def bound(self, line: int, done: int) -> float:
        """Bound of a line's answer after `done` answers, with rounding; public."""
        ...

    def within(self, source: Any, draws: Draws) -> Generator[Any, Any, None]:
        """Yield exact answers, receive noisy ones. Private."""
        ...


# -------------------------------------- Plan: every query of a release, as public lines


class Sample(Protocol):
    """The records that enter an answer."""

    def event(
        self, law: NoiseLaw, multiplier: float, times: int, relation: Relation
    ) -> Event:
        """Cost of `times` answers."""
        ...

    def covering(self, relation: Relation) -> Relation:
        """The adjacency under which the bound of one answer is taken."""
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

    The noise multiplier is relative to one record's contribution under both
    adjacencies. For replace_one, the event charges two steps, to the null record and
    from it, for all answers together (``docs/proofs/gradient_descent.md``).

    `rate` is in (0, 1].
    """

    rate: float

    def event(
        self, law: NoiseLaw, multiplier: float, times: int, relation: Relation
    ) -> Event:
        adjacency = check_adjacency(relation)
        return PoissonGaussianEvent(multiplier, self.rate, times, adjacency)

    def covering(self, relation: Relation) -> Relation:
        # A record is in the sample or not; `event` charges a replacement as two steps.
        return "zero_out"

    def takes(self, law: NoiseLaw | Choices) -> bool:
        return isinstance(law, Gaussian)


@dataclass(frozen=True)
class Batch:
    """A fresh secret batch of constant size for each answer, without replacement.

    If a record is not drawn, another record is. So the bound of one answer is that of
    replace_one under both adjacencies.
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
    """Disjoint runs of consecutive records, with one answer each."""

    size: int

    def event(
        self, law: NoiseLaw, multiplier: float, times: int, relation: Relation
    ) -> Event:
        _check_of_rows(relation)
        # Parallel composition: all answers cost as much as one (docs/proofs/papers.md).
        return law.event(multiplier)

    def covering(self, relation: Relation) -> Relation:
        return relation

    def takes(self, law: NoiseLaw | Choices) -> bool:
        return not isinstance(law, Choices)


def _check_of_rows(relation: Relation) -> None:
    """Raise for samples of rows if neighbours differ in all rows of a user."""
    if is_of_users(relation):
        raise ValueError(
            "Samples of rows must have an adjacency under which one row changes. Got "
            f"{relation!r}. Ask for all rows."
        )


@dataclass(frozen=True)
class Correlated(Buckets):
    """Buckets whose answers are released as weighted sums, with noise in each sum.

    All sums together are one Gaussian vector. Their cost is that of one answer with the
    bound `joint` (``docs/proofs/streams.md``).

    Parameters
    ----------
    size : int
        Number of records of a part. The last part, and parts of a stream, may have
        fewer.
    matrix : Correlation
        Weights of the sums, and the order and number of answers for each part.
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
        """`joint` plus the effect of rounding `size` numbers of each sum to the grid.

        Rounding may change the distance in every sum with the record, and noise laws
        allow for one sum only.
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

        In the sums for which the matrix is designed, most of the noise cancels.
        """
        return self.joint * self.matrix.answer_spread

    @property
    def excess(self) -> float:
        """Noise in the sum of a pass, relative to one answer about all records."""
        return self.joint * self.matrix.prefix_spread / self.matrix.asks

    def event(
        self, law: NoiseLaw, multiplier: float, times: int, relation: Relation
    ) -> Event:
        # Also for users of a stream; a table of users is not cut (`parts_of`).
        return law.event(multiplier)

    def takes(self, law: NoiseLaw | Choices) -> bool:
        return isinstance(law, Gaussian)


EVERYONE = Everyone()
GAUSSIAN: NoiseLaw = Gaussian()


@dataclass(frozen=True)
class Line:
    """Several answers of one kind.

    Parameters
    ----------
    times : int
        Number of answers.
    multiple : float, default=1.0
        Noise multiplier of each answer over that of the plan.
    mu_share : float, default=1.0
        Alternatively, the fraction of the plan's mu^2 for each answer.
    strength : float, default=1.0
        Alternatively, mu or epsilon of each answer over that of the plan.
    is_hidden : bool, default=False
        Whether the answers are not released; see `Inside`.
    is_fine : bool, default=False
        Whether the noise uses the finest grid, because it is not added to a query. For
        `Inside` only.

    Raises
    ------
    ValueError
        If the size of the noise is not positive and finite, or if there are more
        answers than rows of the matrix of correlated noise.
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
        # An event that is declared separately would not show a line without noise.
        sizes = (self.multiple, self.mu_share, self.strength)
        if self.times < 0 or not all(0 < size < math.inf for size in sizes):
            raise ValueError(
                "A line of a plan must have at least 0 answers, and noise of a "
                "positive, finite size. Got other values. Leave the line out."
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

    Parameters
    ----------
    plan : Plan
    multiple : float, default=1.0
        Noise multiplier of the inner plan over that of the outer plan.
    instead : Plan or None, default=None
        Another inner plan. Released numbers decide which of the two is used, so the
        two must have the same cost.

    Raises
    ------
    ValueError
        If two plans differ in cost, or have other noise than independent Gaussian noise
        about all records.
    """

    plan: Plan
    multiple: float = 1.0
    instead: Plan | None = None
    times: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.instead is None:
            return
        one, other = self.plan.strength_squared, self.instead.strength_squared
        # The sums of shares may differ in their last bits.
        if one is None or other is None or not math.isclose(one, other, rel_tol=1e-9):
            raise ValueError(
                "Two plans of a part must have the same cost, and Gaussian noise about "
                f"all records. Got costs of {one} and {other}. Declare two parts."
            )

    def multiplier(self, plan_multiplier: float) -> float:
        return plan_multiplier * self.multiple

    def event(self, plan_multiplier: float, relation: Relation) -> Event:
        """Cost of the whole inner plan; of two plans, of the one that costs more."""
        plans = [self.plan] if self.instead is None else [self.plan, self.instead]
        events = [
            plan.event(self.multiplier(plan_multiplier), relation) for plan in plans
        ]
        return max(events, key=lambda event: event.mu_squared)


@dataclass(frozen=True)
class Plan:
    """All queries of one release, as public lines.

    Parameters
    ----------
    declared : callable or None, default=None
        Maps the noise multiplier to the event, for releases in which hidden lines cost
        less than released ones: a hidden path, a tilted objective, a search. None: the
        event is that of all lines together.
    is_seen : bool, default=False
        Whether a declared event pays for every answer as if it were released.

    Raises
    ------
    TypeError
        If several lines ask buckets without correlated noise.
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
        # There is one pass through the buckets for all lines together; lines with
        # correlated noise have separate passes.
        if len(cut) > 1:
            raise TypeError(
                "A plan must have at most one line that asks buckets. Got "
                f"{len(cut)}. Declare each other line as a Part with a separate plan."
            )

    @property
    def n_passes(self) -> int:
        """Number of answers about all records, each of which takes one pass."""
        found = 0
        for line in self.lines:
            if isinstance(line, Part):
                found += line.plan.n_passes
            elif line.sample is EVERYONE:
                found += line.times
        return found

    @property
    def is_plain(self) -> bool:
        """Whether all answers are released, about all records."""
        parts = [line.plan.is_plain for line in self.lines if isinstance(line, Part)]
        samples = [line.sample for line in self.lines if isinstance(line, Line)]
        is_of_all = all(sample is EVERYONE for sample in samples)
        return self.declared is None and is_of_all and all(parts)

    @property
    def strength_squared(self) -> float | None:
        """Sum of mu^2 of all answers over that of one answer of the plan.

        None if other noise than independent Gaussian noise about all records is used.
        """
        found = 0.0
        for line in self.lines:
            if isinstance(line, Part):
                inner = line.plan.strength_squared
                if inner is None:
                    return None
                found += inner / line.multiple**2
            elif line.law is GAUSSIAN and line.sample is EVERYONE:
                found += line.times / line.multiplier(1.0) ** 2
            else:
                return None
        return None if self.declared is not None else found

    def event(self, noise_multiplier: float, relation: Relation) -> Event:
        """Event of the whole release, for accounting."""
        if self.declared is not None:
            return self.declared(noise_multiplier)
        parts = tuple(
            line.event(noise_multiplier, relation) for line in self.lines if line.times
        )
        return parts[0] if len(parts) == 1 else ComposedEvent(parts)
