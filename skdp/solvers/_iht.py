r"""Iterative hard thresholding along noisy gradients.

Algorithm: with ``g_t`` the clipped gradient sum of the features at weights ``w_t`` and
intercept ``b_t``, starting from zero,

    V_{t+1} = M_t - step_size * ((g_t + N_t) / n + alpha * w_t)
    w_{t+1} = H(V_{t+1})
    b_{t+1} = b_t - (h_t + N'_t) / (n * curvature)

where H keeps the `n_nonzero` rows of largest norm as far as they stand out from the
noise in them, ``M_t`` is ``V_t`` (features that do not stand out yet keep what their
gradients have added up to) or ``w_t`` (they start again, as in the paper), and ``h_t``
is the intercept's gradient sum at ``w_{t+1}, b_t``. Where a released gradient says that
the step before went too far, a part of it is taken back (`_Descent._retreat`).
Notation: s = n_nonzero, eta = step_size, T = n_steps, G = data_norm * residual_clip.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

import numpy as np

from skdp._configured import Checks, Given
from skdp._floats import FloatArray
from skdp._validation import check_bool, check_count, check_real
from skdp.objectives._linear import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._answers import Answers
from skdp.privacy._gaussian import gaussian_mu
from skdp.privacy._plan import Line, Plan
from skdp.queries._split_gradient import SplitGradients, split_bound
from skdp.solvers._base import Solution, Solver
from skdp.solvers._boxed import boxed, farthest_weight
from skdp.solvers._progress import Progress
from skdp.solvers._thresholding import keep_rows, largest_rows

# Chosen once, on training parts of text collections and on synthetic rows
# (docs/solvers/iht.md); all are flat around these values.
#
# Deviation of the noise in the raw prediction of a row as long as data_norm at which
# the default stops, in the loss's units of raw predictions.
_PREDICTION_NOISE = 0.7
# Share of the worst residual to which residuals are clipped, and the most in units of
# the loss's own `noisy_clip`, which is for runs of many more steps.
_CLIPPED_SHARE, _CLIPPED_MORE = 0.35, 1.5
# Steps are as long as if no direction had more of the rows' squares than one part in
# so many; `_Descent._retreat` is for data that have one.
_DIRECTIONS = 100
_FEWEST_STEPS = 2
_MOST_STEPS = {True: 16, False: 4}  # with and without `accumulate`
# Queries for the intercept before the first step.
_FIRST_QUERIES = 2
# A step is taken back to this share of its length at least.
_LEAST_SHARE = 0.1
# Far from overflow, like the box of the weights.
_LARGEST_PRODUCT = 1e200


@dataclass(frozen=True, kw_only=True)
class IHT(Solver):
    r"""Iterative hard thresholding with Gaussian noise (the paper's DP-IGHT).

    Privacy
    -------
    ``n_steps`` adaptive Gaussian releases of the features' gradient sum with noise
    ``noise_multiplier`` times its sensitivity, and ``n_steps + 2`` of the intercept's
    with more: exactly mu-GDP with
    ``mu^2 = n_steps / noise_multiplier^2 / (1 - intercept_share)``. Thresholds,
    supports and steps are computed from what was released. Sensitivities under both
    adjacencies are derived in ``docs/proofs/iht.md``. Unit of privacy: one record,
    or all rows of a user (``docs/proofs/users.md``).

    Utility
    -------
    Without noise, thresholding and limits on steps this is gradient descent. With it,
    a feature counts as soon as the sum of its gradients exceeds ``threshold``
    deviations of the noise in that sum, ``step_size * sqrt(n_steps) * S z / n`` after
    all steps: how many steps share the way does not matter. Of features without any
    signal a share of about ``2 Phi(-threshold)`` passes, until there are s.

    Parameters
    ----------
    n_steps : int in [1, 1e6] or None, default=None
        Number of gradients, all of them taken. Public. None: as many as the distance
        that the noise admits has steps, between 2 and 16 (4 for dense rows).
    step_size : float in [1e-250, 1e250] or None, default=None
        In units of weights per gradient of the mean loss. None: the distance divided
        by the steps, at most ``D / (smoothness * data_norm^2)``, with D = 100, or
        n_features if that is less or rows are dense.
    residual_clip : float in [1e-6, inf] or None, default=None
        Norm to which the residual (the derivative of the loss by the raw predictions)
        of every record is clipped. None: 0.35 times the loss's worst residual, at
        most 1.5 times its `noisy_clip`.
    threshold : float in [0, 1e6], default=2.0
        Features whose weights are below so many deviations of the noise in them are
        not selected even if there are fewer than `n_nonzero` others.
    accumulate : bool or None, default=None
        Whether features that are not selected keep the gradients that were released so
        far. None: not if the rows are dense by their public bounds, where a correction
        of few selected features is worth more than the memory of all.
    intercept_share : float in [1e-6, 0.5], default=0.04
        Share of mu^2 that is spent on the intercept, if there is one.

    References
    ----------
    .. [1] Wang (2021). Towards efficient and effective privacy-preserving machine
       learning. PhD thesis, UCLA, chapter 2, Algorithm 1.
    .. [2] Jain, Tewari and Kar (2014). On iterative hard thresholding methods for
       high-dimensional M-estimation. NeurIPS. https://arxiv.org/abs/1410.5137
    .. [3] Dong, Roth and Su (2022). Gaussian differential privacy, Corollary 3.3.
       https://arxiv.org/abs/1905.02383

    Deviations from [1]_: twice its variance, which is a factor of 2 short; gradients
    are clipped instead of assumed to be bounded; an intercept; a threshold by the
    noise, the memory of released gradients and the retreat, which are free.
    """

    key: ClassVar[str] = "iht"
    takes_users: ClassVar[bool] = True
    is_pure: ClassVar[bool] = False
    is_sparse: ClassVar[bool] = True
    checks: ClassVar[Checks] = {
        "n_steps": partial(check_count, high=10**6),
        "step_size": partial(check_real, low=1e-250, high=1e250),
        "residual_clip": partial(check_real, low=1e-6, high=math.inf),
        "threshold": partial(check_real, low=0.0, high=1e6),
        "accumulate": check_bool,
        "intercept_share": partial(check_real, low=1e-6, high=0.5),
    }

    n_steps: int
    step_size: float
    residual_clip: float
    threshold: float = 2.0
    accumulate: bool
    intercept_share: float = 0.04

    @classmethod
    def adds_in_squares(cls, given: Given) -> bool:
        return True

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        cls.check(objective, budget)
        is_dense = objective.has_dense_rows
        worst = objective.loss.zero_out_bound(math.inf)
        by_rule = min(_CLIPPED_SHARE * worst, _CLIPPED_MORE * objective.loss.noisy_clip)
        clip = given.get("residual_clip", by_rule)
        accumulate = given.get("accumulate", not is_dense)
        longest = cls._longest(objective, is_dense)
        distance = cls._admitted(objective, budget, clip, is_dense)
        wanted = math.ceil(min(distance / longest, _MOST_STEPS[accumulate]))
        n_steps = given.get("n_steps", max(wanted, _FEWEST_STEPS))
        decided = {
            "n_steps": n_steps,
            "step_size": max(min(distance / n_steps, longest), 1e-250),
            "residual_clip": clip,
            "accumulate": accumulate,
        }
        return cls(**{**decided, **given})

    @staticmethod
    def _longest(objective: LinearObjective, is_dense: bool) -> float:
        """Longest step of the default."""
        d = objective.n_features
        bend = objective.loss.smoothness * objective.data_norm**2
        return 1 / (bend / (d if is_dense else min(d, _DIRECTIONS)) + objective.alpha)

    @staticmethod
    def _admitted(
        objective: LinearObjective, budget: Budget, clip: float, is_dense: bool
    ) -> float:
        """Sum of all steps at which the noise is _PREDICTION_NOISE."""
        reached = objective.data_norm
        if is_dense:  # the selected features hold their share of a row
            reached *= math.sqrt(objective.most_features / objective.n_features)
        mu = gaussian_mu(budget.epsilon, budget.delta)
        bound = split_bound(objective, clip).under(objective.adjacency)
        noise = reached * bound / mu
        return _PREDICTION_NOISE * objective.loss.raw_unit * objective.n_samples / noise

    @property
    def mechanism(self) -> str:
        return "Gaussian noise, calibrated exactly"

    def intercept_queries(self, objective: LinearObjective) -> int:
        """How often the intercept's gradient is released."""
        return self.n_steps + _FIRST_QUERIES if objective.fit_intercept else 0

    def intercept_multiple(self, objective: LinearObjective) -> float:
        """Noise multiplier of the intercept's queries over that of the features'."""
        odds = self.intercept_share / (1 - self.intercept_share)
        return math.sqrt(self.intercept_queries(objective) / self.n_steps / odds)

    def plan(self, objective: LinearObjective) -> Plan:
        features = Line(self.n_steps)
        if not objective.fit_intercept:
            return Plan((features,))
        multiple = self.intercept_multiple(objective)
        intercept = Line(self.intercept_queries(objective), multiple=multiple)
        return Plan((features, intercept))

    def sensitivity(self, objective: LinearObjective) -> float:
        bound = split_bound(objective, self.residual_clip)
        return bound.under(objective.adjacency)

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        sums = SplitGradients(objective, self.residual_clip)
        descent = _Descent(self, objective)

        def find_intercept(queries: int) -> None:
            for _ in range(queries if objective.fit_intercept else 0):
                query = sums.intercept(descent.weights)
                descent.move_intercept(answers.ask(query, line=1).value)

        find_intercept(_FIRST_QUERIES)
        for t in range(self.n_steps):
            released = answers.ask(sums.features(descent.weights))
            descent.step(released.value, released.sigma)
            find_intercept(1)
            progress.step(t + 1, self.n_steps)
        return Solution(descent.weights, answers.noise_scale)


@dataclass(frozen=True)
class _Place:
    """Where a descent is: public.

    `summed` and `selected`, of shape (n_features, n_outputs), are weights before and
    after thresholding; `variance` is that of the noise in an entry of `summed`.
    """

    summed: FloatArray
    selected: FloatArray
    variance: float

    def towards(self, other: _Place, share: float) -> _Place:
        """A place on the line to another; the noise of the way is independent."""
        return _Place(
            self.summed + share * (other.summed - self.summed),
            self.selected + share * (other.selected - self.selected),
            self.variance + share**2 * (other.variance - self.variance),
        )


class _Descent:
    """Post-processing: steps, thresholds and the intercept, from releases alone."""

    def __init__(self, solver: IHT, objective: LinearObjective) -> None:
        self._solver, self._objective = solver, objective
        self._step_size = solver.step_size
        self._limit = farthest_weight(objective)
        self._bend = (
            objective.loss.smoothness * objective.data_norm**2 + objective.alpha
        )
        self._intercept = np.zeros(
            (int(objective.fit_intercept), objective.loss.n_outputs)
        )
        zeros = np.zeros((objective.n_features, objective.loss.n_outputs))
        self._here = _Place(zeros, zeros, 0.0)
        self._before: tuple[_Place, FloatArray, float] | None = None

    @property
    def weights(self) -> FloatArray:
        """One row per column; after a step at most `n_nonzero` features have any."""
        return np.vstack([self._here.selected, self._intercept])

    def move_intercept(self, released: FloatArray) -> None:
        """A step of the length that no loss of this smoothness overshoots with."""
        mean = released / self._objective.n_samples
        mean = mean + self._objective.alpha * self._intercept
        self._intercept = boxed(self._intercept - mean / self._bend, self._limit)

    def step(self, released: FloatArray, sigma: float) -> None:
        """Go on from a released gradient sum with noise of deviation `sigma`."""
        n, alpha = self._objective.n_samples, self._objective.alpha
        # In a box of its own, so that no product with weights overflows.
        gradient = released / n + alpha * self._here.selected
        gradient = boxed(gradient, _LARGEST_PRODUCT / self._limit)
        sigma = sigma / n
        gradient = self._retreat(gradient, sigma)
        here, eta = self._here, self._step_size
        start = here.summed if self._solver.accumulate else here.selected
        summed = boxed(start - eta * gradient, self._limit)
        noise = eta * sigma
        variance = min(here.variance + noise * noise, _LARGEST_PRODUCT)
        selected = self._selected(summed, variance)
        self._here = _Place(summed, selected, variance)
        # <gradient, way> counts the noise that chose the way: Stein's identity for the
        # selected entries, each of which moved by -eta times its own noise.
        slope = float(np.vdot(gradient, selected - here.selected))
        slope += noise * sigma * np.count_nonzero(selected)
        self._before = here, gradient, slope

    def _selected(self, summed: FloatArray, variance: float) -> FloatArray:
        """The largest rows that stand out from the noise; the others are 0."""
        rows = largest_rows(summed, self._objective.most_features)
        least = self._solver.threshold * math.sqrt(variance * summed.shape[1])
        rows = rows[np.linalg.norm(summed[rows], axis=1) >= least]
        return keep_rows(summed, rows)

    def _retreat(self, gradient: FloatArray, sigma: float) -> FloatArray:
        """Take a part of the last step back if it went beyond the lowest point.

        Clearly so: two deviations of the noise. The lowest point of a parabola with the
        two slopes along the way is taken, and the gradient there is that share of the
        two gradients. Later steps are as much shorter.
        """
        if self._before is None:
            return gradient
        place, previous, slope = self._before
        way = self._here.selected - place.selected
        rise = float(np.vdot(gradient, way))
        if not (slope < 0 and rise > 2 * sigma * float(np.linalg.norm(way))):
            return gradient
        share = max(slope / (slope - rise), _LEAST_SHARE)
        self._step_size *= share
        self._here = place.towards(self._here, share)
        return previous + share * (gradient - previous)
