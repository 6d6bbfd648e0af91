"""Private transformers, on rows of every kind."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import inf
from typing import Any

from skdp import (
    DPPCA,
    DPKMeans,
    DPQuantileClipper,
    DPSimpleImputer,
    DPStandardScaler,
)
from tests.outcomes.outcome import Outcome, Released, of_fitted
from tests.outcomes.rows import rows

_LOW, _HIGH = [-3.0, -1.0, -2.0, -0.5, -9.0], [3.0, 1.0, 0.5, 2.0, 4.0]
STEPS: dict[str, tuple[type, dict[str, dict[str, Any]]]] = {
    "standard_scaler": (
        DPStandardScaler,
        {"": {"bounds": (-3, 3)}, "by_column": {"bounds": (_LOW, _HIGH)}},
    ),
    "quantile_clipper": (
        DPQuantileClipper,
        {
            "": {"bounds": (-100, 100)},
            "by_column": {"bounds": (_LOW, _HIGH), "n_steps": 5},
            "quantiles": {"bounds": (-3, 3), "quantiles": (0.2, 0.7)},
            "no_scale": {"bounds": (-3, 3), "scale": False},
        },
    ),
    "simple_imputer": (
        DPSimpleImputer,
        {
            "": {"bounds": (-3, 3)},
            "by_column": {"bounds": (_LOW, _HIGH)},
            "constant": {"strategy": "constant", "fill_value": 0.5},
        },
    ),
    "k_means": (DPKMeans, {"": {"n_clusters": 3, "bounds": (-3, 3)}}),
    "pca": (
        DPPCA,
        {
            "": {},
            "two": {"n_components": 2},
            "uncentred": {"center": False},
            "data_norm": {"n_components": 3, "data_norm": 0.3},
        },
    ),
}
TABLES = ("plain", "float32", "fortran", "huge", "missing", "csr", "blocks")
BUDGETS = {
    "delta": {"epsilon": 30.0, "delta": 1e-6},  # else quantiles are the bounds
    "pure": {"epsilon": 30.0, "delta": 0.0},
    "much_noise": {"epsilon": 1.0, "delta": 1e-6},
    "exact": {"epsilon": inf},
}
ONE = (("delta", BUDGETS["delta"]),)  # sparse rows are refused whatever the budget


def fitted(kind: type, table: str, params: dict[str, Any]) -> Released:
    """What a transformer learned, and the rows as it gives them on."""
    X = rows(table)
    step = kind(random_state=0, **params).fit(X)
    return of_fitted(step, transformed=step.transform(X))


def outcomes() -> Iterator[Outcome]:
    """All of private transformers."""
    for name, (kind, variants) in STEPS.items():
        for variant, params in variants.items():
            for table in TABLES if variant == "" else ("plain", "missing"):
                for adjacency in ("replace_one", "zero_out"):
                    for budget, given in BUDGETS.items() if table != "csr" else ONE:
                        step = f"{name}_{variant}" if variant else name
                        key = f"transformer/{step}/{table}/{adjacency}/{budget}"
                        every = params | given | {"adjacency": adjacency}
                        yield Outcome(key, partial(fitted, kind, table, every))
