"""Laplacian smoothing of noisy gradients, and private line search."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from skdp._arrays import FloatArray, IntArray
from skdp._checks import check_bool, check_count, check_real
from skdp._configured import Checks, Given
from skdp.exceptions import Refused, UnboundedQueryError
from skdp.losses._objective import LinearObjective
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.release._answers import Answers, Released
from skdp.privacy.release._plan import Bound, Layout, Line, Plan
from skdp.solvers._base import box_radius
from skdp.solvers._descent import FlowTime, LinearDescent, NoisySGD
from skdp.solvers._steps import AdamSteps, Steps, ranges
from skdp.sums._adder import ABOVE, BoundedSum, present_rows
from skdp.sums._exact import blocks_of, on_grid, unit_for
from skdp.sums._floating import GradientSum
from skdp.sums._gradient import ClippedGradient
from skdp.sums._grid_rows import gridded
from skdp.tables._source import Block, Source

# ----------------------------------------------------- Descent along smoothed gradients
# Algorithm: as `noisy_sgd`, with every gradient G of the features, penalty and noise
# included, replaced by the solution U of ``(I - strength L) U = G``, where L is the
# periodic second difference along the features in their order, or along the rows and
# columns of a grid of features. The intercept's gradient is unchanged. With `adam` the
# steps along U are Adam's (DP-LSAdam), with `momentum` for its first decay.


_OWN = ("strength", "adam", "beta_2")
# Settled on the validation part of a9a; in units of weights, as Adam's steps have none.
_ADAM = {"step_size": 0.1, "momentum": 0.9}


def smoothed(gradient: FloatArray, strength: float, axis: int) -> FloatArray:
    """The product of the inverse of ``I - strength L`` with a released gradient.

    L is the periodic second difference along `axis`; post-processing.
    """
    length = gradient.shape[axis]
    angles = 2 * np.pi * np.arange(length) / length
    keeps = 1 / (1 + 2 * strength * (1 - np.cos(angles)))
    shape = [1] * gradient.ndim
    shape[axis] = length
    spectrum = np.fft.fft(gradient, axis=axis) * keeps.reshape(shape)
    return np.asarray(np.fft.ifft(spectrum, axis=axis).real)


@dataclass(frozen=True, kw_only=True)
class LaplacianSmoothing(NoisySGD):
    """Noisy gradient descent on samples with smoothed gradients (DP-LSSGD).

    Kept for study. Smoothing helps a run with too much noise where neighbouring
    features should have similar weights, such as pixels; it is a smaller step in rough
    directions, on average ``1 / sqrt(1 + 4 strength)`` of it. Where columns have no
    order it mixes what does not belong together: on a9a at epsilon 0.2 the log-loss is
    0.3414, and 0.3320 without it. It refuses ``delta=0``.

    Parameters
    ----------
    strength : float in [0, 1e6], default=1.0
        sigma of [1]_; 0 is `noisy_sgd`.
    n_across : int in [1, 1e9] or None, default=None
        Features lie in rows of so many, as pixels do, and are smoothed along rows and
        columns, taken as rings. It must divide their number. None: along all features.
    adam : bool, default=False
        Whether steps are divided by the roots of smoothed gradients' squares
        (DP-LSAdam).
    beta_2 : float in [0, 1), default=0.999
        Decay of these squares.
    n_steps, batch_size, step_size, momentum, residual_clip, intercept_weight, tail
        As for `noisy_sgd`; with `adam` a step size of 0.1 and momentum 0.9.
    keeps_path : bool, default=False
        Whether all iterates are kept.

    Notes
    -----
    Released is what `noisy_sgd` releases, at the same cost for every strength: an
    invertible public map of a release leaves its privacy as it is. Unit of privacy: one
    record. Proof: ``docs/proofs/papers.md``, Theorem 5. The intercept is not smoothed.

    References
    ----------
    .. [1] Wang (2021). Towards efficient and effective privacy-preserving machine
       learning. PhD thesis, UCLA. (chapter 5, Algorithm 5)
    .. [2] Osher, Wang, Yin, Luo, Barekat, Pham and Lin (2022). Laplacian smoothing
       gradient descent. Research in the Mathematical Sciences 9(55).
       https://arxiv.org/abs/1806.06317
    """

    key: ClassVar[str] = "laplacian_smoothing"
    checks: ClassVar[Checks] = {
        **NoisySGD.checks,
        "strength": partial(check_real, low=0.0, high=1e6),
        "n_across": partial(check_count, high=10**9),
        "adam": check_bool,
        "beta_2": partial(check_real, low=0.0, high=1.0, high_open=True),
    }

    strength: float = 1.0
    adam: bool = False
    beta_2: float = 0.999
    n_across: int

    @classmethod
    def by_rule(
        cls, given: Given, objective: LinearObjective, budget: Budget
    ) -> dict[str, Any]:
        d = objective.n_features
        own: dict[str, Any] = {"n_across": given.get("n_across", d)}
        if d % own["n_across"]:
            raise Refused(
                f"solver={cls.key!r} needs an 'n_across' that divides the number of "
                f"features, {d}. Got {own['n_across']}. Use None for one row of all."
            )
        own |= {name: given[name] for name in _OWN if name in given}
        rest = {name: value for name, value in given.items() if name not in own}
        if own.get("adam", cls.adam):
            rest = _ADAM | rest
        return super().by_rule(rest, objective, budget) | own

    def smoothed(self, gradient: FloatArray, objective: LinearObjective) -> FloatArray:
        """A released gradient, smoothed along the grid of features; post-processing."""
        if self.strength == 0:
            return gradient
        d, k = objective.n_features, gradient.shape[1]
        own = gradient[:d].reshape(d // self.n_across, self.n_across, k)
        for axis in (0, 1):
            own = smoothed(own, self.strength, axis)
        return np.concatenate([own.reshape(d, k), gradient[d:]])

    def steps(self, objective: LinearObjective, start: FloatArray) -> Steps:
        if not self.adam:
            return super().steps(objective, start)
        return AdamSteps(
            start,
            self.sizes(objective),
            objective.alpha,
            box_radius(objective),
            self.tail,
            self.keeps_path,
            betas=(self.momentum, self.beta_2),
        )

    def means(
        self, answers: Answers, objective: LinearObjective, steps: Steps
    ) -> Iterator[FloatArray]:
        for mean in super().means(answers, objective, steps):
            public = objective.alpha * steps.weights
            # Steps add the penalty's gradient, which must be smoothed as well.
            yield self.smoothed(mean + public, objective) - public


# ------------------------------------------- Loss reduction by steps of several lengths
# The steps are in one released direction. Every record's part is clipped in proportion
# to the length and rounded to whole units, so that sums are exact in any order.
# Sensitivities are derived in ``docs/proofs/papers.md``.


@dataclass(frozen=True)
class Trial:
    """Queries about losses at released weights of one objective."""

    objective: LinearObjective

    def products(
        self, source: Source, coef: FloatArray, rows: IntArray | None
    ) -> Iterator[tuple[FloatArray, Block]]:
        """Clipped rows times weights, by blocks; both are on grids, so in any order."""
        objective, weights = self.objective, on_grid(coef)
        if math.isinf(objective.data_norm):  # unbounded rows have no grid
            yield from GradientSum(source, objective).products(coef, rows)
            return
        for block in blocks_of(source, rows):
            X = gridded(block.X, objective.data_norm, objective.entry_bound)
            yield X.in_double().raw(weights), block

    def unit(self, clip: float) -> float:
        """Unit of the sums of numbers up to `clip`, exact in double precision."""
        return 2.0 ** math.ceil(math.log2(clip)) * unit_for(self.objective.n_samples)


@dataclass(frozen=True, eq=False)
class StepGains(BoundedSum):
    """Sums of the losses at released weights minus the losses after steps.

    Parameters
    ----------
    trial : Trial
    weights, direction : ndarray of float64 of shape (n_columns, n_outputs)
        Released; the last row has the intercepts, if there are any.
    lengths : ndarray of float64 of shape (n_lengths,)
        Above 0; public.
    clip : float in (0, inf)
        A record's gain by a step is clipped to this multiple of the step's length.
    """

    trial: Trial
    weights: FloatArray
    direction: FloatArray
    lengths: FloatArray
    clip: float

    @property
    def norm(self) -> float:
        """Largest norm of a record's gains together."""
        return self.clip * float(np.linalg.norm(self.lengths)) * ABOVE

    @property
    def _largest(self) -> float:
        return self.clip * float(np.max(self.lengths))

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.lengths),)

    @property
    def family(self) -> Hashable:
        return self.trial

    @property
    def unit(self) -> float:
        return self.trial.unit(self._largest)

    def row_bound(self) -> Bound:
        return Bound(zero_out=self.norm, replace_one=2 * self.norm)

    def slack(self, layout: Layout) -> float:
        """As of every bounded sum.

        Raises
        ------
        UnboundedQueryError
            For samples: the rounding of losses in a block with other rows has no bound.
        """
        if layout.moved_rows > 1:
            raise UnboundedQueryError(
                "What weights are worth must be asked of all records. Got a line of "
                "samples. Declare one of all records."
            )
        return super().slack(layout)

    def pieces(self, reader: Source, rows: IntArray | None) -> Iterator[Block]:
        """Blocks of raw predictions at the weights, and of their changes."""
        d = self.trial.objective.n_features
        both = np.hstack([self.weights, self.direction])
        constant = both[d:].sum(axis=0)  # no row without an intercept
        for products, block in self.trial.products(reader, both[:d], rows):
            yield present_rows(replace(block, X=products + constant))

    def added(self, block: Block) -> FloatArray:
        k = self.weights.shape[1]
        return self._gains(block.X[:, :k], block.X[:, k:], block.y)

    def _gains(self, raw: FloatArray, way: FloatArray, y: FloatArray) -> FloatArray:
        """Gain of each record by each step, clipped."""
        value = self.trial.objective.loss.value
        left = [value(y, raw - length * way) for length in self.lengths]
        limits = self.clip * self.lengths
        gains = np.nan_to_num(value(y, raw)[:, None] - np.stack(left, 1))
        return np.asarray(np.clip(gains, -limits, limits))


