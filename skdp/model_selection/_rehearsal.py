"""Everything that a fit would refuse, refused before a search is paid for.

A rehearsal runs ``fit`` with an `Allowance` that only notes events down: declared steps
transform the rows, private steps check what they are given and answer with constants.
Nothing else is read from the rows. What comes behind a private step is of skdp, and
skdp's steps accept whatever skdp's steps release, so that a trial on accepted rows does
not fail for one record's sake.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier, is_regressor

from skdp._input import raise_without_data
from skdp._quiet import no_warnings
from skdp._rows import rows_at
from skdp.model_selection._candidates import (
    declare_labels,
    is_private_step,
    needs_labels,
    owner_of,
    steps_of,
)
from skdp.model_selection._results import count_rows
from skdp.privacy._adjacency import UNIT_OF, Relation
from skdp.privacy._allowance import Allowance
from skdp.privacy._events import Event

# Parameters of private steps on which it does not depend which rows they accept.
_IRRELEVANT = (
    "C",
    "alpha",
    "n_components",
    "n_steps",
    "quantiles",
    "solver",
)
# Records on which a candidate is rehearsed whose like was rehearsed on all of them.
_A_FEW = 64


@dataclass(frozen=True)
class Accepted:
    """Candidates that accept the rows.

    Parameters
    ----------
    models : list of estimators
        Unfitted, with their labels declared.
    stand_ins : list of estimators
        Fitted in rehearsal: their private outputs are constants.
    takes_labels : bool
        Whether labels were taken from y.
    """

    models: list[Any]
    stand_ins: list[Any]
    takes_labels: bool


def accept(models: list[Any], X: Any, y: Any, adjacency: Relation) -> Accepted:
    """Rehearse every candidate, and check that all of them predict the same thing.

    Raises
    ------
    ValueError, TypeError
        If a candidate refuses a parameter, the rows or the targets.
    """
    takes_labels = needs_labels(models[0])
    first, _ = rehearse(models[0], X, y, adjacency)
    labels = getattr(first, "classes_", None)
    if labels is not None:
        models = [declare_labels(model, labels) for model in models]
    stand_ins, seen = [first], {_outline(models[0])}
    for model in models[1:]:
        outline = _outline(model)
        rows = some_rows(X, _A_FEW) if outline in seen else slice(None)
        stand_in, _ = rehearse(model, rows_at(X, rows), rows_at(y, rows), adjacency)
        seen.add(outline)
        _check_alike(first, stand_in)
        stand_ins.append(stand_in)
    return Accepted(models, stand_ins, takes_labels)


def some_rows(X: Any, size: int) -> slice | NDArray[np.int64]:
    """Positions of `size` rows, as far apart as can be: of rows it looks at none.

    Of ratings sorted by user, the first few would be one user's.
    """
    n_samples = count_rows(X)
    if 2 * size >= n_samples:
        return slice(size)
    return np.arange(size) * n_samples // size


def rehearse(
    model: Any, X: Any, y: Any, adjacency: Relation
) -> tuple[Any, tuple[Event, ...]]:
    """Go through a fit up to where data would be read, and note its events.

    Returns
    -------
    fitted clone, tuple of events
    """
    allowance = Allowance(adjacency, UNIT_OF[adjacency])
    rehearsed = clone(model)
    for step in steps_of(rehearsed):
        step.set_params(ledger=allowance)
    problem: Exception | None = None
    try:
        with no_warnings():
            rehearsed.fit(X, y)
    except Exception as error:
        problem = error
    # Outside of the handler, so that the first error is not carried along.
    if problem is not None:
        _raise_told(problem)
    return rehearsed, tuple(allowance.noted)


def _raise_told(problem: Exception) -> NoReturn:
    """Raise what skdp itself says; of others' messages, what quotes no entry."""
    frame = problem.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    module = "" if frame is None else frame.tb_frame.f_globals.get("__name__", "")
    speaks_of_parameters = type(problem).__name__ == "InvalidParameterError"
    if str(module).startswith("skdp.") or speaks_of_parameters:
        raise problem
    raise_without_data(
        problem,
        "A candidate of the search must accept X and y. Got an error from a step that "
        "is not of skdp, whose text might quote an entry. Fit that step alone to see "
        "it.",
    )


def _check_alike(first: Any, other: Any) -> None:
    """Refuse candidates that predict different things."""
    same_task = is_classifier(first) == is_classifier(other)
    same_task &= is_regressor(first) == is_regressor(other)
    labels, others = (getattr(model, "classes_", None) for model in (first, other))
    if not same_task or not np.array_equal(np.asarray(labels), np.asarray(others)):
        raise ValueError(
            "The candidates of a search must predict the same thing. Got a classifier "
            "beside a regressor, or different 'classes'. Use one search for each."
        )


def _outline(model: Any) -> str:
    """What decides which rows a model accepts: equal for candidates that are alike."""
    params = model.get_params(deep=True)
    told = [
        (name, _plain(value))
        for name, value in sorted(params.items())
        if not _is_irrelevant(model, params, name)
    ]
    return str(joblib.hash([type(model), told]))


def _is_irrelevant(model: Any, params: dict[str, Any], name: str) -> bool:
    is_theirs = is_private_step(owner_of(model, params, name))
    return is_theirs and name.rpartition("__")[2] in _IRRELEVANT


def _plain(value: Any) -> Any:
    """The value, with the class in place of an estimator: its parameters come apart."""
    if hasattr(value, "get_params") and not isinstance(value, type):
        return type(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
