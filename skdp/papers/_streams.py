"""FTRL with correlated noise, and fits of streams."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import islice
from threading import RLock
from typing import Any, ClassVar, NoReturn, SupportsIndex
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from skdp._checks import check_count
from skdp._configured import Checks, Given
from skdp._fit import PlannedFit, Progress
from skdp.exceptions import Refused, StreamOverError
from skdp.io._table import Table
from skdp.linear_model._rows import LinearRows, rows_of_columns, rows_of_numbers
from skdp.losses._objective import LinearObjective
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._events import ComposedEvent
from skdp.privacy.accounting._gaussian import gaussian_mu
from skdp.privacy.accounting._relations import is_of_users
from skdp.privacy.noise._correlated import SquareRoot
from skdp.privacy.release._answers import Answers
from skdp.privacy.release._door import Ledger, auditor_now, owners_now
from skdp.privacy.release._plan import Correlated
from skdp.solvers._base import Solution
from skdp.solvers._descent import FlowTime, MomentumGD
from skdp.solvers._registry import named_solver
from skdp.tables._source import Source
from skdp.tables._views import ChunkSource

# ----------------------------------- Steps along the gradients of parts, each read once
# Algorithm: the records are cut, by position or as they arrive, into ``n_parts`` parts
# of at most m records. With ``g_t`` the clipped gradient sum over part ``t //
# steps_per_part`` at ``W_t``, ``B_t`` its bound, and C the banded square root of "the
# sum of all so far", ``r = C (g / B) + z`` is released row by row, with z Gaussian. The
# step is along ``B_t (C^-1 r)_t / m``. In the sum of all steps, which determines the
# weights in flat directions, the noise of C^-1 z mostly cancels.


N_PARTS = 20
# Past sums that are kept; more of them would hide little more.
_BAND = 500


@dataclass(frozen=True, kw_only=True)
class FTRL(MomentumGD):
    """Follow the regularised leader: one reading, part by part, with correlated noise.

    Use it for records that come in parts, with a model after each (`partial_fit`), or
    for a table that can be read only once. Adult in 20 parts at epsilon 1 under
    replace_one has an accuracy of 0.8361, where `noisy_gd` on all records has 0.8432
    and `online` 0.8172; at epsilon 0.1 parts cost 2 to 3 points. It refuses
    ``delta=0``.

    Parameters
    ----------
    n_parts : int in [1, 10000], default=20
        Parts, public and fixed before the first; `fit` cuts a table into no more.
    steps_per_part : int in [1, 1000] or None, default=None
        None: as many as make the steps of `noisy_gd` with as much noise.
    band : int in [1, 10000], default=500
        Past sums with which noise is correlated, and which are kept; 1 is independent
        noise.
    step_size, momentum, residual_clip, intercept_weight
        As for `noisy_gd`.
    tail : float in [1e-9, 1] or None, default=None
        Share of the last parts whose iterates are averaged. None: 0.5.
    keeps_path : bool, default=False
        Whether all iterates are kept.

    Notes
    -----
    Released is the model after each part; all iterates may be. All releases together
    are exactly ``1 / noise_multiplier``-GDP, provided that no record is in two parts.
    Sums of earlier parts stay in memory and are never stored. After K parts the noise
    in flat directions is about ``1 + log(K) / pi`` times that of `noisy_gd`, where
    independent noise has ``sqrt(K)`` times. Unit of privacy: one record, or all rows of
    a user, which are in one part. Proof: ``docs/proofs/streams.md``, Theorem 1.

    References
    ----------
    .. [1] Kairouz, McMahan, Song, Thakkar, Thakurta and Xu (2021). Practical and
       private (deep) learning without sampling or shuffling. ICML.
    .. [2] Kalinin and Lampert (2024). Banded square root matrix factorization for
       differentially private model training. NeurIPS.
    """

    key: ClassVar[str] = "ftrl"
    mechanism: ClassVar[str] = (
        "Gaussian noise on weighted sums over disjoint parts of records"
    )
    needs_order: ClassVar[bool] = True
    takes_users: ClassVar[bool] = True
    checks: ClassVar[Checks] = {
        **MomentumGD.checks,
        "n_parts": partial(check_count, high=10_000),
        "steps_per_part": partial(check_count, high=1000),
        "band": partial(check_count, high=10_000),
    }

    n_parts: int = N_PARTS
    steps_per_part: int
    band: int = _BAND

    @classmethod
    def check(cls, objective: LinearObjective, budget: Budget) -> None:
        if is_of_users(objective.adjacency) and not objective.is_ordered:
            raise Refused(
                f"solver={cls.key!r} cuts a table by position, and users have none. "
                "Use partial_fit with a part for each table of users, or "
                "solver='noisy_gd'."
            )
        super().check(objective, budget)

    @classmethod
    def by_rule(
        cls, given: Given, objective: LinearObjective, budget: Budget
    ) -> dict[str, Any]:
        n = objective.n_samples
        part_size = -(-n // min(given.get("n_parts", cls.n_parts), n))
        n_parts, band = -(-n // part_size), given.get("band", cls.band)
        mu = gaussian_mu(budget.epsilon, budget.delta)

        def rule(asks: int) -> FlowTime:
            parts = Correlated(part_size, SquareRoot(n_parts, asks, band))
            return FlowTime(objective, mu / parts.excess)

        asks = given.get("steps_per_part")
        if asks is None:
            # The most steps: their excess of noise is hardly larger than with fewer.
            most = rule(max(1, FlowTime.most_steps // n_parts))
            n_steps, _ = cls.rest_by_rule(given, most)
            asks = -(-n_steps // n_parts)
        _, rest = cls.rest_by_rule(given, rule(asks), asks * n_parts)
        return {**rest, "n_parts": n_parts, "steps_per_part": asks}

    def assumed_public(self, objective: LinearObjective) -> tuple[str, ...]:
        unit = "user" if is_of_users(objective.adjacency) else "record"
        return (
            f"number of parts, and of {unit}s in each",
            f"that no {unit} is in two parts",
        )

    def parts(self, objective: LinearObjective) -> Correlated:
        """The parts that answers are about."""
        size = -(-objective.n_samples // self.n_parts)
        root = SquareRoot(self.n_parts, self.steps_per_part, self.band)
        return Correlated(size, root)

    def sensitivity(self, objective: LinearObjective) -> float:
        # Sensitivity of all weighted sums, in which each answer counts in units of its
        # bound; the grid of the noise adds to it (`Correlated.on_grid`).
        return self.parts(objective).joint

    def sample(self, objective: LinearObjective) -> Correlated:
        return self.parts(objective)

    def sample_size(self, objective: LinearObjective) -> int:
        return self.parts(objective).size

    def levels(self, objective: LinearObjective) -> list[tuple[float, int]]:
        return [(1.0, self.parts(objective).times)]

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        walking = self.walking(answers, objective)
        found = next(walking)
        for done in range(1, self.n_parts):
            progress.step(done, self.n_parts)
            found = next(walking)
        progress.step(self.n_parts, self.n_parts)
        return found

    def walking(
        self, answers: Answers, objective: LinearObjective
    ) -> Iterator[Solution]:
        """The release after each part, computed when it is requested."""
        steps = self.steps(objective, np.zeros(objective.shape))
        gradients = self.means(answers, objective, steps)
        means: list[Any] = []
        for _ in range(self.n_parts):
            total = np.zeros(objective.shape)
            for gradient in islice(gradients, self.steps_per_part):
                steps.step(gradient)
                total += steps.weights
            means.append(total / self.steps_per_part)
            last = means[-max(1, int(self.tail * len(means))) :]
            weights = np.mean(last, axis=0)
            yield Solution(weights, answers.noise_scale, path=steps.path)


# --------------------------------------------- Stream: a fit paid for at its first part
# The fit continues with the other parts.


# Cost of later parts: the first one has paid for all.
PAID = ComposedEvent(())


class Stream:
    """The right to ask about the parts of a stream, each once.

    It holds answers, and with them sums over records, so it can be neither copied nor
    stored, and a forked process has none.

    Parameters
    ----------
    answers : Answers
    arriving : ChunkSource
    walking : iterator of Solution
        The release after each part.
    objective : LinearObjective
        Objective of all parts.
    solver : FTRL
    begun_with : dict of str to object
        Parameters of the estimator, which must not change.
    """

    def __init__(
        self,
        answers: Answers,
        arriving: ChunkSource,
        walking: Iterator[Solution],
        objective: LinearObjective,
        solver: FTRL,
        begun_with: dict[str, Any],
    ) -> None:
        self.answers, self._arriving, self._walking = answers, arriving, walking
        self.objective, self.n_taken = objective, 0
        self.n_parts = solver.n_parts
        self._auditor = auditor_now()
        # The caller may change a given dict or list in place.
        self.begun_with = deepcopy(begun_with)
        self.part_size = solver.parts(objective).size
        # Name of the stream in the ledger: the time of its start.
        self.name = f"{time.time_ns():x}"
        self.lock = RLock()

    def check_takes(self, n_samples: int) -> None:
        """Refuse a part that has no answers; nothing was read.

        Raises
        ------
        StreamOverError, ValueError, Refused
        """
        if owners_now() is not None:
            raise Refused(
                "The parts of a stream must be of one owner, since past sums are held "
                "in one place. Got a part of several owners. Nothing was read."
            )
        if auditor_now() is not self._auditor:
            raise ValueError(
                "A stream must go on within the audit that it was begun in. Got an "
                "audit that has begun or ended since. Begin another stream. Nothing "
                "was read."
            )
        if self.n_taken == self.n_parts:
            raise StreamOverError(
                "A stream has as many parts as were declared. Got one more than "
                f"n_parts={self.n_parts}. Clone the estimator for another stream, "
                "which is another release. Nothing was read."
            )
        if n_samples > self.part_size:
            units = "users" if is_of_users(self.objective.adjacency) else "records"
            raise ValueError(
                f"A part of a stream must have at most as many {units} as the first "
                f"one, {self.part_size}. Got {n_samples}. Give what is left over with "
                "the next part. Nothing was read."
            )

    def take(self, part: Any, books: StreamLedger) -> Solution:
        """The release after one more part.

        Raises
        ------
        StreamOverError, ValueError
            As `check_takes` does.
        """
        with self.lock, np.errstate(all="ignore"):
            self.check_takes(part.n_samples)
            if self.n_taken:
                books.book(f"part {self.n_taken + 1} of {self.n_parts} of {self.name}")
            self.n_taken += 1
            self._arriving.give(part)
            return next(self._walking)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            "A stream must stay where its records are answered about: a copy would go "
            "on with the same noise. Store the fitted model."
        )


@dataclass(frozen=True)
class StreamLedger:
    """Records later parts, which cost nothing more, in a ledger.

    Parameters
    ----------
    ledger : Ledger or None
    adjacency : str
    budget : Budget
    estimator : str
    """

    ledger: Ledger | None
    adjacency: Any
    budget: Budget
    estimator: str

    def book(self, what: str) -> None:
        """Commit a part to the ledger."""
        if self.ledger is not None:
            self.ledger.commit(
                PAID,
                adjacency=self.adjacency,
                budget=self.budget,
                label=f"{self.estimator}: {what}",
            )


# Streams, with the weights that their last parts released. They are not attributes of
# their estimators, which are copied, stored and shown.
_LIVE: WeakKeyDictionary[Any, tuple[Stream, Any]] = WeakKeyDictionary()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_LIVE.clear)


def keep(estimator: Any, stream: Stream) -> None:
    """Let an estimator continue a stream, until another fit sets its weights."""
    _LIVE[estimator] = stream, estimator.coef_


@contextmanager
def one_part(estimator: Any) -> Iterator[None]:
    """Process one part; if its release is lost, the stream is lost too.

    The estimator is then as before the part, which looks as if the part could be given
    again: its records would be in two parts.
    """
    before = stream_of(estimator)
    with nullcontext() if before is None else before.lock:
        n_taken = 0 if before is None else before.n_taken
        try:
            yield
        except BaseException:
            now = stream_of(estimator)
            if now is not before or (now is not None and now.n_taken > n_taken):
                _LIVE.pop(estimator, None)
            raise


def stream_of(estimator: Any) -> Stream | None:
    """The stream that an estimator can continue."""
    stream, weights = _LIVE.get(estimator, (None, None))
    return stream if getattr(estimator, "coef_", None) is weights else None


# --------------------------------------------------------- partial_fit of linear models


def n_parts_of(model: Any, budget: Budget) -> int:
    """The declared number of parts."""
    if not budget.is_finite:
        raise ValueError(
            "The 'epsilon' parameter must be finite for partial_fit. Got inf. Without "
            "privacy use fit with all records."
        )
    named = named_solver(model.solver, model.solver_params)
    assert named is not None  # its key is FTRL's
    return int(named.given.get("n_parts", FTRL.n_parts))


def open_stream(model: Any) -> Stream | None:
    """The stream that a model continues; None if it has not begun one.

    Raises
    ------
    StreamOverError
        If the model is fitted, but has no stream: a copy, a finished `fit`, or a part
        that was cut short.
    """
    stream = stream_of(model)
    if stream is not None:
        return stream
    try:
        check_is_fitted(model)
    except NotFittedError:
        return None
    raise StreamOverError(
        f"This {type(model).__name__} is fitted, and has no stream to go on with: it "
        "is a copy, was stored, was fitted by fit, or was cut short when a part was "
        "read. What a stream must remember is private and stays in the process and the "
        "object that began it. Clone the estimator for another stream, which is "
        "another release."
    )


# Rows of later parts are encoded, and labels numbered, as in the first part.
_MAY_CHANGE = ("columns", "classes", "verbose")


def params_of(model: Any) -> dict[str, Any]:
    """Parameters that must not change while a stream continues."""
    params = model.get_params(deep=False)
    return {name: params[name] for name in params if name not in _MAY_CHANGE}


def check_unchanged(model: Any, begun_with: dict[str, Any]) -> None:
    """Refuse a parameter value that differs from the value at the stream's start.

    The noise and the scales of a stream are those of its first part.

    Raises
    ------
    ValueError
    """
    for name, value in params_of(model).items():
        if not np.array_equal(begun_with[name], value):
            raise ValueError(
                f"The {name!r} parameter must stay as it was at the first part of a "
                "stream. Got another value. Set it back, or clone the estimator for "
                "another stream, which is another release. Nothing was read."
            )


def rows_of_part(model: Any, part: Table) -> LinearRows:
    """Checked rows of a later part, in the form of the first part's rows."""
    if not hasattr(model, "encoder_"):
        return rows_of_numbers(model, part, reset=False)
    encoder = model.encoder_
    cells = encoder._cells(part.sample(encoder.columns_))
    return rows_of_columns(part, encoder, encoder._encoding, cells)


