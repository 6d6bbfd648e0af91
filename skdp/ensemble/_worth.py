"""What the trees are worth on the records, and what is left of them.

One answer at the end: how much less is lost with all trees, or with a share of what
they add, than with the start alone. The best share is what leaves.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from skdp.ensemble._boosted import BoostedTrees
from skdp.ensemble._scale import Scale
from skdp.ensemble._task import BoostingTask
from skdp.privacy._answers import Released
from skdp.queries._model_gains import MOST_GAIN, ModelGains
from skdp.solvers._strength import share_for

# Shares that are tried; falling.
SHARES = (1.0, 0.5, 0.25)
# Gains that differ by fewer deviations of their noise are as good.
_AS_GOOD = 0.5
# Deviation of the noise in a gain, over what a gain is clipped to.
_WANTED = 0.012
_LEAST, _MOST = 0.0015, 0.15
# The same for errors in units of two deviations: half of 1/4, and half as much again.
_CLIP_OF_TARGETS = 0.2
# A gain by all trees counts from so many deviations of its noise on.
_GAIN_FROM = 2.0


def gains_of(task: BoostingTask, model: BoostedTrees, scale: Scale) -> ModelGains:
    """The question about all trees."""
    released = model.trees, model.start, model.values
    clip = _clip(len(model.start))
    if task.is_regression:
        clip = min(_CLIP_OF_TARGETS * scale.residual * scale.raw, MOST_GAIN)
    facts = task.n_samples, scale.facts
    return ModelGains(task.loss, *released, SHARES, clip, *facts)


def share_of_gains(signal: float) -> float:
    """Of mu^2, for n mu of so much."""
    return share_for(_WANTED, signal, _LEAST, _MOST)


def best_share(gains: Released) -> float:
    """The largest share of the trees worth about the most; 0 if none is worth any.

    About: noise must tell a smaller share from it. A gain by all counts from so many
    deviations of its noise on, and one by a share from that share of them.
    """
    noise = gains.deviation
    as_good = gains.value >= gains.value.max() - _AS_GOOD * noise
    first = int(np.argmax(as_good))
    share = SHARES[first]
    return share if gains.value[first] > _GAIN_FROM * share * noise else 0.0


def shrunk(model: BoostedTrees, share: float) -> BoostedTrees:
    """The share of what all trees add."""
    values, deviations = share * model.values, share * model.deviations
    return replace(model, values=values, deviations=deviations, shrinkage=share)


def _clip(n_outputs: int) -> float:
    """About half as much again as is lost of who knows nothing."""
    return 1.5 * math.log(max(n_outputs, 2))
