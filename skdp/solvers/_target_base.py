"""Where targets lie: the queries about targets, and the constants from their answers.

The constant model is one of these constants, and a descent on centred rows starts at
one. Where noise leaves an answer uncertain, the priors of this module complete it: all
of it is post-processing of released numbers. Constants were settled on six tables
(adult, covertype, ccpp, protein_casp, wine_white, kddcup99), constants of losses of
logarithms on protein_casp, wine_white and two made-up tables
(``docs/notebook/benchmarks.md``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import betaln

from skdp._arrays import FloatArray
from skdp.losses._base import Loss, LossId
from skdp.losses._regression import GammaLoss
from skdp.privacy.release._answers import Released
from skdp.privacy.release._plan import Query
from skdp.solvers._descent import convex_loss
from skdp.sums._counts import StateSums, even_knots
from skdp.sums._histogram import ReleasedHistogram
from skdp.sums._record_sums import TargetSum

# Residuals of numbers are clipped to this many standard deviations. 0.7 helps tables
# with little error, and costs .01 to .02 of R2 with much error; 2.5 costs .03.
RESIDUALS = 1.0
# The same for losses of logarithms, in units of the constant's residuals. 1 costs .05
# of gamma deviance with much noise, 3 gains less than that with little noise.
_RESIDUALS_OF_LOGS = 2.0
# Clip of a softmax's residual, whose norm is at most the root of 2. Seven kinds of
# covertype lose .03 to .05 of log-loss with 0.5, and ten digits .1 with 1.
_RESIDUALS_OF_SOFTMAX = 0.7
# Mean of absolute normal errors clipped to one deviation; and the least clip.
_MEAN_OF_ERRORS, _LEAST_CLIP = 0.63, 0.05
# Curvature and squared residuals of numbers within a clip of one deviation, for the
# gate: cautious values beside .68 and .52 of the normal distribution.
_CURVATURE_OF_NUMBERS, _SQUARES_OF_NUMBERS = 0.5, 0.6
# For losses with curvature near a kink only. The number of records near it changes in a
# descent; the curvature is taken to be an eighth of a hinge's largest, and for
# quantiles at least that.
_CURVATURE_OF_KINKS = 0.125
# Intervals between the knots of a histogram of targets: few for a scale, whose noise
# grows with them (from 32 to 8, ccpp at epsilon 0.1 fell from .116 to .099), and many
# for a quantile and for targets of at least 0.
_KNOTS_FOR_SCALE, _KNOTS = 8, 32
# Log ratio of neighbouring knots, for amounts that may span decades.
_FINENESS_OF_LOGS = math.log(2.0)
# Standard deviations about the histogram's mean within which targets are summed for a
# mean with less noise. The second number applies if the noise in a share of the
# histogram exceeds the third. Lognormal targets lose .04 of their deviations with 3 and
# .1 with 2, which has less than half of the noise.
_FARTHEST_TARGETS, _FARTHEST_IN_NOISE, _MUCH_NOISE = 3.0, 2.0, 0.02
# Beta priors of a mean: of counts over the largest count, whose mean may be as small as
# the rate of a rare label; and of numbers over the declared width, whose mean is hardly
# at an end of it.
MEAN_OF_COUNTS, _MEAN_OF_NUMBERS = (0.5, 0.5), (2.0, 2.0)
# Ratio of the noise's variance to the prior's above which a constant model prefers the
# constant that costs nothing: even labels, or the middle of the bounds. Even labels
# lose more with higher ratios, and the mean over all rates with lower ones
# (`python -m benchmarks free_constant`). Without this rule, with 200 records at epsilon
# 0.1 and Gaussian noise, labels lost .1 of log-loss and numbers 1.0 of R2.
_FREE = 0.08
# Noisy shares are clipped to this magnitude; farther ones carry no more information.
_FAR_SHARE = 1e3
# For their mean, probabilities are clipped to this multiple of the base rate.
_PROBABILITIES = 8.0
# A mean of predictions counts from this many deviations of its noise on.
_MEAN_FROM = 2.0
# The search for a released base ends here: no useful raw prediction lies beyond.
_FARTHEST = 64.0
_BISECTIONS = 80


def within(value: float, least: float, most: float) -> float:
    return min(max(value, least), most)


def is_of_squares(loss: Loss) -> bool:
    """Whether the best constant is the mean, in units of the targets."""
    return loss.form is LossId.ERROR


def is_softmax(loss: Loss) -> bool:
    """Whether outputs compete, so that only their differences matter."""
    return loss.form is LossId.SOFTMAX


def has_log_link(loss: Loss) -> bool:
    """Whether raw predictions are logarithms of means."""
    return loss.form in (LossId.POISSON, LossId.GAMMA)


def has_mean(loss: Loss) -> bool:
    """Whether a mean of the targets is released beside their histogram."""
    return is_of_squares(loss) or loss.form is LossId.POISSON


def has_rate(loss: Loss) -> bool:
    """Whether predictions are probabilities, whose means should be the base rates."""
    is_likelihood = loss.form is LossId.SIGMOID or is_softmax(loss)
    return is_likelihood and not loss.label_weights


def _has_two_labels(loss: Loss) -> bool:
    """Whether targets are 0 and 1, so that their sum has both counts."""
    return not loss.form.is_of_numbers and loss.n_outputs <= 2


def clip_of(loss: Loss) -> float:
    """Norm to which residuals are clipped, for losses with a fixed unit."""
    if loss.form is LossId.SOFTMAX:
        return _RESIDUALS_OF_SOFTMAX
    return min(loss.noisy_clip, loss.zero_out_bound(math.inf))


def target_range(loss: Loss) -> tuple[float, float]:
    """Lowest and highest target of numbers, in the loss's units, or of two labels."""
    if isinstance(loss, GammaLoss):
        return 1.0, math.exp(2 * loss.half)
    is_of_shares = loss.form is LossId.POISSON or _has_two_labels(loss)
    return (0.0, 1.0) if is_of_shares else (-1.0, 1.0)


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
    if loss.form is LossId.POISSON:
        return tuple(np.linspace(0.0, 1.0, _KNOTS + 1).tolist())
    return even_knots(_KNOTS)


