"""What may be asked of records: public questions with a known bound.

A `Query` is a sum over records of a bounded function; an `Inside` is an algorithm that
has to read within the walls. Both are public, frozen values: released weights are their
fields, records are what they are shown.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from skdp._arrays import FloatArray, IntArray
from skdp.exceptions import UnboundedQueryError
from skdp.privacy.accounting._relations import Relation
from skdp.privacy.noise._draws import Draws


@dataclass(frozen=True, kw_only=True)
class Bound:
    """By how much neighbours can move an answer, in exact arithmetic.

    None stands for a relation for which nothing was derived; such a query is refused.

    Parameters
    ----------
    zero_out, replace_one : float or None
        One record exchanged for the null record, or for any other. Neither follows
        from the other.
    rating_value : float or None
        The value of one rating changed.
    user : float or None
        All that one user has exchanged: many rows, whether each of them counts or they
        are summed and clipped as one.
    zero_out_user, replace_user : float or None
        All rows of one user of a table exchanged for none, or for any others or none.
        Only what multiplies each row's part by its share may state them.
    norm : {1, 2, inf}, default=2
        In which the bounds are taken; inf is of each number apart, for choices.
    """

    zero_out: float | None = None
    replace_one: float | None = None
    rating_value: float | None = None
    user: float | None = None
    zero_out_user: float | None = None
    replace_user: float | None = None
    norm: float = 2

    def with_user_bounds(self) -> Bound:
        """With the bounds of users whose rows count with shares of at most 1 together.

        Lemma 1 of ``docs/proofs/users.md``: what a user adds lies in the convex hull of
        what a record may add, and of 0. For sums of which each row's part is multiplied
        by the row's share, or by something between 0 and that.
        """
        if self.zero_out is None or self.replace_one is None:
            return self
        return replace(
            self,
            zero_out_user=self.zero_out,
            replace_user=max(self.replace_one, self.zero_out),
        )

    def under(self, relation: Relation) -> float:
        """The bound under one relation.

        Raises
        ------
        UnboundedQueryError
            If none was derived.
        """
        bound = {
            "zero_out": self.zero_out,
            "replace_one": self.replace_one,
            "zero_out_user": self.zero_out_user,
            "replace_user": self.replace_user,
            "rating_value": self.rating_value,
            "user": self.user,
        }[relation]
        if bound is None:
            raise UnboundedQueryError(
                f"This query has no bound under {relation!r}, so no noise can hide "
                "what one neighbour changes. Use another solver or relation."
            )
        return bound


@dataclass(frozen=True)
class Layout:
    """Public facts of how a sum is taken, for what rounding can add to it.

    Parameters
    ----------
    largest_block : int
        Rows of the largest block.
    moved_rows : int, default=1
        Rows that neighbours may compute otherwise: one, or all if it is secret which
        rows stand beside which.
    amplification : float, default=1.0
        By how much the terms of which a row's products are made may be larger than the
        row.
    cells : int, default=0
        Numbers that are summed in place of features, where rows are made of parts; 0
        if they are not.
    rows_of_unit : int, default=1
        Most rows that neighbours differ in: those of a record, or of a user.
    """

    largest_block: int
    moved_rows: int = 1
    amplification: float = 1.0
    cells: int = 0
    rows_of_unit: int = 1


class Query(Protocol):
    """A bounded function of each record, summed over the records."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the answer; public."""
        ...

    @property
    def family(self) -> Hashable:
        """Queries that are equal in this may share what `open` keeps of the rows."""
        ...

    def bound(self) -> Bound:
        """What one neighbour can change, in exact arithmetic."""
        ...

    def slack(self, layout: Layout) -> float:
        """What floating point adds to it."""
        ...

    def open(self, source: Any) -> Any:
        """A reader of the source; may keep what depends on single rows alone."""
        ...

    def total(self, reader: Any, rows: IntArray | None) -> FloatArray:
        """The exact answer over all records, or over `rows`, which rise. Private."""
        ...


class Inside(Protocol):
    """An algorithm that must read within the walls, for several answers of its own.

    It computes exact numbers in the order of the plan's lines, and is told what became
    of each with noise; what leaves is what lines that are not hidden released. One that
    may read users has an attribute `takes_shares` that is True.
    """

    def bound(self, line: int, done: int) -> float:
        """Of the answer after `done` others of a line, rounding included; public."""
        ...

    def within(self, source: Any, draws: Draws) -> Generator[Any, Any, None]:
        """Yield exact answers, receive noisy ones. Private."""
        ...
