"""Small fits that compile the kernels, in the types that most tests need."""

from __future__ import annotations

import math
import warnings
from contextlib import suppress
from functools import partial

import numpy as np
from scipy.sparse import csr_array

from skdp import (
    DPGradientBoostingClassifier,
    DPGradientBoostingRegressor,
    DPLogisticRegression,
    DPMatrixFactorization,
    DPSparseLogisticRegression,
)
from skdp.losses import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.sums._floating import GradientSum
from skdp.tables._memory import MemorySource
from tests.gradients import exact_sum

PRECISIONS = (np.float64, np.float32)


def factorise(solver, **params):
    pairs = np.column_stack(np.divmod(np.arange(120), 10))
    values = {"n_components": 2, "epsilon": math.inf, "rating_bounds": (1, 5)} | params
    for dtype in PRECISIONS:
        ratings = (3 + np.sin(np.arange(120.0))).astype(dtype)
        DPMatrixFactorization(solver=solver, **values).fit(pairs, ratings)


def permute():
    params = {"batch_size": 5, "n_passes": 2}
    model = DPLogisticRegression(solver="bolt_on", solver_params=params, classes=[0, 1])
    for store in (np.asarray, csr_array):
        model.fit(store(np.eye(40, 3)), np.arange(40) % 2)


def choose_vertices():
    params = {"n_steps": 4}
    DPSparseLogisticRegression(
        solver="frank_wolfe", solver_params=params, classes=[0, 1]
    ).fit(np.eye(40, 3), np.arange(40) % 2)


def add_up():
    objective = LinearObjective(
        loss=LogisticLoss(),
        n_samples=40,
        n_features=3,
        data_norm=1.0,
        adjacency="replace_one",
    )
    for dtype in PRECISIONS:
        source = MemorySource(np.eye(40, 3, dtype=dtype), np.zeros(40))
        for kind in (GradientSum, exact_sum):
            gradient = kind(source, objective)
            gradient._is_compiled = True  # larger tables are
            gradient(np.zeros((4, 1)))


def boost():
    given = {"columns": (0, 1), "n_estimators": 2}
    X, numbers = np.linspace(0, 1, 120).reshape(40, 3), np.arange(40)
    for k in (2, 3):
        model = DPGradientBoostingClassifier(classes=list(range(k)), **given)
        model.fit(X, numbers % k).predict(X)
    given |= {"target_bounds": (1, 40)}
    losses = ({}, {"loss": "poisson"}, {"loss": "gamma"})
    for loss in (*losses, {"loss": "quantile", "quantile": 0.5}):
        DPGradientBoostingRegressor(**loss, **given).fit(X, numbers)


BY_USER = {"privacy_unit": "user", "epsilon": 1.0, "n_users": 12}
BY_USER |= {"item_ids": range(10)}
# In this order two workers that take turns are done at about the same time.
JOBS = [
    partial(factorise, "vb"),
    permute,
    partial(factorise, "lbfgs"),
    partial(factorise, "als"),
    choose_vertices,
    boost,
    partial(factorise, "auto", **BY_USER),
    add_up,
    partial(factorise, "hamsi", solver_params={"partition": "color"}),
    partial(factorise, "sgd"),
    partial(factorise, "auto", epsilon=1.0, privacy_unit="rating_value"),
]


def compile_share(place, n_partitions):
    """Do every `n_partitions`-th job, from the one at `place` on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for job in JOBS[place::n_partitions]:
            # What does not work fails in the tests that are about it.
            with suppress(Exception):
                job()
