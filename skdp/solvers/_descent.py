"""Noisy gradient descent: full batches, Poisson samples, and default rules."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np

from skdp._arrays import FloatArray
from skdp._checks import check_choice, check_real
from skdp._configured import Checks, Given, Registry
from skdp._fit import Progress
from skdp.exceptions import Refused
from skdp.losses._base import Loss
from skdp.losses._classification import HuberHingeLoss, typical_weight, weighted
from skdp.losses._objective import LinearObjective
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._gaussian import gaussian_mu
from skdp.privacy.accounting._relations import is_of_users
from skdp.privacy.release._answers import Answers
from skdp.solvers._base import Solution, Solver, box_radius
from skdp.solvers._steps import (
    Descent,
    MomentumSteps,
    PoissonSamples,
    Steps,
    ranges,
)
from skdp.sums._gradient import ClippedGradient

# --------------------------------------------- Flow time at which noise stops a descent
# In directions where the data have little curvature, the noise of a whole run grows
# with the flow time ``step_size * n_steps / (1 - momentum)`` alone. So the defaults fix
# the flow time by the noise it admits, and take the fewest steps in which momentum
# covers it. Public facts only.


# The default stops at this standard deviation of the noise in the raw prediction of a
# unit row, in the loss's units of raw predictions. Settled on breast_cancer and digits
# (split seeds from 100 up, which no reported figure uses), with a look at Adult,
# covertype and a quarter of MNIST; half or twice the value costs little.
MARGIN_NOISE = 2.0
# Number of relaxation times of momentum, or of a regularised optimum, in a run.
RELAXATIONS = 10


@dataclass(frozen=True)
class FlowTime:
    """Default flow time, steps, clip and intercept weight of a noisy descent.

    `mu` is the sensitivity over the noise deviation per weight, if one release of all
    records' gradients gets the whole budget.
    """

    fewest_steps: ClassVar[int] = 10
    most_steps: ClassVar[int] = 300

    objective: LinearObjective
    mu: float

    @classmethod
    def of(cls, objective: LinearObjective, budget: Budget) -> FlowTime:
        """Rules for Gaussian noise that fits a budget of delta > 0."""
        return cls(objective, gaussian_mu(budget.epsilon, budget.delta))

    @property
    def smoothness(self) -> float:
        """Public bound on the curvature of the objective."""
        return self.objective.smoothness

    @property
    def longest_flow(self) -> float:
        """Flow time that momentum covers in the largest number of steps."""
        return self.most_steps**2 / (RELAXATIONS * self.smoothness)

    def flow(self, residual_clip: float, intercept_weight: float = 1.0) -> float:
        """Flow time at which a unit row's prediction has the admitted noise."""
        objective = self.objective
        sums = ClippedGradient(objective, residual_clip, intercept_weight)
        bound = sums.real_bound(math.inf).with_user_bounds()
        sensitivity = bound.under(objective.adjacency)
        tolerated = MARGIN_NOISE * objective.loss.prediction_unit
        flow = self._admitted(
            tolerated
            * objective.n_samples
            * self.mu
            / (objective.data_norm * sensitivity)
        )
        if objective.alpha > 0:  # the run reaches the optimum within this time
            flow = min(flow, RELAXATIONS / objective.alpha)
        return flow

    def _admitted(self, flow: float) -> float:
        """Admitted flow time; it is `flow` if every step reads all records."""
        return flow

    def wanted_steps(self, flow: float) -> float:
        """Steps in which momentum covers a flow time, before the limits."""
        return math.sqrt(RELAXATIONS * flow * self.smoothness)

    def steps(self, flow: float) -> int:
        """Steps for a flow time within the limits of the default."""
        wanted = min(self.wanted_steps(flow), self.most_steps)
        return max(math.ceil(wanted), self.fewest_steps)

    def momentum(self, n_steps: int) -> float:
        """Heavy-ball momentum that relaxes some ten times within the run."""
        return max(0.0, 1 - RELAXATIONS / n_steps)

    def step_size(self, flow: float, n_steps: int, momentum: float) -> float:
        """Step size that covers the flow time in equal, stable steps."""
        return min(flow * (1 - momentum) / n_steps, 1 / self.smoothness)

    def intercept_weight(self, residual_clip: float | None) -> float:
        """Weight that minimises the sum of the intercept's and the weights' noise."""
        even = self.flow(math.inf if residual_clip is None else residual_clip)
        loss = self.objective.loss
        bend = loss.smoothness * typical_weight(loss) * self.objective.data_norm**2 / 2
        return float((1 + bend * even) ** -0.25)

    def residual_clip(self, intercept_weight: float) -> float:
        """The loss's `noisy_clip`, or none if the number of steps limits the run."""
        wanted = self.wanted_steps(self.flow(math.inf, intercept_weight))
        clip = self.objective.loss.noisy_clip if wanted < self.most_steps else math.inf
        if math.isfinite(clip):
            # The largest clip at which noise still admits the most steps.
            bound = self.objective.loss.zero_out_bound(math.inf)
            clip = max(clip, bound * (wanted / self.most_steps) ** 2)
        return clip

    def clip_and_weight(
        self, residual_clip: float | None, intercept_weight: float | None
    ) -> tuple[float, float]:
        """Residual clip and intercept weight; None is replaced by the rule's value."""
        if intercept_weight is None:
            intercept_weight = self.intercept_weight(residual_clip)
        if residual_clip is None:
            residual_clip = self.residual_clip(intercept_weight)
        return residual_clip, intercept_weight


