"""Convolutions: gradients, their norms, one answer for every layout, broken twins.

The references go position by position, as the definition does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array

from skdp.losses import (
    CauchyLoss,
    LogisticLoss,
    SigmoidLoss,
    SoftmaxLoss,
    SquaredLoss,
)
from skdp.losses._objective import ACTIVATIONS, NetworkObjective
from skdp.neural_network import Convolution
from skdp.papers import _convolution_sum
from skdp.papers._convolution import convolved_raw
from skdp.papers._convolution_sum import (
    ConvolutionSum,
    ExactConvolutionSum,
    FilterGradients,
    PassedFilters,
    _Seen,
)
from skdp.sums._network import ClippedNetworkGradient
from skdp.tables._memory import MemorySource

LOSSES = [
    LogisticLoss(),
    SoftmaxLoss(4),
    SquaredLoss(2.0, 1.0),
    CauchyLoss(n_outputs=3),
    SigmoidLoss(),
]
by_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
by_activation = pytest.mark.parametrize("activation", ACTIVATIONS)
IMAGE = (7, 6, 2)
D = math.prod(IMAGE)
N = 24
LAYERS = {
    "one": [Convolution(3, 3)],
    "strides": [Convolution(3, 3, stride=2, padding=2, pool=2)],
    "two": [
        Convolution(3, 3, padding=1, pool=2),
        Convolution(2, 2, stride=2, pool=2, pool_stride=2),
    ],
    "pixels": [Convolution(4, 1, pool=3, pool_stride=2)],
}
by_layers = pytest.mark.parametrize("name", LAYERS)
by_hidden = pytest.mark.parametrize("hidden", [(), (5,), (5, 4)])


def objective_of(loss=LOSSES[0], name="two", **changes):
    facts = {"n_samples": N, "n_features": D, "data_norm": 2.0, "input_factor": 2.0}
    facts |= {"input_norm": 4.0, "image": IMAGE, "convolutions": tuple(LAYERS[name])}
    facts |= {"hidden": (5,), "activation": "tanh", "adjacency": "zero_out"}
    return NetworkObjective(**({"loss": loss} | facts | changes))


def weights_of(objective, size=0.7, seed=0):
    return size * np.random.default_rng(seed).normal(size=objective.n_weights)


def table(loss=LOSSES[0], n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) * 10.0 ** rng.uniform(-2, 1, (n, 1))
    X *= rng.random((n, D)) < 0.6
    y = rng.integers(0, max(2, loss.n_outputs), n).astype(float)
    return X, y, rng.random(n) < 0.8


def total_of(query, source, rows=None):
    with np.errstate(all="ignore"):  # as the door does
        return query.total(query.open(source), rows)


def within(objective, X):
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return X * (objective.data_norm / np.maximum(norms, objective.data_norm))


# --------------------------------------------------------------------- by definition


def filtered(image, own, matrix):
    """Raw values and kept ones of one image, one position and window at a time."""
    pad = np.pad(image, [(own.padding,) * 2] * 2 + [(0, 0)])
    k, s = own.kernel, own.stride
    down = (pad.shape[0] - k) // s + 1
    across = (pad.shape[1] - k) // s + 1
    raw = np.empty((down, across, own.n_filters))
    for i in range(down):
        for j in range(across):
            patch = pad[i * s : i * s + k, j * s : j * s + k].ravel()
            raw[i, j] = patch @ matrix[:-1] + matrix[-1]
    t = own.pool_stride
    kept = np.empty(
        ((down - own.pool) // t + 1, (across - own.pool) // t + 1, raw.shape[2])
    )
    for i in range(kept.shape[0]):
        for j in range(kept.shape[1]):
            window = raw[i * t : i * t + own.pool, j * t : j * t + own.pool]
            kept[i, j] = window.max(axis=(0, 1))
    return kept


def loss_at(objective, weights, x, y):
    layers = objective.layers(weights)
    n = len(objective.convolutions)
    values = (x * objective.input_factor).reshape(objective.image)
    for own, layer in zip(objective.convolutions, layers, strict=False):
        values = objective.unit.value(filtered(values, own, layer))
    values = values.ravel()[None]
    for layer in layers[n:-1]:
        values = objective.unit.value(values @ layer[:-1] + layer[-1])
    raw = values @ layers[-1][:-1] + layers[-1][-1]
    return float(objective.loss.value(np.array([y]), raw)[0])


def each_gradient(objective, weights, X, y):
    """Joint gradients of single records, in floating point and without any clip."""
    reader = replace(objective, data_norm=math.inf)
    return np.array(
        [
            ConvolutionSum(MemorySource(row[None], own[None]), reader, math.inf)(
                weights
            )
            for row, own in zip(X, y, strict=True)
        ]
    )


@by_loss
@by_activation
@by_layers
def test_gradients_are_slopes_of_the_loss(loss, activation, name):
    objective = objective_of(loss, name, activation=activation)
    w, (X, y, _) = weights_of(objective, 0.5), table(loss, 1)
    x = within(objective, X)[0]
    found = each_gradient(objective, w, x[None], y)[0]
    assert found.any()
    for i in range(0, len(w), 5):
        step = np.zeros_like(w)
        step[i] = 1e-6
        ahead = loss_at(objective, w + step, x, y[0])
        behind = loss_at(objective, w - step, x, y[0])
        assert found[i] == pytest.approx((ahead - behind) / 2e-6, abs=1e-6, rel=1e-5)


# ----------------------------------------------------------------------------- norms


def passed_of(objective, weights, X, y):
    """Rows, and what the exact sum makes of them, in one run."""
    reader = ExactConvolutionSum(MemorySource(X, y), objective, 1.0)
    (block,) = reader._blocks(None)
    layers = objective.layers(weights)
    with np.errstate(all="ignore"):
        return reader._passed(block.X.products.in_double(), block, layers)


def explicit(passed):
    """Joint gradients as they are summed, before the clip."""
    parts = [own.own.units * own.own.unit[:, None] for own in passed.filters]
    for given, delta in zip(passed.rest.inputs, passed.rest.deltas, strict=True):
        values = given.units * given.unit[:, None]
        sent = delta.units * delta.unit[:, None]
        outer = np.einsum("ni,nj->nij", values, sent)
        parts.append(outer.reshape(len(values), -1))
    return np.concatenate(parts, axis=1)


@by_loss
@by_layers
@by_hidden
def test_norms_are_those_of_explicit_gradients(loss, name, hidden):
    objective = objective_of(loss, name, hidden=hidden)
    query = ClippedNetworkGradient(objective, 1.0).at(weights_of(objective))
    X, y, _ = table(loss)
    passed = passed_of(objective, query.weights, X, y)
    found = np.sqrt(passed.squares(np.zeros(N)))
    gradients = explicit(passed)
    wanted = np.linalg.norm(gradients, axis=1)
    assert np.allclose(found, wanted, rtol=1e-12, atol=0)
    # And what is summed is the gradient, but for its grids.
    plain = each_gradient(objective, query.weights, within(objective, X), y)
    error = np.abs(gradients - plain).max(axis=1)
    assert (error <= 2e-4 * (1e-6 + np.abs(plain).max(axis=1))).all()


@by_activation
@pytest.mark.parametrize("clip", [0.05, 1.0])
def test_sums_are_those_of_clipped_gradients(activation, clip):
    objective = objective_of(SoftmaxLoss(4), activation=activation)
    query = ClippedNetworkGradient(objective, clip).at(weights_of(objective))
    X, y, _ = table(SoftmaxLoss(4))
    X = within(objective, X)
    each = each_gradient(objective, query.weights, X, y)
    norms = np.linalg.norm(each, axis=1, keepdims=True)
    wanted = (each * (clip / np.maximum(norms, clip))).sum(axis=0)
    found = total_of(query, MemorySource(X, y))
    assert np.abs(found - wanted).max() <= clip * N * 3e-5
    floating = ConvolutionSum(MemorySource(X, y), objective, clip)(query.weights)
    assert np.allclose(floating, wanted, rtol=1e-10, atol=1e-12)


# ------------------------------------------------------------------ one answer for all


def layouts(X, y, present):
    """The same records in other blocks, orders and storages."""

    def of(X, y, present=None, size=N):
        source = MemorySource(X, y, present)
        source.facts = replace(source.facts, largest_block=size)
        return source

    order = np.random.default_rng(5).permutation(len(y))
    for size in (1, 7, len(y)):
        yield of(X, y, present, size)
    yield of(csr_array(X), y, present, 5)
    yield of(np.asfortranarray(X), y, present)
    yield of(X[order], y[order], present[order], 11)
    yield of(X[present], y[present])
    # Null records hold anything.
    wild = X.copy()
    wild[~present] = 1e300
    yield of(wild, y, present)


@by_loss
@by_activation
def test_the_same_bits_for_every_layout(loss, activation, monkeypatch):
    objective = objective_of(loss, activation=activation)
    query = ClippedNetworkGradient(objective, 0.3).at(weights_of(objective))
    found = {total_of(query, source).tobytes() for source in layouts(*table(loss))}
    monkeypatch.setattr(_convolution_sum, "_NUMBERS", 1)
    found |= {total_of(query, source).tobytes() for source in layouts(*table(loss))}
    assert len(found) == 1


def test_broken_twin_of_floating_sums_is_found():
    objective = objective_of()
    w = weights_of(objective)
    X, y, present = table()
    sources = list(layouts(within(objective, X), y, present))[:-1]
    found = {ConvolutionSum(source, objective, 0.3)(w).tobytes() for source in sources}
    assert len(found) > 1


# ------------------------------------------------------------------------ sensitivity

CHARGED = (1 + 2.0**-40) ** 2 - 1


def hostile(objective, seed):
    """Rows of all lengths, flat ones too, whose patches are all alike."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(8, D)) * 10.0 ** rng.uniform(-3, 3, (8, 1))
    X[0], X[1], X[2] = 0.0, 1e300, 1.0
    y = rng.integers(0, max(2, objective.loss.n_outputs), 8).astype(float)
    return X, y


