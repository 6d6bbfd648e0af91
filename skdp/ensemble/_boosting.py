"""Newton boosting of random trees with noisy sums over leaves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp._checks import check_choice, check_count, check_real
from skdp._configured import Checks, Given, check_params_of_auto, given_params
from skdp._fit import NamedKind, PrivateSolver, Progress
from skdp._input import weighted_by
from skdp._row_threads import n_threads_for
from skdp.ensemble._adaptive import MadeUpRecords
from skdp.ensemble._gains import (
    GAINS,
    SHARES,
    EffectiveParameters,
    best_share,
    gains_of,
    helps,
    without_optimism,
)
from skdp.ensemble._linear_start import (
    Curves,
    LinearStart,
    linear_loss,
    shares_or_even,
)
from skdp.ensemble._losses import BoostingTask, LeafRules, Scale
from skdp.ensemble._releases import LeafSteps, counts_of, margins_of, shares_of
from skdp.ensemble._trees import CodedColumns, RandomTrees, TreeDraws, uncut
from skdp.exceptions import Refused
from skdp.losses._base import Loss
from skdp.losses._classification import typical_weight
from skdp.losses._regression import QuantileLoss
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._gaussian import gaussian_mu
from skdp.privacy.noise._laws import LAWS_OF_COUNTS, NoiseLaw
from skdp.privacy.release._answers import Answers, Released, View
from skdp.privacy.release._door import owners_now
from skdp.privacy.release._plan import Line, Part, Plan, Query
from skdp.solvers._constant import LawOfConstant, law_alone
from skdp.solvers._default_rules import (
    STATES,
    Shares,
    SideQuestion,
    least_signal_to_noise,
    share_of_histogram,
    signal_to_noise_of,
)
from skdp.solvers._target_base import (
    Base,
    count_query,
    has_mean,
    is_of_squares,
    released_base,
    target_query,
    within,
)
from skdp.sums._counts import CodeCounts, StateSums
from skdp.sums._leaves import (
    MOST_CURVATURE,
    GrownTrees,
    LeafSums,
    LeafTerms,
    add_values,
    find_leaves,
)
from skdp.sums._record_sums import TargetSum
from skdp.tables._memory import WithOffset
from skdp.tables._source import Source

# ------------------------------------------------------------------------- BoostedTrees


@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """A sum of trees; everything in it is public or released.

    Parameters
    ----------
    trees : RandomTrees
    values : ndarray of float64 of shape (n_trees, n_leaves, n_outputs)
        What a record's leaf adds to its raw predictions.
    start : ndarray of float64 of shape (n_outputs,)
        Raw predictions before the first tree.
    deviations : ndarray of float64 of shape (n_trees, n_leaves, n_outputs)
        Standard deviation of the noise that each value adds, at the shrinkage that was
        used.
    curves : Curves or None, default=None
        Values by code that are added to `start` before the first tree.
    shrinkage : float or None, default=None
        Fraction by which the values have been multiplied, because it had the best gain;
        None where no gain was released.
    shares : dict of int to ndarray of float64 of shape (n_codes,), default={}
        Released share of the records with each code, by column of codes; columns whose
        counts were not released are missing.
    signal : ndarray of float64 of shape (n_outputs,) or None, default=None
        Curvature of the loss of all records over the noise in a leaf's sum, by which
        trees correct the noise of earlier ones; None without trees. A mean over the
        trees.
    """

    trees: RandomTrees
    values: FloatArray
    start: FloatArray
    deviations: FloatArray
    curves: Curves | None = None
    shrinkage: float | None = None
    shares: Mapping[int, FloatArray] = field(default_factory=dict)
    signal: FloatArray | None = None

    def raw(self, codes: NDArray[np.uint8]) -> FloatArray:
        """Raw predictions of shape (n_samples, n_outputs) of coded records."""
        raw = self._first(codes)
        for _ in self._stages(codes, raw):
            pass
        return raw

    def staged_raw(self, codes: NDArray[np.uint8]) -> Iterator[FloatArray]:
        raw = self._first(codes)
        for _ in self._stages(codes, raw):
            yield raw.copy()

    def before(self, source: Source) -> WithOffset:
        """A source whose records start at this model, without its constant."""
        without = replace(self, start=np.zeros_like(self.start))
        return WithOffset(source, without.raw)

    def plus(self, others: BoostedTrees) -> BoostedTrees:
        """The model with further trees, and with their constant."""
        if not self.values.any():
            return replace(others, curves=self.curves)
        return replace(
            others,
            trees=self.trees.joined(others.trees),
            values=np.concatenate([self.values, others.values]),
            deviations=np.concatenate([self.deviations, others.deviations]),
            curves=self.curves,
        )

    def _first(self, codes: NDArray[np.uint8]) -> FloatArray:
        first = np.tile(self.start, (len(codes), 1))
        return first if self.curves is None else first + self.curves.at(codes)

    def _stages(self, codes: NDArray[np.uint8], raw: FloatArray) -> Iterator[None]:
        n_threads = n_threads_for(len(codes))
        codes = np.ascontiguousarray(codes)
        leaves = np.empty(len(codes), dtype=np.uint16)
        for tree, values in enumerate(self.values):
            find_leaves(codes, self.trees[tree], leaves, n_threads)
            add_values(leaves, values, raw, n_threads)
            yield


def without_trees(
    columns: CodedColumns, start: FloatArray, curves: Curves | None = None
) -> BoostedTrees:
    none = np.zeros((1, 1, len(start)))
    return BoostedTrees(uncut(columns), none, start, none, curves)


def shrunk(model: BoostedTrees, share: float) -> BoostedTrees:
    """The model with its trees' values multiplied by the share."""
    values, deviations = share * model.values, share * model.deviations
    return replace(model, values=values, deviations=deviations, shrinkage=share)


