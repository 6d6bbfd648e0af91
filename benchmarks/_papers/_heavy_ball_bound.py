"""The bound of Theorem 3.5 on the heavy ball: as printed, and with its own rate.

[1] Kuru, Birbil, Gürbüzbalaban and Yıldırım (2022), equations (25) and (26).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skdp._arrays import FloatArray

Rate = Callable[[float, float, float], float]


def _largest(trace: float, determinant: float) -> float:
    """Largest magnitude of the roots of a - trace a^1 + determinant."""
    return float(np.abs(np.roots([1.0, -trace, determinant])).max())


def printed_rate(step: float, momentum: float, curvature: float) -> float:
    """(26) in one direction: that of Nesterov's method."""
    left = 1 - step * curvature
    return _largest((1 + momentum) * left, momentum * left)


def right_rate(step: float, momentum: float, curvature: float) -> float:
    """The heavy ball's, of its own characteristic polynomial."""
    return _largest(1 + momentum - step * curvature, momentum)


def fastest_momentum(step: float, curvatures: FloatArray, rate: Rate) -> float:
    """The momentum of the least rate, to 1e-4."""
    trials = np.linspace(0.0, 0.9999, 10_000)
    rates = [max(rate(step, trial, c) for c in curvatures) for trial in trials]
    return float(trials[int(np.argmin(rates))])


def bound(
    n_steps: int,
    step: float,
    momentum: float,
    curvatures: FloatArray,
    deviation: float,
    start: float,
    rate: Rate,
) -> float:
    """(25) after the last step, with C_t = t as in the paper's demonstration.

    Parameters
    ----------
    deviation : float
        Of the noise in one direction of a gradient.
    start : float
        V(xi_0) without noise.
    """
    rho = max(rate(step, momentum, c) for c in curvatures)
    variance = deviation**2
    noise = 2 * step * (1 + momentum) / (1 - momentum)
    left = curvatures * (2 + 2 * momentum - step * curvatures)
    stays = variance / 2 * float(np.sum(noise / left))
    begins = start + variance * step**2 / (1 - rho**2)
    goes = n_steps**2 * rho ** (2 * n_steps)
    return float(begins * goes + curvatures.max() * stays)


def least(
    step: float, momentum: float, curvatures: FloatArray, scale: float, rate: Rate
) -> tuple[float, int]:
    """Logarithm of the least bound over 1 to 250 steps, and their number.

    The noise's deviation is `scale` times the number of steps, and V(xi_0) is 10, as in
    the released code.
    """
    logs = [
        np.log(bound(n, step, momentum, curvatures, n * scale, 10.0, rate))
        for n in range(1, 251)
    ]
    best = int(np.argmin(logs))
    return float(logs[best]), best + 1
