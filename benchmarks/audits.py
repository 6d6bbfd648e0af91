"""What audits and attacks find: of skdp, of planted bugs, of diffprivlib.

Data are made up unless a benchmark says otherwise; noise of private models is from the
operating system, so that the last digit may differ.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from benchmarks._models import quietly_fitted
from benchmarks._runner import Line, benchmark, line
from skdp import (
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPRobustClassifier,
    DPSparseLogisticRegression,
)
from skdp.audit import (
    CanaryPairs,
    audit_estimator,
    audit_one_run,
    membership_inference,
    one_run_power,
)
from skdp.privacy.accounting._relations import OF_USERS

DELTA = 1e-5
_METRICS = ("epsilon at least", "passed", "s")
Table = tuple[np.ndarray, np.ndarray]


def table(n: int = 1000, d: int = 20) -> Table:
    """Rows on the sphere that do not use the last direction, and labels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    X[:, -1] = 0
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, (X @ rng.normal(size=d) > 0).astype(int)


def classifier(kind: type[Any], solver: str, **given: Any) -> Any:
    """A model of two classes at (1, 1e-5)."""
    return kind(1.0, delta=DELTA, classes=[0, 1], solver=solver, **given)


def audited(audit: Callable[[], Any], run: int) -> list[float]:
    """The bound of one audit, whether it passed, and seconds."""
    start = time.perf_counter()
    result = audit()
    seconds = time.perf_counter() - start
    return [result.epsilon_lower_bound, float(result.passed), seconds]


def _line(what: str, method: str, audit: Callable[[], Any], **more: Any) -> Line:
    return line(
        {"audit": what},
        method,
        partial(audited, audit),
        _METRICS,
        statistic="median",
        judge=lambda values, _: (
            f"{values[:, 0].min():.3f} to {values[:, 0].max():.3f}, passed "
            f"{values[:, 1].sum():.0f} of {len(values)}"
        ),
        **more,
    )


@benchmark("audits", runs=9, judged=True)
def audits() -> Iterator[Line]:
    """Lower bounds on a claimed epsilon of 1: by transcripts and by outputs."""
    X, y = table()
    for adjacency in ("replace_one", "zero_out"):
        for name, model in _full_batch(adjacency):
            audit = partial(audit_estimator, model, X, y, access="transcript")
            yield _line("transcripts", f"{name}, {adjacency}", audit, most_runs=1)
    for solver, kind, more in (
        ("output_perturbation", DPLinearSVC, {"fit_intercept": False}),
        ("output_perturbation", DPLinearSVC, {}),
        ("output_perturbation", DPLogisticRegression, {"fit_intercept": False}),
        ("objective_perturbation", DPLinearSVC, {"fit_intercept": False}),
    ):
        audit = partial(audit_estimator, classifier(kind, solver, **more), X, y)
        name = f"{solver}, {kind.__name__}{'' if more else ', intercept'}"
        yield _line("outputs", name, audit)


def _full_batch(adjacency: str) -> Iterator[tuple[str, Any]]:
    """Every recommended solver that releases Gaussian sums over all records."""
    own = {"adjacency": adjacency}
    for solver in ("noisy_gd", "nesterov", "noisy_sgd"):
        yield solver, classifier(DPLogisticRegression, solver, **own)
    facts = {"target_bounds": (0, 1), "delta": DELTA}
    yield "adassp", DPLinearRegression(1.0, solver="adassp", **facts, **own)
    yield "graduated_gd", classifier(DPRobustClassifier, "graduated_gd", **own)
    few = {"feature_bound": 1.0, **own}
    for solver in ("iht", "peeling"):
        yield solver, classifier(DPSparseLogisticRegression, solver, **few)


@benchmark("planted_bugs", runs=9, judged=True)
def planted() -> Iterator[Line]:
    """Planted bugs of the tests, of records and of users, with default settings."""
    from tests.planted import records, users

    X, y = table(200, 5)
    facts = {"epsilon": 1.0, "delta": DELTA}
    for name in records.__all__:
        model = getattr(records, name)()
        goal = 3 * X[:, 0] if hasattr(model, "target_bounds") else y
        audit = partial(audit_estimator, model, X, goal, **facts)
        yield _line("records", name, audit)
    # From 2^24 on, single precision has no odd numbers.
    ids = 2**24 + np.arange(200) % 100
    cases: list[tuple[str, dict[str, int]]] = [(name, {}) for name in users.__all__]
    cases.append(("OneRowMore", {"most_rows": 1}))
    for name, given in cases:
        for relation in OF_USERS:
            model = getattr(users, name)(adjacency=relation, **given)
            own = {**facts, "adjacency": relation, "groups": ids}
            audit = partial(audit_estimator, model, X, y, **own)
            shown = f"{name}{given or ''}, {relation}"
            yield _line("users", shown, audit, most_runs=3)


# ------------------------------------------------------------------- audits of one run

_N, _D, _SMALL = 1000, 10, 1e-6


def made_up(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of norm 1 and a bounded target that follows from them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(_N, _D))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.clip(2 * X @ rng.normal(size=_D) / np.sqrt(_D), -1, 1)


def _model(
    is_linear: bool, epsilon: float, solver: str, adjacency: str, **how: Any
) -> Any:
    kind: Any = DPLinearRegression if is_linear else DPLogisticRegression
    known: dict[str, Any] = {"classes": [0, 1]}
    if is_linear:
        known = {"target_bounds": (-1, 1)}
    budget = {"epsilon": epsilon, "delta": _SMALL, "adjacency": adjacency}
    params = {"solver": solver, "solver_params": how or None}
    return kind(fit_intercept=False, **known, **budget, **params)