# -------------------------------------- Noisy gradient descent with a noisy line search
# Algorithm: with g_t the gradient sum at the released weights W_t over all records,
#
#     E_t = the mean of (g_s + N_s) / n + alpha W_t over all s since weights last
#     moved,
#     U_t = E_t / |E_t|,
#     S_t = (sum over records of clip(loss(W_t) - loss(W_t - l_k U_t)))_k + N'_t,
#     k* = the k of the largest S_t,k / n - penalty's increase,
#
# W_{t+1} = W_t - l_k* U_t if that is above 0, and W_t otherwise. The lengths l_k are
# public: ``longest_step`` divided by 1, 2, 4, ... The release is the mean of the last
# ``tail`` share of the iterates.


_GRADIENTS, _GAINS = range(2)  # lines of the plan
# Settled on the validation part of a9a.
_STEPS, _LONGEST = 50, 4.0


@dataclass(frozen=True, kw_only=True)
class LineSearchGD(LinearDescent):
    """Noisy gradient descent with a noisy line search (DP-AGD, with a fixed budget).

    Kept for study: no step size has to be known, but every step reads the table twice
    and pays for two answers, and `noisy_gd` was better wherever both ran (a9a, epsilon
    0.2: log-loss 0.3443, and 0.3325 tuned there). Any loss with bounded residuals,
    convex or not. It refuses ``delta=0``.

    Parameters
    ----------
    n_steps : int in [1, 1e6] or None, default=None
        Number of steps; all are paid for, also those that do not move. None: 50.
    longest_step : float in [1e-250, 1e250] or None, default=None
        Length of the longest step, in weights. None: 4 over `data_norm`.
    n_lengths : int in [1, 64], default=5
        Lengths that are tried, each half of the one before.
    search_share : float in (0, 1), default=0.2
        Budget fraction of mu^2 for all line searches.
    gain_clip : float in [1e-6, inf) or None, default=None
        A record's gain is clipped to so many times a step's length. None: half of what
        loss and rows allow; with less than a third of it the clip decides.
    residual_clip : float in [1e-6, inf] or None, default=None
        Norm to which every record's residual is clipped. None: as for `noisy_gd`.
    tail : float in [1e-9, 1], default=0.5
        Share of the last iterates that is averaged.

    Notes
    -----
    Released are ``2 n_steps`` adaptive Gaussian answers: mu-GDP. If no length improves,
    no step is taken, and the gradient is averaged with the next; [1]_ spends more of
    its budget there, so that its number of steps follows from the data. All iterates
    may be published. Unit of privacy: one record. Proof: ``docs/proofs/papers.md``,
    Theorem 6.

    References
    ----------
    .. [1] Lee and Kifer (2018). Concentrated differentially private gradient descent
       with adaptive per-iteration privacy budget. KDD. https://arxiv.org/abs/1808.09501
    """

    key: ClassVar[str] = "line_search_gd"
    takes_nonconvex: ClassVar[bool] = True
    checks: ClassVar[Checks] = {
        **ranges("n_steps", "residual_clip", "tail"),
        "longest_step": partial(check_real, low=1e-250, high=1e250),
        "n_lengths": partial(check_count, high=64),
        "search_share": partial(check_real, low=1e-9, high=1.0, high_open=True),
        "gain_clip": partial(check_real, low=1e-6, high=math.inf, high_open=True),
    }

    n_steps: int
    longest_step: float
    n_lengths: int = 5
    search_share: float = 0.2
    gain_clip: float
    residual_clip: float
    tail: float = 0.5

    @classmethod
    def by_rule(
        cls, given: Given, objective: LinearObjective, budget: Budget
    ) -> dict[str, Any]:
        rule = FlowTime.of(objective, budget)
        clip, _ = rule.clip_and_weight(given.get("residual_clip"), 1.0)
        norm = objective.data_norm if math.isfinite(objective.data_norm) else 1.0
        rows = math.hypot(norm, 1.0 if objective.fit_intercept else 0.0)
        slope = min(clip, objective.loss.zero_out_bound(math.inf))
        found: dict[str, Any] = {
            "n_steps": _STEPS,
            "longest_step": _LONGEST / norm,
            "residual_clip": clip,
            "gain_clip": max(1e-6, slope * rows / 2),
        }
        return {**found, **given}

    @property
    def lengths(self) -> FloatArray:
        """The candidate lengths; public."""
        return np.asarray(self.longest_step * 0.5 ** np.arange(self.n_lengths))

    def plan(self, objective: LinearObjective) -> Plan:
        n = self.n_steps
        return Plan(
            (
                Line(n, mu_share=(1 - self.search_share) / n),
                Line(n, mu_share=self.search_share / n),
            )
        )

    def sensitivity(self, objective: LinearObjective) -> float:
        """Sensitivity of a gradient sum, or of the gains of one search."""
        zero = np.zeros(objective.shape)
        bounds = (
            self.gradients(objective).worst,
            self._gains(objective, zero, zero).bound(),
        )
        return max(bound.under(objective.adjacency) for bound in bounds)

    def gradients(self, objective: LinearObjective) -> ClippedGradient:
        return ClippedGradient(objective, self.residual_clip)

    def _gains(
        self, objective: LinearObjective, weights: FloatArray, direction: FloatArray
    ) -> StepGains:
        return StepGains(
            Trial(objective), weights, direction, self.lengths, self.gain_clip
        )

    def steps(self, objective: LinearObjective, start: FloatArray) -> Steps:
        """Steps along `means`, which have their lengths and the penalty in them."""
        sizes = np.ones(self.n_steps)
        return Steps(start, sizes, 0.0, box_radius(objective), self.tail)

    def means(
        self, answers: Answers, objective: LinearObjective, steps: Steps
    ) -> Iterator[FloatArray]:
        sums = self.gradients(objective)
        heard, times = np.zeros(objective.shape), 0
        for _ in range(self.n_steps):
            weights = steps.weights
            query = sums.at(weights)
            heard = heard + query.read(answers.ask(query, _GRADIENTS).value)
            times += 1
            mean = heard / (times * objective.n_samples) + objective.alpha * weights
            norm = float(np.linalg.norm(mean))
            direction = mean / norm if norm > 0 else mean
            gains = answers.ask(self._gains(objective, weights, direction), _GAINS)
            length = self._best(gains, objective, weights, direction)
            if length > 0:
                heard, times = np.zeros(objective.shape), 0
            yield length * direction

    def _best(
        self,
        gains: Released,
        objective: LinearObjective,
        weights: FloatArray,
        direction: FloatArray,
    ) -> float:
        """The length with the largest gain of the objective; 0 if all are losses."""
        along = float(np.sum(weights * direction))
        size = float(np.sum(direction * direction))
        lost = objective.alpha * (self.lengths**2 * size / 2 - self.lengths * along)
        worth = gains.value / objective.n_samples - lost
        best = int(np.argmax(worth))
        return float(self.lengths[best]) if worth[best] > 0 else 0.0
