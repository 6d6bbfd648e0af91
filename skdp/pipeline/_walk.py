"""The steps within an estimator, the norms of rows between them, and user ids."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from types import FrameType
from typing import Any

import numpy as np
import sklearn.pipeline
from sklearn import config_context
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline

from skdp.pipeline._data_independent import DATA_INDEPENDENT, may_emit_sparse
from skdp.privacy.accounting._relations import is_of_users
from skdp.privacy.release._record import NormStep, StepPrivacy

# ---------------------------------------------------------- Norms of rows between steps
# They follow from declarations alone; None stands for an unknown norm.


def norm_after(step: Any, norm: float | None) -> float | None:
    """Largest norm of a step's output rows, for input rows of norm at most `norm`."""
    if isinstance(step, str):
        return {"drop": 0.0, "passthrough": norm}.get(step)
    if callable(getattr(type(step), "output_norm", None)):
        stating: NormStep = step
        return stating.output_norm(norm)
    rule = DATA_INDEPENDENT.get(type(step))
    return None if rule is None or rule.asks_for(step) else rule.norm(step, norm)


def weighted(norm: float | None, container: Any, name: str) -> float | None:
    """The norm times the container's weight of a part."""
    weights = getattr(container, "transformer_weights", None)
    weight = weights.get(name, 1.0) if isinstance(weights, Mapping) else 1.0
    if norm is None or not isinstance(weight, Real):
        return None
    return abs(float(weight)) * norm


# The norm of rows before the next part of a container, and the norm after all of it,
# both from the norm before the container and the norms after its parts so far.


Norms = Callable[[float | None, Sequence[float | None]], float | None]


def _first(norm: float | None, parts: Sequence[float | None]) -> float | None:
    return norm


def _last(norm: float | None, parts: Sequence[float | None]) -> float | None:
    return parts[-1] if parts else norm


def _unknown(norm: float | None, parts: Sequence[float | None]) -> float | None:
    return None