def target_query(loss: Loss, n_samples: int, norm: int = 2) -> StateSums | TargetSum:
    """The one sum that determines the constant model, with a bound in this norm."""
    if is_of_squares(loss) or has_log_link(loss) or _has_two_labels(loss):
        return TargetSum(n_samples, *middle_and_half(loss, None, math.inf), norm)
    return count_query(loss, n_samples, norm)


def count_query(loss: Loss, n_samples: int, norm: int = 2) -> StateSums:
    """Number of records with each label, or of targets at each knot."""
    if loss.form.is_of_numbers:
        return StateSums(0, n_samples, 0, knots=knots_of(loss), norm=norm)
    n_labels = max(loss.n_outputs, 2)
    return StateSums(0, n_samples, 0, n_labels=n_labels, norm=norm)


def middle_and_half(
    loss: Loss, moments: tuple[float, float] | None, farthest: float
) -> tuple[float, float]:
    """Range over which targets are summed for their mean: all or most of them.

    Parameters
    ----------
    loss : Loss
    moments : tuple of two floats or None
        Released mean and deviation; None: only the declared bounds are known.
    farthest : float
        Half width of the range in deviations.
    """
    least, most = target_range(loss)
    if moments is None or not is_of_squares(loss):
        return (least + most) / 2, (most - least) / 2
    middle, unit = moments
    low, high = max(middle - farthest * unit, -1.0), min(middle + farthest * unit, 1.0)
    return (low + high) / 2, (high - low) / 2


