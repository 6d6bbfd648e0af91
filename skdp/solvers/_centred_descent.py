"""The default solver: a noisy descent on centred rows, and its gate.

Five releases in one Gaussian plan:

1. histograms of declared columns, or the mean of rows of numbers; and for the targets,
   label counts, or a histogram and the mean;
2. gradient sums, starting at the base rate, with momentum; the model is the mean of the
   last half of the iterates;
3. during the descent, for squared errors and labels, the mean error, which sets the
   clip of the residuals or the remaining steps;
4. one ratio: the model's squared predictions over the squared predictions that noise
   alone would make. It determines the fraction of the weights that is kept;
5. the mean prediction or probability, which corrects the intercept.

Boosting starts from the same descent (`GatedDescent`). Below a signal-to-noise ratio of
50 the constant model is used. Proofs: ``docs/proofs/default.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from skdp._arrays import FloatArray
from skdp._configured import Given
from skdp._fit import Progress
from skdp.exceptions import Refused
from skdp.losses._objective import LinearObjective
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.release._answers import Answers, Released
from skdp.privacy.release._plan import Line, Part, Plan, Query
from skdp.solvers._base import Solution, Solver, box_radius
from skdp.solvers._centred_rows import (
    MOST_RATIO,
    Centred,
    CentredRows,
    EffectsOfStates,
    NoiseOfRun,
    NoiseVariances,
    kept_share,
)
from skdp.solvers._default_rules import PREDICTIONS, Pace, Shares, signal_to_noise_of
from skdp.solvers._steps import MomentumSteps, follow
from skdp.solvers._target_base import (
    Base,
    clip_after,
    clip_of,
    has_log_link,
    is_of_squares,
    is_softmax,
    known_mean,
    rate_clip,
    rates_of,
    released_base,
    shift_to_rates,
)
from skdp.sums._gradient import ClippedGradient
from skdp.sums._record_sums import ErrorSum, NoiseRatio, PredictionSum, ProbabilitySum
from skdp.tables._centred import Centring

# ---------------------------- Descent from a released base, with a gate for the weights


Variances = Callable[[NoiseOfRun], NoiseVariances]


@dataclass(frozen=True, kw_only=True)
class Descended:
    """Weights and constant after the gate.

    Parameters
    ----------
    weights : ndarray of float64 of shape (n_features, n_outputs)
    constant : ndarray of float64 of shape (n_outputs,)
        Raw predictions of a row at the centre.
    kept : float in [0, 1]
        Fraction of the weights that the gate keeps.
    noise : NoiseOfRun
        The distribution of the noise in the weights.
    mean : ndarray of float64 of shape (n_columns, n_outputs)
        The weights before the gate, with the intercept's; a later descent may start
        from them.
    """

    weights: FloatArray
    constant: FloatArray
    kept: float
    noise: NoiseOfRun
    mean: FloatArray


@dataclass(frozen=True, kw_only=True)
class GatedDescent:
    """The lines of a plan after the queries about rows and targets.

    Privacy
    -------
    Adaptive Gaussian answers: exactly mu-GDP for their squares together, under both
    adjacencies and for users. Gradient sums take rows of norm at most 1
    (``docs/proofs/default.md``).

    Parameters
    ----------
    shares : Shares
    pace : Pace
    """

    shares: Shares
    pace: Pace

    def plan(self) -> Plan:
        """Gradient lines first, then the answers in the order of `_lines`."""
        n_steps = self.pace.n_steps
        gradients = Line(n_steps, mu_share=self.shares.descent / n_steps)
        return Plan((gradients, *(Line(mu_share=s) for s in self._lines().values())))

    def _lines(self) -> dict[str, float]:
        shares = self.shares
        asked = {"gate": shares.gate, "bias": shares.bias, "errors": shares.errors}
        return {name: share for name, share in asked.items() if share > 0}

    def line_of(self, name: str) -> int:
        """Index of a line; the lines of `_lines` follow the gradients' line."""
        return 1 + list(self._lines()).index(name)

    def sensitivity(self, objective: LinearObjective) -> float:
        """Largest sensitivity of a gradient sum, at any weights."""
        # For squared errors the clip is a released number of at most 1.
        loss = objective.loss
        clip = 1.0 if is_of_squares(loss) else clip_of(loss)
        sums = self.gradients(objective, (), clip)
        return sums.worst.under(objective.adjacency)

    def gradients(
        self, objective: LinearObjective, offset: tuple[float, ...], clip: float
    ) -> ClippedGradient:
        """The queries of the descent, with an offset added to raw predictions."""
        weight = self.pace.intercept_weight
        own = replace(objective, data_norm=1.0, offset=offset, fit_intercept=weight > 0)
        return ClippedGradient(own, clip, weight if weight > 0 else 1.0)

    def run(
        self,
        answers: Answers,
        objective: LinearObjective,
        base: Base,
        variances: Variances,
        progress: Progress,
        before: Descended | None = None,
    ) -> Descended:
        """Compute weights from released values, asking the queries of `plan`.

        Parameters
        ----------
        answers : Answers
            About rows whose norm in gradient sums is at most 1.
        objective : LinearObjective
        base : Base
            Released constant model and scales of the targets.
        variances : callable
        progress : Progress
        before : Descended or None, default=None
            The first part of the descent, which this part continues.
        """
        walk = _Walk(self, answers, objective, base, variances, progress, before)
        return walk.found()


