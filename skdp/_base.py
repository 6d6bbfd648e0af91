"""What private objects share: `PrivateEstimator`, and `DPEstimator` for models."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from skdp._quiet import warn
from skdp._stored import StoredEstimator
from skdp._validation import check_data_norm, check_random_state
from skdp.data import MemorySource
from skdp.exceptions import LargeDeltaWarning, SeededNoiseWarning
from skdp.losses import Loss
from skdp.objectives import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._adjacency import UNIT_OF, Relation, check_adjacency
from skdp.privacy._allowance import Allowance
from skdp.privacy._answers import Answers
from skdp.privacy._door import Door
from skdp.privacy._events import Event
from skdp.privacy._ledger import BudgetLedger
from skdp.privacy._noise import NoiseSource
from skdp.privacy._record import PrivacyRecord
from skdp.privacy._step import FREE, StepPrivacy
from skdp.solvers import (
    Chosen,
    Progress,
    Solution,
    choose_solver,
    named_solver,
    solve,
)

# What every guarantee about rows of a table takes as public.
PUBLIC_OF_TABLES = (
    "number of records",
    "number and names of features",
    "storage type of X: dense or sparse, and its dtype",
)


class DeclaredEstimator(StoredEstimator):
    """An object whose `fit` takes nothing from the values of the data."""

    def step_privacy(self) -> StepPrivacy:
        """What this object costs: nothing."""
        return FREE


@dataclass(frozen=True, kw_only=True)
class ReleaseFacts:
    """How one fit released what it did: the part of its record that mechanisms know.

    Parameters
    ----------
    mechanism : str
        What makes the release private; empty without noise.
    solver, solver_params, why_solver, event, noise_multiplier, sensitivity, \
noise_scale, n_samples, n_features, data_norm, feature_bound, n_nonzero_coefs, \
sensitivity_unit
        As in `PrivacyRecord`.
    """

    mechanism: str
    solver: str
    solver_params: dict[str, Any]
    why_solver: str
    event: Event
    noise_multiplier: float
    sensitivity: float | None
    noise_scale: float | None
    n_samples: int
    n_features: int
    data_norm: float | None
    feature_bound: float | None = None
    n_nonzero_coefs: int | None = None
    sensitivity_unit: str = ""


class PrivateEstimator(StoredEstimator):
    """Budget, ledger and warnings of an object that releases something in `fit`.

    A subclass has the parameters epsilon, delta, adjacency, random_state and ledger; or
    it names its relation by another parameter than adjacency and says so in
    `_relation` and `_be_under`.
    """

    is_search: ClassVar[bool] = False
    # The parameter that names the relation.
    _relation_parameter: ClassVar[str] = "adjacency"

    def _relation(self) -> Relation:
        """The checked relation of neighbours."""
        return check_adjacency(self.adjacency)

    def _be_under(self, relation: Relation) -> None:
        """Take the relation of the search that this object is a step of."""
        self.set_params(adjacency=relation)

    def _has_relation(self, relation: Relation) -> bool:
        """Whether the parameter is at its default or as a search wants it."""
        default = inspect.signature(type(self)).parameters["adjacency"].default
        return self.adjacency in (default, relation)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Undo every change to the estimator if the fit inside fails."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    def _check_privacy_params(self) -> Budget:
        """Check what all private estimators share and what needs no data."""
        budget = Budget(self.epsilon, self.delta)
        relation = self._relation()
        seed = check_random_state(self.random_state)
        if self.ledger is not None:
            if not isinstance(self.ledger, (BudgetLedger, Allowance)):
                raise TypeError(
                    "The 'ledger' parameter must be None or a BudgetLedger. "
                    f"Got an instance of {type(self.ledger).__name__}."
                )
            unit = UNIT_OF[relation]
            if self.ledger.unit != unit:
                raise ValueError(
                    f"The ledger's unit must be {unit!r} for this estimator. "
                    f"Got {self.ledger.unit!r}. Use a ledger that counts {unit}s."
                )
            is_private = budget.is_finite and seed is None
            self.ledger.check_accepts(adjacency=relation, is_private=is_private)
        return budget

    def _door(self, budget: Budget) -> Door:
        """Where this fit's releases are declared, booked and answered."""
        return Door(
            budget,
            adjacency=self._relation(),
            ledger=self.ledger,
            random_state=self.random_state,
        )

    def _warn_of_public_facts(
        self, budget: Budget, n_samples: int, noise: Door | NoiseSource
    ) -> tuple[str, ...]:
        """Warn before anything is spent; what stays on the record is returned."""
        if not budget.is_finite:
            return ()
        if not noise.is_private:
            warn(
                "A random_state makes the noise reproducible, so this fit is not a "
                "private release. Use random_state=None for anything you publish.",
                SeededNoiseWarning,
            )
        if budget.delta < 1 / n_samples:
            return ()
        warn(
            f"The 'delta' parameter should be far below 1 / n_samples. Got "
            f"{budget.delta:g}. Use for example 1 / n_samples**2.",
            LargeDeltaWarning,
        )
        return (
            "delta is at least 1 / n_samples: a mechanism that publishes a random "
            "record would satisfy it",
        )

    def _privacy_record(
        self,
        facts: ReleaseFacts,
        budget: Budget,
        noise: Door | NoiseSource,
        assumed_public: tuple[str, ...],
        notes: tuple[str, ...],
    ) -> PrivacyRecord:
        """The privacy statement of a fit."""
        is_private = bool(facts.mechanism) and noise.is_private
        reason = f"{facts.mechanism}, from the operating system's entropy"
        if not facts.mechanism:
            reason = "epsilon=inf: no noise, no clipping."
        elif not noise.is_private:
            reason = "random_state is set: the noise can be reproduced by anyone."
        return PrivacyRecord(
            estimator=type(self).__name__,
            is_private=is_private,
            reason=reason,
            epsilon=budget.epsilon if is_private else math.inf,
            delta=budget.delta,
            adjacency=self._relation(),
            unit=UNIT_OF[self._relation()],
            solver=facts.solver,
            solver_params=facts.solver_params,
            why_solver=facts.why_solver,
            event=facts.event,
            noise_multiplier=facts.noise_multiplier,
            sensitivity=facts.sensitivity,
            noise_scale=facts.noise_scale,
            n_samples=facts.n_samples,
            n_features=facts.n_features,
            data_norm=facts.data_norm,
            feature_bound=facts.feature_bound,
            n_nonzero_coefs=facts.n_nonzero_coefs,
            sensitivity_unit=facts.sensitivity_unit,
            assumed_public=assumed_public,
            warnings=notes,
            ledger=self.ledger.path if self.ledger is not None else "",
            dataset=self.ledger.dataset if self.ledger is not None else "",
        )

    def step_privacy(self) -> StepPrivacy:
        """What this object costs, planned or spent; never fits anything."""
        record = getattr(self, "privacy_", None)
        if record is None:
            budget = Budget(self.epsilon, self.delta)
            return StepPrivacy(
                epsilon=budget.epsilon if self.random_state is None else math.inf,
                delta=budget.delta,
                adjacency=self._relation(),
                adds_in_squares=self._adds_in_squares(),
                note="" if self.random_state is None else "seeded: not private",
            )
        note = "" if record.is_private else record.reason
        if record.release:
            note = f"part of {record.release}, paid once"
        return StepPrivacy(
            epsilon=record.epsilon,
            delta=record.delta,
            adjacency=record.adjacency,
            event=record.event,
            note=note,
            release=record.release,
        )

    def _adds_in_squares(self) -> bool:
        """Whether all that `fit` will release is Gaussian noise."""
        return self.delta > 0

    def _be_one_of_several(self) -> None:
        """Choose parameters under which this object's noise adds up without loss."""


