"""Rows of codes: products as they are, sums in which no record adds more than 1."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from skdp.losses import HuberHingeLoss, LogisticLoss, SoftmaxLoss, SquaredLoss
from skdp.losses._base import LossId
from skdp.losses._classification import WeightedLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy.release._plan import Layout
from skdp.sums import _gradient_sum
from skdp.sums._exact import RESIDUAL_BITS, on_grid
from skdp.sums._gradient import ClippedGradient
from skdp.sums._gradient_sum import residual_of
from skdp.sums._grid_rows import gridded
from skdp.tables import _coded as module
from skdp.tables._coded import CodeBasis, CodeRows, CodeSource
from skdp.tables._memory import MemorySource, UserSource
from skdp.tables._source import Block, has_shares

SIZES = (3, 40, 2)
LOGISTIC = LogisticLoss()


def basis_of(rng, scale=1.0, sizes=SIZES):
    parts = [scale * rng.normal(size=(k, rng.integers(1, 5))) for k in sizes]
    return CodeBasis(tuple(parts))


def codes_of(rng, n, sizes=SIZES):
    return np.stack([rng.integers(k, size=n) for k in sizes], 1).astype(np.uint8)


def dense(basis, codes):
    parts = zip(basis.parts, codes.T, strict=True)
    return np.hstack([part[own] for part, own in parts])


def lengths(basis, codes, weights):
    """Squares of weighted rows, exactly."""
    found = []
    for own, weight in zip(codes, weights, strict=True):
        each = (
            Fraction(float(entry))
            for part, code in zip(basis.parts, own, strict=True)
            for entry in part[code]
        )
        found.append(sum(entry**2 for entry in each) * Fraction(float(weight)) ** 2)
    return found


def hostile_bases(rng):
    """Rows about as long as 1, far longer, and of parts of very different size."""
    for scale in (0.2, 0.4, 1.0, 1e6, 1e100):
        yield basis_of(rng, scale)
    parts = basis_of(rng).parts
    uneven = zip(parts, (1e-8, 1.0, 1e5), strict=True)
    yield CodeBasis(tuple(scale * part for part, scale in uneven))
    row = np.linalg.norm([part[0] for part in map(np.ravel, parts)])
    yield CodeBasis(tuple(part / row for part in parts))


def test_no_weighted_row_is_longer_than_one_in_exact_arithmetic():
    rng = np.random.default_rng(1)
    for basis in hostile_bases(rng):
        codes = codes_of(rng, 60)
        weights = CodeRows(codes, basis).factor
        assert max(lengths(basis, codes, weights)) <= 1


def test_broken_twin_without_room_for_rounding_is_found(monkeypatch):
    monkeypatch.setattr(module, "_ROUNDED", 1 - 1e-15)
    rng, longest = np.random.default_rng(1), Fraction(0)
    for basis in hostile_bases(rng):
        codes = codes_of(rng, 60)
        weights = CodeRows(codes, basis).factor
        longest = max(longest, *lengths(basis, codes, weights))
    assert longest > 1


def test_a_record_is_computed_by_itself():
    rng = np.random.default_rng(3)
    basis, codes = basis_of(rng), codes_of(rng, 100)
    weights = on_grid(rng.normal(size=(basis.n_features, 2)))
    among, alone = (gridded(CodeRows(own, basis), 1.0) for own in (codes, codes[7:8]))
    assert among.raw(weights)[7].tobytes() == alone.raw(weights)[0].tobytes()
    assert among.factor[7] == alone.factor[0]


# ------------------------------------------------------------------- gradients of rows


def objective_of(basis, n, adjacency="zero_out", loss=LOGISTIC, **facts):
    return LinearObjective(
        loss=loss,
        n_samples=n,
        n_features=basis.n_features,
        data_norm=1.0,
        product_norm=max(basis.norm, 1.0),
        adjacency=adjacency,
        **facts,
    )


def gradient(basis, codes, y, weights, present=None, clip=math.inf, **facts):
    source = MemorySource(codes, y, present)
    if has_shares(present):
        source = UserSource(codes, y, present, len(y))
    source = CodeSource(source, basis)
    query = ClippedGradient(objective_of(basis, len(y), **facts), clip).at(weights)
    return query.total(query.open(source), None)


def plain_gradient(basis, codes, y, weights, present, clip, **facts):
    """`gradient` by NumPy, as it is written for rows of any kind."""
    objective, block = objective_of(basis, len(y), **facts), Block(codes, y, present)
    gradients = ClippedGradient(objective, clip)
    grid = gridded(CodeRows(codes, basis), 1.0)
    raw = grid.raw(on_grid(weights))
    if objective.offset:
        raw += objective.offset
    loss, largest = objective.loss, gradients.largest_residual
    residual = residual_of(loss, block, raw, clip)
    units = np.floor(residual * (2.0**RESIDUAL_BITS / largest) + 0.5)
    if has_shares(present):
        units = np.trunc(units * present[:, None])
        residual = units * (largest * 2.0**-RESIDUAL_BITS)
    residual = residual * grid.factor[:, None]
    fine = np.floor(residual * (2.0**grid.bits / largest) + 0.5).astype(np.int64)
    sums = np.zeros((int(basis.starts[-1]), loss.n_outputs), dtype=np.int64)
    for start, own in zip(basis.starts[:-1], codes.T, strict=True):
        np.add.at(sums, start + own, fine)
    found = basis.features(sums.astype(float)) * (largest * 2.0**-grid.bits)
    if objective.fit_intercept:
        constant = units.sum(axis=0)[None] * (largest * 2.0**-RESIDUAL_BITS)
        found = np.concatenate([found, constant])
    return found


LOSSES = {
    "labels": LOGISTIC,
    "labels with weights": WeightedLoss(LOGISTIC, (0.3, 1.0)),
    "numbers": SquaredLoss(0.7, 1.0),
    "several labels": SoftmaxLoss(3),
    "several labels with weights": WeightedLoss(SoftmaxLoss(4), (1.0, 0.2, 1.0, 0.5)),
    "one against the rest": HuberHingeLoss(n_outputs=3),
    "a hinge": HuberHingeLoss(),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("clip", [math.inf, 0.4])
@pytest.mark.parametrize("rows", ["all", "present", "shares"])
def test_compiled_sums_are_those_of_plain_arithmetic_to_the_last_bit(loss, clip, rows):
    """In every block, on every thread, and for rows that fill no run of the loops."""
    rng, n = np.random.default_rng(11), 1_000
    basis, codes = basis_of(rng, 2.0), codes_of(rng, n)
    k = loss.n_outputs
    y = rng.uniform(-1.5, 1.5, n)
    if not loss.form.is_of_numbers:
        y = rng.integers(max(k, 2), size=n).astype(float)
    present = {
        "all": None,
        "present": rng.random(n) < 0.7,
        "shares": 1 / rng.integers(1, 9, n) * (rng.random(n) < 0.7),
    }[rows]
    # NumPy would take NaN as an index into the outputs of a softmax.
    if present is not None and loss.form is not LossId.SOFTMAX:
        y[present == 0] = math.nan
    for facts in ({}, {"fit_intercept": False, "offset": (0.3,) * k}):
        d = basis.n_features + facts.get("fit_intercept", True)
        weights = rng.normal(size=(d, k))
        asked = {"present": present, "clip": clip, "loss": loss, **facts}
        expected = plain_gradient(basis, codes, y, weights, **asked)
        for threads, most in ((1, 1 << 20), (3, 1 << 20), (1, 300)):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(_gradient_sum, "n_threads_for", lambda n, k=threads: k)
                patch.setattr(module, "_ROWS_OF_A_BLOCK", most)
                found = gradient(basis, codes, y, weights, **asked)
            assert np.array_equal(found, expected)
        assert np.abs(expected).max() > 1


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_bounds_hold_at_any_weights_and_are_attained(adjacency):
    """Records at the longest row, right and wrong as far as can be."""
    rng, largest = np.random.default_rng(5), 0.0
    for scale in (0.3, 1.0, 3.0):
        basis = basis_of(rng, scale)
        best = [np.linalg.norm(part, axis=1).argmax() for part in basis.parts]
        codes = codes_of(rng, 30)
        codes[0] = best
        for size in (0.0, 0.1, 1.0, 10.0):
            weights = rng.normal(size=(basis.n_features + 1, 1))
            along = dense(basis, codes[:1]).T / basis.norm
            if rng.random() < 0.5:
                weights[:-1] = along
            weights *= size / np.linalg.norm(weights)
            objective = objective_of(basis, 30, adjacency)
            bound = ClippedGradient(objective).at(weights).bound().under(adjacency)
            moved = moves(basis, codes, weights, adjacency, rng)
            assert moved <= bound * (1 + 1e-9)
            largest = max(largest, moved / bound)
    # Under replace_one opposite rows have the same intercept.
    assert largest > (0.99 if adjacency == "zero_out" else 0.7)


def moves(basis, codes, weights, adjacency, rng):
    """How far a record of any codes and label moves the sum, at most."""
    found = []
    for label in (0.0, 1.0):
        y = np.full(len(codes), label)
        present = np.ones(len(codes), dtype=bool)
        first = gradient(basis, codes, y, weights, present)
        if adjacency == "zero_out":
            present[0] = False
            other = gradient(basis, codes, y, weights, present)
            found.append(np.linalg.norm(first - other))
            continue
        for _ in range(8):
            changed, labels = codes.copy(), y.copy()
            labels[0] = 1 - label
            if rng.random() < 0.7:
                changed[0] = codes_of(rng, 1)[0]
            found.append(
                np.linalg.norm(first - gradient(basis, changed, labels, weights))
            )
    return max(found)


def test_rounding_is_within_what_is_charged():
    """The sum as computed and the sum in rational numbers, given the residuals."""
    rng = np.random.default_rng(8)
    for scale in (1e-3, 1.0, 50.0):
        basis, codes = basis_of(rng, scale), codes_of(rng, 300)
        r, weights = rng.uniform(-1, 1, (300, 1)), np.zeros((basis.n_features + 1, 1))
        # Residuals of predictions of 0 are the targets with another sign.
        source = CodeSource(MemorySource(codes, -r[:, 0]), basis)
        query = ClippedGradient(objective_of(basis, 300, loss=SquaredLoss(1.0))).at(
            weights
        )
        computed = query.total(query.open(source), None)[:-1]
        exact = [Fraction(0)] * basis.n_features
        for own, weight, each in zip(
            codes, CodeRows(codes, basis).factor, r[:, 0], strict=True
        ):
            entries = np.concatenate(
                [part[c] for part, c in zip(basis.parts, own, strict=True)]
            )
            share = Fraction(float(weight)) * Fraction(float(each))
            exact = [
                total + Fraction(float(entry)) * share
                for total, entry in zip(exact, entries, strict=True)
            ]
        pairs = zip(computed[:, 0], exact, strict=True)
        error = math.sqrt(sum(float(Fraction(float(c)) - e) ** 2 for c, e in pairs))
        facts = source.facts
        charged = query.slack(
            Layout(facts.largest_block, 1, facts.amplification, facts.cells)
        )
        assert 2 * error <= charged
