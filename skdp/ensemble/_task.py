"""`BoostingTask`: the public facts of a fit of trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from skdp.ensemble._trees import MIX, CodedColumns
from skdp.privacy._adjacency import TableRelation
from skdp.queries._loss_facts import PLAIN, LeafLoss, LossFacts

Init = Literal["constant", "linear", "zero"]


@dataclass(frozen=True, kw_only=True)
class BoostingTask:
    """Public facts of one fit. Nothing here may be computed from records.

    Parameters
    ----------
    loss : {"logistic", "softmax", "squared", "poisson", "quantile"}
        Targets are 0 or 1, indices of classes, or numbers in [-1, 1].
    n_samples : int
        Records, or users.
    columns : CodedColumns
    adjacency : {"replace_one", "zero_out", "replace_user", "zero_out_user"}
    n_outputs : int, default=1
        The number of classes for the softmax.
    interactions : sequence of int or None, default=(1, 2, None)
        How many columns a tree may cut, in turn; None: all of them.
    groups : sequence of sequences of int or None, default=None
        The columns of a tree are all of one group; None: one group of all.
    init : {"constant", "linear", "zero"}, default="constant"
        Where raw predictions start: at a constant, at an additive linear model, or at 0
        or, where the source has an `offset`, there, and nothing is released for it.
    facts : LossFacts, default=PLAIN
        What else the loss knows.
    """

    loss: LeafLoss
    n_samples: int
    columns: CodedColumns
    adjacency: TableRelation
    n_outputs: int = 1
    interactions: Sequence[int | None] = MIX
    groups: Sequence[Sequence[int]] | None = None
    init: Init = "constant"
    facts: LossFacts = PLAIN

    @property
    def is_regression(self) -> bool:
        return self.loss in ("squared", "poisson", "quantile")
