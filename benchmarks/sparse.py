"""Few features of many: sparse models beside dense ones, constants and DP-IGHT.

The lines of skdp have the noise of a private release. "oracle" is a solver with the
settings that are best on other data sets of the same kind, at no cost: what it could
do, not what it does. DP-IGHT of Wang's thesis (2021, chapters 2 and 3; figures 2.1 and
3.2) has noise of NumPy and settings of an oracle, as the thesis tunes on the data at
no cost; what the thesis does not say is a reading: clips are multiples of a typical
gradient. It fits no intercept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import expit, logit
from sklearn.linear_model import Lasso
from sklearn.metrics import f1_score, log_loss, r2_score

from benchmarks._models import quietly_fitted
from benchmarks._papers import _sparse as papers
from benchmarks._papers._privacy import thresholding_epsilon, thresholding_multiplier
from benchmarks._references import l1_logistic
from benchmarks._runner import (
    FIRST_TUNING_RUN,
    Line,
    at_hand,
    benchmark,
    each,
    line,
)
from benchmarks._tables import Texts, imdb, reuters
from skdp.linear_model import (
    DPLinearRegression,
    DPLogisticRegression,
    DPSparseLinearRegression,
    DPSparseLogisticRegression,
)
from skdp.solvers import SOLVERS

Grid = tuple[dict[str, Any], ...]


def grid(**choices: Sequence[Any]) -> Grid:
    """All combinations."""
    return tuple(
        dict(zip(choices, values, strict=True)) for values in product(*choices.values())
    )


class Sample(NamedTuple):
    """One data set, targets or labels 0 and 1, and the weights behind it."""

    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True)
class Design:
    """A synthetic design with few relevant features: public facts, and `sample`.

    Wang (2021): `kind` "rows" is section 2.6.1, entries of U(-2, 2) in rows shortened
    to norm 2 s; "entries" is section 3.4.1, entries of U(-1, 1). In both the weights
    are U(-1, 1) and the noise of the targets has variance 0.1. "signs" has entries of
    1 and -1, weights of either sign and magnitude 0.1 to 0.3, noise of deviation 0.2.
    Labels are 1 with probability ``1 / (1 + exp(-x @ w))``; the thesis prints the
    other sign.
    """

    n: int
    d: int
    s: int
    kind: str
    labels: bool = False

    noise: ClassVar[dict[str, float]] = {
        "rows": math.sqrt(0.1),
        "entries": math.sqrt(0.1),
        "signs": 0.2,
    }

    @property
    def data_norm(self) -> float:
        """Bound on the norm of a row: known, since the law of the entries is."""
        if self.kind == "rows":
            return 2.0 * self.s
        if self.kind == "entries":  # the mean square is 1/3, within 5 deviations
            return math.sqrt(self.d / 3 + 5 * math.sqrt(4 * self.d / 45))
        return math.sqrt(self.d)

    @property
    def entry_variance(self) -> float:
        """Mean square of an entry."""
        if self.kind == "rows":
            return min(4 / 3, self.data_norm**2 / self.d)
        return 1 / 3 if self.kind == "entries" else 1.0

    @property
    def feature_bound(self) -> float:
        """Bound on an entry, at the shortest row that the law lets expect."""
        if self.kind == "rows":
            shortest = math.sqrt(4 * self.d / 3 - 5 * math.sqrt(64 * self.d / 45))
            return 2 * min(1.0, self.data_norm / shortest)
        return 1.0

    @property
    def deviation(self) -> float:
        """Of the targets, over weights and rows alike."""
        square = 0.13 / 3 if self.kind == "signs" else 1 / 3
        return math.sqrt(
            self.s * square * self.entry_variance + self.noise[self.kind] ** 2
        )

    @lru_cache(maxsize=1)  # noqa: B019 - a frozen value; 5000 x 5000 take 100 MB
    def sample(self, run: int) -> Sample:
        """The data set of a run."""
        rng = np.random.default_rng([run, self.n, self.d, self.s])
        weights = np.zeros(self.d)
        chosen = rng.choice(self.d, self.s, replace=False)
        if self.kind == "signs":
            magnitude = rng.uniform(0.1, 0.3, self.s)
            weights[chosen] = rng.choice([-1.0, 1.0], self.s) * magnitude
        else:
            weights[chosen] = rng.uniform(-1, 1, self.s)
        X = self._rows(rng)
        raw = X @ weights.astype(np.float32)
        if self.labels:
            y = (rng.uniform(size=self.n) < expit(raw)).astype(float)
        else:
            y = raw + self.noise[self.kind] * rng.standard_normal(self.n)
        return Sample(X, y, weights)

    def _rows(self, rng: np.random.Generator) -> np.ndarray:
        X = rng.random((self.n, self.d), dtype=np.float32)
        X *= 2
        X -= 1
        if self.kind == "signs":
            return np.sign(X + np.float32(1e-9))
        if self.kind == "rows":
            X *= 2
            norms = np.sqrt(np.einsum("ij,ij->i", X, X))
            X *= np.minimum(1, self.data_norm / norms)[:, None].astype(np.float32)
        return X


def relative_error(found: np.ndarray, weights: np.ndarray) -> float:
    """Norm of the difference over the norm of the weights."""
    return float(np.linalg.norm(found - weights) / np.linalg.norm(weights))


def support_f1(found: np.ndarray, weights: np.ndarray) -> float:
    """F1 of the features with a nonzero weight."""
    both = np.count_nonzero((found != 0) & (weights != 0))
    return float(2 * both / (np.count_nonzero(found) + np.count_nonzero(weights)))


class SyntheticTask:
    """Weights to be found, without an intercept; a data set for every run.

    Targets are declared to be within three of their deviations.
    """

    metrics = ("relative error", "support F1")
    better = "lower"
    reference = "IGHT"
    has_intercept = False

    def __init__(self, design: Design) -> None:
        self.design, self.labels, self.s = design, design.labels, design.s
        kind = f"{design.kind}, labels" if design.labels else design.kind
        self.name = f"{kind}, n={design.n}, d={design.d}, s={design.s}"
        self.data_norm, self.feature_bound = design.data_norm, design.feature_bound
        bound = 3 * design.deviation
        self.target_bounds = None if self.labels else (-bound, bound)

    def table(self, run: int) -> papers.Table:
        """The training set of a run."""
        sample, variance = self.design.sample(run), self.design.entry_variance
        return papers.Table(
            X=sample.X,
            y=sample.y,
            labels=self.labels,
            s=self.s,
            data_norm=self.data_norm,
            feature_bound=self.feature_bound,
            entry_variance=variance,
            curvature=variance,
            residual=0.5 if self.labels else self.design.deviation,
        )

    def of_weights(self, weights: np.ndarray, run: int) -> tuple[float, ...]:
        """The metrics of weights without an intercept."""
        true = self.design.sample(run).weights
        return relative_error(weights, true), support_f1(weights, true)

    def of_model(self, model: Any, run: int) -> tuple[float, ...]:
        """The metrics of a fitted linear model."""
        return self.of_weights(np.asarray(model.coef_, float).ravel(), run)

    def of_constant(self, run: int) -> tuple[float, ...]:
        """The metrics of weights of zero."""
        return self.of_weights(np.zeros(self.design.d), run)

    def not_private(self, run: int) -> tuple[float, ...]:
        """The metrics of the thesis's method without noise."""
        found = papers.dp_ight(self.table(run), n_steps=50, step=0.6, deviation=0.0)
        return self.of_weights(found, run)


