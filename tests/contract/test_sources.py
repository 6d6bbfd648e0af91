"""A source may show its rows in another order at every reading; no solver may mind.

Some sources that keep the protocol do: a query without an order, a shuffled file. What
clips a row must then be found anew at every reading, or an outlier that has moved is
multiplied by the factor of another row.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array, issparse

from skdp.losses import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.sums import _floating as gradient
from skdp.sums._gradient import ClippedGradient
from skdp.tables._memory import MemorySource
from skdp.tables._source import Block, Facts, Source
from skdp.tables._views import Bucket
from tests.door import run
from tests.gradients import query_sensitivity
from tests.problems import CASES, Case, case_id
from tests.spies import Transcript

N = 40


class Rolling(Source):
    """Rows in another place at every reading, the order known beforehand."""

    n_readings = 0

    def __init__(self, X, y, present=None, size=8):
        self._X, self._y, self._size = X, y, size
        self._present = np.ones(len(y), dtype=bool) if present is None else present
        n, d = X.shape
        self.facts = Facts(
            n_samples=n, n_features=d, largest_block=size, is_row_major=not issparse(X)
        )

    def blocks(self):
        order = np.roll(np.arange(self.n_samples), 3 * self.n_readings)
        self.n_readings += 1
        for start in range(0, self.n_samples, self._size):
            rows = order[start : start + self._size]
            yield Block(self._X[rows], self._y[rows], self._present[rows])


class Stable(Rolling):
    """The broken twin: says that it is stable, and rolls."""

    def __init__(self, *given):
        super().__init__(*given)
        self.facts = replace(self.facts, is_stable=True)


# Gradient sums -------------------------------------------------------------------


def outlier_last(huge):
    """Short rows and a long one: which block it is in changes at every reading."""
    X = np.full((N, 2), 0.01)
    X[-1] = huge
    return X, np.zeros(N)


OBJECTIVE = LinearObjective(
    loss=LogisticLoss(),
    n_samples=N,
    n_features=2,
    data_norm=1.0,
    adjacency="zero_out",
    fit_intercept=False,
)
STORES = {"dense": np.asarray, "single": np.float32, "sparse": csr_array}


def contributions(kind, store, huge=1e6):
    """What the outlier adds to the sum, at each of six readings."""
    weights, sums = np.zeros((2, 1)), []
    for row in (huge, 0.0):
        X, y = outlier_last(row)
        total = gradient.GradientSum(kind(store(X), y), OBJECTIVE)
        sums.append([total(weights) for _ in range(6)])
    return [float(np.linalg.norm(a - b)) for a, b in zip(*sums, strict=True)]


@pytest.fixture(params=["interpreted", "compiled"])
def way(request, monkeypatch):
    """Both ways to a gradient sum, however small the table is."""
    if request.param == "compiled":
        monkeypatch.setattr(gradient, "_WORTH_COMPILING", 0)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("huge", [1e6, 1e30])
@pytest.mark.parametrize("store", STORES.values(), ids=STORES)
def test_a_row_that_moves_is_clipped_at_every_reading(store, huge):
    most = query_sensitivity(OBJECTIVE)
    assert max(contributions(Rolling, store, huge)) <= most


def test_who_is_stable():
    X, y = outlier_last(1.0)

    class Remote(MemorySource):
        """May read its blocks from anywhere."""

    memory, rolling = MemorySource(X, y), Rolling(X, y)
    assert memory.facts.is_stable
    assert Bucket(rolling.facts, [Block(X, y)]).facts.is_stable
    assert not Remote(X, y).facts.is_stable
    assert not rolling.facts.is_stable  # declares nothing


# Solvers -------------------------------------------------------------------------

# Those whose queries are sums that one record moves by their sensitivity at most, at
# given releases, whatever was asked before.
KEYS = ("noisy_gd", "noisy_sgd", "online", "nesterov", "heavy_ball", "multistage")
KEYS += ("iht", "peeling", "two_stage", "adassp", "bolt_on", "noisy_newton")
MOVED = [
    case
    for case in CASES
    if case.key in KEYS and case.loss_name in ("logistic", "squared") and not case.mode
]


def neighbours(case, kind):
    """Two sources that differ in one record, at the border of two blocks."""
    X, y = case.data()
    X = 0.01 * X
    there, gone = np.ones(len(y), dtype=bool), np.ones(len(y), dtype=bool)
    X[-1] = 1e6
    other = X.copy()
    if case.adjacency == "zero_out":
        gone[-1] = False
    else:
        other[-1] = -X[-1]
    return kind(X, y, there), kind(other, y, gone)


def farthest(case, kind, seed=0):
    """Largest change of a query between neighbours, in units of its sensitivity."""
    first = Transcript(seed)
    second = Transcript(seed, heard=first)
    for source, noise in zip(neighbours(case, kind), (first, second), strict=True):
        with np.errstate(all="ignore"):  # as `solve` does
            run(case.solver, source, case.objective, 1.0, noise)
    assert first.facts == second.facts
    worst = 0.0
    for a, b, (law, facts) in zip(
        first.queries, second.queries, first.facts, strict=True
    ):
        change = (a - b) / facts["sensitivity"]
        norm = np.abs(change).max() if law == "top_k" else np.linalg.norm(change)
        worst = max(worst, float(norm))
    return worst


@pytest.mark.parametrize("case", MOVED, ids=case_id)
def test_no_query_minds_rows_that_move(case):
    # The sensitivity of a sample's sum is that of zero_out
    # (docs/proofs/gradient_descent.md, Theorem 2).
    most = 1 + (case.key == "noisy_sgd" and case.adjacency == "replace_one")
    found = [farthest(case, Rolling, seed) for seed in range(4)]
    assert 0 < max(found) <= most


TWINS = ("noisy_gd", "nesterov", "heavy_ball", "multistage")


@pytest.mark.parametrize("key", TWINS)
def test_broken_twins_that_keep_factors_are_found(key, monkeypatch):
    """Floating sums keep what clips rows; exact ones keep the clipped rows."""
    case = Case(key, "logistic", "replace_one")
    assert farthest(case, Stable) <= 1
    monkeypatch.setattr(ClippedGradient, "is_exact", False)
    assert farthest(case, Stable) > 1.5
