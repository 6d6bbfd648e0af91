"""Searches over sources: records are divided by their places."""

from __future__ import annotations

import hashlib

import duckdb
import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from skdp import (
    BudgetLedger,
    DPGradientBoostingClassifier,
    DPGridSearchCV,
    DPLogisticRegression,
    DPPoissonRegressor,
)
from skdp.exceptions import READ_FAILED, BudgetExceeded, Refused, SourceError
from skdp.io import ParquetSource, SqlSource
from skdp.io._passes import rows_of
from skdp.io._scores import SourceScores
from skdp.model_selection import DPTunedThresholdClassifier, resolve_scoring
from tests.io import places
from tests.io.places import (
    COLUMNS,
    FEATURES,
    N,
    in_database,
    in_files,
    numbers,
    read,
    write,
)

LOGISTIC = DPLogisticRegression(classes=[0, 1], columns=COLUMNS)


def search(method="composition", **given):
    asked = {"epsilon": 3.0, "delta": 1e-6, "random_state": 5, "scoring": "accuracy"}
    return DPGridSearchCV(
        LOGISTIC, {"C": [0.01, 1.0, 100.0]}, method=method, **{**asked, **given}
    )


def in_a_table(frame, **facts):
    """A table of DuckDB with ids, its rows in another order."""
    connection = duckdb.connect()
    numbers = ", ".join(f"{name} DOUBLE" for name in FEATURES)
    connection.execute(f"CREATE TABLE records (key INT PRIMARY KEY, {numbers}, y INT)")
    rows = frame[["key", *FEATURES, "y"]].sample(frac=1.0, random_state=2)
    connection.register("given", rows)
    connection.execute("INSERT INTO records SELECT * FROM given")
    facts = {"target": "y", "n_samples": len(frame), "features": FEATURES, **facts}
    return SqlSource(connection, "records", record_id="key", **facts)


def by_ids(frame):
    """Records in the order of their ids."""
    digests = [hashlib.md5(f"0{key}".encode()).hexdigest() for key in frame["key"]]
    return frame.iloc[np.argsort(digests)]


def test_a_database_is_divided_as_memory_is():
    frame = numbers()
    rows = by_ids(frame)
    found = search().fit(in_a_table(frame))
    expected = search().fit(rows[FEATURES], rows["y"])
    raw = [x.decision_function(frame[FEATURES]) for x in (found, expected)]
    np.testing.assert_array_equal(*raw)
    source = in_a_table(frame)
    part = source.taking(np.array([3, 1, 4]))
    np.testing.assert_array_equal(keys_of(part), np.sort(rows["key"].iloc[[1, 3, 4]]))
    assert len(part) == 3
    # Its places are those of one order: what would draw another one is refused.
    bolt_on = DPLogisticRegression(2.0, delta=0, solver="bolt_on", classes=[0, 1])
    bolt_on.fit(source)
    with pytest.raises(Refused, match="bolt_on"):
        bolt_on.fit(part)


@pytest.mark.parametrize(
    "model",
    [LOGISTIC, DPGradientBoostingClassifier(classes=[0, 1], columns=COLUMNS)],
)
def test_a_search_takes_the_declarations_of_its_source(model, tmp_path):
    """As `fit` of the model does; the noise that is foreseen is the same, too."""
    frame = numbers()
    found = []
    for columns in (COLUMNS, None):
        source = in_files(frame, tmp_path / str(columns is None), columns=COLUMNS)
        tuned = DPTunedThresholdClassifier(
            clone(model).set_params(columns=columns), epsilon=1e-3, random_state=0
        ).fit(source)
        assert tuned.best_estimator_.columns == columns
        found.append((tuned.best_threshold_, tuned.privacy_.warnings))
    assert found[0] == found[1]
    assert any("noise" in each for each in found[0][1])


# ------------------------------------------------------------------------------- parts


def keys_of(source):
    return read(source)[2]["key"].to_numpy()


def test_parts_are_the_records_at_their_places(tmp_path):
    source = in_files(numbers(), tmp_path / "table", n_files=3, batch_size=37)
    order = np.random.default_rng(0).permutation(N)
    for positions in [order[:100], order[100:], slice(5), slice(N), order[:1]]:
        part = source.taking(positions)
        wanted = np.sort(np.arange(N)[positions])
        np.testing.assert_array_equal(keys_of(part), wanted)
        assert part.shape == (len(wanted), 3)
        inner = part.taking(slice(0, None, 2))
        np.testing.assert_array_equal(keys_of(inner), wanted[::2])
    np.testing.assert_array_equal(keys_of(source), np.arange(N))


