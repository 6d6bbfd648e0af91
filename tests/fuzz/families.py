"""What is done with a drawn table: a few small tasks of each family of estimators."""

from __future__ import annotations

import logging
import sys
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import make_pipeline

from skdp import (
    DPPCA,
    BoundedScaler,
    DPCalibratedClassifier,
    DPGammaRegressor,
    DPGradientBoostingClassifier,
    DPGradientBoostingRegressor,
    DPGridSearchCV,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPMLPClassifier,
    DPMLPRegressor,
    DPPoissonRegressor,
    DPQuantileClipper,
    DPQuantileRegressor,
    DPRobustClassifier,
    DPSimpleImputer,
    DPSparseLinearRegression,
    DPSparseLogisticRegression,
    DPStandardScaler,
    DPTunedThresholdClassifier,
    RowNormClipper,
    TableEncoder,
    describe,
    private_evaluation,
    private_score,
    propose_ranges,
)
from tests.fuzz.tables import TARGET_BOUNDS, WITH_HOLES, Data, Shape, in_memory

Task = Callable[[Data], Any]
FEW_STEPS = {"n_steps": 3}
FEW_TREES = {"n_estimators": 2, "max_depth": 2}


@dataclass(frozen=True)
class Drawn:
    """A table's shape, and what else a task is drawn with."""

    rng: Any
    shape: Shape
    usual: Any

    @property
    def budget(self) -> dict[str, Any]:
        """Arguments of whatever spends."""
        return {
            "epsilon": 1.0,
            "delta": 1e-5,
            "adjacency": self.shape.adjacency,
            "privacy_unit": self.shape.unit,
        }

    @property
    def about(self) -> dict[str, Any]:
        """Arguments of a model about its target."""
        if self.shape.is_class:
            return {"classes": [0, 1]}
        return {"target_bounds": TARGET_BOUNDS}

    @property
    def table(self) -> dict[str, Any]:
        """Arguments of a model about its columns."""
        return {} if self.shape.columns is None else {"columns": self.shape.columns}

    def one_of(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def small(self, budget: dict[str, Any], solver: str = "noisy_gd") -> Any:
        """A linear model of few steps."""
        cls = DPLogisticRegression if self.shape.is_class else DPLinearRegression
        params = FEW_STEPS if solver in ("noisy_gd", "nesterov") else None
        facts = {**budget, **self.about, **self.table, "solver": solver}
        return cls(**facts, solver_params=params)


def _linear(drawn: Drawn) -> Task:
    if drawn.rng.random() < 0.6:
        solvers = ["noisy_gd", "nesterov", "auto"]
        if drawn.shape.unit == "record":
            solvers.append("noisy_newton")
        if not drawn.shape.is_class:
            solvers.append("adassp")
        if drawn.shape.columns is None:
            solvers.remove("auto")  # may be objective perturbation: no replay
        model = drawn.small(drawn.budget, drawn.one_of(*solvers))
        return lambda data: data.fit(model)
    facts = {"solver": "noisy_gd", "solver_params": FEW_STEPS, **drawn.table}
    about = drawn.about
    if drawn.shape.is_class:
        cls = drawn.one_of(DPLinearSVC, DPRobustClassifier)
    else:
        cls = drawn.one_of(DPPoissonRegressor, DPGammaRegressor, DPQuantileRegressor)
        if cls is DPGammaRegressor:
            about = {"target_bounds": (0.1, TARGET_BOUNDS[1])}
    model = cls(**drawn.budget, **about, **facts)
    return lambda data: data.fit(model)


def _sparse(drawn: Drawn) -> Task:
    is_class = drawn.shape.is_class
    cls = DPSparseLogisticRegression if is_class else DPSparseLinearRegression
    solvers = ["iht", "peeling"]
    if drawn.shape.place == "memory":
        solvers.extend(["two_stage", "frank_wolfe"])
    solver = drawn.one_of(*solvers)
    params = FEW_STEPS if solver in ("iht", "frank_wolfe") else None
    about = {**drawn.budget, **drawn.about, **drawn.table}
    model = cls(**about, solver=solver, solver_params=params)
    return lambda data: data.fit(model)


def _boosting(drawn: Drawn) -> Task:
    is_class = drawn.shape.is_class
    cls = DPGradientBoostingClassifier if is_class else DPGradientBoostingRegressor
    about = {**drawn.budget, **drawn.about, **drawn.table, **FEW_TREES}
    model = cls(**about, init=drawn.one_of("linear", "constant"))
    return lambda data: data.fit(model)


def _network(drawn: Drawn) -> Task:
    cls = DPMLPClassifier if drawn.shape.is_class else DPMLPRegressor
    about = {**drawn.budget, **drawn.about, **drawn.table}
    model = cls(
        **about, hidden_layer_sizes=(3,), solver="noisy_gd", solver_params=FEW_STEPS
    )
    return lambda data: data.fit(model)


def _transformers(drawn: Drawn) -> Task:
    budget, bounds = drawn.budget, (-1, 1)
    private = drawn.one_of(
        DPStandardScaler(**budget, bounds=bounds),
        DPQuantileClipper(**budget, bounds=bounds),
        DPPCA(**budget, n_components=1, data_norm=1.0),
        DPSimpleImputer(**budget, bounds=bounds),
    )
    if drawn.shape.unit == "user" and drawn.shape.place == "memory":
        return lambda data: _of_users_alone(drawn, data, private)
    if drawn.shape.columns is None:
        steps = drawn.one_of(
            [private],
            [BoundedScaler(bounds=bounds), private],
            [RowNormClipper(1.0), private],
        )
        is_source = drawn.shape.place != "memory"
        may_have_holes = is_source and drawn.rng.random() < 0.5
        if may_have_holes or drawn.shape.form == WITH_HOLES:
            steps = [DPSimpleImputer(**budget, bounds=bounds)]
    else:
        unknown = drawn.one_of("ignore", "error")
        encoder = TableEncoder(drawn.shape.columns, handle_unknown=unknown)
        steps = drawn.one_of([encoder, private], [encoder], [encoder, RowNormClipper()])
    plain = {**drawn.about, "solver": "noisy_gd", "solver_params": FEW_STEPS}
    cls = DPLogisticRegression if drawn.shape.is_class else DPLinearRegression
    model = make_pipeline(*steps, cls(**budget, **plain))
    return lambda data: data.fit(model)


def _of_users_alone(drawn: Drawn, data: Data, private: Any) -> Any:
    """A pipeline in memory does not hand groups on to its steps."""
    X = data.X
    if drawn.shape.columns is not None:
        # A number of knots by rule would follow from the number of rows.
        X = TableEncoder(drawn.shape.columns, n_knots=5).fit_transform(X)
    return clone(private).fit(X, groups=data.groups)


def _describe(drawn: Drawn) -> Task:
    names = list(drawn.shape.kinds)
    crosses = [tuple(names[:2])] if len(names) > 1 and drawn.rng.random() < 0.3 else ()

    def task(data: Data) -> Any:
        return describe(
            data.X,
            drawn.shape.columns,
            **drawn.budget,
            groups=data.groups,
            crosses=crosses,
            n_bins=8,
        )

    return task


def _propose(drawn: Drawn) -> Task:
    return lambda data: propose_ranges(data.X, **drawn.budget, groups=data.groups)


class Loud(BaseEstimator):
    """A public model of another library that prints and logs when it is called.

    It refuses some rows, as models do that do not know a category.
    """

    def __init__(self, is_class: bool = True) -> None:
        self.is_class = is_class

    def fit(self, X: Any, y: Any = None) -> Loud:
        self.n_features_in_ = X.shape[1]
        if hasattr(X, "columns"):
            self.feature_names_in_ = np.array(list(X.columns), dtype=object)
        if self.is_class:
            self.classes_ = np.array([0, 1])
        return self

    @property
    def _estimator_type(self) -> str:
        return "classifier" if self.is_class else "regressor"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = self._estimator_type
        return tags

    def _numbers(self, X: Any) -> np.ndarray:
        print("[Loud] predict")
        print("[Loud] predict", file=sys.stderr)
        logging.getLogger("loud").warning("predict")
        rows = X.toarray() if issparse(X) else np.asarray(X, dtype=float)
        found = np.array([zlib.crc32(row.tobytes()) % 7 for row in rows])
        if (found == 0).any():
            raise ValueError("Some rows are not known.")
        return found / 7

    def predict(self, X: Any) -> np.ndarray:
        found = self._numbers(X)
        return (found > 0.5).astype(int) if self.is_class else found

    def predict_proba(self, X: Any) -> np.ndarray:
        found = self._numbers(X)
        return np.column_stack([1 - found, found])


def _public_model(drawn: Drawn) -> Any:
    """A model that is fitted on public rows."""
    usual = drawn.usual
    form = drawn.shape.form if drawn.shape.place == "memory" else "pandas"
    if drawn.shape.columns is None and drawn.shape.place != "memory":
        form = "array"
    X = in_memory(usual.select(list(drawn.shape.kinds)), form)
    y = usual["y"].to_numpy()
    if drawn.rng.random() < 0.5:
        return _loud(drawn, X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = drawn.small({"epsilon": 1.0, "random_state": 0})
        try:
            return model.fit(X, y)
        except ValueError:  # of objects that pandas makes of decimals and lists
            return Loud(drawn.shape.is_class).fit(X, y)


def _loud(drawn: Drawn, X: Any, y: Any) -> Any:
    """A model that prints, behind an encoder if columns are declared."""
    loud = Loud(drawn.shape.is_class)
    if drawn.shape.columns is None:
        return loud.fit(X, y)
    unknown = drawn.one_of("ignore", "error")
    encoder = TableEncoder(drawn.shape.columns, handle_unknown=unknown)
    try:
        return make_pipeline(encoder, loud).fit(X, y)
    except ValueError:
        return loud.fit(X, y)


def _scores(drawn: Drawn) -> Task:
    model = _public_model(drawn)
    asked = [private_score]
    if drawn.shape.is_class:
        scoring = drawn.one_of("accuracy", "neg_log_loss", "roc_auc", "f1_macro")
        asked += [private_evaluation, _comparison]
    else:
        scoring = drawn.one_of("r2", "neg_mean_squared_error")
    ask = drawn.one_of(*asked)

    def task(data: Data) -> Any:
        where = (data.X, data.y) if not data.is_source else (data.X,)
        facts = {**drawn.budget, "groups": data.groups}
        if ask is private_score:
            facts["scoring"] = scoring
            return ask(model, *where, **facts, **_score_facts(drawn))
        return ask(model, *where, **facts)

    return task


def _comparison(model: Any, *where: Any, **facts: Any) -> Any:
    """Of a model with itself."""
    return private_evaluation((model, model), *where, **facts)


def _score_facts(drawn: Drawn) -> dict[str, Any]:
    """A model of another library does not say within which bounds targets lie."""
    return {} if drawn.shape.is_class else {"target_bounds": TARGET_BOUNDS}


def _search(drawn: Drawn) -> Task:
    name = "C" if drawn.shape.is_class else "alpha"
    grid = {name: [0.1, 1.0]}
    model = drawn.small({})
    if drawn.rng.random() < 0.4:
        step = drawn.one_of(DPSimpleImputer(bounds=(-1, 1)), RowNormClipper(1.0))
        if drawn.shape.columns is not None:
            step = TableEncoder(drawn.shape.columns)
            model.set_params(columns=None)
        grid = {f"{type(model).__name__.lower()}__{name}": [0.1, 1.0]}
        model = make_pipeline(step, model)
    kinds = ["grid", "grid"]
    if drawn.shape.place != "DuckDB":  # which has no fixed order to divide rows by
        kinds += ["threshold", "calibrated"]
    kind = drawn.one_of(*kinds)
    if not drawn.shape.is_class or kind == "grid":
        scoring = "accuracy" if drawn.shape.is_class else "neg_mean_squared_error"
        method = drawn.one_of("composition", "random_stopping")
        facts = {"method": method, "scoring": scoring, **drawn.budget}
        search = DPGridSearchCV(model, grid, **facts)
    elif kind == "threshold":
        search = DPTunedThresholdClassifier(model, **drawn.budget)
    else:
        search = DPCalibratedClassifier(model, **drawn.budget)
    return lambda data: data.fit(search)


def _stream(drawn: Drawn) -> Task:
    cls = DPLogisticRegression if drawn.shape.is_class else DPLinearRegression
    facts = {**drawn.budget, **drawn.about, **drawn.table, "solver": "ftrl"}

    def task(data: Data) -> Any:
        model = cls(**facts, solver_params={"n_parts": 2})
        if data.is_source:
            return model.partial_fit(data.X)
        for part in range(2):
            places = np.arange(part, drawn.shape.n, 2)
            model.partial_fit(_rows(data.X, places), data.y[places])
        return model

    return task


def _rows(X: Any, places: np.ndarray) -> Any:
    return X.iloc[places] if hasattr(X, "iloc") else X[places]


@dataclass(frozen=True)
class Family:
    """Tasks of one kind."""

    draw: Callable[[Drawn], Task]
    columns: tuple[bool, ...] = (True, True, False)
    units: tuple[str, ...] = ("record", "user")
    adjacencies: tuple[str, ...] = ("replace_one", "zero_out")
    forms: tuple[str, ...] = ()
    has_null_records: bool = True


FAMILIES = {
    "linear": Family(_linear),
    "sparse": Family(_sparse),
    "boosting": Family(_boosting, columns=(True,)),
    "network": Family(_network),
    "transformers": Family(_transformers, forms=(WITH_HOLES,), has_null_records=False),
    "describe": Family(_describe, columns=(True,), adjacencies=("replace_one",)),
    "ranges": Family(_propose, columns=(False,), has_null_records=False),
    "scores": Family(_scores, has_null_records=False),
    "search": Family(_search, has_null_records=False),
    "stream": Family(_stream, units=("record",), adjacencies=("replace_one",)),
}