@dataclass(frozen=True)
class Way:
    """A model that is audited, and how."""

    model: Any
    X: np.ndarray
    y: np.ndarray
    score: Any = None
    canaries: Any = "columns"

    def audit(self, n_canaries: int, n_guesses: int, seed: int) -> list[float]:
        """Both bounds, whether either refutes, and the share of right guesses."""
        found = audit_one_run(
            self.model,
            self.X,
            self.y,
            score=self.score,
            canaries=self.canaries,
            n_canaries=n_canaries,
            n_guesses=n_guesses,
            random_state=seed,
        )
        guesses = found.bounds.guesses
        return [
            found.epsilon_lower,
            found.gaussian_epsilon_lower,
            float(found.refutes or found.refutes_gaussian),
            guesses.n_right / guesses.n_guesses,
        ]


def whole_path(model: Any, pairs: CanaryPairs) -> np.ndarray:
    """All released gradients, less what is known of them; of a logistic regression.

    A canary's column has the gradient expit(weight) - label of this canary, and noise.
    """
    how, n = model.privacy_.solver_params, model.privacy_.n_samples
    path = model.coef_path_.reshape(len(model.coef_path_), -1)[:, -len(pairs) :]
    path = np.vstack([np.zeros((2, path.shape[1])), path])
    steps = np.diff(path, axis=0)
    moved = steps[1:] - how["momentum"] * steps[:-1]
    gradients = -moved * n / how["step_size"]
    labels = expit(path[1:-1]) - gradients
    return np.sum(labels / labels.var(axis=1, keepdims=True), axis=0)


def ways(epsilon: float) -> Iterator[tuple[str, Way]]:
    """Models, relations and scores."""
    X, y = made_up()
    labels = (y > 0).astype(int)
    for is_linear, target in ((True, y), (False, labels)):
        name = "linear" if is_linear else "logistic"
        for adjacency in ("replace_one", "zero_out"):
            for solver in ("noisy_gd", "nesterov", "output_perturbation", "auto"):
                model = _model(is_linear, epsilon, solver, adjacency)
                yield f"{name}, {adjacency}, {solver}", Way(model, X, target)
    kept = _model(False, epsilon, "noisy_gd", "replace_one", keeps_path=True)
    yield "weights (the default)", Way(kept, X, labels)
    yield "all gradients of the path", Way(kept, X, labels, whole_path)
    wide = np.hstack([X, np.zeros((_N, 2000 - _D))])
    model = _model(True, epsilon, "noisy_gd", "replace_one")
    yield "rows in random directions", Way(model, wide, y, None, "rows")


_OF_ONE_RUN = ("any release", "Gaussian", "refuted", "right guesses")


@benchmark("one_run", runs=20)
def one_run() -> Iterator[Line]:
    """Medians of audits of one fit: 1,000 canaries, of which 200 are guessed."""
    for epsilon in (4.0, 1.0):
        for name, way in ways(epsilon):
            yield line(
                {"claimed": epsilon, "canaries": 1000, "guessed": 200},
                name,
                partial(way.audit, 1000, 200),
                _OF_ONE_RUN,
                statistic="median",
            )
        _, way = next(ways(epsilon))
        for n in (400, 1000, 2000):
            for share in (0.05, 0.1, 0.2, 0.5, 1.0):
                r = round(share * n)
                power = one_run_power(n, epsilon=epsilon, delta=_SMALL, n_guesses=r)
                yield line(
                    {"claimed": epsilon, "canaries": n, "guessed": r},
                    "linear regression by size",
                    partial(way.audit, n, r),
                    _OF_ONE_RUN,
                    statistic="median",
                    note=f"expected {power.epsilon_lower:.2f} and "
                    f"{power.gaussian_epsilon_lower:.2f}",
                )


# ------------------------------------------------------------------------ membership


def attacked(make: Callable[[], Any], run: int) -> list[float]:
    """The likelihood-ratio attack on a fit to a random half of the digits."""
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    order = np.random.default_rng(run).permutation(len(y))
    half = len(y) // 2
    (X1, y1), (X0, y0) = ((X[p], y[p]) for p in (order[:half], order[half:]))
    model = quietly_fitted(make(), X1, y1)
    found = membership_inference(
        model, (X1, y1), (X0, y0), n_shadows=32, random_state=run
    )
    return [
        float(model.score(X0, y0)),
        found.auc,
        found.true_positive_rate(0.001),
        found.true_positive_rate(0.01),
        found.advantage,
        np.nan if found.bound is None else found.bound.advantage,
    ]


@benchmark("membership")
def membership() -> Iterator[Line]:
    """Who was in the training set, of models with and without privacy."""
    makers: dict[str, Callable[[], Any]] = {
        "nearest neighbour": lambda: KNeighborsClassifier(1),
        "tree": lambda: DecisionTreeClassifier(random_state=0),
        "random forest": lambda: RandomForestClassifier(random_state=0),
        "logistic regression, C=100": lambda: LogisticRegression(C=100, max_iter=2000),
        "logistic regression, C=1": lambda: LogisticRegression(max_iter=2000),
    }
    for epsilon in (1.0, 8.0):
        makers[f"DPLogisticRegression, epsilon {epsilon:g}"] = partial(
            DPLogisticRegression, epsilon, classes=list(range(10))
        )
    for name, make in makers.items():
        yield line(
            {"data": "digits"},
            name,
            partial(attacked, make),
            (
                "accuracy",
                "AUC",
                "found at 0.1 %",
                "found at 1 %",
                "advantage",
                "guarantee",
            ),
        )
