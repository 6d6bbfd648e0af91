"""`partial_fit` of linear models: a stream's parts, each once."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from skdp._input import check_rows, declared_labels
from skdp.exceptions import StreamOverError
from skdp.io._table_source import TableSource
from skdp.io._takes import shown
from skdp.linear_model._rows import (
    DeclaredRows,
    DeclaredStream,
    to_read,
)
from skdp.privacy._accounting import Budget
from skdp.solvers._ftrl import FTRL
from skdp.solvers._registry import named_solver
from skdp.solvers._stream import Stream, stream_of


def takes_parts(model: Any) -> bool:
    """Whether a model's solver answers about parts one by one, or an error."""
    if model.solver == FTRL.key:
        return True
    raise AttributeError(
        f"{type(model).__name__} has partial_fit with solver={FTRL.key!r} only. Got "
        f"solver={model.solver!r}. Every other fit is a release of all its records."
    )


def n_parts_of(model: Any, budget: Budget) -> int:
    """The declared number of parts."""
    if not budget.is_finite:
        raise ValueError(
            "The 'epsilon' parameter must be finite for partial_fit. Got inf. Without "
            "privacy use fit with all records."
        )
    named = named_solver(model.solver, model.solver_params)
    assert named is not None  # its key is FTRL's
    return int(named.given.get("n_parts", FTRL.n_parts))


def open_stream(model: Any) -> Stream | None:
    """The stream that a model goes on with; None if it has not begun any.

    Raises
    ------
    StreamOverError
        If the model is fitted, but has no stream: a copy, a finished `fit`, or a part
        that was cut short.
    """
    stream = stream_of(model)
    if stream is not None:
        return stream
    try:
        check_is_fitted(model)
    except NotFittedError:
        return None
    raise StreamOverError(
        f"This {type(model).__name__} is fitted, and has no stream to go on with: it "
        "is a copy, was stored, was fitted by fit, or was cut short when a part was "
        "read. What a stream must remember is private and stays in the process and the "
        "object that began it. Clone the estimator for another stream, which is "
        "another release."
    )


# Rows of later parts are encoded, and labels numbered, as those of the first one.
_MAY_CHANGE = ("columns", "classes", "verbose")


def params_of(model: Any) -> dict[str, Any]:
    """Parameters that must stay as they are while a stream goes on."""
    params = model.get_params(deep=False)
    return {name: params[name] for name in params if name not in _MAY_CHANGE}


def check_unchanged(model: Any, begun_with: dict[str, Any]) -> None:
    """Refuse another value of a parameter than the stream was begun with.

    Noise and scales of a stream are those of its first part.

    Raises
    ------
    ValueError
    """
    for name, value in params_of(model).items():
        if not np.array_equal(begun_with[name], value):
            raise ValueError(
                f"The {name!r} parameter must stay as it was at the first part of a "
                "stream. Got another value. Set it back, or clone the estimator for "
                "another stream, which is another release. Nothing was read."
            )


def check_same_labels(model: Any) -> None:
    """Refuse other labels than a stream was begun with: its noise hides no others.

    Raises
    ------
    ValueError
    """
    given = model.classes
    if given is None or np.array_equal(declared_labels(given), model.classes_):
        return
    raise ValueError(
        "The labels of a stream must be those declared at its first part, "
        f"{model.classes_.tolist()}. Got others in 'classes'. Leave it out. Nothing "
        "was read."
    )


def rows_of_part(model: Any, X: Any) -> Any:
    """Checked rows of a later part, in the form of those of the first one."""
    if not hasattr(model, "encoder_"):
        rows = check_rows(model, shown(X), reset=False, accept_sparse=True)
        return to_read(X, rows) if isinstance(X, TableSource) else rows
    encoder = model.encoder_
    cells, encoding = encoder._cells(X), encoder._encoding
    if isinstance(X, TableSource):
        return DeclaredStream(encoding, encoder, X)
    return DeclaredRows(encoding, encoding.states(cells))
