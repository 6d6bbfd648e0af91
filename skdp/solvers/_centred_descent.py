r"""The default solver: a noisy descent on centred rows.

Five releases in one Gaussian plan:

1. histograms of declared columns, or the mean of rows of numbers; and where the
   targets lie: label counts, or a histogram and the mean;
2. gradient sums of rows that are centred by the first answer and clipped to a common
   norm, from the base rate on, with momentum; the model is the mean of the last half;
3. on the way, of squared errors and of labels, the mean error, which the clip of the
   residuals or the steps that are left follow;
4. one ratio: the model's squared predictions over those that noise alone would make.
   It says how much of the weights is kept;
5. the mean prediction or probability, to which the intercept is adapted.

Below a strength of 40 the constant model is taken in its place. Proofs:
``docs/proofs/centred_descent.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from skdp._configured import Given
from skdp._floats import FloatArray
from skdp.data import Centring
from skdp.exceptions import Refused
from skdp.objectives import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._answers import Answers
from skdp.privacy._plan import Line, Part, Plan
from skdp.queries._gradient import Gradients
from skdp.queries._record_sums import (
    ErrorSum,
    NoiseRatio,
    PredictionSum,
    ProbabilitySum,
    TargetSum,
)
from skdp.solvers._base import Solution, Solver
from skdp.solvers._boxed import farthest_weight
from skdp.solvers._centred_descent_rules import (
    PREDICTIONS,
    Pace,
    Shares,
)
from skdp.solvers._centred_rows import Centred, CentredRows
from skdp.solvers._margins import shrunk_margins
from skdp.solvers._noise_gate import (
    MOST_RATIO,
    NoiseOfRun,
    kept_share,
)
from skdp.solvers._progress import Progress
from skdp.solvers._steps import MomentumSteps
from skdp.solvers._steps import Pace as StepPace
from skdp.solvers._strength import strength_of
from skdp.solvers._target_base import (
    Base,
    clip_after,
    clip_of,
    count_query,
    has_log_link,
    is_of_squares,
    is_softmax,
    known_mean,
    middle_and_half,
    rate_clip,
    shift_to_rate,
)


@dataclass(frozen=True, kw_only=True)
class CentredSolution(Solution):
    """Weights of centred rows, and how rows are centred.

    Parameters
    ----------
    weights : ndarray of float64 of shape (n_features, n_outputs)
        Of rows ``(x - centre) * scale / norm``.
    constant : ndarray of float64 of shape (n_outputs,)
        Raw predictions of a row at the centre.
    centring : Centring
    """

    constant: FloatArray
    centring: Centring

    def unpack(self, objective: LinearObjective) -> tuple[FloatArray, FloatArray]:
        """Weights in units of the features, and what is added to ``x @ coef``."""
        coef = self.centring.weights(self.weights).T
        return coef, self.constant - coef @ self.centring.centre


@dataclass(frozen=True, kw_only=True)
class CentredDescent(Solver):
    """A noisy descent on centred rows, from the base rate, with a gate.

    Privacy
    -------
    All answers are Gaussian: exactly mu-GDP for their squares together. Both
    adjacencies, users and the null record: ``docs/proofs/centred_descent.md``.

    Parameters
    ----------
    rows : CentredRows
    strength : float in (0, inf]
        Records times mu, over what a record can change.
    shares : Shares
    pace : Pace
    """

    key: ClassVar[str] = "centred_descent"
    is_pure: ClassVar[bool] = False
    takes_users: ClassVar[bool] = True
    takes_nonconvex: ClassVar[bool] = True

    rows: CentredRows
    strength: float
    shares: Shares
    pace: Pace

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        """`given` has the rows.

        Raises
        ------
        Refused
            Without an intercept, which a centre is.
        """
        cls.check_possible(objective, budget)
        rows = given["rows"]
        strength = strength_of(objective.n_telling, budget, objective.adjacency)
        shares = Shares.of(objective.loss, strength, rows.share(strength))
        pace = Pace.of(objective, strength)
        return cls(rows=rows, strength=strength, shares=shares, pace=pace)

    @classmethod
    def check_possible(cls, objective: LinearObjective, budget: Budget) -> None:
        """Raise what no parameter can mend.

        Raises
        ------
        Refused
        """
        me = f"solver={cls.key!r}"
        if not objective.fit_intercept:
            raise Refused(f"{me} needs an intercept. Use fit_intercept=True.")
        if objective.n_nonzero is not None:
            raise Refused(f"{me} gives every feature a weight. Use solver='iht'.")
        if budget.delta == 0 and budget.is_finite:
            raise Refused(f"{me} adds Gaussian noise. Use a delta above 0.")

    @classmethod
    def adds_in_squares(cls, given: Given) -> bool:
        return True

    @property
    def mechanism(self) -> str:
        return "Gaussian noise, calibrated exactly"

    @property
    def params(self) -> dict[str, Any]:
        given = {"strength": self.strength, "shares": vars(self.shares)}
        return {**vars(self.pace), **given}

    def sensitivity(self, objective: LinearObjective) -> float:
        """Of a gradient sum at any weights."""
        # Of squared errors the clip is a released number of at most 1.
        loss = objective.loss
        clip = 1.0 if is_of_squares(loss) else clip_of(loss)
        sums = self._gradients(objective, (), clip)
        return sums.worst.under(objective.adjacency)

    def _gradients(
        self, objective: LinearObjective, offset: tuple[float, ...], clip: float
    ) -> Gradients:
        weight = self.pace.intercept_weight
        own = replace(objective, data_norm=1.0, offset=offset, fit_intercept=weight > 0)
        return Gradients(own, clip, weight if weight > 0 else 1.0)

    def plan(self, objective: LinearObjective) -> Plan:
        shares = self.shares
        n_steps = self.pace.n_steps
        of_rows = (
            Line(n_steps, mu_share=shares.descent / n_steps),
            *self._lines(shares.gate, shares.bias, shares.errors),
        )
        first = self._lines(shares.states, shares.targets, shares.mean)
        return Plan((*first, Part(Plan(of_rows))))

    @staticmethod
    def _lines(*shares: float) -> list[Line]:
        return [Line(mu_share=share) for share in shares if share > 0]

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        return _Run(self, answers, objective, progress).solution()


@dataclass(eq=False)
class _Run:
    """One run over released values."""

    solver: CentredDescent
    answers: Answers
    objective: LinearObjective
    progress: Progress
    # What was released of the rows, and of the targets.
    centred: Centred = field(init=False)
    base: Base = field(init=False)

    def solution(self) -> Solution:
        self.centred = self.asked_of_rows()
        base = self.base = self.asked_of_targets()
        # After the first answer, from which its view follows.
        rows = self.answers.part(len(self._lines), self.centred.view)
        weights, own, noise = self._descend(rows, self.solver.pace)
        kept = self._kept(rows, weights, noise)
        # What the intercept has learned belongs to the weights beside it.
        constant = np.array(base.constant) + kept * own
        if is_of_squares(self.objective.loss) and self.solver.shares.bias > 0:
            constant = constant - kept * self._bias(rows, weights)
        elif self.solver.shares.bias > 0:
            constant = constant + self._to_rate(rows, kept * weights, constant)
        return CentredSolution(
            weights=kept * weights,
            noise_scale=self.answers.noise_scale,
            constant=constant,
            centring=self.centred.centring,
        )

    @property
    def _lines(self) -> list[str]:
        """What the first lines of the plan are about."""
        shares = self.solver.shares
        asked = {
            "states": shares.states,
            "targets": shares.targets,
            "mean": shares.mean,
        }
        return [name for name, share in asked.items() if share > 0]

    def asked_of_rows(self) -> Centred:
        """Where the rows lie; released."""
        rows, n = self.solver.rows, self.objective.n_samples
        released = self.answers.ask(rows.query(n), self._lines.index("states"))
        return rows.centred(released, n)

    def asked_of_targets(self) -> Base:
        """Where the targets lie; released."""
        loss, n = self.objective.loss, self.objective.n_samples
        counted = self.answers.ask(count_query(loss, n), self._lines.index("targets"))
        counts, noise = counted.value / n, counted.deviation / n
        if "mean" not in self._lines:
            return Base.of(loss, counts, noise)
        middle, half = middle_and_half(loss, shrunk_margins(counts, noise))
        summed = self.answers.ask(TargetSum(n, middle, half), self._lines.index("mean"))
        mean = middle + float(summed.value[0]) / n
        return Base.of(loss, counts, noise, mean, summed.deviation / n)

    def _descend(
        self, rows: Answers, pace: Pace
    ) -> tuple[FloatArray, FloatArray, NoiseOfRun]:
        """Weights of rows and of the intercept, and what noise has made of them."""
        n = self.objective.n_samples
        sums = self.solver._gradients(
            self.objective, self.base.offset, self.base.residual_clip
        )
        own = sums.objective
        if has_log_link(own.loss):
            pace = pace.after(self.base.residual_clip, 0.0, clip_of(own.loss))
        # An intercept that is a feature of this norm moves by its square as much.
        speed = np.ones((own.n_columns, 1))
        if own.fit_intercept:
            speed[-1] = pace.intercept_weight**2
        walk = MomentumSteps(
            np.zeros(own.shape),
            StepPace(
                n_steps=pace.n_steps,
                step_size=pace.step_size,
                tail=0.5,
                alpha=own.alpha,
                farthest=farthest_weight(own),
            ),
            pace.momentum,
        )
        deviations, paces = np.zeros(pace.n_steps), []
        asks_at = pace.errors_at(own.loss) if self.solver.shares.errors > 0 else -1
        for t in range(pace.n_steps):
            if t == asks_at:
                error, noise = self._errors(rows, walk.weights)
                if is_of_squares(own.loss):
                    clip = clip_after(error, noise, self.base.residual_clip)
                    sums = replace(sums, residual_clip=clip)
                else:
                    pace = pace.after(error, noise, self.base.errors)
                    walk.go_on(pace.step_size, pace.momentum)
            paces.append(pace)
            query = sums.at(walk.weights)
            released = rows.ask(query)
            walk.step(speed * query.read(released.value) / n)
            deviations[t] = released.deviation / n
            self.progress.step(t + 1, pace.n_steps)
        found = walk.average()
        d = own.n_features
        intercept = found[-1] if own.fit_intercept else np.zeros(found.shape[1])
        run = NoiseOfRun(paces, deviations, self.base, n, own.alpha)
        return found[:d], intercept, run

    def _errors(self, rows: Answers, weights: FloatArray) -> tuple[float, float]:
        """Mean length of residuals at such weights, and its noise; released."""
        n, d, base = self.objective.n_samples, self.objective.n_features, self.base
        offset = np.array(base.offset)
        if len(weights) > d:
            offset = offset + weights[d]
        query = ErrorSum(
            n, self.objective.loss, weights[:d], offset, base.residual_clip
        )
        released = rows.ask(query, self._line_of("errors"))
        return float(released.value[0]) / n, released.deviation / n

    def _line_of(self, name: str) -> int:
        """Where a line of the part stands, after that of the descent."""
        shares = self.solver.shares
        asked = {"gate": shares.gate, "bias": shares.bias, "errors": shares.errors}
        return 1 + [key for key, share in asked.items() if share > 0].index(name)

    def _kept(self, rows: Answers, weights: FloatArray, noise: NoiseOfRun) -> float:
        """The share of the weights that passes the gate; released."""
        if rows.is_exact:
            return 1.0
        objective = self.objective
        variance, by_chance = self.centred.variances(noise)
        if is_softmax(objective.loss):
            weights = weights - weights.mean(axis=1, keepdims=True)
        query = NoiseRatio(objective.n_samples, weights, variance, MOST_RATIO)
        released = rows.ask(query, self._line_of("gate"))
        n = objective.n_samples
        deviation = math.hypot(released.deviation / n, by_chance)
        return kept_share(float(released.value[0]) / n, deviation)

    def _to_rate(
        self, rows: Answers, weights: FloatArray, constant: FloatArray
    ) -> float:
        """What brings the mean probability to the base rate; released."""
        n, rate = self.objective.n_samples, self.base.constant[0]
        query = ProbabilitySum(
            n, self.objective.loss, weights, float(constant[0]), rate_clip(rate)
        )
        released = rows.ask(query, self._line_of("bias"))
        mean = float(released.value[0]) / n
        return shift_to_rate(rate, mean, released.deviation / n)

    def _bias(self, rows: Answers, weights: FloatArray) -> float:
        """Mean prediction of the weights, to be taken off the constant; released."""
        n, clip = self.objective.n_samples, PREDICTIONS * self.base.unit
        released = rows.ask(PredictionSum(n, weights, clip), self._line_of("bias"))
        return known_mean(float(released.value[0]) / n, released.deviation / n)