def _joined(norm: float | None, parts: Sequence[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return math.hypot(*known) if len(known) == len(parts) else None


# ------------------------------------------------------ Meta-estimators of scikit-learn
# What they do with the data besides fitting steps.


_ANY = "may fit its private steps more than once, and read the data itself"
_CHOICE = "what it chooses follows from scores of raw records"
_STACK = "its final estimator is fitted on predictions for raw records"
_VOTE = "it takes the labels from y"

# By name, since importing these classes only to describe them takes long.
_BESIDES: dict[str, str] = {
    "CalibratedClassifierCV": "its calibrators are fitted on raw labels, without noise",
    "GridSearchCV": _CHOICE,
    "RandomizedSearchCV": _CHOICE,
    "StackingClassifier": _STACK,
    "StackingRegressor": _STACK,
    "TunedThresholdClassifierCV": _CHOICE,
    "VotingClassifier": _VOTE,
    "OneVsRestClassifier": _VOTE,
    "OneVsOneClassifier": _VOTE,
    "TransformedTargetRegressor": "its transformer may learn from y, and check_inverse "
    "looks at y; transform y by a fixed rule before fit",
}


def what_it_does(meta: Any) -> str:
    """Why a meta-estimator is unaccounted, as far as it is known."""
    known = type(meta).__module__.startswith("sklearn.")
    besides = _BESIDES.get(type(meta).__name__, "") if known else ""
    return f"{_ANY}: {besides}" if besides else _ANY


# The file whose frames hold the pipelines that are being fitted.
_PIPELINES = sklearn.pipeline.__file__

# ------------------------------------------------------------ Steps within an estimator
# Public attributes alone give them; nothing is fitted.


@dataclass(frozen=True)
class Leaf:
    """A step without known steps inside, or what a container itself does with the data.

    `path` has the names from the outermost container down, joined by "/"; `problem` is
    what a container itself does with the data; `inside` is the class of the unknown
    meta-estimator to which the step belongs. A frozen step was fitted before and is not
    fitted again. `input_norm` is the largest norm of an input row, by the declarations
    of earlier steps; None if unknown.
    """

    path: str
    step: Any
    problem: str = ""
    inside: str = ""
    is_frozen: bool = False
    input_norm: float | None = None

    @property
    def output_norm(self) -> float | None:
        """Largest norm of an output row; None if unknown."""
        return norm_after(self.step, self.input_norm)

    @property
    def privacy(self) -> StepPrivacy | None:
        """The step's privacy statement; None if it is not a step of skdp."""
        return self.step.step_privacy() if says_its_privacy(self.step) else None


def says_its_privacy(step: Any) -> bool:
    """Whether an object follows the protocol `PrivacyStep`."""
    return callable(getattr(type(step), "step_privacy", None))


def walk(
    estimator: Any,
    path: str = "",
    *,
    planned: bool = False,
    is_frozen: bool = False,
    norm: float | None = None,
) -> Generator[Leaf, None, float | None]:
    """All leaves, in the order in which they would be fitted.

    `path` is the path of the estimator; if `planned`, parameters are followed, not the
    objects that were fitted in their place. `norm` is the largest norm of an input row.

    Returns
    -------
    float or None
        The largest norm of an output row.
    """
    own_path = path or type(estimator).__name__.lower()
    container = _CONTAINERS.get(type(estimator))
    if container is None or says_its_privacy(estimator):
        inner: list[Leaf] = []
        if not says_its_privacy(estimator):
            inner += _private_steps_inside(estimator, path, is_frozen=is_frozen)
        problem = what_it_does(estimator) if inner else ""
        leaf = Leaf(own_path, estimator, problem, "", is_frozen, norm)
        yield leaf
        yield from inner
        return leaf.output_norm
    problem = container.problem(estimator)
    if problem:
        yield Leaf(own_path, estimator, problem, "", is_frozen)
    parts: list[float | None] = []
    for name, child in container.children(estimator, planned):
        part = yield from walk(
            child,
            _join(path, name),
            planned=planned,
            is_frozen=is_frozen or container.is_frozen(estimator),
            norm=container.into(norm, parts),
        )
        parts.append(weighted(part, estimator, name))
    return container.out(norm, parts)


def leaf_in_pipeline(step: Any) -> Leaf | None:
    """The leaf of a step that a pipeline is fitting now; None if no pipeline fits it.

    scikit-learn does not tell a step what came before it, so that the pipelines in the
    stack are asked. A step of an object inside a pipeline is unknown to it: nothing is
    known of its rows, and its leaf has the norm inf.
    """
    frame: FrameType | None = sys._getframe(1)
    pipeline = None
    while frame is not None:
        if frame.f_code.co_filename == _PIPELINES:
            caller = frame.f_locals.get("self")
            pipeline = caller if type(caller) is Pipeline else pipeline
        frame = frame.f_back
    if pipeline is None:
        return None
    leaves = walk(pipeline, planned=True)  # of the outermost pipeline
    unknown = Leaf("", step, input_norm=math.inf)
    return next((leaf for leaf in leaves if leaf.step is step), unknown)


def private_steps(estimator: Any) -> list[tuple[str, Any]]:
    """Path and object of every private step that is fitted once; not copies.

    Follows the parameters of fitted containers, so that a change there holds for the
    next fit.

    Raises `ValueError` if a step is frozen, because it will not be fitted.
    """
    leaves = [leaf for leaf in walk(estimator, planned=True) if costs(leaf.privacy)]
    for leaf in leaves:
        if leaf.is_frozen:
            raise ValueError(
                "Every private step must be fitted with the pipeline. Got "
                f"{leaf.path!r}, which was fitted before, so that its cost cannot be "
                "set. Unwrap it, or use prefit=False."
            )
    return [(leaf.path, leaf.step) for leaf in leaves if not leaf.inside]


def costs(privacy: StepPrivacy | None) -> bool:
    """Whether a step releases anything; if it does, it has an adjacency."""
    return privacy is not None and privacy.adjacency is not None


def _join(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def _private_steps_inside(meta: Any, path: str, *, is_frozen: bool) -> Iterator[Leaf]:
    """Private steps in the parameters of an object that skdp does not know."""
    if not hasattr(meta, "get_params") or isinstance(meta, type):
        return
    for name, value in meta.get_params(deep=False).items():
        for child_name, child in _estimators_in(name, value):
            for leaf in walk(child, _join(path, child_name), is_frozen=is_frozen):
                if costs(leaf.privacy):
                    yield replace(leaf, inside=leaf.inside or type(meta).__name__)


def _estimators_in(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if hasattr(value, "get_params") and not isinstance(value, type):
        yield name, value
    elif isinstance(value, (list, tuple)):
        for item in value:
            if isinstance(item, (list, tuple)) and len(item) >= 2:
                yield from _estimators_in(str(item[0]), item[1])


def _no_problem(container: Any) -> str:
    return ""


def _thaws(container: Any) -> bool:
    return False


@dataclass(frozen=True)
class _Container:
    """How to read a container: its steps, their rows, and what it does by itself."""

    children: Callable[[Any, bool], Iterator[tuple[str, Any]]]
    into: Norms
    out: Norms
    problem: Callable[[Any], str] = _no_problem
    is_frozen: Callable[[Any], bool] = _thaws


def _of_pipeline(container: Any, planned: bool) -> Iterator[tuple[str, Any]]:
    for name, step in container.steps:
        yield name, "passthrough" if step is None else step


def _of_union(container: Any, planned: bool) -> Iterator[tuple[str, Any]]:
    yield from container.transformer_list


def _of_columns(container: Any, planned: bool) -> Iterator[tuple[str, Any]]:
    fitted = getattr(container, "transformers_", None)
    if fitted is None or planned:
        for name, step, _ in container.transformers:
            yield name, step
        yield "remainder", container.remainder
        return
    for name, step, columns in fitted:
        # scikit-learn does not fit a step that gets no columns.
        yield name, "drop" if _is_empty(columns) else step


def _is_empty(columns: Any) -> bool:
    if isinstance(columns, str) or not hasattr(columns, "__len__"):
        return False
    chosen = np.asarray(columns)
    return chosen.size == 0 or (chosen.dtype == bool and not chosen.any())


def _of_selection(container: Any, planned: bool) -> Iterator[tuple[str, Any]]:
    step = container.estimator
    yield "estimator", step if planned else getattr(container, "estimator_", step)


def _of_frozen(container: Any, planned: bool) -> Iterator[tuple[str, Any]]:
    yield "estimator", container.estimator


def _problem_of_columns(container: Any) -> str:
    if any(not _are_declared(columns) for _, _, columns in container.transformers):
        return "its columns are chosen by a function of the data; name them"
    if container.sparse_threshold > 0 and any(
        may_emit_sparse(leaf.step)
        for name, step in _of_columns(container, True)
        for leaf in walk(step, name, planned=True)
    ):
        return "the data decide whether its output is sparse; set sparse_threshold=0"
    return ""


def _are_declared(columns: Any) -> bool:
    if type(columns) is make_column_selector:
        return columns.dtype_include is None and columns.dtype_exclude is None
    return not callable(columns)


def _problem_of_selection(container: Any) -> str:
    if callable(container.max_features):
        return "its max_features is a function of the data; give a number"
    return ""


_CONTAINERS: dict[type, _Container] = {
    Pipeline: _Container(_of_pipeline, _last, _last),
    FeatureUnion: _Container(_of_union, _first, _joined),
    ColumnTransformer: _Container(_of_columns, _unknown, _joined, _problem_of_columns),
    SelectFromModel: _Container(
        _of_selection,
        _first,
        _first,
        _problem_of_selection,
        lambda container: container.prefit,
    ),
    FrozenEstimator: _Container(
        _of_frozen, _last, _last, is_frozen=lambda container: True
    ),
}


# ----------------------------------------- Ids of users for the steps that protect them


def steps_of_users(estimator: Any) -> list[Any]:
    """The steps of skdp that will protect all rows of a user when fitted."""
    told = [
        (leaf.step, leaf.privacy)
        for leaf in walk(estimator, planned=True)
        if not leaf.is_frozen
    ]
    return [
        step
        for step, privacy in told
        if privacy is not None
        and privacy.adjacency is not None
        and is_of_users(privacy.adjacency)
    ]


def fitted_to_users(model: Any, X: Any, y: Any, ids: Any) -> Any:
    """The model after its fit; every step inside that takes ids gets them.

    The steps request ids from then on.
    """
    with config_context(enable_metadata_routing=True):
        for step in steps_of_users(model):
            step.set_fit_request(groups=True)
        table = (X,) if y is None else (X, y)
        return model.fit(*table, groups=ids)
