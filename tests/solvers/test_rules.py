"""What solvers share: units, plain numbers, limits, words, and paths that are kept."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from skdp import (
    BudgetLedger,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
)
from skdp._fit import Progress
from skdp.exceptions import Refused, SourceError
from skdp.privacy.noise._noise import NoiseSource
from skdp.solvers import SOLVERS
from skdp.solvers._registry import named_solver
from skdp.tables._memory import MemorySource
from tests import door
from tests.problems import ONE_LOSS

CASES = {case.key: case for case in ONE_LOSS if not case.mode}
# Papers state their rules in tests/papers.
OWN = [key for key in CASES if SOLVERS[key].__module__.startswith("skdp.solvers")]
STEPPING = [key for key in OWN if "step_size" in SOLVERS[key].checks]
every_key = pytest.mark.parametrize("key", CASES)
every_own = pytest.mark.parametrize("key", OWN)
every_descent = pytest.mark.parametrize("key", STEPPING)


def test_every_solver_takes_part():
    assert set(CASES) == set(SOLVERS)


@every_key
def test_what_is_wrong_is_named(key):
    kind = SOLVERS[key]
    for name in {**kind.checks, **kind.given_checks}.keys() - {"public_rows"}:
        for value in (-1.0, math.nan, "much", [1]):
            with pytest.raises((TypeError, ValueError), match=name):
                named_solver(key, {name: value})
    for name in ("sigma", "noise_multiplier"):
        with pytest.raises(ValueError, match=f"{name}.*cannot be set"):
            named_solver(key, {name: 1.0})


@every_own
def test_units_of_the_features_do_not_matter(key):
    """Rows in metres or millimetres: the same parameters but for powers of 1000."""
    case = replace(CASES[key], n_samples=2000)
    given = {name: value for name, value in case.params.items() if name != "step_size"}
    small, large = (
        replace(case, data_norm=norm).solver_with(given).params
        for norm in (1.0, 1000.0)
    )
    assert small.keys() == large.keys()
    for name, value in small.items():
        if type(value) is float and 0 < value < math.inf:
            power = math.log(large[name] / value, 1000)
            assert power == pytest.approx(round(power), abs=1e-6), name
        elif not isinstance(value, dict):
            assert large[name] == value, name


@every_own
@pytest.mark.parametrize("kind", [np.float16, np.longdouble])
def test_numpy_scalars_become_plain_numbers(key, kind):
    """Found in review: half precision overflowed and the noise was gone."""
    solver = CASES[key].solver
    scalars = {float: kind, int: np.int16}
    given = {
        name: scalars.get(type(value), lambda own: own)(value)
        for name, value in vars(solver).items()
    }
    found = vars(type(solver)(**given)).values()
    assert not any(isinstance(value, np.generic) for value in found)
    named = {name: given[name] for name in given.keys() & solver.checks.keys()}
    found = vars(CASES[key].solver_with(named)).values()
    assert not any(isinstance(value, np.generic) for value in found)


def diverging(key, entry, **params):
    """Weights of a run whose steps are far too long."""
    case = replace(CASES[key], n_samples=60, n_features=8, alpha=50.0)
    X = np.full((60, 8), 0.3)
    X[0] = entry
    y = np.arange(60.0) % max(2, case.loss.n_outputs)
    solver = case.solver_with({**case.params, **params})
    with np.errstate(all="ignore"):
        found = door.run(
            solver, MemorySource(X, y), case.objective, 5.0, NoiseSource(0)
        )
    return found.weights


@every_descent
@pytest.mark.parametrize("entry", [0.3, 1e308])
def test_a_diverging_run_ends_like_any_other(key, entry):
    """Found in review: overflow turned one record into NaN, or into an exception."""
    weights = diverging(key, entry, step_size=1e214)
    assert np.isfinite(weights).all()
    assert np.abs(weights).max() <= 1e50


def test_broken_twin_without_the_box_is_found_out(monkeypatch):
    monkeypatch.setattr(
        "skdp.solvers._steps.projected_onto_box", lambda values, limit: values
    )
    with pytest.raises((AssertionError, ValueError, SourceError)):
        test_a_diverging_run_ends_like_any_other("noisy_gd", 1e308)


@every_descent
def test_progress_counts_steps_and_nothing_else(key, capsys):
    case, told = CASES[key], []
    for seed in (0, 1):
        progress = Progress("fit", True)
        door.run(
            case.solver,
            case.source(seed),
            case.objective,
            9.0,
            NoiseSource(0),
            progress,
        )
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]
    assert told[0].startswith("[fit] step 1 of ")


# --------------------------------------------------------------- Paths that are kept


rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (300, 3)) / 2
RAW = X[:, 0] - X[:, 1]
LAST = {"tail": 1e-9}
KEEPING = {
    "noisy_gd": LAST,
    "noisy_sgd": LAST | {"batch_size": 20},
    "laplacian_smoothing": LAST | {"batch_size": 20},
    "nesterov": {},
    "heavy_ball": {},
    "multistage": {},
}
MODELS = {
    "two classes": (DPLogisticRegression, RAW > 0, {"classes": [False, True]}),
    "three": (DPLinearSVC, np.digitize(RAW, [-0.2, 0.2]), {"classes": [0, 1, 2]}),
    "numbers": (DPLinearRegression, RAW, {"target_bounds": (-2, 1)}),
}


def fitted(model, y, key, params, **facts):
    steps = {"n_steps": 6, "keeps_path": True} | params
    made = model(2.0, solver=key, solver_params=steps, random_state=0, **facts)
    return made.fit(X, y)


@pytest.mark.parametrize(("key", "name"), list(zip(KEEPING, itertools.cycle(MODELS))))
def test_the_last_of_the_path_is_the_model(key, name):
    model, y, facts = MODELS[name]
    found = fitted(model, y, key, KEEPING[key], **facts)
    n_steps = len(found.coef_path_)
    assert found.coef_path_.shape == (n_steps, *found.coef_.shape)
    assert n_steps == found.privacy_.solver_params["n_steps"] == 6
    assert np.array_equal(found.coef_path_[-1], found.coef_)
    assert np.array_equal(found.intercept_path_[-1], found.intercept_)
    other = fitted(model, y, key, KEEPING[key] | {"keeps_path": False}, **facts)
    assert np.array_equal(other.coef_, found.coef_)
    assert not hasattr(other, "coef_path_")
    assert other.privacy_.event == found.privacy_.event


def test_a_path_goes_with_the_fit_that_it_is_of():
    model = fitted(DPLogisticRegression, RAW > 0, "noisy_gd", {}, classes=[False, True])
    model.set_params(solver_params={"n_steps": 3}).fit(X, RAW > 0)
    assert not hasattr(model, "coef_path_")


def test_a_hidden_path_is_not_kept(tmp_path):
    """Where the last iterate alone is paid for, no other one may leave."""
    books = BudgetLedger(
        tmp_path / "books.db", epsilon=5.0, delta=1e-3, allow_nonprivate=True
    )
    with pytest.raises(Refused, match="keeps_path=False"):
        fitted(
            DPLogisticRegression,
            RAW > 0,
            "noisy_gd",
            {"release": "last"},
            C=1.0,
            classes=[False, True],
            ledger=books,
        )
    assert books.spends() == []
