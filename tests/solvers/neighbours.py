"""Pairs of neighbouring records that push a linear model's gradient to its bound."""

from __future__ import annotations

import math

import numpy as np

from skdp.losses import GammaLoss, PoissonLoss, QuantileLoss, SquaredLoss


def extremes(loss):
    """Two targets as far apart as can be; labels 0 and 1 of a loss of labels."""
    if isinstance(loss, SquaredLoss):
        return -loss.target_bound, loss.target_bound
    if isinstance(loss, QuantileLoss):
        return -1.0, 1.0
    if isinstance(loss, PoissonLoss):
        return loss.lowest, 1.0
    if isinstance(loss, GammaLoss):
        return 1.0, math.exp(2 * loss.half)
    return 0.0, 1.0


def random_targets(loss, rng, count):
    if loss.form.is_of_numbers:
        return rng.choice(extremes(loss), count)
    return rng.integers(0, max(2, loss.n_outputs), count).astype(float)


def gradients(objective, count=4000, seed=0):
    """Gradients of two records at the same weights: arrays (count, columns, outputs).

    Weights of every size; rows of full norm, many of them nearly alike or opposite and
    nearly orthogonal to the weights, where residuals of both signs come together.
    """
    rng = np.random.default_rng(seed)
    d, k, norm = objective.n_features, objective.loss.n_outputs, objective.data_norm
    axis = rng.normal(size=(count, d))
    axis /= np.linalg.norm(axis, axis=1)[:, None]
    outputs = rng.choice([-1.0, 0.0, 1.0], size=(count, k))
    size = 10 ** rng.uniform(-2, 4, size=(count, 1, 1)) / norm
    size *= rng.integers(0, 4, size=(count, 1, 1)) > 0
    weights = size * axis[:, :, None] * outputs[:, None, :]
    base = rng.normal(size=(count, d))
    base -= np.sum(base * axis, axis=1)[:, None] * axis
    base /= np.linalg.norm(base, axis=1)[:, None] + 1e-300
    result = []
    for sign in (1.0, rng.choice([-1.0, 1.0], size=(count, 1))):
        tilt = rng.choice([-0.1, 0.1, 0.8, -0.8], size=(count, 1))
        X = norm * (sign * np.sqrt(1 - tilt**2) * base + tilt * axis)
        raw = np.einsum("nd,ndk->nk", X, weights)
        if objective.fit_intercept:
            X = np.hstack([X, np.full((count, 1), objective.intercept_value)])
        residual = objective.loss.residual(
            random_targets(objective.loss, rng, count), raw
        )
        result.append(X[:, :, None] * residual[:, None, :])
    return result


def largest_change(objective, shape=1.0):
    """Largest norm found of the weighted change of the sum of the gradients."""
    first, second = gradients(objective)
    if objective.fit_intercept:
        first[:, -1] *= shape
        second[:, -1] *= shape
    change = first if objective.adjacency == "zero_out" else first - second
    return float(np.sqrt((change**2).sum(axis=(1, 2)).max()))
