"""Solvers with `partial_fit`: what a linear model asks of them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from skdp._registry import Registry
from skdp.data._source import Source
from skdp.objectives._linear import LinearObjective
from skdp.privacy._answers import Answers
from skdp.privacy._door import Door
from skdp.solvers._base import Solution, Solver


class FirstPart(Protocol):
    """The part of a stream that is committed for all of them."""

    @property
    def n_parts(self) -> int:
        """How many parts there will be."""
        ...

    def released(
        self, solver: Solver, source: Source, objective: LinearObjective, door: Door
    ) -> tuple[Solution, Answers]:
        """Commit the stream, and what is released after this part of it.

        Raises
        ------
        BudgetExceeded
        """
        ...


class Streams(Protocol):
    """How a model goes on with a stream; by the key of its solver."""

    @staticmethod
    def one_part(model: Any) -> AbstractContextManager[None]:
        """Give one part, alone; if what is released of it is lost, end the stream."""
        ...

    @staticmethod
    def next_part(model: Any, X: Any, y: Any, groups: Any) -> None:
        """Begin a stream, or go on with it by one part."""
        ...


STREAMS: Registry[Streams] = Registry("skdp.streams", {})


def takes_parts(model: Any) -> bool:
    """Whether a model's solver answers about parts one by one, or an error."""
    if model.solver in STREAMS:
        return True
    raise AttributeError(
        f"{type(model).__name__} has partial_fit with solver="
        f"{' or '.join(map(repr, STREAMS))} only. Got solver={model.solver!r}. Every "
        "other fit is a release of all its records."
    )
