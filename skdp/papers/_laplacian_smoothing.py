r"""Gradient descent on samples whose noisy gradients are smoothed along the features.

Algorithm: as `noisy_sgd`, with every gradient G of the features, penalty and noise
included, replaced by the solution U of ``(I - strength L) U = G``, where L is the
periodic second difference along the features in their order, or along the rows and
columns of a grid of them. The intercept's is left as it is. With `adam` the steps along
U are Adam's (DP-LSAdam), with `momentum` for its first decay.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from skdp._configured import Checks, Given
from skdp._floats import FloatArray
from skdp._validation import check_bool, check_count, check_real
from skdp.exceptions import Refused
from skdp.objectives._linear import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._answers import Answers
from skdp.solvers._base import Solution
from skdp.solvers._noisy_sgd import NoisySGD
from skdp.solvers._progress import Progress
from skdp.solvers._steps import AdamSteps, Steps

_OWN = ("strength", "adam", "beta_2")
# Settled on the validation part of a9a; of weights, since Adam's steps have no unit.
_ADAM = {"step_size": 0.1, "momentum": 0.9}


def smoothed(gradient: FloatArray, strength: float, axis: int) -> FloatArray:
    """What the inverse of ``I - strength L`` makes of a released gradient.

    L is the periodic second difference along `axis`; post-processing.
    """
    length = gradient.shape[axis]
    angles = 2 * np.pi * np.arange(length) / length
    keeps = 1 / (1 + 2 * strength * (1 - np.cos(angles)))
    shape = [1] * gradient.ndim
    shape[axis] = length
    spectrum = np.fft.fft(gradient, axis=axis) * keeps.reshape(shape)
    return np.asarray(np.fft.ifft(spectrum, axis=axis).real)


@dataclass(frozen=True, kw_only=True)
class LaplacianSmoothing(NoisySGD):
    r"""Noisy gradient descent on samples with smoothed gradients (DP-LSSGD).

    Kept for replication and study (``docs/papers/laplacian_smoothing.md``). Smoothing
    helps where neighbouring features should have similar weights, such as pixels, and
    a run has too much noise; it is a smaller step in rough directions. Where columns
    have no order it mixes what does not belong together.

    Privacy
    -------
    That of `noisy_sgd`, for every strength: an invertible public map of a release
    leaves its privacy as it is, and the noise is calibrated as if there was none
    (``docs/proofs/laplacian_smoothing.md``). Unit of privacy: one record.

    Parameters
    ----------
    strength : float in [0, 1e6], default=1.0
        sigma of [1]_: 0 smooths nothing.
    n_across : int in [1, 1e9] or None, default=None
        Features lie in rows of so many, as pixels of an image do: smoothing is along
        rows and columns. It must divide the number of features. None: along all
        features in their order, as in [1]_.
    adam : bool, default=False
        Whether steps are divided by the roots of smoothed gradients' squares, as in
        Algorithm 6 of [1]_.
    beta_2 : float in [0, 1), default=0.999
        Decay of these squares.
    n_steps, batch_size, step_size, momentum, residual_clip, intercept_weight, tail
        As for `noisy_sgd`; with `adam` a step of size 0.1 and momentum 0.9, if they
        are not given.

    References
    ----------
    .. [1] Wang (2021). Towards efficient and effective privacy-preserving machine
       learning. PhD thesis, UCLA. (chapter 5, Algorithm 5)
    .. [2] Osher, Wang, Yin, Luo, Barekat, Pham and Lin (2022). Laplacian smoothing
       gradient descent. Research in the Mathematical Sciences 9(55).
       https://arxiv.org/abs/1806.06317

    Deviations: Poisson samples and numerical composition in place of the thesis's
    theorem, whose conditions do not hold in its experiments (docs/errata.md).
    """

    key: ClassVar[str] = "laplacian_smoothing"
    is_recommended: ClassVar[bool] = False
    checks: ClassVar[Checks] = {
        **NoisySGD.checks,
        "strength": partial(check_real, low=0.0, high=1e6),
        "n_across": partial(check_count, high=10**9),
        "adam": check_bool,
        "beta_2": partial(check_real, low=0.0, high=1.0, high_open=True),
    }

    strength: float = 1.0
    adam: bool = False
    beta_2: float = 0.999
    n_across: int

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        cls.check(objective, budget)
        d = objective.n_features
        own: dict[str, Any] = {"n_across": given.get("n_across", d)}
        if d % own["n_across"]:
            raise Refused(
                f"solver={cls.key!r} needs an 'n_across' that divides the number of "
                f"features, {d}. Got {own['n_across']}. Use None for one row of all."
            )
        own |= {name: given[name] for name in _OWN if name in given}
        rest = {name: value for name, value in given.items() if name not in own}
        if own.get("adam", cls.adam):
            rest = _ADAM | rest
        like = NoisySGD.planned(rest, objective, budget)
        return cls(**like.params, **own)

    def smoothed(self, gradient: FloatArray, objective: LinearObjective) -> FloatArray:
        """A released gradient, smoothed along the grid of features; post-processing."""
        if self.strength == 0:
            return gradient
        d, k = objective.n_features, gradient.shape[1]
        own = gradient[:d].reshape(d // self.n_across, self.n_across, k)
        for axis in (0, 1):
            own = smoothed(own, self.strength, axis)
        return np.concatenate([own.reshape(d, k), gradient[d:]])

    def walk(self, objective: LinearObjective, n_steps: int) -> Steps:
        if not self.adam:
            return super().walk(objective, n_steps)
        start, pace = np.zeros(objective.shape), self.pace(objective, n_steps)
        return AdamSteps(start, pace, (self.momentum, self.beta_2))

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        sums = self.gradients(objective)
        walk = self.walk(objective, self.n_steps)
        for t in range(self.n_steps):
            query = sums.at(walk.weights)
            mean = query.read(answers.ask(query).value) / self.batch_size
            public = objective.alpha * walk.weights
            # The walk adds the penalty's gradient, which is to be smoothed as well.
            walk.step(self.smoothed(mean + public, objective) - public)
            progress.step(t + 1, self.n_steps)
        return Solution(walk.average(), answers.noise_scale, path=walk.path)
