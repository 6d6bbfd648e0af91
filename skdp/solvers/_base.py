"""Solvers of linear models, and the noise law that many of them share."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal, Self

import numpy as np

from skdp._arrays import FloatArray
from skdp._checks import check_choice
from skdp._configured import Checks, Given
from skdp._fit import PrivateSolver
from skdp.exceptions import Refused
from skdp.losses._objective import LinearObjective
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._relations import is_of_users
from skdp.privacy.noise._laws import LAWS, NoiseLaw
from skdp.privacy.release._answers import Answers
from skdp.privacy.release._plan import Plan

# ----------------------------------------------------------------- Protocol of a solver


@dataclass(frozen=True)
class Solution:
    """What a solver releases.

    Parameters
    ----------
    weights : ndarray of float64 of shape (n_columns, n_outputs)
        Private output; the last row is the intercept's if the problem has one.
    noise_scale : float
        Largest standard deviation of the noise that any query received, in units
        of the query. Public, or post-processing of released iterates.
    path : tuple of ndarray of the shape of `weights`, default=()
        Weights after each step, where they are released and kept. Private outputs.
    """

    weights: FloatArray
    noise_scale: float
    path: tuple[FloatArray, ...] = ()

    def unpack(self, objective: LinearObjective) -> tuple[FloatArray, FloatArray]:
        """`coef` of shape (n_outputs, n_features) and `intercept` of (n_outputs,)."""
        coef = self.weights[: objective.n_features].T.copy()
        intercept = np.array(objective.offset or np.zeros(len(coef)))
        if objective.fit_intercept:
            intercept += objective.intercept_value * self.weights[-1]
        return coef, intercept

    def unpack_path(
        self, objective: LinearObjective
    ) -> list[tuple[FloatArray, FloatArray]]:
        """The same of the weights after each step."""
        return [replace(self, weights=own).unpack(objective) for own in self.path]


@dataclass(frozen=True, kw_only=True)
class Solver(PrivateSolver[LinearObjective, Solution]):
    """A method of fitting a linear model privately, with all parameters decided."""

    is_pure: ClassVar[bool]  # whether delta = 0 is possible
    # Whether at most `n_nonzero` features get a nonzero weight.
    is_sparse: ClassVar[bool] = False
    # Whether rows are clipped after features that are not selected are dropped.
    clips_selected: ClassVar[bool] = False
    # Whether the solver needs rows in memory.
    needs_rows: ClassVar[bool] = False
    # Whether the solver needs the same order of the records at every reading.
    needs_order: ClassVar[bool] = False
    # Whether the solver goes through the records in a random order.
    needs_permutation: ClassVar[bool] = False
    # Whether the solver takes losses that are not convex; its guarantee needs no
    # convexity.
    takes_nonconvex: ClassVar[bool] = False
    # Whether its use is to state errors of coefficients, for which numbers are lines.
    is_for_errors: ClassVar[bool] = False
    # Whether each query multiplies a row's contribution by the weight of the row.
    takes_users: ClassVar[bool] = False

    @classmethod
    def check(cls, objective: LinearObjective, budget: Budget) -> None:
        """Raise if no choice of parameters makes the problem possible.

        Raises
        ------
        Refused
        """
        me = f"solver={cls.key!r}"
        if cls.needs_rows and not objective.holds_rows:
            raise Refused(
                f"{me} needs all rows in memory, and a source gives them block by "
                "block. Use solver='auto', or read the table into memory."
            )
        if is_of_users(objective.adjacency) and not cls.takes_users:
            raise Refused(
                f"{me} has a proof for privacy_unit='record' only. Use solver='auto', "
                "or leave out ids and privacy_unit."
            )
        if cls.needs_order and not objective.is_ordered:
            raise Refused(
                f"{me} depends on an order of records that no record may change, and "
                "the source has none. Use a source of files, or solver='auto' with a "
                "delta above 0."
            )
        if cls.needs_permutation and not objective.is_permutable:
            raise Refused(
                f"{me} goes through the records in an order of their ids, and the "
                "source has none. Use an SqlSource with record_id=, solver='auto', or "
                "read the table into memory."
            )
        if not (objective.loss.is_convex or cls.takes_nonconvex):
            raise Refused(
                f"{me} is for convex losses, and {type(objective.loss).__name__} is "
                "none. Use solver='graduated_gd', or a convex loss."
            )
        if cls.is_sparse and objective.n_nonzero is None:
            raise Refused(
                f"{me} needs a number of features to select. Use "
                "DPSparseLinearRegression or DPSparseLogisticRegression."
            )
        if not cls.is_sparse and objective.n_nonzero is not None:
            raise Refused(
                f"{me} gives every feature a weight and cannot select any. Use "
                f"solver='two_stage' with solver_params={{'refit': {cls.key!r}}}."
            )
        if budget.delta == 0 and not cls.is_pure:
            raise Refused(
                f"{me} adds Gaussian noise and cannot do delta=0. "
                "Use a delta above 0, or solver='auto'."
            )
        if not math.isfinite(objective.data_norm):
            raise Refused(f"{me} needs a finite data_norm.")
        if not math.isfinite(objective.loss.zero_out_bound(math.inf)):
            raise Refused(
                f"{me} needs a bounded gradient. Use a finite residual bound."
            )

    @classmethod
    @abstractmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        """The solver with every missing parameter set by a rule from public facts.

        Parameters
        ----------
        given : mapping
            Checked parameters.
        objective : LinearObjective
        budget : Budget

        Raises
        ------
        Refused
            If this solver cannot fit the problem.
        """

    @classmethod
    def adds_in_squares(cls, given: Given) -> bool:
        """Whether at delta > 0 all that is released has Gaussian noise."""
        return False

    @abstractmethod
    def plan(self, objective: LinearObjective, /) -> Plan:
        """Every query that `run` will ask. Reads no data and draws no noise."""

    @abstractmethod
    def sensitivity(self, objective: LinearObjective, /) -> float:
        """Largest sensitivity of one query, in the norm of its noise."""

    def rehearse(self, answers: Answers, objective: LinearObjective, /) -> Solution:
        return Solution(np.zeros(objective.shape), 0.0)

    def noise_scale(
        self, released: Solution, answers: Answers, objective: LinearObjective, /
    ) -> float:
        return released.noise_scale


# --------------------------------------------------- A requested solver before planning


@dataclass(frozen=True)
class Named:
    """The class of a solver, and the parameters that the user gave."""

    kind: type[Solver]
    given: Given

    @property
    def adds_in_squares(self) -> bool:
        """Whether at delta > 0 all that will be released has Gaussian noise."""
        return self.kind.adds_in_squares(self.given)

    def planned(self, objective: LinearObjective, budget: Budget) -> Solver:
        """The solver with every parameter decided; raises `Refused`."""
        return self.kind.planned(self.given, objective, budget)


def willing(
    kinds: Mapping[str, type[Solver]], objective: LinearObjective, budget: Budget
) -> list[str]:
    """Keys of the solvers whose rules alone accept a fit."""
    keys = []
    for key, kind in kinds.items():
        try:
            kind.planned({}, objective, budget)
        except ValueError:  # refused, or a parameter is missing
            continue
        keys.append(key)
    return keys


# ----------------------------------------- Projection that keeps a diverging run finite


# Released weights are kept in a box of this half side, in units of 1 / data_norm. It is
# far beyond any useful model and far from overflow, so predictions of finite rows stay
# finite.
_FARTHEST = 1e50


def box_radius(objective: LinearObjective) -> float:
    """Half the side of the box in which released weights are kept."""
    return _FARTHEST / objective.data_norm


def projected_onto_box(released: FloatArray, limit: float) -> FloatArray:
    """Numbers brought into ``[-limit, limit]``."""
    # Faster than `np.clip` for the few numbers of a step.
    return np.minimum(np.maximum(released, -limit), limit)


# --------------------------------------------- Solvers with Gaussian or spherical noise


LawName = Literal["gaussian", "spherical"]


@dataclass(frozen=True, kw_only=True)
class ChosenLaw(Solver):
    """A noise law, and the refusals that follow from it.

    By default the law is spherical if delta is 0, and Gaussian otherwise.
    """

    is_pure: ClassVar[bool] = True
    checks: ClassVar[Checks] = {"law": partial(check_choice, allowed=LAWS)}

    law: LawName

    @property
    def noise_law(self) -> NoiseLaw:
        return LAWS[self.law]

    @classmethod
    def adds_in_squares(cls, given: Given) -> bool:
        return given.get("law") != "spherical"

    @classmethod
    def law_for(cls, given: Given, budget: Budget) -> LawName:
        """The given law, or the default law of the budget.

        Raises `Refused` if the given law is impossible with delta=0.
        """
        by_rule: LawName = "spherical" if budget.delta == 0 else "gaussian"
        law: LawName = given.get("law", by_rule)
        if budget.delta == 0 and not LAWS[law].is_pure:
            raise Refused(
                f"solver={cls.key!r} cannot do delta=0 with law={law!r}. Use law=None."
            )
        return law

    @classmethod
    def check_steps(cls, law: LawName, budget: Budget, n_steps: int) -> None:
        """Raise if the law wastes budget on this number of releases."""
        if budget.delta > 0 and n_steps > 1 and LAWS[law].is_pure:
            raise Refused(
                f"solver={cls.key!r} takes law={LAWS[law].name!r} beside a delta above "
                f"0 for one release only. Got n_steps={n_steps}: over several releases "
                "a delta gains little with it. Use law=None for Gaussian noise, or "
                "delta=0."
            )

    @classmethod
    def check_noise(
        cls, law: LawName, budget: Budget, size: int, multiple: float = 1.0
    ) -> None:
        """Raise if `size` draws of scale `multiple` / epsilon are impossible."""
        if not LAWS[law].is_possible(multiple / budget.epsilon, size):
            raise Refused(
                f"solver={cls.key!r} cannot draw such noise. Use a larger epsilon."
            )
