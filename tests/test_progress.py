"""Progress of fits: when lines are printed, and that they say nothing of the data.

Clocks are made up; nothing here depends on how long anything takes.
"""

import itertools

import numpy as np
import pytest
from sklearn.base import clone

from skdp import (
    DPGridSearchCV,
    DPLogisticRegression,
    DPMatrixFactorization,
)
from skdp import _fit as module
from skdp._fit import Progress

X = np.random.default_rng(0).normal(size=(2000, 3)) / 4
Y = (X[:, 0] > 0).astype(int)
GRID = {"C": [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0]}
MODEL = DPLogisticRegression(classes=[0, 1])


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is set."""
    now = [0.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def hurried(monkeypatch):
    """A clock on which every look takes four seconds."""
    ticks = itertools.count(0.0, 4.0)
    monkeypatch.setattr(module, "monotonic", lambda: next(ticks))


def test_lines_come_after_ten_seconds_and_then_seldom(clock, capsys):
    progress, times = Progress("a model", None), []
    for second in range(1, 4001):
        clock[0] = float(second)
        progress.step(second, 4000)
        said = capsys.readouterr()
        assert said.out == ""
        if said.err:
            times.append(second)
            last = said.err
        if times == [second] == [10]:
            assert said.err == (
                "[a model] step 10 of 4000 after 10 s, about 3990 s left (verbose=0 "
                "prints no progress)\n"
            )
    # Each time as long as the fit took before, and at most ten minutes.
    assert times == [10, 20, 40, 80, 160, 320, 640, 1240, 1840, 2440, 3040, 3640]
    assert last == "[a model] step 3640 of 4000 after 3640 s, about 360 s left\n"


def test_the_first_step_may_take_longer(clock, capsys):
    """Nothing is expected from it, and nothing is printed shortly before the end."""
    progress = Progress("a model", None)
    for done, second, left in (
        (1, 60.0, "60 s (verbose=0 prints no progress)"),
        (2, 62.0, ""),
        (31, 120.0, "120 s, about 138 s left"),
        (98, 254.0, ""),
    ):
        clock[0] = second
        progress.step(done, 100)
        said = f"[a model] step {done} of 100 after {left}\n" if left else ""
        assert capsys.readouterr().err == said


def test_a_short_fit_and_the_last_step_print_nothing(clock, capsys):
    progress = Progress("a model", None)
    for done, second in ((1, 9.9), (2, 9.99)):
        clock[0] = second
        progress.step(done, 3)
    clock[0] = 100.0
    progress.step(3, 3)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("verbose", [False, 0])
def test_zero_prints_nothing(verbose, hurried, capsys):
    clone(MODEL).set_params(verbose=verbose).fit(X, Y)
    assert capsys.readouterr() == ("", "")


def test_a_long_fit_tells_its_steps_and_no_data(hurried, capsys):
    said = []
    for rows, labels in ((X, Y), (1e200 * X, Y), (0 * X, 1 - Y)):
        clone(MODEL).fit(rows, labels)
        said.append(capsys.readouterr())
    assert said[0] == said[1] == said[2]
    assert said[0].out == ""
    assert said[0].err.startswith("[DPLogisticRegression] step ")


PAIRS = np.column_stack([np.arange(300) % 25, np.arange(300) // 25])
# Fits whose times say more about the data than those of other fits.
SECRET = {
    "users": (
        clone(MODEL).set_params(privacy_unit="user"),
        (X, Y),
        {"groups": np.arange(len(X)) // 2},
    ),
    "samples": (
        clone(MODEL).set_params(solver="noisy_sgd", solver_params={"batch_size": 50}),
        (X, Y),
        {},
    ),
    "users of ratings": (
        DPMatrixFactorization(
            rating_bounds=(1, 5), n_users=25, item_ids=range(12), privacy_unit="user"
        ),
        (PAIRS, np.full(300, 3.0)),
        {},
    ),
    "trials": (
        DPGridSearchCV(MODEL, GRID, epsilon=8.0, method="random_stopping"),
        (X, Y),
        {},
    ),
    "a search of users": (
        DPGridSearchCV(
            MODEL, GRID, epsilon=8.0, method="composition", privacy_unit="user"
        ),
        (X, Y),
        {"groups": np.arange(len(X)) // 2},
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SECRET)
def test_where_times_are_secret_nothing_is_printed(name, hurried, capsys):
    model, given, named = SECRET[name]
    clone(model).fit(*given, **named)
    assert capsys.readouterr() == ("", "")


@pytest.mark.filterwarnings("ignore")
def test_a_search_whose_number_of_fits_is_public_tells_it(hurried, capsys):
    DPGridSearchCV(MODEL, GRID, epsilon=8.0, method="composition").fit(X, Y)
    said = capsys.readouterr()
    assert said.out == ""
    lines = said.err.splitlines()
    assert lines
    assert all(line.startswith("[search] step ") for line in lines)