class OnePassFlowTime(FlowTime):
    """Default flow time of a descent in which each step reads different records.

    T steps over n / T records each have sqrt(T) times the noise of T steps over all n,
    so every additional step costs noise.
    """

    fewest_steps: ClassVar[int] = 1

    def _admitted(self, flow: float) -> float:
        # The rule admits s sqrt(T(s)) instead of s, with T(s) of `wanted_steps`.
        return float(flow**0.8 / (RELAXATIONS * self.smoothness) ** 0.2)


class PlainFlowTime(FlowTime):
    """Default flow time of a descent without momentum."""

    most_steps: ClassVar[int] = 1000

    def wanted_steps(self, flow: float) -> float:
        """Steps of size 1 / L that cover a flow time."""
        return flow * self.smoothness


def wanted_steps(objective: LinearObjective, budget: Budget) -> float:
    """Steps of noisy_gd without residual clipping or limits on the number.

    Fewer steps mean that noise limits the fit more. With weighted labels the expected
    curvature counts.
    """
    rule = FlowTime.of(objective, budget)
    steps = rule.wanted_steps(rule.flow(math.inf, rule.intercept_weight(None)))
    return steps * math.sqrt(typical_weight(objective.loss))


# ---------------------------------------- Parameters of noisy descents of linear models


@dataclass(frozen=True, kw_only=True)
class LinearDescent(Descent[LinearObjective], Solver):
    """A noisy descent of a linear model, from weights of 0."""

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        cls.check(objective, budget)
        return cls(**cls.by_rule(given, objective, budget))

    @classmethod
    @abstractmethod
    def by_rule(
        cls, given: Given, objective: LinearObjective, budget: Budget
    ) -> dict[str, Any]:
        """All parameters; a rule decides each one that is not given."""

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        return self.descend(answers, objective, np.zeros(objective.shape), progress)


