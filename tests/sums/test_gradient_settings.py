"""The gradient query with each of its settings: one lemma, and its broken twins.

Sums have the same bits in any order and any parts, null records add nothing, users'
weights keep the bound, and no neighbours exceed the bound under any relation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from skdp.losses import LogisticLoss, SoftmaxLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy.release._plan import EVERYONE, Layout, Line, Plan, Poisson
from skdp.sums import _adder
from skdp.sums import _gradient_sum as module
from skdp.sums._exact import added
from skdp.sums._features import FeatureScore
from skdp.sums._gradient import ClippedGradient
from skdp.sums._gradient_sum import ExactGradientSum
from skdp.tables._memory import MemorySource, UserSource, equal_shares
from tests import door
from tests.gradients import query_sensitivity
from tests.spies import SpyNoise

D = 3
RELATIONS = ("zero_out", "replace_one", "zero_out_user", "replace_user")


@dataclass(frozen=True)
class Setting:
    """Settings of the query, and the rows that are asked."""

    settings: dict[str, Any] = field(default_factory=dict)
    part: str = "all"
    facts: dict[str, Any] = field(default_factory=dict)
    is_score: bool = False

    def gradients(self, loss, relation, n_samples):
        facts = {"data_norm": 0.8, "feature_bound": 0.7} | self.facts
        offset = (0.3,) * loss.n_outputs if "offset" in facts else ()
        objective = LinearObjective(
            loss=loss,
            n_samples=n_samples,
            n_features=D,
            adjacency=relation,
            **facts | {"offset": offset},
        )
        return ClippedGradient(objective, **self.settings)

    def query(self, gradients, weights):
        if self.is_score:
            # Distances from a far place, which move as rows of the gradient do.
            place = np.zeros((D, weights.shape[1]))
            place[:, 0], place[:, 1:2] = 5.0, -5.0
            return FeatureScore.of(gradients, weights, place=place)
        return gradients.at(weights, self.part)


SETTINGS = {
    "all": Setting(),
    "residual clip": Setting({"residual_clip": 0.3}),
    "intercept weight": Setting({"intercept_weight": 0.2}),
    "no intercept": Setting(facts={"fit_intercept": False}),
    "offset": Setting(facts={"offset": True}),
    "features": Setting({"residual_clip": 0.4}, "features"),
    "features, by entries": Setting({"uses_entry_bound": True}, "features"),
    "intercept": Setting(part="intercept"),
    "columns": Setting({"columns": (0, 2)}),
    "columns, shortened": Setting({"columns": (0, 2), "shortening": 0.7}),
    "no columns": Setting({"columns": ()}, "intercept"),
    "entry clip": Setting({"entry_clip": 0.2}, "features"),
    "scores": Setting({"entry_clip": 0.2, "uses_entry_bound": True}, is_score=True),
}
BY_USER = Setting({"user_clip": 0.5, "intercept_weight": 0.7})
LOSSES = [LogisticLoss(), SoftmaxLoss(3)]
every_setting = pytest.mark.parametrize("name", SETTINGS)
by_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def total_of(query, source):
    with np.errstate(all="ignore"):  # as the door does
        return query.total(query.open(source), None)


# ------------------------------------------------------------- same bits, null records


def table(n=60, seed=0, n_outputs=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) * 10.0 ** rng.uniform(-2, 1, (n, 1))
    X[n // 2] = 1e200
    return X, rng.integers(0, max(2, n_outputs), n).astype(float), rng.random(n) < 0.8


def sources(X, y, present):
    """The same records in other orders, blocks and storages; null ones are wild."""
    order = np.random.default_rng(1).permutation(len(y))
    wild = np.where(present[:, None], X, 1e300)
    targets = np.where(present, y, 0.0)
    for rows in (X, csr_array(X), np.asfortranarray(wild)):
        for size in (1, 7, len(y)):
            source = MemorySource(rows, targets, present)
            source.facts = replace(source.facts, largest_block=size)
            yield source
    yield MemorySource(X[order], y[order], present[order])
    yield MemorySource(X[present], y[present])


def answers(name, loss):
    """Totals over all sources, and over parts that are added up, as bytes."""
    setting, (X, y, present) = SETTINGS[name], table(n_outputs=loss.n_outputs)
    gradients = setting.gradients(loss, "zero_out", len(y))
    weights = np.random.default_rng(2).normal(size=gradients.objective.shape)
    query = setting.query(gradients, weights)
    found = {total_of(query, source).tobytes() for source in sources(X, y, present)}
    parts = []
    for first, last in pairwise([0, 20, 21, 60]):
        run = slice(first, last)
        part = MemorySource(X[run], y[run], present[run])
        with np.errstate(all="ignore"):
            parts.append(query.whole_sums(query.open(part), None))
    whole = MemorySource(X, y, present)
    return found | {query.from_whole(whole, added(parts)).tobytes()}


@every_setting
@by_loss
def test_sums_have_the_same_bits_in_any_order_and_parts(name, loss):
    assert len(answers(name, loss)) == 1


def test_twin_without_rounding_is_found(monkeypatch):
    def unrounded(self, residual, bits):
        return residual * (2.0**bits / self._largest)

    monkeypatch.setattr(ExactGradientSum, "_rounded", unrounded)
    assert len(answers("all", LOSSES[0])) > 1


def test_twin_of_scores_that_count_null_records_is_found(monkeypatch):
    """Of all other settings `test_adder.py` rejects it."""
    monkeypatch.setattr(_adder, "kernel_weights", lambda block: None)
    assert len(answers("scores", LOSSES[0])) > 1


# ---------------------------------------------------------------------------- the bound


def record(rng, loss, axis):
    """A row along an axis, or nearly, within its norm or beyond, and a target."""
    row = rng.choice([-1, 1]) * axis * rng.choice([0.3, 1.0, 3.0])
    row = row + 0.05 * rng.normal(size=D) * (rng.random() < 0.3)
    return row, float(rng.integers(0, max(2, loss.n_outputs)))


def side(rng, records, is_of_users):
    """One record or user beside another; no record is a null record."""
    other = np.full(D, 0.1), 1.0
    if not is_of_users:
        rows, targets = zip(*(records or [other]), other, strict=True)
        present = np.array([bool(records), True])
        return MemorySource(np.array(rows), np.array(targets), present)
    # Some of a user's rows are there several times.
    times = rng.integers(1, 4)
    rows, targets = zip(*(records * times), other, strict=True)
    codes = np.array([0] * (len(rows) - 1) + [1])
    shares = equal_shares(codes, 2)
    return UserSource(np.array(rows), np.array(targets), shares, 2, codes)


def farthest(setting, loss, relation, rounds=120):
    """Largest change of the sum, over what is charged."""
    rng, worst = np.random.default_rng(5), 0.0
    gradients = setting.gradients(loss, relation, 2)
    is_of_users, is_gone = relation.endswith("user"), relation.startswith("zero")
    objective = gradients.objective
    for i in range(rounds):
        # Along one feature or the diagonal, where entries or norms are at their bound.
        axis = np.eye(D)[i % D] if i % 2 else rng.choice([-1.0, 1.0], D) / math.sqrt(D)
        outputs = rng.choice([-1.0, 0.0, 1.0], loss.n_outputs)
        weights = np.zeros(objective.shape)
        weights[:D] = np.outer(axis, outputs) * np.exp(rng.uniform(-3, 4))
        weights[D:] = outputs * rng.normal() * np.exp(rng.uniform(-3, 4))
        query = setting.query(gradients, weights * (rng.random() < 0.8))
        n_rows = int(rng.integers(1, 4)) if is_of_users else 1
        first = [record(rng, loss, axis)] * n_rows
        second = [] if is_gone else [record(rng, loss, axis)] * n_rows
        sums = [total_of(query, side(rng, own, is_of_users)) for own in (first, second)]
        change = np.abs(sums[0] - sums[1])
        moved = change.max() if setting.is_score else np.linalg.norm(change)
        charged = query.bound().under(relation)
        charged += query.slack(Layout(4, rows_of_unit=9))
        worst = max(worst, float(moved) / charged)
    return worst


# Every setting with each relation, and with each loss.
COVERED = [
    (name, LOSSES[(i + j) % 2], relation)
    for i, name in enumerate(SETTINGS)
    for j, relation in enumerate(RELATIONS)
]


@pytest.mark.parametrize(("name", "loss", "relation"), COVERED)
def test_no_neighbours_exceed_what_is_charged(name, loss, relation):
    found = farthest(SETTINGS[name], loss, relation)
    assert (0.8 if loss.n_outputs == 1 else 0.55) < found <= 1


@pytest.mark.parametrize("relation", RELATIONS[2:])
def test_no_users_exceed_what_is_charged_for_a_clip_of_users(relation):
    assert 0.8 < farthest(BY_USER, LOSSES[0], relation) <= 1


@every_setting
def test_twin_with_half_the_bound_is_found(name, monkeypatch):
    honest = ClippedGradient.real_bound

    def half(self, *given):
        bound = honest(self, *given)
        return replace(
            bound, zero_out=bound.zero_out / 2, replace_one=bound.replace_one / 2
        )

    monkeypatch.setattr(ClippedGradient, "real_bound", half)
    assert farthest(SETTINGS[name], LOSSES[0], "replace_one", 60) > 1.5


@pytest.mark.parametrize("relation", RELATIONS[2:])
def test_twin_of_scores_that_ignore_the_weights_of_rows_is_found(relation, monkeypatch):
    """Of all other settings `test_adder.py` rejects it."""
    monkeypatch.setattr(_adder, "row_weights", lambda block: None)
    assert farthest(SETTINGS["scores"], LOSSES[0], relation) > 1.8


@pytest.mark.parametrize("relation", RELATIONS[2:])
def test_twin_that_rounds_weighted_rows_to_the_nearest_is_found(relation, monkeypatch):
    """On a coarse grid, where 19 rows of 32 / 19 units each add 2 units each."""
    from skdp.sums import _gradient, _grid_rows

    for room in (module, _gradient):
        monkeypatch.setattr(room, "RESIDUAL_BITS", 6)
    monkeypatch.setattr(_grid_rows._PlainGrid, "bits", 6)
    gradients = SETTINGS["all"].gradients(LOSSES[0], relation, 2)
    query = gradients.at(np.zeros(gradients.objective.shape))
    alike = [(np.array([0.8, 0.0, 0.0]), 1.0)] * 19
    codes = np.zeros(19, dtype=int)
    rows, targets = (np.array(own) for own in zip(*alike, strict=True))
    source = UserSource(rows, targets, equal_shares(codes, 2), 2, codes)
    most = query.bound().under("zero_out_user")
    assert np.linalg.norm(total_of(query, source)) <= most
    monkeypatch.setattr(
        _adder, "cut", lambda units, factor: np.rint(units * factor[:, None])
    )
    assert np.linalg.norm(total_of(query, source)) > 1.05 * most


@pytest.mark.parametrize("relation", RELATIONS[2:])
def test_twin_of_a_clip_of_users_that_clips_less_is_found(relation, monkeypatch):
    honest = ExactGradientSum._most
    monkeypatch.setattr(ExactGradientSum, "_most", lambda self, w: 2 * honest(self, w))
    assert farthest(BY_USER, LOSSES[0], relation) > 1.5


def charged(weights, sample, loss):
    """The noise of one query, drawn for a table of one column."""
    spy = SpyNoise()
    objective = LinearObjective(
        loss=loss, n_samples=9, n_features=1, data_norm=1.0, adjacency="zero_out"
    )
    source = MemorySource(np.ones((9, 1)), np.zeros(9))
    plan = Plan((Line(sample=sample),))
    answers = door.answers_for(plan, source, 1.0, "zero_out", spy)
    answers.ask(ClippedGradient(objective, intercept_weight=SHARE).at(weights))
    return objective, spy.draws[0].sensitivity


SHARE = 0.05
OUTPUTS = np.array([[4.0, 0.0, 0.0], [0.0, 0.1875, 0.0]])


@pytest.mark.parametrize(
    ("weights", "sample", "norm"),
    [
        (np.full((2, 1), 0.75), EVERYONE, math.hypot(0.75, 0.75 / SHARE)),
        (np.full((2, 1), 0.75), Poisson(0.1), math.hypot(0.75, 0.75 / SHARE)),
        (OUTPUTS, EVERYONE, 4.0),  # the largest singular value, as the query sees it
    ],
)
def test_the_weights_count_as_the_query_sees_them(weights, sample, norm):
    """The intercept's divided by its share; and half a unit of each residual's grid."""
    loss = SoftmaxLoss(3) if weights.shape[1] > 1 else LogisticLoss()
    objective, found = charged(weights, sample, loss)
    rounded = loss.zero_out_bound(math.inf) * math.sqrt(loss.n_outputs) * 2.0**-19
    wanted = query_sensitivity(objective, math.inf, norm, SHARE)
    wanted += math.hypot(1, SHARE) * rounded
    assert found == pytest.approx(wanted, rel=1e-9, abs=0)
    assert found > wanted


# -------------------------------------------------------------------- what is undone


@pytest.mark.parametrize("name", [n for n, x in SETTINGS.items() if not x.is_score])
def test_what_is_read_is_the_gradient_where_it_was_asked(name):
    """Settings that only scale the query, or ask a part of it, are undone."""
    setting = SETTINGS[name]
    X, y, _ = table()
    X, y = X[:20] / 99, y[:20]
    gradients = setting.gradients(LOSSES[0], "zero_out", 20)
    weights = np.random.default_rng(2).normal(size=gradients.objective.shape)
    columns = gradients.columns
    if columns is not None:
        left_out = [j for j in range(D) if j not in columns]
        weights[left_out] = 0.0
    query = setting.query(gradients, weights)
    plain = ClippedGradient(gradients.objective, gradients.residual_clip)
    source = MemorySource(X, y)
    expected = total_of(plain.at(weights), source)
    if columns is not None:
        expected[left_out] = 0.0
    if setting.part == "features":
        expected[D:] = 0.0
    if setting.part == "intercept":
        expected[:D] = 0.0
    found = query.read(total_of(query, source))
    assert found.shape == expected.shape
    assert found == pytest.approx(expected, abs=2e-3)
