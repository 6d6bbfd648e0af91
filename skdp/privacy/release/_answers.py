"""`Answers`: noisy access to records, limited to the answers that a plan declares."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn, SupportsIndex, TypeVar

import numpy as np

from skdp._arrays import FloatArray, IntArray
from skdp._checks import check_count
from skdp._quiet import no_warnings
from skdp.exceptions import READ_FAILED, PlanUsedUpError, SourceError
from skdp.privacy.accounting._events import Event
from skdp.privacy.accounting._relations import Relation, is_of_users
from skdp.privacy.noise._laws import Choices, NoiseLaw, PureChoices
from skdp.privacy.noise._noise import NoiseSource
from skdp.privacy.release._plan import (
    Batch,
    Buckets,
    Correlated,
    DrawsOf,
    Everyone,
    Inside,
    Layout,
    Line,
    Part,
    Plan,
    Poisson,
    Query,
)
from skdp.tables._memory import MOST_ROWS_OF_A_USER
from skdp.tables._source import Records
from skdp.tables._views import buckets, parts_of

# -------------------------------------------- Exact answers of local and remote records


def exact_answer(
    query: Query, source: Any, opened: Callable[[Query], Any], rows: IntArray | None
) -> FloatArray:
    """The exact answer to a query, computed where the records are. Private.

    Parameters
    ----------
    query : Query
    source : Source
    opened : callable
        Maps a query to its reader of the source, for records in this process.
    rows : ndarray of int64 or None
        In increasing order; None for all records.
    """
    place, whole = source.remote, whole_of(query)
    if place is None or whole is None:
        return query.total(opened(query), rows)
    answer: FloatArray = whole.from_whole(source, place.sums(whole, source, rows))
    return answer


def whole_of(query: Any) -> Any:
    """The query if its answer follows from exact sums, else None."""
    return query if getattr(query, "is_whole", False) else None


class Opened:
    """A source's reader for a query; queries of one family share it. Private."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._family: Any = None
        self._reader: Any = None

    def __call__(self, query: Query) -> Any:
        if self._family is None or self._family != query.family:
            self._reader = query.open(self._source)
            self._family = query.family
        return self._reader


# ----------------------------------------------- State of answers with correlated noise
# Private: the state has sums over records.


class PartSums:
    """The parts in order, and weighted sums of the answers for them.

    Only `Answers` may hold this object, since it contains exact sums over records.

    Parameters
    ----------
    sample : Correlated
    source : Source
        A table, which is cut into parts, or a stream of parts.
    """

    def __init__(self, sample: Correlated, source: Any) -> None:
        self.sample, self._source = sample, source
        self._parts = parts_of(source, sample.size)
        self._asked = 0
        self._weights: FloatArray = np.ones(1)
        # Exact answers over their bounds, and released answers; the newest come first.
        most = len(sample.matrix.largest)
        self._exact: deque[FloatArray] = deque(maxlen=most)
        self._released: deque[FloatArray] = deque(maxlen=most)

    def part(self) -> Any:
        """The part for which the next answer is computed."""
        matrix = self.sample.matrix
        begun, asked = divmod(self._asked, matrix.asks)
        if asked == 0:
            if begun and begun % matrix.n_parts == 0:  # another pass
                self._parts = parts_of(self._source, self.sample.size)
            self._part = next(self._parts, None)
            self._opened = Opened(self._part)
            if self._part is None:
                raise PlanUsedUpError(
                    "A plan must have no more answers than there are parts. Got more. "
                    "Declare fewer answers."
                )
        self._weights = matrix.weights(self._asked)
        self._asked += 1
        return self._part

    def weighted(self, query: Query, bound: float) -> FloatArray:
        """The weighted sum to which noise is added for a query. Private."""
        exact = exact_answer(query, self._part, self._opened, None)
        self._exact.appendleft(np.asarray(exact) / bound)
        if self._asked % self.sample.matrix.asks == 0:
            # Later answers need the part's sums, but not its records.
            self._part, self._opened = None, Opened(None)
        return self._sum(self._exact, 0)

    def unweighted(self, released: FloatArray) -> FloatArray:
        """The answer over its bound, computed from a released sum.

        It is post-processing of this release and of earlier ones.
        """
        answer = np.asarray(released - self._sum(self._released, 1))
        self._released.appendleft(answer)
        return answer

    def _sum(self, past: deque[FloatArray], first: int) -> FloatArray:
        weights = self._weights[first : first + len(past)]
        pairs = zip(weights, past, strict=False)
        return np.asarray(sum(weight * each for weight, each in pairs))


