"""Private searches: every method, with its rehearsals."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from scipy.stats import loguniform
from sklearn.pipeline import make_pipeline

from skdp import (
    DPPCA,
    DPGridSearchCV,
    DPLinearRegression,
    DPLogisticRegression,
    DPMatrixFactorization,
    DPRandomizedSearchCV,
    DPSparseLogisticRegression,
    DPStandardScaler,
)
from tests.outcomes.outcome import Outcome, Released, facts_of, values_of
from tests.outcomes.rows import ratings, rows, targets

METHODS: dict[str, dict[str, dict[str, Any]]] = {
    "auto": {"": {}},
    "composition": {
        "": {},
        "share": {"method_params": {"tuning_share": 0.6}},
        "fraction": {"method_params": {"tuning_fraction": 0.4}},
        "validation": {"validation_fraction": 0.5},
    },
    "disjoint_splits": {
        "": {},
        "exponential": {"method_params": {"mechanism": "exponential"}},
        **{
            f"{mechanism}_{seed}": {
                "method_params": {"mechanism": mechanism},
                "random_state": seed,
                "epsilon": 0.5,
            }
            for mechanism in ("exponential", "permute_and_flip")
            for seed in (1, 2, 3)
        },
    },
    "random_stopping": {
        "": {},
        "seed": {"random_state": 4},
        "poisson": {"method_params": {"family": "poisson"}, "random_state": 1},
        "none": {"method_params": {"family": "poisson", "mean_trials": 0.01}},
        "shape": {"method_params": {"shape": 0.5, "max_trials": 5}},
        "fixed": {"method_params": {"fixed_duration": True, "mean_trials": 2.0}},
    },
}
_STRENGTHS = [0.01, 0.1, 1.0]


def _classifier() -> tuple[Any, dict[str, list[Any]]]:
    return DPLogisticRegression(classes=[0, 1, 2]), {"C": _STRENGTHS}


def _regressor() -> tuple[Any, dict[str, list[Any]]]:
    return DPLinearRegression(target_bounds=(-2, 3)), {"alpha": _STRENGTHS}


def _sparse() -> tuple[Any, dict[str, list[Any]]]:
    model = DPSparseLogisticRegression(classes=[0, 1, 2], feature_bound=0.5)
    return model, {"n_nonzero_coefs": [1, 2, 4]}


def _solvers() -> tuple[Any, dict[str, list[Any]]]:
    model = DPLogisticRegression(classes=[0, 1, 2])
    keys = ["nesterov", "noisy_gd", "objective_perturbation", "bolt_on", "online"]
    return model, {"solver": keys}


def _pipeline() -> tuple[Any, dict[str, list[Any]]]:
    steps = DPStandardScaler(bounds=(-3, 3)), DPPCA(n_components=3), _classifier()[0]
    grid = {"dplogisticregression__C": _STRENGTHS, "dppca__n_components": [2, 3]}
    return make_pipeline(*steps), grid


def _factorization() -> tuple[Any, dict[str, list[Any]]]:
    model = DPMatrixFactorization(privacy_unit="rating_value", rating_bounds=(1, 5))
    return model, {"n_components": [0, 2, 4]}


MODELS = {
    "classifier": _classifier,
    "regressor": _regressor,
    "sparse": _sparse,
    "solvers": _solvers,
    "pipeline": _pipeline,
    "factorization": _factorization,
}


def _table(name: str, table: str) -> Any:
    if name == "factorization":
        return ratings()
    X = rows(table)
    return X, targets(X, None if name == "regressor" else 3)


def _released(search: Any, X: Any) -> Released:
    values = {
        "index": search.best_index_,
        "score": search.best_score_,
        "has_model": search.has_model_,
        "scoring": search.scoring_,
        "scores": search.cv_results_.get("mean_test_score"),
        "best": values_of(search.best_estimator_),
        "predicted": search.predict(X),
    }
    return Released(values, facts_of(search.privacy_))


def searched(name: str, table: str, params: dict[str, Any]) -> Released:
    """What a search over a grid releases."""
    model, grid = MODELS[name]()
    X, y = _table(name, table)
    given = {"epsilon": 4.0, "random_state": 0} | params
    return _released(DPGridSearchCV(model, grid, **given).fit(X, y), X)


def randomized(params: dict[str, Any]) -> Released:
    """What a search over a distribution releases."""
    X, y = _table("classifier", "plain")
    law = {"C": loguniform(1e-3, 1.0)}
    given = {"epsilon": 4.0, "random_state": 0, "n_iter": 4} | params
    search = DPRandomizedSearchCV(_classifier()[0], law, **given)
    return _released(search.fit(X, y), X)


def _by_method(n_jobs: int) -> Iterator[Outcome]:
    for method, variants in METHODS.items():
        for variant, params in variants.items():
            for adjacency in ("replace_one", "zero_out"):
                for budget, delta in {"delta": 1e-6, "pure": 0.0}.items():
                    case = f"{method}/{variant or 'default'}/{adjacency}/{budget}"
                    every = {"method": method, "adjacency": adjacency, "delta": delta}
                    every |= params | {"n_jobs": n_jobs}
                    job = partial(searched, "classifier", "plain", every)
                    yield Outcome(f"search/{case}", job)
                    job = partial(randomized, every)
                    yield Outcome(f"search/randomized/{case}", job)


def _by_model(n_jobs: int) -> Iterator[Outcome]:
    for method in METHODS:
        for name in MODELS:
            is_of_ratings = name == "factorization"
            relation = "rating_value" if is_of_ratings else "replace_one"
            for budget, delta in {"delta": 1e-6, "pure": 0.0}.items():
                every = {"method": method, "adjacency": relation, "delta": delta}
                every["n_jobs"] = n_jobs
                key = f"search/of_{name}/{method}/{budget}"
                yield Outcome(key, partial(searched, name, "plain", every))


def _by_scoring(n_jobs: int) -> Iterator[Outcome]:
    scorings = {
        "classifier": ("accuracy", "balanced_accuracy", "neg_log_loss"),
        "regressor": ("neg_mean_absolute_error", "neg_mean_squared_error", "r2"),
    }
    for name, names in scorings.items():
        for scoring in names:
            for method in METHODS:
                every = {"method": method, "scoring": scoring, "n_jobs": n_jobs}
                key = f"search/by_{scoring}/{method}"
                yield Outcome(key, partial(searched, name, "csr", every))


def outcomes(n_jobs: int = 1) -> Iterator[Outcome]:
    """All of private searches."""
    for family in (_by_method, _by_model, _by_scoring):
        yield from family(n_jobs)
