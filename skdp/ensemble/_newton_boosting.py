r"""Newton boosting of random trees, with Gaussian noise in the sums over their leaves.

How many records have each code of the columns in order is released first, for cuts
that are even in records; trees are drawn by it from a public seed, and from nothing
else. For each of them one vector is released, of all leaves: sums of clipped residuals
``G`` and of curvatures ``H``, with noise of deviation ``s`` in ``G``. Its leaves then
have the values

    v = -learning_rate * G H / (H^2 + (H + s^2) / tau^2),

the posterior mean of a Newton step of variance ``tau^2``, which follows from the
numbers that are released: noise that is all there is gives values of nearly 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from skdp._configured import Checks, Configured, Given
from skdp._floats import FloatArray
from skdp._validation import check_count, check_real
from skdp.ensemble._boosted import BoostedTrees
from skdp.ensemble._code_shares import counts_of, shares_of
from skdp.ensemble._leaf_steps import LeafSteps
from skdp.ensemble._start import START_TERMS, start_of
from skdp.ensemble._task import BoostingTask
from skdp.ensemble._trees import RandomTrees, draw_trees, uncut
from skdp.exceptions import Refused
from skdp.privacy._accounting import Budget
from skdp.privacy._answers import Answers, Released
from skdp.privacy._gaussian import gaussian_mu
from skdp.privacy._plan import Line, Plan
from skdp.privacy._query import Query
from skdp.queries._leaf_sums import MOST_CURVATURE, LeafSums, LeafTerms
from skdp.solvers._base import Progress

# More trees of smaller steps cost no privacy, but time.
_N_TREES = 600
# Trees times learning rate: least, more of it by the root of n mu, and most.
_FLOW = (30.0, 0.2, 120.0)
# n mu for each leaf of a tree, of which there are 8 to 256.
_SIGNAL_OF_A_LEAF = 120.0
_CLIP = {"logistic": 0.7, "softmax": 0.7, "squared": 0.4}
# Of the curvature, over the clip.
_WEIGHT = {"logistic": 2.0, "softmax": 0.5, "squared": 0.3}
# n mu at which all of the budget gives the mean as well as it has to be known.
_MEAN_SIGNAL = 45.0


@dataclass(frozen=True, kw_only=True)
class NewtonBoosting(Configured):
    """Boosted random trees with Gaussian noise in the sums over their leaves.

    Privacy
    -------
    Adaptive Gaussian releases, one for the start and one for each tree: exactly mu-GDP.
    Sensitivities under both adjacencies are derived in
    ``docs/proofs/newton_boosting.md``. All values may be published. Unit of privacy:
    one record.

    Parameters
    ----------
    n_estimators : int in [1, 10000] or None, default=None
        Number of trees. None: a rule of n mu.
    learning_rate : float in (0, 1] or None, default=None
    max_depth : int in [1, 12] or None, default=None
    residual_clip : float in [1e-3, 2] or None, default=None
        Norm to which residuals are clipped.
    curvature_weight : float in [1e-3, sqrt(8)] or None, default=None
        Of the curvatures, beside residuals of weight 1.
    start_share : float in (0, 1) or None, default=None
        Of mu^2, for the raw predictions before the first tree.
    counts_share : float in [0, 1) or None, default=None
        Of mu^2, for the counts of codes; 0: cuts are even in codes.
    """

    key: ClassVar[str] = "newton_boosting"
    is_pure: ClassVar[bool] = False
    checks: ClassVar[Checks] = {
        "n_estimators": partial(check_count, high=10_000),
        "learning_rate": partial(check_real, low=0.0, high=1.0, low_open=True),
        "max_depth": partial(check_count, high=12),
        "residual_clip": partial(check_real, low=1e-3, high=2.0),
        "curvature_weight": partial(check_real, low=1e-3, high=MOST_CURVATURE),
        "start_share": partial(
            check_real, low=0.0, high=1.0, low_open=True, high_open=True
        ),
        "counts_share": partial(check_real, low=0.0, high=1.0, high_open=True),
    }

    n_estimators: int
    learning_rate: float
    max_depth: int
    residual_clip: float
    curvature_weight: float
    start_share: float
    counts_share: float

    @classmethod
    def planned(cls, given: Given, task: BoostingTask, budget: Budget) -> Self:
        """What was not given decided by rule; from public facts only.

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
        mu = gaussian_mu(budget.epsilon, budget.delta) if budget.is_finite else math.inf
        planned = cls(**{**_by_rule(given, task, mu), **given})
        if sum(planned._shares(task)) >= 1:
            raise Refused(
                f"solver={cls.key!r} needs a share of mu^2 for trees. Got shares of "
                f"{planned.start_share:g} for the start and of "
                f"{planned.counts_share:g} for counts. Use less."
            )
        return planned

    @property
    def params(self) -> dict[str, Any]:
        """The hyper-parameters by name, for the record."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def mechanism(self) -> str:
        """What makes the release private, for the record."""
        return "Gaussian noise, calibrated exactly"

    def plan(self, task: BoostingTask) -> Plan:
        """Everything `run` will ask. Pure: sees no data, draws no noise."""
        start, counts = self._shares(task)
        rest = (1 - start - counts) / self.n_estimators
        first = tuple(Line(mu_share=share) for share in (start, counts) if share)
        return Plan((*first, Line(self.n_estimators, mu_share=rest)))

    def _shares(self, task: BoostingTask) -> tuple[float, float]:
        """Of mu^2, for start and counts; 0 for what is not asked."""
        start = 0.0 if task.starts_at_zero else self.start_share
        return start, self.counts_share if any(task.columns.is_ordered) else 0.0

    def terms(self, task: BoostingTask) -> LeafTerms:
        """What a record adds to its leaf."""
        return LeafTerms(
            task.loss, task.n_outputs, self.residual_clip, self.curvature_weight
        )

    def sensitivity(self, task: BoostingTask) -> float:
        """Largest L2 sensitivity of one query under the task's adjacency."""
        bounds = [self.terms(task).bound()]
        if not task.starts_at_zero:
            bounds.append(START_TERMS[task.loss](task.n_outputs).bound())
        if self._shares(task)[1]:
            bounds.append(counts_of(task.columns).bound())
        return max(bound.under(task.adjacency) for bound in bounds)

    def trees(
        self, task: BoostingTask, seed: int, shares: FloatArray | None = None
    ) -> RandomTrees:
        """Drawn from a public seed and released shares of codes."""
        return draw_trees(
            task.columns,
            n_trees=self.n_estimators,
            max_depth=self.max_depth,
            seed=seed,
            interactions=task.interactions,
            groups=task.groups,
            shares=shares,
        )

    def run(
        self, answers: Answers, task: BoostingTask, seed: int, progress: Progress
    ) -> BoostedTrees:
        """Walk over released values; ask exactly what `plan` declared.

        Parameters
        ----------
        answers : Answers
            Over codes and targets; see `LeafSums`.
        task : BoostingTask
        seed : int
            Public; trees are drawn from it.
        progress : Progress
        """
        asking, has = _Asking(answers), self._shares(task)
        start, shares = np.zeros(task.n_outputs), None
        if has[0]:
            start = self._start(asking, task)
        if has[1]:
            query = counts_of(task.columns)
            released = asking.ask(query, int(has[0] > 0))
            shares = shares_of(task.columns, released)
        trees, line = self.trees(task, seed, shares), sum(share > 0 for share in has)
        terms, n = self.terms(task), task.n_samples
        shape = (len(trees), trees.n_leaves, task.n_outputs)
        values, deviations = np.zeros(shape), np.zeros(shape)
        steps = LeafSteps(terms, self.learning_rate, len(task.interactions))
        for t in range(len(trees)):
            leaf_sums = LeafSums(terms, trees, start, values[:t], n)
            released = asking.ask(leaf_sums, line)
            values[t], deviations[t] = steps.next(released, trees.is_reached(t))
            progress.step(t + 1, len(trees))
        return BoostedTrees(trees, values, start, deviations)

    def _start(self, asking: _Asking, task: BoostingTask) -> FloatArray:
        """Raw predictions of everybody: the share of a class, or the mean."""
        terms = START_TERMS[task.loss](task.n_outputs)
        none = np.zeros((0, 1, task.n_outputs))
        zero = np.zeros(task.n_outputs)
        query = LeafSums(terms, uncut(task.columns), zero, none, task.n_samples)
        return start_of(terms, asking.ask(query, 0), task.n_samples)


