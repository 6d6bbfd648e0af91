r"""Steps along the gradients of parts that come one after another, read once.

Algorithm: the records are cut, by position or as they arrive, into ``n_parts`` parts of
at most m records. With ``g_t`` the clipped gradient sum over part
``t // steps_per_part`` at ``W_t``, ``B_t`` its bound, and C the banded square root of
"the sum of all so far", what is released is ``r = C (g / B) + z`` row by row, z
Gaussian; and the step is along ``B_t (C^-1 r)_t / m``. In the sum of all steps, which
is what the weights are in flat directions, the noise of C^-1 z mostly cancels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from skdp._configured import Checks, Given
from skdp._validation import check_count
from skdp.exceptions import Refused
from skdp.objectives._linear import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._adjacency import is_of_users
from skdp.privacy._answers import Answers
from skdp.privacy._correlated import SquareRoot
from skdp.privacy._gaussian import gaussian_mu
from skdp.privacy._plan import Correlated, Line, Plan
from skdp.solvers._base import Solution
from skdp.solvers._descent import Descent
from skdp.solvers._flow_time import FlowTime
from skdp.solvers._progress import Progress

N_PARTS = 20
# Past sums that are held; more would hide little more.
_BAND = 500


@dataclass(frozen=True, kw_only=True)
class FTRL(Descent):
    r"""Follow the regularised leader: one reading, part by part, and correlated noise.

    For streams: with `partial_fit` every part is given once, when it is there, and the
    model after each part is released. `fit` cuts a table into such parts.

    Privacy
    -------
    All releases together are exactly ``1 / noise_multiplier``-GDP: a record is in one
    part, and the noise is calibrated to all weighted sums that its part's answers are
    in (``docs/proofs/ftrl.md``). That no record is in two parts is taken as given.
    Sums of parts before, which later answers are weighted with, are held where the
    records are answered about, and never stored: a stream whose process ends is over.
    Unit of privacy: one record, or all rows of a user, which are in one part
    (``docs/proofs/users.md``).

    Utility
    -------
    After K parts the noise in flat directions is about ``1 + log(K) / pi`` times that
    of `noisy_gd` on all records, where independent noise has ``sqrt(K)`` times.

    Parameters
    ----------
    n_parts : int in [1, 10000], default=20
        Public and fixed before the first part; `fit` cuts into no more.
    steps_per_part : int in [1, 1000] or None, default=None
        None: as many as make the steps of `noisy_gd` with as much noise.
    band : int in [1, 10000], default=500
        Past sums that noise is correlated with; 1 is independent noise.
    step_size, momentum, residual_clip, intercept_weight
        As for `noisy_gd`.
    tail : float in [1e-9, 1] or None, default=None
        Share of the parts so far, the last ones, whose iterates are averaged. None:
        0.5.

    References
    ----------
    .. [1] Kairouz, McMahan, Song, Thakkar, Thakurta and Xu (2021). Practical and
       private (deep) learning without sampling or shuffling. ICML.
    .. [2] Kalinin and Lampert (2024). Banded square root matrix factorization for
       differentially private model training. NeurIPS.
    .. [3] Tran and Cutkosky (2022). Momentum aggregation for private non-convex ERM.
       NeurIPS. (whose tree this replaces)

    Deviations: several steps on every part, with the sensitivity of all of them; noise
    in units of each step's own bound.
    """

    key: ClassVar[str] = "ftrl"
    is_pure: ClassVar[bool] = False
    takes_nonconvex: ClassVar[bool] = True
    needs_order: ClassVar[bool] = True
    takes_users: ClassVar[bool] = True
    is_recommended: ClassVar[bool] = False
    checks: ClassVar[Checks] = {
        **Descent.checks,
        "n_parts": partial(check_count, high=10_000),
        "steps_per_part": partial(check_count, high=1000),
        "band": partial(check_count, high=10_000),
    }

    n_parts: int = N_PARTS
    steps_per_part: int
    band: int = _BAND

    @classmethod
    def check(cls, objective: LinearObjective, budget: Budget) -> None:
        if is_of_users(objective.adjacency) and not objective.is_ordered:
            raise Refused(
                f"solver={cls.key!r} cuts a table by position, and users have none. "
                "Use partial_fit with a part for each table of users, or "
                "solver='noisy_gd'."
            )
        super().check(objective, budget)

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        cls.check(objective, budget)
        n = objective.n_samples
        part_size = -(-n // min(given.get("n_parts", cls.n_parts), n))
        n_parts, band = -(-n // part_size), given.get("band", cls.band)
        mu = gaussian_mu(budget.epsilon, budget.delta)

        def rule(asks: int) -> FlowTime:
            parts = Correlated(part_size, SquareRoot(n_parts, asks, band))
            return FlowTime(objective, mu / parts.excess)

        asks = given.get("steps_per_part")
        if asks is None:
            # The most steps, whose excess of noise is hardly larger than that of fewer.
            most = rule(max(1, FlowTime.most_steps // n_parts))
            n_steps, _ = cls.rest_by_rule(given, most)
            asks = -(-n_steps // n_parts)
        _, rest = cls.rest_by_rule(given, rule(asks), asks * n_parts)
        return cls(n_parts=n_parts, steps_per_part=asks, band=band, **rest)

    @classmethod
    def adds_in_squares(cls, given: Given) -> bool:
        return True

    @property
    def mechanism(self) -> str:
        return "Gaussian noise on weighted sums over disjoint parts of records"

    def assumed_public(self, objective: LinearObjective) -> tuple[str, ...]:
        unit = "user" if is_of_users(objective.adjacency) else "record"
        return (
            f"number of parts, and of {unit}s in each",
            f"that no {unit} is in two parts",
        )

    def parts(self, objective: LinearObjective) -> Correlated:
        """What answers are about."""
        size = -(-objective.n_samples // self.n_parts)
        root = SquareRoot(self.n_parts, self.steps_per_part, self.band)
        return Correlated(size, root)

    def sensitivity(self, objective: LinearObjective) -> float:
        # Of all weighted sums, in which each answer counts in units of its own bound;
        # the grid of the noise adds to it (`Correlated.on_grid`).
        return self.parts(objective).joint

    def plan(self, objective: LinearObjective) -> Plan:
        parts = self.parts(objective)
        return Plan((Line(parts.times, sample=parts),))

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        walking = self.walking(answers, objective)
        found = next(walking)
        for done in range(1, self.n_parts):
            progress.step(done, self.n_parts)
            found = next(walking)
        progress.step(self.n_parts, self.n_parts)
        return found

    def walking(
        self, answers: Answers, objective: LinearObjective
    ) -> Iterator[Solution]:
        """What is released after each part, when it is asked for."""
        sums, parts = self.gradients(objective), self.parts(objective)
        walk = self.walk(objective, parts.times)
        means: list[Any] = []
        for _ in range(self.n_parts):
            total = np.zeros(objective.shape)
            for _ in range(self.steps_per_part):
                query = sums.at(walk.weights)
                walk.step(query.read(answers.ask(query).value) / parts.size)
                total += walk.weights
            means.append(total / self.steps_per_part)
            last = means[-max(1, int(self.tail * len(means))) :]
            weights = np.mean(last, axis=0)
            yield Solution(weights, answers.noise_scale, path=walk.path)
