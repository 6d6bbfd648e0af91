"""`Answers`: the only way to a record, as often and as noisily as was declared.

Whoever holds answers holds no record and no entropy. Answers are had by committing a
plan (`skdp.privacy._door`); they add up a query where the records are, add the declared
noise, count down, and raise when the plan is used up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from skdp._floats import FloatArray, IntArray
from skdp.data import buckets
from skdp.exceptions import PlanUsedUpError
from skdp.privacy._adjacency import Relation
from skdp.privacy._draws import DrawsOf
from skdp.privacy._events import Event
from skdp.privacy._laws import Choices, NoiseLaw
from skdp.privacy._noise import NoiseSource
from skdp.privacy._plan import Batch, Buckets, Line, Part, Plan, Poisson
from skdp.privacy._query import Inside, Layout, Query

View = Callable[[Any], Any]


class Records(Protocol):
    """What answers need of a source: public facts of its layout."""

    n_samples: int
    largest_block: int


@dataclass(frozen=True)
class Released:
    """One noisy answer.

    Parameters
    ----------
    value : ndarray of float64
        Private output.
    sigma : float
        Scale of its noise in units of the query: the standard deviation for Gaussian
        noise, the scale of the norm for spherical, of an entry for Laplace noise.
    deviation : float
        Standard deviation of the noise in one number. Public, like `sigma`.
    """

    value: FloatArray
    sigma: float
    deviation: float


@dataclass(frozen=True)
class Grant:
    """An event on the books, and the noise it was declared with; public.

    Parameters
    ----------
    event : Event
    noise_multiplier : float
        Of the plan; 0.0 without noise.
    relation : {"replace_one", "zero_out", "rating_value", "user"}
        Of neighbours.
    """

    event: Event
    noise_multiplier: float
    relation: Relation


class Answers(ABC):
    """Answers to the queries of a plan whose event is on the books.

    Parameters
    ----------
    plan : Plan
    source : Records
        Private.
    grant : Grant

    Attributes
    ----------
    event : Event
    noise_multiplier : float
    noise_scale : float
        Largest `sigma` so far; 0.0 without noise.
    """

    is_rehearsed = False  # whether answers are constants
    is_exact = False  # whether they are the numbers themselves

    def __init__(self, plan: Plan, source: Any, grant: Grant) -> None:
        self._plan, self._source, self._grant = plan, source, grant
        self._left = [line.times for line in plan.lines]
        self.event, self.noise_multiplier = grant.event, grant.noise_multiplier
        self.noise_scale = 0.0

    @property
    def layout(self) -> Layout:
        """How sums over all records are taken; public."""
        return Layout(self._source.largest_block)

    @abstractmethod
    def ask(self, query: Query, line: int = 0) -> Released:
        """The answer to one query.

        Parameters
        ----------
        query : Query
        line : int, default=0
            Of the plan.

        Raises
        ------
        PlanUsedUpError
            If all answers of the line have been given.
        """

    @abstractmethod
    def choose(self, query: Query, k: int, line: int) -> IntArray:
        """Indices of `k` nearly largest numbers of a query, each chosen privately."""

    @abstractmethod
    def inside(
        self, algorithm: Inside, hear: Callable[[Any], None] | None = None
    ) -> Any:
        """What an algorithm within the walls releases last.

        Parameters
        ----------
        algorithm : Inside
            Uses up all lines of the plan.
        hear : callable or None, default=None
            Is told each release that is not hidden.
        """

    def part(self, line: int, view: View | None = None) -> Answers:
        """Answers of a plan within the plan, over the records as a view shows them."""
        part = self._take(line)
        if not isinstance(part, Part):
            raise TypeError(f"Line {line} of the plan must be a part. Got {part!r}.")
        grant = Grant(self.event, part.multiplier(self.noise_multiplier), self.relation)
        return self._sub(part.plan, view, grant)

    @property
    def relation(self) -> Relation:
        """Of neighbours."""
        return self._grant.relation

    def multiplier(self, line: int = 0) -> float:
        """Noise multiplier of one answer of a line; public."""
        return self._plan.lines[line].multiplier(self.noise_multiplier)

    def expected(self, query: Query, line: int = 0) -> Released:
        """What is public of an answer beforehand: its noise, with zeros for numbers."""
        asked = self._line(line)
        layout = self._layout(asked)
        return self._scaled(
            np.zeros(query.shape), asked, self._bound(query, asked, layout)
        )

    @abstractmethod
    def _sub(self, plan: Plan, view: View | None, grant: Grant) -> Answers:
        """Answers of the same kind for a plan within the plan."""

    def _line(self, line: int) -> Line:
        asked = self._plan.lines[line]
        if not isinstance(asked, Line):
            raise TypeError(
                f"Line {line} of the plan is a plan of its own: use part()."
            )
        return asked

    def _take(self, line: int, times: int = 1) -> Line | Part:
        """Count down before anything is read."""
        if self._left[line] < times:
            raise PlanUsedUpError(
                "All answers that were declared have been given. Declare more of them "
                "in the plan. Nothing was read."
            )
        self._left[line] -= times
        return self._plan.lines[line]

    def _layout(self, line: Line) -> Layout:
        # Which rows stand beside a sampled one is secret, so all of them may move.
        is_sampled = isinstance(line.sample, (Batch, Poisson))
        moved = self._source.n_samples if is_sampled else 1
        return Layout(self._source.largest_block, moved)

    def _bound(self, query: Query, line: Line, layout: Layout) -> float:
        bound = query.bound()
        if isinstance(line.law, Choices) or bound.norm == line.law.norm:
            relation = line.sample.covering(self.relation)
            return bound.under(relation) + query.slack(layout)
        raise TypeError(
            f"{line.law.name} noise needs a bound in L{line.law.norm}. Got one in "
            f"L{bound.norm}. Nothing was read."
        )

    def _scaled(self, value: FloatArray, line: Line, bound: float) -> Released:
        """A released value with what is public of its noise."""
        law = line.law
        if isinstance(law, Choices):
            raise TypeError("Choices have no noise of a size. Use choose().")
        multiplier = line.multiplier(self.noise_multiplier)
        scale = law.scale(bound, multiplier, value.size, line.is_fine)
        return Released(
            value, scale.sigma, scale.sigma * law.deviation(1.0, value.size)
        )


class LocalAnswers(Answers):
    """Over records of this process, with noise from one source.

    Parameters
    ----------
    plan, source, grant
        As in `Answers`.
    noise : NoiseSource
    """

    def __init__(
        self, plan: Plan, source: Any, grant: Grant, noise: NoiseSource
    ) -> None:
        super().__init__(plan, source, grant)
        self._noise = noise
        # What the last query's family keeps of the rows.
        self._reader: tuple[Any, Any] = (None, None)
        self._buckets: Iterator[Any] | None = None

    def ask(self, query: Query, line: int = 0) -> Released:
        self._take(line)
        asked = self._line(line)
        # From here on no warning may depend on the data.
        with np.errstate(all="ignore"):
            exact, layout = self._total(query, asked)
            bound = self._bound(query, asked, layout)
            released = self._noisy(exact, asked, bound)
        return self._scaled(released, asked, bound)

    def choose(self, query: Query, k: int, line: int) -> IntArray:
        self._take(line, k)
        asked = self._line(line)
        if not isinstance(asked.law, Choices):
            raise TypeError("Only a line of choices can be chosen from. Use ask().")
        with np.errstate(all="ignore"):
            scores, layout = self._total(query, asked)
            bound = self._bound(query, asked, layout)
        return asked.law.choose(self._noise, scores, k, bound, self.multiplier(line))

    def inside(
        self, algorithm: Inside, hear: Callable[[Any], None] | None = None
    ) -> Any:
        heard: Any = None
        with np.errstate(all="ignore"):
            reading = algorithm.within(self._source, DrawsOf(self._noise))
            for number, line in enumerate(self._plan.lines):
                for done in range(line.times):
                    self._take(number)
                    exact = reading.send(heard)
                    bound = algorithm.bound(number, done)
                    heard = self._noisy(exact, self._line(number), bound)
                    if hear is not None and not self._line(number).is_hidden:
                        hear(heard)
            reading.close()
        return heard

    def _sub(self, plan: Plan, view: View | None, grant: Grant) -> Answers:
        source = self._source if view is None else view(self._source)
        return LocalAnswers(plan, source, grant, self._noise)

    def _total(self, query: Query, line: Line) -> tuple[FloatArray, Layout]:
        """The exact answer, and how it was added up."""
        if isinstance(line.sample, Buckets):
            bucket = self._next_bucket(line.sample)
            return query.total(query.open(bucket), None), Layout(bucket.largest_block)
        rows, n = None, self._source.n_samples
        if isinstance(line.sample, Poisson):
            rows = self._noise.poisson_sample(n, line.sample.rate)
        if isinstance(line.sample, Batch):
            rows = self._noise.subset(n, line.sample.size)
        return query.total(self._opened(query), rows), self._layout(line)

    def _opened(self, query: Query) -> Any:
        family, reader = self._reader
        if family is None or family != query.family:
            reader = query.open(self._source)
            self._reader = query.family, reader
        return reader

    def _next_bucket(self, sample: Buckets) -> Any:
        if self._buckets is None:
            self._buckets = buckets(self._source, sample.size)
        return next(self._buckets)

    def _noisy(self, exact: Any, line: Line, bound: float) -> Any:
        """What leaves for an exact answer."""
        multiplier = line.multiplier(self.noise_multiplier)
        law: NoiseLaw | Choices = line.law
        if isinstance(law, Choices):
            epsilon = law.epsilon(multiplier)
            return self._noise.signed_choice(
                exact, sensitivity=int(bound), epsilon=epsilon
            )
        scale = law.scale(bound, multiplier, exact.size, line.is_fine)
        self.noise_scale = max(self.noise_scale, scale.sigma)
        return law.release(self._noise, exact, bound, multiplier, line.is_fine)


class RehearsedAnswers(Answers):
    """Constants in place of answers, and nothing is read: for what a search plans."""

    is_rehearsed = True

    def ask(self, query: Query, line: int = 0) -> Released:
        self._take(line)
        return self.expected(query, line)

    def choose(self, query: Query, k: int, line: int) -> IntArray:
        self._take(line, k)
        return np.arange(k)

    def inside(
        self, algorithm: Inside, hear: Callable[[Any], None] | None = None
    ) -> Any:
        raise TypeError("A rehearsal has nothing to read. Answer with a constant.")

    def _sub(self, plan: Plan, view: View | None, grant: Grant) -> Answers:
        return RehearsedAnswers(plan, self._source, grant)


class NoiselessRehearsal(RehearsedAnswers):
    """Zeros, as many as are asked for: a rehearsal at ``epsilon=inf``."""

    def ask(self, query: Query, line: int = 0) -> Released:
        return self.expected(query, line)

    def choose(self, query: Query, k: int, line: int) -> IntArray:
        return np.arange(k)

    def expected(self, query: Query, line: int = 0) -> Released:
        return Released(np.zeros(query.shape), 0.0, 0.0)


class ExactAnswers(Answers):
    """The records themselves, where nothing is private: ``epsilon=inf``."""

    is_exact = True

    def expected(self, query: Query, line: int = 0) -> Released:
        return Released(np.zeros(query.shape), 0.0, 0.0)

    @property
    def records(self) -> Any:
        """The source, for computations without noise."""
        return self._source

    def ask(self, query: Query, line: int = 0) -> Released:
        with np.errstate(all="ignore"):
            return Released(query.total(query.open(self._source), None), 0.0, 0.0)

    def choose(self, query: Query, k: int, line: int) -> IntArray:
        scores = self.ask(query).value
        return np.argsort(-scores, kind="stable")[:k].astype(np.int64)

    def inside(
        self, algorithm: Inside, hear: Callable[[Any], None] | None = None
    ) -> Any:
        raise TypeError("Without privacy there are no walls. Read the records.")

    def _sub(self, plan: Plan, view: View | None, grant: Grant) -> Answers:
        source = self._source if view is None else view(self._source)
        return ExactAnswers(plan, source, grant)
