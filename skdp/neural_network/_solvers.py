"""Private descents of networks: gradient descent, Poisson samples, Adam."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from skdp._arrays import FloatArray
from skdp._checks import check_choice, check_real
from skdp._configured import Checks, Given, given_params
from skdp._fit import NamedKind, PrivateSolver, Progress
from skdp.exceptions import Refused
from skdp.losses._classification import typical_weight
from skdp.losses._objective import FARTHEST, LinearObjective, NetworkObjective
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._gaussian import gaussian_mu
from skdp.privacy.accounting._relations import is_of_users
from skdp.privacy.release._answers import Answers
from skdp.privacy.release._plan import Plan
from skdp.solvers._base import Solution
from skdp.solvers._centred_descent import share_of
from skdp.solvers._default_rules import signal_to_noise_of
from skdp.solvers._steps import (
    AdamSteps,
    Descent,
    MomentumSteps,
    PoissonSamples,
    ranges,
)
from skdp.sums._network import ClippedNetworkGradient

# ----------------------------------------------------------- Defaults from public facts
# The defaults are few, and accuracy is flat around their best values. They were chosen
# once, on held-out records of training parts (docs/notebook/benchmarks.md), as
# functions of n mu: the number of records over the deviation of the noise that hides
# one record.


# Norm of the longest rows at the first layer, beside the 1 of the biases.
INPUT_NORM = 6.0
# Clip of a joint gradient, in the loss's units: most gradients are shorter in the end,
# so that probabilities are not distorted; with a clip of 1 they were overconfident.
_CLIP = 4.0
# Size of a step, in the loss's units and over its curvature in one output.
_STEP = 0.25
# Losses that are not convex are flat almost everywhere: their steps are as long as if
# they had the log-loss's curvature.
_NOT_CONVEX = 0.25
# With convolutions, whose weights act at many positions, steps are shorter.
_WITH_FILTERS = 1 / 3
TAIL, LAST_STEP = 0.5, 0.1
ADAM_STEP = 0.01
# Number of records up to which every step reads all, and expected sample size above it.
_FEW_RECORDS, _BATCH = 8192, 4096
# Number of steps at this n mu, which grows with its root, and limits; momentum that
# lengthens the path may double the upper limit nearly.
_STEPS, _SIGNAL, _FEWEST, _MOST = 200, 3000.0, 30, 400
# n mu below which steps are shorter, and n mu for each output above which momentum
# lengthens the path.
_WEAK_SIGNAL, _STRONG_SIGNAL = 500.0, 4500.0
_MOST_MOMENTUM = 0.9
# Number of steps without noise.
_EXACT_STEPS = 300


def signal_of(objective: NetworkObjective, budget: Budget) -> float:
    """Signal n mu, halved if a record is exchanged for another.

    With weighted labels n is the expected effective number of records, in units of the
    heaviest label.
    """
    effective_n = objective.n_samples * typical_weight(objective.loss)
    return signal_to_noise_of(effective_n, budget, objective.adjacency)


def n_steps_of(objective: NetworkObjective, budget: Budget) -> int:
    """Number of steps: sqrt(n mu), scaled, from 30 to 400, or 760 with momentum."""
    if not budget.is_finite:
        return _EXACT_STEPS
    wanted = _STEPS * math.sqrt(signal_of(objective, budget) / _SIGNAL)
    most = _MOST * (1 + momentum_of(objective, budget))
    return round(min(max(wanted, _FEWEST), most))


def gradient_clip_of(objective: NetworkObjective, budget: Budget) -> float:
    """Clip of gradients: a few units of the loss; none without noise."""
    return _CLIP * _unit_of(objective) if budget.is_finite else math.inf


def momentum_of(objective: NetworkObjective, budget: Budget) -> float:
    """Momentum that lengthens the path in proportion to n mu, up to ten times."""
    strong = _STRONG_SIGNAL * objective.loss.n_outputs
    unused = 1 - strong / signal_of(objective, budget)
    return min(max(0.0, unused), _MOST_MOMENTUM)


def step_size_of(objective: NetworkObjective, budget: Budget, momentum: float) -> float:
    """Size of the first step, over the curvature in an output; less under strong noise.

    With another momentum than the rule's the path stays as long.
    """
    loss = objective.loss
    curvature = loss.curvature_trace / loss.n_outputs
    if not loss.is_convex:
        curvature = min(curvature, _NOT_CONVEX)
    curvature *= typical_weight(loss)
    step = _STEP * (_WITH_FILTERS if objective.convolutions else 1.0)
    weak = min(1.0, signal_of(objective, budget) / _WEAK_SIGNAL)
    same_way = (1 - momentum) / (1 - momentum_of(objective, budget))
    return step / (curvature * _unit_of(objective)) * weak * same_way


def _unit_of(objective: NetworkObjective) -> float:
    """Unit of raw predictions; 1 for targets without bounds."""
    unit = objective.loss.prediction_unit
    return unit if math.isfinite(unit) else 1.0


def batch_size_of(
    given: Given, objective: NetworkObjective, budget: Budget, rest: dict[str, Any]
) -> int:
    """Expected records in a sample, given or by rule; at most the number of records.

    Raises
    ------
    Refused
        For samples of users: some rows of a user would be drawn and others not.
    """
    n = objective.n_samples
    if not budget.is_finite:
        return n  # without noise all records are read at each step
    by_rule = n
    if n > _FEW_RECORDS and not is_of_users(objective.adjacency):
        by_rule = _sample_by_rule(n, budget, rest)
    size = min(int(given.get("batch_size", by_rule)), n)
    if size < n and is_of_users(objective.adjacency):
        raise Refused(
            "A batch_size below the number of users needs privacy_unit='record': a "
            f"sample of rows would have only some rows of a user. Got {size}. "
            "Leave it out."
        )
    return size


def _sample_by_rule(n: int, budget: Budget, rest: dict[str, Any]) -> int:
    # mu is about rate * sqrt(n_steps) / multiplier, which should not fall below 1.
    mu = gaussian_mu(budget.epsilon, budget.delta)
    rate = min(1.0, mu / math.sqrt(rest["n_steps"]))
    return max(_BATCH, math.ceil(rate * n))


# -------------------------------------------- NetworkDescent: parameters, plan and walk


class Trained(NamedTuple):
    """The weights of a released network, in the units of the loss.

    Parameters
    ----------
    weights : ndarray of float64 of shape (n_weights,)
    information : float
        Squared n mu of all fits that the weights come from.
    """

    weights: FloatArray
    information: float


@dataclass(frozen=True, kw_only=True)
class NetworkDescent(
    Descent[NetworkObjective], PrivateSolver[NetworkObjective, Solution]
):
    """A descent along noisy sums of clipped gradients.

    Parameters
    ----------
    n_steps : int in [1, 1e6]
        Number of sums, all of them taken. Public.
    step_size : float in [1e-250, 1e250]
        Size of the first step.
    last_step : float in (0, 1]
        The last step's size over the first one's; the sizes between fall evenly.
    gradient_clip : float in [1e-6, 1e6] or inf
        Norm to which every record's joint gradient of all layers is clipped; inf
        without privacy only.
    tail : float in [1e-9, 1]
        Share of the last iterates that is averaged; the very last one if the share is
        smaller than one step.
    before : Trained or None, default=None
        The released network that this descent continues.
    """

    checks: ClassVar[Checks] = {
        **ranges("n_steps", "step_size", "tail"),
        "last_step": partial(check_real, low=0.0, high=1.0, low_open=True),
        "gradient_clip": partial(check_real, low=1e-6, high=math.inf),
    }

    n_steps: int
    step_size: float
    last_step: float
    gradient_clip: float
    tail: float
    before: Trained | None = None
    learned_share: float = 1.0

    @classmethod
    def planned(cls, given: Given, objective: NetworkObjective, budget: Budget) -> Self:
        """The solver with missing parameters set by rules of public facts.

        Parameters
        ----------
        given : mapping
            Checked parameters.
        objective : NetworkObjective
        budget : Budget

        Raises
        ------
        Refused
            If this solver cannot do the job.
        """
        if budget.delta == 0 and budget.is_finite:
            raise Refused(
                f"solver={cls.key!r} adds Gaussian noise and cannot do delta=0. "
                "Use a delta above 0."
            )
        if budget.is_finite and given.get("gradient_clip", 1.0) > 1e6:
            raise Refused(
                f"solver={cls.key!r} needs a gradient_clip of at most 1e6, or no noise "
                f"could hide a record. Got {given['gradient_clip']:g}. Use None."
            )
        return cls(**cls.by_rule(given, objective, budget))

    @classmethod
    def by_rule(
        cls, given: Given, objective: NetworkObjective, budget: Budget
    ) -> dict[str, Any]:
        """All parameters; a rule decides each one that is not given."""
        return {
            "n_steps": n_steps_of(objective, budget),
            "last_step": LAST_STEP,
            "gradient_clip": gradient_clip_of(objective, budget),
            "tail": TAIL,
            **given,
        }

    def gradients(self, objective: NetworkObjective) -> ClippedNetworkGradient:
        return ClippedNetworkGradient(objective, self.gradient_clip)

    def after(self, before: Trained, signal: float, given: Given) -> Self:
        """The descent that starts at a released network and adds what it learns to it.

        Both the steps and what is added at the end have the share that the precision of
        both fits recommends, because the noise of a network's steps is not damped.
        """
        share = share_of(signal, before.information)
        step_size = given.get("step_size", share * self.step_size)
        own = replace(self, step_size=step_size)
        return replace(own, before=before, learned_share=share)

    @property
    def params(self) -> dict[str, Any]:
        own = super().params
        share, before = own.pop("learned_share"), own.pop("before")
        return own if before is None else {**own, "learned_share": share}

    def run(
        self, answers: Answers, objective: NetworkObjective, progress: Progress, /
    ) -> Solution:
        if self.before is None:
            start = objective.start(objective.seed)
            return self.descend(answers, objective, start, progress)
        start = self.before.weights
        found = self.descend(answers, objective, start, progress)
        mixed = start + self.learned_share * (found.weights - start)
        return replace(found, weights=mixed)

    def rehearse(self, answers: Answers, objective: NetworkObjective, /) -> Solution:
        return Solution(np.zeros(objective.n_weights), 0.0)

    @property
    def sizes(self) -> FloatArray:
        """Sizes of the steps."""
        fallen = (1 - self.last_step) * np.arange(self.n_steps)
        return self.step_size * (1 - fallen / max(1, self.n_steps - 1))


# ----------------------------------------------- NetworkGD: full-batch gradient descent
# Algorithm: with ``g_t`` the sum of all records' gradients at the weights ``W_t``, each
# clipped to the norm C as one vector of all layers,
#
#     V_{t+1} = momentum * V_t - step_t * ((g_t + N_t) / n + alpha * W_t)
#     W_{t+1} = W_t + V_{t+1},      N_t ~ N(0, sigma^2 I),
#
# steps fall evenly from `step_size` to `last_step` of it, and the release is the mean
# of the last `tail` share of the iterates.


@dataclass(frozen=True, kw_only=True)
class NetworkGD(NetworkDescent):
    """Noisy full-batch gradient descent of a network.

    For `DPMLPClassifier` and `DPMLPRegressor`. Its releases add up in squares in a
    ledger, and private searches accept it. `noisy_sgd` with all records at every step
    is the same descent, and ``solver="auto"`` takes `noisy_sgd`. It refuses
    ``delta=0``.

    Parameters
    ----------
    n_steps : int in [1, 1e6] or None, default=None
        Number of sums; all are taken. None: ``200 sqrt(n mu / 3000)``, from 30 to 400
        times one plus the momentum; mu is halved under replace_one.
    step_size : float in [1e-250, 1e250] or None, default=None
        Size of the first step, in weights per gradient of the mean loss. None: 0.25
        (0.75 for a regression) over the loss's mean curvature, and less if n mu is
        below 500.
    momentum : float in [0, 1) or None, default=None
        Heavy-ball momentum. None: ``1 - 4500 * n_outputs / (n mu)``, between 0 and 0.9.
    last_step : float in (0, 1] or None, default=None
        The last step's size over the first one's. None: 0.1.
    gradient_clip : float in [1e-6, 1e6] or None, default=None
        Norm C to which a record's joint gradient of all layers, biases included, is
        clipped. None: 4, or 1.33 for a regression; no clip if epsilon is inf.
    tail : float in [1e-9, 1] or None, default=None
        Share of the last iterates that is averaged. None: 0.5.

    Notes
    -----
    Released are ``n_steps`` sums that one record moves by at most C (zero_out) or 2 C
    (replace_one): exactly mu-GDP with ``mu = sqrt(n_steps) / noise_multiplier``. All
    iterates may be published. Unit of privacy: one record, or all rows of a user.
    Proof: ``docs/proofs/networks.md``, Theorem 1. Sums are of integers.

    References
    ----------
    .. [1] Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar and Zhang (2016). Deep
       learning with differential privacy. CCS. https://arxiv.org/abs/1607.00133
    .. [2] Goodfellow (2015). Efficient per-example gradient computations.
       https://arxiv.org/abs/1510.01799
    """

    key: ClassVar[str] = "noisy_gd"
    checks: ClassVar[Checks] = {
        **NetworkDescent.checks,
        **ranges("momentum"),
    }

    momentum: float

    @classmethod
    def by_rule(
        cls, given: Given, objective: NetworkObjective, budget: Budget
    ) -> dict[str, Any]:
        momentum = given.get("momentum", momentum_of(objective, budget))
        step_size = step_size_of(objective, budget, momentum)
        by_rule = {"step_size": step_size, "momentum": momentum}
        return by_rule | super().by_rule(given, objective, budget)

    def steps(self, objective: NetworkObjective, start: FloatArray) -> MomentumSteps:
        alpha, momentum = objective.alpha, self.momentum
        return MomentumSteps(
            start, self.sizes, alpha, FARTHEST, self.tail, momentum=momentum
        )


# -------------------------------------- NetworkSGD: gradient descent on Poisson samples
# The algorithm is that of `NetworkGD`, with a fresh, secret sample B_t in place of all
# records: every record enters independently with probability ``q = batch_size / n``.
# The sum is divided by the public batch_size, never by the number of records drawn.


@dataclass(frozen=True, kw_only=True)
class NetworkSGD(PoissonSamples[NetworkObjective], NetworkGD):
    """Noisy gradient descent of a network on Poisson samples.

    ``solver="auto"`` takes it for networks. It saves time on large tables; with all
    records at every step it is `NetworkGD`. It refuses ``delta=0``.

    Parameters
    ----------
    n_steps, step_size, momentum, last_step, gradient_clip, tail
        As of `NetworkGD`.
    batch_size : int in [1, 2^31] or None, default=None
        Expected records of a sample; n_samples or more means all of them. None: all up
        to 8,192 records, and 4,096 above, or more where the multiplier would fall below
        about 1.

    Notes
    -----
    Released are ``n_steps`` Poisson-sampled Gaussian sums of rate ``batch_size / n``,
    composed by privacy-loss distributions. The noise multiplier is sigma over the
    *zero_out* sensitivity C under both adjacencies: replace_one is two steps for the
    whole run, by the null record. All iterates may be published, the samples may not.
    Unit of privacy: one record. Proofs: ``docs/proofs/networks.md``, Theorem 1, and
    ``docs/proofs/gradient_descent.md``, Theorem 2.

    References
    ----------
    .. [1] Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar and Zhang (2016). Deep
       learning with differential privacy. CCS. https://arxiv.org/abs/1607.00133
    .. [2] Zhu, Dong and Wang (2022). Optimal accounting of differential privacy via
       characteristic function. AISTATS. https://arxiv.org/abs/2106.08567
    """

    key: ClassVar[str] = "noisy_sgd"
    checks: ClassVar[Checks] = {
        **NetworkGD.checks,
        **ranges("batch_size"),
    }

    batch_size: int

    @classmethod
    def by_rule(
        cls, given: Given, objective: NetworkObjective, budget: Budget
    ) -> dict[str, Any]:
        rest = super().by_rule(given, objective, budget)
        return rest | {"batch_size": batch_size_of(given, objective, budget, rest)}


# -------------------------------------------------------------------------- NetworkAdam
# Algorithm: with ``G_t`` the noisy mean gradient of `noisy_sgd` (or of all records),
#
#     M_t = beta_1 * M_{t-1} + (1 - beta_1) * G_t
#     S_t = beta_2 * S_{t-1} + (1 - beta_2) * G_t^2
#     W_{t+1} = W_t - step_t * (M_t / (1 - beta_1^t)) / (sqrt(S_t / (1 - beta_2^t))
#     + e),
#
# and the release is the mean of the last `tail` share of the iterates. Squares contain
# the noise as well as the gradients: where noise is the larger part, all weights take
# steps of one size, and Adam acts as momentum.


@dataclass(frozen=True, kw_only=True)
class NetworkAdam(PoissonSamples[NetworkObjective], NetworkDescent):
    """Adam on noisy sums of a network's clipped gradients.

    Use it for networks without privacy or with a large epsilon; ``solver="auto"`` takes
    it at ``epsilon=inf`` only. Where noise dominates the gradients, their squares are
    mostly squares of noise, and Adam acts like momentum: `noisy_sgd` was better in
    every comparison at epsilon 1. It refuses ``delta=0``.

    Parameters
    ----------
    n_steps, last_step, gradient_clip, tail
        As of `NetworkGD`.
    step_size : float in [1e-250, 1e250] or None, default=None
        Size of the first step, in units of weights. None: 0.01.
    batch_size : int in [1, 2^31] or None, default=None
        As of `NetworkSGD`.
    beta_1, beta_2 : float in [0, 1) or None, default=None
        Decay of the first and the second moment. None: 0.9 and 0.999.

    Notes
    -----
    Released are the sums of `NetworkSGD`, at the same cost; moments and steps are
    post-processing. Unit of privacy: one record. Proof: ``docs/proofs/networks.md``,
    Theorem 1.

    References
    ----------
    .. [1] Kingma and Ba (2015). Adam: a method for stochastic optimization. ICLR.
       https://arxiv.org/abs/1412.6980
    .. [2] Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar and Zhang (2016). Deep
       learning with differential privacy. CCS. https://arxiv.org/abs/1607.00133
    """

    key: ClassVar[str] = "noisy_adam"
    checks: ClassVar[Checks] = {
        **NetworkDescent.checks,
        **ranges("batch_size"),
        "beta_1": partial(check_real, low=0.0, high=1.0, high_open=True),
        "beta_2": partial(check_real, low=0.0, high=1.0, high_open=True),
    }

    batch_size: int
    beta_1: float
    beta_2: float

    @classmethod
    def by_rule(
        cls, given: Given, objective: NetworkObjective, budget: Budget
    ) -> dict[str, Any]:
        by_rule = {"step_size": ADAM_STEP, "beta_1": 0.9, "beta_2": 0.999}
        rest = by_rule | super().by_rule(given, objective, budget)
        return rest | {"batch_size": batch_size_of(given, objective, budget, rest)}

    def steps(self, objective: NetworkObjective, start: FloatArray) -> AdamSteps:
        betas = self.beta_1, self.beta_2
        alpha = objective.alpha
        return AdamSteps(start, self.sizes, alpha, FARTHEST, self.tail, betas=betas)


# ------------------------------------------------------------------ Registry of solvers
# A key that a linear model has too is the same algorithm. A key has the same name
# everywhere: in this table and its test ``tests/neural_network/test_<key>.py``. The
# docstring of its class is its page in the reference; all queries have one proof,
# ``docs/proofs/networks.md``.


# Keys of skdp, for type checkers; a test holds them to be those of the registry.
NetworkSolverName = Literal["auto", "noisy_adam", "noisy_gd", "noisy_sgd"]
NETWORK_SOLVERS: dict[str, type[NetworkDescent]] = {
    "noisy_adam": NetworkAdam,
    "noisy_gd": NetworkGD,
    "noisy_sgd": NetworkSGD,
}


def named_descent(
    key: str,
    params: Mapping[str, Any] | None,
    *,
    is_private: bool,
    is_of_users: bool = False,
) -> NamedKind[NetworkDescent]:
    """The solver that ``solver=key, solver_params=params`` names.

    Parameters
    ----------
    is_private : bool
        Whether there will be noise.
    is_of_users : bool, default=False
        Whether records are users, whose rows are not sampled.

    Raises
    ------
    ValueError, TypeError
        If the key or a parameter is unknown or out of range.
    """
    check_choice("solver", key, ["auto", *NETWORK_SOLVERS])
    if key != "auto":
        kind = NETWORK_SOLVERS[key]
        return NamedKind(kind, given_params(kind, key, params), "named by the user")
    if params:
        raise ValueError(
            "The 'solver_params' parameter must be None with solver='auto'. Got a "
            f"mapping. Name the solver: one of {sorted(NETWORK_SOLVERS)}."
        )
    if not is_private:
        reason = "epsilon=inf: Adam suits rows of any length"
        return NamedKind(NetworkAdam, {}, reason)
    if is_of_users:
        return NamedKind(NetworkGD, {}, "with users, rows are not sampled")
    return NamedKind(NetworkSGD, {}, "the best solver of networks at most budgets")


# ---------------------------------------------------------------------- ConstantNetwork
# It has biases in the last layer, and all other weights are 0.


@dataclass(frozen=True, kw_only=True)
class ConstantNetwork(PrivateSolver[NetworkObjective, Solution]):
    """The network that is fitted where noise dominates: the linear models' constant.

    Parameters
    ----------
    inner : PrivateSolver
        Solver of an intercept alone.
    linear : LinearObjective
        The objective that `inner` was planned for.
    """

    inner: PrivateSolver[LinearObjective, Solution]
    linear: LinearObjective

    @property
    def named(self) -> str:
        return self.inner.named

    @property
    def params(self) -> dict[str, Any]:
        return self.inner.params

    @property
    def mechanism(self) -> str:
        return self.inner.mechanism

    def plan(self, objective: NetworkObjective, /) -> Plan | None:
        return self.inner.plan(self.linear)

    def sensitivity(self, objective: NetworkObjective, /) -> float | None:
        return self.inner.sensitivity(self.linear)

    def run(
        self, answers: Answers, objective: NetworkObjective, progress: Progress, /
    ) -> Solution:
        """Ask for the intercept. No weight is drawn."""
        found = self.inner.run(answers, self.linear, progress)
        _, intercept = found.unpack(self.linear)
        weights = np.zeros(objective.n_weights)
        weights[-len(intercept) :] = intercept
        return Solution(weights, found.noise_scale)

    def rehearse(self, answers: Answers, objective: NetworkObjective, /) -> Solution:
        return Solution(np.zeros(objective.n_weights), 0.0)