def moved(source_of, tmp_path):
    """Rows of another part that one record moves by becoming unreadable."""
    order = np.random.default_rng(1).permutation(N)
    frame = numbers()
    other = frame.copy()
    other.loc[N // 2, "a"] = np.nan
    kept = order[: N // 2][order[: N // 2] != N // 2]
    keys = []
    for i, table in enumerate([frame, other]):
        source = source_of(write(table, tmp_path / str(i)))
        keys.append(set(keys_of(source.taking(order[: N // 2]))) - {N // 2})
    return len(keys[0] ^ keys[1]), len(keys[0] ^ set(kept))


def over(kind):
    facts = {"target": "y", "n_samples": N, "features": FEATURES}
    return lambda folder: kind(folder, **facts)


def test_no_record_changes_the_place_of_another(tmp_path):
    assert moved(over(ParquetSource), tmp_path) == (0, 0)


# ---------------------------------------------------------------- refusals, failures


def ledger(tmp_path, epsilon=10.0):
    return BudgetLedger(tmp_path / "books.db", epsilon=epsilon, delta=1e-3)


def test_refused_before_anything_is_read_or_spent(tmp_path):
    books = ledger(tmp_path)
    source = in_files(numbers(), tmp_path / "table")
    base = in_database(numbers())
    for X, given, text in [
        (base, {}, "fixed order"),
        (source, {"n_jobs": 2}, "'n_jobs' parameter must be None or 1"),
        (source, {"epsilon": np.inf, "ledger": None}, "must be finite"),
        (in_files(numbers(), tmp_path / "none", target=None), {}, "target"),
    ]:
        with pytest.raises(ValueError, match=text):
            search(**{"ledger": books, "random_state": None, **given}).fit(X)
    with pytest.raises(ValueError, match="y argument must be left out"):
        search(ledger=books).fit(source, numbers()["y"])
    model = DPLogisticRegression(columns=COLUMNS)
    with pytest.raises(ValueError, match="classes"):
        DPGridSearchCV(model, {"C": [1.0, 2.0]}, epsilon=1.0).fit(source)
    assert books.spends() == []


def test_a_share_of_the_deviance_is_not_named_r2(tmp_path):
    """`score` of a model of means is D²; who asked for R² gets no other number."""
    frame = numbers()
    source = in_files(frame, tmp_path / "table")
    model = DPPoissonRegressor(columns=COLUMNS, target_bounds=(0, 2))
    given = {"epsilon": 4.0, "random_state": 0, "scoring": "r2"}
    found = DPGridSearchCV(model, {"alpha": [None, 0.1]}, **given).fit(source)
    with pytest.raises(ValueError, match="own score"):
        found.score(source)
    expected = found.best_estimator_.score(frame[FEATURES], frame["y"])
    found.set_params(scoring=None)
    assert found.score(source) == pytest.approx(expected)


PASSES: list[int] = []


class FailsAt(ParquetSource):
    """Once, at one pass of whatever is derived from it."""

    when = 10**9

    def _scan(self, names):
        PASSES.append(1)
        if len(PASSES) == self.when:
            raise RuntimeError("the value 4242.4242")
        yield from super()._scan(names)


def failing(tmp_path, when):
    PASSES.clear()
    source = over(FailsAt)(write(numbers(), tmp_path / "table"))
    source.when = when
    return source


def test_nothing_is_read_before_it_is_in_the_ledger(tmp_path):
    source = failing(tmp_path, 0)
    books = ledger(tmp_path, epsilon=1.0)
    with pytest.raises(BudgetExceeded):
        search(ledger=books, random_state=None).fit(source)
    assert PASSES == []
    assert books.spends() == []


@pytest.mark.parametrize("method", ["composition", "disjoint_splits"])
def test_a_failure_ends_the_search(method, tmp_path, monkeypatch):
    books = ledger(tmp_path, epsilon=100.0)
    places.keeps(monkeypatch, 0)  # so that there is a second pass
    for when in [1, 2]:
        source = failing(tmp_path, when)
        asked = search(method=method, ledger=books, random_state=None)
        with pytest.raises(SourceError) as caught:
            asked.fit(source)
        assert caught.value.args == (READ_FAILED,)
        assert caught.value.__context__ is None
        assert not hasattr(asked, "best_estimator_")
    assert len(books.spends()) == 2


# ------------------------------------------------------------------- scores of records


class Dropping(SourceScores):
    """Rows that are not there leave their places to others."""

    def statistic(self, scorer, model):
        total = np.zeros(scorer.size)
        for rows, there, columns in rows_of(model, self.X, ("y",)):
            y = columns.column("y").to_numpy()
            total += scorer.statistic(model, rows[there], y[there])
        return total


class Shaped(ClassifierMixin, BaseEstimator):
    """A predictor whose last bits depend on where a row is, as those of BLAS may."""

    classes_ = np.array([0, 1])

    def predict(self, X):
        n = len(X)
        # The last rows of a block are added up in another order.
        return (np.arange(n) >= n - n % 4).astype(int)


def moved_by_a_null_record(kind, tmp_path):
    totals, accuracy = [], resolve_scoring("accuracy", Shaped())
    for i, first in enumerate([0.5, np.nan]):
        frame = numbers(7)
        frame["y"] = np.array([0, 0, 0, 0, 1, 1, 1])
        frame.loc[0, "a"] = first
        source = in_files(frame, tmp_path / f"{kind.__name__}{i}")
        scores = kind(source)
        statistic = source.during(lambda s=scores: s.statistic(accuracy, Shaped()))
        totals.append(statistic[0])
    return abs(totals[0] - totals[1])


def test_a_null_record_has_the_worst_score(tmp_path):
    frame = numbers()
    frame.loc[::9, "a"] = np.nan
    there = frame[frame["a"].notna()]
    model = clone(LOGISTIC).set_params(epsilon=5.0)
    model.fit(there[FEATURES], there["y"])
    right = model.predict(there[FEATURES]) == there["y"]
    source = in_files(frame, tmp_path / "holes")
    scorer, scores = resolve_scoring("accuracy", model), SourceScores(source)
    assert source.during(lambda: scores.statistic(scorer, model))[0] == sum(right)


def test_a_null_record_moves_no_other_records_score(tmp_path):
    assert moved_by_a_null_record(SourceScores, tmp_path) <= 1
    assert moved_by_a_null_record(Dropping, tmp_path) > 1  # the broken twin
