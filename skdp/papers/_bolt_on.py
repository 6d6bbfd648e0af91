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

from skdp._configured import Checks, Given
from skdp._floats import FloatArray
from skdp._validation import check_bool, check_choice, check_count, check_real
from skdp.exceptions import Refused
from skdp.losses._weighted import typical_weight
from skdp.objectives._linear import LinearObjective
from skdp.papers._permutation_sensitivity import (
    Updates,
    exact_sensitivity,
    farthest_iterate,
    rounding_of,
)
from skdp.papers._permuted_descent import PermutedDescent
from skdp.papers._schedules import AVERAGES, SCHEDULES
from skdp.privacy._accounting import Budget
from skdp.privacy._answers import Answers
from skdp.privacy._laws import LAWS, deviation_once
from skdp.privacy._plan import Line, Plan
from skdp.queries._gradient_sum import query_sensitivity
from skdp.solvers._base import Solution
from skdp.solvers._chosen_law import ChosenLaw
from skdp.solvers._flow_time import RELAXATIONS
from skdp.solvers._progress import Progress

# Guess of the norm of useful weights, in units of raw predictions over data_norm.
_WEIGHTS_NORM = 5.0
# Full gradients that the default takes rather than batches, and the passes it takes
# otherwise (docs/papers/bolt_on.md).
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
    """Permutation-based stochastic gradient descent with noise on its result.

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
    offset : float in [0, 1e9], default=0.0
        o, where "decreasing" steps are ``step_size (1 + o) / (t + o)`` and "sqrt" ones
        ``step_size (1 + o) / (sqrt(t) + o)``: with ``step_size = 2 / (L (1 + m^c))``
        and ``o = m^c``, m updates in a pass, the schedules of Corollaries 2 and 3 of
        [1]_. Only with these two.
    step_size : float in [1e-250, 1e250] or None, default=None
        Largest step, at most ``2 / L`` with the smoothness bound
        ``L = smoothness * row_norm^2 + alpha``. None: the flow time that balances noise
        and bias for weights of norm 5 in units of raw predictions, divided over the
        updates, at most ``1 / L``; that for ``"strongly_convex"``.
    average : {"none", "last_log", "linear", "uniform"}, default="none"
        Average that is released: the last iterate, the last log T of the T iterates,
        all of them with weights that grow with t, or all alike. The sensitivity is the
        average's own.
    radius : float in [1e-150, 1e150] or inf, default=inf
        Iterates are projected to this norm, in the units of the weights.
    reshuffle : bool, default=False
        Whether every pass draws a new order. A record may then meet the most sensitive
        update of each pass, which costs more noise if steps vary.
    law : {"gaussian", "spherical"} or None, default=None
        None: spherical if delta is 0, Gaussian otherwise.

    Notes
    -----
    Arrays in C order and CSR are used where they are; other arrays are copied once. A
    database is read in the same order in every pass, by the ids of its records
    (`SqlSource`, `record_id`), and only a block of it is in memory.

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
    needs_permutation: ClassVar[bool] = True
    is_recommended: ClassVar[bool] = False
    checks: ClassVar[Checks] = {
        **ChosenLaw.checks,
        "n_passes": partial(check_count, high=_MOST_PASSES),
        "batch_size": check_count,
        "schedule": partial(check_choice, allowed=SCHEDULES),
        "step_size": partial(check_real, low=_LEAST, high=_MOST),
        "offset": partial(check_real, low=0.0, high=1e9),
        "average": partial(check_choice, allowed=AVERAGES),
        "radius": _check_radius,
        "reshuffle": check_bool,
    }

    n_passes: int
    batch_size: int
    schedule: Literal["constant", "decreasing", "sqrt", "strongly_convex"] = "constant"
    step_size: float
    offset: float = 0.0
    average: Literal["none", "last_log", "linear", "uniform"] = "none"
    radius: float = math.inf
    reshuffle: bool = False

    @classmethod
    def check_given(cls, given: Given) -> None:
        has_one = given.get("schedule") in ("decreasing", "sqrt")
        if given.get("offset", 0.0) > 0 and not has_one:
            raise ValueError(
                "The 'offset' parameter must be 0 but for the schedules 'decreasing' "
                f"and 'sqrt'. Got {given['offset']} with another. Leave it out."
            )

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        cls.check(objective, budget)
        law, me = cls.law_for(given, budget), f"solver={cls.key!r}"
        if given.get("schedule") == "strongly_convex" and objective.alpha == 0:
            raise Refused(
                f"{me} needs regularisation for this schedule. Set C or alpha."
            )
        flow = _flow_time(objective, budget, law)
        n_passes, batch_size = _passes_and_batch(given, objective, flow)
        updates = n_passes * -(-objective.n_samples // batch_size)
        if updates > _MOST_UPDATES or updates * objective.n_columns > _MOST_PRODUCTS:
            raise Refused(
                f"{me} would make too many updates. Got {updates:,}. "
                "Use a larger 'batch_size' or fewer 'n_passes'."
            )
        decided = {"law": law, "n_passes": n_passes, "batch_size": batch_size}
        solver = cls(**{"step_size": 1.0, **given, **decided})
        if "step_size" not in given:
            step_size = 1 / objective.smoothness
            if solver.schedule != "strongly_convex":
                unit = solver.updates(objective).steps
                step_size = min(flow / float(unit.sum()), step_size)
            solver = replace(solver, step_size=step_size)
        solver._check_steps(objective)
        cls.check_noise(law, budget, math.prod(objective.shape))
        return solver

    def _check_steps(self, objective: LinearObjective) -> None:
        """Raise if steps are too long, or weights too far."""
        me, smoothness = f"solver={self.key!r}", objective.smoothness
        if not self.step_size * smoothness <= 2:
            raise Refused(
                f"{me} needs a 'step_size' of at most 2 / L, which is "
                f"{2 / smoothness:.3g}. Got {self.step_size:.3g}. "
                "Use step_size=None."
            )
        unprojected = replace(self.updates(objective), radius=math.inf)
        far = farthest_iterate(unprojected, objective)
        if not (far < _FARTHEST and _LEAST < self.sensitivity(objective)):
            raise Refused(
                f"{me} leaves the range of numbers. Use another 'data_norm' or C."
            )

    @property
    def mechanism(self) -> str:
        return f"{self.noise_law.name} noise on the last weights of gradient descent"

    def updates(self, objective: LinearObjective) -> Updates:
        """Public facts of the run."""
        return Updates(
            self._steps(objective),
            self._shares(objective),
            self.batch_size,
            self.radius,
        )

    def plan(self, objective: LinearObjective) -> Plan:
        return Plan((Line(law=self.noise_law),))

    def sensitivity(self, objective: LinearObjective) -> float:
        updates = self.updates(objective)
        farthest = farthest_iterate(updates, objective)
        return exact_sensitivity(
            updates,
            query_sensitivity(objective, weights_norm=farthest),
            smoothness=objective.smoothness,
            strength=objective.alpha,
            reshuffle=self.reshuffle,
            rounding=rounding_of(updates, objective, farthest),
        )

    def descent(
        self, objective: LinearObjective, progress: Progress
    ) -> PermutedDescent:
        """What is done within the walls."""
        updates, bound = self.updates(objective), self.sensitivity(objective)
        return PermutedDescent(objective, updates, self.reshuffle, bound, progress)

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        released = answers.inside(self.descent(objective, progress))
        return Solution(released, answers.noise_scale)

    def _updates_per_pass(self, objective: LinearObjective) -> int:
        return -(-objective.n_samples // self.batch_size)

    def _steps(self, objective: LinearObjective) -> FloatArray:
        """Step sizes, of shape (n_passes, updates_per_pass)."""
        per_pass = self._updates_per_pass(objective)
        t = np.arange(1.0, self.n_passes * per_pass + 1)
        steps = SCHEDULES[self.schedule](
            t, self.step_size, objective.alpha, self.offset
        )
        return steps.reshape(self.n_passes, per_pass)

    def _shares(self, objective: LinearObjective) -> FloatArray:
        per_pass = self._updates_per_pass(objective)
        shares = AVERAGES[self.average](self.n_passes * per_pass)
        return shares.reshape(self.n_passes, per_pass)


def _passes_and_batch(
    given: Given, objective: LinearObjective, flow: float
) -> tuple[int, int]:
    """Passes and batch size, by the rules if they are not given."""
    n, wanted = objective.n_samples, flow * objective.smoothness
    # `wanted` updates with the largest steps make the flow time.
    passes, batch = given.get("n_passes"), min(given.get("batch_size", n), n)
    if passes is None:
        passes = math.ceil(min(max(wanted / -(-n // batch), 1), _MOST_FULL))
        if "batch_size" not in given and wanted > _MOST_FULL:
            passes = _PASSES
    if "batch_size" not in given:
        batch = math.floor(min(max(passes * n / wanted, 1), n))
    return passes, batch


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
    curvature = objective.loss.curvature_trace * typical_weight(objective.loss)
    flow = (ratio**2 / (2 * curvature)) ** (1 / 3) / objective.data_norm**2
    if objective.alpha > 0:
        flow = min(flow, RELAXATIONS / objective.alpha)
    return float(flow)
