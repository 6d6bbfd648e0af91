"""Fits and scores within a search, after its event is on the books.

Exceptions, warnings and output could depend on the data, so that none of them leaves
this module. A fit that fails ends the search with the same error as a failed read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from skdp._floats import FloatArray, IntArray
from skdp._quiet import silence
from skdp.data._source import Elsewhere, elsewhere
from skdp.io._scores import SourceScores
from skdp.io._table_source import TableSource
from skdp.model_selection._candidates import Prepared, is_private_step, steps_of
from skdp.model_selection._records import Records
from skdp.model_selection._scoring_base import PrivateScoring
from skdp.pipeline._walk import walk
from skdp.privacy._adjacency import UNIT_OF, Relation
from skdp.privacy._allowance import Allowance
from skdp.privacy._answers import answered
from skdp.privacy._draws import Draws
from skdp.privacy._owners import is_rehearsing, owners_now
from skdp.solvers._progress import Progress

T = TypeVar("T")


@dataclass(frozen=True)
class Split:
    """Numbers of records, or of users, drawn without looking at the data."""

    train: IntArray
    validation: IntArray


@dataclass(frozen=True)
class Trial:
    """One fit that was scored.

    The records know its score by `number`.
    """

    number: int
    model: Any


class _ParallelFits(Parallel):
    """Parallel fits that show how many are done; joblib would show times too."""

    def __init__(self, progress: Progress, total: int, n_jobs: int | None) -> None:
        super().__init__(n_jobs=n_jobs)
        self._progress, self._total, self._n_shown = progress, total, 0

    def print_progress(self) -> None:
        """Called by joblib after every fit, and once more at the end."""
        if self.n_completed_tasks > self._n_shown:
            self._n_shown = self.n_completed_tasks
            self._progress.step(self._n_shown, self._total)


@dataclass(frozen=True, eq=False)
class Job:
    """The records of one search and how to work on them; the source of its answers.

    Exact scores of its trials stay here; answers give them with noise.

    `records` are private. Without a `seed` the noise is private; with one every fit
    takes a seed from `draws`. With an `order_seed` the order of records is public.
    Records of several owners are scored where they are: exact scores come to nobody.
    """

    records: Records
    adjacency: Relation
    scorer: PrivateScoring
    draws: Draws
    seed: int | None
    n_jobs: int | None
    verbose: bool
    order_seed: int | None = None
    _exact: list[FloatArray] = field(default_factory=list)
    _validated: list[Any] = field(default_factory=list)

    def __reduce__(self) -> tuple[Any, ...]:
        # To an owner: the records that trials were scored on last.
        return SourceScores, (self._validated[-1],)

    @property
    def elsewhere(self) -> Elsewhere | None:
        """Where records of several owners are scored."""
        return elsewhere(self.records.X) if _is_shared(self.records.X) else None

    @property
    def is_of_users(self) -> bool:
        """Whether rows are known to be those of users."""
        return self.records.users is not None

    def order(self) -> IntArray:
        """A uniform random order of all records, which no record changes."""
        if self.order_seed is None:
            return self.draws.permutation(self.n_samples)
        draws = check_random_state(self.order_seed)
        return np.asarray(draws.permutation(self.n_samples))

    def known(self, trials: Sequence[Trial]) -> list[Any]:
        """The keys of trials: numbers, or models where several owners score them."""
        if _is_shared(self.records.X):
            return [trial.model for trial in trials]
        return [trial.number for trial in trials]

    @property
    def n_samples(self) -> int:
        """Public."""
        return self.records.n_samples

    @property
    def largest_block(self) -> int:
        """Public."""
        return self.n_samples

    def statistic(self, scorer: Any, number: int) -> FloatArray:
        """The exact statistic of one trial. Private."""
        return self._exact[number]

    def fit_and_score(
        self, prepared: Sequence[Prepared], splits: Sequence[Split], *, say: bool
    ) -> list[Trial]:
        """Fit and score; a trial has its model, and its exact score stays here.

        `say` states that the number of fits is public, so that progress may be shown.
        """
        # Trials on one split share one copy of its records.
        taken = {
            id(split): (
                self.records.at(split.train),
                self.records.at(split.validation),
            )
            for split in splits
        }
        progress = Progress("search", say and self.verbose)
        run = _ParallelFits(progress, len(prepared), self.n_jobs)
        seeds = self._seeds(len(prepared))
        # The death of a worker, or its traceback, could depend on a record, too.
        done = _ended_in_one_way(
            lambda: run(
                delayed(_trial)(
                    ready, *taken[id(split)], seed, self.adjacency, self.scorer
                )
                for ready, split, seed in zip(prepared, splits, seeds, strict=True)
            )
        )
        self._validated.extend(validation.X for _, validation in taken.values())
        first = len(self._exact)
        self._exact.extend(statistic for _, statistic in done)
        return [Trial(first + i, model) for i, (model, _) in enumerate(done)]

    def fit(self, ready: Prepared, rows: IntArray | None = None) -> Any:
        """Fit one model on some rows or on all."""
        records = self.records if rows is None else self.records.at(rows)
        return _fitted(ready, records, self._seeds(1)[0], self.adjacency)

    def fit_one(
        self, prepared: Sequence[Prepared], best: int, rows: IntArray | None
    ) -> Any:
        """Fit one of several models on some rows or on all.

        Several owners must know its rounds before they know which model it is.
        """
        owners = owners_now()
        if owners is not None and is_rehearsing():
            owners.one_of([partial(self.fit, one, rows) for one in prepared])
        return self.fit(prepared[best], rows)

    def _seeds(self, count: int) -> list[int | None]:
        if self.seed is None:
            return [None] * count
        return [int(seed) for seed in self.draws.integers(2**31, count)]


def _is_shared(X: Any) -> bool:
    return isinstance(X, TableSource) and X.is_shared


def _ended_in_one_way(work: Callable[[], T]) -> T:
    """Work on records, all of whose errors are one; rehearsals show their errors."""
    return work() if is_rehearsing() else answered(work)


def _trial(
    ready: Prepared,
    train: Records,
    validation: Records,
    seed: int | None,
    adjacency: Relation,
    scorer: PrivateScoring,
) -> tuple[Any, FloatArray]:
    model = _fitted(ready, train, seed, adjacency)
    if _is_shared(validation.X):
        return model, np.empty(0)
    return model, validation.scored().statistic(scorer, model)


def _fitted(
    ready: Prepared, records: Records, seed: int | None, adjacency: Relation
) -> Any:
    """A fitted clone that committed no more than its allowance.

    Steps lose their allowance: it stays in the process of its trial.
    """
    allowance = Allowance(
        adjacency, UNIT_OF[adjacency], ready.strength, allow_nonprivate=seed is not None
    )
    model = clone(ready.estimator)
    for step in steps_of(model):
        step.set_params(ledger=allowance, random_state=seed)

    def fit() -> None:
        with silence():
            records.fitted(model)

    _ended_in_one_way(fit)
    for step in (*steps_of(model), *(leaf.step for leaf in walk(model))):
        if is_private_step(step):
            step.set_params(ledger=None)
    return model
