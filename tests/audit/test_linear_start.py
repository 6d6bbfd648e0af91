"""Exact audits of boosting that continues a linear model, and planted bugs.

Those of the gate are in ``test_centred_descent.py``, whose lines are the same.

Whole fits are replayed on a neighbour; see `skdp.audit._exact`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pytest

from skdp.audit._exact import Replay
from skdp.ensemble import _boosting as boosting
from skdp.ensemble._boosting import NewtonBoosting
from skdp.privacy.release._answers import Released
from skdp.privacy.release._plan import Bound, Plan
from skdp.solvers._target_base import released_base
from skdp.sums._counts import CodeCounts, StateSums
from skdp.tables._coded import CodeRows
from tests.audit.test_newton_boosting import ADJACENCIES, ROUNDING, Case, bytes_of
from tests.ensemble.coded import Columns
from tests.ensemble.fits import solver_of, task_of

every_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES)
# Rare codes are far from the mean: their rows are long.
RARE = Columns((2, 40), (False, True), (None, None))


@dataclass(frozen=True)
class Linear(Case):
    """A fit that starts at a linear model, of records of a code each but one."""

    columns: Columns = RARE
    other: tuple = (0, 0.0, ())
    code: int = 1
    target: float = 1.0
    params: dict = field(default_factory=lambda: {"linear_share": 0.6})
    n: int = 4000
    kind: type = NewtonBoosting

    @cached_property
    def task(self):
        facts = {"columns": self.columns, "adjacency": self.adjacency}
        facts |= {"interactions": (1,), "init": "linear", "loss_facts": self.facts}
        return task_of(self.loss, self.n, self.n_outputs, **facts)

    @cached_property
    def solver(self):
        # Steps so small that the others' raw predictions stay where they are.
        params = {"n_estimators": 5, "max_depth": 1, "learning_rate": 1e-9}
        return solver_of(self.task, kind=self.kind, **params | self.params)

    def source(self, record):
        source = super().source(record)
        whole = source.whole()
        rare = np.resize(np.arange(30), self.n)
        rare[-1] = 39 if record is None or record[0] else 0
        codes = np.column_stack([whole.X[:, 0], rare]).astype(np.uint8)
        codes[:-1, 0] = 0
        return type(source)(codes, whole.y, whole.present)


CASES = {
    f"{loss}, {adjacency}": Linear(loss, adjacency, **facts)
    for adjacency in ADJACENCIES
    for loss, facts in {
        "logistic": {},
        "softmax": {"n_outputs": 3, "target": 2.0},
        "squared": {"other": (0, -1.0, ())},
    }.items()
}
# The same long row with another label: counts do not move, and the descent does.
RELABELLED = {
    "logistic": Linear("logistic", "replace_one", other=(1, 0.0, ())),
    "squared": Linear("squared", "replace_one", other=(1, -1.0, ())),
}
# What the best of three seeds tells apart at least: weights move, and with them the
# bounds of later answers; under replace_one no pair is at the bound of all lines.
FLOORS = {
    "logistic, zero_out": 0.8,
    "softmax, zero_out": 0.75,
    "squared, zero_out": 0.99,
    "logistic, replace_one": 0.55,
    "softmax, replace_one": 0.55,
    "squared, replace_one": 0.55,
}
every_case = pytest.mark.parametrize("name", CASES)


@every_case
def test_a_fit_tells_apart_no_more_than_is_charged(name):
    found = [CASES[name].found(seed) for seed in range(3)]
    assert max(each.largest for each in found) <= 1 + ROUNDING
    assert max(each.total for each in found) >= FLOORS[name]
    # After the labels, or the targets' histogram and their mean.
    counts = (2,) if name.startswith("squared") else (1,)
    assert all(each.lines[counts] > 0.99 for each in found)


@pytest.mark.parametrize("loss", RELABELLED)
def test_the_descent_costs_what_is_charged(loss):
    found = RELABELLED[loss].found()
    assert found.largest <= 1 + ROUNDING
    part = (3, 0) if loss == "squared" else (2, 0)
    # Weights move, and with them a bound that holds for the longest row there could be;
    # both labels at once have no residuals at their clip.
    assert found.lines[part] > (0.94 if loss == "squared" else 0.55)


@every_adjacency
@pytest.mark.parametrize("loss", ["logistic", "softmax", "squared"])
def test_no_pair_is_told_apart_by_more(loss, adjacency):
    rng = np.random.default_rng(0)
    k = 3 if loss == "softmax" else 1

    def record():
        target = rng.uniform(-1, 1) if loss == "squared" else rng.integers(max(k, 2))
        return int(rng.integers(2)), float(target), ()

    for i in range(4):
        (code, target, _), other = record(), record()
        facts = {"n_outputs": k, "other": other, "n": 800}
        case = Linear(loss, adjacency, code=code, target=target, **facts)
        assert case.found(i).largest <= 1 + ROUNDING


@dataclass(frozen=True)
class Weighted(Linear):
    """Labels that are as rare as they weigh much, of which the record has the rarest.

    Then nobody is told to be of one of them at first, and residuals are large.
    """

    params: dict = field(
        default_factory=lambda: {"linear_share": 0.6, "counts_share": 0.1}
    )

    @property
    def balanced(self):
        weights = self.facts["label_weights"]
        times = [round(1 / weight) for weight in weights]
        return np.repeat(np.arange(float(len(weights))), times)


WEIGHTED = {
    "logistic": {"facts": {"label_weights": (0.2, 1.0)}},
    # Whose linear model takes all labels alike.
    "softmax": {
        "n_outputs": 3,
        "target": 2.0,
        "facts": {"label_weights": (0.1, 0.4, 1.0)},
    },
}


def weighted_case(loss, adjacency, other=(1, 0.0, ())):
    return Weighted(loss, adjacency, **WEIGHTED[loss], other=other)


@every_adjacency
@pytest.mark.parametrize("loss", WEIGHTED)
def test_weights_of_labels_cost_no_more(loss, adjacency):
    for other in ((1, 0.0, ()), (0, 1.0, ()), (0, 0.0, ())):
        found = weighted_case(loss, adjacency, other).found()
        assert found.largest <= 1 + ROUNDING
    # Of all steps of the descent: others' records make residuals small.
    assert weighted_case(loss, adjacency).found().lines[2, 0] > 0.25


def as_declared(loss):
    """Planted bug: weights in the units in which they were declared."""
    found = replace(loss)
    own = tuple(5 * weight for weight in loss.label_weights)
    object.__setattr__(found, "label_weights", own)
    return found


@every_adjacency
def test_broken_twin_of_weights_as_they_were_declared_is_found(adjacency, monkeypatch):
    monkeypatch.setattr(boosting, "linear_loss", as_declared)
    assert weighted_case("logistic", adjacency).found().largest > 2


def test_without_trees_the_linear_model_is_all():
    params = {"n_estimators": 0}
    for adjacency in ADJACENCIES:
        found = Linear("logistic", adjacency, params=params).found()
        assert found.largest <= 1 + ROUNDING
        assert {place[0] for place in found.lines} == {0, 1, 2}


# ------------------------------------------------------------------------ broken twins


@every_case
def test_broken_twins_with_less_noise_are_found(name):
    for shrink, least in ((0.5, 1.98), (0.9, 1.1)):
        found = CASES[name].found(0, shrink=shrink)
        assert found.largest > least


@pytest.mark.parametrize("loss", RELABELLED)
def test_broken_twin_without_weights_of_records_is_found(loss, monkeypatch):
    honest = CodeRows.T.func

    def unweighted(self):
        return replace(honest(self), weights=np.ones(len(self.codes)))

    monkeypatch.setattr(CodeRows, "T", property(unweighted))
    assert RELABELLED[loss].found().largest > 1.3


def test_broken_twin_that_charges_as_under_zero_out_is_found(monkeypatch):
    monkeypatch.setattr(Bound, "under", lambda self, relation: self.zero_out)
    for case in RELABELLED.values():
        assert case.found().largest > 1.35


@every_adjacency
def test_broken_twin_that_centres_by_exact_counts_is_found(adjacency, monkeypatch):
    class Exact(CodeCounts):
        def total(self, reader, rows):
            Exact.seen = super().total(reader, rows)
            return Exact.seen

    honest_counts, honest = boosting.counts_of, boosting.margins_of

    def counts_of(columns, *, of_all):
        asked = honest_counts(columns, of_all=of_all)
        return Exact(asked.columns, asked.n_bins)

    def margins_of(asked, released, n_samples):
        return honest(asked, Released(Exact.seen, 0.0, 0.0), n_samples)

    monkeypatch.setattr(boosting, "counts_of", counts_of)
    monkeypatch.setattr(boosting, "margins_of", margins_of)
    with pytest.raises(AssertionError, match=r"is not the same|depends on the data"):
        CASES[f"logistic, {adjacency}"].found()


@pytest.mark.parametrize("left_out", ["start", "counts", "linear"])
@every_adjacency
def test_broken_twins_that_leave_lines_off_the_books_are_found(left_out, adjacency):
    class Short(NewtonBoosting):
        def plan(self, task):
            honest = super().plan(task)
            lines = zip(self._asked(task), honest.lines, strict=True)
            booked = Plan(tuple(line for name, line in lines if name != left_out))
            return Plan(honest.lines, lambda z: booked.event(z, task.adjacency))

    # All but one line is little, so that what is left out shows.
    params = {"linear_share": 0.05, "counts_share": 0.8}
    if left_out == "linear":
        params = {"linear_share": 0.85, "counts_share": 0.01}
    if left_out == "start":
        params = {"linear_share": 0.05, "start_share": 0.8}
    case = CASES[f"logistic, {adjacency}"]
    if left_out != "counts":
        case = replace(RELABELLED["logistic"], adjacency=adjacency)
    assert replace(case, kind=Short, params=params).found().total > 1.1


def test_broken_twin_that_starts_at_exact_labels_is_found(monkeypatch):
    def exact(loss, n_samples, ask, asked, *, is_alone):
        def asked_exactly(name, query):
            released = ask(name, query)
            return replace(released, value=StateSumsSeen.seen, deviation=0.0)

        return released_base(loss, n_samples, asked_exactly, asked, is_alone=is_alone)

    class StateSumsSeen:
        seen = None

    honest = StateSums.total

    def total(self, reader, rows):
        StateSumsSeen.seen = honest(self, reader, rows)
        return StateSumsSeen.seen

    monkeypatch.setattr(StateSums, "total", total)
    monkeypatch.setattr(boosting, "released_base", exact)
    with pytest.raises(AssertionError, match=r"is not the same|depends on the data"):
        RELABELLED["logistic"].found()


def test_a_model_tells_its_curves():
    case = CASES["logistic, zero_out"]
    model = case.run(case.source((1, 1.0, ())), Replay(3))
    assert model.curves is not None
    changed = replace(
        model,
        curves=replace(
            model.curves, tables=tuple(table + 1 for table in model.curves.tables)
        ),
    )
    assert bytes_of(changed) != bytes_of(model)