class TextTask:
    """Many words, fixed training and test parts; a run has noise of its own only."""

    s = None  # the estimators' rule
    data_norm = 1.0
    has_intercept = True
    better = "higher"

    def __init__(self, name: str) -> None:
        self.name, self.labels = name, "stars" not in name
        self.feature_bound = 0.5 if name == "reuters" else 0.3
        self.target_bounds = None if self.labels else (1.0, 10.0)
        labelled = ("accuracy", "log-loss", "F1")
        self.metrics = labelled if self.labels else ("R2",)
        self.reference = "L1 logistic regression" if self.labels else "Lasso"

    def parts(self, run: int) -> Texts:
        """Training and test part; of the training part alone where an oracle tunes."""
        data = _texts(self.name)
        if run < FIRST_TUNING_RUN:
            return data
        held = np.arange(len(data.y_train)) % 5 == 4
        X, y = data.X_train, data.y_train
        return Texts(X[~held], y[~held], X[held], y[held])

    def table(self, run: int) -> Texts:
        """The same; the methods of the thesis are not run on texts."""
        return self.parts(run)

    def of_raw(self, raw: np.ndarray, run: int) -> tuple[float, ...]:
        """The metrics of raw predictions for the test part."""
        y = self.parts(run).y_test
        if not self.labels:
            return (r2_score(y, raw),)
        positive = raw > 0
        loss = log_loss(y, expit(raw), labels=[0, 1])
        return np.mean(positive == y), loss, f1_score(y, positive, zero_division=0)

    def of_model(self, model: Any, run: int) -> tuple[float, ...]:
        """The metrics of a fitted linear model."""
        predict = model.decision_function if self.labels else model.predict
        return self.of_raw(predict(self.parts(run).X_test), run)

    def of_constant(self, run: int) -> tuple[float, ...]:
        """The metrics of the same prediction for all."""
        data = self.parts(run)
        mean = float(data.y_train.mean())
        raw = logit(mean) if self.labels else mean
        return self.of_raw(np.full(len(data.y_test), raw), run)

    def not_private(self, run: int) -> tuple[float, ...]:
        """With an L1 penalty, its strength chosen on every fifth training row."""
        # In single precision scikit-learn's Lasso does not converge on sparse rows.
        X, y = self.parts(run).X_train.astype(float), self.parts(run).y_train
        held = np.arange(len(y)) % 5 == 4
        models: list[Any] = [l1_logistic(C, tol=1e-2) for C in (1.0, 3.0, 10.0)]
        if not self.labels:
            spread = float(y.std() * np.sqrt(X.multiply(X).mean()))
            models = [
                Lasso(alpha=share * spread, max_iter=100, tol=1e-2)
                for share in (0.03, 0.01, 0.005)
            ]
        reached = [
            model.fit(X[~held], y[~held]).score(X[held], y[held]) for model in models
        ]
        best = models[int(np.argmax(reached))].fit(X, y)
        return self.of_model(best, run)


