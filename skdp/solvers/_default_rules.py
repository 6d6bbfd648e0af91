"""The rules of the default solver: shares of its budget, its steps, and its rows.

The signal-to-noise ratio ``n mu / relation`` measures a budget: the number of records
over the noise of one count, where the relation is 1 if neighbours differ in the
presence of a record and 2 if they differ in its value. Every rule is a function of
public facts and of released numbers. Constants were settled on six tables (adult,
covertype, ccpp, protein_casp, wine_white, kddcup99) with 2,000 to 32,000 records and
epsilon 0.1 to 4, and compared on seven others (``docs/notebook/benchmarks.md``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from skdp._arrays import FloatArray
from skdp._base import Signal
from skdp.losses._base import Loss, LossId
from skdp.losses._classification import typical_curvature
from skdp.losses._objective import LinearObjective
from skdp.losses._regression import SquaredLoss
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._gaussian import gaussian_mu
from skdp.privacy.noise._laws import LAWS, deviation_once
from skdp.solvers._target_base import (
    RESIDUALS,
    clip_of,
    has_rate,
    is_of_squares,
    within,
)
from skdp.sums._gradient import ClippedGradient

# Relations that replace a record or a user.
_EXCHANGES = ("replace_one", "replace_user")
# Delta at which rules compare a pure budget with other budgets.
TYPICAL_DELTA = 1e-6


def signal_to_noise_of(n_samples: float, budget: Budget, adjacency: str) -> float:
    """Number of records times mu, halved where a record is replaced; public facts."""
    if not budget.is_finite:
        return math.inf
    mu = gaussian_mu(budget.epsilon, budget.delta or TYPICAL_DELTA)
    return n_samples * mu * (0.5 if adjacency in _EXCHANGES else 1.0)


@dataclass(frozen=True)
class SideQuestion:
    """A question beside the model, and what it may cost.

    Parameters
    ----------
    noise : float
        Wanted noise deviation in a sum, divided by the number of records.
    least, most : float
        Limits on the fraction of mu squared.
    """

    noise: float
    least: float
    most: float

    def share(self, signal_to_noise: float, number: int = 1) -> float:
        """Fraction of mu squared for the wanted noise in each of `number` sums."""
        wanted = number / (self.noise * signal_to_noise) ** 2
        return within(wanted, self.least, self.most)


# ---------------------------------------------------------------------------- Constants

# With delta = 0, second moments, whose noise grows with the square of the number of
# features, beat one minimisation up to this many features: among tables of 4, 9, 11 and
# 26 numbers only at 4 (300 to 10,000 records, epsilon 0.1 to 4).
FEW_MOMENTS = 6
# Below this ratio the base rate or the mean is released, and no weights: with targets
# at random, a gate with more noise lets noise pass. At a ratio of 51 the weights cost
# .003 of log-loss and .005 of R2 where there is no signal, and gain .5 of R2 on ccpp.
# At 47 (200 records of 5 columns) they cost .01 to .03; half of this cost remains if
# the gate refuses all noise, since the base has only a part of the budget. Each of K
# competing labels has fewer records: with ten labels, noise passed the gate in one of
# eight runs at 50, and cost .05 of log-loss.
LEAST_SIGNAL_TO_NOISE = 50.0
# Factor on this ratio for amounts. Where there is no signal, weights cost .03 (linear)
# and .09 (boosting) of the constant's deviance at a ratio of 83, and a signal that
# explains half gains less (`python -m benchmarks hostile --only gamma`).
_OF_AMOUNTS = 2.0
# The proportion of records in a state. Flat between half and twice the deviation.
STATES = SideQuestion(0.01, 0.002, 0.1)
# The mean of rows that are clipped to norm 1.
CENTRE = SideQuestion(0.2, 0.01, 0.05)
# Second moments of rows of numbers: the wanted edge of the spectrum of their noise,
# over the mean variance in a direction, and their largest fraction of mu squared. With
# more features they take longer than the steps that they save.
_EDGE, _MOST_FOR_MOMENTS, _MOST_FEATURES = 0.2, 0.1, 500
# The proportion of a label, or the mean of targets. An error in the base rate costs
# more than an error in a centre, most of all for a rare label.
_TARGETS = SideQuestion(0.01, 0.04, 0.25)
# The proportion of targets at a knot, and the mean of targets over half of the width in
# which they are summed.
_KNOTS, _MEAN = SideQuestion(0.04, 0.01, 0.1), SideQuestion(0.022, 0.02, 0.5)
# Between these signal-to-noise ratios a constant model of squared errors releases a
# histogram of the targets first; the third number is the histogram's fraction. At 10 it
# gains and loses nothing on bounds six deviations wide; at 20, bounds of eleven
# deviations cost .02 of R2 instead of .08, and bounds of two cost .009 instead of .001.
# With many records the sum of all targets has little noise, and needs no clip.
_HISTOGRAM_FROM, _HISTOGRAM_TO, _HISTOGRAM = 12.0, 200.0, 0.3
# Fraction of mu squared for the gate: it falls with the squared ratio from its maximum.
_GATE_SIGNAL_TO_NOISE, _LEAST_GATE, _MOST_GATE = 60.0, 0.01, 0.12
# Wanted noise deviation in the prediction of a row of norm 1 in flat directions, in the
# loss's units of raw predictions (a log-odds); for regressions, in standard deviations
# of the targets. Flat from half to twice the deviation; regressions lose from 0.7 on.
_NOISE, _NOISE_OF_NUMBERS = 1.0, 0.4
# Weight of the intercept, over a feature of norm 1. Flat from 0.15 to 0.3; a fixed
# intercept loses .006 to .025 of log-loss, and a weight of 1 loses .005 to .015.
_INTERCEPT = 0.2
# A mean error.
_ERRORS = SideQuestion(0.06, 0.005, 0.05)
# Fraction of the steps before the query for errors. The clip works best at a tenth to a
# fifth (ccpp at epsilon 0.1: .116 of 1 - R2 instead of .140 at half). For labels the
# remaining error shows later: flat from 0.3 to 0.5.
_NUMBERS_AT, _LABELS_AT = 0.1, 0.4
# Largest factor on the length of a descent where errors are few, and the used fraction
# of the largest step at which momentum is stable in any direction.
_FARTHER, _STABLE = 8.0, 0.9
# Rows are clipped to (_ROWS + _ROWS_OF_FEW / columns) times their root mean square:
# rows of many columns have nearly equal norms, and rows of one column do not.
_ROWS, _ROWS_OF_FEW = 0.5, 2.0
_LEAST_NORM = 1e-3
# The same for rows of numbers, and their least mean square about the centre. A factor
# of 1.2 helps four features, and costs .02 of 1 - R2 with nine; with many it is flat.
_ROWS_OF_NUMBERS, _LEAST_VARIANCE = 0.8, 0.01
# Number of relaxations of momentum in a run. Momentum covers flow time s with curvature
# up to L in sqrt(s L) times the root of half as many steps. With 5 relaxations
# kddcup99 (10,000 rows, epsilon 1) lost .014 of log-loss.
_RELAXATIONS = 7
_FEWEST_STEPS, _MOST_STEPS = 10, 200
# Above this number of records a pass takes long, and the last directions matter little:
# with 150 steps instead of 300 covertype lost .0006 of log-loss at epsilon 4.
_MANY_RECORDS, _MOST_STEPS_OF_MANY = 200_000, 100
# If more steps are wanted than these, and second moments of the parts of rows are
# released, steps are preconditioned, and reach as far in flat directions as the wanted
# number of steps. In 54 fits of nine tables of 300,000 records (`python -m benchmarks
# default_large`, one seed) log-loss or 1 - R2 is .0060 lower on average than with plain
# steps, and .0010 higher at most (noisy).
# At most this many times the most are wanted, so that steps in flat directions are
# finite without noise.
_MOST_WANTED = 100.0
# With one part this bound is tight, and half as many steps are enough: in 47 fits of
# nine tables of 300,000 records of plain numbers (`python -m benchmarks default_large
# --set kind=numbers`, one seed) log-loss or 1 - R2 is .0027 lower on average than with
# 100 plain steps, and .0006 higher at most. Labels that are nearly certain and many
# labels gain more with more steps (kddcup99, seven kinds of covertype), others nothing.
_STEPS_OF_ONE = 0.5
# Without noise a run has this multiple of the most steps of a private run, so that
# epsilon=inf has the least loss on the records of the fit. With 300 steps instead of
# 240 a fit of 20,000 records took 2.6 instead of 2 times as long as at epsilon 4.
_MORE_WITHOUT_NOISE = 1.2
# For their mean, predictions of numbers are clipped to this many standard deviations.
PREDICTIONS = 2.0
# A mean probability, over its clip. Without this query mean predictions of labels of
# 2 % were 1.1 to 1.5 times the base rate.
_RATE = SideQuestion(0.01, 0.005, 0.03)
# Intervals of the finest level of a curve: pairs of a ratio and the intervals below it,
# for tables of _COLUMNS columns; with more columns each has a smaller part of a row's
# norm.
_COLUMNS = 10
_INTERVALS = ((250.0, 4), (875.0, 8), (3_000.0, 16), (10_500.0, 32), (math.inf, 64))
# Losses of labels whose mean error sets the remaining steps.
_FOLLOWED = (LossId.SIGMOID, LossId.SOFTMAX)


def pure_signal_to_noise(objective: LinearObjective, budget: Budget) -> float:
    """Number of records times epsilon, over the change that one record can make."""
    relation = 2.0 if objective.adjacency in _EXCHANGES else 1.0
    return objective.effective_n * budget.epsilon / relation


def least_signal_to_noise(loss: Loss) -> float:
    """The ratio below which the constant model is used."""
    factor = _OF_AMOUNTS if loss.form is LossId.GAMMA else 1.0
    return factor * LEAST_SIGNAL_TO_NOISE * math.sqrt(max(loss.n_outputs, 2) / 2)


def pure_share(objective: LinearObjective, budget: Budget) -> float:
    """Fraction of epsilon for the constant at which a pure minimisation is centred."""
    signal_to_noise = pure_signal_to_noise(objective, budget)
    wanted = 1 / (signal_to_noise * _TARGETS.noise)
    return within(wanted, _TARGETS.least, _TARGETS.most)


def curve_intervals(
    signal_to_noise: float, n_columns: int, straight_below: float = 0.0
) -> int:
    """Number of intervals of a curve that the noise of a budget allows.

    Below the ratio `straight_below`, for a table of `_COLUMNS` columns, a curve has two
    intervals and no hats: it is a straight line.
    """
    size = signal_to_noise * _COLUMNS / n_columns
    if size < straight_below:
        return 2
    return next(count for below, count in _INTERVALS if size <= below)


def share_of_moments(signal_to_noise: float, n_features: int) -> float:
    """Fraction of mu squared for second moments of rows; 0: they are not released."""
    wanted = 2 * n_features**3 / (_EDGE * signal_to_noise) ** 2
    if wanted > _MOST_FOR_MOMENTS or n_features > _MOST_FEATURES:
        return 0.0
    return max(wanted, CENTRE.least)


def share_of_histogram(signal_to_noise: float) -> float:
    """Fraction of mu squared for the histogram of targets of a constant model."""
    return _HISTOGRAM if _HISTOGRAM_FROM <= signal_to_noise < _HISTOGRAM_TO else 0.0


@dataclass(frozen=True)
class Shares:
    """Fractions of mu squared, which add up to 1.

    Parameters
    ----------
    states, targets, mean, gate, bias, errors : float
        Fractions for the histograms of the columns, the histogram of the targets, the
        mean of the targets, the gate's ratio, the mean prediction or probability, and
        the mean error during the descent. 0: no query.
    """

    states: float = 0.0
    targets: float = 0.0
    mean: float = 0.0
    gate: float = 0.0
    bias: float = 0.0
    errors: float = 0.0

    @property
    def descent(self) -> float:
        """Fraction that remains for the gradients."""
        return 1.0 - math.fsum(vars(self).values())

    @classmethod
    def of(cls, loss: Loss, signal_to_noise: float, states: float) -> Self:
        """Fractions by rule; `states` is the fraction for the query about the rows."""
        # With more labels each proportion is smaller, and noise in it costs more.
        wanted = _TARGETS.noise * 2 / max(loss.n_outputs, 2)
        targets = replace(_TARGETS, noise=wanted).share(signal_to_noise)
        errors = _ERRORS.share(signal_to_noise)
        gate = within(
            (_GATE_SIGNAL_TO_NOISE / signal_to_noise) ** 2, _LEAST_GATE, _MOST_GATE
        )
        if is_of_squares(loss):
            knots, mean = _KNOTS.share(signal_to_noise), _MEAN.share(signal_to_noise)
            return cls(states, knots, mean, gate / 2, gate / 2, errors)
        if has_rate(loss):
            bias = _RATE.share(signal_to_noise)
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
        Weight over a feature of norm 1; 0: the intercept is not learned.
    preconditioning : float in [0, 1), default=0.0
        Weight of released second moments in the bound on the curvature (`speed`).
    n_parts : int, default=0
        Number of parts of a row with these moments; 0 without a preconditioner.
    reach : float in [0, 1], default=1.0
        Power of the ratio of errors by which the remaining steps go farther (`after`).
    """

    n_steps: int
    step_size: float
    momentum: float
    intercept_weight: float
    preconditioning: float = 0.0
    n_parts: int = 0
    reach: float = 1.0

    @classmethod
    def of(
        cls, objective: LinearObjective, signal_to_noise: float, n_parts: int = 0
    ) -> Self:
        """The pace whose flow time gives predictions the admitted noise.

        `n_parts` is the number of parts of a row with released second moments; 0: steps
        are not preconditioned.

        In flat directions, noise of deviation d in each mean gradient gives predictions
        of unit rows the deviation ``s d``, so ``s = noise * ratio / bound``. In a
        direction of curvature h, the fraction ``exp(-h s)`` is not learned, as much as
        a Bayesian with a prior of that deviation would leave.
        """
        loss = objective.loss
        weight = 0.0 if is_of_squares(loss) else _INTERCEPT
        length = math.hypot(1.0, weight)
        # The noise is that of a mean over all records, even if most weigh little.
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
        if objective.alpha > 0:  # the run reaches the optimum within this time
            flow = min(flow, 2 * _RELAXATIONS / objective.alpha)
        preconditioning, wanted = 0.0, math.sqrt(per_step * flow)
        if n_parts == 1 and math.isfinite(signal_to_noise):
            most = round(_STEPS_OF_ONE * most)
        if n_parts and wanted > most:
            preconditioning = 1 - max(most / wanted, 1 / _MOST_WANTED) ** 2
        flow = min(flow, most**2 / per_step)
        n_steps = math.ceil(math.sqrt(per_step * flow))
        n_steps = min(max(n_steps, _FEWEST_STEPS), most)
        momentum = 1 - _RELAXATIONS / n_steps
        step_size = flow * (1 - momentum) / n_steps
        plain = cls(n_steps, step_size, momentum, weight)
        if preconditioning == 0:
            return plain
        return replace(plain, preconditioning=preconditioning, n_parts=n_parts)

    @property
    def params(self) -> dict[str, float]:
        """What a statement records: numbers that differ from their defaults."""
        found = dict(vars(self))
        if self.preconditioning == 0:
            del found["preconditioning"], found["n_parts"]
        if self.reach == 1:
            del found["reach"]
        return found

    def speed(self, variance: FloatArray) -> FloatArray:
        """Factor on steps in directions in which a part of a row has this variance.

        The second moments of rows of norm 1 are at most the identity, and at most
        `n_parts` times those of the parts; so they are at most any mean of both bounds.
        Steps are divided by the mean, so that all directions are stable, and flat ones
        are learned as far as without a limit on the number of steps.
        """
        share = self.preconditioning
        return np.asarray(1 / (share * self.n_parts * variance + (1 - share)))

    def errors_at(self, loss: Loss) -> int:
        """The step before which the mean error is queried."""
        return math.ceil(
            self.n_steps * (_NUMBERS_AT if is_of_squares(loss) else _LABELS_AT)
        )

    def after(self, errors: float, noise: float, of_constant: float) -> Self:
        """The pace of the remaining steps, which go farther where errors are few.

        Where labels are nearly certain, noise in log-odds costs little and large
        weights are likely: the prior is wider by the ratio of the constant's errors to
        the released errors, or by its power `reach`. Step sizes grow first, as far as
        momentum is stable.
        """
        # No released number may divide by 0; released errors may be negative.
        of_constant = max(of_constant, 1e-300)
        left = within(errors + noise, of_constant / _FARTHER, of_constant)
        farther = (of_constant / left) ** self.reach
        larger = min(farther, _STABLE * (1 + self.momentum))
        slower = max((1 - self.momentum) * larger / farther, 1 / self.n_steps)
        return replace(self, step_size=larger * self.step_size, momentum=1 - slower)

    @property
    def flow(self) -> float:
        """Flow time of one step, with the later effect of its velocity."""
        return self.step_size / (1 - self.momentum)