class DPEstimator(PrivateEstimator):
    """Solver and privacy record of a private model.

    A subclass's ``fit`` validates its input, states the loss and the regularisation,
    calls `_solve`, and copies the solution to fitted attributes.
    """

    def _check_privacy_params(self) -> Budget:
        check_data_norm(self.data_norm)
        return super()._check_privacy_params()

    def _adds_in_squares(self) -> bool:
        named = named_solver(self.solver, self.solver_params)
        return self.delta > 0 and named is not None and named.adds_in_squares

    def _be_one_of_several(self) -> None:
        if self.solver == "auto" and self.delta > 0:
            self.solver = "noisy_gd"

    def _objective(
        self, loss: Loss, n_samples: int, n_features: int, alpha: float, budget: Budget
    ) -> LinearObjective:
        """The public facts of a fit."""
        return LinearObjective(
            loss=loss,
            n_samples=n_samples,
            n_features=n_features,
            data_norm=float(self.data_norm) if budget.is_finite else math.inf,
            adjacency=self.adjacency,
            alpha=alpha,
            fit_intercept=self.fit_intercept,
        )

    def _solve(
        self,
        X: Any,
        y: Any,
        loss: Loss,
        alpha: float,
        budget: Budget,
        assumed_public: tuple[str, ...],
    ) -> tuple[Solution, LinearObjective, PrivacyRecord]:
        """Plan, commit, ask: everything about privacy in one place."""
        n_samples, n_features = X.shape
        objective = self._objective(loss, n_samples, n_features, alpha, budget)
        chosen = choose_solver(
            self.solver,
            self.solver_params,
            objective,
            budget,
            has_ledger=self.ledger is not None,
        )
        solver = chosen.solver if chosen is not None else None
        name = type(self).__name__
        door = self._door(budget)
        notes = self._warn_of_public_facts(budget, n_samples, door)
        solution, answers = solve(
            solver,
            MemorySource(X, y),
            objective,
            door,
            label=f"{name}(solver={solver.key if solver else 'exact'!r})",
            progress=Progress(name, bool(self.verbose)),
        )
        facts = _facts(solution, answers, objective, chosen)
        if solver is not None:
            assumed_public += solver.assumed_public
        return (
            solution,
            objective,
            self._privacy_record(facts, budget, door, assumed_public, notes),
        )


def _facts(
    solution: Solution,
    answers: Answers,
    objective: LinearObjective,
    chosen: Chosen | None,
) -> ReleaseFacts:
    """What the record says of a solver, or of the optimum without one."""
    solver = chosen.solver if chosen is not None else None
    return ReleaseFacts(
        mechanism=solver.mechanism if solver else "",
        solver=solver.key if solver else "exact",
        solver_params=solver.params if solver else {},
        why_solver=chosen.reason if chosen else "epsilon=inf: the optimum itself",
        event=answers.event,
        noise_multiplier=answers.noise_multiplier,
        sensitivity=solver.sensitivity(objective) if solver else math.inf,
        noise_scale=solution.noise_scale,
        n_samples=objective.n_samples,
        n_features=objective.n_features,
        data_norm=objective.data_norm,
        feature_bound=None if objective.n_nonzero is None else objective.entry_bound,
        n_nonzero_coefs=objective.n_nonzero,
    )
