r"""Features selected privately, a few at a time, and noise on their values only.

Algorithm: with A the features chosen so far, none at first, and W the weights,

1. the intercept's gradient is released;
2. in each of ``n_rounds`` rounds the features outside A whose rows of the gradient sum
   are largest are selected (one-shot Gumbel noise) and join A, fewer in every round;
3. then the gradients of A and of the intercept are released, with noise for these few
   numbers, and W takes a step;
4. the steps that are left only do that.

Residuals are clipped more and more from step to step. What is released at the end of a
step also says how long that step should have been: W is moved back, or on, along it to
where the derivative along the line vanishes. That is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

import numpy as np

from skdp._configured import Checks, Given
from skdp._validation import check_count, check_real
from skdp.exceptions import Refused
from skdp.losses import SquaredLoss
from skdp.objectives._linear import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._answers import Answers
from skdp.privacy._laws import Choices
from skdp.privacy._plan import Line, Plan
from skdp.queries._feature_values import ValueRows, Values
from skdp.queries._features import Scores
from skdp.solvers._base import Solution
from skdp.solvers._chosen_law import ChosenLaw
from skdp.solvers._peeling_walk import PeelingWalk
from skdp.solvers._progress import Progress

# Chosen once on synthetic designs (docs/solvers/peeling.md) and flat around there.
_ROUNDS, _VALUE_STEPS = 6, 3
# Residuals' clip in units of the loss's noisy one, its decay, its least share.
_FIRST_CLIP, _CLIP_DECAY, _LEAST_CLIP = 1.6, 0.75, 0.1
# A score needs little more of a residual than its sign.
_SCORE_CLIP = 1 / 3
# Of rows that are not dense, steps are as long as if a loss were bent so much at least:
# along those that the logistic loss's own bound of 1/4 allows, predictions run away.
_LEAST_BEND = 1.0


@dataclass(frozen=True, kw_only=True)
class Peeling(ChosenLaw):
    r"""Private selection of features in rounds, with noise on the chosen values only.

    Privacy
    -------
    ``n_steps`` Gaussian releases of a few numbers, each with noise ``noise_multiplier``
    times its sensitivity, and ``n_nonzero`` selections, each of bounded range, composed
    numerically; for delta = 0 spherical noise and pure selections, added up. All
    iterates and the order of the rounds may be published. Sensitivities under both
    adjacencies: ``docs/proofs/peeling.md``. Unit of privacy: one record, or all rows of
    a user (``docs/proofs/users.md``).

    Utility
    -------
    A feature is selected if its gradient stands out by about
    ``B sqrt(s / share) log(d) / mu``, with B the largest entry of a row times the
    residual; noise in all values would be ``||x|| / B`` times as much as in one. The
    values' noise goes with the norm of the chosen part of a row, not of the row.

    Parameters
    ----------
    n_steps : int in [1, 1e6] or None, default=None
        Number of releases of values. Public. None: one for the intercept, one for each
        round, and 3.
    n_rounds : int in [1, 1e6] or None, default=None
        Number of rounds in which features are selected, at most `n_steps`. None: 6, or
        fewer for few features or steps.
    selection_share : float in [1e-3, 0.999], default=0.6
        Share of the budget (of mu^2, of epsilon if delta is 0) for selections.
    step_size : float in [1e-250, 1e250] or None, default=None
        In units of weights per gradient of the mean loss. None: the inverse curvature
        of a feature if all are alike, ``d / (smoothness * data_norm^2)``, or less where
        rows can be concentrated on few of them; then as if smoothness were 1 at least.
        The intercept's step is at most
        ``1 / (smoothness * data_norm^2)``.
    residual_clip : float in [1e-6, inf] or None, default=None
        Norm to which residuals are clipped in the first values; in scores to a third.
        None: 1.6 times the loss's `noisy_clip`, at most the bound at zero weights.
    clip_decay : float in [1e-3, 1] or None, default=None
        Factor on the clip from step to step, down to a tenth in all. None: 0.75 for the
        squared loss, 1 for others, whose residuals do not all become small.
    score_clip : float in [1e-6, 1], default=0.5
        Magnitude to which entries are clipped in scores, in units of the largest entry.
    shortening : float in [1e-6, inf], default=1.15
        Norm to which the chosen part of a row is shortened in the values' sums, in
        units of the norm it has if all features are alike.
    law : {"gaussian", "spherical"} or None, default=None
        Of the values' noise. None: spherical if delta is 0, Gaussian otherwise.
        "spherical" is refused for several steps beside a delta above 0.

    References
    ----------
    .. [1] Cai, Wang and Zhang (2021). The cost of privacy: optimal rates of convergence
       for parameter estimation with differential privacy. Annals of Statistics 49(5).
       https://arxiv.org/abs/1902.04495 (noisy iterative hard thresholding with peeling)
    .. [2] Durfee and Rogers (2019). Practical differentially private top-k selection
       with pay-what-you-get composition. NeurIPS. https://arxiv.org/abs/1905.04273
    .. [3] Dong, Durfee and Rogers (2020). Optimal differential privacy composition for
       exponential mechanisms. ICML. https://arxiv.org/abs/1909.13830

    Deviations: what has been selected is kept, so that s selections are paid for and
    not s in every step; Gumbel noise once for all of a round in place of Laplace noise
    for each; selections are charged as of bounded range; residuals are clipped.
    """

    key: ClassVar[str] = "peeling"
    takes_users: ClassVar[bool] = True
    is_sparse: ClassVar[bool] = True
    clips_selected: ClassVar[bool] = True
    checks: ClassVar[Checks] = {
        **ChosenLaw.checks,
        "n_steps": partial(check_count, high=10**6),
        "n_rounds": partial(check_count, high=10**6),
        "selection_share": partial(check_real, low=1e-3, high=0.999),
        "step_size": partial(check_real, low=1e-250, high=1e250),
        "residual_clip": partial(check_real, low=1e-6, high=math.inf),
        "clip_decay": partial(check_real, low=1e-3, high=1.0),
        "score_clip": partial(check_real, low=1e-6, high=1.0),
        "shortening": partial(check_real, low=1e-6, high=math.inf),
    }

    n_steps: int
    n_rounds: int
    selection_share: float = 0.6
    step_size: float
    residual_clip: float
    clip_decay: float
    score_clip: float = 0.5
    shortening: float = 1.15

    @classmethod
    def adds_in_squares(cls, given: Given) -> bool:
        return False

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        cls.check(objective, budget)
        law = cls.law_for(given, budget)
        n_rounds = given.get(
            "n_rounds",
            min(_ROUNDS, objective.most_features, given.get("n_steps", _ROUNDS)),
        )
        decided = {
            "law": law,
            "n_rounds": n_rounds,
            "n_steps": n_rounds + objective.fit_intercept + _VALUE_STEPS,
            "step_size": _step_size(objective),
            "residual_clip": min(
                objective.loss.zero_out_bound(0.0),
                _FIRST_CLIP * objective.loss.noisy_clip,
            ),
            "clip_decay": (
                _CLIP_DECAY if isinstance(objective.loss, SquaredLoss) else 1.0
            ),
        }
        solver = cls(**{**decided, **given})
        solver._check_rounds(objective)
        cls.check_steps(law, budget, solver.n_steps)
        size = objective.loss.n_outputs * (
            objective.most_features + objective.fit_intercept
        )
        multiple = solver.n_steps / (1 - solver.selection_share)
        cls.check_noise(law, budget, size, multiple)
        return solver

    def _check_rounds(self, objective: LinearObjective) -> None:
        if self.n_rounds > min(self.n_steps, objective.most_features):
            raise Refused(
                f"solver={self.key!r} selects features in every round and releases "
                f"their values after it. Got n_rounds={self.n_rounds} with "
                f"n_steps={self.n_steps} and {objective.n_nonzero} features to select. "
                "Use n_rounds=None."
            )

    @property
    def mechanism(self) -> str:
        return (
            f"Gumbel selection of features and {self.noise_law.name} noise on their "
            "values, composed numerically"
        )

    def selections(self, objective: LinearObjective) -> int:
        """How many features are selected privately: none if all are."""
        return (
            objective.most_features
            if objective.most_features < objective.n_features
            else 0
        )

    def selection_reach(self, objective: LinearObjective) -> float:
        """Bounded range of every selection times the noise multiplier."""
        odds = self.selection_share / (1 - self.selection_share)
        odds *= self.n_steps / self.selections(objective)
        # A selection's mu is about half its range.
        return odds if self.noise_law.is_pure else 2 * math.sqrt(odds)

    def plan(self, objective: LinearObjective) -> Plan:
        values = Line(self.n_steps, law=self.noise_law)
        selections = self.selections(objective)
        if not selections:
            return Plan((values,))
        chosen = Line(selections, law=Choices(self.selection_reach(objective)))
        return Plan((values, chosen))

    def sensitivity(self, objective: LinearObjective) -> float:
        """Of the values of all features that will be chosen, but for rounding."""
        rows = ValueRows.of(objective, objective.most_features, self.shortening)
        return rows.bound(self.residual_clip).under(objective.adjacency)

    def clip(self, step: int) -> float:
        """Norm to which residuals are clipped in a step's values."""
        return self.residual_clip * max(_LEAST_CLIP, self.clip_decay**step)

    def rounds(self, objective: LinearObjective) -> dict[int, int]:
        """How many features each step selects; steps that select none are left out.

        Every round selects at least one and the first ones the most, in arithmetic
        progression. The very first step is the intercept's, if steps are left for it.
        """
        more, n = self.selections(objective) - self.n_rounds, self.n_rounds
        if more < 0:
            return {}
        first = int(objective.fit_intercept and self.n_steps > n)
        ends = [more * t * (2 * n + 1 - t) // (n * (n + 1)) for t in range(n + 1)]
        return {first + t: 1 + ends[t + 1] - ends[t] for t in range(n)}

    def scores(self, objective: LinearObjective, step: int) -> Scores:
        """What a step selects features by."""
        return Scores(
            objective,
            residual_clip=_SCORE_CLIP * self.clip(step),
            entry_clip=self.score_clip * objective.entry_bound,
        )

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        d, rounds = objective.n_features, self.rounds(objective)
        chosen = np.arange(0 if rounds else d)
        walk, scale = PeelingWalk(self.step_size, objective), 0.0
        for t in range(self.n_steps):
            if t in rounds:
                left = np.delete(np.arange(d), chosen)
                scores = self.scores(objective, t).at(walk.weights, among=left)
                more = scores.read(answers.choose(scores, rounds[t], line=1))
                chosen = np.union1d(chosen, more)
            columns = tuple(chosen.tolist())
            values = Values(objective, columns, self.clip(t), self.shortening)
            query = values.at(walk.weights)
            released = answers.ask(query)
            walk.step(query.read(released.value) / objective.n_samples)
            scale = max(scale, released.deviation)
            progress.step(t + 1, self.n_steps)
        return Solution(walk.weights, scale)


def _step_size(objective: LinearObjective) -> float:
    """Inverse curvature of a feature, as far as public bounds tell."""
    alike = 2 * math.sqrt(objective.n_features * objective.full_entries)
    bend = objective.loss.smoothness
    if not objective.has_dense_rows:
        bend = max(bend, _LEAST_BEND)
    curvature = bend * objective.data_norm**2 + objective.alpha
    return min(alike, objective.n_features) / curvature
