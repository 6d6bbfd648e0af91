"""Matrix factorisations, private and plain, and what they predict and recommend."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import inf
from typing import Any

import numpy as np

from skdp import DPMatrixFactorization
from tests.outcomes.outcome import Outcome, Released, of_fitted
from tests.outcomes.rows import ratings

KEYS = ("als", "hamsi", "lbfgs", "sgd", "vb")
_BOUNDS = {"rating_bounds": (1.0, 5.0)}
_USERS = {
    "privacy_unit": "user",
    "n_users": 45,
    "item_ids": [f"i{i:02}" for i in range(27)],
}
# Of the estimator; "als" is the only key with private forms.
_ALL = {
    "": {},
    "no_biases": {"biases": False},
    "no_factors": {"n_components": 0},
    "three_factors": {"n_components": 3},
    "little_noise": {"epsilon": 100.0},
}
PRIVATE: dict[str, tuple[dict[str, Any], dict[str, dict[str, Any]]]] = {
    "rating_value": (
        {"privacy_unit": "rating_value"},
        {
            **_ALL,
            "catalogue": {"item_ids": _USERS["item_ids"]},
            "no_rounds": {"solver_params": {"n_rounds": 0}},
            "rounds": {"solver_params": {"n_rounds": 4, "rank": 3}},
            "no_embedding": {"solver_params": {"n_embedding": 0}},
            "embedding": {"solver_params": {"n_embedding": 3, "prior_scale": 3.0}},
            "clip": {"solver_params": {"residual_clip": 0.1}},
        },
    ),
    "user": (
        _USERS,
        {
            **_ALL,
            "few_ratings": {"max_ratings": 4},
            "rounds": {"solver_params": {"n_rounds": 4}},
            "directions": {"solver_params": {"n_rounds": 3, "n_directions": 2}},
            "pair_share": {"solver_params": {"n_rounds": 3, "pair_share": 0.3}},
            "shares": {"solver_params": {"count_share": 0.4, "first_share": 0.5}},
            "clips": {"solver_params": {"bias_clip": 0.2, "row_clip": 0.5}},
        },
    ),
}
PLAIN: dict[str, dict[str, dict[str, Any]]] = {
    "auto": {"": {}, "penalised": {"alpha": 0.1}},
    "als": {"": {}, "penalised": {"alpha": 0.1}, "bounds": _BOUNDS},
    "hamsi": {
        "": {},
        "color": {"partition": "color"},
        "color_balanced": {"partition": "color_balanced"},
        "strata": {"partition": "strata"},
        "stochastic": {"schedule": "stochastic"},
        "subsets": {"n_subsets": 3, "n_corrections": 2},
        "capped": {"solver_params": {"capped": True, "safeguarded": True}},
    },
    "lbfgs": {"": {}, "corrections": {"n_corrections": 3}},
    "sgd": {"": {}, "blocks": {"solver_params": {"n_blocks": 3, "step_size": 0.05}}},
    "vb": {"": {}, "no_pattern": {"solver_params": {"pattern_alpha": inf}}},
}
_PLAIN_ALL = {name: _ALL[name] for name in ("no_biases", "no_factors", "three_factors")}


def fitted(dtype: str, params: dict[str, Any]) -> Released:
    """A model of the ratings, its predictions, recommendations and folded users."""
    X, y = ratings()
    model = DPMatrixFactorization(random_state=0, **params).fit(X, y.astype(dtype))
    new = np.array([["new", item] for item in ("i03", "i07", "i19", "unknown")])
    values = np.append(y[:80], [5.0, 1.0, 4.0, 2.0])
    local = model.fold_in(np.concatenate([X[:80], new]), values)
    asked = np.concatenate([X[::7], new, [["u01", "unknown"]]])
    return of_fitted(
        model,
        predicted=model.predict(asked),
        recommended=[model.recommend(user, 5) for user in ("u00", "u07", "nobody")],
        rated_too=model.recommend("u00", 5, exclude_rated=False),
        local=local.transform(["u00", "u07", "new", "nobody"]),
        local_predicted=local.predict(asked),
        local_recommended=[local.recommend(user, 5) for user in ("u07", "new")],
    )


def outcomes(n_jobs: int = 1) -> Iterator[Outcome]:
    """All of factorisations."""
    for unit, (needs, variants) in PRIVATE.items():
        for variant, params in variants.items():
            for solver in ("auto", "als") if variant == "" else ("als",):
                key = f"factorizer/private/{unit}/{solver}/{variant or 'default'}"
                every = {"epsilon": 2.0, "solver": solver, **_BOUNDS, **needs, **params}
                yield Outcome(key, partial(fitted, "f8", every | {"n_jobs": n_jobs}))
        for solver in KEYS:
            key = f"factorizer/private/{unit}/{solver}/float32"
            every = {"epsilon": 2.0, "solver": solver, **_BOUNDS, **needs}
            yield Outcome(key, partial(fitted, "f4", every | {"n_jobs": n_jobs}))
    for solver, variants in PLAIN.items():
        for variant, params in {**variants, **_PLAIN_ALL}.items():
            for dtype in ("f8", "f4"):
                key = f"factorizer/plain/{solver}/{variant or 'default'}/{dtype}"
                every = {"epsilon": inf, "solver": solver, "n_jobs": n_jobs} | params
                yield Outcome(key, partial(fitted, dtype, every))