def excess_in_exact_arithmetic(objective, clip, seed=0):
    """Largest squared norm of a record's term over the clip's, less 1, exactly."""
    query = ClippedNetworkGradient(objective, clip).at(weights_of(objective, 1.0, seed))
    X, y = hostile(objective, seed)
    found = Fraction(0)
    for i in range(len(y)):
        total = total_of(query, MemorySource(X[i : i + 1], y[i : i + 1]))
        squares = sum(Fraction(float(own)) ** 2 for own in total)
        found = max(found, squares / Fraction(clip) ** 2)
    return float(found - 1)


@by_loss
@by_layers
def test_no_term_is_longer_than_the_clip_but_for_what_is_charged(loss, name):
    for seed in range(3):
        excess = excess_in_exact_arithmetic(objective_of(loss, name), 0.01, seed)
        assert -1e-3 < excess <= CHARGED


class _Unshared(ExactConvolutionSum):
    """A twin that forgets that weights are shared: norms of positions, summed."""

    def _filters(self, sent, seen, values, layers):
        self._squares = 0.0
        kept = [_Counted(own.patches, own.unit, own.chosen, self) for own in seen]
        return super()._filters(sent, kept, values, layers)

    def _factors(self, passed, squares):
        squares = self._squares + PassedFilters([], passed.rest).squares(squares)
        return 1.0 / np.maximum(np.sqrt(squares), self._clip)