def norm_of_numbers(variance: float, n_features: int) -> float:
    """Clip of centred rows of numbers, in units of the clip of the rows.

    `variance` is the released mean squared distance of the rows from the centre.
    """
    variance = within(variance, _LEAST_VARIANCE, 1.0)
    clip = _ROWS_OF_NUMBERS + _ROWS_OF_FEW / n_features
    return clip * math.sqrt(variance)


def row_norm(variance: float, n_parts: int) -> float:
    """Clip of centred rows of `n_parts` columns with this variance."""
    clip = _ROWS + _ROWS_OF_FEW / n_parts
    return max(clip * math.sqrt(variance), _LEAST_NORM)


# ---------------------------------------------------- Public rule for feature selection


def favours_selection(objective: LinearObjective) -> bool:
    """Whether selecting features before releasing their values takes less noise.

    Noise in all values grows with the norm of a row, D2. Noise of a private selection
    grows with the row's largest entry, DInf, and with the number s of selected
    features. Selection is better if ``(D2 / DInf)^2 >= s max(2, log d)``, as `Peeling`
    and `IHT` confirm on dense rows and on text.
    """
    wanted = objective.most_features * max(2.0, math.log(objective.n_features))
    return objective.full_entries >= wanted


# ----------------------------------------------------------------- Noise against signal
# The forecast assumes that rows spread evenly over all directions and that targets are
# explained well, so that it never calls a useful model hopeless.


