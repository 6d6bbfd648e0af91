"""The contract between `solve` and a solver."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from skdp._floats import FloatArray
from skdp.data import Source
from skdp.objectives import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._events import Event
from skdp.privacy._noise import NoiseSource
from skdp.solvers._configured import Configured

# Of the bounds on a row and on an entry, for rules that weigh one against the other.
_LARGEST_RATIO = 1e50


class Progress:
    """Reports how far a solver is: public step counts, nothing from the data.

    Parameters
    ----------
    label : str
        What is being fitted.
    verbose : bool
        Whether to print.
    """

    def __init__(self, label: str = "", verbose: bool = False) -> None:
        self._label, self._verbose = label, verbose

    def is_due(self, done: int, total: int) -> bool:
        """Whether `step` prints: about 20 times a run, if at all."""
        return self._verbose and (done == total or done % max(1, -(-total // 20)) == 0)

    def step(self, done: int, total: int, note: str = "") -> None:
        """Say that `done` of `total` steps are finished; a note if nothing is private.

        Parameters
        ----------
        done, total : int
        note : str, default=""
            Must not depend on private data.
        """
        if self.is_due(done, total):
            print(f"[{self._label}] step {done} of {total}{note}", flush=True)


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
    """

    weights: FloatArray
    noise_scale: float

    def unpack(self, objective: LinearObjective) -> tuple[FloatArray, FloatArray]:
        """`coef` of shape (n_outputs, n_features) and `intercept` of (n_outputs,)."""
        coef = self.weights[: objective.n_features].T.copy()
        if not objective.fit_intercept:
            return coef, np.zeros(len(coef))
        return coef, objective.intercept_value * self.weights[-1]


@dataclass(frozen=True, kw_only=True)
class Solver(Configured, ABC):
    """A way to fit a linear model privately, with its public hyper-parameters."""

    is_pure: ClassVar[bool]  # whether delta = 0 is possible
    # Whether at most `n_nonzero` features get a nonzero weight.
    is_sparse: ClassVar[bool] = False

    def refusal(self, objective: LinearObjective, budget: Budget) -> str:
        """Why this solver cannot do the job, or an empty string if it can."""
        if self.is_sparse and objective.n_nonzero is None:
            return (
                f"solver={self.key!r} needs a number of features to select. Use "
                "DPSparseLinearRegression or DPSparseLogisticRegression."
            )
        if not self.is_sparse and objective.n_nonzero is not None:
            return (
                f"solver={self.key!r} gives every feature a weight and cannot select "
                "any. Use solver='two_stage' with "
                f"solver_params={{'refit': {self.key!r}}}."
            )
        if budget.delta == 0 and not self.is_pure:
            return (
                f"solver={self.key!r} adds Gaussian noise and cannot do delta=0. "
                "Use a delta above 0, or solver='auto'."
            )
        if not math.isfinite(objective.data_norm):
            return f"solver={self.key!r} needs a finite data_norm."
        if not math.isfinite(objective.loss.zero_out_bound(math.inf)):
            return (
                f"solver={self.key!r} needs a bounded gradient. Use a finite residual "
                "bound."
            )
        return ""

    @property
    def is_gaussian(self) -> bool:
        """Whether at delta > 0 all that is released has Gaussian noise."""
        return False

    @property
    def assumed_public(self) -> tuple[str, ...]:
        """What the guarantee takes as public beside the problem, for the record."""
        return ()

    @abstractmethod
    def resolve(self, objective: LinearObjective, budget: Budget) -> Self:
        """Copy with every None replaced by its rule; public facts only."""

    @property
    @abstractmethod
    def mechanism(self) -> str:
        """What makes the release private, for the record."""

    @abstractmethod
    def event(self, noise_multiplier: float, objective: LinearObjective) -> Event:
        """Everything `run` will release. Pure: sees no data, draws no noise."""

    @abstractmethod
    def sensitivity(self, objective: LinearObjective) -> float:
        """Largest L2 sensitivity of one query under the problem's adjacency."""

    @abstractmethod
    def run(
        self,
        source: Source,
        objective: LinearObjective,
        noise_multiplier: float,
        noise: NoiseSource,
        progress: Progress,
    ) -> Solution:
        """Read `source`; add exactly the noise that `event` declared."""
