"""Fits of boosted trees to coded records, through a door or with given noise."""

from __future__ import annotations

from dataclasses import replace

from skdp._configured import given_params
from skdp._fit import Progress
from skdp.ensemble._boosting import NewtonBoosting
from skdp.ensemble._losses import MEANS, BoostingTask
from skdp.losses import (
    GammaLoss,
    LogisticLoss,
    PoissonLoss,
    QuantileLoss,
    SoftmaxLoss,
)
from skdp.losses._classification import weighted
from skdp.privacy import Budget
from tests.door import OpenDoor
from tests.ensemble.coded import MIXED

BUDGET = Budget(1.0, 1e-6)
SMALL = {"n_estimators": 9, "max_depth": 4}


def loss_of(
    name,
    n_outputs=1,
    *,
    level=0.5,
    top=0.7,
    lowest=0.0,
    half=1.5,
    most=4.0,
    label_weights=(),
):
    """A loss of trees by name; it takes the facts that it has."""
    if name == "softmax":
        return weighted(SoftmaxLoss(n_outputs), label_weights)
    losses = {
        "logistic": LogisticLoss(),
        "squared": MEANS,
        "poisson": PoissonLoss(top, lowest),
        "gamma": GammaLoss(half, most),
        "quantile": QuantileLoss(level, h=0),
    }
    return weighted(losses[name], label_weights)


def task_of(loss, n_samples, n_outputs=1, loss_facts=None, **facts):
    facts = {"columns": MIXED, "adjacency": "replace_one"} | facts
    known = loss_of(loss, n_outputs, **(loss_facts or {}))
    return BoostingTask(loss=known, n_samples=n_samples, n_features=1, **facts)


def solver_of(task, budget=BUDGET, kind=NewtonBoosting, **params):
    return kind.planned(given_params(kind, kind.key, params), task, budget)


def fitted(task, source, noise=None, budget=BUDGET, seed=7, **params):
    """A model, and the answers that it was made of."""
    solver = solver_of(task, budget, **params)
    door = OpenDoor(budget, adjacency=task.adjacency, noise=noise)
    plan = solver.plan(task) if budget.is_finite else None
    answers = door.commit(plan, source, label="boosting")
    return solver.run(answers, replace(task, seed=seed), Progress()), answers
