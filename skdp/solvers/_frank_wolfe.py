r"""Frank-Wolfe over an L1 ball with a private choice of the vertex in every step.

    j_t, s_t = exponential mechanism over  -s * (gradient_j + alpha * w_j),
    w <- (1 - g_t) * w + g_t * l1_radius * s_t * e_{j_t},      g_t = 2 / (t + 2).

Nothing is released but the vertices; the weights follow from them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self

import numpy as np

from skdp._validation import check_count, check_real
from skdp.data import Source
from skdp.objectives import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._events import BoundedRangeEvent, Event
from skdp.privacy._gaussian import gaussian_mu
from skdp.privacy._noise import NoiseSource, choice_shift
from skdp.solvers._base import Progress, Solution, Solver
from skdp.solvers._configured import Checks
from skdp.solvers._thresholding import keep_rows, largest_rows
from skdp.solvers._vertex_scores import (
    ENTRY_BITS,
    SUM_BITS,
    IntegerRows,
    VertexScores,
)

# The rules below, chosen once on designs and training data of which no figure is
# reported (docs/solvers/frank_wolfe.md).
_STEPS_PER_SIGNAL, _FEWEST_STEPS, _MOST_STEPS = 1.2, 10, 500
_SIGNAL_PER_REACH, _SHORTEST, _FARTHEST = 12.0, 0.5, 10.0
_FEWEST_RESIDUAL_STEPS, _MOST_RESIDUAL_STEPS = 16, 2**12


@dataclass(frozen=True, kw_only=True)
class FrankWolfe(Solver):
    r"""Frank-Wolfe with the exponential mechanism over the vertices of an L1 ball.

    Privacy
    -------
    ``n_steps`` adaptive selections, each of bounded range, composed numerically; with
    delta = 0 they add up to pure epsilon. A vertex's score has a sensitivity of
    ``entry_bound`` times the residual's bound under zero_out and twice that under
    replace_one. Entries and residuals are integers, so that sums are exact and nothing
    is charged for rounding (``docs/proofs/frank_wolfe.md``). All vertices may be
    published. Unit of privacy: one record.

    Utility
    -------
    The noise in a step costs about ``2 * l1_radius * S * log(2 d) / (n * epsilon_t)``
    in the mean loss, the optimisation error decays like ``1 / n_steps``: a small
    ball and few steps cost accuracy, a large one and many cost noise.

    Parameters
    ----------
    n_steps : int in [1, 1e6] or None, default=None
        Number of vertices chosen, at most so many weights are not zero. None:
        ``1.2 * (n mu / log(2 d))^(2/3)``, between 10 and 500, for a budget of mu-GDP;
        the same trade-off for delta = 0.
    l1_radius : float in [1e-150, 1e150] or None, default=None
        Radius of the ball, in the units of the weights; the intercept counts as the
        weight of a column that holds `entry_bound`. None: what lets raw predictions
        reach 0.5 to 10 times the loss's `raw_unit`, the more the stronger the signal.
    residual_clip : float in [1e-6, inf] or None, default=None
        Bound to which every record's residual is clipped. None: half of the loss's
        `noisy_clip`.
    residual_steps : int in [1, 2**20] or None, default=None
        Steps into which the range of a residual is divided; residuals are rounded to
        them. Few of them make fast steps, since only the records with another rounded
        residual are touched. None: as many as the noise hides, between 16 and 4096.

    References
    ----------
    .. [1] Talwar, Thakurta and Zhang (2015). Nearly optimal private LASSO. NeurIPS,
       Algorithm 1.
    .. [2] Raff, Khanna and Lu (2023). Scaling up differentially private LASSO
       regularized logistic regression via faster Frank-Wolfe iterations. NeurIPS.
       https://arxiv.org/abs/2310.19978
    .. [3] Dong, Durfee and Rogers (2020). Optimal differential privacy composition for
       exponential mechanisms. ICML. https://arxiv.org/abs/1909.13830

    Deviations: the exponential mechanism in place of Laplace noise on every score, with
    exact composition; residuals are rounded to a public grid in place of the queue of
    [2]_; weights beyond `n_nonzero` are dropped at the end.
    """

    key: ClassVar[str] = "frank_wolfe"
    is_pure: ClassVar[bool] = True
    is_sparse: ClassVar[bool] = True
    checks: ClassVar[Checks] = {
        "n_steps": partial(check_count, high=10**6),
        "l1_radius": partial(check_real, low=1e-150, high=1e150),
        "residual_clip": partial(check_real, low=1e-6, high=math.inf),
        "residual_steps": partial(check_count, high=2**20),
    }

    n_steps: int | None = None
    l1_radius: float | None = None
    residual_clip: float | None = None
    residual_steps: int | None = None

    def refusal(self, objective: LinearObjective, budget: Budget) -> str:
        reason = super().refusal(objective, budget)
        if reason:
            return reason
        me = f"solver={self.key!r}"
        if objective.loss.n_outputs > 1:
            return (
                f"{me} chooses one weight at a time and needs a model with one output. "
                "Use solver='iht'."
            )
        resolved = self.resolve(objective, budget)
        assert resolved.residual_steps is not None, "resolve() fills in the steps"
        largest_sum = objective.n_samples * resolved.residual_steps * 2**ENTRY_BITS
        if largest_sum >= 2**SUM_BITS:
            return (
                f"{me} cannot add up so many records in whole numbers. Use "
                "fewer 'residual_steps', or solver='iht'."
            )
        if objective.n_columns >= 2**31:
            return f"{me} can have 2^31 candidates at most. Use solver='iht'."
        return ""

    def resolve(self, objective: LinearObjective, budget: Budget) -> Self:
        signal, n_steps = self._signal_and_steps(objective, budget)
        radius, clip, grid = self.l1_radius, self.residual_clip, self.residual_steps
        if radius is None:
            # Entries of a full row are so far below their bound.
            share = objective.full_entries / objective.n_features
            felt = signal * math.sqrt(min(1.0, share))
            reach = min(max(felt / _SIGNAL_PER_REACH, _SHORTEST), _FARTHEST)
            radius = reach * objective.loss.raw_unit / objective.entry_bound
        if clip is None:
            clip = objective.loss.noisy_clip / 2
        if grid is None:
            # Half a step is then a quarter of the noise in a score, or less.
            hidden = 2 ** math.ceil(math.log2(signal / math.sqrt(n_steps) + 1))
            grid = min(max(hidden, _FEWEST_RESIDUAL_STEPS), _MOST_RESIDUAL_STEPS)
        return replace(
            self,
            n_steps=n_steps,
            l1_radius=radius,
            residual_clip=clip,
            residual_steps=grid,
        )

    def _signal_and_steps(
        self, objective: LinearObjective, budget: Budget
    ) -> tuple[float, int]:
        """What the budget can tell apart, and the number of steps."""
        candidates = math.log(2 * objective.n_columns)
        records = objective.n_samples / candidates
        if objective.adjacency == "zero_out":
            records *= 2
        if budget.delta > 0:
            signal = records * gaussian_mu(budget.epsilon, budget.delta)
            wanted = _STEPS_PER_SIGNAL * signal ** (2 / 3)
        else:
            wanted = math.sqrt(_STEPS_PER_SIGNAL**1.5 / 2 * records * budget.epsilon)
        steps = math.ceil(min(max(wanted, _FEWEST_STEPS), _MOST_STEPS))
        steps = self.n_steps or steps
        if budget.delta == 0:
            # T selections that a budget of mu-GDP pays for are of 2 mu / sqrt(T) each.
            signal = records * budget.epsilon / (2 * math.sqrt(steps))
        return signal, steps

    @property
    def mechanism(self) -> str:
        return "exponential mechanism over the vertices, composed numerically"

    def event(self, noise_multiplier: float, objective: LinearObjective) -> Event:
        assert self.n_steps is not None, "resolve() fills in the number of steps"
        return BoundedRangeEvent(1 / noise_multiplier, self.n_steps)

    def sensitivity(self, objective: LinearObjective) -> float:
        """Of one score: a sum over records of a feature times a residual."""
        assert self.residual_steps is not None, "resolve() fills in the steps"
        step = self._residual_bound(objective, 1.0) / self.residual_steps
        in_steps = score_sensitivity(self.residual_steps, objective)
        return float(in_steps * step * objective.entry_bound / 2**ENTRY_BITS)

    def _residual_bound(self, objective: LinearObjective, share: float) -> float:
        """Of a clipped residual, with weights in this share of the ball."""
        assert self.l1_radius is not None, "resolve() fills in the radius"
        assert self.residual_clip is not None, "resolve() fills in the clip"
        farthest = share * objective.entry_bound * self.l1_radius
        return min(objective.loss.zero_out_bound(farthest), self.residual_clip)

    def run(
        self,
        source: Source,
        objective: LinearObjective,
        noise_multiplier: float,
        noise: NoiseSource,
        progress: Progress,
    ) -> Solution:
        assert self.n_steps is not None, "resolve() fills in the number of steps"
        assert self.l1_radius is not None, "resolve() fills in the radius"
        assert self.residual_steps is not None, "resolve() fills in the steps"
        epsilon = 1 / noise_multiplier
        per_unit = self.residual_steps / self._residual_bound(objective, 1.0)
        rows = IntegerRows.read(source, objective)
        scores = VertexScores(rows, objective, per_unit)
        # All weights are 0 at first, and residuals may be far below their bound.
        at_first = per_unit * self._residual_bound(objective, 0.0)
        most = min(max(1, round(at_first)), self.residual_steps)
        for t in range(self.n_steps):
            sensitivity = score_sensitivity(most, objective)
            scores.update(most, choice_shift(sensitivity=sensitivity, epsilon=epsilon))
            chosen, sign = noise.signed_choice(
                scores.ranking, sensitivity=sensitivity, epsilon=epsilon
            )
            share = 2 / (t + 2)
            scores.move(1 - share, chosen, share * sign * self.l1_radius)
            most = self.residual_steps
            progress.step(t + 1, self.n_steps)
        weights, d = scores.weights(), objective.n_features
        chosen_ones = np.flatnonzero(weights[:d])  # few of many
        kept = chosen_ones[largest_rows(weights[chosen_ones], objective.most_features)]
        kept = np.append(kept, np.arange(d, len(weights)))
        # The standard deviation of the Gumbel noise of which a choice is the maximum.
        gumbel = math.pi / math.sqrt(6) * 2 / epsilon
        scale = gumbel * self.sensitivity(objective)
        return Solution(keep_rows(weights, kept), scale)


def score_sensitivity(most: int, objective: LinearObjective) -> int:
    """Largest change of a score by one record, of residuals of at most `most` steps.

    Under either adjacency derived on the proof page, in steps of the score.
    """
    one_record: int = most * 2**ENTRY_BITS
    return {"zero_out": one_record, "replace_one": 2 * one_record}[objective.adjacency]
