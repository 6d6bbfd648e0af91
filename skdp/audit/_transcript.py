"""White-box audits: what a fit hands to its noise, compared with a neighbour's.

Epsilon follows exactly where all answers are Gaussian, of all records, and leave one by
one: their squares add up to mu^2, and epsilon at delta is the closed form. If every
transcript tells at least M^2, the release is no more private than M-GDP: an attacker
may stop listening at M^2. Where all noise is pure and delta is 0, epsilons add up.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from skdp.audit._bounds import epsilon_of_mu
from skdp.audit._canary import Neighbours, Side
from skdp.audit._parameters import fitted, fresh
from skdp.audit._replay import Asked, Replay, told_apart
from skdp.audit._result import EpsilonBound
from skdp.privacy._laws import Choices
from skdp.privacy._plan import Buckets, Everyone, Plan

_TRANSCRIPTS = 3
# Pairs of neighbours of which so many are taken, by the best of one.
_TRIED = 4
# Sums that differ by no more are the same sum.
_ROUNDING = 1e-6
_FROM_MODELS = "Use access='model'."


@dataclass(frozen=True)
class Told:
    """What transcripts on one pair of neighbours tell.

    Parameters
    ----------
    pair : Neighbours
    cost : float
        The least of several transcripts: mu^2, or epsilon of pure noise.
    is_same : bool
        Whether all transcripts tell the same, so that it is the truth.
    is_pure : bool
    parts : dict of str to tuple of float
        By line of the plan: mu or epsilon found and charged.
    over : float
        Largest of found over charged, of any answer, by its share; above 1 refutes.
    leak : str
        What was handed to the noise, besides queries, and differs between neighbours.
    """

    pair: Neighbours
    cost: float
    is_same: bool
    is_pure: bool
    parts: dict[str, tuple[float, float]]
    over: float
    leak: str = ""

    def bound(self, delta: float) -> EpsilonBound:
        """Epsilon that these neighbours are told apart by."""
        if self.is_pure:
            epsilon = self.cost
        else:
            epsilon = (
                math.inf
                if delta == 0 and self.cost > 0
                else epsilon_of_mu(math.sqrt(self.cost), delta)
            )
        rest = (
            ""
            if self.is_same
            else f"no transcript tells less than the {_TRANSCRIPTS} tried"
        )
        return EpsilonBound(
            method="transcript",
            epsilon=epsilon,
            confidence=1.0,
            assumption=rest,
            is_main=True,
        )


def told_by_transcripts(
    estimator: Any, pairs: list[Neighbours], say: Callable[[str], None]
) -> tuple[Told, int]:
    """The pair that is told apart best, and how many fits that took.

    Raises
    ------
    ValueError
        If the estimator hands nothing to the noise of skdp, or what it hands on has no
        closed form.
    """
    once = []
    for number, pair in enumerate(pairs, start=1):
        once.append(_told(estimator, pair, 1))
        say(f"transcripts: {number} of {len(pairs)} pairs of neighbours")
    best = sorted(once, key=lambda told: told.cost, reverse=True)[:_TRIED]
    again = [_told(estimator, told.pair, _TRANSCRIPTS) for told in best]
    n_fits = 2 * (len(once) + _TRANSCRIPTS * len(again))
    return max(again, key=lambda told: told.cost), n_fits


def _told(estimator: Any, pair: Neighbours, n_transcripts: int) -> Told:
    several = [_compared(estimator, pair, seed) for seed in range(n_transcripts)]
    if any(x.leak for x in several):
        return next(x for x in several if x.leak)
    least = min(several, key=lambda told: told.cost)
    most = max(told.cost for told in several)
    return Told(
        pair,
        least.cost,
        most - least.cost <= _ROUNDING * most,
        least.is_pure,
        least.parts,
        max(told.over for told in several),
    )


def _compared(estimator: Any, pair: Neighbours, seed: int) -> Told:
    """One transcript, replayed on the neighbour."""
    first = _heard(estimator, pair.sides[0], Replay(seed))
    is_pure = _check_closed(first)
    second = _heard(estimator, pair.sides[1], Replay(seed, heard=first))
    leak = _leak(first.asked, second.asked)
    if leak:
        return Told(pair, math.inf, True, is_pure, {}, math.inf, leak)
    found: dict[str, float] = {}
    charged: dict[str, float] = {}
    total, over = 0.0, 0.0
    for a, b in zip(first.asked, second.asked, strict=True):
        cost, place = told_apart(a, b), _place(a)
        paid = a.times * a.share.cost
        over = max(over, cost / paid)
        one_bucket = isinstance(a.share.line.sample, Buckets)
        found[place] = found.get(place, 0.0) + cost
        charged[place] = paid + (0.0 if one_bucket else charged.get(place, 0.0))
        total += cost
    root: Callable[[float], float] = float if is_pure else math.sqrt
    parts = {place: (root(found[place]), root(charged[place])) for place in found}
    return Told(pair, total, True, is_pure, parts, root(over))


def _heard(estimator: Any, side: Side, replay: Replay) -> Replay:
    X, y, replay.absent, ids = side
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted(fresh(estimator), X, y, replay, ids)
    return replay


def _leak(first: list[Asked], second: list[Asked]) -> str:
    if len(first) != len(second):
        return "the number of answers"
    if any(a.facts != b.facts for a, b in zip(first, second, strict=True)):
        return "the size of the noise"
    return ""


def _place(asked: Asked) -> str:
    numbers = (asked.share.opened, *asked.share.place)
    return "line " + ".".join(str(number) for number in numbers)


def _check_closed(heard: Replay) -> bool:
    """Whether all noise is pure; raises if it is not of one of the two kinds."""
    if not heard.asked:
        raise ValueError(
            "The estimator must release something by the noise of skdp for "
            f"access='transcript'. Got none of it. {_FROM_MODELS}"
        )
    plans = [plan for plan, _ in heard.committed]
    if any(_declares(plan) for plan in plans):
        raise ValueError(
            "All that is released must be seen for access='transcript'. Got a plan "
            "with hidden answers, or with a cost of its own (objective perturbation, "
            f"a search). {_FROM_MODELS}"
        )
    lines = [asked.share.line for asked in heard.asked]
    if any(not isinstance(line.sample, (Everyone, Buckets)) for line in lines):
        raise ValueError(
            "Answers must be of all records for access='transcript'. Got secret "
            f"samples. {_FROM_MODELS}"
        )
    if any(isinstance(line.law, Choices) for line in lines):
        raise ValueError(
            "Answers must be numbers for access='transcript'. Got private choices. "
            f"{_FROM_MODELS}"
        )
    kinds = {asked.share.is_squared for asked in heard.asked}
    if len(kinds) > 1:
        raise ValueError(
            "Answers must be all Gaussian or all pure for access='transcript'. Got "
            f"both. {_FROM_MODELS}"
        )
    return not kinds.pop()


def _declares(plan: Plan) -> bool:
    return plan.declared is not None or any(
        getattr(line, "is_hidden", False)
        or (hasattr(line, "plan") and _declares(line.plan))
        for line in plan.lines
    )
