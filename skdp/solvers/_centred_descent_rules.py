"""The rules of the default solver for declared columns: all its constants.

Budgets are measured by the strength ``n mu / relation``: the number of records over the
noise of one count of them, where the relation is 1 if a record is left out and 2 if it
is exchanged for another. Everything here is a function of public facts and of released
numbers. Constants were settled on six tables (adult, covertype, ccpp, protein_casp,
wine_white, kddcup99) at 2,000 records to 32,000 and epsilon 0.1 to 4, and compared on
seven others (``docs/default_solver.md``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import betaln

from skdp._floats import FloatArray
from skdp.losses import Loss
from skdp.losses._base import Form
from skdp.losses._gamma import GammaLoss
from skdp.objectives import LinearObjective
from skdp.privacy import Budget
from skdp.privacy._gaussian import gaussian_mu
from skdp.queries._record_sums import TargetSum
from skdp.queries._state_sums import StateSums, even_knots
from skdp.solvers._convex_start import convex_loss
from skdp.solvers._margins import shrunk_margins

# Below this strength the base rate or the mean is released, and no weights: with
# targets at random, a gate that has so much noise lets noise pass. At 51 it costs .003
# of log-loss and .005 of R2 where there is no signal, and gains .5 of R2 on ccpp.
# Of K labels that compete each has fewer records: with ten, noise passed the gate in
# one of eight runs at 50, and cost .05 of log-loss.
LEAST_STRENGTH = 40.0
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
# Shares of mu squared for the gate: from its most, it falls with the squared strength.
_GATE_STRENGTH, _LEAST_GATE, _MOST_GATE = 60.0, 0.01, 0.12
# Deviation of the noise in the prediction of a row of norm 1 in flat directions, in the
# loss's units of raw predictions (a log-odds), and of numbers in their standard
# deviation. Flat from half to twice as much; regressions lose from 0.7 on.
_NOISE, _NOISE_OF_NUMBERS = 1.0, 0.4
# Of the intercept, over a feature of norm 1. Flat from 0.15 to 0.3; without an
# intercept that learns .006 to .025 of log-loss are lost, with 1 .005 to .015.
_INTERCEPT = 0.2
# Residuals of numbers are clipped to so many standard deviations. 0.7 helps tables with
# little error, and costs .01 to .02 of R2 where there is much; 2.5 costs .03.
_RESIDUALS = 1.0
# The same of losses of logarithms, by what residuals of the constant are. 1 costs .05
# of gamma deviance where there is much noise, 3 gains less where there is little.
_RESIDUALS_OF_LOGS = 2.0
# Deviation of the noise in a mean error, and the share of mu squared that it may cost.
_ERROR_NOISE, _LEAST_ERRORS, _MOST_ERRORS = 0.06, 0.005, 0.05
# Part of the steps before errors are asked for. A clip follows best at a tenth to
# a fifth (ccpp at epsilon 0.1: .116 of 1 - R2 for .140 at half); what is left to
# learn of labels shows later, and flat from 0.3 to 0.5.
_NUMBERS_AT, _LABELS_AT = 0.1, 0.4
# The mean of normal errors that are clipped to one deviation, and the least clip.
_MEAN_OF_ERRORS, _LEAST_CLIP = 0.63, 0.05
# How many times as far a descent may go on where errors are few, and of the largest
# step at which momentum is stable in any direction, how much is used.
_FARTHER, _STABLE = 8.0, 0.9
# Norm of a softmax's residual, of at most the root of 2. Seven kinds of covertype lose
# .03 to .05 of log-loss with 0.5, and ten digits .1 with 1.
_RESIDUALS_OF_SOFTMAX = 0.7
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
_FEWEST_STEPS, _MOST_STEPS = 10, 300
# Of more records than so many a pass takes long, and the last directions tell little:
# with 150 steps in place of 300 covertype lost .0006 of log-loss at epsilon 4.
_MANY_RECORDS, _MOST_STEPS_OF_MANY = 200_000, 100
# A record counts at the gate by a ratio of at most this. Weights count in full from a
# mean ratio of the second number on, and not at all below the first, which noise has.
MOST_RATIO = 6.0
_NOTHING, _EVERYTHING = 1.0, 1.5
# Curvature and squared residuals of numbers in a clip of one deviation, for the gate:
# on the careful side of .68 and .52 of the normal distribution.
_CURVATURE_OF_NUMBERS, _SQUARES_OF_NUMBERS = 0.5, 0.6
# Predictions of numbers, in standard deviations, are clipped to this for their mean.
PREDICTIONS = 2.0
# A mean of predictions counts from so many deviations of its noise on.
_MEAN_FROM = 2.0
# Probabilities are clipped to so many base rates for their mean. Deviation of the noise
# in it, over that clip, and the share of mu squared that it may cost. Without it mean
# predictions of labels of 2 % were 1.1 to 1.5 times the base rate.
_PROBABILITIES = 8.0
_RATE_NOISE, _LEAST_RATE, _MOST_RATE = 0.01, 0.005, 0.03
# Standard deviations about the mean of a histogram, within which targets are summed for
# a mean with less noise. Lognormal ones lose .04 deviations of their mean.
_FARTHEST_TARGETS = 3.0
# Intervals between the knots of a histogram of targets: coarse for a scale, whose noise
# grows with them (from 32 to 8, ccpp at epsilon 0.1 fell from .116 to .099), and fine
# for a quantile and for targets of at least 0.
_KNOTS_FOR_SCALE, _KNOTS = 8, 32
# Logarithm of a knot over the one before, for amounts that may span decades.
_FINENESS_OF_LOGS = math.log(2.0)
# Of the declared width, the least standard deviation that targets are taken to have.
_LEAST_DEVIATION = 0.01
# Beta priors of a mean: of counts over the largest, which may be as rare as labels are,
# and of numbers over the declared width, whose mean is hardly at one of its ends.
MEAN_OF_COUNTS, _MEAN_OF_NUMBERS = (0.5, 0.5), (2.0, 2.0)
# Deviation of the noise in a share from which on a constant model is more likely than
# not the one that costs nothing: even labels, or the middle of the bounds. Without it,
# of 200 records at epsilon 0.1, labels lost .1 of log-loss and numbers 1.0 of R2; with
# a chance of 0.8 at any noise wine_quality_white lost .1 of R2.
FREE = 0.05
# No share that noise has moved farther tells more.
_FAR_SHARE = 1e3
# Losses of labels whose errors say how far to go on.
_FOLLOWED = (Form.SIGMOID, Form.SOFTMAX)
# Losses that bend near a kink only. How many records lie there changes in a descent; it
# is taken to be an eighth of what a hinge can bend, and of quantiles at least that.
_CURVATURE_OF_KINKS = 0.125
# Curvatures at which a run's noise is computed, and the least of them over the largest.
_CURVATURES, _FLAT = 64, 1e-9
# Where a released base is sought: beyond it lies no useful raw prediction.
_FARTHEST = 64.0
_BISECTIONS = 80

_EXCHANGES = ("replace_one", "replace_user")


def strength_of(objective: LinearObjective, budget: Budget) -> float:
    """Records times mu, over what one record can change; inf without noise."""
    if not budget.is_finite:
        return math.inf
    relation = 2.0 if objective.adjacency in _EXCHANGES else 1.0
    mu = gaussian_mu(budget.epsilon, budget.delta)
    return objective.n_telling * mu / relation


def pure_strength_of(objective: LinearObjective, budget: Budget) -> float:
    """Records times epsilon, likewise."""
    relation = 2.0 if objective.adjacency in _EXCHANGES else 1.0
    return objective.n_telling * budget.epsilon / relation


def least_strength(loss: Loss) -> float:
    """Below which the constant model is taken."""
    return LEAST_STRENGTH * math.sqrt(max(loss.n_outputs, 2) / 2)


def pure_share(objective: LinearObjective, budget: Budget) -> float:
    """Of epsilon, for the constant that a pure minimisation goes out from."""
    strength = pure_strength_of(objective, budget)
    return _within(1 / (strength * _TARGET_NOISE), _LEAST_TARGETS, _MOST_TARGETS)


def _within(value: float, least: float, most: float) -> float:
    return min(max(value, least), most)


def share_for(
    strength: float, noise: float, least: float, most: float, number: int = 1
) -> float:
    """What so many sums cost with noise of this deviation over n in each."""
    return _within(number / (strength * noise) ** 2, least, most)


def share_of_states(strength: float, n_parts: int) -> float:
    """Of mu squared, for histograms of so many columns."""
    return share_for(strength, _STATE_NOISE, _LEAST_STATES, _MOST_STATES, n_parts)


def share_of_rows(strength: float, n_features: int) -> float:
    """Of mu squared, for the mean of rows of so many numbers."""
    return share_for(strength, _CENTRE_NOISE, _LEAST_CENTRE, _MOST_CENTRE, n_features)


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
    def of(cls, loss: Loss, strength: float, states: float) -> Self:
        """By rule; `states` is what is asked of the rows."""

        def share(noise: float, least: float, most: float) -> float:
            return share_for(strength, noise, least, most)

        targets = share(_TARGET_NOISE, _LEAST_TARGETS, _MOST_TARGETS)
        errors = share(_ERROR_NOISE, _LEAST_ERRORS, _MOST_ERRORS)
        gate = _within((_GATE_STRENGTH / strength) ** 2, _LEAST_GATE, _MOST_GATE)
        if is_of_squares(loss):
            knots = share(_KNOT_NOISE, _LEAST_KNOTS, _MOST_KNOTS)
            mean = share(_MEAN_NOISE, _LEAST_MEAN, _MOST_MEAN)
            return cls(states, knots, mean, gate / 2, gate / 2, errors)
        if has_rate(loss):
            bias = share(_RATE_NOISE, _LEAST_RATE, _MOST_RATE)
            return cls(states, targets, gate=gate, bias=bias, errors=errors)
        if loss.form in _FOLLOWED:
            return cls(states, targets, gate=gate, errors=errors)
        if loss.form is Form.POISSON:
            return cls(states, targets / 2, targets / 2, gate)
        return cls(states, targets, gate=gate)


def is_of_squares(loss: Loss) -> bool:
    """Whether the constant that loses least is a mean in units of the targets."""
    return loss.form is Form.ERROR


def is_softmax(loss: Loss) -> bool:
    """Whether outputs compete, so that only their differences matter."""
    return loss.n_outputs > 1 and loss.summands == 1


def knots_of(loss: Loss) -> tuple[float, ...]:
    """Knots of the histogram of targets."""
    if is_of_squares(loss):
        return even_knots(_KNOTS_FOR_SCALE)
    if isinstance(loss, GammaLoss):
        low, high = target_range(loss)
        finest = math.ceil(math.log(high / low) / _FINENESS_OF_LOGS)
        n_intervals = max(finest, _KNOTS_FOR_SCALE)
        logs = np.linspace(math.log(low), math.log(high), n_intervals + 1)
        return (low, *np.exp(logs[1:-1]).tolist(), high)
    if loss.form is Form.POISSON:
        return tuple(np.linspace(0.0, 1.0, _KNOTS + 1).tolist())
    return even_knots(_KNOTS)


def target_range(loss: Loss) -> tuple[float, float]:
    """Lowest and highest target of a loss of numbers, in its units."""
    if isinstance(loss, GammaLoss):
        return 1.0, math.exp(2 * loss.half)
    return (0.0, 1.0) if loss.form is Form.POISSON else (-1.0, 1.0)


def has_rate(loss: Loss) -> bool:
    """Whether there is one probability, whose mean should be the base rate."""
    return loss.form is Form.SIGMOID and not loss.label_weights


def rate_clip(constant: float) -> float:
    """To which probabilities are clipped for their mean."""
    return min(_PROBABILITIES * _probability(constant), 1.0)


def shift_to_rate(constant: float, mean: float, noise: float) -> float:
    """What brings a released mean probability to that of the constant.

    In log-odds, less what noise may have added.
    """
    rate = _probability(constant)
    known = known_mean(mean - rate, noise)
    if rate_clip(constant) < 1:  # a clipped mean may be too low, never too high
        known = max(known, 0.0)
    least, most = rate / _PROBABILITIES, 1 - (1 - rate) / _PROBABILITIES
    moved = _within(rate + known, least, most)
    return constant - math.log(moved / (1 - moved))


def _probability(raw: float) -> float:
    return 1 / (1 + math.exp(-raw))


def has_log_link(loss: Loss) -> bool:
    """Whether raw predictions are logarithms of means."""
    return loss.form in (Form.POISSON, Form.GAMMA)


def target_query(loss: Loss, n_samples: int) -> StateSums | TargetSum:
    """The one sum that tells the constant model."""
    if is_of_squares(loss) or has_log_link(loss):
        return TargetSum(n_samples, *middle_and_half(loss, None))
    return count_query(loss, n_samples)


def count_query(loss: Loss, n_samples: int) -> StateSums:
    """How many records have each label, or targets at each knot."""
    if loss.form.is_of_numbers:
        return StateSums(0, n_samples, 0, knots=knots_of(loss))
    return StateSums(0, n_samples, 0, n_labels=max(loss.n_outputs, 2))


def clip_of(loss: Loss) -> float:
    """Norm to which residuals are clipped, of losses that have a unit of their own."""
    if loss.form is Form.SOFTMAX:
        return _RESIDUALS_OF_SOFTMAX
    return min(loss.noisy_clip, loss.zero_out_bound(math.inf))


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
    def of(cls, objective: LinearObjective, strength: float) -> Self:
        """A flow time that follows from the noise that a prediction may have.

        In flat directions noise of deviation d in each mean gradient gives predictions
        of unit rows the deviation ``s d``, so that ``s = noise * strength / bound``;
        and ``exp(-h s)`` of a direction of curvature h is left unlearned, which is what
        a Bayesian with a prior of that deviation would leave.
        """
        loss = objective.loss
        weight = 0.0 if is_of_squares(loss) else _INTERCEPT
        length = math.hypot(1.0, weight)
        # Noise is that of a mean over all records, however little most of them weigh.
        strength *= objective.n_samples / objective.n_telling
        smoothness = loss.smoothness * length**2 + objective.alpha
        if is_of_squares(loss):
            flow = _NOISE_OF_NUMBERS * strength / (_RESIDUALS * length)
        else:
            flow = _NOISE * loss.raw_unit * strength / (clip_of(loss) * length)
        per_step = _RELAXATIONS / 2 * smoothness
        many = objective.n_samples > _MANY_RECORDS
        most = _MOST_STEPS_OF_MANY if many else _MOST_STEPS
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
        left = _within(errors + noise, of_constant / _FARTHER, of_constant)
        farther = of_constant / left
        larger = min(farther, _STABLE * (1 + self.momentum))
        slower = max((1 - self.momentum) * larger / farther, 1 / self.n_steps)
        return replace(self, step_size=larger * self.step_size, momentum=1 - slower)

    @property
    def flow(self) -> float:
        """Of one step, with all that its velocity does later."""
        return self.step_size / (1 - self.momentum)


def clip_after(error: float, noise: float, unit: float) -> float:
    """Clip of residuals, from a mean of errors that are clipped to the unit.

    As if errors were normal, and never more than the unit.
    """
    return _within((error + noise) / _MEAN_OF_ERRORS, _LEAST_CLIP * unit, unit)


def norm_of_numbers(variance: float, n_features: int) -> float:
    """The same of rows of which nothing is declared, over the norm they are clipped to.

    Their mean squared distance from the centre is released, with noise.
    """
    variance = _within(variance, _LEAST_VARIANCE, 1.0)
    clip = _ROWS_OF_NUMBERS + _ROWS_OF_FEW / n_features
    return clip * math.sqrt(variance)


def row_norm(variance: float, n_parts: int) -> float:
    """Norm to which centred rows of so much variance are clipped."""
    clip = _ROWS + _ROWS_OF_FEW / n_parts
    return max(clip * math.sqrt(variance), _LEAST_NORM)


@dataclass(frozen=True)
class Base:
    """Where targets lie, as it was released: the constant model; post-processing.

    Parameters
    ----------
    offset : tuple of float
        Raw predictions from which the descent starts, one of each output.
    constant : tuple of float
        Raw predictions of the constant model, to which predictions of mean 0 are added.
    unit : float
        Of raw predictions: the targets' standard deviation, or that of the loss.
    residual_clip : float
    errors : float
        Mean length of the residuals at the constant.
    curvature, squares : tuple of float
        Of a record's loss at the constant, and of its residual, on average; of each
        direction of the outputs.
    """

    offset: tuple[float, ...]
    constant: tuple[float, ...]
    unit: float
    residual_clip: float
    errors: float
    curvature: tuple[float, ...]
    squares: tuple[float, ...]

    @classmethod
    def of(
        cls,
        loss: Loss,
        counts: FloatArray | None,
        noise: float,
        mean: float | None = None,
        noise_of_mean: float = 0.0,
        *,
        is_alone: bool = False,
    ) -> Self:
        """Of what was released of the targets.

        Parameters
        ----------
        loss : Loss
        counts : ndarray of float64 of shape (n_labels,) or (n_knots,), or None
            Noisy shares of the labels, or at `knots_of` the loss; None: not released.
        noise : float
            Its deviation in each share.
        mean : float or None, default=None
            Noisy mean of targets; None: not released.
        noise_of_mean : float, default=0.0
        is_alone : bool, default=False
            Whether the base is all that will be known.
        """
        if not loss.form.is_of_numbers:
            assert counts is not None
            return cls._of_labels(loss, counts, noise, is_alone)
        shares = None if counts is None else shrunk_margins(counts, noise)
        if is_of_squares(loss):
            assert mean is not None
            return cls._of_moments(loss, shares, mean, noise_of_mean, is_alone)
        if mean is not None:
            return cls._of_mean(loss, shares, mean, noise_of_mean)
        assert shares is not None
        return cls._at(loss, np.array(knots_of(loss)), shares)

    @classmethod
    def _of_labels(
        cls, loss: Loss, counts: FloatArray, noise: float, is_alone: bool
    ) -> Self:
        """Of noisy shares of the labels, with noise of this deviation in each."""
        k = len(counts)
        # They add up to 1, which takes a part of their noise.
        counts = np.clip(counts, -_FAR_SHARE, _FAR_SHARE)
        even = counts + (1 - counts.sum()) / k
        left = noise * math.sqrt(1 - 1 / k)
        chance = free_chance(left) if is_alone else 0.0
        shares = np.array([base_rate(float(p), left, k, chance) for p in even])
        return cls._at(loss, np.arange(k, dtype=np.float64), shares / shares.sum())

    @classmethod
    def _of_mean(
        cls, loss: Loss, shares: FloatArray | None, mean: float, noise: float
    ) -> Self:
        """Of the mean of targets of at least 0, for losses of its logarithm.

        With shares at knots, if there are any, for where clipped residuals balance.
        """
        least, most = target_range(loss)
        found = posterior_share(mean / most, noise / most, MEAN_OF_COUNTS)
        mean = most * _within(found, max(least / most, 1e-9), 1.0)
        alone = cls._at(loss, np.array([mean]), np.ones(1))
        if shares is None:
            return alone
        balanced = cls._at(loss, np.array(knots_of(loss)), shares)
        return replace(balanced, constant=alone.constant)

    @classmethod
    def _of_moments(
        cls,
        loss: Loss,
        shares: FloatArray | None,
        mean: float,
        noise: float,
        is_alone: bool,
    ) -> Self:
        """Of a mean, and of shares at knots, for squared errors.

        The offset is where clipped residuals balance, which is not the mean of skewed
        targets: from the mean, features would learn the difference.
        """
        share, noise = (mean + 1) / 2, noise / 2
        chance = free_chance(noise) if is_alone else 0.0
        found = posterior_share(share, noise, _MEAN_OF_NUMBERS, (0.5, chance))
        mean = 2 * found - 1
        offset: tuple[float, ...] = (mean,)
        unit = 1.0
        if shares is not None:
            _, unit = moments_of(shares)
            knots = np.array(knots_of(loss))
            offset = constant_of(loss, knots, shares, _RESIDUALS * unit)
        return cls(
            offset,
            (mean,),
            unit,
            _RESIDUALS * unit,
            _MEAN_OF_ERRORS * unit,
            (_CURVATURE_OF_NUMBERS,),
            (_SQUARES_OF_NUMBERS * unit**2,),
        )

    @classmethod
    def _at(cls, loss: Loss, values: FloatArray, shares: FloatArray) -> Self:
        clip = clip_of(loss)
        # Of one target nothing is to be balanced.
        within = clip if len(values) > 1 else math.inf
        # Where a loss is not convex, at the constant of the hinge: its own may be so
        # far away that no record moves it.
        begins = loss if loss.is_convex else convex_loss(loss)
        offset = constant_of(begins, values, shares, within)
        raw = np.tile(offset, (len(values), 1))
        if has_log_link(loss) and len(values) > 1:
            spread = math.sqrt(float(shares @ loss.residual(values, raw)[:, 0] ** 2))
            clip = _within(_RESIDUALS_OF_LOGS * spread, _LEAST_CLIP * clip, clip)
            offset = constant_of(loss, values, shares, clip)
            raw = np.tile(offset, (len(values), 1))
        residual = loss.residual(values, raw)
        bends = loss.curvature(values, raw)
        if has_log_link(loss):  # clipped residuals do not bend
            bends = bends * (np.abs(residual) <= clip)
        curvature = shares @ bends
        squares = shares @ np.minimum(residual**2, clip**2)
        errors = float(shares @ np.minimum(np.linalg.norm(residual, axis=1), clip))
        if not loss.is_convex:  # it bends where predictions have moved
            least = _CURVATURE_OF_KINKS * loss.smoothness
            curvature = np.maximum(curvature, least)
        if loss.form is Form.HINGE:
            curvature = np.full_like(curvature, _CURVATURE_OF_KINKS)
        if loss.form is Form.QUANTILE:  # the density of the targets there
            curvature = np.maximum(curvature, _CURVATURE_OF_KINKS)
            # It grows as the fit gets better: from that of the constant the sample's
            # part would be larger than a strong signal (200 records, R2 of .98).
            squares = np.zeros_like(squares)
        if is_softmax(loss):
            # Of the directions in which outputs move apart; what all of them share
            # moves no prediction.
            p = np.exp(np.array(offset) - max(offset))
            p /= p.sum()
            hessian = np.diag(p) - np.outer(p, p)
            weight = float(shares @ (loss.label_weights or np.ones(len(p))))
            curvature = weight * np.maximum(np.linalg.eigvalsh(hessian)[1:], 0.0)
            squares = curvature  # of a likelihood both are the same
        of_noise = tuple(curvature.tolist()), tuple(squares.tolist())
        return cls(offset, offset, loss.raw_unit, clip, errors, *of_noise)


def moments_of(shares: FloatArray) -> tuple[float, float]:
    """Mean and standard deviation of targets with shares at knots over [-1, 1]."""
    knots = np.linspace(-1.0, 1.0, len(shares))
    middle = float(shares @ knots)
    # Shares in neighbouring knots move a target by a sixth of their squared distance.
    blur = (2 / max(len(shares) - 1, 1)) ** 2 / 6
    variance = float(shares @ (knots - middle) ** 2) - blur
    return middle, math.sqrt(max(variance, (2 * _LEAST_DEVIATION) ** 2))


def middle_and_half(loss: Loss, shares: FloatArray | None) -> tuple[float, float]:
    """Where targets are summed for their mean: all of them, or as far as most lie.

    Parameters
    ----------
    loss : Loss
    shares : ndarray of float64 of shape (n_knots,) or None
        Released; None: nothing is known but the declared bounds.
    """
    least, most = target_range(loss)
    if shares is None or not is_of_squares(loss):
        return (least + most) / 2, (most - least) / 2
    middle, unit = moments_of(shares)
    low = max(middle - _FARTHEST_TARGETS * unit, -1.0)
    high = min(middle + _FARTHEST_TARGETS * unit, 1.0)
    return (low + high) / 2, (high - low) / 2


def free_chance(noise: float) -> float:
    """Prior chance that the constant which costs nothing is as good as any."""
    return noise / (noise + FREE)


def base_rate(share: float, noise: float, n_labels: int, chance: float = 0.0) -> float:
    """Posterior mean of a label's share, given a noisy one.

    The prior is Beta(1/2, (K - 1)/2): a rare label stays possible, and one of two
    labels is as likely to be rare as to be frequent. With this chance all labels are
    as frequent.
    """
    if noise == 0:
        return _within(share, 1e-9, 1.0)
    prior = 0.5, (n_labels - 1) / 2
    return posterior_share(share, noise, prior, (1 / n_labels, chance))


def posterior_share(
    share: float,
    noise: float,
    prior: tuple[float, float] = (1.0, 1.0),
    point: tuple[float, float] = (0.5, 0.0),
) -> float:
    """Posterior mean of a number between 0 and 1, given one with normal noise.

    Parameters
    ----------
    share : float
        Released.
    noise : float
        Its standard deviation.
    prior : tuple of two floats, default=(1.0, 1.0)
        Of a beta distribution.
    point : tuple of two floats, default=(0.5, 0.0)
        A number, and the prior chance that it is this one.
    """
    if noise == 0:
        return _within(share, 0.0, 1.0)
    share = _within(share, -_FAR_SHARE * noise, 1 + _FAR_SHARE * noise)
    # Fine both near 0 and 1, where the prior is, and about what was released.
    everywhere = 1 / (1 + np.exp(-np.linspace(-20.0, 20.0, 801)))
    near = np.linspace(share - 6 * noise, share + 6 * noise, 401)
    p = np.unique(np.concatenate([everywhere, near[(near > 0) & (near < 1)]]))
    log_prior = (prior[0] - 1) * np.log(p) + (prior[1] - 1) * np.log1p(-p)
    log_prior -= betaln(*prior)
    at, chance = point
    log_densities = log_prior - 0.5 * ((share - p) / noise) ** 2
    log_of_point = -0.5 * ((share - at) / noise) ** 2
    # Whatever was released, the larger of both is 1.
    largest = float(log_densities.max())
    if chance > 0:
        largest = max(largest, log_of_point)
    weights = (1 - chance) * np.exp(log_densities - largest) * np.gradient(p)
    of_point = chance * math.exp(min(log_of_point - largest, 0.0))
    total = float(weights.sum()) + of_point
    return (float(weights @ p) + of_point * at) / total


def constant_of(
    loss: Loss, values: FloatArray, shares: FloatArray, clip: float
) -> tuple[float, ...]:
    """The constant raw predictions that lose least on targets with these shares."""
    k = loss.n_outputs
    if is_softmax(loss):
        weighted = np.log(shares * (loss.label_weights or np.ones(k)))
        return tuple((weighted - weighted.mean()).tolist())
    low, high = np.full(k, -_FARTHEST), np.full(k, _FARTHEST)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        raw = np.tile(middle, (len(values), 1))
        slope = shares @ np.clip(loss.residual(values, raw), -clip, clip)
        low, high = np.where(slope < 0, middle, low), np.where(slope < 0, high, middle)
    return tuple(((low + high) / 2).tolist())


@dataclass(frozen=True)
class NoiseOfRun:
    """What noise alone, and the sample, make of the weights of a run.

    Parameters
    ----------
    paces : sequence of Pace
        Of each step.
    deviations : ndarray of float64 of shape (n_steps,)
        Of the noise in each step's mean gradient.
    base : Base
    n_samples : int
    """

    paces: Sequence[Pace]
    deviations: FloatArray
    base: Base
    n_samples: int
    alpha: float = 0.0

    def variance(self, spread: FloatArray) -> FloatArray:
        """Of weights of directions that have such shares of the rows' variance.

        Returns
        -------
        ndarray of float64 of shape (n_directions, n_directions_of_outputs)
        """
        found, flow_of_run = [], sum(pace.flow for pace in self.paces)
        for curvature, squares in zip(
            self.base.curvature, self.base.squares, strict=True
        ):
            bend = curvature * spread + self.alpha
            flow = np.maximum(bend * flow_of_run, 1e-12)
            learned = -np.expm1(-flow) / flow * flow_of_run
            of_sample = learned**2 * spread * squares / self.n_samples
            found.append(of_sample + self._between(bend))
        return np.stack(found, axis=1)

    def _between(self, bend: FloatArray) -> FloatArray:
        """Noise at each curvature; of many from a few between which it is smooth."""
        if len(bend) <= _CURVATURES:
            return self._of_noise(bend)
        logs = np.log(np.maximum(bend, max(bend.max() * _FLAT, 1e-300)))
        few = np.linspace(logs.min(), logs.max(), _CURVATURES)
        noise = np.log(np.maximum(self._of_noise(np.exp(few)), 1e-300))
        return np.asarray(np.exp(np.interp(logs, few, noise)))

    def _of_noise(self, bend: FloatArray) -> FloatArray:
        """Exactly, of the mean of the last half of the iterates."""
        n = len(self.paces)
        first = n - tail_of(n)
        # A row for each gradient: what noise of 1 in it has made of the weights so far.
        weights, sums = np.zeros((n, len(bend))), np.zeros((n, len(bend)))
        velocity = np.zeros((n, len(bend)))
        for t, pace in enumerate(self.paces):
            velocity = pace.momentum * velocity - pace.step_size * bend * weights
            velocity[t] -= pace.step_size
            weights = weights + velocity
            if t >= first:
                sums += weights
        means = self.deviations[:, None] * sums / (n - first)
        return np.asarray(np.sum(means**2, axis=0))


def tail_of(n_steps: int) -> int:
    """How many of the last iterates are averaged: half of them."""
    return n_steps // 2


def state_variances(
    parts: Iterable[FloatArray], margins: Iterable[FloatArray], noise: NoiseOfRun
) -> tuple[FloatArray, float]:
    """Of a prediction in each state, of weights that are noise.

    And the standard deviation of the mean ratio of such weights about 1: of few
    directions noise is by chance larger than it is on average.

    Columns are taken to be independent: where they are not, noise is damped more, so
    that the gate is stricter than it had to be.

    Parameters
    ----------
    parts : iterable of ndarray of float64 of shape (n_states, n_features)
        Centred features of the states of each part.
    margins : iterable of ndarray of float64 of shape (n_states,)
    noise : NoiseOfRun
    """
    found = []
    for centred, shares in zip(parts, margins, strict=True):
        spread, turned = _principal(centred, shares)
        found.append((spread, turned))
    total = max(sum(float(spread.sum()) for spread, _ in found), 1e-300)
    ends = np.cumsum([len(spread) for spread, _ in found])[:-1]
    spreads = np.concatenate([spread for spread, _ in found]) / total
    variances = noise.variance(spreads)
    energies = spreads[:, None] * variances
    deviation = math.sqrt(2 * np.sum(energies**2)) / max(energies.sum(), 1e-300)
    split = np.split(variances.sum(axis=1), ends)
    each = [turned**2 @ v for (_, turned), v in zip(found, split, strict=True)]
    return np.concatenate(each), deviation


def largest_variance(n_directions: int, noise: NoiseOfRun) -> tuple[float, float]:
    """Of a prediction for a row of norm 1, of weights that are noise.

    Rows have mean square 1, and their variance lies in any way in so many directions.
    The sum over directions of share times variance is largest on the concave hull of
    that product. And the standard deviation of the mean ratio of such weights, as if
    rows spread evenly.
    """
    even = 1 / n_directions
    shares = np.concatenate([[0.0], np.geomspace(even * _FLAT, 1.0, _CURVATURES)])
    shares = np.sort(np.append(shares, even))
    variances = noise.variance(shares)
    energies = shares * variances.sum(axis=1)
    low, high = shares <= even, shares >= even
    width = np.maximum(shares[high] - shares[low][:, None], 1e-300)
    along = np.clip((even - shares[low][:, None]) / width, 0.0, 1.0)
    chords = (1 - along) * energies[low][:, None] + along * energies[high]
    largest = n_directions * float(chords.max())
    at_even = variances[np.searchsorted(shares, even)]
    squares = float(np.sum(at_even**2)) / n_directions
    return largest, math.sqrt(2 * squares) / max(largest, 1e-300)


def _principal(
    centred: FloatArray, shares: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Variances in principal directions, and the states' places along them."""
    weighted = np.sqrt(shares)[:, None] * centred
    _, roots, directions = np.linalg.svd(weighted, full_matrices=False)
    return roots**2, centred @ directions.T


def kept_share(ratio: float, noise: float) -> float:
    """Of the weights, after the gate: between noise and signal in proportion.

    `noise` is the standard deviation of the ratio of weights that are noise; one of
    them is taken off, so that few runs of noise pass.
    """
    passed = (ratio - noise - _NOTHING) / (_EVERYTHING - _NOTHING)
    return _within(passed, 0.0, 1.0)


def known_mean(mean: float, noise: float) -> float:
    """A mean, less what its noise may have added."""
    if mean == 0:
        return 0.0
    return mean * max(0.0, 1 - (_MEAN_FROM * noise / mean) ** 2)