# -------------------------------------------------- Answers: the only access to records
# A caller of `Answers` never gets a record or the noise source. Committing a plan
# returns the object (`skdp.privacy.release._door`). It adds up a query where the
# records are, adds the declared noise, counts the answers, and raises when the plan is
# used up.


View = Callable[[Any], Any]
T = TypeVar("T")
# Exceptions that have a public reason, or that the user caused.
_PASSED_ON = (PlanUsedUpError, KeyboardInterrupt, SystemExit, GeneratorExit)


@dataclass(frozen=True)
class Released:
    """One noisy answer.

    Parameters
    ----------
    value : ndarray of float64
        Private output.
    sigma : float
        Scale of the noise in units of the query: the standard deviation of Gaussian
        noise, the scale of the norm of spherical noise, or the scale of an entry of
        Laplace noise. Public.
    deviation : float
        Standard deviation of the noise in one entry. Public.
    """

    value: FloatArray
    sigma: float
    deviation: float


@dataclass(frozen=True)
class Grant:
    """A committed event, and its noise; public.

    `noise_multiplier` is that of the plan, 0.0 without noise; `relation` is the
    adjacency. The number of records may be up to `max_overcount` times the
    number for which the plan was made.
    """

    event: Event
    noise_multiplier: float
    relation: Relation
    max_overcount: float = 1.0


def answered(ask: Callable[[], T]) -> T:
    """The result of reading records; nothing else about the records is shown.

    Any exception becomes one constant error, and all warnings are suppressed, since
    both could depend on a single record.

    Parameters
    ----------
    ask : callable
        Reads the records, and returns the values that may be released.

    Raises
    ------
    SourceError
    """
    with no_warnings():
        try:
            return ask()
        except _PASSED_ON:
            raise
        except BaseException:  # drivers raise more than exceptions
            pass
    # Raised outside the handler, so that the first error is not chained to it.
    raise SourceError(READ_FAILED)


def seen_by(view: View | None, source: Any) -> Any:
    """The source for a part of a plan; making the view may read the records."""
    return source if view is None else answered(lambda: view(source))


