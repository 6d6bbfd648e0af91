"""What several private steps on the same rows cost together.

Steps read the rows one after the other or side by side (ColumnTransformer,
FeatureUnion); both are sequential composition, since every step sees every record.
Bounds are valid for steps fixed in advance, which the steps of a pipeline are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from skdp.privacy._accounting import epsilon_of
from skdp.privacy._events import ComposedEvent, GaussianEvent
from skdp.privacy._gaussian import gaussian_epsilon, gaussian_mu
from skdp.privacy._step import StepPrivacy

# The largest delta there is; sums of deltas beyond it promise nothing.
_LARGEST_DELTA = math.nextafter(1.0, 0.0)
# `gaussian_mu` is at most a relative 1.3e-7 below the largest mu that a budget allows.
MU_MARGIN = 2e-7


def total_of(
    steps: Sequence[StepPrivacy], delta: float | None = None
) -> tuple[float, float]:
    """Epsilon and delta of all steps together; never below the truth.

    `delta` is 0, in [1e-50, 1), or None: the largest delta of the steps whose noise
    adds up in squares, plus the deltas of all others, the least at which the budgets of
    the steps suffice. All steps are of one adjacency.

    Returns
    -------
    epsilon, delta : float
    """
    steps = _paid_once(steps)
    others = [step for step in steps if not is_gaussian(step)]
    gaussian = [step for step in steps if is_gaussian(step)]
    if delta is None:
        largest = max((step.delta for step in gaussian), default=0.0)
        delta = min(_sum_of_deltas(others) + largest, _LARGEST_DELTA)
    epsilon = _added(gaussian, others, delta)
    events = [step.event for step in steps if step.event is not None]
    if events and len(events) == len(steps):
        epsilon = min(epsilon, epsilon_of(ComposedEvent(tuple(events)), delta))
    return epsilon, delta


def _paid_once(steps: Sequence[StepPrivacy]) -> list[StepPrivacy]:
    """One step for each joint release, which stands on all of its parts."""
    seen, kept = set(), []
    for step in steps:
        if not step.release or step.release not in seen:
            kept.append(step)
        seen.add(step.release)
    return kept


def is_gaussian(step: StepPrivacy) -> bool:
    """Whether all that a step releases, or will release, is Gaussian noise."""
    if step.event is None:
        return step.adds_in_squares and step.delta > 0
    leaves = (getattr(leaf, "dominating", leaf) for leaf in step.event.leaves)
    return all(isinstance(leaf, GaussianEvent) for leaf in leaves)


def mu_of(step: StepPrivacy) -> float:
    """The largest mu of a step of Gaussian noise, rounded up if it is planned."""
    if step.event is None:
        return gaussian_mu(step.epsilon, step.delta) * (1 + MU_MARGIN)
    return math.sqrt(step.event.mu_squared)


def _added(
    gaussian: Sequence[StepPrivacy], others: Sequence[StepPrivacy], delta: float
) -> float:
    """Squares within the Gaussian steps, basic composition with all others."""
    left = delta - _sum_of_deltas(others)
    if left < 0:
        return math.inf
    epsilon = math.fsum(step.epsilon for step in others)
    if not gaussian:
        return epsilon
    mu = math.sqrt(math.fsum(mu_of(step) ** 2 for step in gaussian))
    squared = gaussian_epsilon(mu, left)
    # What the steps promise one by one; the better bound for one step alone.
    if _sum_of_deltas(gaussian) <= left:
        squared = min(squared, math.fsum(step.epsilon for step in gaussian))
    return epsilon + squared


def _sum_of_deltas(steps: Sequence[StepPrivacy]) -> float:
    return math.fsum(step.delta for step in steps)
