"""Newton boosting: rules, order of reads, bits, limits, and what noise alone gives."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skdp._fit import Progress
from skdp.ensemble._boosting import NewtonBoosting
from skdp.exceptions import BudgetExceeded, PlanUsedUpError, Refused
from skdp.privacy import Budget
from skdp.privacy.noise._noise import NoiseSource
from skdp.privacy.release._door import Door
from skdp.sums import _leaves
from skdp.sums._counts import CodeCounts
from tests.ensemble.coded import MIXED, codes_of, source_of, targets_of
from tests.ensemble.fits import BUDGET, SMALL, fitted, solver_of, task_of
from tests.spies import SpyLedger, SpySource

LOSSES = [
    ("logistic", 1),
    ("softmax", 4),
    ("squared", 1),
    ("poisson", 1),
    ("gamma", 1),
    ("quantile", 1),
]
every_loss = pytest.mark.parametrize(("loss", "n_outputs"), LOSSES)


def table(loss, n_outputs=1, n=600, seed=0):
    codes = codes_of(MIXED, n, seed)
    return codes, targets_of(loss, codes, n_outputs, seed)


def everything(model):
    arrays = (model.start, model.values, model.deviations)
    return tuple(array.tobytes() for array in arrays)


# -------------------------------------------------------------------- what is read when


def diary_of(monkeypatch, tmp_path, allowed=10.0):
    """What happens in a fit, in order."""
    diary = []
    monkeypatch.setattr(SpyLedger, "diary", diary)
    codes, y = table("logistic")
    task = task_of("logistic", len(y))
    solver = solver_of(task, **SMALL)
    ledger = SpyLedger(
        tmp_path / "books",
        epsilon=allowed,
        delta=1e-3,
        dataset="d",
        adjacency="replace_one",
    )
    source = SpySource(source_of(codes, y), diary)
    facts = {"adjacency": "replace_one", "ledger": ledger, "random_state": None}
    try:
        door = Door(BUDGET, **facts)
        answers = door.commit(solver.plan(task), source, label="trees")
    except BudgetExceeded:
        return diary, None
    solver.run(answers, task, Progress())
    return diary, answers


def test_nothing_is_read_before_the_commit_and_only_what_was_declared(
    monkeypatch, tmp_path
):
    diary, answers = diary_of(monkeypatch, tmp_path)
    assert diary[0] == "commit"
    # Once for the start, once for the counts and once for trees and their worth.
    assert diary[1:] == ["read"] * 3
    with pytest.raises(PlanUsedUpError):
        answers.ask(CodeCounts((0,), ((0, 1),)), 1)


def test_nothing_is_read_if_the_ledger_refuses(monkeypatch, tmp_path):
    assert diary_of(monkeypatch, tmp_path, allowed=0.5) == ([], None)


# ------------------------------------------------------------------------- bits of fits


@every_loss
def test_threads_and_the_order_of_rows_change_no_bit(loss, n_outputs, monkeypatch):
    codes, y = table(loss, n_outputs)
    task = task_of(loss, len(y), n_outputs)
    order = np.random.default_rng(3).permutation(len(y))
    alone, _ = fitted(task, source_of(codes, y), noise=NoiseSource(1), **SMALL)
    for n_threads in (1, 2, 3):
        monkeypatch.setattr(_leaves, "n_threads_for", lambda n, k=n_threads: k)
        shuffled = source_of(codes[order], y[order])
        again, _ = fitted(task, shuffled, noise=NoiseSource(1), **SMALL)
        assert everything(alone) == everything(again)


# ------------------------------------------------------------------------ rules, limits


@every_loss
@pytest.mark.parametrize("n", [2, 100, 10**4, 10**9])
@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 100.0, math.inf])
def test_rules_give_what_may_be_asked(loss, n_outputs, n, epsilon):
    task = task_of(loss, n, n_outputs)
    solver = solver_of(task, Budget(epsilon, 1e-6))
    assert NewtonBoosting(**solver.params) == solver
    event = solver.plan(task).event(1.0, "replace_one")
    assert event.gdp_mu_squared == pytest.approx(1.0)
    assert solver.sensitivity(task) > 0


def test_pure_epsilon_is_refused():
    with pytest.raises(Refused, match="delta=0"):
        solver_of(task_of("logistic", 100), Budget(1.0, 0.0))


@every_loss
def test_without_noise_a_fit_is_better_than_the_constant(loss, n_outputs):
    codes, y = table(loss, n_outputs, 4000)
    task = task_of(loss, len(y), n_outputs)
    free = Budget(math.inf, 0.0)
    model, _ = fitted(task, source_of(codes, y), budget=free, n_estimators=60)
    test, target = table(loss, n_outputs, 4000, seed=9)
    raw = model.raw(test)
    if loss == "squared":
        assert np.mean((raw[:, 0] - target) ** 2) < 0.6 * np.var(target)
    elif loss == "poisson":
        error = np.exp(raw[:, 0] - 0.7) - target
        assert np.mean(error**2) < 0.6 * np.var(target)
    elif loss == "gamma":
        error = raw[:, 0] + 1.5 - np.log(target)
        assert np.mean(error**2) < 0.6 * np.var(np.log(target))
    elif loss == "quantile":
        lost = np.abs(target - np.median(target)).mean()
        assert np.abs(target - raw[:, 0]).mean() < 0.85 * lost
    elif loss == "logistic":
        assert np.mean((raw[:, 0] > 0) == target) > 0.7
    else:
        assert np.mean(raw.argmax(axis=1) == target) > 0.5


def test_nothing_left_for_trees_is_refused():
    task = task_of("logistic", 100)
    with pytest.raises(Refused, match="shares of mu"):
        solver_of(task, start_share=0.6, counts_share=0.4)