class PartialFit:
    """`partial_fit` with ``solver="ftrl"``."""

    one_part = staticmethod(one_part)

    @staticmethod
    def next_part(model: Any, part: Table) -> None:
        """Begin a stream, or continue it by one part.

        Raises
        ------
        StreamOverError, ValueError
        """
        budget = model._check_privacy_params()
        stream = open_stream(model)
        if stream is None:
            first = BegunStream(model, n_parts_of(model, budget), budget)
            model._begin(part, first)
            (stream,) = first.begun
            keep(model, stream)
            return
        check_unchanged(model, stream.begun_with)
        users = part.users(model, budget)
        rows = rows_of_part(model, part)
        y = model._targets_of_part(part, rows)
        source = part.source(rows.X, y, users)
        solution = after(model, stream, source, budget)
        model._keep_weights(solution, stream.objective, rows.X.dtype)
        keep(model, stream)


@dataclass(frozen=True)
class BegunStream:
    """The part with which a stream begins.

    Parameters
    ----------
    model : estimator
    n_parts : int
    budget : Budget
    begun : list of Stream
        The stream, after the part has been read.
    """

    model: Any
    n_parts: int
    budget: Budget
    begun: list[Stream] = field(default_factory=list)

    def begins(
        self, planned: PlannedFit[LinearObjective, Solution], first: Source
    ) -> tuple[PlannedFit[LinearObjective, Solution], Any]:
        """The fit that commits the stream, and the source of all of its parts."""
        solver = planned.solver
        assert isinstance(solver, FTRL)  # its key selected this class
        arriving = ChunkSource(first, solver.n_parts)
        name = type(self.model).__name__
        label = f"{name}(solver={solver.named!r}): {solver.n_parts} parts of a stream"
        beginning = StreamStart(
            **solver.params,
            part=self,
            arriving=arriving,
            first=first,
            begun_with=params_of(self.model),
        )
        return replace(planned, solver=beginning, label=label), arriving


