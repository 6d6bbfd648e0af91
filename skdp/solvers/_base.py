"""The contract between `solve` and a solver."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from skdp._configured import Configured, Given
from skdp._floats import FloatArray
from skdp.exceptions import Refused
from skdp.objectives._linear import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._adjacency import is_of_users
from skdp.privacy._answers import Answers
from skdp.privacy._plan import Plan
from skdp.solvers._progress import Progress


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
class Solver(Configured, ABC):
    """A way to fit a linear model privately: its hyper-parameters, all decided."""

    is_pure: ClassVar[bool]  # whether delta = 0 is possible
    # Whether at most `n_nonzero` features get a nonzero weight.
    is_sparse: ClassVar[bool] = False
    # Whether rows are clipped after all features but the selected ones are left out.
    clips_selected: ClassVar[bool] = False
    # Whether it needs rows in memory.
    needs_rows: ClassVar[bool] = False
    # Whether it needs records in an order that is the same at every reading.
    needs_order: ClassVar[bool] = False
    # Whether it goes through the records in an order that is drawn.
    needs_permutation: ClassVar[bool] = False
    # Whether it is for losses that are not convex too; its guarantee holds without.
    takes_nonconvex: ClassVar[bool] = False
    # Whether each of its queries multiplies a row's part by the row's share.
    takes_users: ClassVar[bool] = False
    # Whether it is for use, and not kept for replication and study.
    is_recommended: ClassVar[bool] = True

    @classmethod
    def check(cls, objective: LinearObjective, budget: Budget) -> None:
        """Raise what no parameter can mend.

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
        """What was not given decided by rule; from public facts only.

        Parameters
        ----------
        given : mapping
            Checked parameters.
        objective : LinearObjective
        budget : Budget

        Raises
        ------
        Refused
            If this solver cannot do the job.
        """

    @classmethod
    def adds_in_squares(cls, given: Given) -> bool:
        """Whether at delta > 0 all that is released has Gaussian noise."""
        return False

    @property
    def named(self) -> str:
        """Its key for the record and the books."""
        return self.key

    def assumed_public(self, objective: LinearObjective) -> tuple[str, ...]:
        """What the guarantee takes as public beside the objective, for the record."""
        return ()

    @property
    def params(self) -> dict[str, Any]:
        """The hyper-parameters by name, for the record."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    @abstractmethod
    def mechanism(self) -> str:
        """What makes the release private, for the record."""

    @abstractmethod
    def plan(self, objective: LinearObjective) -> Plan:
        """Everything `run` will ask. Pure: sees no data, draws no noise."""

    @abstractmethod
    def sensitivity(self, objective: LinearObjective) -> float:
        """Largest L2 sensitivity of one query under the objective's adjacency."""

    def foretold(
        self, objective: LinearObjective, noise_multiplier: float
    ) -> tuple[str, ...]:
        """What public facts say of a fit beside its noise, for `forecast`."""
        return ()

    @abstractmethod
    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        """Walk over released values; ask exactly what `plan` declared."""
