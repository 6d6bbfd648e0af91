"""Frank-Wolfe over a polytope with private choices of vertices."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array, issparse

from skdp._arrays import FloatArray, clip_rows
from skdp._checks import check_count, check_real
from skdp._configured import Checks, Given
from skdp._fit import Progress
from skdp.exceptions import Refused
from skdp.losses._objective import LinearObjective
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._gaussian import gaussian_mu
from skdp.privacy.accounting._relations import is_of_users
from skdp.privacy.noise._laws import Choices
from skdp.privacy.noise._noise import choice_shift
from skdp.privacy.noise._selection import Ranking
from skdp.privacy.release._answers import Answers
from skdp.privacy.release._plan import Draws, Line, Plan
from skdp.solvers._base import Solution, Solver
from skdp.solvers._sparse import keep_rows, largest_rows
from skdp.sums._adder import weighed
from skdp.tables._source import Source

# ------------------------------------------------------- Moving combination of vertices
# It is public, since it follows from the chosen vertices.


class VertexWalk:
    """Weights of few candidates.

    The objective has one output. With an intercept there is one more candidate, the
    last: the weight of a column that holds `entry_bound`.
    """

    def __init__(self, objective: LinearObjective) -> None:
        self._objective = objective
        self.of_candidates: dict[int, float] = {}

    def move(self, keep: float, candidate: int, weight: float) -> None:
        """Multiply all weights by `keep` and add `weight` to that of a candidate."""
        for known in self.of_candidates:
            self.of_candidates[known] *= keep
        self.of_candidates[candidate] = self.of_candidates.get(candidate, 0.0) + weight

    def size(self, candidate: int) -> float:
        """Ratio of the problem's weight to a candidate's weight."""
        if candidate < self._objective.n_features:
            return 1.0
        return self._objective.entry_bound / self._objective.intercept_value

    def weights(self) -> FloatArray:
        """Weights in the units of the problem, of shape (n_columns, 1)."""
        weights = np.zeros((self._objective.n_columns, 1))
        for candidate, weight in self.of_candidates.items():
            weights[candidate, 0] = weight * self.size(candidate)
        return weights


# -------------------------------- Whole gradient sums, updated along a path of vertices
# A record's entries are integers of at most ``2**ENTRY_BITS``, its residual is an
# integer of public size, and so is its part of every sum. Sums are exact in any order,
# an update equals a new summation, and one record moves a sum by a known integer.


# An entry at its bound is this power of two.
ENTRY_BITS = 20
# Sums over all records stay below two to this, and with a public term below 2**63.
SUM_BITS = 61
# Ratio of the time of an entry out of order to the time of an entry in order.
_IN_ORDER = 3


@dataclass(frozen=True)
class IntegerRows:
    """Clipped rows as integers, by rows and by columns. Private.

    Entries, int32 both by row and by column, are in units of ``entry_bound /
    2**ENTRY_BITS``. A record has a share of 1, a null record of 0, and rows of users
    count by their shares.
    """

    by_row: Any
    by_column: Any
    targets: FloatArray
    shares: FloatArray

    @classmethod
    def read(cls, source: Source, objective: LinearObjective) -> IntegerRows:
        """Clip and round all rows, each separately; reads the source once."""
        values, columns, lengths, targets, shares = [], [], [], [], []
        blocks = source.blocks()
        # A source of users may have no rows.
        first = next(blocks, None)
        for block in chain([source.nothing() if first is None else first], blocks):
            rows = _rounded(block.X, objective)
            values.append(rows.data)
            columns.append(rows.indices)
            lengths.append(np.diff(rows.indptr))
            targets.append(block.y)
            shares.append(weighed(np.ones(len(block.y)), block))
        starts = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
        shape = (len(starts) - 1, objective.n_features)
        by_row = csr_array(shape, dtype=np.int32)
        # Set one by one: the constructor would copy.
        by_row.data, by_row.indices = _joined(values), _joined(columns)
        by_row.indptr = starts.astype(np.int64)
        return cls(
            by_row,
            by_row.tocsc(),
            np.concatenate(targets),
            np.concatenate(shares),
        )


def _joined(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _rounded(X: Any, objective: LinearObjective) -> Any:
    """One block's rows as CSR of integers, which are bounded after any rounding."""
    if not issparse(X):
        # A single row then has the same norm as among other rows.
        X = np.ascontiguousarray(X)
    clipped = clip_rows(X, objective.data_norm)
    entries = clipped.data if issparse(X) else clipped
    entries *= 2.0**ENTRY_BITS / objective.entry_bound
    np.rint(entries, out=entries)
    np.clip(entries, -(2.0**ENTRY_BITS), 2.0**ENTRY_BITS, out=entries)
    if not issparse(X):
        return csr_array(entries.astype(np.int32))
    rounded = csr_array(X.shape, dtype=np.int32)
    rounded.data = entries.astype(np.int32)
    rounded.indices, rounded.indptr = X.indices, X.indptr
    return rounded


