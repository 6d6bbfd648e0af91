"""Tables made monotone: no fall is left, and what is monotone stays as it is."""

from __future__ import annotations

import numpy as np
import pytest

from skdp.columns import Categories, Range
from skdp.ensemble._linear_start import shares_or_even
from skdp.ensemble._shapes import Shape, ShapeFunctions, monotone, taken_apart
from skdp.ensemble._trees import bins_of

BINS = bins_of(
    ("a", "b", "c", "d"),
    (
        Range(0, 1, missing=True),
        Range(0, 1),
        Categories(["x", "y"], missing=True),
        Range(0, 1),
    ),
    intervals=7,
)
N_VALUES = tuple(column.n_values for column in BINS.columns)


def noisy(seed, slope, keys=((0,), (1,), (0, 1), (0, 2), (1, 3), (2, 3), (1,))):
    """Tables of noise, and a slope in the first two columns."""
    rng = np.random.default_rng(seed)
    tables = {key: rng.normal(size=[*(BINS.n_bins[j] for j in key), 1]) for key in keys}
    for j in (0, 1):
        tables[(j,)][: N_VALUES[j], 0] += slope * np.arange(N_VALUES[j])
    return taken_apart(tables, BINS, 1, shares_or_even(BINS, {}))


def everywhere():
    """All combinations of codes."""
    grids = np.meshgrid(*(np.arange(n) for n in BINS.n_bins), indexing="ij")
    return np.stack([grid.ravel() for grid in grids], axis=1).astype(np.uint8)


def raw(tables):
    shapes = tuple(
        Shape(key, table, np.zeros_like(table)) for key, table in tables.items() if key
    )
    return ShapeFunctions(BINS, tables[()], shapes).raw(everywhere())[:, 0]


def worst_step(predictions, j, direction):
    """The largest step in the wrong direction, anywhere on the grid."""
    steps = np.diff(predictions.reshape(BINS.n_bins), axis=j)
    present = np.take(steps, range(N_VALUES[j] - 1), axis=j)
    return float(np.max(-direction * present))


@pytest.mark.parametrize("slope", [0.0, 10.0])
@pytest.mark.parametrize(
    "directions", [{0: 1}, {0: -1}, {0: 1, 1: 1}, {0: 1, 1: -1}, {1: -1, 3: 1}]
)
@pytest.mark.parametrize("seed", range(2))
def test_no_step_goes_the_wrong_way(seed, directions, slope):
    tables = noisy(seed, slope)
    before, after = raw(tables), raw(monotone(tables, directions, N_VALUES))
    for j, direction in directions.items():
        assert worst_step(after, j, direction) <= 0
        # Broken twin: the same tables as they were.
        assert worst_step(before, j, direction) > 0 or (slope > 1 and direction > 0)


def test_what_is_monotone_stays():
    tables = noisy(0, 50.0)
    again = monotone(tables, {0: 1, 1: 1}, N_VALUES)
    assert np.allclose(raw(again), raw(tables), rtol=0, atol=1e-12)


def test_other_tables_and_rows_of_missing_values_stay():
    tables = noisy(2, 0.0)
    after = monotone(tables, {0: 1}, N_VALUES)
    for key in ((1,), (2,), (3,), (1, 3), (2, 3), ()):
        assert np.array_equal(after[key], tables[key])
    is_missing = everywhere()[:, 0] == 7
    change = raw(after) - raw(tables)
    assert np.abs(change[is_missing]).max() < 1e-12
    assert np.abs(change[~is_missing]).max() > 0.1