def _by_rule(given: Given, task: BoostingTask, mu: float) -> dict[str, Any]:
    """Everything as a rule of n mu, and of what was given.

    Settled by ``benchmarks/boosting_rules.py``, on parts of tables that no figure of
    the documentation is from.
    """
    signal = task.n_samples * mu
    n_trees = given.get("n_estimators", _N_TREES)
    flow = min(_FLOW[0] + _FLOW[1] * math.sqrt(signal), _FLOW[2])
    leaves = min(max(signal / _SIGNAL_OF_A_LEAF, 8.0), 256.0)
    clip = given.get("residual_clip", _CLIP[task.loss])
    mean_share = (_MEAN_SIGNAL / signal) ** 2
    return {
        "n_estimators": n_trees,
        "learning_rate": min(1.0, flow / n_trees),
        "max_depth": int(math.log2(leaves)),
        "residual_clip": clip,
        "curvature_weight": min(_WEIGHT[task.loss] * clip, MOST_CURVATURE),
        "start_share": min(0.5, max(1 / (n_trees + 1), mean_share)),
        "counts_share": 0.05,
    }


class _Asking:
    """Asks a query of answers; where nothing is private, reads records only once."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._reader: Any = None
        self._family: Any = None

    def ask(self, query: Query, line: int) -> Released:
        if not self._answers.is_exact:
            return self._answers.ask(query, line)
        if self._family != query.family:
            self._reader = query.open(self._answers.records)  # type: ignore[attr-defined]  # exact answers have them
            self._family = query.family
        return Released(query.total(self._reader, None), 0.0, 0.0)