# Ratios above which noise leaves a constant model (settled on synthetic tables).
# Noise hides which features matter sooner than it hides their coefficients. For delta =
# 0 solvers stop no sooner where noise is large (`python -m benchmarks hard_edges`).
_DENSE, _PURE, _SPARSE = 10.0, 4.0, 3.0
# The same for squared errors with delta = 0, by second moments and by one minimisation:
# on ccpp, protein_casp and wine_quality_white (declared columns, 300 to 10,000 records)
# models were better than the constant below 1.1 and 0.6, and worse above 3.2 and 1.7.
_PURE_MOMENTS, _PURE_SQUARES = 2.0, 0.6
# Ratio at which noise counts as much as signal: at 2,000, where by this number there is
# little noise, tables of declared columns come close to models without privacy.
_ALIKE = 600.0
# A model reaches half of the gain without privacy at a ratio this many times the ratio
# below which the constant is taken: 140 with one output. Settled on the six tables of
# the default (`python -m benchmarks forecast`): with 100 or 200 the mean error of a
# score is .120 or .130, with 140 .116. A second constant, an exponent, lowers it to
# .114; the number of columns does not.
_HALF = 2.8


def signal_of(objective: LinearObjective, budget: Budget) -> Signal:
    """Noise and scale of a coefficient, for a finite epsilon."""
    if objective.n_nonzero is None:
        return _dense(objective, budget)
    return _sparse(objective, objective.n_nonzero, budget)


