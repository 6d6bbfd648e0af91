r"""Rows centred and scaled by a private release, and any Gaussian solver on them.

One plan of two parts: sums over the states of all declared columns in one Gaussian
answer, and the inner solver's answers over rows that are centred, scaled and clipped as
the first answer says. Proofs: ``docs/proofs/preconditioning.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array

from skdp._configured import Given
from skdp._floats import FloatArray
from skdp.data import CentredSource, Centring, StateRows, TargetScale
from skdp.objectives import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._answers import Answers
from skdp.privacy._plan import Line, Part, Plan
from skdp.queries._state_sums import StateSums
from skdp.solvers._around import Around
from skdp.solvers._base import Solution
from skdp.solvers._budget_parts import level_of
from skdp.solvers._centred_rules import spectrum_of
from skdp.solvers._margins import (
    Moments,
    even_margins,
    shrunk_margins,
    target_scale,
)
from skdp.solvers._progress import Progress

# Where a column hardly varies, its scale is that of so much more variance.
_LEAST_VARIANCE = 1e-4
_LEAST_NORM = 1e-3


@dataclass(frozen=True, eq=False)
class States:
    """What is declared of the columns, as states; public.

    Parameters
    ----------
    parts : tuple of int
        Numbers of states, of which those of a part exclude each other.
    basis : CSR of shape (n_states, n_features)
        The features of each state.
    weights : ndarray of float64 of shape (n_features,)
        Features are multiplied by these where their norm need not be at most 1.
    """

    parts: tuple[int, ...]
    basis: csr_array
    weights: FloatArray

    @property
    def spectrum(self) -> tuple[float, ...]:
        """Shares of rows' squared norm in orthogonal directions, were columns even."""
        ends = np.cumsum(self.parts).tolist()
        weighted = csr_array(self.basis * self.weights)
        parts = (
            weighted[start:end].toarray()
            for start, end in zip([0, *ends[:-1]], ends, strict=True)
        )
        return spectrum_of(part[:, part.any(axis=0)] for part in parts)

    def rows(self, states: csr_array) -> StateRows:
        """Rows of features, of norm at most 1."""
        return StateRows(states, self.basis, self.parts)


@dataclass(frozen=True, kw_only=True)
class CentredSolution(Solution):
    """Weights of centred rows, and how rows are centred.

    `weights` are those of rows ``(x - centre) * scale / norm``, the last the
    intercept's.
    """

    centring: Centring
    targets: TargetScale | None

    def unpack(self, objective: LinearObjective) -> tuple[FloatArray, FloatArray]:
        """Weights in units of the features, and what is added to ``x @ coef``."""
        inner, intercept = super().unpack(objective)
        if self.targets is not None:
            inner = inner * self.targets.half
            intercept = self.targets.middle + self.targets.half * intercept
        coef = self.centring.weights(inner.T).T
        return coef, intercept - coef @ self.centring.centre


@dataclass(frozen=True, kw_only=True)
class Preconditioned(Around):
    """A Gaussian solver on rows that are centred and scaled first.

    Privacy
    -------
    Two parts, both Gaussian: exactly mu-GDP for their squares together. Both
    adjacencies: ``docs/proofs/preconditioning.md`` and the inner solver's page.

    Parameters
    ----------
    inner : Solver
        Of answers about gradients, on rows of norm at most 1.
    states : States
    share : float in [0, 1)
        Of mu squared, for the sums over states; 0 centres on even shares, for nothing.
    reads_columns : bool, default=True
        Whether these are sums over the states of columns; if not, they are centred on
        even shares.
    n_intervals : int, default=0
        Between knots at which targets are summed; 0 leaves targets as they are.
    power : float in [0, 1]
        Features are divided by this power of their standard deviation, over that of
        even shares.
    clip : float in (0, inf)
        Norm to which rows are clipped, over their root mean square.
    levels : pair of floats
        Noise of both parts in units of what one release for the whole budget would get.
    """

    key: ClassVar[str] = "preconditioned"

    states: States
    share: float
    reads_columns: bool = True
    n_intervals: int = 0
    power: float
    clip: float
    levels: tuple[float, float]

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        """Everything is given but the levels."""
        inner, share = given["inner"], given["share"]
        of_sums = 1 / math.sqrt(share) if share > 0 else 1.0
        level = level_of(inner, objective, budget, 1 - share)
        return cls(**given, levels=(of_sums, level))

    @property
    def params(self) -> dict[str, Any]:
        told = {
            "share": self.share,
            "reads_columns": self.share > 0 and self.reads_columns,
            "reads_targets": self.share > 0 and self.n_intervals > 0,
            "power": self.power,
            "clip": self.clip,
        }
        return {**self.inner.params, "preconditioning": told}

    def plan(self, objective: LinearObjective) -> Plan:
        fit = Part(self.inner.plan(objective), self.levels[1])
        return Plan((Line(int(self.share > 0), self.levels[0]), fit))

    def sums(self, objective: LinearObjective) -> StateSums:
        """The first query."""
        parts = self.states.parts if self.reads_columns else ()
        n = objective.n_samples
        return StateSums(sum(parts), n, len(parts), self.n_intervals)

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> CentredSolution:
        margins, targets = self._released(answers, objective)
        centring = self.centring(margins)
        view = partial(
            CentredSource, encode=self.states.rows, centring=centring, targets=targets
        )
        found = self.inner.run(answers.part(1, view), objective, progress)
        return CentredSolution(
            weights=found.weights,
            noise_scale=found.noise_scale,
            shrinkage=found.shrinkage,
            path=found.path,
            centring=centring,
            targets=targets,
        )

    def _released(
        self, answers: Answers, objective: LinearObjective
    ) -> tuple[FloatArray, TargetScale | None]:
        """Margins of the columns, and where targets lie; private outputs, or public."""
        if self.share == 0:
            return even_margins(self.states.parts), None
        asked = self.sums(objective)
        released = answers.ask(asked)
        noise = released.sigma / objective.n_samples
        shares = released.value / objective.n_samples
        margins = self._margins(shares[: asked.n_states], noise)
        if not self.n_intervals:
            return margins, None
        return margins, target_scale(shares[asked.n_states :], noise)

    def _margins(self, shares: FloatArray, noise: float) -> FloatArray:
        parts = self.states.parts
        if not self.reads_columns:
            return even_margins(parts)
        return shrunk_margins(shares, noise, parts)

    def centring(self, margins: FloatArray) -> Centring:
        """What follows from released margins; post-processing."""
        found = Moments.of(margins, self.states.basis)
        even = Moments.of(even_margins(self.states.parts), self.states.basis)
        ratio = (found.variance + _LEAST_VARIANCE * even.variance) / np.where(
            even.variance > 0, even.variance, 1.0
        )
        scale = np.maximum(ratio, _LEAST_VARIANCE) ** (-self.power / 2)
        scale *= self.states.weights
        norm = self.clip * math.sqrt(float(found.variance @ scale**2))
        return Centring(found.mean, scale, max(norm, _LEAST_NORM))
