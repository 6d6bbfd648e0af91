"""Columns of later trees: weights from released values alone, and draws by them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from skdp._fit import Progress
from skdp.ensemble import _adaptive, _gains
from skdp.ensemble._adaptive import MadeUpRecords
from skdp.ensemble._linear_start import Curves
from skdp.ensemble._trees import TreeDraws
from tests.door import answers_for
from tests.ensemble.coded import MIXED, codes_of, draw_trees, source_of, targets_of
from tests.ensemble.fits import solver_of, task_of
from tests.spies import SpyNoise

N_COLUMNS = len(MIXED.n_bins)
EVEN = tuple(np.full(size, 1 / size) for size in MIXED.n_bins)


def weights_of(trees, values, n_outputs=1):
    made_up = MadeUpRecords(MIXED, EVEN, n_outputs)
    for t, own in enumerate(values):
        made_up.add(trees[t], own)
    return made_up.column_weights()


def trees_of_column_3():
    """Trees of one column each, and values that are large for one column."""
    trees = draw_trees(MIXED, n_trees=40, max_depth=3, seed=0, interactions=(1,))
    rng = np.random.default_rng(0)
    values = 0.05 * rng.normal(size=(40, trees.n_leaves, 1))
    for t, pool in enumerate(trees.columns):
        values[t] *= 20 if pool == (3,) else 1
    return trees, values


# ----------------------------------------------------------------------------- weights


@pytest.mark.parametrize("size", [0.0, 1e-9, 1.0, 1e6])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_weights_add_up_and_leave_every_column_a_chance(size, n_outputs):
    trees = draw_trees(MIXED, n_trees=6, max_depth=4, seed=0)
    rng = np.random.default_rng(0)
    values = size * rng.normal(size=(6, trees.n_leaves, n_outputs))
    weights = weights_of(trees, values, n_outputs)
    assert weights.sum() == pytest.approx(1.0)
    assert (weights > 0.2 / N_COLUMNS).all()
    again = weights_of(trees, values, n_outputs)
    assert weights.tobytes() == again.tobytes()
    # Rounding of the last bits of predictions changes no weight.
    if size:
        assert np.array_equal(weights, weights_of(trees, values * 2, n_outputs))


def test_a_column_that_changes_predictions_weighs_more():
    trees, values = trees_of_column_3()
    weights = weights_of(trees, values)
    assert weights.argmax() == 3
    assert weights[3] > 0.7
    assert weights_of(trees, 0 * values) == pytest.approx([1 / N_COLUMNS] * N_COLUMNS)


def test_half_of_a_weight_is_by_the_linear_model_before():
    trees, values = trees_of_column_3()
    steep = [np.zeros((size, 1)) for size in MIXED.n_bins]
    steep[1][:, 0] = np.linspace(-1, 1, len(steep[1]))

    def weights(tables):
        curves = SimpleNamespace(at=lambda codes: Curves.at(tables, codes))
        made_up = MadeUpRecords(MIXED, EVEN, 1, curves)
        for t, own in enumerate(values):
            made_up.add(trees[t], own)
        return made_up.column_weights()

    found = weights(SimpleNamespace(tables=tuple(steep)))
    by_line = 2 * found - weights_of(trees, values)
    assert by_line.argmax() == 1
    assert by_line[1] > 0.8
    assert found.sum() == pytest.approx(1.0, abs=N_COLUMNS * 2.0**-10)
    # Owners whose processors round the curves otherwise find the same weights. Here
    # curves differ by more than that, and some of them fall on another whole number.
    rng = np.random.default_rng(0)
    rounded = [each + 3e-7 * rng.uniform(-1, 1, each.shape) for each in steep]
    again = weights(SimpleNamespace(tables=tuple(rounded)))
    assert found.tobytes() == again.tobytes()


# ------------------------------------------------------------------------------- draws


def frequencies(columns):
    return np.bincount(columns, minlength=N_COLUMNS) / len(columns)


WEIGHTS = np.array([0.5, 0.1, 0.1, 0.3])


@pytest.mark.parametrize("interactions", [(1,), (None,)])
def test_columns_are_cut_as_often_as_they_weigh(interactions):
    n_trees = 4000
    facts = {"n_trees": n_trees, "max_depth": 1, "interactions": interactions}
    trees = draw_trees(MIXED, **facts, seed=0, weights=WEIGHTS)
    allowed = 5 * np.sqrt(WEIGHTS * (1 - WEIGHTS) / n_trees)
    assert (np.abs(frequencies(trees.feature[:, 0]) - WEIGHTS) < allowed).all()
    plain = draw_trees(MIXED, **facts, seed=0)
    even = np.full(N_COLUMNS, 1 / N_COLUMNS)
    assert frequencies(plain.feature[:, 0]) == pytest.approx(even, abs=0.035)


def test_weighted_columns_of_a_tree_are_of_one_group():
    groups = [(0, 1, 2), (1, 2, 3)]
    facts = {"n_trees": 300, "max_depth": 5, "seed": 0, "weights": WEIGHTS}
    trees = draw_trees(MIXED, **facts, groups=groups)
    assert {0, 1, 2, 3} == set().union(*trees.columns)
    assert all(any(set(c) <= set(g) for g in groups) for c in trees.columns)
    sizes = [len(columns) for columns in draw_trees(MIXED, **facts).columns]
    assert set(sizes[0::3]) == {1}
    assert set(sizes[1::3]) == {2}


def test_without_weights_trees_are_drawn_as_if_at_once():
    whole = TreeDraws(MIXED, max_depth=5, seed=3).draw(12)
    draws = TreeDraws(MIXED, max_depth=5, seed=3)
    parts = draws.draw(5).joined(draws.draw(7))
    for name in ("feature", "cut", "rank"):
        assert np.array_equal(getattr(whole, name), getattr(parts, name))


# ------------------------------------------------------- only released values are used


class Replayed(SpyNoise):
    """A noise source that releases given values, whatever the records say."""

    def __init__(self, released):
        super().__init__(seed=0)
        self._released = iter(released)

    def gaussian(self, query, **facts):
        honest = super().gaussian(query, **facts)
        given = next(self._released)
        assert honest.shape == given.shape
        return given


def grown(seed, noise):
    """Trees of a fit, some of which are drawn by weights."""
    codes = codes_of(MIXED, 500, seed)
    y = targets_of("logistic", codes, 1, seed)
    task = task_of("logistic", len(y))
    solver = solver_of(task, n_estimators=70, max_depth=3)
    source = source_of(codes, y)
    answers = answers_for(solver.plan(task), source, 1.0, "replace_one", noise)
    return solver.run(answers, task, Progress())


def bits(model):
    trees = model.trees
    parts = (trees.feature, trees.cut, trees.rank, model.values)
    return tuple(each.tobytes() for each in parts)


def test_the_same_answers_about_other_records_give_the_same_trees():
    noise = SpyNoise(seed=1)
    model = grown(0, noise)
    released = [draw.released for draw in noise.draws]
    replayed = Replayed(released)
    assert bits(grown(1, replayed)) == bits(model)
    # The records and their exact sums were others.
    pairs = zip(noise.draws, replayed.draws, strict=True)
    assert not any(np.array_equal(a.query, b.query) for a, b in pairs)
    # Other answers give other trees, from the first tree with weights on.
    other = grown(1, SpyNoise(seed=2)).trees
    assert not np.array_equal(model.trees.feature[50:], other.feature[50:])


def test_broken_twin_whose_weights_know_the_records_is_seen(monkeypatch):
    known = []

    def weights(self):
        return known[-1]

    monkeypatch.setattr(_adaptive.MadeUpRecords, "column_weights", weights)
    noise = SpyNoise(seed=1)
    known.append(np.bincount(codes_of(MIXED, 500, 0)[0] % 4, minlength=4) + 0.1)
    model = grown(0, noise)
    known.append(np.bincount(codes_of(MIXED, 500, 1)[0] % 4, minlength=4) + 0.2)
    replayed = Replayed([draw.released for draw in noise.draws])
    assert bits(grown(1, replayed)) != bits(model)


# ------------------------------------------------------------------------ clip of gains


def test_gains_are_clipped_to_a_multiple_of_what_trees_add(monkeypatch):
    asked, spreads = [], []
    honest, spread = _gains.ModelGains, MadeUpRecords.spread

    def seen(*facts):
        asked.append(honest(*facts))
        return asked[-1]

    def noted(self):
        spreads.append(spread(self))
        return spreads[-1]

    monkeypatch.setattr(_gains, "ModelGains", seen)
    monkeypatch.setattr(MadeUpRecords, "spread", noted)
    codes = codes_of(MIXED, 500, 0)
    task = task_of("logistic", len(codes))
    solver = solver_of(task, n_estimators=70, learning_rate=0.005, gains_share=0.1)
    source = source_of(codes, targets_of("logistic", codes))
    answers = answers_for(solver.plan(task), source, 0.01, "replace_one", SpyNoise(0))
    solver.run(answers, task, Progress())
    (query,), (size,) = asked, spreads
    assert 0 < size < 1
    expected = min(3.0 * solver.residual_clip * size, 1.5 * np.log(2))
    assert query.clip == pytest.approx(expected)
    assert query.clip < 1.5 * np.log(2)
    assert query.bound().zero_out == pytest.approx(query.clip * np.sqrt(1.3125))
