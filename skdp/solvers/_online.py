r"""One pass of gradient descent over disjoint buckets of records.

Algorithm: the records are cut, by position, into ``T = ceil(n / bucket_size)`` buckets
of consecutive records. With ``g_t`` the clipped gradient sum over bucket t,

    V_{t+1} = momentum * V_t - step_size * ((g_t + N_t) / bucket_size + alpha * W_t)
    W_{t+1} = W_t + V_{t+1},

and the release is the mean of the last ``tail`` share of the iterates. Every record is
read once. The divisor is the same for all buckets, the last one too, which may hold
fewer records: an average over those would have a larger sensitivity.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self

from skdp._validation import check_count
from skdp.data import Block, Source
from skdp.losses import Loss
from skdp.privacy._accounting import Budget
from skdp.privacy._events import Event
from skdp.privacy._laws import LAWS, deviation_once
from skdp.privacy._noise import NoiseSource
from skdp.solvers._base import Problem, Progress, Solution
from skdp.solvers._chosen_law import ChosenLaw
from skdp.solvers._configured import Checks
from skdp.solvers._descent import Descent, MomentumSteps
from skdp.solvers._flow_time import OnePassFlowTime
from skdp.solvers._noisy_gradient import NoisyGradient


class Bucket:
    """Some consecutive records, a source like any other; too small to be compiled for.

    Parameters
    ----------
    n_features : int
    pieces : list of Block
    """

    is_row_major = False
    is_stable = True

    def __init__(self, n_features: int, pieces: list[Block]) -> None:
        sizes = [len(piece.y) for piece in pieces]
        self.n_samples, self.n_features = sum(sizes), n_features
        self.largest_block = max(sizes)
        self._pieces = pieces

    def blocks(self) -> Iterator[Block]:
        """The pieces of blocks that make up the bucket."""
        yield from self._pieces


def buckets(source: Source, size: int) -> Iterator[Bucket]:
    """Runs of `size` consecutive records, the last one shorter; one reading in all.

    It shows every record once, so every record is in one bucket, whatever the order.
    """
    pieces: list[Block] = []
    held = 0
    for block in source.blocks():
        start = 0
        while start < len(block.y):
            end = min(start + size - held, len(block.y))
            pieces.append(_piece(block, slice(start, end)))
            held += end - start
            start = end
            if held == size:
                yield Bucket(source.n_features, pieces)
                pieces, held = [], 0
    if pieces:
        yield Bucket(source.n_features, pieces)


def _piece(block: Block, rows: slice) -> Block:
    present = None if block.present is None else block.present[rows]
    return Block(block.X[rows], block.y[rows], present)


@dataclass(frozen=True, kw_only=True)
class OnlineGD(Descent, ChosenLaw):
    r"""One noisy pass over disjoint buckets, with momentum and tail averaging.

    Privacy
    -------
    Every record is in one bucket, fixed by its position; so releasing *all* gradient
    sums costs what releasing one of them costs, however many there are: exactly
    ``1 / noise_multiplier``-GDP with Gaussian noise, ``1 / noise_multiplier``-DP with
    spherical noise. All iterates may be published. Parallel composition of adaptive
    releases is proved in ``docs/proofs/online.md``. Unit of privacy: one record.

    Utility
    -------
    T steps have ``sqrt(T)`` times the noise of T steps over all records, so the rule
    takes few: with the flow time s of its run, noise of standard deviation
    ``s * sqrt(T) * S / (n mu)`` per weight in flat directions. For tables that can be
    read only once, and for delta = 0.

    Parameters
    ----------
    bucket_size : int in [1, 2^31] or None, default=None
        Records of a bucket; more than there are means all of them, and one step.
        Public. None: the rule above, at most 300 buckets.
    step_size : float in [1e-250, 1e250] or None, default=None
        In units of weights per gradient of the mean loss. None: the flow time of the
        rule divided by the steps, at most ``1 / L`` with the public smoothness
        bound ``L = smoothness * row_norm^2 + alpha``.
    momentum : float in [0, 1) or None, default=None
        Heavy-ball momentum. None: ``1 - 10 / n_steps``, at least 0.
    residual_clip : float in [1e-6, inf] or None, default=None
        Norm to which every record's residual is clipped. None: as for `noisy_gd`.
    intercept_weight : float in [1e-6, 1] or None, default=None
        Factor on the intercept's part of every query, undone after the noise. None: as
        for `noisy_gd`.
    tail : float in [1e-9, 1] or None, default=None
        Share of the last iterates that is averaged; the very last one if the share
        is smaller than one step. None: 0.5.
    law : {"gaussian", "spherical"} or None, default=None
        Law of the noise. None: spherical if delta is 0, which is what it needs,
        Gaussian otherwise.

    References
    ----------
    .. [1] Kuru (2019). Novel gradient-based methods for data distribution and privacy
       in data science. PhD thesis, Sabanci University. (DP-onlineGDwS, its section
       4.3.1)
    .. [2] McSherry (2009). Privacy integrated queries. SIGMOD. (parallel composition)

    Deviations: spherical or Gaussian noise for the L2 sensitivity in place of Laplace
    noise; heavy ball, to which the thesis's smoothing is equal; tail averaging; the
    sensitivity follows the released weights.
    """

    key: ClassVar[str] = "online"
    checks: ClassVar[Checks] = {
        **ChosenLaw.checks,
        **Descent.checks,
        "bucket_size": partial(check_count, high=2**31),
    }

    bucket_size: int | None = None

    def refusal(self, loss: Loss, problem: Problem, budget: Budget) -> str:
        reason = super().refusal(loss, problem, budget)
        return reason or self.noise_refusal(budget, problem.n_columns * loss.n_outputs)

    def resolve(self, loss: Loss, problem: Problem, budget: Budget) -> Self:
        law, size = self.law_for(budget), problem.n_columns * loss.n_outputs
        mu = 1 / deviation_once(LAWS[law], budget, size)
        rule = OnePassFlowTime(loss, problem, mu)
        flow, clip, weight = self._query_rules(rule)
        bucket_size = self.bucket_size
        if bucket_size is None:
            bucket_size = -(-problem.n_samples // rule.steps(flow))
        bucket_size = min(bucket_size, problem.n_samples)
        n_steps = -(-problem.n_samples // bucket_size)
        momentum, step_size = self._step_rules(rule, flow, n_steps)
        return replace(
            self,
            bucket_size=bucket_size,
            step_size=step_size,
            momentum=momentum,
            residual_clip=clip,
            intercept_weight=weight,
            tail=0.5 if self.tail is None else self.tail,
            law=law,
        )

    @property
    def mechanism(self) -> str:
        return f"{self.noise_law.name} noise on disjoint buckets of records"

    def event(self, noise_multiplier: float, loss: Loss, problem: Problem) -> Event:
        # One release for all buckets: they have no record in common.
        return self.noise_law.event(noise_multiplier)

    def n_steps(self, problem: Problem) -> int:
        """Number of buckets, the last of which may be shorter."""
        assert self.bucket_size is not None, "resolve() fills in the bucket size"
        return -(-problem.n_samples // self.bucket_size)

    def run(
        self,
        source: Source,
        loss: Loss,
        problem: Problem,
        noise_multiplier: float,
        noise: NoiseSource,
        progress: Progress,
    ) -> Solution:
        assert self.bucket_size is not None, "resolve() fills in the bucket size"
        n_steps, noise_scale = self.n_steps(problem), 0.0
        walk = MomentumSteps(self, loss, problem, n_steps)
        for t, bucket in enumerate(buckets(source, self.bucket_size)):
            gradient = NoisyGradient(
                bucket, loss, problem, noise, self.noise_law, **self.query
            )
            walk.step(gradient(walk.weights, noise_multiplier) / self.bucket_size)
            noise_scale = max(noise_scale, gradient.noise_scale)
            progress.step(t + 1, n_steps)
        return Solution(walk.average(), noise_scale)