@lru_cache(maxsize=1)
def _texts(name: str) -> Texts:
    return reuters() if name == "reuters" else imdb(name.split()[1], "tfidf")


Task = SyntheticTask | TextTask


# --------------------------------------------------------------------- Wang's methods

# What fits, given a table, settings and a generator; its true epsilon; its settings.
Method = tuple[Callable[..., np.ndarray], float, Grid, str]


def _dp_ight(kind: str, clipped: bool, epsilon: float, delta: float, s: int) -> Method:
    multiplier = thresholding_multiplier(epsilon, delta, kind)
    cost = thresholding_epsilon(multiplier, delta, 2.0)

    def fit(table: papers.Table, *, rng: Any, clip: float = 1.0, **steps: Any) -> Any:
        bound = clip * table.data_norm * table.residual
        if not clipped:
            bound = worst_case_bound(table)
        scale = multiplier * bound * math.sqrt(steps["n_steps"]) / len(table.y)
        limit = bound if clipped else math.inf
        return papers.dp_ight(table, deviation=scale, clip=limit, rng=rng, **steps)

    if clipped:
        choices = grid(n_steps=(1, 3, 6), step=(0.6, 1.0), clip=(0.35, 0.7))
        return fit, cost, choices, ""
    note = f"no gradient bound is enforced; the noise is that of epsilon {cost:.3g}"
    return fit, math.inf, grid(n_steps=(1, 3), step=(0.2, 0.6)), note


def worst_case_bound(table: papers.Table) -> float:
    """G of section 2.5.2: K for labels, K (K ||w|| + nu log n) for targets.

    The norm of the true weights is unknown; the typical residual stands for
    ``||w|| sqrt(entry variance)``.
    """
    if table.labels:
        return table.data_norm
    norm = table.residual / math.sqrt(table.entry_variance)
    noise = math.sqrt(0.1) * math.log(len(table.y))
    return table.data_norm * (table.data_norm * norm + noise)


# From epsilon and delta claimed, and s, to a method.
METHODS: dict[str, Callable[[float, float, int], Method]] = {
    "DP-IGHT, theorem 2.5.2": partial(_dp_ight, "theorem 2.5.2", False),
    "DP-IGHT, corollary": partial(_dp_ight, "corollary 2.5.8", False),
    "DP-IGHT, clipped, theorem 2.5.2": partial(_dp_ight, "theorem 2.5.2", True),
    "DP-IGHT, clipped, exact": partial(_dp_ight, "exact", True),
}


