"""Hostile cases: what is beside the defaults, and that a poor model is MISSED."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from benchmarks import hostile
from benchmarks.hostile import DEFAULTS, GRIDS, Cell, Default, excess, verdict

EASY = Cell(300, 2, 50.0)
RARE = Cell(400, 2, 50.0, base=0.02)
FEW, ALONE = 3, ("--jobs", "1")
every_default = pytest.mark.parametrize("name", DEFAULTS)


class Even:
    """Learns nothing and is sure of nothing."""

    def set_params(self, random_state):
        return self

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.full(len(X), 0.5)


class EvenShares(Even):
    """The same, of classes."""

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)


@dataclass(frozen=True)
class Planted(Default):
    """A default whose model is another; its constants stay."""

    def model(self, cell):
        return Even() if "target_bounds" in self.known else EvenShares()


def planted(name):
    return Planted(**vars(DEFAULTS[name]))


@every_default
def test_a_default_that_learns_is_better_than_constants(name):
    mean, _ = excess(EASY, DEFAULTS[name], FEW)
    assert mean < -0.03
    assert "MISSED" not in verdict(EASY, DEFAULTS[name], FEW)


@every_default
def test_a_model_worse_than_the_constant_is_missed(name):
    # The twin of the test above.
    assert excess(RARE, planted(name), FEW)[0] > 0.1
    assert verdict(RARE, planted(name), FEW).endswith(" MISSED")


def test_a_model_as_good_as_the_free_constant_is_not_missed():
    # An intercept of so few records hardly leaves it, so that either is the better.
    mean, error = excess(Cell(50, 1, 1e-3), planted("logistic"), FEW)
    assert 0 <= mean < 1e-4
    assert error < 1e-4
    assert "MISSED" not in verdict(Cell(50, 1, 1e-3), planted("logistic"), FEW)


def test_cells_repeat():
    first, again = (excess(EASY, DEFAULTS["logistic"], FEW) for _ in range(2))
    assert first == again


def test_shares_of_positives_and_signal_are_those_of_the_cell():
    rng = np.random.default_rng(0)
    for base in (0.5, 0.03):
        cell = Cell(20_000, 4, 1.0, signal=0.0, base=base)
        X = hostile.rows(cell, cell.n, rng)
        assert abs(hostile.labels(cell, X, rng).mean() - base) < 0.02
        assert abs(hostile.targets(cell, X, rng).mean() - base) < 0.02
        assert not hostile.scores(cell, X).any()


def test_the_grid_is_printed(monkeypatch, capsys):
    monkeypatch.setitem(hostile.GRIDS, "linear", [EASY, RARE])
    hostile.main(["logistic, columns", "regression, columns", "--fits", "2", *ALONE])
    lines = capsys.readouterr().out.splitlines()
    assert [line.count("|") for line in lines] == [11] * 4
    first = "| 300 | 2 | 50.0 | replace_one | 2.0 | 1.0 | 0.5 | linear | -0."
    assert lines[2].startswith(first)


def test_cells_are_chosen_by_their_entries(monkeypatch, capsys):
    monkeypatch.setitem(hostile.GRIDS, "linear", [EASY, RARE])
    hostile.main(["logistic", "--fits", "2", "--least-entries", "601", *ALONE])
    hostile.main(["logistic", "--fits", "2", "--most-entries", "600", *ALONE])
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" | ")[0] for line in lines[2::3]] == ["| 400", "| 300"]


def test_unknown_defaults_are_refused(capsys):
    with pytest.raises(SystemExit):
        hostile.main(["lasso"])
    assert "names must be of ['logistic'," in capsys.readouterr().err


def test_no_cell_is_there_twice():
    cells = [cell for grid in GRIDS.values() for cell in grid]
    assert len(set(cells)) == len(cells)


def test_a_smooth_target_is_no_linear_one():
    rng = np.random.default_rng(0)
    cell = Cell(20_000, 5, 1.0, form="smooth")
    X = hostile.rows(cell, cell.n, rng)
    scores = hostile.scores(cell, X)
    assert abs(scores.mean()) < 0.05
    assert abs(scores.std() - cell.signal) < 0.1
    left = np.linalg.lstsq(X, scores, rcond=None)[1] / cell.n
    assert left > 0.5 * scores.var()
    X[:, 4] = 0
    assert np.array_equal(hostile.scores(cell, X), scores)


@pytest.mark.parametrize("name", ["boosted logistic", "boosted regression"])
def test_the_start_alone_is_a_constant_and_a_good_one(name):
    default = DEFAULTS[name]
    rng = np.random.default_rng(0)
    X = hostile.rows(RARE, RARE.n, rng)
    y = default.draw(RARE, X, rng)
    model = default.constant(RARE).set_params(random_state=0).fit(np.zeros_like(X), y)
    told = getattr(model, "predict_proba", model.predict)(X).reshape(len(X), -1)[:, -1]
    assert np.ptp(told) < 1e-6
    assert abs(told.mean() - y.mean()) < 0.01


def test_other_cells_are_measured_on_demand(monkeypatch, capsys):
    monkeypatch.setitem(hostile.GRIDS, "curved", [Cell(300, 4, 50.0, form="smooth")])
    hostile.main(["boosted regression", "--grid", "curved", "--fits", "2", *ALONE])
    told = capsys.readouterr().out.splitlines()[2]
    assert "| 0.5 | smooth | -0." in told
