"""Which share of a model is worth most, by a noisy answer; post-processing."""

from __future__ import annotations

import numpy as np

from skdp.privacy._answers import Released

# Shares that are tried; falling.
SHARES = (1.0, 0.5, 0.25)
# Gains that differ by fewer deviations of their noise are as good.
_AS_GOOD = 0.5


def best_of(gains: Released, counts_from: float) -> float:
    """The largest share worth about the most; 0 if none is worth any.

    About: noise must tell a smaller share from it. A gain by all counts from so many
    deviations of its noise on, and one by a share from that share of them.
    """
    noise = gains.deviation
    as_good = gains.value >= gains.value.max() - _AS_GOOD * noise
    first = int(np.argmax(as_good))
    share = SHARES[first]
    return share if gains.value[first] > counts_from * share * noise else 0.0


def share_for(
    wanted: float, strength: float, least: float, most: float, number: int = 1
) -> float:
    """Of mu squared, for so much noise in each of so many sums, within limits.

    Noise in a sum is over the number of records.
    """
    return min(max(number / (wanted * strength) ** 2, least), most)
