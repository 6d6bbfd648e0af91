"""`partial_fit` of linear models: a stream's parts, each once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from skdp._input import check_rows
from skdp._users import users_to_fit
from skdp.data._source import Source
from skdp.exceptions import StreamOverError
from skdp.io._table_source import TableSource
from skdp.io._takes import shown
from skdp.linear_model._base import source_of
from skdp.linear_model._rows import (
    DeclaredRows,
    DeclaredStream,
    to_read,
)
from skdp.objectives._linear import LinearObjective
from skdp.papers._ftrl import FTRL
from skdp.papers._stream import Books, Stream, begun, keep, one_part, stream_of
from skdp.privacy._accounting import Budget
from skdp.privacy._answers import Answers
from skdp.privacy._door import Door
from skdp.solvers._base import Solution, Solver
from skdp.solvers._progress import Progress
from skdp.solvers._registry import named_solver


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


class PartialFit:
    """`partial_fit` with ``solver="ftrl"``."""

    one_part = staticmethod(one_part)

    @staticmethod
    def next_part(model: Any, X: Any, y: Any, groups: Any) -> None:
        """Begin a stream, or go on with it by one part.

        Raises
        ------
        StreamOverError, ValueError
        """
        budget = model._check_privacy_params()
        stream = open_stream(model)
        if stream is None:
            first = FirstPart(model, n_parts_of(model, budget), budget)
            model._begin(X, y, groups, first)
            (stream,) = first.begun
            keep(model, stream)
            return
        check_unchanged(model, stream.begun_with)
        users = users_to_fit(model, X, groups, budget)
        X = rows_of_part(model, X)
        y = model._targets_of_part(X, y)
        is_declared = isinstance(X, (DeclaredRows, DeclaredStream))
        dtype, X = X.dtype, X.encoded() if is_declared else X
        solution = after(model, stream, source_of(X, y, users, budget), budget)
        model._keep_weights(solution, stream.objective, dtype)
        keep(model, stream)


@dataclass(frozen=True)
class FirstPart:
    """The part with which a stream begins.

    Parameters
    ----------
    model : estimator
    n_parts : int
    budget : Budget
    begun : list of Stream
        The stream, when the part has been read.
    """

    model: Any
    n_parts: int
    budget: Budget
    begun: list[Stream] = field(default_factory=list)

    def released(
        self, solver: Solver, source: Source, objective: LinearObjective, door: Door
    ) -> tuple[Solution, Answers]:
        """Commit the stream, and what is released after this part of it."""
        assert isinstance(solver, FTRL)  # whose key has led here
        name, begun_with = type(self.model).__name__, params_of(self.model)
        stream = begun(
            solver, source, objective, door, name=name, begun_with=begun_with
        )
        solution = after(self.model, stream, source, self.budget)
        self.begun.append(stream)
        return solution, stream.answers


def after(model: Any, stream: Stream, part: Source, budget: Budget) -> Solution:
    """What is released after another part of a stream."""
    name = type(model).__name__
    books = Books(model.ledger, model._relation(), budget, name)
    solution = stream.take(part, books)
    Progress(name, bool(model.verbose)).step(stream.n_taken, stream.n_parts)
    return solution
