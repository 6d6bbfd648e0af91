"""How much trees gain: the query, what of its answer a sample makes, and the choice.

One query compares the loss with all trees, or with a share of what they add, with the
loss of the start alone, on the records to which the trees were fitted. A trial asks
about its trees and goes on with them if their gain is clear. The query at the end
chooses the share of all trees that the release keeps.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from sklearn.utils import check_random_state

from skdp._arrays import FloatArray
from skdp.ensemble._adaptive import drawn_codes
from skdp.ensemble._losses import BoostingTask, Scale
from skdp.privacy.release._answers import Released
from skdp.solvers._default_rules import SideQuestion
from skdp.sums._leaves import MOST_GAIN, GrownTrees, ModelGains, Tree, find_leaves

# ------------------------------------------------------------- The query and the choice


# Fractions that are tried, in falling order.
SHARES = (1.0, 0.5, 0.25)
# Gains that differ by fewer deviations of their noise count as equal.
_AS_GOOD = 0.5
# The gains; the noise is that in one, over the bound to which gains are clipped.
GAINS = SideQuestion(0.01, 0.006, 0.05)
# The same bound for errors in units of two deviations: half of 1/4, times one and a
# half.
_CLIP_OF_TARGETS = 0.2
# Deviations of its noise that a gain by all trees must exceed.
_GAIN_FROM = 2.0
# The same for a trial.
_TRIAL_FROM = 3.0
# Clip of gains, over the clip of residuals times the root mean square of what the trees
# add. With 8, gains of numbers drowned in noise: a trial saw nothing on protein_casp at
# epsilon 1, where trees gain .03 of R2.
_FARTHEST_GAIN = 3.0


def gains_of(
    task: BoostingTask,
    grown: GrownTrees,
    scale: Scale,
    spread: float,
    shares: tuple[float, ...] = SHARES,
) -> ModelGains:
    """The query about the gain by shares of all trees.

    A record's gain is about its residual times what the trees add. Gains are clipped to
    a multiple of `spread`, the usual size of this product at most, and to a multiple of
    a constant's loss.
    """
    clip = _clip(len(grown.start))
    if task.is_regression:
        clip = min(_CLIP_OF_TARGETS * scale.residual * scale.raw, MOST_GAIN)
    clip = max(min(clip, _FARTHEST_GAIN * spread), 1e-6 * clip)
    return ModelGains(task.loss, grown, shares, clip, task.n_samples)


def helps(gain: Released | None) -> bool:
    """Whether noise alone is unlikely to make the gain by the trees of a trial."""
    return gain is not None and gain.value[0] > _TRIAL_FROM * gain.deviation


def best_share(gains: Released) -> float:
    """The largest share of the trees whose gain is about the best; 0 if none gains.

    "About" means that noise cannot tell the two gains apart. A gain by all trees counts
    if it exceeds `_GAIN_FROM` deviations of its noise; for a share of the trees the
    limit is that share of it.
    """
    noise = gains.deviation
    as_good = gains.value >= gains.value.max() - _AS_GOOD * noise
    first = int(np.argmax(as_good))
    share = SHARES[first]
    return share if gains.value[first] > _GAIN_FROM * share * noise else 0.0


def _clip(n_outputs: int) -> float:
    """Clip of gains: about 1.5 times the loss of a model that knows nothing."""
    return 1.5 * math.log(max(n_outputs, 2))


# ------------------------------------------------- Optimism: the gain by a sample alone
# Post-processing. Several owners find the same bits: sums are in order or exact.


# Records made up for the effective number of parameters.
_N_RECORDS = 4096
# The difference between gains on the records of the fit and on others, over the
# effective number of parameters. It is below 1 since residuals are clipped and columns
# depend on each other: .1 to .2 on the kinds of covertype, .2 to .5 on adult, .6 to .8
# on covertype and .6 to .9 on noisy (validation parts, epsilon 1 and 4: `python -m
# benchmarks boosting_optimism`).
_OPTIMISM = 0.6


class EffectiveParameters:
    """How many free parameters the released trees have, in effect.

    This is the trace of the map from targets to predictions: by how much a record's
    prediction follows the record's target, summed over all records. Random signs on
    made-up records, which the trees learn as they learned the targets, estimate it
    [1]_.

    Parameters
    ----------
    shares : tuple of ndarray of float64 of shape (n_codes,)
        Released or equal shares of the codes of each column.
    n_outputs : int

    References
    ----------
    .. [1] Hutchinson (1990). A stochastic estimator of the trace of the influence
       matrix for Laplacian smoothing splines. Communications in Statistics 19(2).
    """

    def __init__(self, shares: tuple[FloatArray, ...], n_outputs: int) -> None:
        rng = check_random_state(1)
        codes = [drawn_codes(each, rng, _N_RECORDS) for each in shares]
        self._codes = np.ascontiguousarray(np.column_stack(codes))
        self._signs = 1.0 - 2.0 * rng.randint(2, size=_N_RECORDS)
        self._left = np.tile(self._signs, (n_outputs, 1))
        self._leaves = np.empty(_N_RECORDS, dtype=np.uint16)

    def add(self, tree: Tree, learned: FloatArray) -> None:
        """Let one more tree learn a fraction of each leaf's mean.

        Parameters
        ----------
        tree : Tree
        learned : ndarray of float64 of shape (n_leaves, n_outputs)
        """
        find_leaves(self._codes, tree, self._leaves, 1)
        size = len(learned)
        counts = np.maximum(np.bincount(self._leaves, minlength=size), 1)
        for left, fractions in zip(self._left, learned.T, strict=True):
            sums = np.bincount(self._leaves, weights=left, minlength=size)
            left -= (fractions * sums / counts)[self._leaves]

    @property
    def number(self) -> float:
        """Effective number of parameters of all outputs together."""
        return math.fsum((self._signs * (self._signs - self._left)).ravel())


def without_optimism(
    gains: Released, shares: tuple[float, ...], n_parameters: float
) -> Released:
    """Gains less what they would be if the trees had learned the sample alone.

    The sum of log-losses of the records of a fit is lower than that of as many other
    records, by about the number of parameters [1]_. For a share of the trees the
    difference is that share of it.

    References
    ----------
    .. [1] Efron (2004). The estimation of prediction error: covariance penalties and
       cross-validation. Journal of the American Statistical Association 99(467).
    """
    optimism = _OPTIMISM * n_parameters * np.array(shares)
    return replace(gains, value=gains.value - optimism)