class VertexScores:
    """Minus the gradients of the vertices at a moving combination of them.

    Scores are sums over the records, in steps of ``entry_bound / 2**ENTRY_BITS`` times
    a step of the residual, plus the regulariser's part, which is public.

    The objective has one output. With an intercept there is one more candidate, the
    last: the weight of a column that holds `entry_bound`, so that it is no more
    sensitive than a feature. `per_unit` steps of a rounded residual are one unit of the
    residual.
    """

    def __init__(
        self, rows: IntegerRows, objective: LinearObjective, per_unit: float
    ) -> None:
        # Imported here, because numba takes half a second to import.
        from skdp.papers import _frank_wolfe_kernel

        self._kernel = _frank_wolfe_kernel
        self._rows, self._objective = rows, objective
        self._per_unit = per_unit
        self._raw = np.zeros(len(rows.targets))
        self._residuals = np.zeros(len(rows.targets), dtype=np.int64)
        self._changes = np.zeros_like(self._residuals)
        self._walk = VertexWalk(objective)
        self._penalties: dict[int, int] = {}
        self.ranking = Ranking(np.zeros(objective.n_columns, dtype=np.int64), 0)

    def weights(self) -> FloatArray:
        """Weights in the units of the problem, of shape (n_columns, 1)."""
        return self._walk.weights()

    def move(self, keep: float, candidate: int, weight: float) -> None:
        """Multiply all weights by `keep` and add `weight` to that of a candidate."""
        self._walk.move(keep, candidate, weight)
        self._raw *= keep
        step = weight * self._objective.entry_bound
        if candidate == self._objective.n_features:
            self._raw += step
            return
        columns = self._rows.by_column
        entries = slice(*columns.indptr[candidate : candidate + 2])
        step /= 2.0**ENTRY_BITS
        self._raw[columns.indices[entries]] += step * columns.data[entries]

    def update(self, most: int, shift: int) -> None:
        """Update the scores to the weights, with residuals of at most `most` steps."""
        if shift != self.ranking.shift:
            self.ranking.shift = shift
            self.ranking.sort()
        by_row, by_column = self._rows.by_row, self._rows.by_column
        total, touched = self._kernel.round_residuals(
            by_row.indptr,
            self._rows.targets,
            self._rows.shares,
            self._raw,
            self._residuals,
            int(self._objective.loss.form),
            self._objective.loss.form_constants,
            self._per_unit,
            most,
            self._changes,
        )
        # Visiting scores in order is faster than out of order; the sums are equal.
        is_most = _IN_ORDER * touched > by_row.nnz + self._objective.n_features
        table = by_column if is_most else by_row
        add = self._kernel.add_by_columns if is_most else self._kernel.add_by_rows
        add(table.data, table.indices, table.indptr, self._changes, *self._ranked)
        if self._objective.fit_intercept:
            self._add(self._objective.n_features, -int(total) * 2**ENTRY_BITS)
        if self._objective.alpha > 0:
            self._penalise()

    def _penalise(self) -> None:
        """Set the regulariser's part of the scores at the current weights."""
        objective = self._objective
        in_steps = self._per_unit * 2.0**ENTRY_BITS / objective.entry_bound
        for candidate, weight in self._walk.of_candidates.items():
            pull = objective.alpha * weight * self._walk.size(candidate) ** 2
            part = np.clip(
                -objective.n_samples * pull * in_steps, -(2.0**SUM_BITS), 2.0**SUM_BITS
            )
            change = round(part) - self._penalties.get(candidate, 0)
            self._penalties[candidate] = round(part)
            self._add(candidate, change)

    def _add(self, candidate: int, change: int) -> None:
        self._kernel.add_to_score(*self._ranked, candidate, change)

    @property
    def _ranked(self) -> tuple[Any, ...]:
        ranking = self.ranking
        parts = (ranking.scores, ranking.order, ranking.place, ranking.starts)
        return (*parts, ranking.shift, ranking.first)