@dataclass(frozen=True, kw_only=True)
class StreamStart(FTRL):
    """FTRL that releases what a stream releases after its first part.

    Parameters
    ----------
    part : BegunStream
        Gets the stream.
    arriving : ChunkSource
        All parts, of which none has been read.
    first : Source
        The first part.
    begun_with : dict of str to object
        Parameters of the estimator.
    """

    part: BegunStream
    arriving: ChunkSource
    first: Source
    begun_with: dict[str, Any]

    @property
    def params(self) -> dict[str, Any]:
        return {own.name: getattr(self, own.name) for own in fields(FTRL)}

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress, /
    ) -> Solution:
        # A stream must hold neither its model nor its first part.
        solver = FTRL(**self.params)
        walking = solver.walking(answers, objective)
        stream = Stream(
            answers, self.arriving, walking, objective, solver, self.begun_with
        )
        solution = after(self.part.model, stream, self.first, self.part.budget)
        self.part.begun.append(stream)
        return solution

    def rehearse(self, answers: Answers, objective: LinearObjective, /) -> Solution:
        # Its answers are constants, and a later part goes on with them.
        return self.run(answers, objective, Progress())


def after(model: Any, stream: Stream, part: Source, budget: Budget) -> Solution:
    """The release after another part of a stream."""
    name = type(model).__name__
    books = StreamLedger(model.ledger, model._relation(), budget, name)
    solution = stream.take(part, books)
    Progress(name, bool(model.verbose)).step(stream.n_taken, stream.n_parts)
    return solution