def _of_thesis(
    task: SyntheticTask, fit: Callable[..., np.ndarray], run: int, **settings: Any
) -> tuple[float, ...]:
    rng = np.random.default_rng([17, run])
    return task.of_weights(fit(task.table(run), rng=rng, **settings), run)


# --------------------------------------------------------------------------------- lin

Places = Sequence[tuple[str, float]]


def lines(
    task: Task,
    n: int,
    places: Places,
    *,
    delta: float | None = None,
    solvers: Sequence[str] | None = None,
    oracle: dict[str, dict[str, list[float]]] | None = None,
    few_runs: dict[str, int] | None = None,
    thesis: Sequence[str] = (),
) -> Iterator[Line]:
    """All methods of a task."""
    few = few_runs or {}
    facts: dict[str, Any] = {"metrics": task.metrics, "better": task.better}
    for name, score in (
        ("constant", task.of_constant),
        (f"{task.reference}, not private", task.not_private),
    ):
        yield line(
            {"task": task.name, "epsilon": math.inf},
            name,
            score,
            adjacency="none",
            most_runs=None if isinstance(task, SyntheticTask) else 1,
            **facts,
        )
    delta = delta or 1 / n**2
    keys = [key for key, solver in SOLVERS.items() if solver.is_sparse]
    for adjacency, epsilon in places:
        at = facts | {
            "place": {"task": task.name, "epsilon": epsilon},
            "claimed": epsilon,
            "delta": delta,
            "adjacency": adjacency,
        }
        budget = {"epsilon": epsilon, "delta": delta, "adjacency": adjacency}
        made: dict[str, tuple[Callable[..., Any], Grid]] = {
            f"skdp {key}": (partial(_sparse, task, budget, key), ())
            for key in solvers or ("auto", *keys)
        }
        for key, values in (oracle or {}).items():
            make = partial(_sparse, task, budget, key)
            made[f"skdp {key}, oracle"] = make, _grid(task, values)
        if isinstance(task, TextTask):
            made["skdp, all features"] = partial(_dense, task, budget), ()
        for name, (make, choices) in made.items():
            yield Line(
                method=name,
                measure=each(partial(_fitted, task, make)),
                private=True,
                grid=choices,
                most_runs=few.get(name),
                **at,
            )
        if adjacency != "replace_one" or isinstance(task, TextTask):
            continue
        for name in thesis:
            fit, true, choices, note = METHODS[name](epsilon, delta, task.s)
            yield Line(
                method=name,
                measure=each(partial(_of_thesis, task, fit)),
                true=true,
                grid=choices,
                note=note,
                **at,
            )


def _fitted(
    task: Task, make: Callable[..., Any], run: int, **settings: Any
) -> tuple[float, ...]:
    table: Any = task.table(run)
    X, y = (
        (table.X_train, table.y_train)
        if isinstance(table, Texts)
        else (table.X, table.y)
    )
    return task.of_model(quietly_fitted(make(**settings), X, y), run)


def _known(task: Task, budget: dict[str, Any]) -> dict[str, Any]:
    facts = budget | {"data_norm": task.data_norm, "fit_intercept": task.has_intercept}
    if task.labels:
        return facts | {"classes": [0.0, 1.0]}
    return facts | {"target_bounds": task.target_bounds}


def _sparse(task: Task, budget: dict[str, Any], solver: str, **settings: Any) -> Any:
    estimator = DPSparseLogisticRegression if task.labels else DPSparseLinearRegression
    return estimator(
        feature_bound=task.feature_bound,
        n_nonzero_coefs=task.s,
        solver=solver,
        solver_params=settings or None,
        **_known(task, budget),
    )


def _dense(task: Task, budget: dict[str, Any]) -> Any:
    estimator = DPLogisticRegression if task.labels else DPLinearRegression
    return estimator(**_known(task, budget))


def _grid(task: Task, values: dict[str, list[float]]) -> Grid:
    """All combinations, steps in the solvers' units: public."""
    if "step_size" in values:
        assert isinstance(task, SyntheticTask), "settings are tuned on synthetic data"
        unit = (4.0 if task.labels else 1.0) / task.design.entry_variance
        values = values | {"step_size": [unit * size for size in values["step_size"]]}
    return grid(**values)