@dataclass(frozen=True, kw_only=True)
class MomentumGD(LinearDescent):
    """A noisy descent with momentum and tail averaging.

    Parameters
    ----------
    step_size : float in [1e-250, 1e250]
        In units of weights per gradient of the mean loss.
    momentum : float in [0, 1)
    residual_clip : float in [1e-6, inf]
    intercept_weight : float in [1e-6, 1]
    tail : float in [1e-9, 1]
    keeps_path : bool
        Whether all iterates are kept, as `coef_path_` and `intercept_path_`.
    """

    takes_nonconvex: ClassVar[bool] = True
    checks: ClassVar[Checks] = ranges(
        "step_size",
        "momentum",
        "residual_clip",
        "intercept_weight",
        "tail",
        "keeps_path",
    )

    step_size: float
    momentum: float
    residual_clip: float
    intercept_weight: float
    tail: float
    keeps_path: bool = False

    @staticmethod
    def rest_by_rule(
        given: Given, rule: FlowTime, n_steps: int | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Number of steps and parameters; rules replace those that are not given."""
        clip, weight = rule.clip_and_weight(
            given.get("residual_clip"), given.get("intercept_weight")
        )
        flow = rule.flow(clip, weight)
        if n_steps is None:
            n_steps = given.get("n_steps", rule.steps(flow))
        momentum = given.get("momentum", rule.momentum(n_steps))
        return n_steps, {
            "step_size": rule.step_size(flow, n_steps, momentum),
            "tail": 0.5,
            **given,
            "momentum": momentum,
            "residual_clip": clip,
            "intercept_weight": weight,
        }

    def gradients(self, objective: LinearObjective) -> ClippedGradient:
        return ClippedGradient(objective, self.residual_clip, self.intercept_weight)

    def steps(self, objective: LinearObjective, start: FloatArray) -> Steps:
        return MomentumSteps(
            start,
            self.sizes(objective),
            objective.alpha,
            box_radius(objective),
            self.tail,
            self.keeps_path,
            momentum=self.momentum,
            restarts_intercept=objective.fit_intercept,
        )

    def sizes(self, objective: LinearObjective) -> FloatArray:
        """Sizes of the steps: all the same."""
        return np.full(sum(k for _, k in self.levels(objective)), self.step_size)


# ---------------------------------------------------------- Full-batch gradient descent
# Algorithm: with ``g_t`` the clipped gradient sum at the weights ``W_t``,
#
#     V_{t+1} = momentum * V_t - step_size * ((g_t + N_t) / n + alpha * W_t)
#     W_{t+1} = W_t + V_{t+1},      N_t ~ N(0, sigma_t^2 I),
#
# and the release is the mean of the last ``tail`` share of the iterates.
#
# ``sigma_t = noise_multiplier * S(W_t)``, where S(W_t) is the sensitivity of the
# gradient sum *at the released weights W_t*. Early weights are small, and so is
# S: under replace_one the first query of a logistic regression needs half the noise of
# the worst case. The multiplier, and with it the event, is the same in every step.
#
# With ``release="last"`` the iterates stay secret, and the budget pays for the last
# iterate only (`skdp.papers._last_iterate`).


# Most numbers in the contributions of all users, which stay in memory: half a gibibyte.
_MOST_NUMBERS = 2**26
# Other forms of this solver, by the value of `release`.
_RELEASES: Registry[Any] = Registry("skdp.releases", {})


def _check_user_clip(name: str, value: Any) -> float | None:
    return None if value is None else check_real(name, value, low=1e-3, high=1.0)


@dataclass(frozen=True, kw_only=True)
class NoisyGD(MomentumGD):
    """Noisy full-batch gradient descent with momentum and tail averaging.

    Use it for any loss with bounded gradients and a delta above 0; ``solver="auto"``
    takes it for problems outside of the default recipe where noise limits the fit. It
    refuses ``delta=0``.

    Parameters
    ----------
    n_steps : int in [1, 1e6] or None, default=None
        Gradients; all are taken. None: the fewest in which momentum covers the flow
        time s, 10 to 300.
    step_size : float in [1e-250, 1e250] or None, default=None
        Weights per gradient of the mean loss. None: from s, at most 1/L.
    momentum : float in [0, 1) or None, default=None
        Heavy ball. None: ``1 - 10 / n_steps``.
    residual_clip : float in [1e-6, inf] or None, default=None
        Norm to which every record's residual is clipped: less noise, a moved optimum.
        None: the loss's `noisy_clip`, looser with less noise. Set inf where calibration
        matters more.
    intercept_weight : float in [1e-6, 1] or None, default=None
        Factor on the intercept's part of the query. None: ``(1 + h s)^(-1/4)``.
    tail : float in [1e-9, 1] or None, default=None
        Share of the last iterates that is averaged. None: 0.5.
    release : {"path", "last"}, default="path"
        "last" pays for the last iterate alone, and no other may be published. It needs
        a positive alpha, plain steps and no clip, and was less accurate (Adult, epsilon
        1: 0.833 for 0.838).
    user_clip : float in [1e-3, 1] or None, default=None
        Norm of the sum of a user's gradients, in units of one record's bound. None:
        their mean.
    keeps_path : bool, default=False
        Whether all iterates are kept.

    Notes
    -----
    In flat directions the noise of a weight is s S / (n mu), so that the rule fixes s
    by a noise of 2 in a row's raw prediction. Released are ``n_steps`` gradient sums:
    exactly mu-GDP with ``mu = sqrt(n_steps) / noise_multiplier``; all iterates may be
    published. Unit of privacy: one record, or all rows of a user. Proof:
    ``docs/proofs/gradient_descent.md``, Theorems 1 and 4.

    References
    ----------
    .. [1] Bassily, Smith and Thakurta (2014). Private empirical risk minimization.
       FOCS. https://arxiv.org/abs/1405.7085
    .. [2] Bok, Su and Altschuler (2024). Shifted interpolation for differential
       privacy. ICML. https://arxiv.org/abs/2403.00278
    """

    key: ClassVar[str] = "noisy_gd"
    takes_users: ClassVar[bool] = True
    checks: ClassVar[Checks] = {
        **MomentumGD.checks,
        **ranges("n_steps"),
        "release": partial(check_choice, allowed=("path",)),
        "user_clip": _check_user_clip,
    }
    given_checks: ClassVar[Checks] = {
        "release": partial(check_choice, allowed=("last", "path"))
    }

    n_steps: int
    release: Literal["path", "last"] = "path"
    user_clip: float | None = None

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        cls.check(objective, budget)
        if given.get("user_clip") is not None:
            cls._check_users(objective)
        release = given.get("release", cls.release)
        if release != "path":
            planned: Self = _RELEASES[release].planned(given, objective, budget)
            return planned
        return super().planned(given, objective, budget)

    @classmethod
    def by_rule(
        cls, given: Given, objective: LinearObjective, budget: Budget
    ) -> dict[str, Any]:
        n_steps, rest = cls.rest_by_rule(given, FlowTime.of(objective, budget))
        return {**rest, "n_steps": n_steps}

    @classmethod
    def _check_users(cls, objective: LinearObjective) -> None:
        """Refuse without users, or if their contributions need too much memory."""
        me = f"solver={cls.key!r} with a 'user_clip'"
        if not is_of_users(objective.adjacency):
            raise Refused(
                f"{me} needs privacy_unit='user'. Use user_clip=None, or hand on ids."
            )
        size = objective.n_samples * objective.n_columns * objective.loss.n_outputs
        if size > _MOST_NUMBERS:
            raise Refused(
                f"{me} keeps a number for each user, feature and output, at most "
                f"{_MOST_NUMBERS:,}. Got {size:,}. Use user_clip=None."
            )

    def gradients(self, objective: LinearObjective) -> ClippedGradient:
        """The queries for gradient sums."""
        sums = super().gradients(objective)
        return replace(sums, user_clip=self.user_clip)


# -------------------------------------------------- Gradient descent on Poisson samples
# Algorithm: with B_t a fresh, secret sample that every record enters independently with
# probability ``q = batch_size / n``, and ``g_t`` the clipped gradient sum over B_t,
#
#     V_{t+1} = momentum * V_t - step_size * ((g_t + N_t) / batch_size + alpha * W_t)
#     W_{t+1} = W_t + V_{t+1},      N_t ~ N(0, sigma_t^2 I),
#
# and the release is the mean of the last ``tail`` share of the iterates. The sum is
# divided by the public batch_size, never by the number of records drawn, which is
# secret; an empty sample is noised like any other.


# Least expected number of passes over the data that the default takes. Settled on one
# more split of Adult: 20 passes, and four times the steps, were no better.
_PASSES = 5
# Up to this many records the default reads all of them at every step: this takes a
# moment and has the least noise.
_FEW_RECORDS = 20_000


@dataclass(frozen=True, kw_only=True)
class NoisySGD(PoissonSamples[LinearObjective], MomentumGD):
    """Noisy gradient descent on Poisson samples, with momentum and tail averaging.

    Use it to read less of a table that does not fit into memory. It saves reading and
    nothing else: the noise of a mean gradient is never below that of all records at the
    same number of steps. At epsilon 1 and zero_out, 100 samples of a twentieth have
    1.14 times that noise, ten samples of a hundredth 6.53 times. Adult at epsilon 1
    under replace_one has 0.8399, and 0.8410 with `noisy_gd`. It refuses ``delta=0``.

    Parameters
    ----------
    n_steps : int in [1, 1e6] or None, default=None
        Number of samples; all are taken. None: the rule of `noisy_gd`, 10 to 300.
    batch_size : int in [1, 2^31] or None, default=None
        Expected records of a sample; more than there are means all of them. None: all
        up to 20,000 records; above, five passes in expectation, or more where the
        multiplier would fall below about 1.
    step_size, momentum, residual_clip, intercept_weight
        As for `noisy_gd`. None: its rules.
    tail : float in [1e-9, 1] or None, default=None
        Share of the last iterates that is averaged. None: 0.5.
    keeps_path : bool, default=False
        Whether all iterates are kept.

    Notes
    -----
    Released are ``n_steps`` Poisson-sampled Gaussian sums of rate ``batch_size / n``,
    composed by privacy-loss distributions. The noise multiplier is in units of the
    *zero_out* sensitivity; replace_one is two steps of zero_out for the whole run,
    which costs about twice the epsilon for large samples. All iterates may be
    published, the samples may not. Unit of privacy: one record. Proof:
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
        **MomentumGD.checks,
        **ranges("n_steps", "batch_size"),
    }

    n_steps: int
    batch_size: int

    @classmethod
    def by_rule(
        cls, given: Given, objective: LinearObjective, budget: Budget
    ) -> dict[str, Any]:
        rule, n = FlowTime.of(objective, budget), objective.n_samples
        n_steps, rest = cls.rest_by_rule(given, rule)
        batch_size = given.get("batch_size")
        if batch_size is None and n <= _FEW_RECORDS:
            batch_size = n
        elif batch_size is None:
            # mu is about rate * sqrt(n_steps) / multiplier.
            passes = max(_PASSES, rule.mu * math.sqrt(n_steps))
            batch_size = math.ceil(n * min(1.0, passes / n_steps))
        return {**rest, "n_steps": n_steps, "batch_size": min(batch_size, n)}


