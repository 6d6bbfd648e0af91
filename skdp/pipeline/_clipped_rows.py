"""Rows that are longer than a private step's `data_norm` by what steps declare."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from skdp._quiet import warn
from skdp._validation import check_data_norm
from skdp.exceptions import ClippedRowsWarning
from skdp.pipeline._walk import Leaf, costs, walk

# Norms add up in floating point.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class ClippedRows:
    """What comes to a step, and the norm to which the step clips it."""

    path: str
    norm: float
    data_norm: float

    @property
    def remedy(self) -> str:
        """The data_norm that clips nothing."""
        return f"data_norm={rounded_up(self.norm):g}"

    @property
    def note(self) -> str:
        """What a report says of it."""
        return (
            f"rows of norm up to {rounded_up(self.norm):g} are clipped to "
            f"{self.data_norm:g}: use {self.remedy}"
        )


def clipped_rows(leaves: Iterable[Leaf]) -> Iterator[ClippedRows]:
    """The private steps, those within searches too, to which longer rows may come."""
    for leaf in leaves:
        if getattr(leaf.step, "is_search", False):
            yield from clipped_rows(_within(leaf))
            continue
        norm, data_norm = leaf.input_norm, _data_norm(leaf)
        if norm is not None and data_norm * (1 + _ROUNDING) < norm < math.inf:
            yield ClippedRows(leaf.path, norm, data_norm)


def warn_of_clipped_rows(leaves: Iterable[Leaf]) -> tuple[str, ...]:
    """Warn once of all of them; what may stay on a record is returned."""
    found = tuple(dict.fromkeys(clipped_rows(leaves)))
    if found:
        told = "; ".join(f"{rows.path}: {rows.note}" for rows in found)
        warn(
            "Rows should come to private steps with norms of at most their data_norm. "
            f"Got steps before them that declare longer ones ({told}). If clipping is "
            "meant, put a RowNormClipper before.",
            ClippedRowsWarning,
        )
    return tuple(f"{rows.path}: {rows.note}" for rows in found)


def rounded_up(norm: float) -> float:
    """Three digits, and not below the norm."""
    near = float(f"{norm:.2e}")
    unit = 10.0 ** (math.floor(math.log10(norm)) - 2)
    return near if near >= norm else float(f"{near + unit:.2e}")


def _within(search: Leaf) -> Iterator[Leaf]:
    step: Any = search.step
    inner = getattr(step, "best_estimator_", step.estimator)
    return walk(inner, f"{search.path}/estimator", norm=search.input_norm)


def _data_norm(leaf: Leaf) -> float:
    """Norm to which a private step clips rows; inf if it does not."""
    step: Any = leaf.step
    if not costs(leaf.privacy) or not hasattr(step, "data_norm"):
        return math.inf
    # With columns of its own, a model makes rows of a table, and no rows come in.
    if getattr(step, "columns", None) is not None:
        return math.inf
    if hasattr(step, "privacy_"):
        return float(step.privacy_.data_norm)
    return math.inf if math.isinf(step.epsilon) else check_data_norm(step.data_norm)
