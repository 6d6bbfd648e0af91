"""Clipped gradients of networks: their norms, their sums, and what a record may move.

Explicit per-record gradients, which the library never forms, are the reference.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from skdp.losses import LogisticLoss, SoftmaxLoss, SquaredLoss
from skdp.losses._objective import ACTIVATIONS, NetworkObjective
from skdp.privacy.release._plan import Layout
from skdp.sums import _network
from skdp.sums._network import (
    ClippedNetworkGradient,
    ExactNetworkSum,
    NetworkSum,
    OwnGrid,
    Passed,
    own_grid,
)
from skdp.tables._memory import MemorySource

LOSSES = [LogisticLoss(), SoftmaxLoss(4), SquaredLoss(2.0, 1.0)]
by_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
by_activation = pytest.mark.parametrize("activation", ACTIVATIONS)
by_hidden = pytest.mark.parametrize("hidden", [(), (6, 5, 4)])
N, D = 120, 5


def objective_of(loss=LOSSES[0], **changes):
    facts = {"n_samples": N, "n_features": D, "data_norm": 0.8, "input_factor": 5.0}
    facts |= {"input_norm": 4.0}
    facts |= {"hidden": (6, 5), "activation": "tanh", "adjacency": "zero_out"}
    return NetworkObjective(**({"loss": loss} | facts | changes))


def weights_of(objective, size=0.7, seed=0):
    return size * np.random.default_rng(seed).normal(size=objective.n_weights)


def table(loss=LOSSES[0], n=N, seed=0):
    """Rows of all lengths, some far beyond what can be squared, and null records."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) * 10.0 ** rng.uniform(-2, 1, (n, 1))
    X *= rng.random((n, D)) < 0.6
    X[n // 3] *= 1e200
    y = rng.integers(0, max(2, loss.n_outputs), n).astype(float)
    return X.clip(-3e38, 3e38).astype(np.float32), y, rng.random(n) < 0.8


def within(objective, X):
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return X * (objective.data_norm / np.maximum(norms, objective.data_norm))


def total_of(query, source, rows=None):
    with np.errstate(all="ignore"):  # as the door does
        return query.total(query.open(source), rows)


def each_gradient(objective, weights, X, y):
    """Joint gradients of single records, in floating point and without any clip."""
    reader = replace(objective, data_norm=math.inf)
    return np.array(
        [
            NetworkSum(MemorySource(row[None], own[None]), reader, math.inf)(weights)
            for row, own in zip(X, y, strict=True)
        ]
    )


# ------------------------------------------------------------------------- gradients


def loss_at(objective, weights, X, y):
    layers = objective.layers(weights)
    values = X * objective.input_factor
    for layer in layers[:-1]:
        values = objective.unit.value(values @ layer[:-1] + layer[-1])
    raw = values @ layers[-1][:-1] + layers[-1][-1]
    return float(objective.loss.value(y, raw).sum())


@by_loss
@by_activation
@by_hidden
def test_gradients_are_slopes_of_the_loss(loss, activation, hidden):
    objective = objective_of(loss, activation=activation, hidden=hidden)
    w, (X, y, _) = weights_of(objective), table(loss, 3)
    X = within(objective, X[:1].astype(float))
    found = each_gradient(objective, w, X, y[:1])[0]
    for i in range(0, len(w), 3):
        step = np.zeros_like(w)
        step[i] = 1e-5
        ahead = loss_at(objective, w + step, X, y[:1])
        behind = loss_at(objective, w - step, X, y[:1])
        assert found[i] == pytest.approx((ahead - behind) / 2e-5, abs=1e-7, rel=1e-5)


def passed_of(objective, weights, X, y):
    """What the exact reader has of each record: inputs of all layers, what is sent."""
    reader = ExactNetworkSum(MemorySource(X, y), objective, 1.0)
    layers = objective.layers(weights)
    block = reader._on_grid(next(reader._source.blocks()))
    own = block.X.products.in_double()
    first = own.entries * own.unit * objective.input_factor
    return first, block.X.squares, reader._passed(own, block, layers)


def outer_products(first, passed):
    """Joint gradients of the records as they are summed, before the clip."""
    first = np.column_stack([first, np.ones(len(first))])
    rest = [given.units * given.unit[:, None] for given in passed.inputs]
    sent = [delta.units * delta.unit[:, None] for delta in passed.deltas]
    parts = [
        np.einsum("ni,nj->nij", given, delta).reshape(len(first), -1)
        for given, delta in zip([first, *rest], sent, strict=True)
    ]
    return np.concatenate(parts, axis=1)


@by_loss
@by_activation
@by_hidden
def test_norms_are_those_of_explicit_gradients(loss, activation, hidden):
    objective = objective_of(loss, activation=activation, hidden=hidden)
    query = ClippedNetworkGradient(objective, 1.0).at(weights_of(objective))
    X, y, _ = table(loss)
    X = X.clip(-1e6, 1e6)
    first, squares, passed = passed_of(objective, query.weights, X, y)
    found = np.sqrt(passed.squares(squares))
    explicit = outer_products(first, passed)
    wanted = np.linalg.norm(explicit, axis=1)
    assert np.allclose(found, wanted, rtol=1e-12, atol=0)
    # And what is summed is the gradient, but for its grids.
    plain = each_gradient(objective, query.weights, within(objective, X), y)
    error = np.abs(explicit - plain).max(axis=1)
    assert (error <= 5e-5 * (1 + np.abs(plain).max(axis=1))).all()


# ------------------------------------------------------------------ one answer for all


@by_loss
@by_activation
def test_a_record_is_the_same_beside_any_others(loss, activation):
    """Exactly: sums with it and without differ by what it is alone, to the last bit."""
    # Powers of two, so that what sums stand for is not rounded.
    facts = {"data_norm": 1.0, "input_factor": 4.0, "activation": activation}
    facts |= {"input_norm": 4.0}
    objective = objective_of(loss, **facts)
    query = ClippedNetworkGradient(objective, 0.25).at(weights_of(objective))
    X, y, _ = table(loss)
    alone = total_of(query, MemorySource(X[:1], y[:1]))
    for n in (2, 3, 17):
        with_it = total_of(query, MemorySource(X[:n], y[:n]))
        without = total_of(query, MemorySource(X[1:n], y[1:n]))
        # Of so few records a total is a whole number of units that a double holds.
        assert np.array_equal(with_it - without, alone)


# ------------------------------------------------------------------------ sensitivity


def hostile(objective, seed):
    """Rows at all lengths, far weights, all labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12, D)) * 10.0 ** rng.uniform(-3, 3, (12, 1))
    X[0], X[1] = 0.0, 1e300
    y = rng.integers(0, max(2, objective.loss.n_outputs), 12).astype(float)
    return X, y


def largest(objective, clip, adjacency="zero_out", sizes=(1.0, 30.0)):
    """Most that an exchange moves a sum by over all that is tried, over the clip."""
    found = 0.0
    for seed, size in itertools.product(range(2), sizes):
        query = ClippedNetworkGradient(objective, clip).at(
            np.clip(weights_of(objective, size, seed), -1e6, 1e6)
        )
        X, y = hostile(objective, seed)
        each = np.array(
            [
                total_of(query, MemorySource(X[i : i + 1], y[i : i + 1]))
                for i in range(len(y))
            ]
        )
        if adjacency == "zero_out":
            found = max(found, np.linalg.norm(each, axis=1).max())
        else:
            gaps = each[:, None] - each[None]
            found = max(found, np.linalg.norm(gaps, axis=2).max())
    return found / clip


@by_loss
@by_activation
@by_hidden
@pytest.mark.parametrize("clip", [1e-3, 4.0])
def test_no_neighbours_exceed_what_is_charged(loss, activation, hidden, clip):
    objective = objective_of(loss, activation=activation, hidden=hidden)
    query = ClippedNetworkGradient(objective, clip).at(weights_of(objective))
    bound, slack = query.bound(), query.slack(Layout(N)) / clip
    one = largest(objective, clip)
    assert one <= bound.zero_out / clip + slack
    two = largest(objective, clip, "replace_one")
    assert two <= bound.replace_one / clip + slack
    # Where the clip is short, the search comes near: what is charged is no more.
    assert clip > 1 or (one > 0.99 and two > 1.05)


def longest_in_exact_arithmetic(objective, clip, seed=0):
    """Largest squared norm of a record's summed gradient over the clip's, exactly."""
    query = ClippedNetworkGradient(objective, clip).at(weights_of(objective, 1.0, seed))
    X, y = hostile(objective, seed)
    found = Fraction(0)
    for i in range(len(y)):
        total = total_of(query, MemorySource(X[i : i + 1], y[i : i + 1]))
        squares = sum(Fraction(float(own)) ** 2 for own in total)
        found = max(found, squares / Fraction(clip) ** 2)
    return float(found - 1)


def test_clipped_gradients_are_no_longer_than_the_clip_but_for_what_is_charged():
    charged = (1 + 2.0**-40) ** 2 - 1
    for seed in range(4):
        excess = longest_in_exact_arithmetic(objective_of(), 0.01, seed)
        # What is cut away is less than 2^-18 of the clip in each number.
        assert -1e-3 < excess <= charged


class _Single(ExactNetworkSum):
    """A twin whose norms are of single precision: longer than the clip by rounding."""

    def _factors(self, passed, squares):
        narrow = np.zeros(len(squares), np.float32)
        narrow += squares.astype(np.float32) * _narrow(passed.deltas[0])
        for given, delta in zip(passed.inputs, passed.deltas[1:], strict=True):
            narrow += _narrow(given) * _narrow(delta)
        norms = np.sqrt(narrow).astype(np.float64)
        return 1.0 / np.maximum(norms, self._clip)


def _narrow(grid):
    values = (grid.units * grid.unit[:, None]).astype(np.float32)
    return np.einsum("ij,ij->i", values, values)


class _PerLayer(ExactNetworkSum):
    """A twin that clips each layer by itself and charges for one."""

    def _passed(self, rows, block, layers):
        passed = super()._passed(rows, block, layers)
        firsts = [np.full(len(block.y), 1.0), *(g.squares() for g in passed.inputs)]
        deltas = []
        for first, delta in zip(firsts, passed.deltas, strict=True):
            norms = np.sqrt(first * delta.squares())
            scale = self._clip / np.maximum(norms, self._clip)
            deltas.append(own_grid(delta.units * (delta.unit * scale)[:, None]))
        return Passed(passed.inputs, deltas)

    def _factors(self, passed, squares):
        return np.full(len(squares), 1 / self._clip)


class _WithoutBiases(ExactNetworkSum):
    """A twin whose norms leave the biases out."""

    def _factors(self, passed, squares):
        bare = [OwnGrid(given.units[:, :-1], given.unit) for given in passed.inputs]
        norms = np.sqrt(Passed(bare, passed.deltas).squares(squares - 1.0))
        return 1.0 / np.maximum(norms, self._clip)


@pytest.mark.parametrize("twin", [_Single, _PerLayer, _WithoutBiases])
def test_broken_twins_of_the_clip_are_found(twin, monkeypatch):
    monkeypatch.setattr("skdp.sums._network.ExactNetworkSum", twin)
    charged = (1 + 2.0**-40) ** 2 - 1
    found = [longest_in_exact_arithmetic(objective_of(), 0.01, s) for s in range(8)]
    # Cutting hides less than what single precision is too long by.
    monkeypatch.setattr(_network, "cut_units", _uncut)
    found += [longest_in_exact_arithmetic(objective_of(), 0.01, s) for s in range(8)]
    assert max(found) > charged


def _uncut(units, factors, bits):
    return units * (factors * 2.0**bits)[:, None]


def test_broken_twin_that_rounds_to_the_nearest_is_found(monkeypatch):
    def nearest(units, factors, bits):
        return np.rint(units * (factors * 2.0**bits)[:, None])

    monkeypatch.setattr(_network, "cut_units", nearest)
    found = [longest_in_exact_arithmetic(objective_of(), 0.01, s) for s in range(8)]
    assert max(found) > (1 + 2.0**-40) ** 2 - 1


# ------------------------------------------------------------- grids and far weights


def test_factors_of_the_input_are_positive():
    with pytest.raises(ValueError, match="'input_factor' must be positive"):
        objective_of(input_factor=0.0)
