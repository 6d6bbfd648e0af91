"""Bounds and exact sums of gradients of one objective, as tests of solvers ask them."""

from __future__ import annotations

import math

from skdp.sums._gradient import ClippedGradient
from skdp.sums._gradient_sum import ExactGradientSum


def gradient_bound(
    objective, residual_clip=math.inf, weights_norm=math.inf, intercept_weight=1.0
):
    """The bound of records in real numbers, at weights of this spectral norm."""
    sums = ClippedGradient(objective, residual_clip, intercept_weight)
    return sums.real_bound(sums.radius(weights_norm))


def query_sensitivity(objective, *given, **facts):
    """`gradient_bound` under the objective's adjacency."""
    return gradient_bound(objective, *given, **facts).under(objective.adjacency)


def exact_sum(source, objective, residual_clip=math.inf):
    """The reader of exact sums."""
    return ExactGradientSum(source, ClippedGradient(objective, residual_clip))
