"""Exact audits of centred fits: both parts together, and planted bugs in either.

See `skdp.audit._replay`: one transcript, replayed on the neighbour. The pairs are those
of `tests.audit.preconditioned`.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

from skdp import DPLinearRegression, DPLinearSVC, DPLogisticRegression, Preconditioning
from skdp.audit._replay import replayed, verdict
from skdp.columns import Boolean
from skdp.data import CentredSource, Centring, MemorySource
from skdp.data._source import Block
from skdp.privacy._audited import audited_by
from skdp.privacy._plan import Plan
from skdp.privacy._query import Bound
from skdp.queries._state_sums import StateSums
from skdp.solvers._margins import shrunk_margins, target_scale
from skdp.solvers._preconditioned import Preconditioned
from tests.audit.linear import LOSSES
from tests.audit.preconditioned import INNER, SHARE, Case, N, truth_values

ADJACENCIES = ("replace_one", "zero_out")
ROUNDING = 1e-9

every_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES)


def worst(inner, loss, adjacency, **facts):
    """The case in which both parts of a fit are at their bounds.

    Under replace_one the opposite row is the worst without an intercept only.
    """
    return Case(inner, loss, adjacency, fit_intercept=adjacency == "zero_out", **facts)


# ------------------------------------------------------------------------- it is tight


@every_adjacency
@pytest.mark.parametrize("inner", INNER)
def test_both_parts_together_cost_what_is_charged(inner, adjacency):
    case = worst(inner, "logistic", adjacency)
    for seed in range(3):
        found = case.found(seed)
        assert 0.9995 <= found.total <= found.largest <= 1 + ROUNDING
    assert case.found(shrink=0.5).total > 1.99
    assert case.found(shrink=0.9).total > 1.1


@every_adjacency
@pytest.mark.parametrize("change", ["opposite", "label"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("inner", INNER)
def test_no_pair_is_told_apart_by_more(inner, loss, change, adjacency):
    for clip in (0.1, 1.0, 3.0):
        found = Case(inner, loss, adjacency, change=change, clip=clip).found()
        assert found.largest <= 1 + ROUNDING


def test_labels_are_told_apart_by_the_fit_alone():
    found = Case("noisy_gd", "logistic", "replace_one", change="label").found()
    assert found.lines[0,] == 0
    assert found.lines[1, 0] > 0.9995
    assert found.total == pytest.approx(math.sqrt(1 - SHARE), rel=1e-3)


@every_adjacency
def test_a_centre_of_even_shares_costs_nothing(adjacency):
    case = worst("noisy_gd", "logistic", adjacency, share=0.0)
    found = case.found()
    assert set(found.lines) == {(1, 0)}
    assert 0.9995 <= found.total <= 1 + ROUNDING


def test_one_event_for_both_parts():
    case = worst("noisy_gd", "logistic", "zero_out")
    sums, fit = case.plan.lines
    costs = [
        part.event(case.multiplier, "zero_out").gdp_mu_squared for part in (sums, fit)
    ]
    assert case.event.gdp_mu_squared == pytest.approx(sum(costs), rel=1e-12)
    assert costs[0] / sum(costs) == pytest.approx(SHARE, rel=1e-3)


# ------------------------------------------------------------------------ broken twins


def exact_shares(solver, answers, objective):
    query = solver.sums(objective)
    answers.ask(query)
    shares = query.total(answers._source, None) / objective.n_samples
    return np.split(shares, [query.n_states])


class CentreWithoutNoise(Preconditioned):
    """Planted bug: centred on the exact sums, though noisy ones are paid for."""

    def _released(self, answers, objective):
        states, _ = exact_shares(self, answers, objective)
        return shrunk_margins(states, 0.0, self.states.parts), None


class ExactTargets(Preconditioned):
    """Planted bug: targets lie where the exact sums say, though noise is paid for."""

    def _released(self, answers, objective):
        _, knots = exact_shares(self, answers, objective)
        even = np.full(sum(self.states.parts), 0.5)
        return even, target_scale(knots, 0.0)


class ExactScale(Preconditioned):
    """Planted bug: a released centre, and scales of the exact sums."""

    def _released(self, answers, objective):
        states, _ = exact_shares(self, answers, objective)
        exact = shrunk_margins(states, 0.0, self.states.parts)
        object.__setattr__(self, "exact", exact)
        return np.full(sum(self.states.parts), 0.5), None

    def centring(self, margins):
        released, exact = super().centring(margins), super().centring(self.exact)
        return Centring(released.centre, exact.scale, released.norm)


class ExactNorm(ExactScale):
    """Planted bug: the norm to which rows are clipped is that of the exact sums."""

    def centring(self, margins):
        released = Preconditioned.centring(self, margins)
        exact = Preconditioned.centring(self, self.exact)
        return Centring(released.centre, released.scale, exact.norm)


@every_adjacency
@pytest.mark.parametrize("kind", [CentreWithoutNoise, ExactScale, ExactNorm])
def test_twins_that_use_exact_sums_are_found(kind, adjacency):
    case = worst("noisy_gd", "logistic", adjacency, kind=kind, clip=3.0, n_alike=99)
    with pytest.raises(AssertionError, match=r"is not the same|depends on the data"):
        case.found()


@every_adjacency
def test_twin_that_scales_targets_exactly_is_found(adjacency):
    facts = {"n_intervals": 8, "clip": 3.0, "n_alike": 99, "change": "label"}
    case = worst("noisy_gd", "squared", adjacency, kind=ExactTargets, **facts)
    with pytest.raises(AssertionError, match=r"is not the same|depends on the data"):
        case.found()


@every_adjacency
@pytest.mark.parametrize("inner", INNER)
def test_targets_are_a_part_of_the_first_release(inner, adjacency):
    for change in ("opposite", "label"):
        case = worst(inner, "squared", adjacency, n_intervals=8, change=change)
        found = case.found()
        assert found.largest <= 1 + ROUNDING
        assert found.lines[0,] > 0.49
    # A record that is gone is gone from every part.
    if adjacency == "zero_out":
        assert found.lines[0,] > 0.9995


class SumsForNothing(Preconditioned):
    """Planted bug: the sums over states are released, and not on the books."""

    def plan(self, objective):
        honest = super().plan(objective)
        fit = honest.lines[1]
        return Plan(honest.lines, lambda z: fit.event(z, objective.adjacency))


@every_adjacency
def test_twin_that_does_not_charge_the_sums_is_found(adjacency):
    case = worst("noisy_gd", "logistic", adjacency, kind=SumsForNothing)
    assert case.found().total > 1.15


@every_adjacency
def test_twin_with_half_the_noise_in_either_part_is_found(adjacency, monkeypatch):
    case = worst("noisy_gd", "logistic", adjacency)
    honest = StateSums.bound

    def halved(self):
        bound = honest(self)
        return type(bound)(
            zero_out=bound.zero_out / 2, replace_one=bound.replace_one / 2
        )

    monkeypatch.setattr(StateSums, "bound", halved)
    assert case.found().lines[0,] > 1.99


@every_adjacency
def test_twin_that_does_not_clip_centred_rows_is_found(adjacency, monkeypatch):
    honest = Centring.of

    def unclipped(self, X):
        rows = honest(self, X)
        return replace(rows, factor=np.full(len(rows.factor), 1 / self.norm))

    monkeypatch.setattr(Centring, "of", unclipped)
    assert worst("noisy_gd", "logistic", adjacency).found().lines[1, 0] > 1.3


def test_twin_that_forgets_the_second_record_is_found(monkeypatch):
    """Every bound under replace_one is that of zero_out."""
    monkeypatch.setattr(Bound, "under", lambda self, relation: self.zero_out)
    found = worst("noisy_gd", "logistic", "replace_one").found()
    assert found.lines[0,] > 1.41
    assert found.lines[1, 0] > 1.99


class Unmasked(CentredSource):
    """Planted bug: the null record is a row of zeros, and centred as any other."""

    def __init__(self, source, encode, centring, targets=None):
        super().__init__(source, encode, centring, targets)
        self._blocks = [Block(self._zeroed(block), block.y) for block in self._blocks]

    @staticmethod
    def _zeroed(block):
        rows = block.X
        gone = 1.0 * block.present if block.present is not None else 1.0
        X = (rows.X @ np.eye(rows.shape[1])) * np.reshape(gone, (-1, 1))
        return replace(rows, X=X)


def test_the_null_record_leaves_no_trace(monkeypatch):
    """It contributes exactly 0 to both queries, whatever stands in its row."""
    case = worst("noisy_gd", "logistic", "zero_out")
    there = np.arange(N + 1) < N

    def table(row, label):
        rows = np.tile([0, 1, 1], (N + 1, 1))
        rows[-1] = row
        y = np.append(np.arange(N) % 2, label).astype(float)
        return MemorySource(truth_values(rows), y, there)

    def is_without_trace():
        pair = table([0, 0, 0], 0.0), table([1, 0, 1], 1.0)
        first, second, _ = replayed(case.run, pair, 0)
        both = zip(first, second, strict=True)
        return all(np.array_equal(a.query, b.query) for a, b in both)

    assert is_without_trace()
    monkeypatch.setattr("skdp.solvers._preconditioned.CentredSource", Unmasked)
    assert not is_without_trace()


# ------------------------------------------------------------------------- whole models


@dataclass(frozen=True)
class Model:
    """A model's fit on pairs of declared tables."""

    kind: type
    adjacency: str
    params: tuple = ()

    def fitted(self, table, noise, monkeypatch):
        X, y, there = table
        needs = {"target_bounds": (-1, 1)}
        if self.kind is not DPLinearRegression:
            needs = {"classes": sorted({0, 1, *dict(self.params).get("classes", ())})}
        model = self.kind(
            1.0,
            columns={"a": Boolean(), "b": ["x", "y", "z"], "c": (0, 1)},
            adjacency=self.adjacency,
            preconditioning=Preconditioning(share=SHARE, clip=0.5),
            **needs | dict(self.params),
        )
        with (
            monkeypatch.context() as patch,
            warnings.catch_warnings(),
            audited_by(noise),
        ):
            warnings.simplefilter("ignore")
            patch.setattr(
                "skdp.io._rows.MemorySource",
                lambda X, y: MemorySource(X, y, there),
            )
            return model.fit(X, y)