@dataclass(frozen=True)
class Base:
    """Released location of the targets: the constant model; post-processing.

    Parameters
    ----------
    offset : tuple of float
        Raw predictions at which the descent starts, one for each output.
    constant : tuple of float
        Raw predictions of the constant model; predictions of mean 0 are added to them.
    unit : float
        Unit of raw predictions: the targets' standard deviation, or the loss's unit.
    residual_clip : float
    errors : float
        Mean length of the residuals at the constant.
    curvature, squares : tuple of float
        Average curvature of a record's loss at the constant, and average square of a
        record's residual; one for each direction of the outputs.
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
        targets: ReleasedHistogram | None,
        mean: float | None = None,
        noise_of_mean: float = 0.0,
        *,
        is_alone: bool = False,
    ) -> Self:
        """The base that follows from released numbers about the targets.

        Parameters
        ----------
        loss : Loss
        targets : ReleasedHistogram or None
            Shares of the labels, or at the knots of `knots_of`; None: not released.
        mean : float or None, default=None
            Noisy mean of targets; None: not released.
        noise_of_mean : float, default=0.0
        is_alone : bool, default=False
            Whether the base is the whole model.
        """
        if not loss.form.is_of_numbers:
            if targets is None:
                assert mean is not None
                # The noise of counts whose difference has that of the sum.
                counts = np.array([1 - mean, mean])
                targets = ReleasedHistogram(counts, math.sqrt(2) * noise_of_mean)
            return cls._of_labels(loss, targets, is_alone)
        if is_of_squares(loss):
            assert mean is not None
            return cls._of_moments(loss, targets, mean, noise_of_mean, is_alone)
        shares = None if targets is None else targets.shares
        if mean is not None:
            return cls._of_mean(loss, shares, mean, noise_of_mean)
        assert targets is not None
        assert shares is not None
        found = cls._at(loss, np.array(knots_of(loss)), shares)
        if loss.form is LossId.QUANTILE:
            return replace(found, unit=targets.moments()[1])
        return found

    @classmethod
    def _of_labels(cls, loss: Loss, labels: ReleasedHistogram, is_alone: bool) -> Self:
        """Base from noisy shares of the labels."""
        k = len(labels.counts)
        # Shares add up to 1; subtracting their excess removes a part of their noise.
        counts = np.clip(labels.counts, -_FAR_SHARE, _FAR_SHARE)
        even = counts + (1 - counts.sum()) / k
        left = labels.deviation * math.sqrt(1 - 1 / k)
        if k > 2:  # the spread of several shares shows how much of it is noise
            spread = float(np.mean((even - 1 / k) ** 2))
            kept = max(1 - left**2 / spread, 0.0) if spread > 0 else 0.0
            even, left = 1 / k + kept * (even - 1 / k), left * math.sqrt(kept)
        shares = np.array([base_rate(float(p), left, k, is_alone) for p in even])
        return cls._at(loss, np.arange(k, dtype=np.float64), shares / shares.sum())

    @classmethod
    def _of_mean(
        cls, loss: Loss, shares: FloatArray | None, mean: float, noise: float
    ) -> Self:
        """Base from a mean of targets of at least 0, for losses of its logarithm.

        Shares at knots, if released, determine where clipped residuals balance.
        """
        least, most = target_range(loss)
        found = posterior_share(mean / most, noise / most, MEAN_OF_COUNTS)
        mean = most * within(found, max(least / most, 1e-9), 1.0)
        alone = cls._at(loss, np.array([mean]), np.ones(1))
        if shares is None:
            return alone
        balanced = cls._at(loss, np.array(knots_of(loss)), shares)
        return replace(balanced, constant=alone.constant)

    @classmethod
    def _of_moments(
        cls,
        loss: Loss,
        targets: ReleasedHistogram | None,
        mean: float,
        noise: float,
        is_alone: bool,
    ) -> Self:
        """Base from a mean, and from noisy shares at knots, for squared errors.

        The offset is the point where clipped residuals balance. With skewed targets it
        differs from the mean, and features would learn the difference.
        """
        share, noise = (mean + 1) / 2, noise / 2
        is_unsure = is_alone and targets is None
        chance = free_chance(noise, _MEAN_OF_NUMBERS) if is_unsure else 0.0
        found = posterior_share(share, noise, _MEAN_OF_NUMBERS, (0.5, chance))
        mean = 2 * found - 1
        offset: tuple[float, ...] = (mean,)
        unit = 1.0
        if targets is not None:
            _, unit = targets.moments()
            knots = np.array(knots_of(loss))
            offset = constant_of(loss, knots, targets.shares, RESIDUALS * unit)
        return cls(
            offset,
            (mean,),
            unit,
            RESIDUALS * unit,
            _MEAN_OF_ERRORS * unit,
            (_CURVATURE_OF_NUMBERS,),
            (_SQUARES_OF_NUMBERS * unit**2,),
        )

    @classmethod
    def _at(cls, loss: Loss, values: FloatArray, shares: FloatArray) -> Self:
        clip = clip_of(loss)
        # A single target needs no clip.
        farthest = clip if len(values) > 1 else math.inf
        # If the loss is not convex, use the hinge's constant: the constant of the loss
        # may be so far away that no record moves it.
        begins = loss if loss.is_convex else convex_loss(loss)
        offset = constant_of(begins, values, shares, farthest)
        raw = np.tile(offset, (len(values), 1))
        if has_log_link(loss) and len(values) > 1:
            spread = math.sqrt(float(shares @ loss.residual(values, raw)[:, 0] ** 2))
            clip = within(_RESIDUALS_OF_LOGS * spread, _LEAST_CLIP * clip, clip)
            offset = constant_of(loss, values, shares, clip)
            raw = np.tile(offset, (len(values), 1))
        residual = loss.residual(values, raw)
        bends = loss.curvature(values, raw)
        if has_log_link(loss):  # clipped residuals have no curvature
            bends = bends * (np.abs(residual) <= clip)
        curvature = shares @ bends
        squares = shares @ np.minimum(residual**2, clip**2)
        errors = float(shares @ np.minimum(np.linalg.norm(residual, axis=1), clip))
        if not loss.is_convex:  # curvature appears where predictions have moved
            least = _CURVATURE_OF_KINKS * loss.smoothness
            curvature = np.maximum(curvature, least)
        if loss.form is LossId.HINGE:
            curvature = np.full_like(curvature, _CURVATURE_OF_KINKS)
        if loss.form is LossId.QUANTILE:  # the density of the targets there
            curvature = np.maximum(curvature, _CURVATURE_OF_KINKS)
            # The density grows as the fit improves. With the constant's density the
            # sample's part would exceed a strong signal (200 records, R2 of .98).
            squares = np.zeros_like(squares)
        if is_softmax(loss):
            # Curvature of differences between outputs; a shift of all outputs changes
            # no prediction.
            p = np.exp(np.array(offset) - max(offset))
            p /= p.sum()
            hessian = np.diag(p) - np.outer(p, p)
            weight = float(shares @ (loss.label_weights or np.ones(len(p))))
            curvature = weight * np.maximum(np.linalg.eigvalsh(hessian)[1:], 0.0)
            squares = curvature  # equal for a likelihood
        of_noise = tuple(curvature.tolist()), tuple(squares.tolist())
        return cls(offset, offset, loss.prediction_unit, clip, errors, *of_noise)


def released_base(
    loss: Loss,
    n_samples: int,
    ask: Callable[[str, Query], Released],
    asked: Collection[str],
    *,
    norm: int = 2,
    is_alone: bool = False,
) -> Base:
    """The location of the targets, from one answer or two.

    Parameters
    ----------
    loss : Loss
    n_samples : int
    ask : callable
        Takes "targets" or "mean" and a query, and returns the released answer.
    asked : collection of str
        Names of the queries in the plan, of "targets" and "mean".
    norm : {1, 2}, default=2
        Norm of the queries' bounds.
    is_alone : bool, default=False
        Whether the base is the whole model.
    """
    targets, moments, farthest = None, None, _FARTHEST_TARGETS
    if "targets" in asked:
        counted = ask("targets", count_query(loss, n_samples, norm))
        targets = ReleasedHistogram.of(counted, n_samples)
        moments = targets.moments() if is_of_squares(loss) else None
        if targets.deviation >= _MUCH_NOISE:
            farthest = _FARTHEST_IN_NOISE
    if "mean" not in asked:
        return Base.of(loss, targets, is_alone=is_alone)
    middle, half = middle_and_half(loss, moments, farthest)
    summed = ask("mean", TargetSum(n_samples, middle, half, norm))
    mean = middle + float(summed.value[0]) / n_samples
    noise_of_mean = summed.deviation / n_samples
    return Base.of(loss, targets, mean, noise_of_mean, is_alone=is_alone)


def constant_of(
    loss: Loss, values: FloatArray, shares: FloatArray, clip: float
) -> tuple[float, ...]:
    """The constant raw predictions with the least loss on targets with these shares."""
    k = loss.n_outputs
    if is_softmax(loss):
        weighted = np.log(shares * (loss.label_weights or np.ones(k)))
        return tuple((weighted - weighted.mean()).tolist())
    low, high = np.full(k, -_FARTHEST), np.full(k, _FARTHEST)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        raw = np.full((len(values), k), middle)
        residual = loss.residual(values, raw)
        slope = shares @ np.minimum(np.maximum(residual, -clip), clip)
        low, high = np.where(slope < 0, middle, low), np.where(slope < 0, high, middle)
    return tuple(((low + high) / 2).tolist())


def base_rate(
    share: float, noise: float, n_labels: int, is_alone: bool = False
) -> float:
    """Posterior mean of a label's share, given a noisy share.

    The prior is Beta(1/2, (K - 1)/2): a rare label stays possible, and one of two
    labels is as likely to be rare as to be frequent. Where the rates are the whole
    model, all labels may be equally frequent.
    """
    if noise == 0:
        return within(share, 1e-9, 1.0)
    prior = 0.5, (n_labels - 1) / 2
    chance = free_chance(noise, prior) if is_alone else 0.0
    return posterior_share(share, noise, prior, (1 / n_labels, chance))


def posterior_share(
    share: float,
    noise: float,
    prior: tuple[float, float] = (1.0, 1.0),
    point: tuple[float, float] = (0.5, 0.0),
) -> float:
    """Posterior mean of a number in [0, 1], given the number plus normal noise.

    Parameters
    ----------
    share : float
        Released.
    noise : float
        Its standard deviation.
    prior : tuple of two floats, default=(1.0, 1.0)
        Parameters of a beta distribution.
    point : tuple of two floats, default=(0.5, 0.0)
        A number, and the prior probability of this number.
    """
    if noise == 0:
        return within(share, 0.0, 1.0)
    share = within(share, -_FAR_SHARE * noise, 1 + _FAR_SHARE * noise)
    # The grid is fine near 0 and 1, where the prior is, and around the released share.
    everywhere = 1 / (1 + np.exp(-np.linspace(-20.0, 20.0, 801)))
    near = np.linspace(share - 6 * noise, share + 6 * noise, 401)
    p = np.unique(np.concatenate([everywhere, near[(near > 0) & (near < 1)]]))
    log_prior = (prior[0] - 1) * np.log(p) + (prior[1] - 1) * np.log1p(-p)
    log_prior -= betaln(*prior)
    at, chance = point
    log_densities = log_prior - 0.5 * ((share - p) / noise) ** 2
    log_of_point = -0.5 * ((share - at) / noise) ** 2
    # The larger of both is 1 for every released share.
    largest = float(log_densities.max())
    if chance > 0:
        largest = max(largest, log_of_point)
    weights = (1 - chance) * np.exp(log_densities - largest) * np.gradient(p)
    of_point = chance * math.exp(min(log_of_point - largest, 0.0))
    total = float(weights.sum()) + of_point
    return (float(weights @ p) + of_point * at) / total


def free_chance(noise: float, prior: tuple[float, float]) -> float:
    """Prior probability that the constant which costs nothing is the best.

    Parameters
    ----------
    noise : float
        Standard deviation of the noise in a share.
    prior : tuple of two floats
        Parameters of the share's beta distribution.
    """
    total = sum(prior)
    variance = prior[0] * prior[1] / (total**2 * (total + 1))
    return noise**2 / (noise**2 + _FREE * variance)


def clip_after(error: float, noise: float, unit: float) -> float:
    """Residual clip from a mean error, whose terms are clipped to the unit.

    The rule is exact for normal errors, and the clip is at most the unit.
    """
    return within((error + noise) / _MEAN_OF_ERRORS, _LEAST_CLIP * unit, unit)


def rates_of(constant: FloatArray) -> FloatArray:
    """Probabilities of raw predictions: of the second label, or of each label."""
    if len(constant) == 1:
        return np.asarray(1 / (1 + np.exp(-constant)))
    shares = np.exp(constant - constant.max())
    return np.asarray(shares / shares.sum())


def rate_clip(rates: FloatArray) -> float:
    """Clip of probabilities for their mean; 1, that is no clip, for several labels."""
    return min(_PROBABILITIES * float(rates[0]), 1.0) if len(rates) == 1 else 1.0


def shift_to_rates(rates: FloatArray, means: FloatArray, noise: float) -> FloatArray:
    """Shift of raw predictions from released mean probabilities to the base rates.

    Differences that noise may explain are left out.
    """
    off = np.clip(means - rates, -1.0, 1.0)
    # Several labels are tested together: with ten tests noise alone would pass some.
    length = float(np.linalg.norm(off)) / math.sqrt(len(off))
    kept = known_mean(length, noise) / length if length > 0 else 0.0
    known = kept * off
    if rate_clip(rates) < 1:  # a clipped mean may be too low, never too high
        known = np.maximum(known, 0.0)
    least, most = rates / _PROBABILITIES, 1 - (1 - rates) / _PROBABILITIES
    moved = np.clip(rates + known, least, most)
    shift: FloatArray = np.log(rates / moved)
    if len(rates) == 1:
        shift = shift - np.log((1 - rates) / (1 - moved))
    return shift


def known_mean(mean: float, noise: float) -> float:
    """A mean, shrunk by what noise explains."""
    if abs(mean) <= _MEAN_FROM * noise or mean == 0:
        return 0.0
    return mean * (1 - (_MEAN_FROM * noise / mean) ** 2)