class Answers(ABC):
    """Answers to the queries of a plan whose event has been committed.

    Parameters
    ----------
    source : Records
        Private.

    Attributes
    ----------
    event : Event
    noise_multiplier : float
    """

    is_rehearsed = False  # whether answers are constants
    is_exact = False  # whether answers have no noise

    def __init__(self, plan: Plan, source: Any, grant: Grant) -> None:
        self._plan, self._source, self._grant = plan, source, grant
        self._left = [line.times for line in plan.lines]
        self.event, self.noise_multiplier = grant.event, grant.noise_multiplier
        self._largest = 0.0
        self._parts: list[Answers] = []

    @property
    def noise_scale(self) -> float:
        """Largest `sigma` so far, with the parts; 0.0 without noise."""
        return max([self._largest, *(part.noise_scale for part in self._parts)])

    @property
    def layout(self) -> Layout:
        """The layout of sums over all records; public."""
        return _layout_of(self._source, self.relation)

    @abstractmethod
    def ask(self, query: Query, line: int = 0) -> Released:
        """The answer to one query.

        Parameters
        ----------
        line : int, default=0
            Index of the plan's line.

        Raises
        ------
        PlanUsedUpError
            If all answers of the line have been given.
        TypeError
            If the line's answers are hidden, or its noise does not fit the query's
            norm.
        UnboundedQueryError
            If the query has no bound under the adjacency. Nothing was read if any of
            these is raised.
        """

    @abstractmethod
    def choose(self, query: Query, k: int, line: int) -> IntArray:
        """Indices of `k` nearly largest entries of a query, each selected privately.

        Parameters
        ----------
        k : int of at least 1
            Number of selections; they use up `k` answers of the line.
        line : int
            Index of the plan's line, whose law must be one of choices.

        Raises
        ------
        PlanUsedUpError, TypeError, ValueError, UnboundedQueryError
            As in `ask`, and if the answer has fewer than `k` numbers.
        """

    def inside(
        self, algorithm: Inside, hear: Callable[[Any], None] | None = None
    ) -> Any:
        """The last release of an algorithm that uses exact answers; None if all hidden.

        Parameters
        ----------
        algorithm : Inside
            The algorithm, which uses up all lines of the plan.
        hear : callable or None, default=None
            Called with each release that is not hidden.

        Raises
        ------
        PlanUsedUpError
            If an answer of the plan has been given already.
        TypeError
            If a line is a part, has samples, or has noise for bounds in L1; also if the
            answers are constants or have no noise.
        """
        raise TypeError(
            "An algorithm that uses exact answers must have answers with noise. Got "
            "constants, or answers without noise. Return a constant in a rehearsal, "
            "and read the records if epsilon is inf."
        )

    def part(
        self, line: int, view: View | None = None, *, instead: bool = False
    ) -> Answers:
        """Answers of a plan within the plan, for the records as a view shows them.

        `instead` asks for the other one of a part's two plans.
        """
        part = self._plan.lines[line]
        if not isinstance(part, Part):
            raise TypeError(f"Line {line} of the plan must be a part. Got {part!r}.")
        plan = part.instead if instead else part.plan
        if plan is None:
            raise TypeError(f"Line {line} of the plan must have two plans. Got one.")
        self._take(line)
        multiplier = part.multiplier(self.noise_multiplier)
        grant = replace(self._grant, noise_multiplier=multiplier)
        self._parts.append(self._sub(plan, view, grant))
        return self._parts[-1]

    @property
    def relation(self) -> Relation:
        return self._grant.relation

    def multiplier(self, line: int = 0) -> float:
        """Noise multiplier of one answer of a line; public."""
        return self._plan.lines[line].multiplier(self.noise_multiplier)

    def expected(self, query: Query, line: int = 0) -> Released:
        """The public facts of a future answer: its noise, with zeros as values."""
        if self.noise_multiplier == 0:
            return Released(np.zeros(query.shape), 0.0, 0.0)
        asked, law = self._of_noise(line)
        bound = self._bound(query, asked) + self._slack(query, self._layout(asked))
        return self._scaled(np.zeros(query.shape), asked, law, bound)

    def _sub(self, plan: Plan, view: View | None, grant: Grant) -> Answers:
        """Answers of the same class for a plan within the plan."""
        return type(self)(plan, self._source, grant)

    def _line(self, line: int) -> Line:
        asked = self._plan.lines[line]
        if not isinstance(asked, Line):
            raise TypeError(
                f"Line {line} of the plan must not be a part. Got a part. Use part()."
            )
        return asked

    def _leaving(self, line: int) -> Line:
        """A line whose answers are released; raises for a hidden line."""
        asked = self._line(line)
        if asked.is_hidden or asked.is_fine:
            raise TypeError(
                f"Line {line} of the plan must be one of released answers. Got one of "
                "hidden answers. Use inside(), or declare released answers."
            )
        return asked

    def _of_noise(self, line: int) -> tuple[Line, NoiseLaw]:
        """A line that `ask` may use, with its law; raises for others."""
        asked = self._leaving(line)
        if isinstance(asked.law, Choices):
            raise TypeError("A line of choices has no noise scale. Use choose().")
        return asked, asked.law

    def _of_choices(self, line: int, query: Query, k: int) -> Choices:
        """The law of a line that allows `k` choices; raises for others."""
        law = self._leaving(line).law
        if not isinstance(law, Choices):
            raise TypeError("The law of the line must be one of choices. Use ask().")
        check_count("k", k, high=math.prod(query.shape))
        if isinstance(law, PureChoices) and k != 1:
            raise ValueError(f"A pure selection must have k=1. Got {k}.")
        return law

    def _take(self, line: int, times: int = 1) -> None:
        """Count the answers down before anything is read."""
        if self._left[line] < times:
            raise PlanUsedUpError(
                "All declared answers have been given. Declare more answers in the "
                "plan. Nothing was read."
            )
        self._left[line] -= times

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            "Answers must stay in their process: a copy would give them twice. Pass on "
            "the released values instead."
        )

    def _layout(self, line: Line) -> Layout:
        # Which rows are sampled is secret, so the rounding of all rows may change.
        is_sampled = isinstance(line.sample, (Batch, Poisson))
        moved = self._source.n_samples if is_sampled else 1
        return _layout_of(self._source, self.relation, moved)

    def _bound(self, query: Query, line: Line) -> float:
        """The query's bound in exact arithmetic."""
        bound = query.bound()
        if isinstance(line.law, Choices) or bound.norm == line.law.norm:
            return bound.under(line.sample.covering(self.relation))
        raise TypeError(
            f"{line.law.name} noise needs a bound in L{line.law.norm}. Got one in "
            f"L{bound.norm:g}. Use a law for that norm. Nothing was read."
        )

    def _check_bound(self, query: Query, line: Line) -> None:
        """Raise for a public reason before anything is read."""
        if not isinstance(line.sample, Correlated):  # its answers have separate bounds
            self._bound(query, line)

    def _slack(self, query: Query, layout: Layout) -> float:
        """Bound on the effect of rounding, for the largest number of records."""
        return self._grant.max_overcount * query.slack(layout)

    def _scaled(
        self, value: FloatArray, line: Line, law: NoiseLaw, bound: float
    ) -> Released:
        """A released value with the public facts of its noise."""
        if isinstance(line.sample, Correlated):
            bound *= line.sample.spread
        multiplier = line.multiplier(self.noise_multiplier)
        scale = law.scale(bound, multiplier, value.size, line.is_fine)
        return Released(
            value, scale.sigma, scale.sigma * law.deviation(1.0, value.size)
        )


