"""Linear models: every solver on every loss, its settings and its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from skdp import (
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPRobustClassifier,
    DPSparseLinearRegression,
    DPSparseLogisticRegression,
)
from skdp.solvers import SOLVERS
from tests.outcomes.outcome import Outcome, Released, of_fitted
from tests.outcomes.rows import rows, targets
from tests.outcomes.solver_params import REGULARISED, VARIANTS

DENSE = (
    "adassp",
    "bolt_on",
    "diff_gd",
    "ftrl",
    "graduated_gd",
    "heavy_ball",
    "laplacian_smoothing",
    "line_search_gd",
    "multistage",
    "nesterov",
    "noisy_gd",
    "noisy_newton",
    "noisy_sgd",
    "objective_perturbation",
    "online",
    "output_perturbation",
    "srm",
    "tree_momentum",
)
SPARSE = ("frank_wolfe", "iht", "knowledge_transfer", "peeling", "two_stage")
# Not at delta = 0, whatever the rest.
GAUSSIAN = (
    "diff_gd",
    "ftrl",
    "graduated_gd",
    "iht",
    "laplacian_smoothing",
    "line_search_gd",
    "noisy_gd",
    "noisy_newton",
    "noisy_sgd",
    "srm",
    "tree_momentum",
)
# Number of classes by loss; None: targets are numbers.
N_CLASSES = {
    "logistic": 2,
    "softmax": 3,
    "hinge": 2,
    "hinge_outputs": 3,
    "squared": None,
    "sigmoid": 2,
    "cauchy": 3,
}
NOT_CONVEX = ("sigmoid", "cauchy")
SPARSE_LOSSES = ("logistic", "softmax", "squared")
ADJACENCIES = ("replace_one", "zero_out")
DELTAS = {"delta": 1e-6, "pure": 0.0}
_KINDS = {
    ("logistic", False): DPLogisticRegression,
    ("softmax", False): DPLogisticRegression,
    ("hinge", False): DPLinearSVC,
    ("hinge_outputs", False): DPLinearSVC,
    ("squared", False): DPLinearRegression,
    ("sigmoid", False): partial(DPRobustClassifier, loss="sigmoid"),
    ("cauchy", False): partial(DPRobustClassifier, loss="cauchy"),
    ("logistic", True): DPSparseLogisticRegression,
    ("softmax", True): DPSparseLogisticRegression,
    ("squared", True): DPSparseLinearRegression,
}
# Rows and parameters of the estimator beside the usual ones.
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "csr": ("csr", {}),
    "csr_float32": ("csr_float32", {}),
    "float32": ("float32", {}),
    "fortran": ("fortran", {}),
    "huge_rows": ("huge", {}),
    "little_noise": ("plain", {"epsilon": 60.0}),
    "long_rows": ("plain", {"data_norm": 0.4}),
    "short_rows": ("plain", {"data_norm": 7.5}),
    "no_intercept": ("plain", {"fit_intercept": False}),
    "regularised": ("plain", REGULARISED),
}
_WIDE = {"epsilon": 100.0, "n_nonzero_coefs": 4}
SPARSE_SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "wide": ("wide", _WIDE),
    "wide_bound": ("wide", _WIDE | {"feature_bound": 0.15}),
    "wide_small_bound": ("wide", _WIDE | {"feature_bound": 0.02}),
    "wide_rule": ("wide", _WIDE | {"n_nonzero_coefs": None, "feature_bound": 0.3}),
    "wide_csr": ("wide_csr", _WIDE | {"data_norm": 3.0, "feature_bound": 0.5}),
    "wide_no_intercept": ("wide", _WIDE | {"fit_intercept": False}),
    "all_features": ("plain", {"n_nonzero_coefs": 5}),
}
# With few steps, for large tables.
_SHORT: dict[str, dict[str, Any]] = {
    "bolt_on": {"n_passes": 1, "batch_size": 7_000},
    "frank_wolfe": {"n_steps": 5, "residual_steps": 16},
    "noisy_sgd": {"n_steps": 3, "batch_size": 3_000},
    "ftrl": {"n_parts": 2, "steps_per_part": 2},
    "online": {"bucket_size": 9_000},
    "two_stage": {"refit": "noisy_gd", "refit_params": {"n_steps": 3}},
    "knowledge_transfer": {"teacher_params": {"n_steps": 3}, "teacher": "noisy_gd"},
} | {
    key: {"n_steps": 3}
    for key in ("heavy_ball", "iht", "multistage", "nesterov", "noisy_gd", "peeling")
}


def model(loss: str, solver: str, **params: Any) -> Any:
    """An unfitted estimator; REGULARISED by the parameter that it has."""
    is_sparse = solver in SPARSE or "n_nonzero_coefs" in params
    kind = _KINDS[loss, is_sparse]
    # Few features are found with little noise only; all zeros would show nothing.
    given = {"epsilon": 10.0 if is_sparse else 2.0, "random_state": 0} | params
    if "penalty" in given:
        penalty = given.pop("penalty")
        has_alpha = is_sparse or loss == "squared"
        given |= {"alpha": penalty} if has_alpha else {"C": 1 / (150 * penalty)}
    if is_sparse:
        given.setdefault("n_nonzero_coefs", 2)
    if N_CLASSES[loss] is None:
        return kind(solver=solver, target_bounds=(-2.0, 3.0), **given)
    return kind(solver=solver, classes=list(range(N_CLASSES[loss])), **given)


def fitted(loss: str, solver: str, table: str, params: dict[str, Any]) -> Released:
    """What a fit on a table releases."""
    X = rows(table)
    y = targets(X, N_CLASSES[loss])
    return of_fitted(model(loss, solver, **params).fit(X, y))


def _one(
    key: str, loss: str, solver: str, table: str = "plain", **params: Any
) -> Outcome:
    return Outcome(key, partial(fitted, loss, solver, table, params))


def _relations() -> Iterator[tuple[str, dict[str, Any]]]:
    for adjacency in ADJACENCIES:
        for name, delta in DELTAS.items():
            yield f"{adjacency}/{name}", {"adjacency": adjacency, "delta": delta}


def _losses(solver: str) -> tuple[str, ...]:
    """The losses that a solver does not refuse as such."""
    if solver == "adassp":
        return ("squared",)
    if solver == "frank_wolfe":
        return ("logistic", "squared")
    if solver in SPARSE:
        return SPARSE_LOSSES
    if solver == "graduated_gd":
        return NOT_CONVEX
    takes_all = SOLVERS[solver].takes_nonconvex
    return tuple(loss for loss in N_CLASSES if takes_all or loss not in NOT_CONVEX)


def _corner(solver: str) -> list[tuple[str, dict[str, Any]]]:
    """Each adjacency once, and each delta once if the solver has both."""
    delta = "delta" if solver in GAUSSIAN else "pure"
    other = {"adjacency": "zero_out", "delta": DELTAS[delta]}
    return [
        ("replace_one/delta", {"adjacency": "replace_one", "delta": 1e-6}),
        (f"zero_out/{delta}", other),
    ]


def by_default() -> Iterator[Outcome]:
    """Every solver on every loss, as it is, refusals included."""
    for solver in (*DENSE, *SPARSE):
        for loss in SPARSE_LOSSES if solver in SPARSE else N_CLASSES:
            for name, relation in _relations():
                key = f"solver/{solver}/{loss}/{name}"
                yield _one(key, loss, solver, **relation)


def automatic() -> Iterator[Outcome]:
    """What solver="auto" does, at little and at much noise."""
    for loss in N_CLASSES:
        for name, relation in _relations():
            for epsilon in (0.5, 2.0, 100.0):
                key = f"auto/{loss}/{name}/epsilon={epsilon:g}"
                yield _one(key, loss, "auto", **relation, epsilon=epsilon)
    for loss in SPARSE_LOSSES:
        for bound in (None, 0.02):
            for name, relation in _relations():
                given = {"feature_bound": bound, "n_nonzero_coefs": None, **relation}
                key = f"auto/sparse_{loss}/{name}/feature_bound={bound}"
                yield _one(key, loss, "auto", "wide", **given)


def by_setting() -> Iterator[Outcome]:
    """Every solver on other rows and with other parameters of the estimator."""
    for solver in (*DENSE, *SPARSE):
        settings = SETTINGS | (SPARSE_SETTINGS if solver in SPARSE else {})
        for loss in _losses(solver):
            for setting, (table, params) in settings.items():
                for name, relation in _corner(solver):
                    key = f"setting/{setting}/{solver}/{loss}/{name}"
                    yield _one(key, loss, solver, table, **(relation | params))


def by_parameters() -> Iterator[Outcome]:
    """Every solver with parameters that take other paths through it."""
    for solver, variants in VARIANTS.items():
        for variant in variants:
            for loss in variant.losses or _losses(solver):
                for name, relation in _corner(solver):
                    key = f"params/{solver}/{variant.name}/{loss}/{name}"
                    given = {"solver_params": variant.params, **relation}
                    table = variant.table
                    yield _one(key, loss, solver, table, **given, **variant.more)


def exact() -> Iterator[Outcome]:
    """The optima without privacy, of all features and of few."""
    for loss in N_CLASSES:
        for table in ("plain", "csr", "float32"):
            for intercept in (True, False):
                key = f"exact/{loss}/{table}/intercept={intercept}"
                given = {"epsilon": float("inf"), "fit_intercept": intercept}
                yield _one(key, loss, "auto", table, **given)
                if loss in SPARSE_LOSSES:
                    key = f"exact/sparse_{loss}/{table}/intercept={intercept}"
                    yield _one(key, loss, "auto", table, n_nonzero_coefs=2, **given)


def large() -> Iterator[Outcome]:
    """Several blocks, and enough numbers for the compiled pass over the gradients."""
    for solver in (*DENSE, *SPARSE):
        short = {"solver_params": _SHORT[solver]} if solver in _SHORT else {}
        losses = ("squared",) if solver == "adassp" else ("logistic",)
        if solver == "noisy_gd":
            losses = ("logistic", "squared", "hinge", "softmax")
        for loss in losses:
            for table in ("blocks", "blocks_csr", "compiled", "compiled_float32"):
                key = f"large/{table}/{solver}/{loss}"
                # Noise must have a say in which of few vertices are chosen.
                more = {"epsilon": 0.01} if solver == "frank_wolfe" else {}
                yield _one(key, loss, solver, table, **short, **more)


def outcomes() -> Iterator[Outcome]:
    """All of linear models."""
    for family in (by_default, automatic, by_setting, by_parameters, exact, large):
        yield from family()
