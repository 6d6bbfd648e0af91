"""Plain residuals: near the true ones, and the same bits wherever they are computed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skdp._compiled import compiled, compiled_exactly
from skdp.losses import (
    CauchyLoss,
    GammaLoss,
    HuberHingeLoss,
    LogisticLoss,
    PoissonLoss,
    QuantileLoss,
    SigmoidLoss,
    SoftmaxLoss,
    SquaredLoss,
)
from skdp.losses import _base as module
from skdp.losses._base import falling_exponential, plain_error, plain_residual
from skdp.losses._classification import WeightedLoss
from skdp.losses._kernel import plain_residual_of_one
from tests.solvers.neighbours import extremes

SINGLE = [
    LogisticLoss(),
    HuberHingeLoss(),
    HuberHingeLoss(h=1e-3),
    HuberHingeLoss(h=1e3),
    SquaredLoss(2.0, 1.0),
    SquaredLoss(1.5),
    SigmoidLoss(),
    CauchyLoss(),
    CauchyLoss(c=1e-3),
    CauchyLoss(c=1e3),
    PoissonLoss(math.log(2)),
    PoissonLoss(5.0, lowest=1e-3),
    QuantileLoss(0.9),
    QuantileLoss(0.01, h=1e-3),
    GammaLoss(2.0),
    GammaLoss(0.2, most=1.3),
    WeightedLoss(LogisticLoss(), (1 / 3, 1.0)),
    WeightedLoss(HuberHingeLoss(), (1.0, 1e-3)),
]
LOSSES = [*SINGLE, SoftmaxLoss(3), SoftmaxLoss(50), HuberHingeLoss(n_outputs=4)]
LOSSES += [SigmoidLoss(n_outputs=4), CauchyLoss(n_outputs=3)]
LOSSES += [WeightedLoss(SoftmaxLoss(3), (0.3, 1.0, 0.7))]
# Leaves take it, which charge nothing for an error.
PINBALL = QuantileLoss(0.8, h=0)
by_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
N = 20_000


def predictions(loss, n=N, seed=0):
    """Targets and raw predictions of all sizes, zeros and ties among them."""
    rng = np.random.default_rng(seed)
    raw = rng.normal(size=(n, loss.n_outputs)) * 10.0 ** rng.uniform(-3, 3, (n, 1))
    raw[:5], raw[5:8] = 0.0, -0.0
    raw[8:11] = np.array([1e50, -1e50, 700.0])[:, None]
    if isinstance(loss, SquaredLoss):
        return rng.normal(size=n), raw
    if loss.form.is_of_numbers:
        low, high = extremes(loss)  # and some beyond
        return rng.uniform(low - (high - low) / 9, high + (high - low) / 9, n), raw
    return rng.integers(0, max(2, loss.n_outputs), n).astype(float), raw


def loop_of(residual):
    """A compiled loop, in which a compiler might fuse or reorder."""

    @compiled_exactly
    def loop(form, constants, y, raw, found):
        for i in range(len(raw)):
            found[i] = residual(form, constants, y[i], raw[i])

    return loop


@by_loss
def test_they_are_the_residuals_but_for_what_is_stated(loss):
    y, raw = predictions(loss)
    error = plain_residual(loss, y, raw) - loss.residual(y, raw)
    assert np.linalg.norm(error, axis=1).max() <= plain_error(loss) < 1e-8


def test_the_exponential_is_within_its_error_and_exact_at_zero(monkeypatch):
    t = np.concatenate([np.linspace(0, 70, 100_001), [1e50, math.inf]])

    def worst():
        return float(np.abs(falling_exponential(t) - np.exp(-t)).max())

    assert 1e-12 < worst() < 2.0**-38
    assert falling_exponential(np.zeros(1))[0] == 1.0
    # The broken twin: one squaring less, of a polynomial farther out.
    monkeypatch.setattr(module, "SQUARINGS", 5)
    monkeypatch.setattr(module, "SHRINK", -1 / 32)
    assert worst() > 2.0**-38


def test_of_wide_amounts_they_are_as_near_for_their_size():
    loss = GammaLoss(7.0, most=1e3)
    y, raw = predictions(loss)
    y[: N // 2] = np.exp(7 + raw[: N // 2, 0].clip(-7, 7))  # some near their means
    error = np.abs(plain_residual(loss, y, raw) - loss.residual(y, raw)).max()
    assert 1e-12 < error <= plain_error(loss) < 1e-6 * loss.zero_out_bound(math.inf)


def test_numbers_that_are_bounded_stay_bounded():
    for loss in LOSSES:
        y, raw = predictions(loss, seed=3)
        norms = np.linalg.norm(plain_residual(loss, y, raw), axis=1)
        bound = loss.zero_out_bound(math.inf) + plain_error(loss)
        assert norms.max() <= bound


@pytest.mark.parametrize("loss", [*SINGLE, PINBALL], ids=repr)
def test_compiled_code_has_the_same_bits(loss):
    """A compiler that fused a product and a sum would be seen in some of these."""
    y, raw = predictions(loss)
    found = np.empty(N)
    loop = loop_of(plain_residual_of_one)
    loop(int(loss.form), loss.form_constants, y, raw[:, 0], found)
    assert np.array_equal(found, plain_residual(loss, y, raw)[:, 0])


def test_broken_twin_that_fuses_is_found():
    y, raw = predictions(LOSSES[0])
    wanted = plain_residual(LOSSES[0], y, raw)[:, 0]

    @compiled
    def fused(form, constants, y, raw):
        u = min(abs(raw), 64.0) * (-1 / 64)
        e = (1 / 720) * u + 1 / 120
        for c in (1 / 24, 1 / 6, 1 / 2, 1.0, 1.0):
            e = e * u + c
        e = e * e * (e * e)
        e = e * e * (e * e)
        e = e * e * (e * e)
        return (1.0 if raw >= 0 else e) / (1.0 + e) - y

    found = np.empty(N)
    loop_of(fused)(0, (0.0, 0.0), y, raw[:, 0], found)
    assert np.allclose(found, wanted, rtol=0, atol=1e-11)
    assert not np.array_equal(found, wanted)