# ----------------------------------------- Frank-Wolfe with private choices of vertices
# In every step, over an L1 ball:
#
#     j_t, s_t = exponential mechanism over  -s * (gradient_j + alpha * w_j),
#     w <- (1 - g_t) * w + g_t * l1_radius * s_t * e_{j_t},      g_t = 2 / (t + 2).
#
# Only the vertices are released; the weights follow from them.


# A candidate and the sign of its vertex.
Choice = tuple[int, int]

# The rules below were chosen once on synthetic designs (seeds 1000 to 1003) and on a
# part of the training reviews of IMDB, for which no figure is reported.
_STEPS_PER_SIGNAL, _FEWEST_STEPS, _MOST_STEPS = 1.2, 10, 500
_SIGNAL_PER_REACH, _SHORTEST, _FARTHEST = 12.0, 0.5, 10.0
_FEWEST_RESIDUAL_STEPS, _MOST_RESIDUAL_STEPS = 16, 2**12
# Additional factor on the steps for rows of users, whose shares may be small.
_FINER_SHARES = 64
# Adjacencies in which neighbours differ in presence: nothing replaces what is removed.
_GONE = ("zero_out", "zero_out_user")


@dataclass(frozen=True, kw_only=True)
class FrankWolfe(Solver):
    """Frank-Wolfe with the exponential mechanism over the vertices of an L1 ball.

    Kept for study, and for very many features where the model should be a path of a few
    chosen features. It takes ``delta=0`` and pays with the logarithm of d only, but its
    optimisation error falls slowly: on the sparse design its relative error is 0.287 at
    epsilon 2, and 0.055 with `peeling`. One output; several classes are refused (use
    `iht`).

    Parameters
    ----------
    n_steps : int in [1, 1e6] or None, default=None
        Vertices chosen. None: ``1.2 (n mu / log(2 d))^(2/3)``, between 10 and 500.
    l1_radius : float in [1e-150, 1e150] or None, default=None
        Radius of the ball, in weights; the intercept counts as a weight. None: raw
        predictions reach 0.5 to 10 times the loss's `prediction_unit`, more with
        stronger signal.
    residual_clip : float in [1e-6, inf] or None, default=None
        Bound of every record's residual. None: half of the loss's `noisy_clip`.
    residual_steps : int in [1, 2**20] or None, default=None
        Steps into which residuals are rounded; fewer make faster steps. None: as many
        as the noise hides, 16 to 4096, of users 64 times as many.

    Notes
    -----
    A choice has noise in proportion to `feature_bound`: a bound that is exceeded now
    and then is often better. Released are all vertices in their order, selections of
    bounded range that are composed numerically; with delta = 0 they add up to pure
    epsilon. Entries and residuals are integers, so that sums are exact. Unit of
    privacy: one record, or all rows of a user. Proof: ``docs/proofs/papers.md``,
    Theorem 2.

    References
    ----------
    .. [1] Talwar, Thakurta and Zhang (2015). Nearly optimal private LASSO. NeurIPS.
    .. [2] Raff, Khanna and Lu (2023). Scaling up differentially private LASSO
       regularized logistic regression. NeurIPS. https://arxiv.org/abs/2310.19978
    """

    key: ClassVar[str] = "frank_wolfe"
    mechanism: ClassVar[str] = (
        "exponential mechanism over the vertices, composed numerically"
    )
    takes_users: ClassVar[bool] = True
    needs_rows: ClassVar[bool] = True
    is_pure: ClassVar[bool] = True
    is_sparse: ClassVar[bool] = True
    # For study: the solver of "auto" is more accurate on all compared data
    # (docs/notebook/benchmarks.md).
    checks: ClassVar[Checks] = {
        "n_steps": partial(check_count, high=10**6),
        "l1_radius": partial(check_real, low=1e-150, high=1e150),
        "residual_clip": partial(check_real, low=1e-6, high=math.inf),
        "residual_steps": partial(check_count, high=2**20),
    }

    n_steps: int
    l1_radius: float
    residual_clip: float
    residual_steps: int

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        cls.check(objective, budget)
        signal, n_steps = _signal_and_steps(given, objective, budget)
        decided = {
            "n_steps": n_steps,
            "l1_radius": _radius(objective, signal),
            "residual_clip": objective.loss.noisy_clip / 2,
            "residual_steps": _residual_steps(signal, n_steps, objective),
        }
        solver = cls(**{**decided, **given})
        solver._check_sums(objective)
        return solver

    @classmethod
    def check(cls, objective: LinearObjective, budget: Budget) -> None:
        super().check(objective, budget)
        if objective.loss.n_outputs > 1:
            raise Refused(
                f"solver={cls.key!r} chooses one weight at a time and needs a model "
                "with one output. Use solver='iht'."
            )

    def _check_sums(self, objective: LinearObjective) -> None:
        me, most = f"solver={self.key!r}", _most_residual_steps(objective)
        if self.residual_steps > most:
            raise Refused(
                f"{me} cannot add up so many records in whole numbers with "
                f"residual_steps={self.residual_steps}. Use at most {most} "
                "'residual_steps', or solver='iht'."
            )
        if objective.n_columns >= 2**31:
            raise Refused(f"{me} can have 2^31 candidates at most. Use solver='iht'.")

    def plan(self, objective: LinearObjective) -> Plan:
        return Plan((Line(self.n_steps, law=Choices()),))

    def sensitivity(self, objective: LinearObjective) -> float:
        """Sensitivity of a score: a sum over records of a feature times a residual."""
        step = self.residual_bound(objective, 1.0) / self.residual_steps
        in_steps = score_sensitivity(self.residual_steps, objective)
        return float(in_steps * step * objective.entry_bound / 2**ENTRY_BITS)

    def residual_bound(self, objective: LinearObjective, share: float) -> float:
        """Bound on a clipped residual, with weights in this fraction of the ball."""
        farthest = share * objective.entry_bound * self.l1_radius
        return min(objective.loss.zero_out_bound(farthest), self.residual_clip)

    def step(self, t: int, choice: Choice) -> tuple[float, int, float]:
        """Move of the weights after choice t: factor, candidate and added weight."""
        (chosen, sign), share = choice, 2 / (t + 2)
        return 1 - share, chosen, share * sign * self.l1_radius

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        epsilon = Choices().epsilon(answers.multiplier())
        chosen: list[Choice] = []

        def hear(choice: Choice) -> None:
            chosen.append(choice)
            progress.step(len(chosen), self.n_steps)

        answers.inside(VertexPath(self, objective, epsilon), hear)
        walk = VertexWalk(objective)
        for t, choice in enumerate(chosen):
            walk.move(*self.step(t, choice))
        # Standard deviation of the Gumbel noise whose maximum is a choice.
        gumbel = math.pi / math.sqrt(6) * 2 / epsilon
        scale = gumbel * self.sensitivity(objective)
        return Solution(_fewer(walk.weights(), objective), scale)


