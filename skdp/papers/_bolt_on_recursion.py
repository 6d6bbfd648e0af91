"""The recursion behind the sensitivity of permutation-based gradient descent.

It is a separate module since it runs both as plain Python (`skdp.papers._bolt_on`) and,
for many updates, compiled (`skdp.papers._bolt_on_kernel`).
"""

from __future__ import annotations

import numpy as np

from skdp._arrays import FloatArray


def what_is_left(
    steps: FloatArray, shares: FloatArray, smoothness: float, strength: float
) -> FloatArray:
    """Factor by which a change of the weights after each update reaches the average.

    The recursion is ``s_t = share_t + rho_{t+1} s_{t+1}``, from the last update back,
    where rho bounds the growth of distances in an update. Arrays have shape
    (n_updates,).
    """
    left = np.empty_like(steps)
    later = 0.0
    for t in range(len(steps) - 1, -1, -1):
        later += shares[t]
        left[t] = later
        step = steps[t]
        later *= max(abs(1.0 - step * strength), abs(1.0 - step * smoothness))
    return left