# ----------------------------------------------------------------------- NewtonBoosting
# A regression first releases where its targets are. The number of records with each
# code is released too, for the means of a linear model and for cuts that divide records
# evenly. A private additive linear model (`skdp.ensemble._linear_start`) or a constant
# comes next. After a linear model a trial of the first trees asks whether they gain. If
# not, its descent goes on with the budget of the other trees. Trees are drawn from a
# public seed and released numbers alone: cuts by the counts, and columns by how much
# the trees so far use them (`skdp.ensemble._adaptive`). Each tree
# releases one vector over all of its leaves: sums of clipped residuals ``G`` and of
# curvatures ``H``, with noise of deviation ``s`` in ``G``. Its leaves then have the
# values
#
#     v = -learning_rate * G H / (H^2 + (H + a s^2) / tau^2),
#
# the posterior mean of a Newton step of variance ``tau^2``; ``a`` is how far the noise
# of many steps averages out. These steps are bold where there is nothing but noise. So
# at the end one release compares the gains by all trees, and by half or a quarter of
# what they add, and the best of these is released.


# More trees with smaller steps cost no privacy, but they cost time.
_N_TREES = 600
# Number of trees times learning rate: the least, its growth with sqrt(n mu), the most.
_FLOW = (30.0, 0.2, 120.0)
# n mu for each leaf, and the least and the largest number of leaves. At epsilon 1 and 4
# log-loss is .003 and 0 higher with 60 on covertype, R2 .001 and .014 lower on
# protein_casp; with at most 256 leaves it is .008 higher and .014 lower at 4. Adult
# loses .002 at 4 by 30 and 512 (2 fits to validation parts: `python -m benchmarks
# boosting_trees`).
_SIGNAL_OF_A_LEAF, _LEAVES = 30.0, (8.0, 512.0)
# Values of n mu between which the clip of residuals rises.
_CLIP_SIGNAL = (1e3, 1e4)
# The histogram of the targets; the noise is that in the proportion at a knot.
_TARGETS = SideQuestion(0.01, 0.002, 0.1)
# n mu at which the whole budget gives the mean as accurately as it is needed.
_MEAN_SIGNAL = 45.0
# n mu from which trees continue a linear model, over the n mu below which the model is
# a constant. On validation parts of seven tables (`python -m benchmarks
# boosting_trial`) trees were kept in 5 of 126 fits below n mu = 2,000, where a trial
# costs .0004 of log-loss or R2 on average. From 2,000 to 6,000 trees gain .003 to .04
# in seven of thirteen cells, and a trial costs at most .0012 in the others.
_WORTH_GROWING = 40.0
# The n mu from which trees are grown after a constant, over the n mu below which there
# is no linear model. On validation parts of 16 cells with a ratio from 0.3 to 1
# (`python -m benchmarks boosting_alone`) trees gain .08 of log-loss or R2 on average,
# .5 at most, and lose .004 at most. Where targets are permuted they lose .002 on
# average, and .011 at most. Below 0.3 they gain nothing. Amounts lose .03 of deviance
# in hostile cells.
_ALONE = 0.3
# n mu at which a linear model has half of mu^2, and the exponent by which this falls.
_HALF_LINEAR, _FALLING = 1500.0, 0.6
# Share of mu^2 for the counts that decide where trees cut. At epsilon 1 and 4 with .003
# log-loss on covertype is .003 and .005 higher and R2 of protein_casp .014 and .022
# lower; log-loss on adult is .001 and .002 lower. With .08 nothing differs by more than
# .005 (`boosting_trees`).
_CUTS = 0.05
# Groups of codes that are counted, for each interval of a curve.
_FINER = 2
# One of so many trees is in the trial.
_TRIED = 10
# Columns are weighted anew after so many trees.
_EVERY = 50
# Share of mu^2 of the trial, and the part of it for the gain.
_TRIAL, _ASKED_OF_TRIAL = 0.06, 0.2
# Largest prior variance of a step after a linear model. Two labels have 1 from a
# constant, several have 2, and numbers less than this. With half of it log-loss is .004
# and .009 higher on covertype at epsilon 1 and 4 (.006 lower at 0.3), and .003 and .002
# higher on kddcup99; with twice as much it is .011 higher and .002 lower with seven
# labels (`python -m benchmarks boosting_priors`).
_MOST_AFTER = 0.6


