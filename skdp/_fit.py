"""The steps of a private fit: warn, plan, commit, run and write the statement.

All private objects fit in this way: linear models, trees, networks, ratings,
transformers, searches, scores and descriptions. An estimator makes a `PlannedFit` from
public facts, and `fit` does the rest. No record is read before the event is committed
to the ledger, and after it the result depends on the records through noisy answers
only.
"""

from __future__ import annotations

import hashlib
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from inspect import signature
from time import monotonic
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
from sklearn.base import clone

from skdp._base import Forecast, PrivateEstimator, Signal, warn_of_noise
from skdp._checks import check_real
from skdp._configured import Configured, Given
from skdp.privacy.accounting._calibrate import Budget, calibrate
from skdp.privacy.accounting._events import NonPrivateEvent
from skdp.privacy.accounting._relations import UNIT_OF, Relation, is_of_users
from skdp.privacy.accounting._risk import risk_sentence
from skdp.privacy.noise._laws import NoiseLaw
from skdp.privacy.release._answers import Answers, Released
from skdp.privacy.release._door import Door, is_rehearsing
from skdp.privacy.release._plan import Line, Plan, Query
from skdp.privacy.release._record import PrivacyRecord

# --------------------------------------------------- Progress of a fit in public counts


# Without tqdm's times and rates: by default a bar shows the steps, and lines the time.
_BAR = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt} of {total_fmt}"
# Seconds until the first line that nobody asked for, and most seconds between two. In
# between, the time until the next line is the time since the start. If fewer than
# _SHORT seconds are left, nothing is printed.
PATIENCE, _LONGEST, _SHORT = 10.0, 600.0, 5.0


