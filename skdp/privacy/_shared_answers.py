"""Answers that owners add up among themselves, each with its share of the noise.

Each owner adds ``round(N(0, sigma^2 / t))`` to its own answer on the grid: as long as t
of them do so and tell nobody, what is seen has at least the declared noise. The law of
the sum and the proof are in ``docs/proofs/federated.md``.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from skdp._floats import FloatArray, IntArray
from skdp.exceptions import Refused
from skdp.privacy._answers import (
    Answers,
    Grant,
    Released,
    answered,
    seen_by,
)
from skdp.privacy._elsewhere import whole_of
from skdp.privacy._laws import Gaussian, NoiseLaw
from skdp.privacy._noise import NoiseScale, NoiseSource, share_ratio
from skdp.privacy._owners import Owners, is_theirs
from skdp.privacy._plan import Everyone, Line, Part, Plan
from skdp.privacy._query import Inside, Query
from skdp.privacy._statement import statement_of

_REMEDY = (
    "Use an estimator and solver of full sums with Gaussian noise, such as "
    "DPLogisticRegression with solver='noisy_gd' and a delta above 0. Nothing was "
    "booked or read."
)
_ROWS = f"Several owners show no rows, and this fit must read some. {_REMEDY}"
_LAW = f"Several owners share Gaussian noise, and this fit has another. {_REMEDY}"
_SAMPLE = (
    "Several owners add up all records, since whoever draws a sample knows it, and "
    f"this fit samples. {_REMEDY}"
)
_SEEN = (
    "Several owners see every answer, and this fit pays for fewer. Use "
    f"method='composition' of a search. {_REMEDY}"
)
# Standard deviations of one share in steps of the grid: below, the law of a sum of
# rounded draws is no longer that of the proof.
_FEWEST_STEPS = 64.0


def check_shared(plan: Plan | None, source: Any, owners: Owners) -> None:
    """Refuse what several owners cannot answer, by public facts alone.

    Raises
    ------
    Refused
    """
    if plan is None:
        raise Refused(
            "Several owners answer with noise only. Got epsilon=inf. Use a finite "
            "epsilon. Nothing was booked or read."
        )
    if not is_theirs(owners, source):
        raise Refused(_ROWS)
    _check_seen(plan)


def _check_seen(plan: Plan) -> None:
    """Refuse events for which some answers should have stayed hidden, in parts too."""
    if plan.declared is not None and not plan.is_seen:
        raise Refused(_SEEN)
    for line in plan.lines:
        # A whole that pays for all of its answers pays for those of its parts.
        if isinstance(line, Part) and not plan.is_seen:
            _check_seen(line.plan)


class _OfShares(Answers):
    """What is public of such answers: there are more shares than are counted on."""

    _owners: Owners

    def _scaled(
        self, value: FloatArray, line: Line, law: NoiseLaw, bound: float
    ) -> Released:
        found = super()._scaled(value, line, law, bound)
        spread = math.sqrt(self._owners.n_parties / self._owners.n_honest)
        sigma, deviation = found.sigma * spread, found.deviation * spread
        return replace(found, sigma=sigma, deviation=deviation)

    def choose(self, query: Query, k: int, line: int) -> IntArray:
        raise Refused(_ROWS)

    def inside(self, algorithm: Inside, hear: Any = None) -> Any:
        raise Refused(_ROWS)

    def _shared(self, query: Query, number: int) -> tuple[Line, NoiseScale, float]:
        """A line that owners can answer, with the scale of its noise and the bound."""
        line, law = self._of_noise(number)
        if not isinstance(law, Gaussian):
            raise Refused(_LAW)
        if not isinstance(line.sample, Everyone):
            raise Refused(_SAMPLE)
        if whole_of(query) is None:
            raise Refused(_ROWS)
        bound = self._bound(query, line)
        charged = bound + self._slack(query, self._layout(line))
        multiplier = line.multiplier(self.noise_multiplier)
        scale = law.scale(charged, multiplier, math.prod(query.shape), line.is_fine)
        if not share_ratio(scale, self._owners.n_honest) >= _FEWEST_STEPS:
            raise Refused(
                "The noise of one owner must be wide on the grid of answers. Got less. "
                "Use a smaller epsilon or fewer parties. Nothing was booked or read."
            )
        return line, scale, charged


def _statement(query: Query, scale: NoiseScale) -> bytes:
    """What is asked, and with what noise: the same for all owners."""
    return statement_of(query, query.shape, scale.grid, scale.sigma)


class RehearsedShares(_OfShares):
    """Zeros for what owners could answer, and a refusal for the rest."""

    def __init__(self, plan: Plan, source: Any, grant: Grant, owners: Owners) -> None:
        super().__init__(plan, source, grant)
        self._owners = owners

    def ask(self, query: Query, line: int = 0) -> Released:
        asked, scale, bound = self._shared(query, line)
        self._take(line)
        # The statement may refuse, while nothing is booked.
        self._owners.planned(query, self._source, _statement(query, scale))
        zeros = np.zeros(query.shape)
        law = self._of_noise(line)[1]
        return self._scaled(zeros, asked, law, bound)

    def _sub(self, plan: Plan, view: Any, grant: Grant) -> Answers:
        source = self._source if view is None else view(self._source)
        if not is_theirs(self._owners, source):
            raise Refused(_ROWS)
        return RehearsedShares(plan, source, grant, self._owners)


class SharedAnswers(_OfShares):
    """Sums over the records of several owners, with noise shares from one source.

    The noise here is that of the owners in this process: one, or in a simulation all.
    """

    def __init__(
        self,
        plan: Plan,
        source: Any,
        grant: Grant,
        owners: Owners,
        noise: NoiseSource,
    ) -> None:
        super().__init__(plan, source, grant)
        self._owners, self._noise = owners, noise

    def ask(self, query: Query, line: int = 0) -> Released:
        asked, scale, bound = self._shared(query, line)
        # Counted before the read: an error on the way may have seen records.
        self._take(line)
        value = (self._total(query, scale) * scale.grid).reshape(query.shape)
        released = self._scaled(value, asked, self._of_noise(line)[1], bound)
        self._largest = max(self._largest, released.sigma)
        return released

    def _total(self, query: Query, scale: NoiseScale) -> Any:
        """Whole steps of the grid, of all owners and with all noise."""
        t = self._owners.n_honest
        shares = answered(
            lambda: [
                self._noise.gaussian_share(own.ravel(), scale, t)
                for own in self._owners.answers(query, self._source)
            ]
        )
        return self._owners.added(_statement(query, scale), shares)

    def _sub(self, plan: Plan, view: Any, grant: Grant) -> Answers:
        source = seen_by(view, self._source)
        return SharedAnswers(plan, source, grant, self._owners, self._noise)