def _layout_of(source: Records, relation: Relation, moved_rows: int = 1) -> Layout:
    facts = source.facts
    return Layout(
        facts.largest_block,
        moved_rows,
        facts.amplification,
        facts.cells,
        MOST_ROWS_OF_A_USER if is_of_users(relation) else 1,
    )


class LocalAnswers(Answers):
    """Answers over the records of this process, with noise from one source."""

    def __init__(
        self, plan: Plan, source: Any, grant: Grant, noise: NoiseSource
    ) -> None:
        super().__init__(plan, source, grant)
        self._noise = noise
        self._opened = Opened(source)
        self._buckets: Iterator[Any] | None = None
        self._part_sums: dict[int, PartSums] = {}  # by line

    def ask(self, query: Query, line: int = 0) -> Released:
        asked, law = self._of_noise(line)
        self._check_bound(query, asked)
        # Count before the read: a failed read may have seen records.
        self._take(line)
        if isinstance(asked.sample, Correlated):
            if line not in self._part_sums:
                self._part_sums[line] = PartSums(asked.sample, self._source)
            sums = self._part_sums[line]
            return answered(lambda: self._of_part(query, asked, sums, law))
        return answered(lambda: self._answer(query, asked, law))

    def _answer(self, query: Query, line: Line, law: NoiseLaw) -> Released:
        exact, bound = self._total(query, line)
        return self._scaled(self._noisy(exact, line, bound), line, law, bound)

    def _of_part(
        self, query: Query, line: Line, sums: PartSums, law: NoiseLaw
    ) -> Released:
        """The answer for a part, computed from the release of a weighted sum of parts.

        Answers enter the sum in units of their bounds, which follow from releases.
        """
        part = sums.part()
        layout = _layout_of(part, self.relation)
        # Each part may have a different overcount.
        slack = part.facts.max_overcount * query.slack(layout)
        bound = self._bound(query, line) + slack
        exact = sums.weighted(query, bound)
        multiplier = line.multiplier(self.noise_multiplier)
        joint = sums.sample.on_grid(law, multiplier, exact.size)
        noisy = self._noisy(exact, line, joint)
        released = bound * sums.unweighted(noisy)
        return self._scaled(released, line, law, bound)

    def choose(self, query: Query, k: int, line: int) -> IntArray:
        law = self._of_choices(line, query, k)
        self._check_bound(query, self._line(line))
        self._take(line, k)

        def chosen() -> IntArray:
            scores, bound = self._total(query, self._line(line))
            return law.choose(self._noise, scores, k, bound, self.multiplier(line))

        return answered(chosen)

    def inside(
        self, algorithm: Inside, hear: Callable[[Any], None] | None = None
    ) -> Any:
        self._check_shares(algorithm)
        lines = [self._within(number) for number in range(len(self._plan.lines))]
        reading = algorithm.within(self._source, DrawsOf(self._noise))
        released: Any = None

        def next_answer(heard: Any, line: Line, bound: float) -> Any:
            try:
                exact = reading.send(heard)
            except StopIteration:
                raise PlanUsedUpError(
                    "An algorithm that uses exact answers must give as many answers "
                    "as were declared. Got fewer. Declare fewer."
                ) from None
            return self._noisy(exact, line, bound)

        heard: Any = None
        for number, line in enumerate(lines):
            for done in range(line.times):
                self._take(number)
                bound = algorithm.bound(number, done)
                heard = answered(partial(next_answer, heard, line, bound))
                if line.is_hidden:
                    continue
                released = heard
                if hear is not None:
                    hear(released)
        # Every declared answer has been given, so the algorithm leaves the records.
        answered(reading.close)
        return released

    def _check_shares(self, algorithm: Inside) -> None:
        """Raise for users if the algorithm does not multiply rows by their weights."""
        if is_of_users(self.relation) and not getattr(algorithm, "takes_shares", False):
            raise TypeError(
                "An algorithm that uses exact answers must multiply the contribution "
                "of each row by the row's weight to protect users. Got one that does "
                "not. Use ask(). Nothing was read."
            )

    def _within(self, number: int) -> Line:
        """A line for all records that `inside` may use; raises for others."""
        line = self._line(number)
        if self._left[number] < line.times:
            raise PlanUsedUpError(
                "All answers of a plan must be unused for an algorithm that uses exact "
                "answers. Got fewer. Declare a separate part. Nothing was read."
            )
        is_of_l1 = not isinstance(line.law, Choices) and line.law.norm != 2
        if is_of_l1 or not isinstance(line.sample, Everyone):
            raise TypeError(
                f"Line {number} of the plan must read all records and have noise for "
                "an L2 bound, or choices. Got a line with a sample or with noise for "
                "an L1 bound. Use ask() for it."
            )
        return line

    def _sub(self, plan: Plan, view: View | None, grant: Grant) -> Answers:
        source = seen_by(view, self._source)
        return LocalAnswers(plan, source, grant, self._noise)

    def _total(self, query: Query, line: Line) -> tuple[FloatArray, float]:
        """The exact answer, and its bound, which is known before the read."""
        bound, rows, n = self._bound(query, line), None, self._source.n_samples
        if isinstance(line.sample, Buckets):
            bucket = self._next_bucket(line.sample)
            bound += self._slack(query, _layout_of(bucket, self.relation))
            return query.total(query.open(bucket), None), bound
        bound += self._slack(query, self._layout(line))
        if isinstance(line.sample, Poisson):
            rows = self._noise.poisson_sample(n, line.sample.rate)
        if isinstance(line.sample, Batch):
            rows = self._noise.subset(n, line.sample.size)
        return exact_answer(query, self._source, self._opened, rows), bound

    def _next_bucket(self, sample: Buckets) -> Any:
        if self._buckets is None:
            self._buckets = buckets(self._source, sample.size)
        bucket = next(self._buckets, None)
        if bucket is None:
            raise PlanUsedUpError(
                "A plan must have no more answers from buckets than there are buckets. "
                "Got more. Declare fewer."
            )
        return bucket

    def _noisy(self, exact: Any, line: Line, bound: float) -> Any:
        """The released value of an exact answer."""
        multiplier = line.multiplier(self.noise_multiplier)
        law: NoiseLaw | Choices = line.law
        if isinstance(law, Choices):
            epsilon = law.epsilon(multiplier)
            # The scores are integers, and rounding the bound up keeps it valid.
            return self._noise.signed_choice(
                exact, sensitivity=math.ceil(bound), epsilon=epsilon
            )
        scale = law.scale(bound, multiplier, exact.size, line.is_fine)
        self._largest = max(self._largest, scale.sigma)
        return law.release(self._noise, exact, bound, multiplier, line.is_fine)