def signal_of_centred(objective: LinearObjective, budget: Budget) -> Signal:
    """The same for the default with declared columns: only its ratio has a meaning."""
    unit = objective.loss.prediction_unit
    signal_to_noise = signal_to_noise_of(
        objective.effective_n, budget, objective.adjacency
    )
    return Signal(
        coefficient_noise=unit * _ALIKE / signal_to_noise,
        coefficient_scale=unit,
        n_records=objective.n_samples,
        constant_from=_ALIKE / least_signal_to_noise(objective.loss),
    )


def half_at(signal: Signal) -> float:
    """Noise over scale at which the default reaches half of the gain."""
    return signal.constant_from / _HALF


def _dense(objective: LinearObjective, budget: Budget) -> Signal:
    loss, data_norm = objective.loss, objective.data_norm
    size = objective.n_columns * loss.n_outputs
    law = LAWS["spherical" if budget.delta == 0 else "gaussian"]
    deviation = deviation_once(law, budget, size)
    curvature = typical_curvature(loss) * data_norm**2 / objective.n_features
    noise = _sensitivity(objective) * deviation / (objective.n_samples * curvature)
    scale = loss.prediction_unit / data_norm
    line = _DENSE if budget.delta > 0 else _PURE
    if budget.delta == 0 and isinstance(loss, SquaredLoss):
        is_few = objective.n_features <= FEW_MOMENTS
        line = _PURE_MOMENTS if is_few else _PURE_SQUARES
    if budget.delta == 0:
        # A count has noise too, even if there are few columns.
        few = least_signal_to_noise(loss) / pure_signal_to_noise(objective, budget)
        noise = max(noise, line * few * scale)
    return Signal(
        coefficient_noise=noise,
        coefficient_scale=scale,
        n_records=objective.n_samples,
        constant_from=line,
    )