# -------------------------------------------- Convex start of a loss that is not convex


def convex_loss(loss: Loss) -> Loss:
    """The rounded hinge of the same labels, with the same label weights."""
    hinge = HuberHingeLoss(n_outputs=loss.n_outputs)
    return weighted(hinge, loss.label_weights)


def convex_start(objective: LinearObjective) -> LinearObjective:
    """The same facts with the convex loss."""
    return objective.with_loss(convex_loss(objective.loss))


# --------------------------------- Descent from a convex loss to one that is not convex
# Algorithm: `noisy_gd`, whose first ``convex_share`` of the steps follow the rounded
# hinge of the same labels. The other steps follow the objective's loss. The release is
# the mean of the last ``tail`` share of the iterates.


@dataclass(frozen=True, kw_only=True)
class GraduatedGD(MomentumGD):
    """Noisy full-batch gradient descent from a convex loss to one that is not.

    Use it for `DPRobustClassifier` with a delta above 0, where ``solver="auto"`` takes
    it. Its losses are flat far from the boundary: from 0, `noisy_gd` on a9a ended at
    the constant model with every setting that was tried. A convex loss has no flat
    regions, and its minimum is near a good minimum of the other loss. Convex losses are
    refused, because `noisy_gd` is the same without the detour.

    Parameters
    ----------
    n_steps : int in [1, 1e6] or None, default=None
        Number of gradients; all are taken and paid for. None: twice the rule of
        `noisy_gd` for the convex loss.
    convex_share : float in [0, 1], default=0.5
        Share of the steps that follow the convex loss, a rounded hinge.
    step_size, momentum, intercept_weight
        As for `noisy_gd`. None: its rules for the convex loss.
    residual_clip : float in [1e-6, inf], default=inf
        Norm to which every record's residual is clipped, for both losses.
    tail : float in [1e-9, 1], default=0.25
        Share of the last iterates that is averaged; the last one if the share is
        smaller than one step.
    keeps_path : bool, default=False
        Whether all iterates are kept, as `coef_path_` and `intercept_path_`.

    Notes
    -----
    Released are ``n_steps`` adaptive Gaussian gradient sums, each with noise
    ``noise_multiplier`` times the sensitivity of the step's loss at the step's weights:
    exactly mu-GDP with ``mu = sqrt(n_steps) / noise_multiplier``. All iterates may be
    published. Unit of privacy: one record, or all rows of a user. Proof:
    ``docs/proofs/gradient_descent.md``, Theorem 1.

    References
    ----------
    .. [1] Blake and Zisserman (1987). Visual reconstruction. MIT Press. (graduated
       non-convexity, with a family of losses)
    """

    key: ClassVar[str] = "graduated_gd"
    takes_users: ClassVar[bool] = True
    checks: ClassVar[Checks] = {
        **MomentumGD.checks,
        **ranges("n_steps"),
        "convex_share": partial(check_real, low=0.0, high=1.0),
    }

    n_steps: int
    convex_share: float = 0.5

    @classmethod
    def by_rule(
        cls, given: Given, objective: LinearObjective, budget: Budget
    ) -> dict[str, Any]:
        if objective.loss.is_convex:
            raise Refused(
                f"solver={cls.key!r} is for losses that are not convex, and "
                f"{type(objective.loss).__name__} is convex. Use solver='noisy_gd'."
            )
        own: dict[str, Any] = {"residual_clip": math.inf, "tail": 0.25, **given}
        rule = FlowTime.of(convex_start(objective), budget)
        n_steps, rest = cls.rest_by_rule(own, rule)
        if "n_steps" not in own:
            n_steps = min(2 * n_steps, 2 * rule.most_steps)
        return {**rest, "n_steps": n_steps}

    def sensitivity(self, objective: LinearObjective) -> float:
        """Largest sensitivity of a gradient sum of either loss, at any weights."""
        n_convex = self._n_convex
        asked = [convex_start(objective)] * (n_convex > 0)
        asked += [objective] * (n_convex < self.n_steps)
        return max(super(GraduatedGD, self).sensitivity(each) for each in asked)

    @property
    def _n_convex(self) -> int:
        return math.floor(self.convex_share * self.n_steps)

    def means(
        self, answers: Answers, objective: LinearObjective, steps: Steps
    ) -> Iterator[FloatArray]:
        first = self.gradients(convex_start(objective))
        later = self.gradients(objective)
        for t in range(self.n_steps):
            query = (first if t < self._n_convex else later).at(steps.at)
            yield query.read(answers.ask(query).value) / objective.n_samples