class Progress:
    """Reports a solver's numbers of steps, which are public, and nothing from the data.

    With ``verbose=True`` a bar shows the steps if tqdm is installed; without it, and
    for notes, lines are printed. With ``verbose=None`` a fit prints nothing for ten
    seconds, and then a line to the standard error now and then: the steps, the time
    since the start and the time left. Like the time of a fit, when a line appears may
    depend on records (``docs/guide/before_you_sign.md``).

    Parameters
    ----------
    label : str
        Name of the object that is fitted.
    verbose : bool or None
        Whether to print anything; None: if a fit takes long.
    """

    def __init__(self, label: str = "", verbose: bool | None = False) -> None:
        self._label, self._verbose = label, verbose
        self._bar: Any = None
        self._start, self._next = monotonic(), PATIENCE
        self._first: tuple[int, float] | None = None  # step, and when it was done

    def is_due(self, done: int, total: int) -> bool:
        """Whether `step` prints something, which is about 20 times if it is asked."""
        if is_rehearsing():
            return False
        if self._verbose is None:
            return False  # `_tell` decides, and has no note
        return self._verbose and (done == total or done % max(1, -(-total // 20)) == 0)

    def step(self, done: int, total: int, note: str = "") -> None:
        """Report that `done` of `total` steps are finished, with a public note.

        Parameters
        ----------
        done, total : int
        note : str, default=""
            Must not depend on private data.
        """
        if self._verbose is None and not is_rehearsing():
            self._tell(done, total)
        if not self.is_due(done, total):
            return
        if note or not self._draw(done, total):
            print(f"[{self._label}] step {done} of {total}{note}", flush=True)

    def _tell(self, done: int, total: int) -> None:
        """Print the steps and times if a line is due, and decide on the next one."""
        taken = monotonic() - self._start
        if self._first is None:
            self._first = done, taken
        first, before = self._first
        if taken < self._next or done == total:
            return
        left = ""
        if done > first:  # the first step may read and encode a table
            seconds = (taken - before) * (total - done) / (done - first)
            if seconds < _SHORT:
                return
            left = f", about {seconds:.0f} s left"
        hint = " (verbose=0 prints no progress)" if self._next == PATIENCE else ""
        self._next = taken + min(taken, _LONGEST)
        print(
            f"[{self._label}] step {done} of {total} after {taken:.0f} s{left}{hint}",
            file=sys.stderr,
            flush=True,
        )

    def _draw(self, done: int, total: int) -> bool:
        """Move the bar, and close it at the last step; False without tqdm."""
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return False
        if self._bar is None:
            # The bar is drawn at every step that is due, not by the clock.
            self._bar = tqdm(
                total=total,
                desc=self._label,
                bar_format=_BAR,
                mininterval=0,
                miniters=1,
            )
        self._bar.n = done
        self._bar.refresh()
        if done == total:
            self._bar.close()
            self._bar = None
        return True


def shown(verbose: bool | int | None, relation: Relation | None) -> bool | None:
    """The parameter `verbose` of an estimator, for a `Progress`; public.

    None stays None where times say nothing about the number of rows of users.
    """
    if verbose is not None:
        return bool(verbose)
    is_of_rows = relation is None or not (relation == "user" or is_of_users(relation))
    return None if is_of_rows else False


# ---------------------------------------------------------- Problems and their solvers


class Problem(Protocol):
    """The problem that a fit solves, described by public facts."""

    @property
    def adjacency(self) -> Relation | None:
        """The adjacency for which bounds hold; None if nothing is protected."""
        ...

    @property
    def n_samples(self) -> int:
        """Number of records, or of users."""
        ...

    @property
    def n_features(self) -> int: ...


ProblemT = TypeVar("ProblemT", bound=Problem)
ReleasedT = TypeVar("ReleasedT")
KindT = TypeVar("KindT", covariant=True)


@dataclass(frozen=True, kw_only=True)
class PrivateSolver(Configured, ABC, Generic[ProblemT, ReleasedT]):
    """Plans queries for a problem, then computes a release from their answers."""

    # Unit of `sensitivity` for the statement, if it is not the query's unit.
    sensitivity_unit: ClassVar[str] = ""

    @property
    def named(self) -> str:
        """The solver's key in the statement and the ledger."""
        return self.key

    @property
    def params(self) -> dict[str, Any]:
        """The hyper-parameters by name, for the statement."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    @abstractmethod
    def mechanism(self) -> str:
        """The mechanism that makes the release private, for the statement."""

    @abstractmethod
    def plan(self, problem: ProblemT, /) -> Plan | None:
        """All queries that `run` will ask; None: any query, answered without noise.

        The plan is made without reading data or drawing noise.
        """

    @abstractmethod
    def sensitivity(self, problem: ProblemT, /) -> float | None:
        """Largest sensitivity of one query, in the norm of its noise."""

    @abstractmethod
    def run(
        self, answers: Answers, problem: ProblemT, progress: Progress, /
    ) -> ReleasedT:
        """Compute the release from noisy answers; ask exactly the queries of `plan`."""

    @abstractmethod
    def rehearse(self, answers: Answers, problem: ProblemT, /) -> ReleasedT:
        """A constant with the form of a release, for a rehearsal; no data are read."""

    def noise_scale(
        self, released: ReleasedT, answers: Answers, problem: ProblemT, /
    ) -> float | None:
        """Largest sigma of all queries, as `privacy_` reports it."""
        return answers.noise_scale

    def assumed_public(self, problem: ProblemT, /) -> tuple[str, ...]:
        """Further facts that the guarantee takes as public, for the statement."""
        return ()

    def forecast_notes(
        self, problem: ProblemT, noise_multiplier: float, /
    ) -> tuple[str, ...]:
        """Remarks on a fit from public facts for `forecast`, except on its noise."""
        return ()


@dataclass(frozen=True)
class NamedKind(Generic[KindT]):
    """The class of a named solver, the given parameters, and why it is used."""

    kind: type[KindT]
    given: Given
    reason: str


@dataclass(frozen=True)
class Question:
    """A query of an object that releases statistics, and public facts of the records.

    `query` is the first of `times` similar queries, of which later ones may depend on
    earlier answers. `adjacency` is the one for which its bound holds.
    """

    query: Query
    adjacency: Relation
    n_samples: int
    n_features: int
    times: int = 1


@dataclass(frozen=True, kw_only=True)
class Statistics(PrivateSolver[Question, ReleasedT]):
    """Answers to a question, without a model; `law` is None for an infinite epsilon.

    In a rehearsal the answers that `run` gets are constants.
    """

    law: NoiseLaw | None

    @property
    def named(self) -> str:
        return self.law.name.lower() if self.law else "exact"

    @property
    def mechanism(self) -> str:
        return f"{self.law.name} noise, calibrated exactly" if self.law else ""

    def plan(self, problem: Question, /) -> Plan | None:
        return None if self.law is None else Plan((Line(problem.times, law=self.law),))

    def sensitivity(self, problem: Question, /) -> float:
        if self.law is None:
            return math.inf
        return problem.query.bound().under(problem.adjacency)

    def rehearse(self, answers: Answers, problem: Question, /) -> ReleasedT:
        return self.run(answers, problem, Progress())

    def noise_scale(
        self, released: ReleasedT, answers: Answers, problem: Question, /
    ) -> float | None:
        return answers.expected(problem.query).deviation


@dataclass(frozen=True, kw_only=True)
class OneAnswer(Statistics[Released]):
    """One noisy answer as it is released; `given` are parameters for the statement."""

    given: Mapping[str, Any]

    @property
    def params(self) -> dict[str, Any]:
        return dict(self.given)

    def run(
        self, answers: Answers, problem: Question, progress: Progress, /
    ) -> Released:
        return answers.ask(problem.query)


# -------------------------------------------------------------------- fit, in one place


@dataclass(frozen=True, kw_only=True)
class PlannedFit(Generic[ProblemT, ReleasedT]):
    """A fit before its commit, which has public facts only; nothing is spent yet.

    Parameters
    ----------
    problem : Problem
    solver : PrivateSolver
        The solver, with all parameters decided.
    reason : str
        Why this solver is used.
    bounds : mapping, default={}
        `data_norm`, `feature_bound` and `n_nonzero_coefs` of `PrivacyRecord`.
    assumed_public : tuple of str, default=()
        As in `PrivacyRecord`.
    of_problem : mapping, default={}
        Parameters of the problem, which the statement lists before the solver's.
    estimator, label : str, default=""
        Name in the statement, and in the ledger. Empty: follows from the class of the
        object.
    verbose : bool, int or None, default=False
        As for `Progress`; with None nothing is printed where times say more about
        records: with users, secret samples and secret trials.
    signal : Signal or None, default=None
        Noise against signal, about which the fit may warn; None: no model is learned,
        or epsilon is inf.
    remedies : tuple of str, default=()
        What to change if noise dominates, besides the number of records.
    half_at : float or None, default=None
        As in `Forecast`.
    """

    problem: ProblemT
    solver: PrivateSolver[ProblemT, ReleasedT]
    reason: str
    bounds: Mapping[str, Any] = field(default_factory=dict)
    assumed_public: tuple[str, ...] = ()
    of_problem: Mapping[str, Any] = field(default_factory=dict)
    estimator: str = ""
    label: str = ""
    verbose: bool | int | None = False
    signal: Signal | None = None
    remedies: tuple[str, ...] = ()
    half_at: float | None = None

    @property
    def params(self) -> dict[str, Any]:
        return {**self.of_problem, **self.solver.params}

    @property
    def progress(self) -> bool | None:
        """`verbose` for a `Progress`; public."""
        if self.verbose is not None:
            return bool(self.verbose)
        plan = self.solver.plan(self.problem)
        is_plain = plan is None or plan.is_plain
        return shown(None, self.problem.adjacency) if is_plain else False

    def forecast(self, budget: Budget) -> Forecast:
        """The solver of the fit, and its noise against signal; nothing is spent."""
        solver, problem = self.solver, self.problem
        plan, relation = solver.plan(problem), problem.adjacency
        assert plan is not None
        assert relation is not None
        assert self.signal is not None  # of a model, and a finite epsilon
        multiplier = calibrate(partial(plan.event, relation=relation), budget)
        return Forecast(
            epsilon=budget.epsilon,
            delta=budget.delta,
            adjacency=relation,
            solver=solver.named,
            why_solver=self.reason,
            solver_params=self.params,
            noise_multiplier=multiplier,
            notes=solver.forecast_notes(problem, multiplier),
            half_at=self.half_at,
            **vars(self.signal),
        )


def release(
    solver: PrivateSolver[ProblemT, ReleasedT],
    source: Any,
    problem: ProblemT,
    door: Door,
    *,
    label: str,
    progress: Progress,
) -> tuple[ReleasedT, Answers]:
    """Plan, commit and run; the event is in the ledger before the first read.

    This is the only function that commits a plan.

    Parameters
    ----------
    source : Records
        Private. Nothing is read from it before the commit.
    label : str
        Name of the release in the ledger.

    Returns
    -------
    released : object
        A constant in a rehearsal.
    answers : Answers
        All answers are used up; the object still has public facts of the release.

    Raises
    ------
    BudgetExceeded
        From the ledger; no record was read and nothing was spent.
    ValueError
        If the adjacency of the door and of the problem differ.
    """
    # Solvers take their bounds from the problem, so both adjacencies must agree.
    if problem.adjacency not in (None, door.relation):
        raise ValueError(
            f"The objective must have the door's adjacency {door.relation!r}. Got "
            f"{problem.adjacency!r}. Use the same adjacency for both."
        )
    answers = door.commit(solver.plan(problem), source, label=label)
    # From here on a warning could depend on the data, so NumPy's are switched off.
    with np.errstate(all="ignore"):
        if answers.is_rehearsed:
            return solver.rehearse(answers, problem), answers
        return solver.run(answers, problem, progress), answers


def fit(
    model: PrivateEstimator,
    planned: PlannedFit[ProblemT, ReleasedT],
    source: Any,
    door: Door,
    *,
    notes: tuple[str, ...] = (),
) -> ReleasedT:
    """Warn about public facts, make the release, and set the statement ``privacy_``.

    Parameters
    ----------
    model : PrivateEstimator
    planned : PlannedFit
    source : Records
        Private. Nothing is read from it before the commit.
    door : Door
        The door of the model, opened with its budget.
    notes : tuple of str, default=()
        Further warnings for the statement.

    Raises
    ------
    BudgetExceeded
        From the ledger; no record was read and nothing was spent.
    """
    name, solver = type(model).__name__, planned.solver
    public = planned.assumed_public + _continued(model)
    planned = replace(planned, assumed_public=public)
    warned = model._warn_of_public_facts(door.budget, planned.problem.n_samples, door)
    if planned.signal is not None:
        warned += warn_of_noise(planned.signal, planned.remedies)
    released, answers = release(
        solver,
        source,
        planned.problem,
        door,
        label=planned.label or f"{name}(solver={solver.named!r})",
        progress=Progress(name, planned.progress),
    )
    model.privacy_ = _statement(
        model, planned, released, answers, door.budget, warned + notes
    )
    return released


def _statement(
    model: PrivateEstimator,
    planned: PlannedFit[ProblemT, ReleasedT],
    released: ReleasedT,
    answers: Answers,
    budget: Budget,
    warned: tuple[str, ...],
) -> PrivacyRecord:
    """The privacy statement of a release: the committed event and public facts."""
    solver, problem, ledger = planned.solver, planned.problem, model.ledger
    relation, event = answers.relation, answers.event
    is_private = not isinstance(event, NonPrivateEvent)
    reason = f"{solver.mechanism}; drawn from the operating system's entropy"
    if not budget.is_finite:
        reason = "epsilon=inf: no noise."
    elif not is_private:
        reason = "random_state is set: anyone can reproduce the noise."
    epsilon = budget.epsilon if is_private else math.inf
    risk = risk_sentence(event, epsilon, budget.delta, relation)
    return PrivacyRecord(
        estimator=planned.estimator or type(model).__name__,
        is_private=is_private,
        reason=reason,
        epsilon=epsilon,
        delta=budget.delta,
        adjacency=relation,
        unit=UNIT_OF[relation],
        solver=solver.named,
        solver_params=planned.params,
        why_solver=planned.reason,
        event=event,
        noise_multiplier=answers.noise_multiplier,
        sensitivity=solver.sensitivity(problem),
        noise_scale=solver.noise_scale(released, answers, problem),
        n_samples=problem.n_samples,
        n_features=problem.n_features,
        **{"data_norm": None, **planned.bounds},
        sensitivity_unit=solver.sensitivity_unit,
        assumed_public=planned.assumed_public + solver.assumed_public(problem),
        warnings=warned,
        ledger=ledger.path if ledger is not None else "",
        dataset=ledger.dataset if ledger is not None else "",
        risk=risk if is_private else "",
    )


def _continued(model: PrivateEstimator) -> tuple[str, ...]:
    """The released model that this fit continued, with its statement and digest."""
    given: Any = getattr(model, "init", None)
    if not isinstance(given, ContinuesModel):
        return ()
    text: str = given.to_json()
    digest = hashlib.sha256(text.encode()).hexdigest()
    return (
        "the released model of 'init', whose guarantee is for the records of its fit; "
        f"a record of both fits has both together: {given.privacy_.statement()} The "
        f"SHA-256 of its to_json() is {digest}",
    )


# --------------------------------------------------------- Models that are forecast


class PrivateModel(PrivateEstimator):
    """An object whose `fit` learns a model, and whose noise can be forecast."""

    @abstractmethod
    def _foreseen(self, budget: Budget, *shape: Any) -> PlannedFit[Any, Any]:
        """The planned fit to a table of this shape; for a finite epsilon."""

    @abstractmethod
    def _shape(self, n_samples: int) -> tuple[Any, ...]:
        """The shape of the fitted table, with `n_samples` records instead."""

    def _forecast(self, *shape: Any) -> Forecast:
        """The forecast of a fit to a table of this shape."""
        budget = self._check_privacy_params()
        check_real("epsilon", budget.epsilon, low=1e-6, high=1e8)
        return self._foreseen(budget, *shape).forecast(budget)

    def _signal(self, n_samples: int, rehearsed: Any) -> Signal | None:
        budget, model = Budget(self.epsilon, self.delta), self
        encoder = getattr(rehearsed, "encoder_", None)
        if encoder is not None and self.get_params(deep=False)["columns"] is None:
            # A source declares the columns, and the parameter holds them in `fit` only.
            model = clone(self).set_params(columns=encoder.columns)
        return model._foreseen(budget, *rehearsed._shape(n_samples)).signal


# ---------------------------------------------- Models that continue a released model


# Parameters that give weights and raw predictions their meaning.
_OF_MEANING = (
    "activation class_weight convolutions data_norm h hidden_layer_sizes image_shape "
    "loss max_depth quantile target_bounds"
).split()


def _are_equal(one: Any, other: Any) -> bool:
    return np.array_equal(np.asarray(one, object), np.asarray(other, object))


def _encoding_of(model: Any) -> tuple[Any, ...] | None:
    """Public facts from which the features of a fitted model follow."""
    e = getattr(model, "encoder_", None)
    return e and (e._names, e.columns_, e.numeric_, e.n_knots_, e.handle_unknown)


class ContinuesModel(PrivateModel):
    """A model whose fit may continue a released model, its parameter `init`."""

    init: Any
    columns: Any

    def __sklearn_clone__(self) -> Any:
        """A clone continues the same released model, which is not fitted anew."""
        found = super().__sklearn_clone__()
        if isinstance(self.init, ContinuesModel):
            found.init = self.init
        return found

    def _given(self, classes: Any = None) -> Self | None:
        """The model that the fit continues; None without one, or if it is a constant.

        The model is compared with this object's parameters, with its encoder if there
        is one, and with labels. No record is read.

        Raises
        ------
        ValueError, TypeError
            If there is a model that this fit cannot continue.
        """
        given, kind = self.init, type(self)
        if given is None or isinstance(given, str):
            return None
        if type(given) is not kind or not hasattr(given, "privacy_"):
            state = "unfitted " * (type(given) is kind)
            raise TypeError(
                f"The 'init' model must be a fitted {kind.__name__}. Got an object of "
                f"{state}{type(given).__name__}. Pass a model that was fitted."
            )
        if math.isinf(max(self.epsilon, given.epsilon)):
            raise ValueError(
                "A fit with 'init', and the fit of that model, must have a finite "
                "epsilon, by which both count. Got epsilon=inf. Leave out 'init'."
            )
        if given._is_constant():  # nothing was learned
            return None
        named = [name for name in _OF_MEANING if name in signature(kind).parameters]
        facts = [(name, getattr(self, name), getattr(given, name)) for name in named]
        if hasattr(self, "encoder_") or self.columns is None:
            both = _encoding_of(self), _encoding_of(given)
            facts.append(("encoded columns", *both))
        n_features = getattr(self, "n_features_in_", given.n_features_in_)
        facts.append(("number of features", n_features, given.n_features_in_))
        if classes is not None:
            facts.append(("classes", classes, given.classes_))
        others = [name for name, own, its in facts if not _are_equal(own, its)]
        if others:
            raise ValueError(
                "The 'init' model must have the parameters of this fit that give its "
                f"weights their meaning. Got a model with other {', '.join(others)}. "
                "Use the same here, or leave out 'init'. Nothing was spent."
            )
        return given