_BOTH = ("replace_one", "zero_out")
_SLOW = ("skdp, all features", "skdp knowledge_transfer")
_SLOWER = ("skdp peeling", "skdp frank_wolfe", "skdp two_stage")
_PEELING = {"n_steps": [6, 9], "n_rounds": [3, 6], "residual_clip": [0.2, 0.4]}


_PLACES = tuple(product(_BOTH, (0.5, 1.0, 2.0, 4.0)))


@benchmark("sparse", runs=5, claims=True)
def texts(stars: bool = False) -> Iterator[Line]:
    """Film reviews and newswires, every solver with every default.

    With `stars`, how many stars a film review gives.
    """
    names = ("imdb stars",) if stars else ("reuters", "imdb sentiment")
    for name in at_hand(names, _texts):
        task, few = TextTask(name), dict.fromkeys(_SLOW, 2)
        if name != "reuters":
            few |= dict.fromkeys(_SLOWER, 3)
        n = len(_texts(name).y_train)
        yield from lines(task, n, _PLACES, few_runs=few)


@benchmark("sparse_designs", runs=10, tuning_runs=3, claims=True)
def designs() -> Iterator[Line]:
    """Synthetic designs, every solver with every default and with an oracle."""
    iht = {"n_steps": [2, 4], "step_size": [0.3, 0.6, 1.0], "residual_clip": [0.1, 0.2]}
    oracle = {"iht": iht, "peeling": _PEELING}
    places = tuple(product(_BOTH, (2.0, 4.0, 10.0)))
    few = ("DP-IGHT, theorem 2.5.2", "DP-IGHT, clipped, exact")
    for labels in (False, True):
        design = Design(1000, 1000, 10, "rows", labels)
        if labels:
            wide = {"residual_clip": [0.5, 1.0]}
            oracle = {"iht": iht | wide, "peeling": _PEELING | wide}
        yield from lines(
            SyntheticTask(design),
            design.n,
            places,
            delta=0.01,
            oracle=oracle,
            thesis=few,
        )
    for kind in ("signs", "rows"):
        design = Design(2000, 2000, 10, kind)
        at_one = tuple(product(_BOTH, (1.0,)))
        yield from lines(SyntheticTask(design), 2000, at_one, thesis=few[1:2])


_OF_CHAPTER_2 = tuple(METHODS)
_OF_CHAPTER_3 = tuple(name for name in METHODS if name != "DP-IGHT, corollary")


def chapter(
    kind: str,
    shapes: Sequence[tuple[int, int, int]],
    epsilon: Sequence[float],
    thesis: Sequence[str],
    labels: bool = False,
) -> Iterator[Line]:
    """A figure of the thesis: delta = 0.01, replace_one."""
    for n, d, s in shapes:
        task = SyntheticTask(Design(n, d, s, kind, labels))
        places = [("replace_one", each) for each in epsilon]
        yield from lines(task, n, places, delta=0.01, solvers=("auto",), thesis=thesis)


_SHAPES_2, _SHAPES_3 = (
    ((1000, 1000, 10), (5000, 5000, 30)),
    ((800, 1000, 10), (4000, 5000, 50)),
)
_EVEN = (2.0, 4.0, 6.0, 8.0, 10.0)


def _figure(name: str, which: str, *facts: Any) -> None:
    summary = f"Wang (2021), figure {which}"
    benchmark(f"sparse_{name}", summary, runs=10, claims=True)(partial(chapter, *facts))


_figure("chapter_2_linear", "2.1 (a, b)", "rows", _SHAPES_2, _EVEN, _OF_CHAPTER_2)
_figure(
    "chapter_2_logistic", "2.1 (c, d)", "rows", _SHAPES_2, _EVEN, _OF_CHAPTER_2, True
)
_figure(
    "chapter_3_linear",
    "3.2 (a, b)",
    "entries",
    _SHAPES_3,
    (0.8, 1.5, 2.5, 3.5, 5.0),
    _OF_CHAPTER_3,
)
_figure(
    "chapter_3_logistic",
    "3.2 (c, d)",
    "entries",
    _SHAPES_3,
    _EVEN,
    ("DP-IGHT, theorem 2.5.2", "DP-IGHT, clipped, exact"),
    True,
)