@dataclass(eq=False)
class _Walk:
    """One run over released values."""

    descent: GatedDescent
    answers: Answers
    objective: LinearObjective
    base: Base
    variances: Variances
    progress: Progress
    before: Descended | None

    def found(self) -> Descended:
        mean, noise = self._descend()
        weights, own = np.split(mean, [self.objective.n_features])
        own = own.ravel() if own.size else np.zeros(mean.shape[1])
        kept = self._kept(weights, noise)
        # The intercept was learned together with the weights, so the gate scales both.
        constant = np.array(self.base.constant) + kept * own
        if self.descent.shares.bias > 0:
            if is_of_squares(self.objective.loss):
                constant = constant - kept * self._bias(weights)
            else:
                constant = constant + self._to_rates(kept * weights, constant)
        return Descended(
            weights=kept * weights,
            constant=constant,
            kept=kept,
            noise=noise,
            mean=mean,
        )

    def _descend(self) -> tuple[FloatArray, NoiseOfRun]:
        """Weights of rows and of the intercept, and the noise in them."""
        n, pace = self.objective.n_samples, self.descent.pace
        sums = self.descent.gradients(
            self.objective, self.base.offset, self.base.residual_clip
        )
        own = sums.objective
        if has_log_link(own.loss):
            pace = pace.after(self.base.residual_clip, 0.0, clip_of(own.loss))
        steps = MomentumSteps(
            np.zeros(own.shape) if self.before is None else self.before.mean,
            np.full(pace.n_steps, pace.step_size),
            own.alpha,
            box_radius(own),
            0.5,
            momentum=pace.momentum,
        )
        paces: list[Pace] = []
        deviations: list[float] = []
        means = self._means(sums, pace, steps, paces, deviations)
        follow(means, steps, self.progress)
        past = None if self.before is None else self.before.noise
        run = NoiseOfRun(paces, np.array(deviations), self.base, n, own.alpha, past)
        return steps.average(), run

    def _means(
        self,
        sums: ClippedGradient,
        pace: Pace,
        steps: MomentumSteps,
        paces: list[Pace],
        deviations: list[float],
    ) -> Iterator[FloatArray]:
        """The released mean gradient of each step; lists its pace and its noise."""
        n, own = self.objective.n_samples, sums.objective
        # An intercept column of norm w moves the intercept w^2 times as fast.
        speed = np.ones((own.n_columns, 1))
        if own.fit_intercept:
            speed[self.objective.n_features :] = pace.intercept_weight**2
        asks_at = pace.errors_at(own.loss) if self.before is None else 0
        if self.descent.shares.errors == 0:
            asks_at = -1
        for t in range(pace.n_steps):
            if t == asks_at:
                error, noise = self._errors(steps.weights)
                if is_of_squares(own.loss):
                    clip = clip_after(error, noise, self.base.residual_clip)
                    sums = replace(sums, residual_clip=clip)
                else:
                    pace = pace.after(error, noise, self.base.errors)
                    steps.go_on(pace.step_size, pace.momentum)
            paces.append(pace)
            query = sums.at(steps.at)
            released = self.answers.ask(query)
            deviations.append(released.deviation / n)
            yield speed * query.read(released.value) / n

    def _errors(self, weights: FloatArray) -> tuple[float, float]:
        """Released mean length of residuals at the weights, and its noise."""
        n, d, base = self.objective.n_samples, self.objective.n_features, self.base
        offset = np.array(base.offset)
        if len(weights) > d:
            offset = offset + weights[d]
        query = ErrorSum(
            n, self.objective.loss, weights[:d], offset, base.residual_clip
        )
        released = self._asked(query, "errors")
        return float(released.value[0]) / n, released.deviation / n

    def _kept(self, weights: FloatArray, noise: NoiseOfRun) -> float:
        """Released fraction of the weights that the gate keeps."""
        if self.answers.is_exact:
            return 1.0
        objective = self.objective
        by_noise = self.variances(noise)
        if is_softmax(objective.loss):
            weights = weights - weights.mean(axis=1, keepdims=True)
        query = NoiseRatio(objective.n_samples, weights, by_noise.variance, MOST_RATIO)
        released = self._asked(query, "gate")
        n = objective.n_samples
        deviation = math.hypot(released.deviation / n, by_noise.deviation)
        margin = by_noise.n_deviations * deviation
        return kept_share(float(released.value[0]) / n, margin)

    def _to_rates(self, weights: FloatArray, constant: FloatArray) -> FloatArray:
        """Released shift that brings mean probabilities to the base rates."""
        n, rates = self.objective.n_samples, rates_of(np.array(self.base.constant))
        query = ProbabilitySum(
            n, self.objective.loss, weights, constant, rate_clip(rates)
        )
        released = self._asked(query, "bias")
        return shift_to_rates(rates, released.value / n, released.deviation / n)

    def _bias(self, weights: FloatArray) -> float:
        """Released mean prediction of the weights, to subtract from the constant."""
        n, clip = self.objective.n_samples, PREDICTIONS * self.base.unit
        released = self._asked(PredictionSum(n, weights, clip), "bias")
        return known_mean(float(released.value[0]) / n, released.deviation / n)

    def _asked(self, query: Query, name: str) -> Released:
        return self.answers.ask(query, self.descent.line_of(name))


