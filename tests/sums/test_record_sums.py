"""Sums of one number per record: bounds that are attained, and exact sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax

from skdp.losses import LogisticLoss, SoftmaxLoss, SquaredLoss
from skdp.privacy.release._answers import Released
from skdp.privacy.release._plan import Layout
from skdp.sums._record_sums import (
    ErrorSum,
    NoiseRatio,
    PredictionSum,
    ProbabilitySum,
    RecordSum,
    TargetSum,
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


def queries(n=N):
    coef = np.array([[0.4], [0.3], [0.3]])
    return {
        "targets": TargetSum(n, 0.0, 1.0),
        "predictions": PredictionSum(n, coef, 0.2),
        "errors": ErrorSum(n, SquaredLoss(9.0, 1.0), coef, np.array([0.1]), 0.3),
        "probabilities": ProbabilitySum(n, LogisticLoss(), coef, 0.2, 0.5),
        "ratios": NoiseRatio(n, coef, np.full(6, 1e-4), 6.0),
    }


def total(query, rows, y, present=None):
    return float(query.total(source(rows, y, present), None)[0])


@pytest.mark.parametrize("name", queries())
def test_bounds_are_attained_and_not_passed(name):
    query, rng = queries()[name], np.random.default_rng(0)
    rows, y = rng.integers(0, 2, size=(N, 3)), rng.uniform(-1, 1, N)
    bound, moved = query.bound(), {"zero_out": [], "replace_one": []}
    # The last row is long and of the largest target; or short, opposite, or null.
    rows[-1], y[-1] = 1, 1.0
    here = total(query, rows, y)
    there = np.arange(N) < N - 1
    moved["zero_out"].append(here - total(query, rows, y, there))
    for row in np.ndindex(2, 2, 2):
        for label in (-1.0, 0.0, 1.0):
            rows[-1], y[-1] = row, label
            moved["replace_one"].append(here - total(query, rows, y))
    for relation, limit in (
        ("zero_out", bound.zero_out),
        ("replace_one", bound.replace_one),
    ):
        largest = max(map(abs, moved[relation]))
        assert largest <= limit + query.slack(Layout(N))
        # No row of truth values has a ratio or an error near 0.
        if name not in ("ratios", "errors", "probabilities") or relation == "zero_out":
            assert largest > 0.999 * limit


def test_two_ratios_are_no_farther_apart_than_one_and_none():
    query = queries()["ratios"]
    assert query.bound().replace_one == query.bound().zero_out
    small = replace(query, coef=np.array([[1e-9], [0.0], [0.0]]))
    rows, y = np.ones((N, 3), dtype=int), np.zeros(N)
    assert total(query, rows, y) == pytest.approx(6 * N)
    assert total(small, rows, y) < 1e-3


@pytest.mark.parametrize("name", queries())
def test_the_same_bits_in_any_order_and_of_shares(name):
    query, rng = queries()[name], np.random.default_rng(0)
    rows, y = rng.integers(0, 2, size=(N, 3)), rng.uniform(-1, 1, N)
    order = rng.permutation(N)
    assert total(query, rows, y) == total(query, rows[order], y[order])
    half = total(query, rows, y, np.full(N, 0.5))
    assert half == pytest.approx(total(query, rows, y) / 2, rel=1e-9)


@pytest.mark.parametrize("name", queries())
def test_what_stands_in_a_null_record_does_not_count(name):
    query, there = queries()[name], np.arange(N) < N - 1
    rows, y = np.ones((N, 3), dtype=int), np.zeros(N)
    found = total(query, rows, y, there)
    rows[-1], y[-1] = 0, np.nan
    assert total(query, rows, y, there) == found


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

# Of three labels; a row of ones is certainly of the first, one of zeros of the second.
CERTAIN = np.outer(np.ones(3), [40.0, -40.0, 0.0])


def moved_probabilities():
    """How far one record moves the sums, over all rows: gone, and exchanged."""
    query = ProbabilitySum(N, SoftmaxLoss(3), CERTAIN, np.zeros(3), 1.0)
    rows, y = np.ones((N, 3), dtype=int), np.zeros(N)
    there = np.arange(N) < N - 1
    found = {}
    for row in np.ndindex(2, 2, 2):
        rows[-1] = row
        found[row] = query.total(source(rows, y), None)
    gone = query.total(source(rows, y, there), None)
    away = max(np.linalg.norm(each - gone) for each in found.values())
    apart = max(np.linalg.norm(a - b) for a in found.values() for b in found.values())
    return query, away, apart


def test_bounds_of_probabilities_of_several_labels_are_attained_and_not_passed():
    query, away, apart = moved_probabilities()
    slack = query.slack(Layout(N))
    assert 0.999 < away <= query.bound().zero_out + slack
    assert 0.999 * np.sqrt(2) < apart <= query.bound().replace_one + slack
    for relation in ("zero_out_user", "replace_user"):
        of_records = relation.removesuffix("_user").replace("replace", "replace_one")
        assert query.bound().under(relation) >= query.bound().under(of_records)


def test_twin_that_bounds_one_probability_alone_is_passed(monkeypatch):
    """As of two labels, whose sum is one number in an interval."""
    monkeypatch.setattr(ProbabilitySum, "row_bound", RecordSum.row_bound)
    query, _, apart = moved_probabilities()
    assert apart > 1.4 * query.bound().replace_one


def test_probabilities_of_several_labels_are_exact_in_any_order_and_of_shares():
    rng = np.random.default_rng(0)
    coef, constant = rng.normal(size=(3, 3)), rng.normal(size=3)
    query = ProbabilitySum(N, SoftmaxLoss(3), coef, constant, 1.0)
    rows, y = rng.integers(0, 2, size=(N, 3)), rng.integers(0, 3, N)
    found, order = query.total(source(rows, y), None), rng.permutation(N)
    assert np.array_equal(found, query.total(source(rows[order], y[order]), None))
    (block,) = source(rows, y).blocks()
    expected = softmax(block.X.made() @ coef + constant, axis=1).sum(axis=0)
    assert found == pytest.approx(expected, rel=1e-6)
    half = query.total(source(rows, y, np.full(N, 0.5)), None)
    assert half == pytest.approx(found / 2, rel=1e-9)


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
