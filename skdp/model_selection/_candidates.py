"""The candidates of a search: listed, sized, fitted and scored on its records."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral
from typing import Any, NoReturn, TypeVar

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from skdp._arrays import FloatArray, IntArray, copied, count_rows, rows_at
from skdp._base import PrivateEstimator
from skdp._fit import Progress
from skdp._input import raise_without_data
from skdp._quiet import no_warnings, silence
from skdp._users import RemoteUsers, Users, UsersToFit
from skdp.io._scores import SourceScores
from skdp.io._table import Table
from skdp.model_selection._scorer_sums import PrivateScoring
from skdp.pipeline._budget import check_accounted, set_budget_in_place
from skdp.pipeline._walk import fitted_to_users, private_steps, says_its_privacy, walk
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._events import ComposedEvent, Event, PureEvent
from skdp.privacy.accounting._gaussian import gaussian_epsilon
from skdp.privacy.accounting._relations import UNIT_OF, Relation, is_of_users
from skdp.privacy.ledger._allowance import Allowance, EventCost, cost_over
from skdp.privacy.release._answers import answered
from skdp.privacy.release._door import is_rehearsing, owners_now
from skdp.privacy.release._plan import Draws
from skdp.sums._record_sums import places_of_users, statistic_of_users
from skdp.tables._source import (
    LEAST_PART,
    Facts,
    Records,
    Remote,
    has_room,
)

# ------------------------------------------ ScoredTable: a table in memory to be scored


class ScoredTable(Records):
    """A raw table whose rows are records, or belong to users.

    Parameters
    ----------
    X : array-like, CSR or data frame of n_rows rows
        Private.
    y : array-like of shape (n_rows,)
        Private.
    users : Users or None, default=None
        The users of these rows. Private, except their number.
    """

    def __init__(self, X: Any, y: Any, users: Users | None = None) -> None:
        self.X, self.y, self.users = X, y, users
        n_samples = len(y) if users is None else users.n_users
        self.facts = Facts(
            n_samples=n_samples,
            largest_block=n_samples,
            is_of_users=users is not None,
        )

    def statistic(self, scorer: Any, model: Any) -> FloatArray:
        """The exact statistic of a fitted model on these records. Private."""
        users = self.users
        if users is None:
            exact: FloatArray = scorer.statistic(model, self.X, self.y)
            return exact
        places = places_of_users(users.names)[users.codes]
        return statistic_of_users(
            scorer, model, self.X, np.asarray(self.y), users.shares, places
        )


# ---------------------------------------- SearchRecords: rows, or users with their rows


@dataclass(frozen=True, eq=False)
class SearchRecords:
    """Records that a search divides, to fit candidates and to score them. Private.

    Parameters
    ----------
    X : array-like, CSR, data frame or source
    y : array-like, or None with a source
    users : UsersToFit or None, default=None
        The user of each row, if users are counted and divided.
    """

    X: Any
    y: Any
    users: UsersToFit | None = None

    @property
    def table(self) -> Table:
        """The table of the rows, in memory or in a source."""
        return Table.of(self.X, self.y)

    @property
    def n_samples(self) -> int:
        """The number of records, or of users; public."""
        return count_rows(self.X) if self.users is None else self.users.n_users

    def at(self, numbers: IntArray) -> SearchRecords:
        """The records with these numbers, which are drawn without looking at the data.

        Rows of users stay in the order of the table. The numbers of a source are those
        of buckets, and a bucket has any number of users (`skdp.io._session`).
        """
        if isinstance(self.users, Users):
            return self._rows(*self.users.part(numbers))
        return self._rows(numbers, self._as_many(len(numbers)))

    def some(self, size: int) -> SearchRecords:
        """Stand-ins for `size` records in a rehearsal, which reads no record.

        The rows are spread over the table: the first rows of ratings sorted by user
        would all belong to one user. In a rehearsal of users each row is one user.
        """
        return self._shown(size, min(size, count_rows(self.X)))

    def part(self, size: int) -> SearchRecords:
        """Stand-ins for a part of `size` records in a rehearsal.

        A part of users has as few rows as the smallest part may have, so that a step
        that needs more rows refuses them before anything is paid for.
        """
        if isinstance(self.users, Users):
            return self._shown(size, min(size, self._fewest_rows(self.users, size)))
        return self.some(size)

    def _shown(self, size: int, n_shown: int) -> SearchRecords:
        n_rows = count_rows(self.X)
        chosen = np.arange(n_shown) * n_rows // n_shown
        if isinstance(self.users, Users):
            return self._rows(chosen, Users(size, np.arange(n_shown)))
        rows = slice(size) if 2 * size >= n_rows else chosen
        return self._rows(rows, self._as_many(size))

    def _as_many(self, size: int) -> RemoteUsers | None:
        return None if self.users is None else RemoteUsers(size)

    def check_parts(self, smallest: int) -> None:
        """Raise if a part may have no rows, or too little room for users of a source.

        Parameters
        ----------
        smallest : int
            Records in the smallest part that a candidate is fitted to.
        """
        users = self.users
        if isinstance(users, Users) and not self._fewest_rows(users, smallest):
            raise ValueError(
                "Each part of a search must have rows of users, however the users "
                "are divided. Got too many users without rows. Declare fewer of "
                "them, or use fewer candidates."
            )
        if not isinstance(users, RemoteUsers):
            return
        n_declared = round(self.n_samples * self.X.max_overcount)
        if not has_room(smallest, n_declared):
            raise ValueError(
                "In a search over a source of users each fit must use at least "
                f"{LEAST_PART:.0%} of the declared users. Got {smallest} of "
                f"{n_declared}. Use method='composition' or 'random_stopping' "
                "without tuning_fraction, and a smaller validation_fraction."
            )

    def check_scored(self, scorer: PrivateScoring) -> None:
        """Raise if a score needs a private number of users."""
        if isinstance(self.users, RemoteUsers) and scorer.added.ranks_by_n:
            raise ValueError(
                "In a search over a source of users the 'scoring' parameter must be a "
                "score that does not depend on the number of scored users. Got 'r2'. "
                "Use 'neg_mean_squared_error', which ranks models alike."
            )

    def fitted(self, model: Any) -> Any:
        """Fit a model, to a copy of the rows if a step may change them."""
        X, y = self.X, self.y
        if not says_its_privacy(model):  # no estimator of skdp does
            X, y = copied(X), copied(y)
        if not isinstance(self.users, Users):  # a source names the column of ids
            return model.fit(X, y)
        return fitted_to_users(model, X, y, self.users.ids)

    def scored(self) -> ScoredTable:
        """The table in memory that scores models on these records."""
        users = self.users
        return ScoredTable(self.X, self.y, users if isinstance(users, Users) else None)

    @staticmethod
    def _fewest_rows(users: Users, size: int) -> int:
        """The fewest rows that any `size` users have together. Private."""
        counts = np.bincount(users.codes, minlength=users.n_users)
        return int(np.sort(counts)[:size].sum())

    def _rows(
        self, rows: slice | NDArray[np.int64], users: UsersToFit | None
    ) -> SearchRecords:
        return SearchRecords(rows_at(self.X, rows), rows_at(self.y, rows), users)


# -------------------------------------------------------------- The life of a candidate
# 1. *Listed*: a set of parameters, none of which decides the guarantee.
# 2. *Silenced*: an unfitted model with these parameters and the search's adjacency. It
#    neither prints nor caches nor shares a generator, so that no trial reveals others.
# 3. *Rehearsed*: anything that a fit would refuse is refused before the search is paid
#    for. ``fit`` runs with an `Allowance` that only records events: declared steps
#    transform the rows, private steps check their input and answer with constants.
#    Nothing else is read from the rows. Only steps of skdp may follow a private step,
#    and they accept whatever skdp's steps release, so that a trial on accepted rows
#    does not fail because of one record.
# 4. *Sized*: it gets the largest budgets whose events stay within the cost of a fit.
# 5. *Fitted*: once or more, in a trial (`SearchJob`).


# Parameters that decide the guarantee or the public facts; a search sets or keeps them.
_NOT_TUNABLE = tuple(
    "adjacency bounds classes columns data_norm delta epsilon item_ids ledger "
    "max_ratings n_users privacy_unit random_state rating_bounds target_bounds".split()
)
# Parameters of private steps that do not affect which rows the steps accept.
_IRRELEVANT = ("C", "alpha", "n_components", "n_steps", "quantiles", "solver")
# Number of records for a candidate's rehearsal, if a similar one was rehearsed on all.
_A_FEW = 64
# Inner epsilons are lower than the search paid for by this share, for rounding.
_MARGIN = 1e-6
_MOST_REHEARSALS = 12


@dataclass(frozen=True)
class Need:
    """A kind of fit that a method makes: its number of rows and its cost."""

    rows: int
    strength: EventCost


@dataclass(frozen=True)
class Prepared:
    """An unfitted clone with its budgets, and what its fit may cost."""

    estimator: Any
    strength: EventCost


@dataclass(frozen=True)
class Candidate:
    """One set of parameters, ready to be fitted for each need of the method."""

    params: dict[str, Any]
    prepared: tuple[Prepared, ...]


def name_of(params: Mapping[str, Any]) -> str:
    """A candidate in one line: the names and values of its parameters."""
    return ", ".join(
        f"{name}={value:.4g}"
        if isinstance(value, float)
        else f"{name}={' '.join(repr(value).split())}"
        for name, value in params.items()
    )


def steps_of(model: Any) -> list[Any]:
    """The private objects that an unfitted model is made of."""
    return [step for _, step in private_steps(model)]


def check_tunable(names: Iterable[str]) -> None:
    """Refuse a grid over parameters that decide the guarantee or the public facts."""
    refused = sorted({name for name in names if name.split("__")[-1] in _NOT_TUNABLE})
    if refused:
        raise ValueError(
            f"The parameters of a private search must not be among {_NOT_TUNABLE}. Got "
            f"{refused}. epsilon, delta and adjacency are the search's own; bounds, "
            "norms and labels are facts, not choices."
        )


def silenced(
    estimator: Any,
    params: Mapping[str, Any],
    adjacency: Relation,
    delta: float,
    seed: int,
) -> Any:
    """A clone with these parameters and the search's adjacency, without side effects.

    Its delta is the search's until it gets its budget: a solver's refusals depend on
    whether delta is 0.

    `seed` is public and goes to declared steps with random draws: the state of NumPy's
    generator would reveal the number of trials.

    Raises `ValueError` or `TypeError` if a parameter is unknown, or a private step has
    a budget or a ledger.
    """
    model = clone(estimator)
    # Not chained: set_params of a FrozenEstimator returns None.
    model.set_params(
        **{name: clone(value, safe=False) for name, value in params.items()}
    )
    if all(leaf.is_frozen for leaf in walk(model, planned=True)):
        raise ValueError(
            "The 'estimator' parameter must not be fitted already. Got "
            "FrozenEstimator. Use private_evaluation(model, X, y, ...), on records "
            "that the model has not seen, with its calibrate() or "
            "confusion_matrix(threshold), or give the model unfitted."
        )
    steps = steps_of(model)
    if not steps:
        raise ValueError(
            "The 'estimator' parameter must have a private step. Got "
            f"{type(model).__name__} without one. Use DPLogisticRegression, say, "
            "or scikit-learn's own search if privacy is not needed."
        )
    for step in steps:
        if step.is_search:
            raise ValueError(
                "The 'estimator' parameter must have no search inside. Got "
                f"{type(step).__name__}. Put all choices into one grid."
            )
        if is_of_users(step._relation()) and not is_of_users(adjacency):
            raise ValueError(
                "The 'privacy_unit' parameter must be 'record' inside a search of "
                "records. Got 'user'. Set privacy_unit='user' on the search, which "
                "hands on the ids of fit(X, y, groups=ids)."
            )
        _check_defaults(step, adjacency)
        step._set_relation(adjacency)
        step.set_params(delta=delta)
    check_accounted(model)
    _check_order(model)
    return model.set_params(**_harmless(model, seed))


def _harmless(model: Any, seed: int) -> dict[str, Any]:
    """Parameters that keep trials secret from each other, and in this process.

    Printed lines and caches would reveal the number of trials, a cache would pass one
    trial's release to another, and workers would not share a trial's allowance.
    """
    fixed = {"verbose": False, "memory": None, "n_jobs": 1}
    params, changed = model.get_params(deep=True), {}
    for name, value in params.items():
        last = name.rpartition("__")[2]
        if last in fixed:
            changed[name] = fixed[last]
        if last != "random_state" or is_private_step(owner_of(model, params, name)):
            continue
        if value is not None and not isinstance(value, Integral):
            raise ValueError(
                f"The {name!r} parameter must be None or an integer inside a search. "
                f"Got an instance of {type(value).__name__}, which trials would share."
            )
        changed[name] = seed if value is None else int(value)
    return changed


def owner_of(model: Any, params: Mapping[str, Any], name: str) -> Any:
    """The object within a model that a parameter belongs to."""
    prefix = name.rpartition("__")[0]
    return params[prefix] if prefix else model


def is_private_step(step: Any) -> bool:
    """Whether an object releases something when it is fitted."""
    return isinstance(step, PrivateEstimator)


def _check_order(model: Any) -> None:
    """Refuse steps of other libraries after private steps.

    Their output on released numbers could make a later step fail, because of one record
    and after the search is paid for.
    """
    for pipeline in [model, *model.get_params(deep=True).values()]:
        if not isinstance(pipeline, Pipeline):
            continue
        is_behind = False
        for _, step in pipeline.steps:
            parts = [leaf.step for leaf in walk(step, planned=True)]
            is_own = all(isinstance(x, str) or says_its_privacy(x) for x in parts)
            if is_behind and not is_own:
                raise ValueError(
                    "The steps behind a private step must be of skdp inside a search. "
                    f"Got {type(step).__name__}. Put it before the private steps."
                )
            is_behind |= any(map(is_private_step, parts))


def _check_defaults(step: Any, adjacency: Relation) -> None:
    parameters = inspect.signature(type(step)).parameters
    kept = ["epsilon", "delta", "random_state", "ledger"]
    if not step._has_relation(adjacency):
        kept.insert(0, "adjacency")
    for name in kept:
        value, default = getattr(step, name), parameters[name].default
        if value is default or value == default:
            continue
        raise ValueError(
            f"The {name!r} parameter of {type(step).__name__} must stay at its default "
            f"{default!r} inside a search. Got another. Set it on the search, which "
            "divides one budget among all its fits."
        )


def accept(
    models: list[Any], records: SearchRecords, adjacency: Relation
) -> tuple[list[Any], bool]:
    """Rehearse every candidate, and check that all of them predict the same thing.

    The models get the labels, if they declare none.

    Returns
    -------
    stand_ins : list of estimators
        Fitted in rehearsal, so that their private outputs are constants.
    takes_labels : bool
        Whether labels were taken from y.

    Raises `ValueError` or `TypeError` if a candidate refuses a parameter, the rows or
    the targets.
    """
    takes_labels = bool(_undeclared(models[0]))
    first, _ = rehearse(models[0], records, adjacency)
    labels = getattr(first, "classes_", None)
    for step in (step for model in models for step in _undeclared(model)):
        step.set_params(classes=labels)
    stand_ins, seen = [first], {_outline(models[0])}
    for model in models[1:]:
        outline = _outline(model)
        shown = records.some(_A_FEW) if outline in seen else records
        sample_row, _ = rehearse(model, shown, adjacency)
        seen.add(outline)
        _check_alike(first, sample_row)
        stand_ins.append(sample_row)
    return stand_ins, takes_labels


def rehearse(
    model: Any, records: SearchRecords, adjacency: Relation
) -> tuple[Any, tuple[Event, ...]]:
    """Run a fit without reading data; the fitted clone, and its events."""
    allowance = Allowance(adjacency, UNIT_OF[adjacency])
    rehearsed = clone(model)
    for step in steps_of(rehearsed):
        step.set_params(ledger=allowance)
    problem: Exception | None = None
    try:
        with no_warnings():
            records.fitted(rehearsed)
    except Exception as error:
        problem = error
    # Outside of the handler, so that the first error is not carried along.
    if problem is not None:
        _reraise(problem)
    return rehearsed, tuple(allowance.noted)


def _reraise(problem: Exception) -> NoReturn:
    """Raise an error of skdp unchanged, other errors without entries of the data."""
    frame = problem.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    module = "" if frame is None else frame.tb_frame.f_globals.get("__name__", "")
    speaks_of_parameters = type(problem).__name__ == "InvalidParameterError"
    if str(module).startswith("skdp.") or speaks_of_parameters:
        raise problem
    raise_without_data(
        problem,
        "A candidate of the search must accept X and y. Got an error from a step that "
        "is not of skdp, whose text might quote an entry. Fit that step alone to see "
        "it.",
    )


def _check_alike(first: Any, other: Any) -> None:
    """Refuse candidates that predict different things."""
    same_task = is_classifier(first) == is_classifier(other)
    same_task &= is_regressor(first) == is_regressor(other)
    labels, others = (getattr(model, "classes_", None) for model in (first, other))
    if not same_task or not np.array_equal(np.asarray(labels), np.asarray(others)):
        raise ValueError(
            "The candidates of a search must predict the same thing. Got a classifier "
            "beside a regressor, or different 'classes'. Use one search for each."
        )


def _outline(model: Any) -> str:
    """A hash of everything that affects which rows a model accepts."""
    params, relevant = model.get_params(deep=True), []
    for name, value in sorted(params.items()):
        is_theirs = is_private_step(owner_of(model, params, name))
        if not (is_theirs and name.rpartition("__")[2] in _IRRELEVANT):
            relevant.append((name, _plain(value)))
    return str(joblib.hash([type(model), relevant]))


def _plain(value: Any) -> Any:
    """The value; an estimator becomes its class, and its parameters follow."""
    if hasattr(value, "get_params") and not isinstance(value, type):
        return type(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _undeclared(model: Any) -> list[Any]:
    """Steps that would take the set of labels from y."""
    steps = (step for step in steps_of(model) if "classes" in step.get_params())
    return [step for step in steps if step.classes is None]


def sized(
    model: Any,
    strength: EventCost,
    records: SearchRecords,
    delta: float,
    adjacency: Relation,
) -> Prepared:
    """Give a candidate the largest budget whose events cost no more than `strength`.

    Gaussian steps use the budget exactly. Other steps, such as objective perturbation,
    are charged by the mu that dominates them, so their epsilon is lowered until this mu
    fits.
    """
    budget = _budget_for(strength, delta)
    scale = 1.0
    for _ in range(_MOST_REHEARSALS):
        ready = clone(model)
        for step in steps_of(ready) if delta > 0 else ():
            step._use_composable_noise()
        set_budget_in_place(ready, Budget(budget.epsilon * scale, delta))
        if all(map(_costs_what_it_says, steps_of(ready))):
            return Prepared(ready, strength)
        _, events = rehearse(ready, records, adjacency)
        excess = cost_over(ComposedEvent(events), strength)
        if excess <= 1:
            return Prepared(ready, strength)
        if math.isinf(excess):  # no mu dominates it, at any epsilon
            break
        scale /= min(excess * (1 + _MARGIN), 8.0)
    raise ValueError(
        f"A candidate cannot be fitted at the cost of {strength}. Got a solver "
        "whose noise does not add up in squares. Use solver='noisy_gd' or 'auto'."
    )


def _costs_what_it_says(step: Any) -> bool:
    """Whether the cost is the step's epsilon, for any number of records."""
    solver = getattr(step, "solver", "noisy_gd")
    is_plain = solver == "noisy_gd" and not getattr(step, "solver_params", None)
    return is_plain and step.step_privacy().adds_in_squares


