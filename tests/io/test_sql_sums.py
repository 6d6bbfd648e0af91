"""Gradient sums that the database adds up: the integers of memory, to the last bit."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from skdp import DPLinearSVC, DPLogisticRegression
from skdp.data import MemorySource
from skdp.exceptions import SourceError
from skdp.io import SqlSource
from skdp.io._rows import StreamRows
from skdp.io._sql_sums import GradientText
from skdp.io._targets import Labels, Numbers
from skdp.losses import (
    CauchyLoss,
    HuberHingeLoss,
    LogisticLoss,
    SigmoidLoss,
    SquaredLoss,
    WeightedLoss,
)
from skdp.objectives import LinearObjective
from skdp.queries import _exact_gradient
from skdp.queries._exact_gradient import ExactGradientSum
from skdp.queries._grid import on_grid
from tests.io.places import DATABASES, FEATURES, N, database, kept, numbers

LOSSES = {
    "logistic": LogisticLoss(),
    "hinge": HuberHingeLoss(),
    "squared": SquaredLoss(2.0, 1.0),
    "weighted logistic": WeightedLoss(LogisticLoss(), (1 / 3, 1.0)),
    "weighted hinge": WeightedLoss(HuberHingeLoss(), (1.0, 0.025)),
}
LABELS = Labels(np.array([0, 1]))


def table():
    """Rows of every length: shortened ones, far ones, and some that are no records."""
    frame = numbers()
    frame.loc[10:60, FEATURES] *= 7.0
    frame.loc[100, "a"] = 1e308
    frame.loc[101, "b"] = -1e120
    frame.loc[102:104, FEATURES] *= 400.0
    frame.loc[105, "c"] = 5e-324
    frame.loc[200, "a"], frame.loc[201, "b"] = np.nan, np.inf
    return frame


@pytest.fixture(autouse=True)
def is_too_large_to_keep(monkeypatch):
    monkeypatch.setattr(_exact_gradient, "_MOST_KEPT", 0)


@pytest.fixture(params=DATABASES, scope="module")
def place(request):
    with kept() as once:
        yield partial(once, DATABASES[request.param])


def both(place, frame, objective, clip=math.inf, targets=LABELS, target="y", **facts):
    """The sum of a database and that of memory, at the same weights."""
    shape = (objective.n_features + objective.fit_intercept, 1)
    weights = on_grid(np.random.default_rng(3).normal(size=shape))
    facts = {"features": FEATURES, "n_samples": len(frame)} | facts
    source = SqlSource(place(frame), "records", target=target, **facts)
    dtype = np.dtype(np.float32 if source.reading().is_single else np.float64)
    rows = StreamRows(source, source.reading(), as_read, 3, dtype, is_as_read=True)
    pushed = ExactGradientSum(rows.with_targets(targets), objective, clip)
    X = frame[FEATURES].to_numpy(dtype=dtype, copy=True)
    y = frame[target].to_numpy(dtype=np.float64)
    present = np.isfinite(X).all(axis=1)
    if "where" in facts:
        present &= frame.eval(facts["where"]).to_numpy()
    X[~present] = 0.0
    held = ExactGradientSum(MemorySource(X, y, present), objective, clip)
    with np.errstate(all="ignore"):  # as answers do
        return source.during(lambda: pushed(weights)), held(weights)


def as_read(found):
    return found


def objective_of(loss, **facts):
    given = {"n_samples": N, "n_features": 3, "data_norm": 1.0} | facts
    return LinearObjective(loss=loss, adjacency="replace_one", **given)


@pytest.mark.parametrize("clip", [math.inf, 0.3])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_same_integers(loss, clip, place):
    targets, target = (Numbers(), "t") if loss == "squared" else (LABELS, "y")
    for facts in ({}, {"fit_intercept": False}, {"data_norm": 3.7e-5}):
        found = both(
            place, table(), objective_of(LOSSES[loss], **facts), clip, targets, target
        )
        assert np.array_equal(*found)
        assert found[0].any()


@pytest.mark.parametrize("loss", [SigmoidLoss(), CauchyLoss()])
def test_other_losses_are_read(loss):
    """What no bound is shown of is not left to a database."""
    source = SqlSource(
        database(numbers()), "records", target="y", n_samples=N, features=FEATURES
    )
    rows = StreamRows(
        source, source.reading(), as_read, 3, np.dtype(float), is_as_read=True
    )
    stream = rows.with_targets(LABELS)
    memory = MemorySource(numbers()[FEATURES].to_numpy(), numbers()["y"].to_numpy())
    weights = np.full((4, 1), 0.5)
    own = ExactGradientSum(memory, objective_of(loss))(weights)
    found = ExactGradientSum(stream, objective_of(loss))
    assert source.during(lambda: found._pushed(weights)) is None
    assert np.array_equal(source.during(lambda: found(weights)), own)


def test_the_same_of_other_types_and_of_conditions(place):
    objective = objective_of(LOSSES["logistic"])
    single = numbers().astype({name: np.float32 for name in FEATURES})
    assert np.array_equal(*both(place, single, objective))
    whole = numbers()
    whole["a"] = np.arange(N) - 400
    assert np.array_equal(*both(place, whole, objective))
    moved = replace(objective, offset=(0.125,), product_norm=1.0)
    assert np.array_equal(*both(place, numbers(), moved))
    assert np.array_equal(*both(place, table(), objective, where="key > 300"))


def test_labels_are_matched_where_they_lie(place):
    frame = table()
    words = Labels(np.array(["down", "up"]))
    frame.loc[7, "word"] = "neither"
    weights = np.zeros((4, 1))
    source = SqlSource(
        place(frame), "records", target="word", n_samples=N, features=FEATURES
    )
    rows = StreamRows(
        source, source.reading(), as_read, 3, np.dtype(float), is_as_read=True
    )
    stream = rows.with_targets(words)
    objective = objective_of(LOSSES["logistic"])
    pushed = ExactGradientSum(stream, objective)

    class Fetched:
        blocks, largest_block = stream.blocks, stream.largest_block
        n_samples, n_features, is_row_major = N, 3, True

    fetched = ExactGradientSum(Fetched(), objective)
    with np.errstate(all="ignore"):
        sums = source.during(lambda: (pushed(weights), fetched(weights)))
    assert np.array_equal(*sums)
    quoted = Labels(np.array(["it's", "so"])).text("cell")
    assert "'it''s'" in quoted


BUGS = {
    "rows in single precision": (" AS DOUBLE PRECISION) AS x", " AS REAL) AS x"),
    "an exponential of fewer squares": ("((p * p) * (p * p))", "(p * p)"),
    "rows that are not clipped": ("trunc(q0 * f)", "q0"),
    "residuals on a finer grid": ("+ CAST('0.5' AS DOUBLE PRECISION)) AS e", ") AS e"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_twin_of_another_arithmetic_is_found(bug, place, monkeypatch):
    honest = GradientText.sums.fget
    monkeypatch.setattr(
        GradientText, "sums", property(lambda text: honest(text).replace(*BUGS[bug]))
    )
    frame = table().drop(index=[100, 101, 105])  # beyond single precision
    objective = objective_of(LOSSES["logistic"], n_samples=len(frame))
    pushed, held = both(place, frame, objective)
    assert not np.array_equal(pushed, held)


def test_no_function_is_asked_for_that_engines_round_in_their_own_way(monkeypatch):
    asked = []
    honest = GradientText.sums.fget

    def spy(text):
        asked.append(honest(text))
        return asked[-1]

    monkeypatch.setattr(GradientText, "sums", property(spy))
    for name, loss in LOSSES.items():
        targets, target = (Numbers(), "t") if name == "squared" else (LABELS, "y")
        both(database, numbers(), objective_of(loss), 0.5, targets, target)
    called = {word.lower() for text in asked for word in re.findall(r"(\w+)\(", text)}
    exact = {"floor", "trunc", "sqrt", "abs", "least", "greatest", "coalesce", "nullif"}
    assert called <= exact | {"cast", "sum", "from"}


def fitted(source):
    return DPLogisticRegression(
        1.0, solver="noisy_gd", random_state=0, classes=[0, 1]
    ).fit(source)


def test_fits_use_it_and_look_at_the_number_of_rows(place, monkeypatch):
    facts = {"target": "y", "n_samples": N, "features": FEATURES}
    source = SqlSource(place(numbers()), "records", **facts)
    asked = []
    honest = SqlSource.gradient_sums

    def spy(self, *facts):
        found = honest(self, *facts)
        asked.append(found is not None)
        return found

    monkeypatch.setattr(SqlSource, "gradient_sums", spy)
    pushed = fitted(source)
    assert asked
    assert all(asked)
    monkeypatch.setattr("skdp.io._sql.MOST_FEATURES", 2)
    asked.clear()
    fetched = fitted(source)
    assert asked
    assert not any(asked)
    assert np.array_equal(pushed.coef_, fetched.coef_)
    monkeypatch.setattr("skdp.io._sql.MOST_FEATURES", 200)

    class Lost(SqlSource):
        n_counts = 0

        def _count(self):
            self.n_counts += 1
            return N - (self.n_counts > 3)

    with pytest.raises(SourceError, match="could not be read"):
        fitted(Lost(place(numbers()), "records", **facts))


def test_what_can_be_kept_is_read_once(monkeypatch):
    monkeypatch.setattr(_exact_gradient, "_MOST_KEPT", 4 * 3 * N)
    facts = {"target": "y", "n_samples": N, "features": FEATURES}
    readings = []

    class Watched(SqlSource):
        def _scan(self, names):
            readings.append(names)
            return super()._scan(names)

        def gradient_sums(self, *asked):
            raise AssertionError("kept")

    kept = fitted(Watched(database(numbers()), "records", **facts))
    assert len(readings) == 1
    monkeypatch.setattr(_exact_gradient, "_MOST_KEPT", 4 * 3 * N - 1)
    assert np.array_equal(
        fitted(SqlSource(database(numbers()), "records", **facts)).coef_, kept.coef_
    )


def test_several_outputs_and_encoded_columns_are_fetched(monkeypatch):
    """What is not plain is read in blocks."""
    facts = {"target": "y", "n_samples": N, "features": FEATURES}
    source = SqlSource(database(numbers()), "records", **facts)

    def never(self, *asked):
        raise AssertionError("not plain")

    monkeypatch.setattr(SqlSource, "gradient_sums", never)
    columns = dict.fromkeys(FEATURES, (-2, 2))
    DPLinearSVC(1.0, classes=[0, 1, 2]).fit(source)
    DPLogisticRegression(1.0, classes=[0, 1], columns=columns).fit(source)
