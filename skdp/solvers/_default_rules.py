"""The rules of the default solver: shares of its budget, its steps, and its rows.

Budgets are measured by the signal-to-noise ratio ``n mu / relation``: the number of
records over the noise of one count of them, where the relation is 1 if a record is left
out and 2 if it is exchanged for another. Everything here is a function of public facts
and of released numbers. Constants were settled on six tables (adult, covertype, ccpp,
protein_casp, wine_white, kddcup99) at 2,000 records to 32,000 and epsilon 0.1 to 4, and
compared on seven others (``docs/default_solver.md``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

from skdp.losses._base import Loss, LossId
from skdp.losses._objective import LinearObjective
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._gaussian import gaussian_mu
from skdp.solvers._target_base import (
    RESIDUALS,
    clip_of,
    has_rate,
    is_of_squares,
    within,
)

# Relations in which what is taken away is replaced.
_EXCHANGES = ("replace_one", "replace_user")
# Delta at which a pure budget is compared with the others, by rules only.
TYPICAL_DELTA = 1e-6


def signal_to_noise_of(n_samples: float, budget: Budget, adjacency: str) -> float:
    """Records times mu, in units of records that are left out; public facts."""
    if not budget.is_finite:
        return math.inf
    mu = gaussian_mu(budget.epsilon, budget.delta or TYPICAL_DELTA)
    return n_samples * mu * (0.5 if adjacency in _EXCHANGES else 1.0)


def share_for(
    wanted: float, signal_to_noise: float, least: float, most: float, number: int = 1
) -> float:
    """Of mu squared, for so much noise in each of so many sums, within limits.

    Noise in a sum is over the number of records.
    """
    return min(max(number / (wanted * signal_to_noise) ** 2, least), most)


# -------------------------------------------------------------------------- Constants

# Below this ratio the base rate or the mean is released, and no weights: with
# targets at random, a gate that has so much noise lets noise pass. At 51 it costs .003
# of log-loss and .005 of R2 where there is no signal, and gains .5 of R2 on ccpp. At 47
# (200 records of 5 columns) it costs .01 to .03, and half of that with all noise
# refused, since the base has a part of the budget only.
# Of K labels that compete each has fewer records: with ten, noise passed the gate in
# one of eight runs at 50, and cost .05 of log-loss.
LEAST_SIGNAL_TO_NOISE = 50.0
# Deviation of the noise in the share of records in a state that is worth paying for,
# and the share of mu squared that it may cost. Flat between half and twice as much.
_STATE_NOISE, _LEAST_STATES, _MOST_STATES = 0.01, 0.002, 0.1
# The same for the mean of rows that are clipped to norm 1.
_CENTRE_NOISE, _LEAST_CENTRE, _MOST_CENTRE = 0.2, 0.01, 0.05
# The same for the share of a label, or the mean of targets. A base rate that is wrong
# costs more than a centre that is, most of all that of a rare label.
_TARGET_NOISE, _LEAST_TARGETS, _MOST_TARGETS = 0.01, 0.04, 0.25
# The same for the share of targets at a knot, and for the mean of targets over half of
# the width in which they are summed.
_KNOT_NOISE, _LEAST_KNOTS, _MOST_KNOTS = 0.04, 0.01, 0.1
_MEAN_NOISE, _LEAST_MEAN, _MOST_MEAN = 0.022, 0.02, 0.5
# Strengths between which a constant model of squared errors releases a histogram of the
# targets first, and its share. At 10 it is even on bounds six deviations wide; at 20
# bounds of eleven deviations cost .02 of R2 in place of .08, and bounds of two .009 for
# .001. Of many records the sum of all targets has little noise, and no clip.
_HISTOGRAM_FROM, _HISTOGRAM_TO, _HISTOGRAM = 12.0, 200.0, 0.3
# Shares of mu squared for the gate: from its most, it falls with the squared ratio.
_GATE_SIGNAL_TO_NOISE, _LEAST_GATE, _MOST_GATE = 60.0, 0.01, 0.12
# Deviation of the noise in the prediction of a row of norm 1 in flat directions, in the
# loss's units of raw predictions (a log-odds), and of numbers in their standard
# deviation. Flat from half to twice as much; regressions lose from 0.7 on.
_NOISE, _NOISE_OF_NUMBERS = 1.0, 0.4
# Of the intercept, over a feature of norm 1. Flat from 0.15 to 0.3; without an
# intercept that learns .006 to .025 of log-loss are lost, with 1 .005 to .015.
_INTERCEPT = 0.2
# Deviation of the noise in a mean error, and the share of mu squared that it may cost.
_ERROR_NOISE, _LEAST_ERRORS, _MOST_ERRORS = 0.06, 0.005, 0.05
# Part of the steps before errors are asked for. A clip follows best at a tenth to
# a fifth (ccpp at epsilon 0.1: .116 of 1 - R2 for .140 at half); what is left to
# learn of labels shows later, and flat from 0.3 to 0.5.
_NUMBERS_AT, _LABELS_AT = 0.1, 0.4
# How many times as far a descent may go on where errors are few, and of the largest
# step at which momentum is stable in any direction, how much is used.
_FARTHER, _STABLE = 8.0, 0.9
# Rows are clipped to (base + few / columns) of their root mean square: rows of many
# columns have nearly the same norm, and rows of one column have not.
_ROWS, _ROWS_OF_FEW = 0.5, 2.0
_LEAST_NORM = 1e-3
# The same of rows of numbers: 1.2 helps four features, and costs .02 of 1 - R2 of nine;
# of many it is flat. And their least mean square about the centre.
_ROWS_OF_NUMBERS, _LEAST_VARIANCE = 0.8, 0.01
# Steps: momentum relaxes so often in a run, and covers flow time s with curvature up to
# L in sqrt(s L) times the root of half as many steps. With 5 kddcup99 (10,000 rows,
# epsilon 1) lost .014 of log-loss.
_RELAXATIONS = 7
_FEWEST_STEPS, _MOST_STEPS = 10, 200
# Of more records than so many a pass takes long, and the last directions tell little:
# with 150 steps in place of 300 covertype lost .0006 of log-loss at epsilon 4.
_MANY_RECORDS, _MOST_STEPS_OF_MANY = 200_000, 100
# Without noise a run has so many times the most steps of a private run, so that
# epsilon=inf has the least loss on the records of the fit. With 300 steps in place of
# 240 a fit of 20,000 records took 2.6 times as long as at epsilon 4, in place of 2.
_MORE_WITHOUT_NOISE = 1.2
# Predictions of numbers, in standard deviations, are clipped to this for their mean.
PREDICTIONS = 2.0
# Deviation of the noise in a mean probability, over what it is clipped to, and the
# share of mu squared that it may cost. Without it mean predictions of labels of 2 %
# were 1.1 to 1.5 times the base rate.
_RATE_NOISE, _LEAST_RATE, _MOST_RATE = 0.01, 0.005, 0.03
# Intervals of the finest level of a curve, below so many records times mu in tables of
# so many columns; with more columns each has a smaller part of a row's norm.
_COLUMNS = 10
_INTERVALS = ((250.0, 4), (875.0, 8), (3_000.0, 16), (10_500.0, 32), (math.inf, 64))
# Losses of labels whose errors say how far to go on.
_FOLLOWED = (LossId.SIGMOID, LossId.SOFTMAX)


def pure_signal_to_noise(objective: LinearObjective, budget: Budget) -> float:
    """Records times epsilon, over what one record can change."""
    relation = 2.0 if objective.adjacency in _EXCHANGES else 1.0
    return objective.effective_n * budget.epsilon / relation


def least_signal_to_noise(loss: Loss) -> float:
    """Below which the constant model is taken."""
    return LEAST_SIGNAL_TO_NOISE * math.sqrt(max(loss.n_outputs, 2) / 2)


def pure_share(objective: LinearObjective, budget: Budget) -> float:
    """Of epsilon, for the constant that a pure minimisation goes out from."""
    signal_to_noise = pure_signal_to_noise(objective, budget)
    return within(1 / (signal_to_noise * _TARGET_NOISE), _LEAST_TARGETS, _MOST_TARGETS)


def curve_intervals(signal_to_noise: float, n_columns: int) -> int:
    """How fine the noise of a budget lets curves of so many columns be."""
    size = signal_to_noise * _COLUMNS / n_columns
    return next(count for below, count in _INTERVALS if size <= below)


def share_of_histogram(signal_to_noise: float) -> float:
    """Of mu squared, for that of the targets before the sum of a constant model."""
    return _HISTOGRAM if _HISTOGRAM_FROM <= signal_to_noise < _HISTOGRAM_TO else 0.0


def share_of_states(signal_to_noise: float, n_parts: int) -> float:
    """Of mu squared, for histograms of so many columns."""
    return share_for(
        _STATE_NOISE, signal_to_noise, _LEAST_STATES, _MOST_STATES, n_parts
    )


def share_of_rows(signal_to_noise: float, n_features: int) -> float:
    """Of mu squared, for the mean of rows of so many numbers."""
    return share_for(
        _CENTRE_NOISE, signal_to_noise, _LEAST_CENTRE, _MOST_CENTRE, n_features
    )


@dataclass(frozen=True)
class Shares:
    """Parts of mu squared, which add up to 1.

    Parameters
    ----------
    states, targets, mean, gate, bias, errors : float
        Of the histograms of the columns, of that of the targets, of their mean, of the
        gate's ratio, of the mean prediction or probability, and of the mean error on
        the way. 0: nothing is asked.
    """

    states: float = 0.0
    targets: float = 0.0
    mean: float = 0.0
    gate: float = 0.0
    bias: float = 0.0
    errors: float = 0.0

    @property
    def descent(self) -> float:
        """What is left."""
        return 1.0 - math.fsum(vars(self).values())

    @classmethod
    def of(cls, loss: Loss, signal_to_noise: float, states: float) -> Self:
        """By rule; `states` is what is asked of the rows."""

        def share(noise: float, least: float, most: float) -> float:
            return share_for(noise, signal_to_noise, least, most)

        # The smaller shares of many labels are, the more is lost by noise in them.
        wanted = _TARGET_NOISE * 2 / max(loss.n_outputs, 2)
        targets = share(wanted, _LEAST_TARGETS, _MOST_TARGETS)
        errors = share(_ERROR_NOISE, _LEAST_ERRORS, _MOST_ERRORS)
        gate = within(
            (_GATE_SIGNAL_TO_NOISE / signal_to_noise) ** 2, _LEAST_GATE, _MOST_GATE
        )
        if is_of_squares(loss):
            knots = share(_KNOT_NOISE, _LEAST_KNOTS, _MOST_KNOTS)
            mean = share(_MEAN_NOISE, _LEAST_MEAN, _MOST_MEAN)
            return cls(states, knots, mean, gate / 2, gate / 2, errors)
        if has_rate(loss):
            bias = share(_RATE_NOISE, _LEAST_RATE, _MOST_RATE)
            return cls(states, targets, gate=gate, bias=bias, errors=errors)
        if loss.form in _FOLLOWED:
            return cls(states, targets, gate=gate, errors=errors)
        if loss.form is LossId.POISSON:
            return cls(states, targets / 2, targets / 2, gate)
        return cls(states, targets, gate=gate)


@dataclass(frozen=True)
class Pace:
    """Steps of the descent, and the intercept's weight; public.

    Parameters
    ----------
    n_steps : int
    step_size : float
    momentum : float in [0, 1)
    intercept_weight : float
        Over a feature of norm 1; 0: there is none to be learned.
    """

    n_steps: int
    step_size: float
    momentum: float
    intercept_weight: float

    @classmethod
    def of(cls, objective: LinearObjective, signal_to_noise: float) -> Self:
        """A flow time that follows from the noise that a prediction may have.

        In flat directions noise of deviation d in each mean gradient gives predictions
        of unit rows the deviation ``s d``, so that ``s = noise * ratio / bound``;
        and ``exp(-h s)`` of a direction of curvature h is left unlearned, which is what
        a Bayesian with a prior of that deviation would leave.
        """
        loss = objective.loss
        weight = 0.0 if is_of_squares(loss) else _INTERCEPT
        length = math.hypot(1.0, weight)
        # Noise is that of a mean over all records, however little most of them weigh.
        signal_to_noise *= objective.n_samples / objective.effective_n
        smoothness = loss.smoothness * length**2 + objective.alpha
        if is_of_squares(loss):
            flow = _NOISE_OF_NUMBERS * signal_to_noise / (RESIDUALS * length)
        else:
            flow = (
                _NOISE
                * loss.prediction_unit
                * signal_to_noise
                / (clip_of(loss) * length)
            )
        per_step = _RELAXATIONS / 2 * smoothness
        many = objective.n_samples > _MANY_RECORDS
        most = _MOST_STEPS_OF_MANY if many else _MOST_STEPS
        if math.isinf(signal_to_noise):
            most = round(_MORE_WITHOUT_NOISE * most)
        flow = min(flow, most**2 / per_step)
        if objective.alpha > 0:  # the optimum is reached by then
            flow = min(flow, 2 * _RELAXATIONS / objective.alpha)
        wanted = math.ceil(math.sqrt(per_step * flow))
        n_steps = min(max(wanted, _FEWEST_STEPS), most)
        momentum = 1 - _RELAXATIONS / n_steps
        return cls(n_steps, flow * (1 - momentum) / n_steps, momentum, weight)

    def errors_at(self, loss: Loss) -> int:
        """The step before which errors are asked for."""
        return math.ceil(
            self.n_steps * (_NUMBERS_AT if is_of_squares(loss) else _LABELS_AT)
        )

    def after(self, errors: float, noise: float, of_constant: float) -> Self:
        """Of the steps that are left: they go farther where errors are few.

        Where labels are nearly certain, noise in log-odds costs little, and large
        weights are likely: the prior is as much wider as errors are fewer than the
        constant's. Larger steps come first, as far as momentum is stable.
        """
        # No released number may divide by 0: of errors below 0 there are few.
        of_constant = max(of_constant, 1e-300)
        left = within(errors + noise, of_constant / _FARTHER, of_constant)
        farther = of_constant / left
        larger = min(farther, _STABLE * (1 + self.momentum))
        slower = max((1 - self.momentum) * larger / farther, 1 / self.n_steps)
        return replace(self, step_size=larger * self.step_size, momentum=1 - slower)

    @property
    def flow(self) -> float:
        """Of one step, with all that its velocity does later."""
        return self.step_size / (1 - self.momentum)


def norm_of_numbers(variance: float, n_features: int) -> float:
    """The same of rows of which nothing is declared, over the norm they are clipped to.

    Their mean squared distance from the centre is released, with noise.
    """
    variance = within(variance, _LEAST_VARIANCE, 1.0)
    clip = _ROWS_OF_NUMBERS + _ROWS_OF_FEW / n_features
    return clip * math.sqrt(variance)


def row_norm(variance: float, n_parts: int) -> float:
    """Norm to which centred rows of so much variance are clipped."""
    clip = _ROWS + _ROWS_OF_FEW / n_parts
    return max(clip * math.sqrt(variance), _LEAST_NORM)


# ------------------------ Whether features are selected first, by public bounds alone


def favours_selection(objective: LinearObjective) -> bool:
    """Whether selecting features and then releasing their values takes less noise.

    Noise in all values grows with the norm of a row, D2; a private selection with its
    largest entry, DInf, and with the number s of features selected. Selection is better
    if ``(D2 / DInf)^2 >= s max(2, log d)`` (``docs/solvers/peeling.md``).
    """
    wanted = objective.most_features * max(2.0, math.log(objective.n_features))
    return objective.full_entries >= wanted
