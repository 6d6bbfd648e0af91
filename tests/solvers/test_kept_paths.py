"""Released iterates, kept where a descent is asked to: what they are, and of what."""

from __future__ import annotations

import numpy as np
import pytest

from skdp import (
    BudgetLedger,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
)
from skdp.exceptions import Refused

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (300, 3)) / 2
RAW = X[:, 0] - X[:, 1]
LAST = {"tail": 1e-9}
SOLVERS = {
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


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("key", SOLVERS)
def test_the_last_of_the_path_is_the_model(key, name):
    model, y, facts = MODELS[name]
    found = fitted(model, y, key, SOLVERS[key], **facts)
    n_steps = len(found.coef_path_)
    assert found.coef_path_.shape == (n_steps, *found.coef_.shape)
    assert n_steps == found.privacy_.solver_params["n_steps"] == 6
    assert np.array_equal(found.coef_path_[-1], found.coef_)
    assert np.array_equal(found.intercept_path_[-1], found.intercept_)
    other = fitted(model, y, key, SOLVERS[key] | {"keeps_path": False}, **facts)
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