@dataclass(frozen=True)
class VertexPath:
    """The choices of a path, for `Answers.inside`, with updated scores.

    `epsilon` is the epsilon of each choice.
    """

    takes_shares: ClassVar[bool] = True

    solver: FrankWolfe
    objective: LinearObjective
    epsilon: float

    @property
    def per_unit(self) -> float:
        """Steps of a rounded residual in one unit of the residual."""
        largest = self.solver.residual_bound(self.objective, 1.0)
        return self.solver.residual_steps / largest

    def most(self, done: int) -> int:
        """Largest residual, in steps, after `done` choices."""
        if done:
            return self.solver.residual_steps
        # All weights are 0 at first, so residuals may be far below their bound.
        at_first = self.per_unit * self.solver.residual_bound(self.objective, 0.0)
        return min(max(1, round(at_first)), self.solver.residual_steps)

    def bound(self, line: int, done: int) -> int:
        return score_sensitivity(self.most(done), self.objective)

    def within(self, source: Source, draws: Draws) -> Generator[Ranking, Choice, None]:
        """Yield the ranked candidates, receive the chosen one."""
        rows = IntegerRows.read(source, self.objective)
        scores = VertexScores(rows, self.objective, self.per_unit)
        for t in range(self.solver.n_steps):
            bound = self.bound(0, t)
            shift = choice_shift(sensitivity=bound, epsilon=self.epsilon)
            scores.update(self.most(t), shift)
            choice = yield scores.ranking
            scores.move(*self.solver.step(t, choice))


