r"""Bolt-on privacy: permutation-based gradient descent, and noise on its last weights.

The records are put into a secret order once (or in every pass) and gone through in
batches of b,

    W <- project(W - step_t * (sum over the batch of gradients / b + alpha * W)),

where b divides a shorter last batch too. Nothing is released but the last weights, or
a weighted average of all, with noise for how far one record can move them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.sparse import issparse

from skdp._floats import FloatArray
from skdp._validation import check_bool, check_choice, check_count, check_real
from skdp.data import Source, held
from skdp.objectives import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._events import Event
from skdp.privacy._laws import LAWS, deviation_once
from skdp.privacy._noise import NoiseSource
from skdp.queries._gradient_sum import GradientSum, query_sensitivity
from skdp.solvers._base import Progress, Solution
from skdp.solvers._chosen_law import ChosenLaw
from skdp.solvers._configured import Checks
from skdp.solvers._flow_time import RELAXATIONS
from skdp.solvers._permutation_sensitivity import (
    Updates,
    exact_sensitivity,
    farthest_iterate,
    rounding_of,
)
from skdp.solvers._schedules import AVERAGES, SCHEDULES

# Guess of the norm of useful weights, in units of raw predictions over data_norm.
_WEIGHTS_NORM = 5.0
# Full gradients that the default takes rather than batches, and the passes it takes
# otherwise (docs/solvers/bolt_on.md).
_MOST_FULL, _PASSES = 200, 10
_MOST_PASSES, _MOST_UPDATES = 10**6, 2 * 10**7
# Beyond these the rounding bounds of the proof page, or the range of doubles, end.
_MOST_PRODUCTS = 1e13
_LEAST, _MOST = 1e-250, 1e250
# Weights whose norm can still be squared, before they are projected.
_FARTHEST = 1e140


def _check_radius(name: str, value: Any) -> float:
    if isinstance(value, Real) and value == math.inf:
        return math.inf
    return check_real(name, value, low=1e-150, high=1e150, remedy="Or use inf.")


@dataclass(frozen=True, kw_only=True)
class BoltOn(ChosenLaw):
    r"""Permutation-based stochastic gradient descent with noise on its result.

    Privacy
    -------
    One release of the L2 sensitivity that the exact recursion over all updates gives
    (``docs/proofs/bolt_on.md``, Theorem 1), under either adjacency. Gaussian noise,
    exactly ``1 / noise_multiplier``-GDP, or spherical noise for delta = 0. All
    outputs are one joint vector. Only the final weights are released: no iterate, no
    order. The order may even be public, since neighbours have their records at the
    same positions. Unit of privacy: one record.

    Utility
    -------
    With equal batches and no regularisation the sensitivity is ``G s / n`` with the
    flow time ``s``, the sum of all steps: passes and batch size matter through s only.

    Parameters
    ----------
    n_passes : int in [1, 1e6] or None, default=None
        Passes over the records, all of them made. None: what the flow time below
        needs with steps of at most ``1 / L``, but 10 with a `batch_size` of
        None below the number of records.
    batch_size : int of at least 1 or None, default=None
        The number of records, or more, means full gradients, whose order does not
        matter. None: full gradients if 200 of them are enough; otherwise the largest
        batch with which `n_passes` passes reach the flow time.
    schedule : {"constant", "decreasing", "sqrt", "strongly_convex"}, \
            default="constant"
        Steps in update t: ``step_size``, ``step_size / t``, ``step_size / sqrt(t)``,
        or ``min(step_size, 1 / (alpha t))``, which needs regularisation.
    step_size : float in [1e-250, 1e250] or None, default=None
        Largest step, at most ``2 / L`` with the smoothness bound
        ``L = smoothness * row_norm^2 + alpha``. None: the flow time that balances noise
        and bias for weights of norm 5 in units of raw predictions, divided over the
        updates, at most ``1 / L``; that for ``"strongly_convex"``.
    average : {"none", "linear", "uniform"}, default="none"
        Average that is released: the last iterate, all of them alike, or with weights
        that grow with t. The sensitivity is the average's own.
    radius : float in [1e-150, 1e150] or inf, default=inf
        Iterates are projected to this norm, in the units of the weights.
    reshuffle : bool, default=False
        Whether every pass draws a new order. A record may then meet the most sensitive
        update of each pass, which costs more noise if steps vary.
    law : {"gaussian", "spherical"} or None, default=None
        None: spherical if delta is 0, Gaussian otherwise.

    Notes
    -----
    Batches need all records in memory. Arrays in C order and CSR are used where they
    are; other arrays, and sources that are not in memory, are copied once.

    References
    ----------
    .. [1] Wu, Li, Kumar, Chaudhuri, Jha and Naughton (2017). Bolt-on differential
       privacy for scalable stochastic gradient descent-based analytics. SIGMOD,
       Algorithms 1 and 2. https://arxiv.org/abs/1606.04722
    .. [2] Hardt, Recht and Singer (2016). Train faster, generalize better: stability of
       stochastic gradient descent. ICML, Lemma 2.5. https://arxiv.org/abs/1509.01240

    Deviations: the sensitivity is that of the exact recursion, since several closed
    forms of [1]_ are too small (``docs/errata.md``); the regulariser is no part of it;
    exact Gaussian calibration; several outputs are one vector.
    """

    key: ClassVar[str] = "bolt_on"

    checks: ClassVar[Checks] = {
        **ChosenLaw.checks,
        "n_passes": partial(check_count, high=_MOST_PASSES),
        "batch_size": check_count,
        "schedule": partial(check_choice, allowed=SCHEDULES),
        "step_size": partial(check_real, low=_LEAST, high=_MOST),
        "average": partial(check_choice, allowed=AVERAGES),
        "radius": _check_radius,
        "reshuffle": check_bool,
    }

    n_passes: int | None = None
    batch_size: int | None = None
    schedule: Literal["constant", "decreasing", "sqrt", "strongly_convex"] = "constant"
    step_size: float | None = None
    average: Literal["none", "linear", "uniform"] = "none"
    radius: float = math.inf
    reshuffle: bool = False

    @property
    def mechanism(self) -> str:
        return f"{self.noise_law.name} noise on the last weights of gradient descent"

    def refusal(self, objective: LinearObjective, budget: Budget) -> str:
        reason = super().refusal(objective, budget)
        if reason:
            return reason
        me = f"solver={self.key!r}"
        if self.schedule == "strongly_convex" and objective.alpha == 0:
            return f"{me} needs regularisation for this schedule. Set C or alpha."
        planned, _ = self._with_batches(objective, budget)
        updates = planned._n_passes * planned._updates_per_pass(objective)
        if updates > _MOST_UPDATES or updates * objective.n_columns > _MOST_PRODUCTS:
            return (
                f"{me} would make too many updates. Got {updates:,}. "
                "Use a larger 'batch_size' or fewer 'n_passes'."
            )
        resolved = self.resolve(objective, budget)
        assert resolved.step_size is not None, "resolve() fills in the step size"
        smoothness = objective.smoothness
        if not resolved.step_size * smoothness <= 2:
            return (
                f"{me} needs a 'step_size' of at most 2 / L, which is "
                f"{2 / smoothness:.3g}. Got {resolved.step_size:.3g}. "
                "Use step_size=None."
            )
        unprojected = replace(resolved._updates(objective), radius=math.inf)
        far = farthest_iterate(unprojected, objective)
        if not (far < _FARTHEST and _LEAST < resolved.sensitivity(objective)):
            return f"{me} leaves the range of numbers. Use another 'data_norm' or C."
        return self.noise_refusal(
            budget, objective.n_columns * objective.loss.n_outputs
        )

    def resolve(self, objective: LinearObjective, budget: Budget) -> Self:
        planned, flow = self._with_batches(objective, budget)
        if self.step_size is not None:
            return planned
        step = 1 / objective.smoothness
        if self.schedule != "strongly_convex":
            unit = replace(planned, step_size=1.0)._steps(objective)
            step = min(flow / float(unit.sum()), step)
        return replace(planned, step_size=step)

    def _with_batches(
        self, objective: LinearObjective, budget: Budget
    ) -> tuple[Self, float]:
        """A copy with law, passes and batch size, and the flow time wanted."""
        n, law = objective.n_samples, self.law_for(budget)
        flow = _flow_time(objective, budget, law)
        wanted = flow * objective.smoothness  # updates with the largest steps
        passes, batch = self.n_passes, min(self.batch_size or n, n)
        if passes is None:
            passes = math.ceil(min(max(wanted / -(-n // batch), 1), _MOST_FULL))
            if self.batch_size is None and wanted > _MOST_FULL:
                passes = _PASSES
        if self.batch_size is None:
            batch = math.floor(min(max(passes * n / wanted, 1), n))
        return replace(self, n_passes=passes, batch_size=batch, law=law), flow

    def event(self, noise_multiplier: float, objective: LinearObjective) -> Event:
        return self.noise_law.event(noise_multiplier)

    def _updates(self, objective: LinearObjective) -> Updates:
        return Updates(
            self._steps(objective),
            self._shares(objective),
            self._batch_size,
            self.radius,
        )

    def sensitivity(self, objective: LinearObjective) -> float:
        updates = self._updates(objective)
        farthest = farthest_iterate(updates, objective)
        return exact_sensitivity(
            updates,
            query_sensitivity(objective, weights_norm=farthest),
            smoothness=objective.smoothness,
            strength=objective.alpha,
            reshuffle=self.reshuffle,
            rounding=rounding_of(updates, objective, farthest),
        )

    def run(
        self,
        source: Source,
        objective: LinearObjective,
        noise_multiplier: float,
        noise: NoiseSource,
        progress: Progress,
    ) -> Solution:
        if self._batch_size == objective.n_samples:
            weights = self._full_gradients(source, objective, progress)
        else:
            weights = self._batches(source, objective, noise, progress)
        sensitivity = self.sensitivity(objective)
        released = self.noise_law.release(noise, weights, sensitivity, noise_multiplier)
        scale = self.noise_law.scale(sensitivity, noise_multiplier, weights.size)
        return Solution(released, scale.sigma)

    def _full_gradients(
        self, source: Source, objective: LinearObjective, progress: Progress
    ) -> FloatArray:
        gradient = GradientSum(source, objective)
        weights = np.zeros((objective.n_columns, objective.loss.n_outputs))
        average = np.zeros_like(weights)
        steps, shares = self._steps(objective).ravel(), self._shares(objective).ravel()
        for t in range(len(steps)):
            mean = gradient(weights) / objective.n_samples
            weights = (1 - steps[t] * objective.alpha) * weights - steps[t] * mean
            norm = float(np.linalg.norm(weights))
            if norm > self.radius:
                weights *= self.radius / norm
            average += shares[t] * weights
            progress.step(t + 1, len(steps))
        return average

    def _batches(
        self,
        source: Source,
        objective: LinearObjective,
        noise: NoiseSource,
        progress: Progress,
    ) -> FloatArray:
        # Imported here, because numba takes half a second to import.
        from skdp.solvers._permutation_kernel import dense_pass, sparse_pass

        block = held(source)
        X: Any = block.X
        if not issparse(X):
            X = np.ascontiguousarray(X)
        one_pass = sparse_pass if issparse(X) else dense_pass
        rows = (X.data, X.indices, X.indptr) if issparse(X) else (X,)
        present = block.present
        if present is None:
            present = np.ones(objective.n_samples, dtype=bool)
        intercept = objective.intercept_value if objective.fit_intercept else 0.0
        weights = np.zeros((objective.loss.n_outputs, objective.n_columns))
        average = np.zeros_like(weights)
        steps, shares = self._steps(objective), self._shares(objective)
        order = noise.permutation(objective.n_samples)
        for j in range(self._n_passes):
            if j > 0 and self.reshuffle:
                order = noise.permutation(objective.n_samples)
            one_pass(
                *rows,
                block.y,
                present,
                (objective.data_norm, intercept),
                order,
                steps[j],
                shares[j],
                self._batch_size,
                objective.alpha,
                self.radius,
                int(objective.loss.form),
                objective.loss.form_constants,
                weights,
                average,
            )
            progress.step(j + 1, self._n_passes)
        return average.T.copy()

    @property
    def _n_passes(self) -> int:
        assert self.n_passes is not None, "resolve() fills in the passes"
        return self.n_passes

    @property
    def _batch_size(self) -> int:
        assert self.batch_size is not None, "resolve() fills in the batch size"
        return self.batch_size

    def _updates_per_pass(self, objective: LinearObjective) -> int:
        return -(-objective.n_samples // self._batch_size)

    def _steps(self, objective: LinearObjective) -> FloatArray:
        """Step sizes, of shape (n_passes, updates_per_pass)."""
        assert self.step_size is not None, "resolve() fills in the step size"
        per_pass = self._updates_per_pass(objective)
        t = np.arange(1.0, self._n_passes * per_pass + 1)
        steps = SCHEDULES[self.schedule](t, self.step_size, objective.alpha)
        return steps.reshape(self._n_passes, per_pass)

    def _shares(self, objective: LinearObjective) -> FloatArray:
        per_pass = self._updates_per_pass(objective)
        shares = AVERAGES[self.average](self._n_passes * per_pass)
        return shares.reshape(self._n_passes, per_pass)


def _flow_time(objective: LinearObjective, budget: Budget, law: str) -> float:
    """Flow time at which noise and bias cost least together.

    Noise of deviation e = z G s / n per weight costs about
    ``curvature_trace row_norm^2 e^2 / 2`` in the mean loss, the bias
    ``norm^2 / (2 s)``.
    """
    size = objective.n_columns * objective.loss.n_outputs
    deviation = deviation_once(LAWS[law], budget, size) / objective.n_samples
    # In units of data_norm, whose powers could overflow.
    length = objective.row_norm / objective.data_norm
    change = query_sensitivity(objective) / objective.data_norm
    ratio = _WEIGHTS_NORM * objective.loss.raw_unit / (length * deviation * change)
    flow = (ratio**2 / (2 * objective.loss.curvature_trace)) ** (
        1 / 3
    ) / objective.data_norm**2
    if objective.alpha > 0:
        flow = min(flow, RELAXATIONS / objective.alpha)
    return float(flow)
