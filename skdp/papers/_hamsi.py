"""HAMSI: incremental quasi-Newton steps on subsets of the ratings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from skdp._configured import Checks
from skdp._validation import check_bool, check_count
from skdp.decomposition._factorizer import Draws
from skdp.papers._incremental import Incremental
from skdp.papers._inverse_hessian import InverseHessian


@dataclass(frozen=True, kw_only=True)
class HAMSI(Incremental):
    r"""Hessian approximated multiple subsets iteration, algorithm 3 of [1]_.

    A cycle takes a step ``x -= H g_k / beta_t`` on each of K subsets and one more on
    the first, with one limited-memory BFGS inverse Hessian H for the whole cycle. The
    two gradients of the first subset give the cycle's pair for H, so that curvature is
    never the difference of two functions. Both are taken before the last step; the
    thesis prints an s with that step and a y without it.

    Gradients of subsets are exact in every partition, with any number of threads: no
    two threads write to one place. So "hogwild" is a random split without the races of
    its name.

    A cycle after which the objective has grown is undone and the next one's steps are
    shortened, so that the method cannot diverge.

    Parameters
    ----------
    n_steps : int in [1, 1e6], default=100
        Cycles through all subsets.
    partition : {"strata_balanced", "strata", "color", "color_balanced", "hogwild"}
        How ratings are divided in subsets.
    schedule : {"deterministic", "stochastic"}, default="deterministic"
        The order of subsets: a cycle, or a random one.
    n_subsets : int in [1, 1e6] or None, default=None
        K; at most the number of users and of items for strata, of ratings for others.
        None: 2.
    n_corrections : int in [1, 100], default=5
        Pairs that H is made of.
    eta, gamma : float in (0, 1e6], float in [0, 1], default=0.06, 0.51
        ``beta_t = (eta t)^gamma``.
    least_divisor : float in [0, 1e6], default=1.0
        Least value of beta_t; 0 in the thesis.
    first_step : float in (0, 1e6] or None, default=None
        The scale of H before there is a pair. None: the first step is a hundredth of
        the start's norm.
    capped : bool, default=False
        Whether the scale of H may never grow, as in the thesis's experiments.
    waits : bool, default=False
        Whether steps are gradient steps until there are `n_corrections` pairs, as in
        the thesis, or use what there is.
    safeguarded : bool, default=True
        Whether cycles are undone if the objective grows. Otherwise only those that end
        in numbers which are not finite.
    start_scale : float in [0, 1e6] or None, default=None
        Standard deviation of the factors at the start. None: the predictions have
        half the deviation of the ratings.

    References
    ----------
    .. [1] Kuru (2019). Novel gradient-based methods for data distribution and privacy
       in data science. PhD thesis, Sabancı University.
    """

    key: ClassVar[str] = "hamsi"
    has_curvature: ClassVar[bool] = True
    least_damping: ClassVar[float] = 1.0
    checks: ClassVar[Checks] = {
        **Incremental.checks,
        "n_corrections": partial(check_count, high=100),
        "capped": check_bool,
        "waits": check_bool,
    }

    n_corrections: int = 5
    capped: bool = False
    waits: bool = False

    def inverse_hessian(self, size: int, dtype: np.dtype) -> InverseHessian:
        """A multiple of the identity."""
        sigma = math.nan if self.first_step is None else self.first_step
        return InverseHessian(
            size, self.n_corrections, sigma, dtype, self.capped, self.waits
        )


@dataclass(frozen=True, kw_only=True)
class MinibatchGD(Incremental):
    """Gradient steps on one subset after another: what HAMSI is compared with.

    Safeguarded, it tunes its own step: an undone cycle shortens it, any other makes it
    longer. Parameters are those of `HAMSI`.
    """

    key: ClassVar[str] = "minibatch_gd"
    has_curvature: ClassVar[bool] = False
    least_damping: ClassVar[float] = 1e-6

    def order(self, cycle: int, n_subsets: int, rng: Draws) -> list[int]:
        """Every subset once."""
        return super().order(cycle, n_subsets, rng)[:-1]

    def inverse_hessian(self, size: int, dtype: np.dtype) -> InverseHessian:
        """A multiple of the identity, for good."""
        sigma = math.nan if self.first_step is None else self.first_step
        return InverseHessian(size, 0, sigma, dtype)