def _signal_and_steps(
    given: Given, objective: LinearObjective, budget: Budget
) -> tuple[float, int]:
    """The signal that the budget can distinguish, and the number of steps."""
    candidates = math.log(2 * objective.n_columns)
    records = objective.n_samples / candidates
    if objective.adjacency in _GONE:
        records *= 2
    if budget.delta > 0:
        signal = records * gaussian_mu(budget.epsilon, budget.delta)
        wanted = _STEPS_PER_SIGNAL * signal ** (2 / 3)
    else:
        wanted = math.sqrt(_STEPS_PER_SIGNAL**1.5 / 2 * records * budget.epsilon)
    by_rule = math.ceil(min(max(wanted, _FEWEST_STEPS), _MOST_STEPS))
    steps: int = given.get("n_steps", by_rule)
    if budget.delta == 0:
        # A budget of mu-GDP pays for T selections of 2 mu / sqrt(T) each.
        signal = records * budget.epsilon / (2 * math.sqrt(steps))
    return signal, steps


def _radius(objective: LinearObjective, signal: float) -> float:
    """Radius that lets raw predictions grow with the strength of the signal."""
    # Ratio of the entries of a full row to their bound.
    share = objective.full_entries / objective.n_features
    felt = signal * math.sqrt(min(1.0, share))
    reach = min(max(felt / _SIGNAL_PER_REACH, _SHORTEST), _FARTHEST)
    return reach * objective.loss.prediction_unit / objective.entry_bound


def _residual_steps(signal: float, n_steps: int, objective: LinearObjective) -> int:
    """Steps so fine that half a step is at most a quarter of the noise in a score."""
    hidden: int = 2 ** math.ceil(math.log2(signal / math.sqrt(n_steps) + 1))
    steps = min(max(hidden, _FEWEST_RESIDUAL_STEPS), _MOST_RESIDUAL_STEPS)
    # For users each row's share of a residual is cut to whole steps.
    finer = steps * _FINER_SHARES if is_of_users(objective.adjacency) else steps
    return min(finer, _power_below(_most_residual_steps(objective)))


def _most_residual_steps(objective: LinearObjective) -> int:
    """Most steps with which sums over the records stay below 2^SUM_BITS; may be 0."""
    largest: int = (2**SUM_BITS - 1) // (objective.n_samples * 2**ENTRY_BITS)
    return largest


def _power_below(most: int) -> int:
    """The largest power of two that is at most a number, or 1."""
    return 1 << max(most.bit_length() - 1, 0)


def _fewer(weights: FloatArray, objective: LinearObjective) -> FloatArray:
    """The allowed number of largest weights, and the intercept's weight."""
    d = objective.n_features
    chosen = np.flatnonzero(weights[:d])  # few of many
    kept = chosen[largest_rows(weights[chosen], objective.most_features)]
    return keep_rows(weights, np.append(kept, np.arange(d, len(weights))))


def score_sensitivity(most: int, objective: LinearObjective) -> int:
    """Largest change of a score by one record, for residuals of at most `most` steps.

    Both adjacencies are derived on the proof page. The unit is a step of the score.
    """
    one_record: int = most * 2**ENTRY_BITS
    return one_record if objective.adjacency in _GONE else 2 * one_record