@dataclass(frozen=True, eq=False)
class _Counted(_Seen):
    twin: _Unshared

    def gradients(self, sent, unit):
        of_patches = ((self.patches * self.unit) ** 2).sum(axis=2) + 1.0
        of_sent = ((sent * unit) ** 2).sum(axis=2)
        self.twin._squares = self.twin._squares + (of_patches * of_sent).sum(axis=1)
        return super().gradients(sent, unit)


class _WithoutBiases(ExactConvolutionSum):
    """A twin whose norms leave the biases of filters out."""

    def _factors(self, passed, squares):
        bare = []
        for own in passed.filters:
            units = own.own.units.reshape(-1, *own.shape).copy()
            units[:, -1] = 0.0
            grid = replace(own.own, units=units.reshape(len(units), -1))
            bare.append(FilterGradients(grid, own.shape))
        norms = np.sqrt(PassedFilters(bare, passed.rest).squares(squares))
        return 1.0 / np.maximum(norms, self._clip)


class _WithoutFilters(ExactConvolutionSum):
    """A twin that clips the layers of units only."""

    def _factors(self, passed, squares):
        norms = np.sqrt(PassedFilters([], passed.rest).squares(squares))
        return 1.0 / np.maximum(norms, self._clip)


class _Single(ExactConvolutionSum):
    """A twin whose norms are of single precision: too short by rounding."""

    def _factors(self, passed, squares):
        narrow = explicit(passed).astype(np.float32)
        norms = np.sqrt(np.einsum("ij,ij->i", narrow, narrow)).astype(np.float64)
        return 1.0 / np.maximum(norms, self._clip)


