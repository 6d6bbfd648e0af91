"""Normalised steps along a momentum that is released through trees, repaired.

Algorithm 1 of [1]_: the records are cut, by position, into ``n_leaves`` batches of at
most m records, and an epoch goes through all of them in the same order. With ``g_t``
the gradient sum at ``W_t`` over the batch of step t,

    M_t = momentum * M_{t-1} + (1 - momentum) * (g_t + N_t) / m
    W_{t+1} = W_t - step_length * D_t / |D_t|,   D_t = M_t + alpha * W_t.

The noise N is correlated so that the noise of every M_t is that of the few tree nodes
which cover the steps of the epoch so far, plus the fading noise of earlier epochs.

Algorithm 2, by differences: with A_e the weights that epoch e begins with, and
``[f]_t = f_t + momentum * f_{t-1} + ...`` over the last n_leaves steps, M_t is
``(1 - momentum) * (S_t + R_t) / m``, where

    G_t = [gradient sums at A_e]_t,  C_t = [their changes from A_{e-1} to A_e]_t,
    H_t = (1 - refresh) * (H_{t-n} + C_t) + refresh * G_t  (G_t in two epochs),
    S_t = H_t + momentum^n * S_{t-n},
    R_t = momentum * R_{t-1} + (the change from A_e to W_t).

Changes have little noise if steps are short. Without noise both algorithms are equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from skdp._arrays import FloatArray
from skdp._checks import check_bool, check_count, check_real
from skdp._configured import Checks, Given
from skdp.losses._objective import LinearObjective
from skdp.papers._momentum import ClippedChange, check_shares
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.noise._correlated import BinaryTrees
from skdp.privacy.release._answers import Answers
from skdp.privacy.release._plan import Correlated, Line, Plan
from skdp.solvers._base import box_radius
from skdp.solvers._descent import MARGIN_NOISE, LinearDescent
from skdp.solvers._steps import Steps, ranges
from skdp.sums._gradient import ClippedGradient

_GRADIENTS, _BETWEEN, _WITHIN = range(3)  # lines of the plan


class NormalisedSteps(Steps):
    """Steps of a public length along released directions."""

    def _moved(self, gradient: FloatArray, step_size: float) -> FloatArray:
        # In this order nothing overflows.
        largest = float(np.abs(gradient).max())
        if not 0 < largest < math.inf:
            return self.weights
        direction = gradient / largest
        return self.weights + -step_size * direction / np.linalg.norm(direction)


@dataclass(frozen=True, kw_only=True)
class TreeMomentum(LinearDescent):
    """Normalised descent with momentum from trees (DP-NSGD), repaired.

    Kept for replication and study: at equal privacy it has been worse than `noisy_gd`
    everywhere (Adult, epsilon 1, replace_one: 0.836 and 0.840). Records need an order
    that no record changes; for users, and for tables without an order, take `noisy_gd`.
    It refuses ``delta=0``.

    Parameters
    ----------
    n_leaves : int in [1, 10000], default=4
        Batches, and steps, of an epoch; 1 is full gradients.
    n_epochs : int in [1, 100000], default=20
        Readings of the table; all are taken, three times as many by differences.
    step_length : float in [1e-250, 1e250] or None, default=None
        Length of every step, in weights. None: with independent steps a row of norm
        `data_norm` ends at a raw prediction as noisy as `noisy_gd` admits.
    momentum : float in [0, 1) or None, default=None
        What the momentum keeps of itself. None: ``1 - 1 / n_leaves``, as in [1]_.
    by_differences : bool, default=False
        Algorithm 2 in place of Algorithm 1.
    refresh : float in [0, 1] or None, default=None
        gamma of Algorithm 2. None: the bound on a change over an epoch, over that on a
        gradient, at most 0.5.
    between_share, within_share : float in (0, 1), default=0.25
        Budget fractions of mu^2 for changes between epochs and within one.
    tail : float in [1e-9, 1], default=0.5
        Share of the last iterates that is averaged.

    Notes
    -----
    Released are the nodes of the trees, one Gaussian vector with the sensitivity of all
    nodes that hold a record: exactly ``1 / noise_multiplier``-GDP. All iterates may be
    published. Trees begin anew in every epoch and all epochs have one order, unlike
    [1]_ (``docs/notebook/errata.md``). Unit of privacy: one record. Proof:
    ``docs/proofs/streams.md``, Theorem 2.

    References
    ----------
    .. [1] Tran and Cutkosky (2022). Momentum aggregation for private non-convex ERM.
       NeurIPS.
    """

    key: ClassVar[str] = "tree_momentum"
    mechanism: ClassVar[str] = (
        "Gaussian noise on the nodes of trees over batches of records"
    )
    takes_nonconvex: ClassVar[bool] = True
    needs_order: ClassVar[bool] = True
    checks: ClassVar[Checks] = {
        **ranges("momentum", "tail"),
        "n_leaves": partial(check_count, high=10_000),
        "n_epochs": partial(check_count, high=100_000),
        "step_length": partial(check_real, low=1e-250, high=1e250),
        "by_differences": check_bool,
        "refresh": partial(check_real, low=0.0, high=1.0),
        "between_share": partial(check_real, low=1e-9, high=1.0, high_open=True),
        "within_share": partial(check_real, low=1e-9, high=1.0, high_open=True),
    }

    n_leaves: int = 4
    n_epochs: int = 20
    step_length: float
    momentum: float
    by_differences: bool = False
    refresh: float
    between_share: float = 0.25
    within_share: float = 0.25
    tail: float = 0.5

    @classmethod
    def by_rule(
        cls, given: Given, objective: LinearObjective, budget: Budget
    ) -> dict[str, Any]:
        n, loss = objective.n_samples, objective.loss
        size = -(-n // min(given.get("n_leaves", cls.n_leaves), n))
        n_leaves, n_epochs = -(-n // size), given.get("n_epochs", cls.n_epochs)
        # A random walk of `n_epochs` steps; a row sees one of `size` directions.
        n_weights = objective.n_columns * loss.n_outputs
        way = math.sqrt(n_epochs * n_weights) * MARGIN_NOISE * loss.prediction_unit
        by_rule = way / objective.data_norm / (n_epochs * n_leaves)
        step_length = given.get("step_length", by_rule)
        change = loss.smoothness * objective.row_norm * step_length * n_leaves
        rest = {
            "momentum": 1 - 1 / n_leaves,
            "refresh": min(0.5, change / loss.zero_out_bound(math.inf)),
        }
        decided = {"n_leaves": n_leaves, "step_length": step_length}
        if given.get("by_differences", cls.by_differences):
            check_shares(cls, given, "between_share", "within_share")
        return {**rest, **given, **decided}

    @property
    def gradient_share(self) -> float:
        """Fraction of mu squared that remains for gradients."""
        if not self.by_differences:
            return 1.0
        return 1 - self.between_share - self.within_share

    def leaf_size(self, objective: LinearObjective) -> int:
        """Records of a batch, the divisor of sums; the last batch may have fewer."""
        return -(-objective.n_samples // self.n_leaves)

    def plan(self, objective: LinearObjective) -> Plan:
        def line(n_epochs: int, share: float) -> Line:
            trees = BinaryTrees(self.n_leaves, n_epochs, self.momentum)
            nodes = Correlated(self.leaf_size(objective), trees)
            return Line(nodes.times, mu_share=share, sample=nodes)

        gradients = line(self.n_epochs, self.gradient_share)
        if not self.by_differences:
            return Plan((gradients,))
        between = line(self.n_epochs - 1, self.between_share)
        return Plan((gradients, between, line(self.n_epochs, self.within_share)))

    def sensitivity(self, objective: LinearObjective) -> float:
        # Sensitivity of all nodes of one kind, in which each answer counts in units of
        # its bound; the grid of the noise adds to it (`Correlated.on_grid`).
        trees = BinaryTrees(self.n_leaves, self.n_epochs, self.momentum)
        return Correlated(self.leaf_size(objective), trees).joint

    def gradients(self, objective: LinearObjective) -> ClippedGradient:
        return ClippedGradient(objective)

    def steps(self, objective: LinearObjective, start: FloatArray) -> Steps:
        sizes = np.full(self.n_leaves * self.n_epochs, self.step_length)
        alpha, farthest = objective.alpha, box_radius(objective)
        return NormalisedSteps(start, sizes, alpha, farthest, self.tail)

    def means(
        self, answers: Answers, objective: LinearObjective, steps: Steps
    ) -> Iterator[FloatArray]:
        follow = self._reduced if self.by_differences else self._plain
        return follow(answers, objective, steps)

    def _plain(
        self, answers: Answers, objective: LinearObjective, steps: Steps
    ) -> Iterator[FloatArray]:
        """The momentum of Algorithm 1, at weights that follow it."""
        sums, kept = self.gradients(objective), self.momentum
        share = (1 - kept) / self.leaf_size(objective)
        momentum = np.zeros(objective.shape)
        for _ in range(steps.n_steps):
            answer = answers.ask(sums.at(steps.weights)).value
            momentum = kept * momentum + share * answer
            yield momentum

    def _reduced(
        self, answers: Answers, objective: LinearObjective, steps: Steps
    ) -> Iterator[FloatArray]:
        """The momentum of Algorithm 2, at weights that follow it."""
        gradients = self.gradients(objective)
        changes = ClippedChange(objective, change_clip=math.inf, refresh=0.0)
        n, kept, zero = self.n_leaves, self.momentum, np.zeros(objective.shape)
        share, faded = (1 - kept) / self.leaf_size(objective), kept**n
        # By leaf, from the previous epoch: both kinds of answers, and H and S.
        told, moved, windows, sums = ([zero] * n for _ in range(4))
        own = between = within = zero  # G, C and R
        anchor = steps.weights
        for epoch in range(self.n_epochs):
            before, anchor = anchor, steps.weights
            for leaf in range(n):
                answer = answers.ask(gradients.at(anchor), _GRADIENTS).value
                own = kept * own + answer - faded * told[leaf]
                told[leaf], window = answer, own
                if epoch:
                    answer = answers.ask(changes.since(before, anchor), _BETWEEN).value
                    between = kept * between + answer - faded * moved[leaf]
                    moved[leaf] = answer
                if epoch > 1:
                    window = (1 - self.refresh) * (windows[leaf] + between)
                    window = window + self.refresh * own
                windows[leaf] = window
                sums[leaf] = window + faded * sums[leaf]
                answer = answers.ask(
                    changes.since(anchor, steps.weights), _WITHIN
                ).value
                within = kept * within + answer
                yield share * (sums[leaf] + within)