# ------------------------------------------------------------------- The default solver


@dataclass(frozen=True, kw_only=True)
class CentredSolution(Solution):
    """Weights of centred rows, and the centring of rows.

    Parameters
    ----------
    weights : ndarray of float64 of shape (n_features, n_outputs)
        Weights of rows ``(x - centre) * scale / norm``.
    constant : ndarray of float64 of shape (n_outputs,)
        Raw predictions of a row at the centre.
    centring : Centring
    states : EffectsOfStates or None
        Shares of declared states, and noise in their effects; None for plain numbers.
    found : Descended
    centred : Centred
    """

    constant: FloatArray
    centring: Centring
    states: EffectsOfStates | None
    found: Descended
    centred: Centred

    def unpack(self, objective: LinearObjective) -> tuple[FloatArray, FloatArray]:
        """Weights in units of the features, and the constant to add to ``x @ coef``."""
        coef = self.centring.weights(self.weights).T
        return coef, self.constant - coef @ self.centring.centre


@dataclass(frozen=True, kw_only=True)
class CentredDescent(Solver):
    """A noisy descent on centred rows, from the base rate, with a gate.

    Privacy
    -------
    All answers are Gaussian: exactly mu-GDP for their squares together. Both
    adjacencies, users and the null record: ``docs/proofs/default.md``.

    Parameters
    ----------
    rows : CentredRows
    signal_to_noise : float in (0, inf]
        Number of records times mu, divided by the change that one record can make.
    shares : Shares
    pace : Pace
    """

    key: ClassVar[str] = "centred_descent"
    mechanism: ClassVar[str] = "Gaussian noise, calibrated exactly"
    is_pure: ClassVar[bool] = False
    takes_users: ClassVar[bool] = True
    takes_nonconvex: ClassVar[bool] = True

    rows: CentredRows
    signal_to_noise: float
    shares: Shares
    pace: Pace

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        """The default solver for `given`, which contains the rows.

        Raises
        ------
        Refused
            Without an intercept, since centring adds a constant.
        """
        cls.check_possible(objective, budget)
        rows = given["rows"]
        signal_to_noise = signal_to_noise_of(
            objective.effective_n, budget, objective.adjacency
        )
        shares = Shares.of(objective.loss, signal_to_noise, rows.share(signal_to_noise))
        pace = Pace.of(objective, signal_to_noise)
        return cls(rows=rows, signal_to_noise=signal_to_noise, shares=shares, pace=pace)

    @classmethod
    def check_possible(cls, objective: LinearObjective, budget: Budget) -> None:
        """Raise if no choice of parameters makes the problem possible.

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
    def params(self) -> dict[str, Any]:
        given = {"signal_to_noise": self.signal_to_noise, "shares": vars(self.shares)}
        return {**vars(self.pace), **given}

    @property
    def descent(self) -> GatedDescent:
        """The lines after the first answers."""
        return GatedDescent(shares=self.shares, pace=self.pace)

    def sensitivity(self, objective: LinearObjective) -> float:
        """Largest sensitivity of a gradient sum, at any weights."""
        return self.descent.sensitivity(objective)

    def plan(self, objective: LinearObjective) -> Plan:
        first = [Line(mu_share=share) for share in self._first.values()]
        return Plan((*first, Part(self.descent.plan())))

    @property
    def _first(self) -> dict[str, float]:
        """Budget fractions of the lines before the descent, in order."""
        shares = self.shares
        asked = {
            "states": shares.states,
            "targets": shares.targets,
            "mean": shares.mean,
        }
        return {name: share for name, share in asked.items() if share > 0}

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        centred = self.asked_of_rows(answers, objective)
        base = self.asked_of_targets(answers, objective)
        # The view follows from the first answer.
        rows = answers.part(len(self._first), centred.view)
        found = self.descent.run(rows, objective, base, centred.variances, progress)
        states = centred.effects(found.noise)
        if states is not None:
            states = states._replace(deviations=found.kept * states.deviations)
        return CentredSolution(
            weights=found.weights,
            noise_scale=answers.noise_scale,
            constant=found.constant,
            centring=centred.centring,
            states=states,
            found=found,
            centred=centred,
        )

    def asked_of_rows(self, answers: Answers, objective: LinearObjective) -> Centred:
        """Released centres of the rows."""
        n = objective.n_samples
        released = answers.ask(self.rows.query(n), list(self._first).index("states"))
        return self.rows.centred(released, n)

    def asked_of_targets(self, answers: Answers, objective: LinearObjective) -> Base:
        """Released constant model and scales of the targets."""
        lines = list(self._first)

        def ask(name: str, query: Query) -> Released:
            return answers.ask(query, lines.index(name))

        loss, n = objective.loss, objective.n_samples
        return released_base(loss, n, ask, lines)
