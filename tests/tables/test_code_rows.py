"""Rows of codes: products as they are, sums in which no record adds more than 1."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from skdp.losses import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy.release._plan import Layout
from skdp.sums._gradient import ClippedGradient
from skdp.tables import _coded as module
from skdp.tables._coded import CodeBasis, CodeRows, CodeSource
from skdp.tables._memory import MemorySource

SIZES = (3, 40, 2)


def basis_of(rng, scale=1.0, sizes=SIZES):
    parts = [scale * rng.normal(size=(k, rng.integers(1, 5))) for k in sizes]
    return CodeBasis(tuple(parts))


def codes_of(rng, n, sizes=SIZES):
    return np.stack([rng.integers(k, size=n) for k in sizes], 1).astype(np.uint8)


def dense(basis, codes):
    parts = zip(basis.parts, codes.T, strict=True)
    return np.hstack([part[own] for part, own in parts])


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_products_are_those_of_dense_rows(scale):
    rng = np.random.default_rng(0)
    basis, codes = basis_of(rng, scale), codes_of(rng, 200)
    rows, X = CodeRows(codes, basis), dense(basis, codes)
    weights = rng.normal(size=(basis.n_features, 3))
    residuals = rng.normal(size=(200, 3))
    factor = 1 / np.maximum(np.linalg.norm(X, axis=1), 1)[:, None]
    assert rows.shape == X.shape
    assert np.allclose(rows @ weights, X @ weights, rtol=1e-12)
    assert np.allclose(rows.T @ residuals, X.T @ (factor * residuals), rtol=1e-11)


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
        weights = CodeRows(codes, basis).T.weights
        assert max(lengths(basis, codes, weights)) <= 1


def test_broken_twin_without_room_for_rounding_is_found(monkeypatch):
    monkeypatch.setattr(module, "_ROUNDED", 1 - 1e-15)
    rng, longest = np.random.default_rng(1), Fraction(0)
    for basis in hostile_bases(rng):
        codes = codes_of(rng, 60)
        weights = CodeRows(codes, basis).T.weights
        longest = max(longest, *lengths(basis, codes, weights))
    assert longest > 1


def test_a_record_is_computed_by_itself():
    rng = np.random.default_rng(3)
    basis, codes = basis_of(rng), codes_of(rng, 100)
    weights = rng.normal(size=(basis.n_features, 2))
    among, alone = CodeRows(codes, basis), CodeRows(codes[7:8], basis)
    assert (among @ weights)[7].tobytes() == (alone @ weights)[0].tobytes()
    assert among.T.weights[7] == alone.T.weights[0]


# ------------------------------------------------------------------- gradients of rows


def objective_of(basis, n, adjacency="zero_out"):
    return LinearObjective(
        loss=LogisticLoss(),
        n_samples=n,
        n_features=basis.n_features,
        data_norm=1.0,
        product_norm=max(basis.norm, 1.0),
        adjacency=adjacency,
    )


def gradient(basis, codes, y, weights, present=None):
    source = CodeSource(MemorySource(codes, y, present), basis)
    query = ClippedGradient(objective_of(basis, len(y))).at(weights)
    return query.total(query.open(source), None)


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
        rows, r = CodeRows(codes, basis), rng.uniform(-1, 1, (300, 1))
        computed = rows.T @ r
        exact = [Fraction(0)] * basis.n_features
        for own, weight, each in zip(codes, rows.T.weights, r[:, 0], strict=True):
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
        source = CodeSource(MemorySource(codes, np.zeros(300)), basis)
        query = ClippedGradient(objective_of(basis, 300)).at(
            np.zeros((basis.n_features + 1, 1))
        )
        charged = query.slack(
            Layout(source.facts.largest_block, 1, source.facts.amplification)
        )
        assert 2 * error <= charged