class RehearsedAnswers(Answers):
    """Constants instead of answers, for the rehearsal of a search; no data are read.

    Without noise, at ``epsilon=inf``, any number of queries is answered.
    """

    is_rehearsed = True

    def ask(self, query: Query, line: int = 0) -> Released:
        if self.noise_multiplier:
            self._take(line)
        return self.expected(query, line)

    def choose(self, query: Query, k: int, line: int) -> IntArray:
        if self.noise_multiplier:
            self._of_choices(line, query, k)
            self._take(line, k)
        return np.arange(k)


class ExactAnswers(Answers):
    """Answers without noise, for ``epsilon=inf``; they are not private."""

    is_exact = True

    @property
    def records(self) -> Any:
        """The source, for computations without noise."""
        return self._source

    def part(
        self, line: int, view: View | None = None, *, instead: bool = False
    ) -> Answers:
        # Without noise there may be no plan.
        return self._sub(self._plan, view, self._grant)

    def _sub(self, plan: Plan, view: View | None, grant: Grant) -> Answers:
        source = self._source if view is None else view(self._source)
        return ExactAnswers(plan, source, grant)

    def ask(self, query: Query, line: int = 0) -> Released:
        with np.errstate(all="ignore"):
            return Released(query.total(query.open(self._source), None), 0.0, 0.0)

    def choose(self, query: Query, k: int, line: int) -> IntArray:
        scores = self.ask(query).value
        return np.argsort(-scores, kind="stable")[:k].astype(np.int64)
