"""Private scores of survival models, from one histogram of risks, exits and events.

A record is in one cell: of the interval of its predicted risk, and of the interval in
which it leaves, by the event or by censoring. All else is post-processing. Derived in
``docs/proofs/survival.md``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from skdp._arrays import FloatArray, IntArray
from skdp._checks import check_choice
from skdp.model_selection._scorer_sums import CURVE, NamedScoring, Params, column

# Intervals of risk, of equal shares if risks are normal. Ties cost .001 of concordance
# with 12, and noise grows with their number.
_N_RISKS = 12
# Least part of persons that are taken to be still watched, so that no weight is large.
_LEAST_WATCHED = 0.1


def _interval(params: Params, model: Any, X: Any, y: NDArray[Any]) -> IntArray:
    """Index of the interval of each predicted risk."""
    return np.searchsorted(params["risks"], column(model.predict(X), len(y)))


def _cell(params: Params, quality: FloatArray, y: NDArray[Any]) -> IntArray:
    # A record without a prediction has the worst: no risk if the event happens.
    n_risks, is_event = len(params["risks"]) + 1, y < len(params["hazards"])
    worst = np.where(is_event, 0, n_risks - 1)
    return y * n_risks + np.where(quality < 0, worst, quality).astype(np.int64)


def _ordered(params: Params, statistic: FloatArray, n_samples: int) -> float:
    """Harrell's concordance index; equal risks count as half.

    A pair has a person with the event in an interval, and one who survives it.
    """
    n = len(params["hazards"])
    counts = np.reshape(statistic, (2 * n + 1, -1))
    events, censored = counts[:n], counts[n + 1 :]
    stay = np.cumsum((events + censored)[::-1], axis=0)[::-1] - events
    ordered = np.sum(events * (np.cumsum(stay, axis=1) - stay / 2))
    pairs = float(events.sum(axis=1) @ stay.sum(axis=1))
    return float(np.clip(ordered / pairs, 0.0, 1.0)) if pairs > 0.5 else 0.5


def _brier(params: Params, statistic: FloatArray, n_samples: int) -> float:
    """Minus the mean Brier score over the ends of all intervals.

    Censored persons are replaced by persons who are watched longer [1]_.

    References
    ----------
    .. [1] Graf, Schmoor, Sauerbrei and Schumacher (1999). Assessment and comparison of
       prognostic classification schemes for survival data. Statistics in Medicine 18.
    """
    n = len(params["hazards"])
    counts = np.reshape(statistic, (2 * n + 1, -1))
    events, censored = counts[:n], counts[n:]
    middles = np.array(params["middles"])
    survival = np.exp(-np.cumsum(params["hazards"])[:, None] * np.exp(middles))
    stay = np.cumsum((events + censored[1:])[::-1], axis=0)[::-1]
    lost = censored[:-1].sum(axis=1) / np.maximum((stay + censored[:-1]).sum(axis=1), 1)
    watched = np.maximum(np.cumprod(1 - np.clip(lost, 0.0, 0.9)), _LEAST_WATCHED)
    halfway = (watched + np.append(1.0, watched[:-1])) / 2
    died = np.cumsum(events / halfway[:, None], axis=0) * survival**2
    lived = (stay - events) / watched[:, None] * (1 - survival) ** 2
    return -float(np.clip((died + lived).sum(axis=1).mean() / n_samples, 0.0, 1.0))


_SCORES = {
    "concordance_index": (_ordered, 0.0, 1.0),
    "neg_integrated_brier_score": (_brier, -1.0, 0.0),
}


class _SurvivalScoring(NamedScoring):
    def of_raw_data(self, estimator: Any, X: Any, y: Any) -> float:
        """The score of the exact histogram: **not** private."""
        return self.score(self.statistic(estimator, X, y), len(y))


def survival_scoring(scoring: Any, model: Any) -> NamedScoring:
    """The scorer that a name stands for; None: ``"concordance_index"``."""
    name = "concordance_index" if scoring is None else scoring
    check_choice("scoring", name, list(_SCORES))
    of_sums, lowest, highest = _SCORES[name]
    middle, deviation = model._risks()
    places = ndtri((np.arange(2 * _N_RISKS - 1) + 1) / (2 * _N_RISKS)) * deviation
    params = {
        "risks": tuple((middle + places[1::2]).round(4).tolist()),
        "middles": tuple((middle + places[::2]).round(4).tolist()),
        "hazards": tuple(np.exp(model.intercept_).round(6).tolist()),
    }
    return _SurvivalScoring(
        name=name,
        per_record=partial(_interval, params),
        lowest=lowest,
        highest=highest,
        task="classification",
        params=params,
        added=replace(CURVE, spread=_cell),
        size=_N_RISKS * (2 * model.n_intervals + 1),
        of_sums=of_sums,
    )