def tables(kind, adjacency):
    rng = np.random.default_rng(0)
    n = 80
    X = pd.DataFrame(
        {
            "a": rng.random(n) < 0.5,
            "b": rng.choice(["x", "y", "z", "?"], n),
            "c": rng.random(n),
        }
    )
    y = (rng.random(n) < 0.5).astype(int)
    y[-1] = 1
    if kind is DPLinearRegression:
        y = 2.0 * y - 1
    X.loc[n - 1] = [True, "x", 0.0]
    other, label, there = X.copy(), y.copy(), np.ones(n, dtype=bool)
    left = there.copy()
    if adjacency == "zero_out":
        left[-1] = False
    else:
        other.loc[n - 1] = [False, "y", 1.0]
        label[-1] = 0 if kind is not DPLinearRegression else -1
    return (X, y, there), (other, label, left)


MODELS = [
    (DPLogisticRegression, ()),
    (DPLogisticRegression, (("classes", (0, 1, 2)),)),
    (DPLinearSVC, ()),
    (DPLinearRegression, ()),
    (DPLogisticRegression, (("solver", "heavy_ball"),)),
    (DPLinearRegression, (("solver", "multistage"),)),
]


@every_adjacency
@pytest.mark.parametrize(("kind", "params"), MODELS)
def test_a_model_costs_no_more_than_is_on_its_record(
    kind, params, adjacency, monkeypatch
):
    model = Model(kind, adjacency, params)

    def run(table, noise):
        return model.fitted(table, noise, monkeypatch)

    first, second, (one, other) = replayed(run, tables(kind, adjacency), 0)
    for name in ("center_", "scale_", "row_norm_", "coef_", "intercept_"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    found = verdict(first, second, one.privacy_.event)
    assert found.largest <= 1 + ROUNDING
    # The record is in other states of every column: the sums are at their bound.
    assert found.lines[0,] > 0.9999
    halved = replayed(run, tables(kind, adjacency), 0, shrink=0.5)
    assert verdict(*halved[:2], one.privacy_.event).largest > 1.99