@pytest.mark.parametrize("twin", [_Unshared, _WithoutBiases, _WithoutFilters, _Single])
def test_broken_twins_of_the_clip_are_found(twin, monkeypatch):
    monkeypatch.setattr("skdp.papers._convolution.ExactConvolutionSum", twin)

    def uncut(units, factors, bits):
        return units * (factors * 2.0**bits)[:, None]

    # Cutting hides less than what single precision is too long by.
    monkeypatch.setattr(_convolution_sum, "cut_units", uncut)
    found = [excess_in_exact_arithmetic(objective_of(), 0.01, s) for s in range(6)]
    assert max(found) > (1e-8 if twin is _Single else 1e-3)


def test_broken_twin_that_rounds_to_the_nearest_is_found(monkeypatch):
    def nearest(units, factors, bits):
        return np.rint(units * (factors * 2.0**bits)[:, None])

    monkeypatch.setattr(_convolution_sum, "cut_units", nearest)
    found = [excess_in_exact_arithmetic(objective_of(), 0.01, s) for s in range(8)]
    assert max(found) > CHARGED


def test_predictions_are_of_clipped_images():
    objective, (X, _, _) = objective_of(), table()
    layers = objective.layers(weights_of(objective))
    pairs = [(own[:-1], own[-1]) for own in layers]
    raw, of_clipped = (
        convolved_raw(rows, norm, objective.convolved, pairs, objective.unit)
        for rows, norm in ((X, 2.0), (within(objective, X), math.inf))
    )
    np.testing.assert_allclose(raw, of_clipped, rtol=1e-12)
    assert (
        np.abs(
            raw - convolved_raw(X, math.inf, objective.convolved, pairs, objective.unit)
        ).max()
        > 0.01
    )


# --------------------------------------------------------------------- declared shapes


@pytest.mark.parametrize(
    ("image", "convolution", "words"),
    [
        ((200, 200, 1), Convolution(2, 3), "at most 8192 positions"),
        ((20, 20, 20), Convolution(2, 16), "at most 4096 weights"),
        ((20, 20, 1), Convolution(20, 2), "end with at most 4096"),
        ((3, 3, 3), Convolution(2, 2), "'image_shape' parameter must be that"),
    ],
)
def test_what_is_too_much_is_refused(image, convolution, words):
    n_features = D if image == (3, 3, 3) else math.prod(image)
    with pytest.raises(ValueError, match=words):
        objective_of(image=image, convolutions=(convolution,), n_features=n_features)
