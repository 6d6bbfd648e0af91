"""Sums of one number per record: bounds that are attained, and exact sums."""

from __future__ import annotations

import numpy as np
import pytest

from skdp.losses import LogisticLoss, SoftmaxLoss
from skdp.privacy.release._answers import Released
from skdp.sums._record_sums import (
    ErrorSum,
    NoiseRatio,
)
from skdp.tables._centred import CentredSource
from skdp.tables._coded import CodeBasis, CodeSource
from skdp.tables._memory import MemorySource
from tests.solvers.centred import states, truth_values

N = 500


def source(rows, y, present=None):
    declared = states(3)
    centred = declared.centred(Released(np.full(6, N / 2), 0.0, 0.0), N)
    kept = MemorySource(truth_values(rows), np.asarray(y, dtype=float), present)
    return CentredSource(kept, declared.rows, centred.centring)


def total(query, rows, y, present=None):
    return float(query.total(source(rows, y, present), None)[0])


@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(3)], ids=repr)
def test_errors_are_lengths_of_residuals(loss):
    rng = np.random.default_rng(2)
    rows, y = rng.integers(0, 2, size=(N, 3)), rng.integers(0, loss.n_outputs, N)
    coef = rng.normal(size=(3, loss.n_outputs))
    offset = rng.normal(size=loss.n_outputs)
    (block,) = source(rows, y).blocks()
    residual = loss.residual(block.y, block.X.made() @ coef + offset)
    expected = np.minimum(np.linalg.norm(residual, axis=1), 0.5).sum()
    found = total(ErrorSum(N, loss, coef, offset, 0.5), rows, y)
    assert found == pytest.approx(expected, rel=1e-6)


def test_ratios_are_those_of_the_rows():
    rng = np.random.default_rng(2)
    rows, y = rng.integers(0, 2, size=(N, 3)), np.zeros(N)
    variance = rng.uniform(0.1, 1.0, 6)
    coef = np.array([[0.4, 0.1], [0.3, -0.2], [0.3, 0.1]])
    query = NoiseRatio(N, coef, variance, 6.0)
    (block,) = source(rows, y).blocks()
    states_of = rows + 2 * np.arange(3)
    own = variance[states_of].sum(axis=1) * block.X.factor**2
    squares = np.sum((block.X.made() @ coef) ** 2, axis=1)
    expected = np.minimum(squares / own, 6.0).sum()
    assert total(query, rows, y) == pytest.approx(expected, rel=1e-6)


# --------------------------------------------------------- probabilities of each label


def test_ratios_of_codes_are_those_of_the_rows():
    rng = np.random.default_rng(2)
    basis = CodeBasis(tuple(rng.normal(size=(k, 2)) for k in (3, 4)))
    codes = np.column_stack([rng.integers(0, k, N) for k in (3, 4)]).astype(np.uint8)
    variance, coef = rng.uniform(0.1, 1.0, 7), rng.normal(size=(4, 1))
    shown = CodeSource(MemorySource(codes, np.zeros(N)), basis)
    found = NoiseRatio(N, coef, variance, 6.0).total(shown, None)
    made = np.hstack([p[c] for p, c in zip(basis.parts, codes.T, strict=True)])
    own = variance[codes + np.array([0, 3])].sum(axis=1)
    expected = np.minimum((made @ coef)[:, 0] ** 2 / own, 6.0).sum()
    assert float(found[0]) == pytest.approx(expected, rel=1e-6)
