"""The default solver: a noisy descent on centred rows, and its gate.

Five releases in one Gaussian plan:

1. histograms of declared columns, or the mean of rows of numbers; and for the targets,
   label counts, or a histogram and the mean;
2. gradient sums, starting at the base rate, with momentum; the model is the mean of the
   last half of the iterates; with many records the histograms precondition the steps;
3. during the descent, for squared errors and labels, the mean error, which sets the
   clip of the residuals or the remaining steps;
4. one ratio: the model's squared predictions over the squared predictions that noise
   alone would make. It determines the fraction of the weights that is kept;
5. the mean prediction or probability, which corrects the intercept.

Boosting starts from the same descent (`GatedDescent`). Below a signal-to-noise ratio of
50 the constant model is used. A descent can start at a released model (`Start`); it
then adds a share of what it learns to that model. Proofs: ``docs/proofs/default.md``.
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
    Centred,
    CentredRows,
    EffectsOfStates,
    Preconditioner,
)
from skdp.solvers._default_rules import PREDICTIONS, Pace, Shares, signal_to_noise_of
from skdp.solvers._run_noise import (
    MOST_RATIO,
    Directions,
    NoiseOfRun,
    NoiseVariances,
    SeenStep,
    kept_share,
)
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


@dataclass(frozen=True)
class Start:
    """The released model at which a descent starts, and the share that is added to it.

    Parameters
    ----------
    weights : ndarray of float64 of shape (n_features, n_outputs)
    constant : ndarray of float64 of shape (n_outputs,)
    share : float in (0, 1], default=1.0
        The model of the descent is this model, plus this fraction of the difference
        between the weights that the descent finds and these weights.
    noise : NoiseOfRun or None, default=None
        The distribution of the noise in the weights; None: they have none.
    """

    weights: FloatArray
    constant: FloatArray
    share: float = 1.0
    noise: NoiseOfRun | None = None


def share_of(signal_to_noise: float, information: float) -> float:
    """Share of what a fit learns if a model with this information is continued.

    Information is a squared signal-to-noise ratio: one over the variance of the noise
    in a weight of steep curvature. The share gives both estimates of the weight the
    precision that they have, and their mean is as noisy as one fit whose squared ratio
    is the sum. The errors of the samples, which shrink with n and not with its square,
    are left out.
    """
    own = signal_to_noise**2
    return own / (own + information)


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
        start: Start | None = None,
        directions: Directions | None = None,
        preconditioner: Preconditioner | None = None,
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
        start : Start or None, default=None
            None: weights of 0 and the constant of `base`.
        directions : Directions or None, default=None
            Directions in which the noise of the run keeps its steps.
        preconditioner : Preconditioner or None, default=None
            Matrix that multiplies each released gradient before its step.
        """
        if start is None:
            zeros = np.zeros((objective.n_features, objective.loss.n_outputs))
            start = Start(zeros, np.array(base.constant))
        walk = _Walk(
            *(self, answers, objective, base, variances, progress, before, start),
            *(directions, preconditioner),
        )
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
    start: Start
    directions: Directions | None
    preconditioner: Preconditioner | None

    def found(self) -> Descended:
        mean, noise = self._descend()
        first, share = self._first(len(mean)), self.start.share
        mixed = first + share * (mean - first)
        weights = mixed[: self.objective.n_features]
        kept = self._kept(weights, noise)
        # The intercept was learned together with the weights, so the gate scales both.
        gated = first + kept * (mixed - first)
        gated, own = np.split(gated, [self.objective.n_features])
        base = np.array(self.base.constant)
        constant = base + own.ravel() if own.size else self.start.constant
        if self.descent.shares.bias > 0:
            if is_of_squares(self.objective.loss):
                mine = base - kept * self._bias(weights)
                constant = (1 - share) * constant + share * mine
            else:
                constant = constant + share * self._to_rates(gated, constant)
        return Descended(
            weights=gated,
            constant=constant,
            kept=kept,
            noise=noise,
            mean=mean,
        )

    def _first(self, n_rows: int) -> FloatArray:
        """The start, with the constant in the row of the intercept if there is one."""
        moved = self.start.constant - np.array(self.base.constant)
        of_intercept = moved.reshape(-1, self.start.weights.shape[1])
        return np.vstack([self.start.weights, of_intercept])[:n_rows]

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
            self._first(own.shape[0]) if self.before is None else self.before.mean,
            np.full(pace.n_steps, pace.step_size),
            own.alpha,
            box_radius(own),
            0.5,
            momentum=pace.momentum,
        )
        paces: list[Pace] = []
        deviations: list[float] = []
        seen: list[SeenStep] = []
        means = self._means(sums, pace, steps, paces, deviations, seen)
        follow(means, steps, self.progress)
        run = NoiseOfRun(
            paces=paces,
            deviations=np.array(deviations),
            base=self.base,
            # The information of a released model is that of so many more records.
            n_samples=n / self.start.share,
            alpha=own.alpha,
            before=None if self.before is None else self.before.noise,
            seen=tuple(seen),
            given=self.start.noise,
            share=self.start.share,
        )
        return steps.average(), run

    def _means(
        self,
        sums: ClippedGradient,
        pace: Pace,
        steps: MomentumSteps,
        paces: list[Pace],
        deviations: list[float],
        seen: list[SeenStep],
    ) -> Iterator[FloatArray]:
        """The released mean gradient of each step; lists its pace and its noise."""
        n, own, planned = self.objective.n_samples, sums.objective, pace
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
            mean = query.read(released.value) / n
            if self.directions is not None:
                to = self.directions.basis.T
                at, along = to @ steps.at[: to.shape[1]], to @ mean[: to.shape[1]]
                bend = planned.flow / pace.flow
                seen.append(SeenStep(at, along, deviations[-1], bend))
            mean = speed * mean
            if self.preconditioner is not None:
                # `Steps` adds the gradient of the penalty, which it takes too.
                penalty = own.alpha * steps.at
                mean = self.preconditioner(mean + penalty) - penalty
            yield mean

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
    centred : Centred
        Released numbers about the rows.
    states : EffectsOfStates or None
        Shares of declared states, and noise in their effects; None for plain numbers.
    found : Descended
        What the descent found.
    information : float
        Squared signal-to-noise ratio of all fits that these weights come from, as far
        as gates kept what they learned.
    """

    constant: FloatArray
    centred: Centred
    states: EffectsOfStates | None
    found: Descended
    information: float

    @property
    def centring(self) -> Centring:
        return self.centred.centring

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
    before : CentredSolution or None, default=None
        The released model that this descent continues.
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
    before: CentredSolution | None = None

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        """The default solver for `given`, which contains the rows.

        Raises
        ------
        Refused
            Without an intercept, since centring adds a constant.
        """
        cls.check_possible(objective, budget)
        signal_to_noise = signal_to_noise_of(
            objective.effective_n, budget, objective.adjacency
        )
        rows = given["rows"]
        pace = Pace.of(objective, signal_to_noise, rows.n_parts)
        # Second moments are released where they save steps.
        others = rows.planned(signal_to_noise) if budget.is_finite else rows
        shorter = Pace.of(objective, signal_to_noise, others.n_parts)
        if shorter.n_steps < pace.n_steps:
            rows, pace = others, shorter
        shares = Shares.of(objective.loss, signal_to_noise, rows.share(signal_to_noise))
        return cls(rows=rows, signal_to_noise=signal_to_noise, shares=shares, pace=pace)

    def after(self, before: CentredSolution, objective: LinearObjective) -> Self:
        """The descent that starts at a released model of the same features.

        It goes as far as one fit with the information of both would, and rows keep the
        released centre.
        """
        found, own = replace(self, before=before), self.signal_to_noise
        signal = own / math.sqrt(found.learned_share)
        pace = Pace.of(objective, signal, before.centred.n_parts)
        return replace(found, shares=Shares.of(objective.loss, own, 0.0), pace=pace)

    @property
    def learned_share(self) -> float:
        """The share of what this descent learns that is added to the model before."""
        if self.before is None:
            return 1.0
        return share_of(self.signal_to_noise, self.before.information)

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
        if self.before is not None:
            given["learned_share"] = self.learned_share
        return {**self.pace.params, **given}

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
        before, start, information = self.before, None, 0.0
        if before is None:
            centred = self.asked_of_rows(answers, objective)
        else:
            centred, information = before.centred, before.information
            share = self.learned_share
            start = Start(before.weights, before.constant, share, before.found.noise)
        base = self.asked_of_targets(answers, objective)
        # The view follows from released numbers.
        rows = answers.part(len(self._first), centred.view)
        found = self.descent.run(
            *(rows, objective, base, centred.variances, progress),
            start=start,
            directions=centred.directions,
            preconditioner=centred.preconditioner(self.pace),
        )
        states, kept = centred.effects(found.noise), found.kept
        if states is not None:
            deviations = kept * states.deviations
            if before is not None and before.states is not None:
                deviations = deviations + (1 - kept) * before.states.deviations
            states = states._replace(deviations=deviations)
        return CentredSolution(
            weights=found.weights,
            noise_scale=answers.noise_scale,
            constant=found.constant,
            centred=centred,
            states=states,
            found=replace(found, noise=found.noise.without_steps()),
            information=information + (kept * self.signal_to_noise) ** 2,
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
