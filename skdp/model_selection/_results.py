"""What a search shows of itself: post-processing of its release, and public facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from skdp._base import PrivateEstimator
from skdp.model_selection._candidates import steps_of
from skdp.pipeline._walk import walk
from skdp.privacy._record import PrivacyRecord


def results_table(
    grid: list[dict[str, Any]], scores: NDArray[np.float64] | None
) -> dict[str, Any]:
    """``cv_results_``: the candidates, and their scores if those were released."""
    table: dict[str, Any] = {"params": grid}
    for name in sorted({name for params in grid for name in params}):
        column = np.ma.array(np.empty(len(grid), dtype=object), mask=True)
        for i, params in enumerate(grid):
            if name in params:
                column[i] = params[name]
        table[f"param_{name}"] = column
    if scores is not None:
        table["mean_test_score"] = scores
        table["rank_test_score"] = rankdata(-scores, method="min").astype(np.int32)
    return table


def as_released(model: Any, record: PrivacyRecord, ledger: Any) -> Any:
    """The fitted model, each private step of which says that it is a part of a search.

    Its steps get the search's books, which another fit of theirs is charged to.
    """
    for step in steps_of(model):
        step.set_params(ledger=ledger, random_state=None)
    for leaf in walk(model):
        step = leaf.step
        if not isinstance(step, PrivateEstimator):
            continue
        step.set_params(ledger=ledger, random_state=None)
        own = getattr(step, "privacy_", None)
        if own is None:  # it cost nothing, such as an imputer of declared constants
            continue
        step.privacy_ = replace(
            own,
            is_private=record.is_private,
            reason=f"{record.reason}; the step itself: {own.reason}",
            epsilon=record.epsilon,
            delta=record.delta,
            event=record.event,
            assumed_public=record.assumed_public,
            ledger=record.ledger,
            dataset=record.dataset,
            release=record.release,
        )
    return model
