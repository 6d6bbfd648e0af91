"""How long rows are between steps, by declarations alone.

None stands for a norm that is not known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

from skdp.pipeline._data_independent import DATA_INDEPENDENT
from skdp.privacy._step import NormStep


def norm_after(step: Any, norm: float | None) -> float | None:
    """Largest norm of a row that a step lets out, of rows of at most `norm`."""
    if isinstance(step, str):
        return {"drop": 0.0, "passthrough": norm}.get(step)
    if callable(getattr(type(step), "output_norm", None)):
        stating: NormStep = step
        return stating.output_norm(norm)
    rule = DATA_INDEPENDENT.get(type(step))
    return None if rule is None or rule.asks_for(step) else rule.norm(step, norm)


def weighted(norm: float | None, container: Any, name: str) -> float | None:
    """The norm times what the container multiplies a part by."""
    weights = getattr(container, "transformer_weights", None)
    weight = weights.get(name, 1.0) if isinstance(weights, Mapping) else 1.0
    if norm is None or not isinstance(weight, Real):
        return None
    return abs(float(weight)) * norm


@dataclass(frozen=True)
class Flow:
    """How rows pass a container, of whose parts the first few have been passed.

    Both take the norm before the container and the norms after these parts: `into`
    gives the norm before the next part, `out` that after the container.
    """

    into: Callable[[float | None, Sequence[float | None]], float | None]
    out: Callable[[float | None, Sequence[float | None]], float | None]


def _first(norm: float | None, parts: Sequence[float | None]) -> float | None:
    return norm


def _last(norm: float | None, parts: Sequence[float | None]) -> float | None:
    return parts[-1] if parts else norm


def _unknown(norm: float | None, parts: Sequence[float | None]) -> float | None:
    return None


def _joined(norm: float | None, parts: Sequence[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return math.hypot(*known) if len(known) == len(parts) else None


IN_A_ROW = Flow(_last, _last)
SIDE_BY_SIDE = Flow(_first, _joined)
COLUMNS_SIDE_BY_SIDE = Flow(_unknown, _joined)
CHOOSES_COLUMNS = Flow(_first, _first)
