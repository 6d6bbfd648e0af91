"""Exact sums of gradients: one answer for every layout, and what it may move by."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array

from skdp.losses import HuberHingeLoss, LogisticLoss, SoftmaxLoss, SquaredLoss
from skdp.losses._classification import WeightedLoss
from skdp.losses._objective import LinearObjective
from skdp.sums import _exact, _grid_rows
from skdp.sums import _gradient_sum as module
from skdp.sums._exact import on_grid, units_of
from skdp.sums._floating import GradientSum
from skdp.sums._gradient import ClippedGradient
from skdp.sums._grid_rows import grid_rows
from skdp.sums._record_sums import PredictionSum, RowSum
from skdp.tables._memory import MemorySource
from skdp.tables._views import CentredDense
from tests.gradients import exact_sum

LOSSES = [
    LogisticLoss(),
    SoftmaxLoss(3),
    SquaredLoss(2.0, 1.0),
    HuberHingeLoss(),
    HuberHingeLoss(n_outputs=3),
    WeightedLoss(LogisticLoss(), (0.3, 1.0)),
    WeightedLoss(SoftmaxLoss(3), (1.0, 1.0, 0.3)),
]
by_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
N, D = 500, 5


def objective_of(loss=LOSSES[0], **changes):
    facts = {"n_samples": N, "n_features": D, "data_norm": 0.8}
    return LinearObjective(
        **({"loss": loss, "adjacency": "zero_out"} | facts | changes)
    )


def table(loss=LOSSES[0], n=N, seed=0):
    """Rows of all lengths, some far beyond what can be squared, and null records."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) * 10.0 ** rng.uniform(-2, 1, (n, 1))
    X *= rng.random((n, D)) < 0.6
    X[n // 3] = 1e200 * rng.choice([-1, 1], D)
    X[n // 2] *= 1e4
    y = rng.integers(0, max(2, loss.n_outputs), n).astype(float)
    return X.clip(-3e38, 3e38).astype(np.float32), y, rng.random(n) < 0.8


def source_of(X, y, present=None, size=N):
    source = MemorySource(X, y, present)
    source.facts = replace(source.facts, largest_block=size)
    return source


# ------------------------------------------------------------------------------- rows


def longest(grid):
    """Square of the longest row, in exact arithmetic."""
    whole = grid.toarray() if hasattr(grid, "toarray") else grid
    return max(sum(int(q) ** 2 for q in row) for row in whole.tolist())


def hostile_rows(d, norm, seed=0):
    """Within the norm, at it to the last bit, beyond it, and beyond all squares."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, d))
    X *= norm / np.linalg.norm(X, axis=1)[:, None]
    X[10:20] *= 10.0 ** rng.uniform(-3, 3, (10, 1))
    X[20] = rng.choice([-1, 1], d) * 1e300
    X[21], X[22], X[23] = 0.0, 5e-324, norm / math.sqrt(d)
    X[24] *= 1e30
    return X


@pytest.mark.parametrize("norm", [1e-300, 0.3, 1e150])
@pytest.mark.parametrize("d", [1, 7, 600])
def test_no_row_is_longer_than_the_norm_and_each_is_that_of_itself(d, norm):
    X = hostile_rows(d, norm)
    with np.errstate(all="ignore"):
        grid = grid_rows(X, norm)
        alone = np.concatenate([grid_rows(row[None], norm) for row in X])
        order = np.random.default_rng(1).permutation(d)
        stores = [np.asfortranarray(X), csr_array(X)]
        stored = [grid_rows(store, norm) for store in stores]
        moved = grid_rows(X[:, order], norm)
    assert longest(grid) <= 4**22
    assert np.array_equal(grid, alone)
    assert np.array_equal(grid, stored[0])
    assert np.array_equal(grid, stored[1].toarray())
    assert np.array_equal(grid[:, order], moved)
    assert np.isfinite(grid).all()


def test_broken_twin_without_the_rule_for_long_rows_is_found(monkeypatch):
    """Rounded to the nearest integer and no more: longer than the norm by rounding."""
    X = hostile_rows(600, 1.0)[:10]
    X /= np.linalg.norm(X, axis=1)[:, None]
    assert longest(grid_rows(X, 1.0)) <= 4**22
    monkeypatch.setattr(_grid_rows, "LONGEST", 2.0**23)
    monkeypatch.setattr(_grid_rows, "scale_of", lambda norm: 2.0**22 / norm)
    assert longest(grid_rows(X, 1.0)) > 4**22


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("norm", [1.0, 1e-100, 1e100])
def test_compiled_sums_of_rows_have_the_same_bits(norm, dtype, monkeypatch):
    """Of short, long and far rows; NumPy adds up rows that are not finite."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 5)) * 10.0 ** rng.uniform(-12, 12, (60, 1))
    X[::7], X[5, 0], X[6] = 0.0, np.finfo(dtype).max, np.finfo(dtype).tiny
    wild = X.copy()
    wild[9, 1], wild[10, 0] = math.nan, math.inf
    query = RowSum(60, 5, norm)
    for rows in (X, wild):
        source, found = MemorySource(rows.astype(dtype), np.zeros(60)), set()
        for least in (0, math.inf):
            monkeypatch.setattr(module, "_WORTH_COMPILING", least)
            with np.errstate(all="ignore"):  # as the door does
                found.add(query.total(source, None).tobytes())
        assert len(found) == 1


def test_entries_stay_within_their_bound():
    X = hostile_rows(7, 1.0)[:20]
    for store in (X, csr_array(X)):
        rows = _grid_rows.gridded(store, 1.0, 0.1)
        entries = rows.entries.data if store is not X else rows.entries
        assert Fraction(float(np.abs(entries).max())) * Fraction(rows.unit) <= 0.1
        short = rows.shortened(0.25).entries
        assert longest(short) <= (2**22 / 4) ** 2


# ---------------------------------------------------------------------------- weights


@pytest.mark.parametrize("size", [1e-300, 1e-9, 1.0, 1e40, 1e200])
def test_raw_predictions_are_exact_in_any_order(size):
    rng = np.random.default_rng(2)
    W = on_grid(size * rng.normal(size=(200, 2)))
    units, unit = units_of(W)
    assert np.array_equal(units * unit, W)
    assert np.linalg.norm(units / 2.0**33) < 1
    grid = grid_rows(rng.normal(size=(50, 200)), 1.0)
    exact = grid.astype(np.int64) @ units
    for order in (np.arange(200), rng.permutation(200)):
        found = grid[:, order] @ W[order]
        assert np.array_equal(found, exact * unit)


# ----------------------------------------------------------------------------- totals


def test_blocks_are_as_long_as_double_precision_allows():
    """2^13 rows at the bounds are exact, one more is not."""
    row, residual = np.full(2**13 + 2, 2.0**22), np.full(2**13 + 2, 2.0**18)
    row[-1], residual[-1] = 1.0, 1.0
    longer = row[:-1] @ residual[:-1] + row[-1] * residual[-1]
    assert _exact.MOST_ROWS == 2**13
    assert int(longer) != 2**53 + 2**40 + 1
    objective = objective_of(n_samples=2**13 + 2, n_features=1, data_norm=1.0)
    X = np.ones((2**13 + 2, 1))
    X[-1] = 2.0**-22
    source = source_of(X, np.zeros(len(X)), size=len(X))
    W = on_grid(np.full((2, 1), 1e6))
    found = exact_sum(source, objective)(W)[0, 0]
    # The bound of a logistic residual is 1 and 1e-12 of it.
    assert found == pytest.approx(2**13 + 1 + 2.0**-22, rel=2e-12, abs=0)


# ------------------------------------------------------------------- one answer for all

FEW = 40  # records that are read one by one, too


def layouts(X, y, present):
    """The same records in other blocks, orders, storages and precisions."""
    n = len(y)
    order = np.random.default_rng(5).permutation(n)
    wide = X.astype(np.float64)
    for size in (1, 7, n) if n <= FEW else (40, 300, n):
        yield source_of(X, y, present, size)
        yield source_of(csr_array(wide), y, present, size)
    yield source_of(wide, y, present)
    yield source_of(np.asfortranarray(X), y, present)
    yield source_of(np.ascontiguousarray(X[::-1])[::-1], y, present)
    yield source_of(csr_array(X), y, present)
    yield source_of(X[order], y[order], present[order])
    yield source_of(csr_array(X[order]), y[order], present[order], 64)
    # Null records hold anything.
    wild = wide.copy()
    wild[~present] = 1e300
    yield source_of(wild, y, present)
    yield source_of(wide[present], y[present])


@pytest.fixture(params=["interpreted", "compiled"])
def way(request, monkeypatch):
    if request.param == "compiled":
        monkeypatch.setattr(module, "_WORTH_COMPILING", 0)
        monkeypatch.setattr(module, "_WORTH_NARROWING", 0)


def bits(queries, sources):
    """Answers of each query over each source, twice, as bytes."""
    found = [set() for _ in queries]
    with np.errstate(all="ignore"):  # as the door does
        for source in sources:
            for query, answers in zip(queries, found, strict=True):
                reader = query.open(source)
                for _ in range(2):
                    answers.add(query.total(reader, None).tobytes())
    return found


@by_loss
@pytest.mark.parametrize("clip", [math.inf, 0.3])
@pytest.mark.usefixtures("way")
def test_the_same_bits_for_every_layout(loss, clip):
    objective = objective_of(loss, feature_bound=0.5)
    bare = replace(objective, fit_intercept=False)
    moved = replace(objective, offset=(0.3,) * loss.n_outputs)
    W = np.random.default_rng(6).normal(size=objective.shape)
    queries = [
        ClippedGradient(objective, clip).at(W),
        ClippedGradient(bare, clip).at(W[:-1]),
        ClippedGradient(moved, clip, 0.25).at(W),
    ]
    for n in (FEW, N):
        for answers in bits(queries, layouts(*table(loss, n))):
            assert len(answers) == 1


def test_small_tables_use_compiled_code_only_if_it_is_loaded(monkeypatch):
    few, many = 100, module._WORTH_COMPILING
    assert [module.compiles(n) for n in (few, many)] == [False, True]
    monkeypatch.setattr(module, "_KERNEL", math.__name__)
    assert module.compiles(few)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("n", [FEW, N])
def test_broken_twin_of_floating_sums_is_found(n):
    W = on_grid(np.random.default_rng(6).normal(size=(D + 1, 1)))
    with np.errstate(all="ignore"):
        found = {
            GradientSum(source, objective_of())(W).tobytes()
            for source in layouts(*table(n=n))
        }
    assert len(found) > 1


@by_loss
def test_sums_of_parts_add_up_and_samples_are_sums_of_their_rows(loss):
    X, y, present = table(loss)
    objective = objective_of(loss)
    query = ClippedGradient(objective).at(np.ones((D + 1, loss.n_outputs)))

    def total(rows):
        source = source_of(X[rows], y[rows], present[rows], 64)
        return query.total(query.open(source), None)

    rows = np.sort(np.random.default_rng(7).choice(N, 130, replace=False))
    with np.errstate(all="ignore"):
        reader = query.open(source_of(X, y, present, 64))
        assert np.array_equal(query.total(reader, rows), total(rows))
        assert not query.total(reader, np.empty(0, dtype=np.int64)).any()
        # Of so few records each is a multiple of 2^-40 that double precision holds.
        halves = total(np.arange(200)) + total(np.arange(200, N))
        assert np.allclose(halves, total(np.arange(N)), rtol=0, atol=1e-12)


# --------------------------------------------------------- rows that are made of parts


def centred_table():
    """A view of rows of all lengths, in four blocks, and its weights."""
    X, y, present = table()
    source = source_of(np.where(np.abs(X) < 1e30, X, 1.0), y, present, 130)
    centre, W = np.full(D, 0.1), np.random.default_rng(6).normal(size=(D + 1, 1))
    return CentredDense(source, 0.8, centre, 0.3), W


def test_a_view_puts_rows_on_the_grid_once_and_another_one_anew():
    plain, _ = centred_table()
    view = module.grid_view(plain)
    first, again = (list(view.blocks()) for _ in range(2))
    assert all(a is b for a, b in zip(first, again, strict=True))
    queries = [PredictionSum(N, centred_table()[1][:D], 0.5)]
    for row in (3, 4):
        sources = [plain.without(row), view.without(row)]
        assert all(len(answers) == 1 for answers in bits(queries, sources))
    other = list(view.without(3).blocks())
    assert not other[0].present[3]
    assert first[0].present[3]
    plain.facts = replace(plain.facts, is_stable=False)
    moving = module.grid_view(plain)
    assert next(moving.blocks()).X is not next(moving.blocks()).X


# -------------------------------------------------------------------------- sensitivity


def test_what_has_no_bound_is_refused_or_summed_in_floating_point():
    for objective in (
        objective_of(data_norm=math.inf),
        objective_of(SquaredLoss(math.inf)),
    ):
        source = source_of(*table())
        with pytest.raises(ValueError, match=r"finite data_norm.*GradientSum"):
            exact_sum(source, objective)
        query = ClippedGradient(objective).at(np.zeros((D + 1, 1)))
        assert type(query.open(source)) is GradientSum


# ------------------------------------------------------------------------------ sources
