"""Examples of sums, on which the adder's lemmas are tested.

`EXAMPLES` are bounded sums; `GRADIENTS` have readers, and exact sums by `ExactSum`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from skdp.losses import LogisticLoss, SoftmaxLoss
from skdp.losses._objective import LinearObjective, NetworkObjective
from skdp.papers._smoothing import StepGains, Trial
from skdp.solvers._hazards import HazardGradient, HazardLoss, HazardObjective
from skdp.sums._counts import (
    PRESENCE,
    SQUARES,
    CellCounts,
    CellMoments,
    CodeCounts,
    Counts,
    PairSums,
    StateSums,
    TableSums,
    even_knots,
)
from skdp.sums._moments import (
    ClusterSums,
    Coordinates,
    LengthCounts,
    MomentSums,
    MomentWeights,
    NewtonSums,
    NewtonWeights,
)
from skdp.sums._network import ClippedNetworkGradient
from skdp.sums._record_sums import (
    ErrorSum,
    NoiseRatio,
    PredictionSum,
    ProbabilitySum,
    RowSum,
    TargetSum,
)
from skdp.tables._centred import CentredSource, Centring, StateRows
from tests.ensemble.coded import MIXED, codes_of, draw_trees
from tests.sums.test_gradient_settings import SETTINGS, Setting
from tests.sums.test_leaf_sums import TERMS, query_of
from tests.sums.test_model_gains import grown

N, D = 600, 3
_RNG = np.random.default_rng(0)


@dataclass(frozen=True, eq=False)
class Example:
    """A query with rows to ask it about.

    `junk` is what a null record may hold in place of features. Rows that add the most
    come first.
    """

    query: Any
    X: Any
    y: np.ndarray
    junk: float = np.nan

    @property
    def takes_users(self) -> bool:
        return self.query.bound().zero_out_user is not None


# Corners of the cube first, then points inside.
_CUBE = np.concatenate(
    [np.sign(_RNG.normal(size=(60, D))), _RNG.uniform(-1, 1, (N - 60, D))]
)
_BALL = _CUBE / np.sqrt(D)
_SPARSE = csr_array(_BALL * (_RNG.random((N, D)) < 0.6))
_GAPS = np.where(_RNG.random((N, D)) < 0.2, np.nan, _CUBE)
_CODES = _RNG.integers(0, 5, size=(N, D)).astype(np.uint8)
_SHARE = np.where(np.arange(N) < 60, 1.0, _RNG.random(N))[:, None]
_STATES = csr_array(
    np.hstack([np.eye(4)[_CODES[:, 0] % 4] * _SHARE, np.eye(5)[_CODES[:, 1]]])
)
_TABLE = np.column_stack([_CUBE[:, 0], _CODES])
_LABELS = (_RNG.random(N) < 0.4).astype(float)
_TARGETS = np.where(np.arange(N) < 60, np.sign(_CUBE[:, 0]), _CUBE[:, 1])
_OBJECTIVE = LinearObjective(
    loss=LogisticLoss(), n_samples=N, n_features=D, data_norm=1.0, adjacency="zero_out"
)
_FRAME = Coordinates.of(np.diag([1.0] * D + [0.5]) + 0.1, 0.8)
_COEF = 4 * np.ones((D, 1))
_WEIGHTS, _STEP = np.append(3 * _COEF, [[0.1]], axis=0), -np.ones((D + 1, 1))
_CELLS = tuple(range(5))


class _Hazards(HazardGradient):
    """Of shares in states, which the query centres itself."""

    def open(self, source: Any) -> Any:
        if isinstance(source, CentredSource):
            return source
        centring = Centring(np.full(9, 0.1), np.ones(9), 0.8)
        return CentredSource(source, _state_rows, centring)

    def from_whole(self, source: Any, sums: Any) -> Any:
        return super().from_whole(self.open(source), sums)


def _state_rows(X: Any) -> StateRows:
    return StateRows(X, csr_array(np.eye(9) / 2), (4, 5))


_PERSONS = HazardObjective(
    loss=HazardLoss(),
    n_samples=N,
    n_features=9,
    data_norm=1.0,
    adjacency="zero_out",
    offset=(-1.0, -2.0, 0.5),
    n_intervals=3,
)
_EXITS = np.where(_LABELS == 1, 1.0 + np.arange(N) % 3, -3 * _RNG.random(N))
_TREES = draw_trees(MIXED, n_trees=3, max_depth=3, seed=3)
_VALUES = _RNG.normal(size=(2, _TREES.n_leaves, 1))
_TREE_CODES = codes_of(MIXED, N)

EXAMPLES = {
    "counts": Example(Counts(np.array([[-0.3] * D, [0.4] * D])), _CUBE, _LABELS),
    "codes": Example(
        CodeCounts((0, 2), ((0, 0, 1, 1, 2), _CELLS)), _CODES, _LABELS, 200
    ),
    "codes in L1": Example(CodeCounts((0, 2), (_CELLS, _CELLS), 1), _CODES, _LABELS, 9),
    "codes of labels": Example(
        CodeCounts((0, 2), (_CELLS, _CELLS), n_labels=2), _CODES, _LABELS, 9
    ),
    "states": Example(StateSums(9, N, 2), _STATES, _LABELS),
    "dense states": Example(StateSums(9, N, 2), _STATES.toarray(), _LABELS),
    "knots": Example(StateSums(9, N, 2, even_knots(7)), _STATES, _TARGETS),
    "labels": Example(StateSums(0, N, 0, n_labels=2), _CUBE, _LABELS),
    "squares": Example(PairSums(SQUARES, -np.ones(D), np.ones(D), N), _CUBE, _LABELS),
    "presence": Example(PairSums(PRESENCE, -np.ones(D), np.ones(D), N), _GAPS, _LABELS),
    "table": Example(
        TableSums((CellCounts((1,), (_CELLS,)), CellMoments(0)), (1.0, 0.7), N),
        _TABLE,
        _LABELS,
    ),
    "targets": Example(TargetSum(N, 0.1, 0.5), _CUBE, _TARGETS),
    "predictions": Example(PredictionSum(N, _COEF, 0.7), _BALL, _LABELS),
    "probabilities": Example(
        ProbabilitySum(N, LogisticLoss(), _COEF, np.array([0.1]), 0.8), _BALL, _LABELS
    ),
    "three probabilities": Example(
        ProbabilitySum(
            N, SoftmaxLoss(n_outputs=3), _COEF * [9, -9, 0], np.zeros(3), 1.0
        ),
        _BALL,
        _LABELS,
    ),
    "errors": Example(
        ErrorSum(N, LogisticLoss(), _COEF, np.array([0.1]), 0.8), _BALL, _LABELS
    ),
    "ratios": Example(NoiseRatio(N, _COEF, np.array([0.2]), 5.0), _BALL, _LABELS),
    "hazards": Example(
        _Hazards(_PERSONS, 0.5, np.linspace(-2, 2, 12)[:, None]), _STATES, _EXITS
    ),
    "rows": Example(RowSum(N, D, 1.0), _BALL, _LABELS),
    "sparse rows": Example(RowSum(N, D, 0.5), _SPARSE, _LABELS),
    "moments": Example(
        MomentSums(MomentWeights(0.5, 1.0, 0.3), N, D, 1.0), _BALL, _TARGETS
    ),
    "moments of heavy targets": Example(
        MomentSums(MomentWeights(1.0, 2.0), N, D, 1.0), _BALL, _TARGETS
    ),
    "sparse moments": Example(
        MomentSums(MomentWeights(0.5, 1.0, 0.3), N, D, 0.4), _SPARSE, _TARGETS
    ),
    "newton": Example(
        NewtonSums(_OBJECTIVE, NewtonWeights(1.0, 0.7, 0.2), _FRAME).at(_WEIGHTS),
        _BALL,
        _LABELS,
    ),
    "second moments": Example(
        NewtonSums(_OBJECTIVE, NewtonWeights(0.0, 1.0, 0.0), _FRAME).at(0 * _WEIGHTS),
        _SPARSE,
        _LABELS,
    ),
    "clusters": Example(
        ClusterSums(N, -np.ones(D), np.ones(D), np.full(D, 0.1), 1.5, _CUBE[60:64]),
        _CUBE,
        _LABELS,
    ),
    "lengths": Example(
        LengthCounts(N, 1.0, _FRAME.matrix, np.array([0.2, 0.5, 0.8])), _BALL, _LABELS
    ),
    "steps": Example(
        StepGains(Trial(_OBJECTIVE), _WEIGHTS, _STEP, np.array([0.5, 1.0]), 0.3),
        _BALL,
        _LABELS,
        1e300,
    ),
    "leaves": Example(query_of(TERMS[2], _TREES, N, _VALUES), _TREE_CODES, _LABELS, 0),
    "tree gains": Example(grown("logistic", 1, N, 9.0), _TREE_CODES, _LABELS, 0),
}

_NETWORK = NetworkObjective(
    loss=LogisticLoss(),
    n_samples=N,
    n_features=D,
    data_norm=1.0,
    adjacency="zero_out",
    hidden=(4,),
    activation="tanh",
    input_factor=1.0,
    input_norm=1.0,
)


def _gradient(setting: Setting, X: Any = _BALL) -> Example:
    gradients = setting.gradients(LogisticLoss(), "zero_out", N)
    weights = _WEIGHTS[: gradients.objective.n_columns]
    return Example(setting.query(gradients, weights), X, _LABELS)


GRADIENTS = {
    "sparse gradient": _gradient(SETTINGS["all"], _SPARSE),
    **{
        f"gradient, {name}": _gradient(setting)
        for name, setting in SETTINGS.items()
        if not setting.is_score  # a score of nobody is not 0
    },
    "network": Example(
        ClippedNetworkGradient(_NETWORK, 0.05).at(_RNG.normal(size=_NETWORK.n_weights)),
        _BALL,
        _LABELS,
    ),
}
