"""Fits of boosted trees to coded records, through a door or with given noise."""

from __future__ import annotations

from dataclasses import replace

from skdp._configured import given_params
from skdp.ensemble._boosting import NewtonBoosting
from skdp.ensemble._losses import BoostingTask
from skdp.privacy import Budget
from skdp.solvers._base import Progress
from tests.door import OpenDoor
from tests.ensemble.coded import MIXED

BUDGET = Budget(1.0, 1e-6)
SMALL = {"n_estimators": 9, "max_depth": 4}


def task_of(loss, n_samples, n_outputs=1, **facts):
    facts = {"columns": MIXED, "adjacency": "replace_one"} | facts
    return BoostingTask(loss=loss, n_samples=n_samples, n_outputs=n_outputs, **facts)


def solver_of(task, budget=BUDGET, kind=NewtonBoosting, **params):
    return kind.planned(given_params(kind, kind.key, params), task, budget)


def fitted(task, source, noise=None, budget=BUDGET, seed=7, **params):
    """A model, and the answers that it was made of."""
    solver = solver_of(task, budget, **params)
    door = OpenDoor(budget, adjacency=task.adjacency, noise=noise)
    plan = solver.plan(task) if budget.is_finite else None
    answers = door.commit(plan, source, label="boosting")
    return solver.run(answers, replace(task, seed=seed), Progress()), answers
