"""Whether noise dominates every fit of a search; from public facts, before it is paid.

Fits inside of a search are silent, so the search speaks for them, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from skdp._forecast import Signal, warn_of_noise
from skdp.model_selection._candidates import Candidate, Need, steps_of

_REMEDIES = ("a larger epsilon", "fewer candidates", "fewer columns")


def warn_of_search_noise(
    candidates: Iterable[Candidate], stand_ins: Iterable[Any], needs: Sequence[Need]
) -> tuple[str, ...]:
    """Warn if noise dominates even the best candidate; the text for the record.

    Parameters
    ----------
    stand_ins : iterable of estimators
        The rehearsed model of each candidate.
    needs : sequence of Need
        The kinds of fits that each candidate is prepared for.
    """
    signals = [
        signal
        for candidate, stand_in in zip(candidates, stand_ins, strict=True)
        for ready, need in zip(candidate.prepared, needs, strict=True)
        for signal in _signals(ready.estimator, stand_in, need.rows)
    ]
    if not signals:
        return ()
    best = min(signals, key=lambda x: x.noise_to_signal / x.constant_from)
    return warn_of_noise(best, _REMEDIES, where="every fit of this search")


def _signals(model: Any, stand_in: Any, n_rows: int) -> list[Signal]:
    """The signals of the steps that learn a model, in fits to `n_rows` rows."""
    pairs = zip(steps_of(model), steps_of(stand_in), strict=True)
    found = (
        step._signal(n_rows, rehearsed)
        for step, rehearsed in pairs
        if hasattr(rehearsed, "privacy_")  # not the clones of a meta-estimator
    )
    return [signal for signal in found if signal is not None]