@dataclass(frozen=True, kw_only=True)
class NewtonBoosting(PrivateSolver[BoostingTask, BoostedTrees]):
    """Boosted random trees with Gaussian noise in the sums over their leaves.

    The only solver of `DPGradientBoostingClassifier` and `DPGradientBoostingRegressor`.
    With ``init="linear"`` trees continue an additive linear model if a trial of the
    first of them finds that they gain; otherwise the linear model gets their budget.
    Trees are drawn from a public seed, from noisy counts and from the leaves released
    so far; leaves with more noise than records add nearly nothing. It refuses
    ``delta=0``.

    Parameters
    ----------
    n_estimators : int in [0, 10000] or None, default=None
        Number of trees, which share a fixed budget: more trees of smaller steps cost
        time only. A tenth of them is in the trial. None: 600 if n mu is large enough
        for trees after a linear model, or too small for weights and large enough for
        trees after a constant; otherwise 0. 0: the start alone.
    learning_rate : float in (0, 1] or None, default=None
        Share of a Newton step that a tree takes. None: a rule.
    max_depth : int in [1, 12] or None, default=None
        Depth; at most 4 for trees of one column. None: a rule.
    residual_clip : float in [1e-3, 2] or None, default=None
        Norm to which residuals are clipped; of a regression in units of two deviations
        of the targets.
    curvature_weight : float in [1e-3, sqrt(8)] or None, default=None
        Weight of the curvatures beside residuals of weight 1.
    start_share, linear_share, counts_share, targets_share, gains_share, trial_share
        Budget fractions of mu^2 for the constant, the linear model, the counts of
        codes, the histogram of targets of a squared or Poisson loss, the gain of the
        trees, and a trial of the first trees with the question whether they gain. 0
        leaves a part out (not the constant). Trees have the rest. None: rules;
        `privacy_` has their values.
    law : {"gaussian", "laplace"} or None, default=None
        The law of the noise; all but a constant takes Gaussian noise only. None: for a
        constant the law with the least noise, and Gaussian noise if there is a ledger.

    Notes
    -----
    A model that is a constant releases one answer. Other models release adaptive
    Gaussian answers, one for each tree and each step of the linear model, and one each
    for targets, start, counts, and gains of the trial and of all trees: exactly mu-GDP
    under either adjacency, and all values may be published. A leaf is the posterior
    mean of a Newton step. After the trial, released gains choose between two plans of
    the same cost: the other trees, or more of the linear model. At the end released
    gains choose how much of the trees is kept. Columns of later trees are
    post-processing. Unit of privacy: one record, or all rows of a user. Proof:
    ``docs/proofs/boosting.md``, Theorem 1. The guide: ``docs/guide/boosting.md``.

    References
    ----------
    .. [1] Friedman, Hastie and Tibshirani (2000). Additive logistic regression.
       Annals of Statistics 28(2). (Newton steps)
    .. [2] Dong, Roth and Su (2022). Gaussian differential privacy, Corollary 3.3.
       https://arxiv.org/abs/1905.02383
    """

    key: ClassVar[str] = "newton_boosting"
    is_pure: ClassVar[bool] = False
    checks: ClassVar[Checks] = {
        "n_estimators": partial(check_count, low=0, high=10_000),
        "learning_rate": partial(check_real, low=0.0, high=1.0, low_open=True),
        "max_depth": partial(check_count, high=12),
        "residual_clip": partial(check_real, low=1e-3, high=2.0),
        "curvature_weight": partial(check_real, low=1e-3, high=MOST_CURVATURE),
        "start_share": partial(
            check_real, low=0.0, high=1.0, low_open=True, high_open=True
        ),
        "linear_share": partial(check_real, low=0.0, high=1.0, high_open=True),
        "counts_share": partial(check_real, low=0.0, high=1.0, high_open=True),
        "targets_share": partial(check_real, low=0.0, high=1.0, high_open=True),
        "gains_share": partial(check_real, low=0.0, high=1.0, high_open=True),
        "trial_share": partial(check_real, low=0.0, high=1.0, high_open=True),
        "law": partial(check_choice, allowed=LAWS_OF_COUNTS),
    }

    n_estimators: int
    learning_rate: float
    max_depth: int
    residual_clip: float
    curvature_weight: float
    start_share: float
    linear_share: float
    counts_share: float
    targets_share: float
    gains_share: float
    trial_share: float
    law: LawOfConstant = "gaussian"
    linear: LinearStart | None = None

    @classmethod
    def planned(cls, given: Given, task: BoostingTask, budget: Budget) -> Self:
        """The solver with every missing parameter decided by a rule of public facts.

        Parameters
        ----------
        given : mapping
            Checked parameters.
        task : BoostingTask
        budget : Budget

        Raises
        ------
        Refused
            If delta is 0, or nothing is left for trees.
        """
        if budget.delta == 0 and budget.is_finite:
            raise Refused(
                f"solver={cls.key!r} adds Gaussian noise and cannot do delta=0. "
                "Use a delta above 0."
            )
        if isinstance(task.loss, QuantileLoss) and "residual_clip" in given:
            raise Refused(
                "residual_clip must be None for quantiles: their residuals are bounded "
                "already, and clipping them would estimate another quantile. Got a "
                "number. Leave it out."
            )
        if task.before is not None:
            # The model before has the counts, and all trees are of one depth.
            given = {**given, "counts_share": 0.0}
            if task.before.trees.depth:
                given["max_depth"] = task.before.trees.depth
        if owners_now() is not None:
            # Owners must know their rounds before a fit, and a trial decides on them.
            if given.get("trial_share"):
                raise Refused(
                    "trial_share must be None or 0 for several owners, who must know "
                    "the number of answers before a fit. Got more. Leave it out."
                )
            given = {**given, "trial_share": 0.0}
        mu = gaussian_mu(budget.epsilon, budget.delta) if budget.is_finite else math.inf
        planned = cls(**{**_by_rule(given, task, budget, mu), **given})
        if planned._is_constant and "law" not in given and budget.is_finite:
            law = law_alone(linear_loss(task.loss), task.adjacency, budget)
            planned = replace(planned, law=law)
        if planned._law.is_pure and not planned._is_constant:
            raise Refused(
                "law must be None or 'gaussian' for trees and linear models, whose "
                "costs add up in squares. Got 'laplace'. Leave it out."
            )
        shares = planned._shares(task)
        if sum(shares.values()) >= 1 or (
            planned.linear_share and task.init != "linear"
        ):
            got = ", ".join(f"{share:g} for {name}" for name, share in shares.items())
            raise Refused(
                f"solver={cls.key!r} needs shares of mu^2 that sum to less than 1, and "
                f"linear_share=0 unless init='linear'. Got shares of {got}. Use less."
            )
        if not planned.linear_share:
            return planned
        linear = LinearStart.planned(
            linear_loss(task.loss),
            task.n_samples,
            task.columns,
            task.adjacency,
            _strength(task, budget),
            planned._with_rest(task)["linear"],
            planned._rest(task),
            None if task.before is None else task.before.curves,
        )
        return replace(planned, linear=linear)

    @property
    def mechanism(self) -> str:
        return f"{self._law.name} noise, calibrated exactly"

    @property
    def params(self) -> dict[str, Any]:
        """The hyper-parameters by name, for the record."""
        own = super().params
        linear = own.pop("linear")
        return own if linear is None else {**own, "linear": linear.params}

    def plan(self, task: BoostingTask) -> Plan:
        """Everything `run` will ask. Pure: sees no data, draws no noise."""
        shares = self._with_rest(task)
        lines: dict[str, Line | Part] = {
            name: Line(mu_share=share, law=self._law) for name, share in shares.items()
        }
        if self.linear is not None:
            lines["linear"] = self.linear.part
        if self.n_tried and self.linear is not None:
            gains = _ASKED_OF_TRIAL * shares["trial"]
            trial = {"trees": shares["trial"] - gains, "gains": gains}
            lines["trial"] = self._grown(trial, self.n_tried)
        if self.n_estimators:
            rest = None if self.linear is None else self.linear.rest
            instead = None if rest is None else rest.plan()
            n_trees = self.n_estimators - self.n_tried
            lines["trees"] = self._grown(shares, n_trees, instead)
        return Plan(tuple(lines[name] for name in self._asked(task)))

    @staticmethod
    def _grown(
        shares: Mapping[str, float], n_trees: int, instead: Plan | None = None
    ) -> Part:
        """Trees, and then the gain by them."""
        share = shares["trees"] + shares.get("gains", 0.0)
        lines = [Line(n_trees, mu_share=shares["trees"] / share / n_trees)]
        if "gains" in shares:
            lines.append(Line(mu_share=shares["gains"] / share))
        return Part(Plan(tuple(lines)), 1 / math.sqrt(share), instead)

    @property
    def n_tried(self) -> int:
        """Number of trees of the trial: noise in all trees is about the same."""
        is_asked = self.linear_share and self.trial_share and self.gains_share
        if not is_asked or self.n_estimators < 2:
            return 0
        return min(max(self.n_estimators // _TRIED, 1), self.n_estimators - 1)

    def _shares(self, task: BoostingTask) -> dict[str, float]:
        """Shares of mu^2 of all queries, except the part that gets the rest."""
        # Laplace noise is for one answer only.
        is_asked = has_mean(task.loss) and not self._law.is_pure
        histogram = self.targets_share if is_asked else 0.0
        shares = {"targets": histogram, "start": self.start_share}
        if self.linear_share or (self.n_estimators and any(task.columns.is_ordered)):
            shares["counts"] = self.counts_share
        if self.n_estimators:
            shares["linear"] = self.linear_share
            shares["trial"] = self.trial_share if self.n_tried else 0.0
            shares["gains"] = self.gains_share
        elif not self.linear_share:
            shares["start"] = 0.0
        return {name: share for name, share in shares.items() if share}

    def _with_rest(self, task: BoostingTask) -> dict[str, float]:
        """Shares of mu^2; the rest is for trees, a linear model or a constant."""
        last = "linear" if self.linear_share else "start"
        shares = self._shares(task)
        rest = 1 - sum(shares.values())
        return shares | {"trees" if self.n_estimators else last: rest}

    def _rest(self, task: BoostingTask) -> float:
        """Share of mu^2 for trees after a trial, or for more of the linear model."""
        if not self.n_tried:
            return 0.0
        shares = self._with_rest(task)
        return shares["trees"] + shares.get("gains", 0.0)

    def _asked(self, task: BoostingTask) -> list[str]:
        """The lines of the plan, in their order; gains are in the part of the trees."""
        shares = self._with_rest(task)
        order = ("targets", "start", "counts", "linear", "trial", "trees")
        return [name for name in order if name in shares]

    def terms(self, task: BoostingTask, scale: Scale | None = None) -> LeafTerms:
        """What a record adds to its leaf."""
        scale = scale or Scale()
        clip = scale.residual * self.residual_clip
        weight = scale.residual * self.curvature_weight
        return LeafTerms(task.loss, clip, weight, scale.cap)

    def sensitivity(self, task: BoostingTask) -> float:
        """Largest sensitivity of one query, in the norm of its noise."""
        shares = self._with_rest(task)
        bounds = [] if self._is_constant else [self.terms(task).bound()]
        loss, n = linear_loss(task.loss), task.n_samples
        if "start" in shares:
            bounds.append(self._first_query(loss, n).bound())
        if "targets" in shares:
            bounds.append(count_query(loss, n).bound())
        if "counts" in shares:
            bounds.append(self._counts(task).bound())
        linear = 0.0 if self.linear is None else self.linear.sensitivity()
        return max(linear, *(bound.under(task.adjacency) for bound in bounds))

    def _counts(self, task: BoostingTask) -> CodeCounts:
        if self.linear is None:
            return counts_of(task.columns)
        return counts_of(task.columns, _FINER * self.linear.n_intervals, of_all=True)

    def draws(self, task: BoostingTask, shares: FloatArray | None = None) -> TreeDraws:
        """Draws of trees from the task's seed and released shares of codes."""
        is_after = self.linear is not None or task.before is not None
        return TreeDraws(
            task.columns,
            max_depth=self.max_depth,
            seed=task.seed,
            interactions=task.interactions_after if is_after else task.interactions,
            groups=task.groups,
            shares=shares,
        )

    def run(
        self, answers: Answers, task: BoostingTask, progress: Progress, /
    ) -> BoostedTrees:
        asking = _Asking(answers, self._asked(task))
        base = self._base(asking, task)
        start, shares, curves = np.array(base.constant), None, None
        margins: Mapping[int, FloatArray] = {}
        if task.before is not None:
            margins = task.before.shares
            shares = np.concatenate(shares_or_even(task.columns, margins))
        if asking.has("counts"):
            counts = self._counts(task)
            released = asking.ask("counts", counts)
            margins = margins_of(counts, released, task.n_samples)
            shares = shares_of(task.columns, counts, released)
        found, rows = None, None
        if self.linear is not None:
            rows = self.linear.rows(shares_or_even(task.columns, margins))
            found = self.linear.run(
                asking.part("linear", rows.view), rows, base, progress
            )
            start = found.constant
            curves = self.linear.curves(rows, found, self.linear.share)
        start = self._weighted(task, start)
        first = without_trees(task.columns, start, curves)
        if task.before is not None:
            first = replace(task.before, start=start, curves=curves, shrinkage=None)
        first = replace(first, shares=margins)
        if not self.n_estimators:
            return first
        growth = _Growth(self, task, base, shares, margins, curves, start, progress)
        view = None if curves is None else first.before
        if asking.has("trial"):
            gain = growth.grow(asking.part("trial", view), self.n_tried, (1.0,))
            if not helps(gain) and self.linear is not None and rows is not None:
                rest = asking.part("trees", rows.view, instead=True)
                found = self.linear.run(rest, rows, base, progress, found)
                start = self._weighted(task, found.constant)
                share = self.linear.share + self.linear.rest_share
                curves = self.linear.curves(rows, found, share)
                return replace(first, start=start, curves=curves, shrinkage=0.0)
        part = asking.part("trees", view)
        gain = growth.grow(part, self.n_estimators - self.n_tried)
        model = replace(growth.model(), shares=margins)
        return first.plus(model if gain is None else shrunk(model, best_share(gain)))

    @staticmethod
    def _weighted(task: BoostingTask, start: FloatArray) -> FloatArray:
        if task.n_outputs == 1:
            return start
        return start + weighted_by(task.loss.label_weights)

    def rehearse(self, answers: Answers, task: BoostingTask, /) -> BoostedTrees:
        return without_trees(task.columns, np.zeros(task.n_outputs))

    def _base(self, asking: _Asking, task: BoostingTask) -> Base:
        """Location of the targets, released as linear models release it."""
        loss, n = linear_loss(task.loss), task.n_samples
        is_sum = isinstance(self._first_query(loss, n), TargetSum)
        lines = {"targets": "targets", "mean": "start"}
        if not is_sum:
            lines = {"targets": "start"}

        def ask(name: str, query: Query) -> Released:
            return asking.ask(lines[name], query)

        asked = [name for name, line in lines.items() if asking.has(line)]
        norm, is_alone = self._law.norm, self._is_constant
        return released_base(loss, n, ask, asked, norm=norm, is_alone=is_alone)

    @property
    def _law(self) -> NoiseLaw:
        return LAWS_OF_COUNTS[self.law]

    @property
    def _is_constant(self) -> bool:
        return not (self.n_estimators or self.linear_share)

    def _first_query(self, loss: Loss, n_samples: int) -> StateSums | TargetSum:
        """The query about targets on the line "start"."""
        has_sum = has_mean(loss) or self._is_constant
        query = target_query if has_sum else count_query
        return query(loss, n_samples, self._law.norm)


class _Growth:
    """Trees with released values, one after another."""

    def __init__(
        self,
        solver: NewtonBoosting,
        task: BoostingTask,
        base: Base,
        shares: FloatArray | None,
        margins: Mapping[int, FloatArray],
        curves: Curves | None,
        start: FloatArray,
        progress: Progress,
    ) -> None:
        self._solver, self._task, self._progress = solver, task, progress
        self._scale = Scale.of(task.loss, base)
        self._terms = solver.terms(task, self._scale)
        most = math.inf if curves is None else _MOST_AFTER
        self._steps = LeafSteps(self._terms, solver.learning_rate, self._scale, most)
        self._draws = solver.draws(task, shares)
        sizes = np.cumsum(task.columns.n_bins)[:-1]
        every = np.ones(sum(task.columns.n_bins)) if shares is None else shares
        self._made_up = MadeUpRecords(
            task.columns, tuple(np.split(every, sizes)), task.n_outputs, curves
        )
        # The variance of residuals is known for labels alone.
        self._parameters = None
        if not task.is_regression:
            every_share = shares_or_even(task.columns, margins)
            self._parameters = EffectiveParameters(every_share, task.n_outputs)
        self._grown = GrownTrees.of(start)
        self._drawn: RandomTrees | None = None
        self._values: list[FloatArray] = []
        self._deviations: list[FloatArray] = []

    def grow(
        self, answers: Answers, n_trees: int, shares: tuple[float, ...] = SHARES
    ) -> Released | None:
        """Ask for more trees, and for the gain by shares of all trees so far."""
        asking = _Asking(answers, ["trees", "gains"])
        n, last = self._task.n_samples, len(self._grown) + n_trees
        for t in range(len(self._grown), last):
            trees = self._with_tree(t)
            query = LeafSums(self._terms, trees[t], self._grown, n)
            released = asking.ask("trees", query)
            found = self._steps.next(released, trees.is_reached(t))
            self._values.append(found.values)
            self._deviations.append(found.deviations)
            self._made_up.add(trees[t], found.values)
            if self._parameters is not None:
                self._parameters.add(trees[t], found.learned)
            self._grown = self._grown.plus(trees[t], found.values)
            self._progress.step(t + 1, self._solver.n_estimators)
        if not self._solver.gains_share:
            return None
        spread = self._terms.clip * self._made_up.spread()
        asked = gains_of(self._task, self._grown, self._scale, spread, shares)
        gains = asking.ask("gains", asked)
        if self._parameters is None:
            return gains
        return without_optimism(gains, shares, self._parameters.number)

    def _with_tree(self, t: int) -> RandomTrees:
        """All trees so far and tree `t`, which is drawn with others if need be."""
        drawn = self._drawn
        if drawn is None:
            drawn = self._draws.draw(min(_EVERY, self._solver.n_estimators))
        elif t == len(drawn):
            few = min(_EVERY, self._solver.n_estimators - t)
            weights = self._made_up.column_weights()
            drawn = drawn.joined(self._draws.draw(few, weights))
        self._drawn = drawn
        return drawn

    def model(self) -> BoostedTrees:
        assert self._drawn is not None
        values, deviations = np.array(self._values), np.array(self._deviations)
        return BoostedTrees(
            self._drawn,
            values,
            self._grown.start,
            deviations,
            signal=self._steps.signal,
        )


def _by_rule(
    given: Given, task: BoostingTask, budget: Budget, mu: float
) -> dict[str, Any]:
    """All parameters, from n mu under the adjacency and from the given parameters.

    They were settled on validation parts of several tables
    (``docs/notebook/benchmarks.md``).
    """
    # Sensitivity under zero_out, over the sensitivity under the adjacency.
    terms = LeafTerms(task.loss, _allowed_clip(task.loss, 0.7), 1.0).bound()
    one = terms.under("zero_out") / terms.under(task.adjacency)
    signal = task.n_samples * mu * one * typical_weight(task.loss)
    rules = {
        "targets_share": _TARGETS.share(signal),
        "gains_share": GAINS.share(signal),
        "n_estimators": _N_TREES,
        "linear_share": 0.0,
        "trial_share": 0.0,
        "counts_share": _CUTS,
    }
    rules["start_share"] = _of_constant({**rules, **given}, signal)
    if task.init == "linear":
        rules |= _of_linear({**rules, **given}, given, task, budget, signal)
    return {**rules, **_of_trees({**rules, **given}, task, signal)}


def _of_constant(rules: Given, signal: float) -> float:
    """Share of mu^2 for the constant that trees start from."""
    mean_share = (_MEAN_SIGNAL / signal) ** 2
    return float(min(0.5, max(1 / (rules["n_estimators"] + 1), mean_share)))


def _of_linear(
    rules: Given, given: Given, task: BoostingTask, budget: Budget, signal: float
) -> dict[str, Any]:
    """Parameters of the linear model that trees continue, if there may be one."""
    loss, signal_to_noise = linear_loss(task.loss), _strength(task, budget)
    least = least_signal_to_noise(loss)
    if signal_to_noise < least and task.before is None and "linear_share" not in given:
        is_known = is_of_squares(loss) or not loss.form.is_of_numbers
        is_alone = is_known and signal_to_noise >= _ALONE * least
        if given.get("n_estimators", is_alone):
            return {}
        targets = share_of_histogram(signal_to_noise) if is_of_squares(loss) else 0.0
        return {"n_estimators": 0, "linear_share": 0.0, "targets_share": targets}
    states = STATES.share(signal_to_noise, len(task.columns.n_bins))
    first = Shares.of(loss, signal_to_noise, states)
    grows = signal >= _WORTH_GROWING * least
    n_trees = given.get("n_estimators", _N_TREES if grows else 0)
    counts = max(states, _CUTS) if n_trees else states
    shares = {"counts_share": counts, "start_share": first.targets}
    if has_mean(loss):
        shares = {**shares, "start_share": first.mean, "targets_share": first.targets}
    by_rule = sum(share for name, share in shares.items() if name not in given)
    others = ("linear_share", "gains_share", *shares)
    left = 1 - sum(given.get(name, 0.0) for name in others)
    if by_rule > left / 2:  # of what others leave, half at most
        shares = {name: share * left / 2 / by_rule for name, share in shares.items()}
    shares = {name: given.get(name, share) for name, share in shares.items()}
    left = max(1 - sum(shares.values()) - rules["gains_share"], 0.1)
    trial = {"trial_share": _TRIAL} if grows else {}
    return {
        **shares,
        **trial,
        "n_estimators": n_trees,
        "linear_share": left / (1 + (signal / _HALF_LINEAR) ** _FALLING),
    }


def _strength(task: BoostingTask, budget: Budget) -> float:
    """Signal n mu of the whole budget for a linear model."""
    effective_n = task.n_samples * typical_weight(linear_loss(task.loss))
    return signal_to_noise_of(effective_n, budget, task.adjacency)


def _of_trees(rules: Given, task: BoostingTask, signal: float) -> dict[str, Any]:
    """Parameters of the trees, which get the budget that the other parts leave."""
    signal *= math.sqrt(1 - rules["linear_share"])
    n_trees = max(rules["n_estimators"], 1)
    flow = min(_FLOW[0] + _FLOW[1] * math.sqrt(signal), _FLOW[2])
    leaves = within(signal / _SIGNAL_OF_A_LEAF, *_LEAVES)
    clip = rules.get("residual_clip", _clip_of(task, signal))
    weight = LeafRules.of(task.loss).weight
    return {
        "learning_rate": min(1.0, flow / n_trees),
        "max_depth": int(math.log2(leaves)),
        "residual_clip": clip,
        "curvature_weight": max(min(weight * clip, MOST_CURVATURE), 1e-3),
    }


def _clip_of(task: BoostingTask, signal: float) -> float:
    """Clip of residuals: a small clip tolerates more noise, a large one fits better."""
    low, high = np.log(_CLIP_SIGNAL)
    at = np.log(min(max(signal, 1.0), 1e300))
    clip = float(np.interp(at, (low, high), LeafRules.of(task.loss).clip))
    return _allowed_clip(task.loss, clip)


def _allowed_clip(loss: Loss, clip: float) -> float:
    """The clip; for a quantile it is the largest residual.

    Clipping the residuals would estimate another quantile.
    """
    return max(loss.sides) if isinstance(loss, QuantileLoss) else clip


class _Asking:
    """Asks a query of answers; where nothing is private, it reads records only once."""

    def __init__(self, answers: Answers, lines: list[str]) -> None:
        self._answers, self._lines = answers, lines
        self._reader: Any = None
        self._family: Any = None

    def has(self, line: str) -> bool:
        return line in self._lines

    def part(self, line: str, view: View | None, *, instead: bool = False) -> Answers:
        """Answers of a plan within the plan."""
        return self._answers.part(self._lines.index(line), view, instead=instead)

    def ask(self, line: str, query: Query) -> Released:
        if not self._answers.is_exact:
            return self._answers.ask(query, self._lines.index(line))
        if self._family != query.family:
            self._reader = query.open(self._answers.records)  # type: ignore[attr-defined]  # exact answers have them
            self._family = query.family
        return Released(query.total(self._reader, None), 0.0, 0.0)


# ------------------------------------------------------------------ Registry of solvers
# A key has the same name everywhere: in this table, its test
# ``tests/ensemble/test_<key>.py`` and its audit ``tests/audit/test_<key>.py``. The
# docstring of its class is its page in the reference, and links to its proof.


# Keys of skdp, for type checkers; a test holds them to be those of the registry.
BoosterName = Literal["auto", "newton_boosting"]
BOOSTERS: dict[str, type[NewtonBoosting]] = {"newton_boosting": NewtonBoosting}
# The solver of solver="auto", with its reason.
_AUTO = "newton_boosting", "the only solver of boosted trees"


def named_booster(
    key: str, params: Mapping[str, Any] | None, own: Mapping[str, Any]
) -> NamedKind[NewtonBoosting]:
    """The solver that ``solver=key, solver_params=params`` names.

    Parameters
    ----------
    own : mapping
        Parameters that the model also has; None leaves one to the solver's rule.

    Raises
    ------
    ValueError, TypeError
        If the key or a parameter is unknown or out of range, or is given twice.
    """
    check_choice("solver", key, ["auto", *BOOSTERS])
    if key == "auto":
        check_params_of_auto(params, BOOSTERS)
    key, reason = _AUTO if key == "auto" else (key, "named by the user")
    kind = BOOSTERS[key]
    given = given_params(kind, key, params)
    mine = given_params(kind, key, own)
    twice = sorted(set(given) & set(mine))
    if twice:
        raise ValueError(
            f"The 'solver_params' must not repeat parameters of the model. Got {twice} "
            "in both. Leave them out there."
        )
    return NamedKind(kind, MappingProxyType({**given, **mine}), reason)
