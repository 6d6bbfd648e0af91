"""The steps within an estimator, by public attributes only; nothing is fitted."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline

from skdp.pipeline._data_independent import may_emit_sparse
from skdp.pipeline._meta import what_it_does
from skdp.pipeline._norms import (
    CHOOSES_COLUMNS,
    COLUMNS_SIDE_BY_SIDE,
    IN_A_ROW,
    SIDE_BY_SIDE,
    Flow,
    norm_after,
    weighted,
)
from skdp.privacy._step import StepPrivacy


@dataclass(frozen=True)
class Leaf:
    """A step without known steps of its own, or what a container does by itself.

    `path` has the names from the outermost container down, joined by "/"; `problem` is
    what a container does with the data by itself; `inside` the class of the unknown
    meta-estimator to which the step belongs. A frozen step was fitted before and is not
    fitted again. `input_norm` is the largest norm of a row that comes in, by what the
    steps before declare; None if unknown.
    """

    path: str
    step: Any
    problem: str = ""
    inside: str = ""
    is_frozen: bool = False
    input_norm: float | None = None

    @property
    def output_norm(self) -> float | None:
        """Largest norm of a row that comes out; None if unknown."""
        return norm_after(self.step, self.input_norm)

    @property
    def privacy(self) -> StepPrivacy | None:
        """What the step says of itself; None if it is not of skdp."""
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

    `path` is that of the estimator itself; if `planned`, parameters are followed, not
    what was fitted in their place. `norm` is the largest norm of a row that comes in.

    Returns
    -------
    float or None
        The largest norm of a row that comes out.
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
            norm=container.flow.into(norm, parts),
        )
        parts.append(weighted(part, estimator, name))
    return container.flow.out(norm, parts)


def private_steps(estimator: Any) -> list[tuple[str, Any]]:
    """Path and object of every private step that is fitted once; not copies.

    Follows the parameters of fitted containers, so that what is set there holds for the
    next fit.

    Raises `ValueError` if one of them is frozen, so that there will be no fit.
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
    """Whether a step releases anything; those that do name their adjacency."""
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
    flow: Flow
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
    Pipeline: _Container(_of_pipeline, IN_A_ROW),
    FeatureUnion: _Container(_of_union, SIDE_BY_SIDE),
    ColumnTransformer: _Container(
        _of_columns, COLUMNS_SIDE_BY_SIDE, _problem_of_columns
    ),
    SelectFromModel: _Container(
        _of_selection,
        CHOOSES_COLUMNS,
        _problem_of_selection,
        lambda container: container.prefit,
    ),
    FrozenEstimator: _Container(_of_frozen, IN_A_ROW, is_frozen=lambda container: True),
}