def _sparse(objective: LinearObjective, k: int, budget: Budget) -> Signal:
    r"""The largest noise in d features against k of them that matter alike.

    With entries of size e in every row, ``w = unit / (e sqrt(k))`` for each of them,
    and its gradient is ``n h w e^2``. The noise of one query is that of an entry times
    sqrt(k) for k selections, or of a row of m entries: sqrt(m) times as much.
    """
    loss, d = objective.loss, objective.n_features
    is_pure = budget.delta == 0
    level = 2 * math.log(d + 1)
    if is_pure:  # selections add up, and share epsilon with the values
        spread, deviation = k * level, 1 / budget.epsilon
    else:
        entries = min(objective.full_entries, d)
        spread = math.sqrt(min(entries, k) * level)
        deviation = deviation_once(LAWS["gaussian"], budget, 1)
    entry = objective.entry_bound
    record = _sensitivity(objective) / objective.data_norm
    curvature = typical_curvature(loss)
    noise = record * deviation * spread / (objective.n_samples * curvature)
    return Signal(
        coefficient_noise=noise / entry,
        coefficient_scale=loss.prediction_unit / (entry * math.sqrt(k)),
        n_records=objective.n_samples,
        constant_from=_SPARSE,
    )


def _sensitivity(objective: LinearObjective) -> float:
    """Sensitivity of one sum of gradients, with residuals clipped as noise demands.

    Squared residuals count with their bound: solvers clip them further, but lose as
    much of large targets as they save in noise.
    """
    loss = objective.loss
    clip = math.inf if isinstance(loss, SquaredLoss) else loss.noisy_clip
    bound = ClippedGradient(objective, clip).real_bound(math.inf).with_user_bounds()
    return bound.under(objective.adjacency)
