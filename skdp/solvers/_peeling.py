r"""Features selected privately, a few at a time, and noise on their values only.

Algorithm: with A the features chosen so far, none at first, and W the weights,

1. the intercept's gradient is released;
2. in each of ``n_rounds`` rounds the features outside A whose rows of the gradient sum
   are largest are selected (one-shot Gumbel noise) and join A, fewer in every round;
3. then the gradients of A and of the intercept are released, with noise for these few
   numbers, and W takes a step;
4. the steps that are left only do that.

Residuals are clipped more and more from step to step. What is released at the end of a
step also says how long that step should have been: W is moved back, or on, along it to
where the derivative along the line vanishes. That is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from skdp._floats import FloatArray
from skdp._validation import check_count, check_real
from skdp.data import Block, ColumnsOf, Source
from skdp.losses import SquaredLoss
from skdp.objectives import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._events import (
    BoundedRangeEvent,
    ComposedEvent,
    Event,
    GaussianEvent,
    PureEvent,
)
from skdp.privacy._laws import NoiseLaw
from skdp.privacy._noise import NoiseSource
from skdp.queries._gradient_sum import GradientSum, RowClip, rounding_slack
from skdp.solvers._base import Progress, Solution
from skdp.solvers._boxed import boxed, farthest_weight
from skdp.solvers._chosen_law import ChosenLaw
from skdp.solvers._configured import Checks
from skdp.solvers._feature_selection import FeatureSelection, prediction_bound

# Chosen once on synthetic designs (docs/solvers/peeling.md) and flat around there.
_ROUNDS, _VALUE_STEPS = 6, 3
# Residuals' clip in units of the loss's noisy one, its decay, its least share.
_FIRST_CLIP, _CLIP_DECAY, _LEAST_CLIP = 1.6, 0.75, 0.1
# A score needs little more of a residual than its sign.
_SCORE_CLIP = 1 / 3
# Constant in the intercept's column of a query, in units of the chosen rows' norm.
_INTERCEPT_SHARE = 0.3
# Of rows that are not dense, steps are as long as if a loss were bent so much at least:
# along those that the logistic loss's own bound of 1/4 allows, predictions run away.
_LEAST_BEND = 1.0
# Most that a step is lengthened by what was released at its end.
_LONGEST = 2.0


@dataclass(frozen=True, kw_only=True)
class Peeling(ChosenLaw):
    r"""Private selection of features in rounds, with noise on the chosen values only.

    Privacy
    -------
    ``n_steps`` Gaussian releases of a few numbers, each with noise ``noise_multiplier``
    times its sensitivity, and ``n_nonzero`` selections, each of bounded range, composed
    numerically; for delta = 0 spherical noise and pure selections, added up. All
    iterates and the order of the rounds may be published. Sensitivities under both
    adjacencies: ``docs/proofs/peeling.md``. Unit of privacy: one record.

    Utility
    -------
    A feature is selected if its gradient stands out by about
    ``B sqrt(s / share) log(d) / mu``, with B the largest entry of a row times the
    residual; noise in all values would be ``||x|| / B`` times as much as in one. The
    values' noise goes with the norm of the chosen part of a row, not of the row.

    Parameters
    ----------
    n_steps : int in [1, 1e6] or None, default=None
        Number of releases of values. Public. None: one for the intercept, one for each
        round, and 3.
    n_rounds : int in [1, 1e6] or None, default=None
        Number of rounds in which features are selected, at most `n_steps`. None: 6, or
        fewer for few features or steps.
    selection_share : float in [1e-3, 0.999], default=0.6
        Share of the budget (of mu^2, of epsilon if delta is 0) for selections.
    step_size : float in [1e-250, 1e250] or None, default=None
        In units of weights per gradient of the mean loss. None: the inverse curvature
        of a feature if all are alike, ``d / (smoothness * data_norm^2)``, or less where
        rows can be concentrated on few of them; then as if smoothness were 1 at least.
        The intercept's step is at most
        ``1 / (smoothness * data_norm^2)``.
    residual_clip : float in [1e-6, inf] or None, default=None
        Norm to which residuals are clipped in the first values; in scores to a third.
        None: 1.6 times the loss's `noisy_clip`, at most the bound at zero weights.
    clip_decay : float in [1e-3, 1] or None, default=None
        Factor on the clip from step to step, down to a tenth in all. None: 0.75 for the
        squared loss, 1 for others, whose residuals do not all become small.
    score_clip : float in [1e-6, 1], default=0.5
        Magnitude to which entries are clipped in scores, in units of the largest entry.
    shortening : float in [1e-6, inf], default=1.15
        Norm to which the chosen part of a row is shortened in the values' sums, in
        units of the norm it has if all features are alike.
    law : {"gaussian", "spherical"} or None, default=None
        Of the values' noise. None: spherical if delta is 0, Gaussian otherwise.
        "spherical" is refused for several steps beside a delta above 0.

    References
    ----------
    .. [1] Cai, Wang and Zhang (2021). The cost of privacy: optimal rates of convergence
       for parameter estimation with differential privacy. Annals of Statistics 49(5).
       https://arxiv.org/abs/1902.04495 (noisy iterative hard thresholding with peeling)
    .. [2] Durfee and Rogers (2019). Practical differentially private top-k selection
       with pay-what-you-get composition. NeurIPS. https://arxiv.org/abs/1905.04273
    .. [3] Dong, Durfee and Rogers (2020). Optimal differential privacy composition for
       exponential mechanisms. ICML. https://arxiv.org/abs/1909.13830

    Deviations: what has been selected is kept, so that s selections are paid for and
    not s in every step; Gumbel noise once for all of a round in place of Laplace noise
    for each; selections are charged as of bounded range; residuals are clipped.
    """

    key: ClassVar[str] = "peeling"
    is_sparse: ClassVar[bool] = True
    checks: ClassVar[Checks] = {
        **ChosenLaw.checks,
        "n_steps": partial(check_count, high=10**6),
        "n_rounds": partial(check_count, high=10**6),
        "selection_share": partial(check_real, low=1e-3, high=0.999),
        "step_size": partial(check_real, low=1e-250, high=1e250),
        "residual_clip": partial(check_real, low=1e-6, high=math.inf),
        "clip_decay": partial(check_real, low=1e-3, high=1.0),
        "score_clip": partial(check_real, low=1e-6, high=1.0),
        "shortening": partial(check_real, low=1e-6, high=math.inf),
    }

    n_steps: int | None = None
    n_rounds: int | None = None
    selection_share: float = 0.6
    step_size: float | None = None
    residual_clip: float | None = None
    clip_decay: float | None = None
    score_clip: float = 0.5
    shortening: float = 1.15

    @property
    def is_gaussian(self) -> bool:
        return False

    def refusal(self, objective: LinearObjective, budget: Budget) -> str:
        reason = super().refusal(objective, budget)
        if reason:
            return reason
        solver = self.resolve(objective, budget)
        assert solver.n_rounds is not None, "resolve() fills in the rounds"
        assert solver.n_steps is not None, "resolve() fills in the steps"
        if solver.n_rounds > min(solver.n_steps, objective.most_features):
            return (
                f"solver={self.key!r} selects features in every round and releases "
                f"their values after it. Got n_rounds={solver.n_rounds} with "
                f"n_steps={solver.n_steps} and {objective.n_nonzero} features to select. "
                "Use n_rounds=None."
            )
        size = objective.loss.n_outputs * (
            objective.most_features + objective.fit_intercept
        )
        multiple = solver.n_steps / (1 - solver.selection_share)
        return self.noise_refusal(budget, size, multiple)

    def resolve(self, objective: LinearObjective, budget: Budget) -> Self:
        n_rounds, n_steps = self.n_rounds, self.n_steps
        if n_rounds is None:
            n_rounds = min(_ROUNDS, objective.most_features, n_steps or _ROUNDS)
        if n_steps is None:
            n_steps = n_rounds + objective.fit_intercept + _VALUE_STEPS
        step_size = self.step_size
        if step_size is None:
            alike = 2 * math.sqrt(objective.n_features * objective.full_entries)
            bend = objective.loss.smoothness
            if not objective.has_dense_rows:
                bend = max(bend, _LEAST_BEND)
            curvature = bend * objective.data_norm**2 + objective.alpha
            step_size = min(alike, objective.n_features) / curvature
        clip = self.residual_clip
        if clip is None:
            clip = min(
                objective.loss.zero_out_bound(0.0),
                _FIRST_CLIP * objective.loss.noisy_clip,
            )
        decay = self.clip_decay
        if decay is None:
            decay = _CLIP_DECAY if isinstance(objective.loss, SquaredLoss) else 1.0
        return replace(
            self,
            law=self.law_for(budget),
            n_rounds=n_rounds,
            n_steps=n_steps,
            step_size=step_size,
            residual_clip=clip,
            clip_decay=decay,
        )

    @property
    def mechanism(self) -> str:
        return (
            f"Gumbel selection of features and {self.noise_law.name} noise on their "
            "values, composed numerically"
        )

    def selections(self, objective: LinearObjective) -> int:
        """How many features are selected privately: none if all are."""
        return (
            objective.most_features
            if objective.most_features < objective.n_features
            else 0
        )

    def selection_epsilon(
        self, noise_multiplier: float, objective: LinearObjective
    ) -> float:
        """Bounded range of every selection."""
        assert self.n_steps is not None, "resolve() fills in the steps"
        odds = self.selection_share / (1 - self.selection_share)
        odds *= self.n_steps / self.selections(objective)
        if self.is_spherical:
            return odds / noise_multiplier
        # A selection's mu is about half its range.
        return 2 * math.sqrt(odds) / noise_multiplier

    @property
    def is_spherical(self) -> bool:
        """Whether the values' noise is pure."""
        return self.law == "spherical"

    def event(self, noise_multiplier: float, objective: LinearObjective) -> Event:
        assert self.n_steps is not None, "resolve() fills in the steps"
        values: Event = GaussianEvent(noise_multiplier, self.n_steps)
        if self.is_spherical:
            values = PureEvent(1 / noise_multiplier, self.n_steps)
        if not self.selections(objective):
            return values
        epsilon = self.selection_epsilon(noise_multiplier, objective)
        chosen = BoundedRangeEvent(epsilon, self.selections(objective))
        return ComposedEvent((values, chosen))

    def sensitivity(self, objective: LinearObjective) -> float:
        """Of the values of all features that will be chosen, but for rounding."""
        assert self.residual_clip is not None, "resolve() fills in the clip"
        query = _ValueQuery.of(self, objective, objective.most_features)
        return query.sensitivity(self.residual_clip)

    def clip(self, step: int) -> float:
        """Norm to which residuals are clipped in a step's values."""
        assert self.residual_clip is not None, "resolve() fills in the clip"
        assert self.clip_decay is not None, "resolve() fills in its decay"
        return self.residual_clip * max(_LEAST_CLIP, self.clip_decay**step)

    def rounds(self, objective: LinearObjective) -> dict[int, int]:
        """How many features each step selects; steps that select none are left out.

        Every round selects at least one and the first ones the most, in arithmetic
        progression. The very first step is the intercept's, if steps are left for it.
        """
        assert self.n_rounds is not None, "resolve() fills in the rounds"
        assert self.n_steps is not None, "resolve() fills in the steps"
        more, n = self.selections(objective) - self.n_rounds, self.n_rounds
        if more < 0:
            return {}
        first = int(objective.fit_intercept and self.n_steps > n)
        ends = [more * t * (2 * n + 1 - t) // (n * (n + 1)) for t in range(n + 1)]
        return {first + t: 1 + ends[t + 1] - ends[t] for t in range(n)}

    def run(
        self,
        source: Source,
        objective: LinearObjective,
        noise_multiplier: float,
        noise: NoiseSource,
        progress: Progress,
    ) -> Solution:
        assert self.n_steps is not None, "resolve() fills in the steps"
        d, rounds = objective.n_features, self.rounds(objective)
        chosen = np.arange(0 if rounds else d)
        walk, scale = _Walk(self, objective), 0.0
        for t in range(self.n_steps):
            if t in rounds:
                select = FeatureSelection(
                    source,
                    objective,
                    noise,
                    residual_clip=_SCORE_CLIP * self.clip(t),
                    entry_clip=self.score_clip * objective.entry_bound,
                )
                more = select(
                    walk.weights,
                    rounds[t],
                    epsilon=self.selection_epsilon(noise_multiplier, objective),
                    among=np.delete(np.arange(d), chosen),
                )
                chosen = np.union1d(chosen, more)
            values = _Values(self, source, objective, chosen, self.clip(t))
            released, sigma = values.release(
                walk.weights, noise, self.noise_law, noise_multiplier
            )
            walk.step(released / objective.n_samples)
            scale = max(scale, sigma)
            progress.step(t + 1, self.n_steps)
        return Solution(walk.weights, scale)


@dataclass(frozen=True)
class _ValueQuery:
    """Public facts of the gradients of some chosen features and the intercept.

    Parameters
    ----------
    objective : LinearObjective
        Of the chosen columns alone.
    row_norm : float
        Norm to which the chosen part of a row is shortened.
    constant : float
        What the intercept's row of the query is counted with.
    """

    objective: LinearObjective
    row_norm: float
    constant: float

    @classmethod
    def of(cls, solver: Peeling, objective: LinearObjective, count: int) -> _ValueQuery:
        """For `count` chosen features; without one, of the intercept alone."""
        columns = max(1, count)
        norm = min(objective.data_norm, math.sqrt(columns) * objective.entry_bound)
        alike = objective.data_norm * math.sqrt(columns / objective.n_features)
        shortened = min(norm, solver.shortening * alike)
        part = replace(objective, n_features=columns, n_nonzero=columns, data_norm=norm)
        constant = _INTERCEPT_SHARE * shortened if objective.fit_intercept else 0.0
        return cls(part, shortened if count else 0.0, constant)

    def sensitivity(self, residual_clip: float, prediction: float = math.inf) -> float:
        """L2 sensitivity, but for rounding; Lemma 3 of the proof page."""
        one_record = min(self.objective.loss.zero_out_bound(prediction), residual_clip)
        two_records = 2 * one_record
        adjacency = self.objective.adjacency
        residual = {"zero_out": one_record, "replace_one": two_records}[adjacency]
        return math.hypot(self.row_norm, self.constant) * residual * (1 + 1e-12)


class _ShortenedSum(GradientSum):
    """Sums of gradients of shortened rows, with predictions of the rows as they are."""

    def __init__(
        self,
        source: Source,
        query: _ValueQuery,
        residual_clip: float,
    ) -> None:
        super().__init__(source, query.objective, residual_clip)
        self._row_norm = query.row_norm
        self._is_short = 0 < query.row_norm < query.objective.data_norm
        self._is_compiled = self._is_compiled and not self._is_short

    def _add_gradients(
        self, total: FloatArray, X: Any, clip: RowClip, raw: FloatArray, block: Block
    ) -> None:
        if self._is_short:
            clip = RowClip.of(X, self._row_norm)
        super()._add_gradients(total, X, clip, raw, block)


class _Values:
    """Releases the gradients of chosen features and of the intercept.

    Parameters
    ----------
    solver : Peeling
        Resolved.
    source : Source
        Private.
    objective : LinearObjective
    chosen : ndarray of int64
        Released, in rising order.
    residual_clip : float in (0, inf]
    """

    def __init__(
        self,
        solver: Peeling,
        source: Source,
        objective: LinearObjective,
        chosen: NDArray[np.int64],
        residual_clip: float,
    ) -> None:
        self._whole, self._clip = objective, residual_clip
        self._query = _ValueQuery.of(solver, objective, len(chosen))
        # A source has a column; without a chosen one its gradient is left out.
        columns = chosen if len(chosen) else np.arange(1)
        self._asked = np.append(
            columns, np.arange(objective.n_features, objective.n_columns)
        )
        self._is_asked = np.arange(len(self._asked)) >= (len(columns) - len(chosen))
        self._largest_block = source.largest_block
        self._sum = _ShortenedSum(
            ColumnsOf(source, columns), self._query, residual_clip
        )

    def release(
        self,
        weights: FloatArray,
        noise: NoiseSource,
        law: NoiseLaw,
        noise_multiplier: float,
    ) -> tuple[FloatArray, float]:
        """Noisy gradient sum, 0 where not asked, and the noise's standard deviation.

        `weights` are released and 0 but for the chosen features and the intercept.
        """
        part = self._query.objective
        # The constants of the intercept's column: of all rows, of the part, counted.
        unit = np.ones((len(self._asked), 1))
        counted = np.ones((len(self._asked), 1))
        if part.fit_intercept:
            unit[-1] = self._whole.intercept_value / part.intercept_value
            counted[-1] = self._query.constant / part.intercept_value
        inside = weights[self._asked] * unit
        sensitivity = self._query.sensitivity(
            self._clip, prediction_bound(part, inside)
        )
        sensitivity += rounding_slack(
            part, self._largest_block, float(np.linalg.norm(inside))
        )
        query = (counted * self._sum(inside))[self._is_asked]
        sigma = law.scale(sensitivity, noise_multiplier, query.size).sigma
        noisy = law.release(noise, query, sensitivity, noise_multiplier)
        released = np.zeros_like(weights)
        released[self._asked[self._is_asked]] = noisy * (unit / counted)[self._is_asked]
        return released, sigma * law.deviation(1.0, query.size)


class _Walk:
    """Weights that descend along released gradients; post-processing of them.

    Parameters
    ----------
    solver : Peeling
        Resolved.
    objective : LinearObjective
    """

    def __init__(self, solver: Peeling, objective: LinearObjective) -> None:
        assert solver.step_size is not None, "resolve() fills in the step size"
        self._alpha, self._farthest = objective.alpha, farthest_weight(objective)
        self._steps = np.full((objective.n_columns, 1), solver.step_size)
        if objective.fit_intercept:
            bend = objective.loss.smoothness * objective.data_norm**2 + objective.alpha
            self._steps[-1] = min(solver.step_size, 1 / bend)
        self.weights: FloatArray = np.zeros(
            (objective.n_columns, objective.loss.n_outputs)
        )
        self._move = np.zeros_like(self.weights)
        self._before = np.zeros_like(self.weights)

    def step(self, mean: FloatArray) -> None:
        """One step along a released gradient of the mean loss at `weights`.

        The last move is first brought to where the derivative along it vanishes, if it
        is linear between the gradients at the move's two ends.
        """
        gradient = mean + self._alpha * self.weights
        start = float(np.sum(self._before * self._move))
        end = float(np.sum(gradient * self._move))
        if start < end:
            length = min(max(start / (start - end), 0.0), _LONGEST)
            self.weights = self.weights + (length - 1) * self._move
            # Of a row that was not asked for before, the change is not known.
            known = self._before != 0
            change = np.where(known, gradient - self._before, 0.0)
            gradient = gradient + (length - 1) * change
        weights = boxed(self.weights - self._steps * gradient, self._farthest)
        self._move = weights - self.weights
        self._before, self.weights = gradient, weights
