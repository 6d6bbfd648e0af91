"""What private objects share: budget, ledger, warnings and record."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol

import numpy as np

from skdp._forecast import Signal
from skdp._quiet import warn
from skdp._stored import StoredEstimator
from skdp._validation import check_random_state
from skdp.exceptions import LargeDeltaWarning, SeededNoiseWarning
from skdp.privacy._accounting import Budget
from skdp.privacy._adjacency import (
    UNIT_OF,
    Relation,
    adjacency_of,
    is_of_users,
    relation_for,
)
from skdp.privacy._allowance import Allowance
from skdp.privacy._door import Door
from skdp.privacy._events import Event, NonPrivateEvent
from skdp.privacy._ledger import BudgetLedger
from skdp.privacy._record import PrivacyRecord, step_of
from skdp.privacy._risk import risk_sentence
from skdp.privacy._step import FREE, StepPrivacy

# What every guarantee about rows of a table takes as public.
PUBLIC_OF_TABLES = (
    "number of records",
    "number and names of features",
    "storage type of X: dense or sparse, and its dtype",
)
# What every guarantee about rows of a declared table takes as public.
PUBLIC_OF_DECLARED = (
    "number of records",
    "declared columns: names, kinds, ranges and categories",
    "that every cell is of the kind that is declared for its column",
)


def of_users(facts: tuple[str, ...]) -> tuple[str, ...]:
    """What a guarantee about all rows of a user takes as public in place of these."""
    known, *others = facts
    assert known == PUBLIC_OF_TABLES[0]
    return "number of users, not that of their rows", *others


def public_of_tables(relation: Relation) -> tuple[str, ...]:
    """What a guarantee about rows of a table, or all of a user's, takes as public."""
    return of_users(PUBLIC_OF_TABLES) if is_of_users(relation) else PUBLIC_OF_TABLES


class DeclaredEstimator(StoredEstimator):
    """An object whose `fit` takes nothing from the values of the data."""

    def step_privacy(self) -> StepPrivacy:
        """What this object costs: nothing."""
        return FREE


class Booked(Protocol):
    """What a record says of a release that is on the books; public."""

    @property
    def event(self) -> Event:
        """What accounting charges."""
        ...

    @property
    def noise_multiplier(self) -> float:
        """Sigma / sensitivity; 0.0 without noise."""
        ...


