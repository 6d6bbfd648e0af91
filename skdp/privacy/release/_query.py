"""Queries of records: public functions with a known bound.

A `Query` is a sum over records of a bounded function; an `Inside` is an algorithm that
must read within the walls, where exact answers stay. Both are public, frozen values:
released weights are their fields, and records are their arguments.
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
    """Largest distance of two neighbours' answers, in exact arithmetic.

    None marks a relation without a derived bound; such a query is refused.

    Parameters
    ----------
    zero_out, replace_one : float or None
        One record exchanged for the null record, or for any other. Neither follows
        from the other.
    rating_value : float or None
        The value of one rating is changed.
    user : float or None
        All ratings of one user are exchanged: many rows, whether each row counts or the
        rows are summed and clipped as one.
    zero_out_user, replace_user : float or None
        All rows of one user of a table are exchanged for none; or for any others, or
        none. Only a query that multiplies each row's part by its share may state them.
    norm : {1, 2, inf}, default=2
        Norm of the bounds; inf bounds each entry separately, for choices.
    """

    zero_out: float | None = None
    replace_one: float | None = None
    rating_value: float | None = None
    user: float | None = None
    zero_out_user: float | None = None
    replace_user: float | None = None
    norm: float = 2

    def with_user_bounds(self) -> Bound:
        """Add the bounds of users whose rows count with shares of at most 1 together.

        Lemma 1 of ``docs/proofs/users.md``: a user's contribution lies in the convex
        hull of 0 and the possible contributions of a record. Valid for sums in which
        each row's part is multiplied by the row's share, or by a number between 0 and
        the share.
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
    """Public facts of the layout of a sum, which bound the effect of rounding.

    Parameters
    ----------
    largest_block : int
        Rows of the largest block.
    moved_rows : int, default=1
        Rows that neighbours may compute differently: one, or all if it is secret which
        rows are in a block together.
    amplification : float, default=1.0
        Bound on the terms of a row's products, in units of the row.
    cells : int, default=0
        Numbers that are summed in place of features, if rows are made of parts; 0
        otherwise.
    rows_of_unit : int, default=1
        Largest number of rows in which neighbours differ: of a record, or of a user.
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
        """Shape of the answer; public."""
        ...

    @property
    def family(self) -> Hashable:
        """Queries with equal families may share the rows that `open` keeps."""
        ...

    def bound(self) -> Bound:
        """Largest distance of two neighbours' answers, in exact arithmetic."""
        ...

    def slack(self, layout: Layout) -> float:
        """Bound on what floating point adds to `bound`."""
        ...

    def open(self, source: Any) -> Any:
        """A reader of the source; it may keep values that depend on single rows."""
        ...

    def total(self, reader: Any, rows: IntArray | None) -> FloatArray:
        """The exact answer over all records, or over rising `rows`. Private."""
        ...


class Inside(Protocol):
    """An algorithm that must read within the walls, for several answers.

    It computes exact numbers in the order of the plan's lines, and receives each with
    noise. Only answers of lines that are not hidden are released. An algorithm that may
    read users has an attribute `takes_shares` that is True.
    """

    def bound(self, line: int, done: int) -> float:
        """Bound of a line's answer after `done` others, with rounding; public."""
        ...

    def within(self, source: Any, draws: Draws) -> Generator[Any, Any, None]:
        """Yield exact answers, receive noisy ones. Private."""
        ...
