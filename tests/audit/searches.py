"""Whole searches, replayed: real fits, real scores, and the law of what is chosen.

A search of the toy `NoisySum` is run on two tables that differ in one record, and on
the second is told what was released on the first. Orders are drawn alike, and the
record stands in several places.

- composition: all that a record has to do with, the fits, the scores and the final fit,
  is added up and compared with the event;
- disjoint splits: so is its one fit, or the choice, whose law is enumerated;
- random stopping: every trial is compared with the strength of one; what is released is
  the best of a secret number of trials, whose law is known in closed form.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from scipy.stats import laplace, norm

from skdp import DPGridSearchCV
from skdp.audit._exact import replayed, told_apart
from skdp.model_selection import _search
from skdp.privacy import calibrate
from skdp.privacy.accounting._random_stopping import TrialCount
from skdp.privacy.release import _door
from tests.audit.exact_laws import exact_epsilon
from tests.audit.linear import BUDGETS
from tests.audit.tables import answered_by
from tests.model_selection.toys import NoisySum

N = 12
STOPPING = {
    "random_stopping": {"mean_trials": 4.0, "shape": 1.0},
    "random_stopping, poisson": {"mean_trials": 4.0, "family": "poisson"},
}
METHODS = {
    "composition": ("composition", {}),
    "composition, two parts": ("composition", {"tuning_fraction": 0.5}),
    "disjoint_splits": ("disjoint_splits", {}),
    "disjoint_splits, exponential": ("disjoint_splits", {"mechanism": "exponential"}),
}


def search_of(method, params, adjacency, law, answers):
    budget = BUDGETS[law]
    return DPGridSearchCV(
        NoisySum(),
        {"answer": answers},
        epsilon=budget.epsilon,
        delta=budget.delta,
        adjacency=adjacency,
        method=method,
        method_params=params,
    )


def pair_of(adjacency, at):
    """Tables that differ in one record; a row of zeros adds nothing to a sum."""
    X, y = np.zeros((N, 2)), np.zeros(N, dtype=int)
    X[at, 0] = 1.0
    Z, labels = X.copy(), y.copy()
    Z[at, 0] = {"replace_one": -1.0, "zero_out": 0.0}[adjacency]
    if adjacency == "replace_one":
        labels[at] = 1
    return (X, y), (Z, labels)


_CALIBRATED = {}


def _calibrated_once(declare, budget):
    """Noise multipliers of events that are declared again and again."""
    key = declare(1.0), budget
    if key not in _CALIBRATED:
        _CALIBRATED[key] = calibrate(declare, budget)
    return _CALIBRATED[key]


def _replayed(case, pair, seed, **bugs):
    """Calls of both runs, and the event on the books."""
    record = []

    def run(table, noise):
        with answered_by(noise) as patch:
            for module in (_door, _search):
                patch.setattr(module, "calibrate", _calibrated_once)
            fitted = search_of(*case).fit(*table)
        record.append(fitted.privacy_.event)

    first, second, _ = replayed(run, pair, seed, **bugs)
    return first, second, record[0]


def _costs(first, second):
    """What each call tells apart, and its share."""
    return [
        (a.share, told_apart(a, b), a.share.cost)
        for a, b in zip(first, second, strict=True)
    ]


def added(name, adjacency, law, at, seeds, **bugs):
    """Found over charged of all that one record takes part in."""
    method, params = METHODS[name]
    case, found, worst = (method, params, adjacency, law, [0, 1]), [], 0.0
    for seed in seeds:
        first, second, event = _replayed(case, pair_of(adjacency, at), seed, **bugs)
        costs = _costs(first, second)
        ratios = [_ratio(share, x, cost) for share, x, cost in costs]
        worst = max(worst, *ratios)
        if method == "disjoint_splits":  # each part has the whole budget
            found.append(sum(ratios))
        elif law == "pure":
            found.append(sum(x for _, x, _ in costs) / event.pure_epsilon)
        else:
            squares = sum(share.as_mu_squared(x) for share, x, _ in costs)
            found.append(math.sqrt(squares / event.gdp_mu_squared))
    return min(found), max(worst, *found)


def _ratio(share, found, charged):
    return math.sqrt(found / charged) if share.is_squared else found / charged


def stopped(name, adjacency, law, at, seeds, **bugs):
    """Exact epsilon of the best of secretly many trials, over the claim.

    A trial's mu, or epsilon, is what its fit and its score handed on to the noise.
    """
    params = STOPPING[name]
    case, found, worst = ("random_stopping", params, adjacency, law, [0, 1]), [], 0.0
    for seed in seeds:
        first, second, _ = _replayed(case, pair_of(adjacency, at), seed, **bugs)
        costs = _costs(first, second)
        worst = max(worst, *(_ratio(share, x, cost) for share, x, cost in costs))
        trial = max((x for _, x, _ in costs), default=0.0)
        if trial > 0:
            exact = best_of_many(trials_of(params), trial, law)
            found.append(exact / BUDGETS[law].epsilon)
    if not found:
        return 0.0, worst
    return min(found), max(worst, *found)


def trials_of(params):
    """The law of the number of trials."""
    mean, family = params["mean_trials"], params.get("family", "negative_binomial")
    return TrialCount(family, mean, round(6 * mean) + 1, params.get("shape", 1.0))


def best_of_many(trials, trial, law):
    """Exact epsilon of the best, if the best is the largest noise, or the smallest."""
    chances = trials.probabilities
    kind, shift = (laplace, trial) if law == "pure" else (norm, math.sqrt(trial))
    far = 40.0 if law == "pure" else 12.0
    x = np.linspace(-far, far + shift, 20_001)
    width, worst = x[1] - x[0], 0.0
    for tail in (kind.cdf, kind.sf):
        sides = []
        for mean in (0.0, shift):
            # w(u) = sum_k k P(k) u^(k - 1), by Horner's rule.
            terms = (np.arange(len(chances)) * chances)[:0:-1]
            weights = np.polyval(terms, tail(x - mean))
            density = width * kind.pdf(x - mean) * weights
            sides.append(np.append(density, chances[0]))
        worst = max(worst, exact_epsilon(*sides, BUDGETS[law].delta))
    return worst


def candidates(name, adjacency, law):
    """Audits of one method: the record is in one part of the split or in another."""
    if name in STOPPING:  # nearly all are trained on
        return [partial(stopped, name, adjacency, law, 0)]
    return [partial(added, name, adjacency, law, at) for at in (0, 2, 4)]