class PrivateEstimator(StoredEstimator):
    """Budget, ledger and warnings of an object that releases something in `fit`.

    A subclass has the parameters epsilon, delta, adjacency, random_state and ledger; or
    it names its relation by another parameter than adjacency and says so in
    `_relation` and `_be_under`.
    """

    is_search: ClassVar[bool] = False
    # What is protected; models that can protect users have a parameter of the name.
    privacy_unit: str = "record"
    # The parameter that names the relation.
    _relation_parameter: ClassVar[str] = "adjacency"

    def _relation(self) -> Relation:
        """The checked relation of neighbours."""
        return relation_for(self.adjacency, self.privacy_unit)

    def _be_under(self, relation: Relation) -> None:
        """Take the relation of the search that this object is a step of.

        Raises ValueError if it is of users, whom this object does not protect.
        """
        if is_of_users(relation):
            if "privacy_unit" not in inspect.signature(type(self)).parameters:
                raise ValueError(
                    "Every private step must take ids of users under "
                    f"privacy_unit='user'. Got {type(self).__name__}, which protects "
                    "records only: no set_fit_request(groups=True) and no step__groups "
                    "makes it one of users. Leave it out."
                )
            self.set_params(privacy_unit="user")
        self.set_params(adjacency=adjacency_of(relation))

    def _has_relation(self, relation: Relation) -> bool:
        """Whether the parameter is at its default or as a search wants it."""
        default = inspect.signature(type(self)).parameters["adjacency"].default
        return self.adjacency in (default, adjacency_of(relation))

    @property
    def _repr_html_(self) -> Callable[[], str]:
        """scikit-learn's diagram, and below it what a fit promises."""
        diagram: Callable[[], str] = super()._repr_html_
        return lambda: diagram() + self._promise()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        bundle = super()._repr_mimebundle_(include=include, exclude=exclude)
        if "text/html" in bundle:
            bundle["text/html"] += self._promise()
        return bundle

    def _promise(self) -> str:
        record = getattr(self, "privacy_", None)
        return "" if record is None else record._repr_html_()

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Undo every change to the estimator if the fit inside fails.

        Whether NumPy warns or raises at an overflow follows from the records, and is
        up to the user's settings: within a fit it does neither.
        """
        before = dict(vars(self))
        try:
            with np.errstate(all="ignore"):
                yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
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
                    f"Got an instance of {type(self.ledger).__name__}. Use "
                    "BudgetLedger.open(path) for a ledger that exists."
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
        self, budget: Budget, n_samples: int, door: Door
    ) -> tuple[str, ...]:
        """Warn before anything is spent; what stays on the record is returned."""
        if not budget.is_finite:
            return ()
        if not door.is_private:
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

    def _signal(self, n_samples: int, rehearsed: Any) -> Signal | None:
        """Noise against signal of a fit to so many records, if a model is learned.

        `rehearsed` is this object, fitted in rehearsal to as many features.
        """
        return None

    def _record_of(
        self,
        booked: Booked,
        budget: Budget,
        *,
        mechanism: str,
        solver: str,
        solver_params: dict[str, Any],
        why_solver: str,
        sensitivity: float | None,
        noise_scale: float | None,
        n_samples: int,
        n_features: int,
        data_norm: float | None,
        feature_bound: float | None = None,
        n_nonzero_coefs: int | None = None,
        sensitivity_unit: str = "",
        assumed_public: tuple[str, ...] = (),
        warnings: tuple[str, ...] = (),
        estimator: str = "",
    ) -> PrivacyRecord:
        """The privacy statement of a release: what was booked, and public facts.

        `mechanism` is what makes it private, `estimator` its name if that is not the
        name of the class; the rest is as in `PrivacyRecord`.
        """
        is_private = not isinstance(booked.event, NonPrivateEvent)
        reason = f"{mechanism}; drawn from the operating system's entropy"
        if not budget.is_finite:
            reason = "epsilon=inf: no noise, no clipping."
        elif not is_private:
            reason = "random_state is set: the noise can be reproduced by anyone."
        epsilon = budget.epsilon if is_private else math.inf
        risk = risk_sentence(booked.event, epsilon, budget.delta, self._relation())
        return PrivacyRecord(
            estimator=estimator or type(self).__name__,
            is_private=is_private,
            reason=reason,
            epsilon=epsilon,
            delta=budget.delta,
            adjacency=self._relation(),
            unit=UNIT_OF[self._relation()],
            solver=solver,
            solver_params=solver_params,
            why_solver=why_solver,
            event=booked.event,
            noise_multiplier=booked.noise_multiplier,
            sensitivity=sensitivity,
            noise_scale=noise_scale,
            n_samples=n_samples,
            n_features=n_features,
            data_norm=data_norm,
            feature_bound=feature_bound,
            n_nonzero_coefs=n_nonzero_coefs,
            sensitivity_unit=sensitivity_unit,
            assumed_public=assumed_public,
            warnings=warnings,
            ledger=self.ledger.path if self.ledger is not None else "",
            dataset=self.ledger.dataset if self.ledger is not None else "",
            risk=risk if is_private else "",
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
        return step_of(record)

    def _adds_in_squares(self) -> bool:
        """Whether all that `fit` will release is Gaussian noise."""
        return bool(self.delta > 0)

    def _be_one_of_several(self) -> None:
        """Choose parameters under which this object's noise adds up without loss."""


class PrivateRelease(PrivateEstimator):
    """Budget, books and noise of what is released without a model."""

    def __init__(
        self,
        epsilon: float,
        delta: float,
        adjacency: Any,
        random_state: int | None,
        ledger: Any,
        privacy_unit: str = "record",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.privacy_unit = privacy_unit
        self.random_state = random_state
        self.ledger = ledger