def _budget_for(strength: EventCost, delta: float) -> Budget:
    if isinstance(strength, PureEvent):
        epsilon = strength.pure_epsilon
    else:
        epsilon = gaussian_epsilon(math.sqrt(strength.mu_squared), delta)
    if epsilon < 2e-6:
        raise ValueError(
            "The 'epsilon' parameter of a search must leave each fit at least 1e-6. "
            f"Got {epsilon:.3g} for each. Use fewer candidates, a larger epsilon, or a "
            "smaller delta."
        )
    return Budget(min(epsilon, 1e8) * (1 - _MARGIN), delta)


# ------------------------------------------ SearchJob: fits and scores after the commit
# Exceptions, warnings and output could depend on the data, so none of them leaves this
# module. A fit that fails ends the search with the same error as a failed read.


T = TypeVar("T")


@dataclass(frozen=True)
class Split:
    """Numbers of records, or of users, drawn without looking at the data."""

    train: IntArray
    validation: IntArray


@dataclass(frozen=True)
class ScoredFit:
    """A fit with a score.

    The records know its score by `number`.
    """

    number: int
    model: Any


@dataclass(eq=False)
class SearchJob(Records):
    """The records of one search and the work on them; the source of its answers.

    Exact scores of its trials stay here; answers release them with noise.

    `records` are private. Without a `seed` the noise is private; with one every fit
    takes a seed from `draws`. With an `order_seed` the order of records is public.
    `names` are those of the candidates, which progress shows.
    Records of several owners are scored by their owners: no party gets exact scores.
    """

    records: SearchRecords
    adjacency: Relation
    scorer: PrivateScoring
    draws: Draws
    seed: int | None
    n_jobs: int | None
    verbose: bool | None
    order_seed: int | None = None
    names: tuple[str, ...] = ()
    _exact: list[FloatArray] = field(default_factory=list)
    _validated: list[Any] = field(default_factory=list)
    facts: Facts = field(init=False)

    def __post_init__(self) -> None:
        n_samples = self.records.n_samples
        self.facts = Facts(
            n_samples=n_samples,
            largest_block=n_samples,
            is_of_users=self.records.users is not None,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # For an owner: the records on which trials were scored last.
        return SourceScores, (self._validated[-1],)

    @property
    def remote(self) -> Remote | None:
        """Where records of several owners are scored."""
        return self.records.X.remote if self.records.table.is_shared else None

    def order(self) -> IntArray:
        """A uniform random order of all records, which no record changes."""
        if self.order_seed is None:
            return self.draws.permutation(self.n_samples)
        draws = check_random_state(self.order_seed)
        return np.asarray(draws.permutation(self.n_samples))

    def known(self, trials: Sequence[ScoredFit]) -> list[Any]:
        """The keys of trials: numbers, or models where several owners score them."""
        if self.records.table.is_shared:
            return [trial.model for trial in trials]
        return [trial.number for trial in trials]

    def statistic(self, scorer: Any, number: int) -> FloatArray:
        """The exact statistic of one trial. Private."""
        return self._exact[number]

    def fit_and_score(
        self, prepared: Sequence[Prepared], splits: Sequence[Split], *, say: bool
    ) -> list[ScoredFit]:
        """Fit and score; a trial keeps its model, and its exact score stays here.

        `say` states that the number of fits is public, so that progress may be shown.
        """
        if say:
            self.records.table.keep_rows()
        # Trials on one split share one copy of its records.
        taken = {
            id(split): (
                self.records.at(split.train),
                self.records.at(split.validation),
            )
            for split in splits
        }
        progress = Progress("search", self.verbose if say else False)
        # In the order of the candidates, whichever fit ends first.
        run = Parallel(n_jobs=self.n_jobs, return_as="generator")
        seeds = self._seeds(len(prepared))

        def fitted() -> list[tuple[Any, FloatArray]]:
            found = []
            for trial in run(
                delayed(_trial)(
                    ready, *taken[id(split)], seed, self.adjacency, self.scorer
                )
                for ready, split, seed in zip(prepared, splits, seeds, strict=True)
            ):
                found.append(trial)
                note = f": {self.names[len(found) - 1]}" if say and self.names else ""
                progress.step(len(found), len(prepared), note)
            return found

        def scored() -> list[tuple[Any, FloatArray]]:
            return self._scored(fitted(), splits, taken)

        # A worker's death, or its traceback, could depend on a record, too.
        done = _ended_in_one_way(scored)
        self._validated.extend(validation.X for _, validation in taken.values())
        first = len(self._exact)
        self._exact.extend(statistic for _, statistic in done)
        return [ScoredFit(first + i, model) for i, (model, _) in enumerate(done)]

    def _scored(
        self,
        trials: list[tuple[Any, FloatArray]],
        splits: Sequence[Split],
        taken: Mapping[int, tuple[SearchRecords, SearchRecords]],
    ) -> list[tuple[Any, FloatArray]]:
        """Models with their statistics; models on one part of a source share a pass."""
        if self.records.table.holds_rows or self.records.table.is_shared:
            return trials
        groups: dict[int, list[int]] = {}
        for place, split in enumerate(splits):
            groups.setdefault(id(split), []).append(place)
        done = list(trials)
        for split_id, places in groups.items():
            models = [trials[place][0] for place in places]
            scores = SourceScores(taken[split_id][1].X)
            found = scores.statistics(self.scorer, models)
            for place, model, exact in zip(places, models, found, strict=True):
                done[place] = model, exact
        return done

    def fit(self, ready: Prepared, rows: IntArray | None = None) -> Any:
        """Fit one model on some rows or on all."""
        records = self.records if rows is None else self.records.at(rows)
        return _fitted(ready, records, self._seeds(1)[0], self.adjacency)

    def fit_one(
        self, prepared: Sequence[Prepared], best: int, rows: IntArray | None
    ) -> Any:
        """Fit one of several models on some rows or on all.

        Several owners must know the rounds of the fit before they know the chosen
        model.
        """
        owners = owners_now()
        if owners is not None and is_rehearsing():
            owners.one_of([partial(self.fit, one, rows) for one in prepared])
        return self.fit(prepared[best], rows)

    def _seeds(self, count: int) -> list[int | None]:
        if self.seed is None:
            return [None] * count
        return [int(seed) for seed in self.draws.integers(2**31, count)]


def _ended_in_one_way(work: Callable[[], T]) -> T:
    """The result of work on records; outside rehearsals all errors become one."""
    return work() if is_rehearsing() else answered(work)


def _trial(
    ready: Prepared,
    train: SearchRecords,
    validation: SearchRecords,
    seed: int | None,
    adjacency: Relation,
    scorer: PrivateScoring,
) -> tuple[Any, FloatArray]:
    """The fitted model, and its statistic if the records are in memory."""
    model = _fitted(ready, train, seed, adjacency)
    if not validation.table.holds_rows:
        return model, np.empty(0)
    return model, validation.scored().statistic(scorer, model)


def _fitted(
    ready: Prepared, records: SearchRecords, seed: int | None, adjacency: Relation
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
