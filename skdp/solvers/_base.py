"""The contract between `solve` and a solver."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from skdp._validation import check_bool, check_count, check_real
from skdp.data import Source
from skdp.losses import Loss
from skdp.privacy._accounting import Budget
from skdp.privacy._adjacency import Adjacency, check_adjacency
from skdp.privacy._events import Event
from skdp.privacy._noise import NoiseSource
from skdp.solvers._configured import Configured

FloatArray = NDArray[np.float64]
# Of the bounds on a row and on an entry, for rules that weigh one against the other.
_LARGEST_RATIO = 1e50


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Public facts of one fit. Nothing here may be computed from the data.

    The objective is ``mean(loss) + alpha / 2 * ||W||^2`` over weights W with one row
    per column, the intercept included: it is the weight of one more column that
    holds the constant `data_norm`.

    Parameters
    ----------
    n_samples, n_features : int
        Public record and feature counts.
    data_norm : float in (0, inf]
        Rows are clipped to this L2 norm, in units of the features. inf: no clipping,
        allowed only without privacy.
    adjacency : {"replace_one", "zero_out"}
    alpha : float in [0, inf), default=0.0
        L2 regularisation of the mean loss.
    fit_intercept : bool, default=True
    feature_bound : float in (0, inf], default=inf
        Entries are clipped to this magnitude before rows are clipped, in units of the
        features. A row's norm bounds its entries too.
    n_nonzero : int or None, default=None
        Most features that may have a nonzero weight; None: all of them.
    """

    n_samples: int
    n_features: int
    data_norm: float
    adjacency: Adjacency
    alpha: float = 0.0
    fit_intercept: bool = True
    feature_bound: float = math.inf
    n_nonzero: int | None = None

    def __post_init__(self) -> None:
        data_norm = check_real(
            "data_norm", self.data_norm, low=0.0, high=math.inf, low_open=True
        )
        alpha = check_real("alpha", self.alpha, low=0.0, high=math.inf, high_open=True)
        check_adjacency(self.adjacency)
        check_bool("fit_intercept", self.fit_intercept)
        # Plain numbers, whatever NumPy scalars came in.
        object.__setattr__(self, "n_samples", check_count("n_samples", self.n_samples))
        object.__setattr__(
            self, "n_features", check_count("n_features", self.n_features)
        )
        object.__setattr__(self, "data_norm", data_norm)
        object.__setattr__(self, "alpha", alpha)
        bound = check_real(
            "feature_bound", self.feature_bound, low=0.0, high=math.inf, low_open=True
        )
        object.__setattr__(self, "feature_bound", bound)
        if self.n_nonzero is not None:
            most = check_count("n_nonzero", self.n_nonzero, high=self.n_features)
            object.__setattr__(self, "n_nonzero", most)

    @property
    def n_columns(self) -> int:
        """Number of weights per output, the intercept's included."""
        return self.n_features + self.fit_intercept

    @property
    def most_features(self) -> int:
        """Most features that may have a nonzero weight: `n_nonzero`, or all."""
        return self.n_features if self.n_nonzero is None else self.n_nonzero

    @property
    def row_norm(self) -> float:
        """Bound on the norm of a row with its intercept column."""
        return self.data_norm * (math.sqrt(2) if self.fit_intercept else 1.0)

    @property
    def entry_bound(self) -> float:
        """Bound on the magnitude of an entry of a clipped row."""
        return min(self.feature_bound, self.data_norm)

    @property
    def full_entries(self) -> float:
        """How many entries of the largest magnitude fill a row of norm `data_norm`."""
        # Far more than there are features at the end: its square is finite too.
        return min(self.data_norm / self.entry_bound, _LARGEST_RATIO) ** 2

    @property
    def has_dense_rows(self) -> bool:
        """Whether public bounds say that every feature is in a row, more or less.

        Then a row at its bounds has more entries than the square root of the number of
        features.
        """
        return self.full_entries**2 >= self.n_features

    @property
    def intercept_value(self) -> float:
        """The constant in the intercept's column."""
        return self.data_norm if math.isfinite(self.data_norm) else 1.0


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

    def unpack(self, problem: Problem) -> tuple[FloatArray, FloatArray]:
        """`coef` of shape (n_outputs, n_features) and `intercept` of (n_outputs,)."""
        coef = self.weights[: problem.n_features].T.copy()
        if not problem.fit_intercept:
            return coef, np.zeros(len(coef))
        return coef, problem.intercept_value * self.weights[-1]


@dataclass(frozen=True, kw_only=True)
class Solver(Configured, ABC):
    """A way to fit a linear model privately, with its public hyper-parameters."""

    is_pure: ClassVar[bool]  # whether delta = 0 is possible
    # Whether at most `Problem.n_nonzero` features get a nonzero weight.
    is_sparse: ClassVar[bool] = False

    def refusal(self, loss: Loss, problem: Problem, budget: Budget) -> str:
        """Why this solver cannot do the job, or an empty string if it can."""
        if self.is_sparse and problem.n_nonzero is None:
            return (
                f"solver={self.key!r} needs a number of features to select. Use "
                "DPSparseLinearRegression or DPSparseLogisticRegression."
            )
        if not self.is_sparse and problem.n_nonzero is not None:
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
        if not math.isfinite(problem.data_norm):
            return f"solver={self.key!r} needs a finite data_norm."
        if not math.isfinite(loss.zero_out_bound(math.inf)):
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
    def resolve(self, loss: Loss, problem: Problem, budget: Budget) -> Self:
        """Copy with every None replaced by its rule; public facts only."""

    @property
    @abstractmethod
    def mechanism(self) -> str:
        """What makes the release private, for the record."""

    @abstractmethod
    def event(self, noise_multiplier: float, loss: Loss, problem: Problem) -> Event:
        """Everything `run` will release. Pure: sees no data, draws no noise."""

    @abstractmethod
    def sensitivity(self, loss: Loss, problem: Problem) -> float:
        """Largest L2 sensitivity of one query under the problem's adjacency."""

    @abstractmethod
    def run(
        self,
        source: Source,
        loss: Loss,
        problem: Problem,
        noise_multiplier: float,
        noise: NoiseSource,
        progress: Progress,
    ) -> Solution:
        """Read `source`; add exactly the noise that `event` declared."""
