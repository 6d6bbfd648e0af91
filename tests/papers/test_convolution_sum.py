"""Convolutions: gradients, their norms, one answer for every layout, broken twins."""

from __future__ import annotations

import math
from dataclasses import replace
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
    PassedFilters,
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


# Every loss, activation and kind of layers at least once.
CASES = [
    (LOSSES[0], "one", "tanh", ()),
    (LOSSES[1], "strides", "relu", (5,)),
    (LOSSES[2], "two", "tanh", (5, 4)),
    (LOSSES[3], "pixels", "relu", (5,)),
    (LOSSES[4], "two", "relu", ()),
]
CASES += [(LOSSES[i], "two", each, (5,)) for i, each in enumerate(sorted(ACTIVATIONS))]
by_case = pytest.mark.parametrize("case", CASES, ids=repr)


def objective_of(loss=LOSSES[0], name="two", **changes):
    facts = {"n_samples": N, "n_features": D, "data_norm": 2.0, "input_factor": 2.0}
    facts |= {"input_norm": 4.0, "image": IMAGE, "convolutions": tuple(LAYERS[name])}
    facts |= {"hidden": (5,), "activation": "tanh", "adjacency": "zero_out"}
    return NetworkObjective(**({"loss": loss} | facts | changes))


def weights_of(objective, size=0.7, seed=0):
    return size * np.random.default_rng(seed).normal(size=objective.n_weights)


def of_case(case):
    loss, name, activation, hidden = case
    return objective_of(loss, name, activation=activation, hidden=hidden)


def table(loss=LOSSES[0], n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) * 10.0 ** rng.uniform(-2, 1, (n, 1))
    X *= rng.random((n, D)) < 0.6
    y = rng.integers(0, max(2, loss.n_outputs), n).astype(float)
    return X, y, rng.random(n) < 0.8


def total_of(query, source):
    with np.errstate(all="ignore"):  # as the door does
        return query.total(query.open(source), None)


def within(objective, X):
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return X * (objective.data_norm / np.maximum(norms, objective.data_norm))


# --------------------------------------------------------------------- by definition


def loss_at(objective, weights, x, y):
    layers = [(own[:-1], own[-1]) for own in objective.layers(weights)]
    rows, unit = x[None] * objective.input_factor, objective.unit
    raw = convolved_raw(rows, math.inf, objective.convolved, layers, unit)
    return float(objective.loss.value(np.array([y]), raw)[0])


def each_gradient(objective, weights, X, y):
    """Joint gradients of single records, in floating point and without any clip."""
    reader = replace(objective, data_norm=math.inf)
    sources = [
        MemorySource(row[None], own[None]) for row, own in zip(X, y, strict=True)
    ]
    return np.array([ConvolutionSum(x, reader, math.inf)(weights) for x in sources])


@by_case
def test_gradients_are_slopes_of_the_loss(case):
    objective = of_case(case)
    w, (X, y, _) = weights_of(objective, 0.5), table(case[0], 1)
    x = within(objective, X)[0]
    found = each_gradient(objective, w, x[None], y)[0]
    assert found.any()
    for i in range(0, len(w), 9):
        step = np.zeros_like(w)
        step[i] = 1e-6
        ahead = loss_at(objective, w + step, x, y[0])
        behind = loss_at(objective, w - step, x, y[0])
        assert found[i] == pytest.approx((ahead - behind) / 2e-6, abs=1e-6, rel=1e-5)


@pytest.mark.parametrize("clip", [0.05, 1.0])
def test_sums_are_those_of_clipped_gradients(clip):
    objective = objective_of(SoftmaxLoss(4))
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


@by_case
def test_the_same_bits_for_every_layout(case, monkeypatch):
    objective, (X, y, present) = of_case(case), table(case[0])
    query = ClippedNetworkGradient(objective, 0.3).at(weights_of(objective))
    found = {total_of(query, source).tobytes() for source in layouts(X, y, present)}
    monkeypatch.setattr(_convolution_sum, "_NUMBERS", 1)
    found |= {total_of(query, source).tobytes() for source in layouts(X, y, present)}
    assert len(found) == 1
    # Broken twin: floating sums.
    sources = list(layouts(within(objective, X), y, present))[:-1]
    floating = [ConvolutionSum(each, objective, 0.3) for each in sources]
    assert len({each(query.weights).tobytes() for each in floating}) > 1


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


@by_case
def test_no_term_is_longer_than_the_clip_but_for_what_is_charged(case):
    for seed in range(3):
        excess = excess_in_exact_arithmetic(of_case(case), 0.01, seed)
        assert -1e-3 < excess <= CHARGED


class _WithoutFilters(ExactConvolutionSum):
    """A twin that clips the layers of units only."""

    def _factors(self, passed, squares):
        norms = np.sqrt(PassedFilters([], passed.rest).squares(squares))
        return 1.0 / np.maximum(norms, self._clip)


def uncut(units, factors, bits):
    return units * (factors * 2.0**bits)[:, None]


def nearest(*facts):
    return np.rint(uncut(*facts))


@pytest.mark.parametrize(
    ("twin", "cut", "least"),
    [(_WithoutFilters, uncut, 1e-3), (ExactConvolutionSum, nearest, CHARGED)],
)
def test_broken_twins_of_the_clip_are_found(twin, cut, least, monkeypatch):
    monkeypatch.setattr("skdp.papers._convolution.ExactConvolutionSum", twin)
    monkeypatch.setattr(_convolution_sum, "cut_units", cut)
    found = [excess_in_exact_arithmetic(objective_of(), 0.01, s) for s in range(8)]
    assert max(found) > least


def test_predictions_are_of_clipped_images():
    objective, (X, _, _) = objective_of(), table()
    layers = objective.layers(weights_of(objective))
    pairs = [(own[:-1], own[-1]) for own in layers]
    raw, of_clipped, of_whole = (
        convolved_raw(rows, norm, objective.convolved, pairs, objective.unit)
        for rows, norm in ((X, 2.0), (within(objective, X), math.inf), (X, math.inf))
    )
    np.testing.assert_allclose(raw, of_clipped, rtol=1e-12)
    assert np.abs(raw - of_whole).max() > 0.01


@pytest.mark.parametrize(
    ("image", "convolution", "words"),
    [
        ((7, 6, 2), Convolution(3, 8), "does not fit"),
        ((200, 200, 1), Convolution(2, 3), "at most 8192 positions"),
        ((20, 20, 20), Convolution(2, 16), "at most 4096 weights"),
        ((20, 20, 1), Convolution(20, 2), "end with at most 4096"),
        ((3, 3, 3), Convolution(2, 2), "'image_shape' parameter must match"),
    ],
)
def test_what_does_not_fit_is_refused(image, convolution, words):
    n_features = D if image == (3, 3, 3) else math.prod(image)
    with pytest.raises(ValueError, match=words):
        objective_of(image=image, convolutions=(convolution,), n_features=n_features)
    for bad, kind in [(-1, ValueError), (2.0, TypeError)]:
        with pytest.raises(kind, match="pool"):
            Convolution(3, 3, pool=bad)
