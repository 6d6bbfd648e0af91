"""`describe` on the worst neighbours, by replay, and planted bugs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from skdp import describe
from skdp._users import Users
from skdp.audit._exact import replayed, verdict
from skdp.columns import Range
from skdp.io import _table
from skdp.statistics._description import TableQuestions
from skdp.sums import _counts
from skdp.sums._adder import Compiled, Entries
from skdp.sums._counts import CellMoments, TableSums
from skdp.tables._memory import MemorySource
from tests.audit.linear import BUDGETS
from tests.audit.tables import answered_by

DECLARED = {"x": Range(-1, 1), "y": Range(0, 1, missing=True), "z": ["a", "b"]}
# The first record of two data sets: other cells everywhere, the last one among them.
FIRST, SECOND = (1.0, 1.0, "?"), (-1.0, 0.0, "b")
OTHERS = [(0.3, 0.2, "b"), (-0.7, math.nan, "?")]
ADJACENCIES = ("replace_one", "zero_out")
every_case = pytest.mark.parametrize("adjacency", ADJACENCIES)
both_laws = pytest.mark.parametrize("law", ["gaussian", "pure"])


def audited(adjacency, law="gaussian", seeds=(0,), **bugs):
    """Smallest and largest found over charged."""
    budget, event = BUDGETS[law], []

    def run(record, noise):
        X = pd.DataFrame([record or SECOND, *OTHERS], columns=list(DECLARED))
        there = np.array([record is not None, True, True])
        with answered_by(noise) as patch:
            patch.setattr(
                _table, "MemorySource", lambda X, y: MemorySource(X, y, there)
            )
            found = describe(
                X,
                DECLARED,
                epsilon=budget.epsilon,
                delta=budget.delta,
                adjacency=adjacency,
                crosses=[("x", "z")],
                n_bins=4,
                cross_bins=2,
            )
        event.append(found.privacy_.event)

    pair = (FIRST, None) if adjacency == "zero_out" else (FIRST, SECOND)
    found = []
    for seed in seeds:
        one, other, _ = replayed(run, pair, seed, **bugs)
        found.append(verdict(one, other, event[0]))
    return min(x.total for x in found), max(x.largest for x in found)


@every_case
@both_laws
def test_the_claim_is_attained_and_never_passed(adjacency, law):
    low, high = audited(adjacency, law, seeds=(0, 1, 2))
    assert 0.999 <= low <= high <= 1 + 1e-9


@every_case
@both_laws
def test_less_noise_is_caught(adjacency, law):
    assert audited(adjacency, law, shrink=0.9)[1] > 1.04


@every_case
def test_a_number_without_noise_is_caught(adjacency):
    assert audited(adjacency, is_bare=True)[1] == math.inf


def charged_without(monkeypatch, is_left_out):
    """Bounds and weights of all parts but some, which are asked all the same."""
    honest = TableSums._moved

    def moved(self, adjacency):
        kept = [
            (p, w)
            for p, w in zip(self.parts, self.weights, strict=True)
            if not is_left_out(p)
        ]
        return honest(TableSums(*zip(*kept, strict=True), self.n_samples), adjacency)

    monkeypatch.setattr(TableSums, "_moved", moved)


@every_case
@pytest.mark.parametrize(
    "is_left_out",
    [
        lambda part: part.shape == (4,),  # the histogram of x
        lambda part: isinstance(part, CellMoments),
        lambda part: len(part.shape) == 2,
    ],
    ids=["histogram", "moments", "cross-table"],
)
def test_sums_that_are_not_charged_are_caught(adjacency, is_left_out, monkeypatch):
    charged_without(monkeypatch, is_left_out)
    assert audited(adjacency)[1] > 1.05


@every_case
def test_a_cross_table_that_is_counted_once_for_two_is_caught(adjacency, monkeypatch):
    # Counts in both orders, charged as one table.
    honest = _counts.CellCounts.added

    def added(self, X, unit):
        (form,) = honest(self, X, unit)
        n_times = 2 if len(self.columns) > 1 else 1
        return (replace(form, places=form.places * n_times),)

    monkeypatch.setattr(_counts.CellCounts, "added", added)
    assert audited(adjacency)[1] > 1.05


def test_a_bound_that_forgets_the_second_record_is_caught(monkeypatch):
    monkeypatch.setattr(_counts.CellCounts, "replace_one", 1.0)
    assert audited("replace_one")[1] > 1.1


def test_weights_that_follow_from_records_are_caught(monkeypatch):
    honest, seen = TableQuestions.query, []
    rows = TableQuestions.rows

    def watched(self, cells):
        seen.append(float(cells[0].values[0]))
        return rows(self, cells)

    def query(self, n_samples, adjacency):
        plain = honest(self, n_samples, adjacency)
        factor = 1.0 + 0.1 * (seen[-1] > 0)
        return TableSums(
            plain.parts, tuple(factor * w for w in plain.weights), n_samples
        )

    monkeypatch.setattr(TableQuestions, "rows", watched)
    monkeypatch.setattr(TableQuestions, "query", query)
    with pytest.raises(AssertionError, match="depends on the data"):
        audited("replace_one")


# -------------------------------------------------------------------- all rows of users

RELATIONS = {"replace_user": "replace_one", "zero_out_user": "zero_out"}
every_relation = pytest.mark.parametrize("relation", RELATIONS)


def audited_user(relation, pair, law="gaussian"):
    """Of a user with these rows, or those, and another user."""
    budget, records = BUDGETS[law], []

    def run(own, noise):
        X = pd.DataFrame([*own, *OTHERS], columns=list(DECLARED))
        ids = pd.Categorical([*[0] * len(own), 1, 1], categories=[0, 1])
        with answered_by(noise):
            found = describe(
                X,
                DECLARED,
                epsilon=budget.epsilon,
                delta=budget.delta,
                adjacency=RELATIONS[relation],
                privacy_unit="user",
                groups=ids,
                crosses=[("x", "z")],
                n_bins=4,
                cross_bins=2,
            )
        records.append(found.privacy_)

    one, other, _ = replayed(run, pair, 0)
    assert records[0].to_json() == records[1].to_json()
    assert (records[0].n_samples, records[0].unit) == (2, "user")
    assert records[0].adjacency == relation
    return verdict(one, other, records[0].event)


def worst_user(relation):
    return [FIRST] * 3, [] if relation == "zero_out_user" else [SECOND] * 2


@every_relation
@both_laws
def test_a_user_of_equal_rows_is_told_apart_as_a_record_is(relation, law):
    found = audited_user(relation, worst_user(relation), law)
    assert 0.999 <= found.total <= found.largest <= 1 + 1e-9


@every_relation
def test_no_rows_of_a_user_are_told_apart_by_more(relation):
    rng = np.random.default_rng(0)

    def rows():
        size = int(rng.integers(0, 6))
        x, y = rng.uniform(-2, 2, size), rng.choice([0.0, 0.4, 1.0, math.nan], size)
        return list(zip(x, y, rng.choice(["a", "b", "?"], size), strict=True))

    for _ in range(20):
        other = [] if relation == "zero_out_user" else rows()
        assert audited_user(relation, (rows(), other)).largest <= 1 + 1e-9


@every_relation
def test_rows_of_a_user_that_count_as_records_are_caught(relation, monkeypatch):
    ones = property(lambda own: np.ones(len(own.codes)))
    monkeypatch.setattr(Users, "shares", ones)
    assert audited_user(relation, worst_user(relation)).total > 1.9


def unweighted(form):
    """What each row adds, as if it were a record."""
    if isinstance(form, Entries):
        sums = np.bincount(form.places[0], minlength=form.size)
    else:
        sums = np.array([form.sum()])
    return Compiled(lambda weights, per_unit: sums * per_unit)


@every_relation
@pytest.mark.parametrize("kind", [_counts.CellCounts, CellMoments])
def test_parts_that_forget_shares_are_caught(relation, kind, monkeypatch):
    honest = kind.added

    def added(self, X, unit):
        return tuple(unweighted(form) for form in honest(self, X, unit))

    monkeypatch.setattr(kind, "added", added)
    assert audited_user(relation, worst_user(relation)).total > 1.1
