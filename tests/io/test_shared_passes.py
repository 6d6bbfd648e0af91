"""One pass for many questions: how often fits, scores and searches read a table.

A search keeps cells as they were read. Whether it does must follow from what is
declared, and how often it reads must not tell how many trials there were.
"""

from __future__ import annotations

import gc
import itertools
import pickle
import weakref
from typing import ClassVar

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.pipeline import make_pipeline

from skdp import (
    DPGradientBoostingClassifier,
    DPGradientBoostingRegressor,
    DPGridSearchCV,
    DPLinearRegression,
    DPLogisticRegression,
    ParquetSource,
    SqlSource,
    TableEncoder,
    private_score,
)
from skdp.columns import Boolean
from skdp.exceptions import SourceError
from skdp.io import _session
from skdp.io._rows import StreamSource
from skdp.io._scores import SourceScores
from skdp.io._session import KeptCells, RowBatch
from skdp.model_selection import resolve_scoring
from skdp.privacy.noise._noise import NoiseSource
from skdp.tables._source import NO_ROOM, UNLIMITED, Room
from tests.io import places
from tests.io.places import COLUMNS, FEATURES, N
from tests.io.users import MOST, facts_of, table
from tests.wide import covering

pytestmark = pytest.mark.filterwarnings("ignore")
GIVEN = {"classes": [0, 1], "columns": COLUMNS}
LOGISTIC = DPLogisticRegression(**GIVEN)
TREES = DPGradientBoostingClassifier(n_estimators=5, **GIVEN)
# Ten candidates each.
GRIDS = {
    LOGISTIC: {"C": np.logspace(-3, 3, 10).tolist()},
    TREES: {"learning_rate": np.linspace(0.05, 0.5, 10).tolist()},
}
READS: list[tuple[str, ...]] = []


class Counting(ParquetSource):
    """Counts readings of the whole table."""

    def _scan(self, names):
        READS.append(names)
        yield from super()._scan(names)


class CountingTable(SqlSource):
    def _scan(self, names):
        READS.append(names)
        yield from super()._scan(names)


@pytest.fixture(autouse=True)
def _from_none():
    READS.clear()


@pytest.fixture
def keeps(monkeypatch):
    """Sets the bytes that are kept of a source, in a fit and in a search."""

    def limited(n_bytes):
        places.keeps(monkeypatch, n_bytes)

    return limited


def counted(call):
    READS.clear()
    call()
    return len(READS)


def counting(frame, folder, **facts):
    facts = {"target": "y", "n_samples": len(frame), "features": FEATURES, **facts}
    return Counting(places.write(frame, folder, 2), **facts)


def searched(model, source, method="composition", **given):
    given = {"epsilon": 3.0, "random_state": 5, "method": method, **given}
    return DPGridSearchCV(model, GRIDS[model], **given).fit(source)


def fitted(model, source, epsilon=1.0):
    return clone(model).set_params(epsilon=epsilon, random_state=0).fit(source)


# ------------------------------------------------------- how often a table is read


@pytest.mark.parametrize("model", GRIDS, ids=["linear", "trees"])
@pytest.mark.parametrize("method", ["composition", "random_stopping"])
def test_a_search_reads_a_table_that_fits_once(model, method, tmp_path):
    source = counting(places.numbers(), tmp_path / "t")
    of_fit = counted(lambda: fitted(model, source))
    assert of_fit >= 1
    assert counted(lambda: searched(model, source, method)) == 1 <= 3 * of_fit


def test_codes_of_trees_are_kept_where_cells_are_too_large(tmp_path, keeps):
    """One byte for each of three numbers, the target, and whether a row is present."""
    source = counting(places.numbers(), tmp_path / "t")
    keeps(N * 12)
    # For ten fits, for their scores, and for the last fit.
    assert counted(lambda: searched(TREES, source)) == 3
    # Which candidates are drawn is secret: of random ones no rows are kept.
    assert counted(lambda: searched(TREES, source, "random_stopping")) > 3
    keeps(N * 12 * 7 // 10 - 1)  # less than the part on which candidates are fitted
    assert counted(lambda: searched(TREES, source)) == 12


@pytest.fixture
def encoded(monkeypatch):
    """One entry for each pass in which rows are encoded."""
    found, encode = [], StreamSource._encoded

    def watched(self):
        found.append(self.n_samples)
        yield from encode(self)

    monkeypatch.setattr(StreamSource, "_encoded", watched)
    return found


@pytest.mark.parametrize("name", ["numbers", "curves", "regression", "trees"])
def test_rows_of_equal_candidates_are_encoded_once(name, tmp_path, encoded):
    frame, given = places.numbers(), {"epsilon": 3.0, "random_state": 5}
    numbers, bounds = DPLogisticRegression(classes=[0, 1]), {"target_bounds": (0, 1)}
    regression = DPLinearRegression(columns=COLUMNS, **bounds)
    trees = DPGradientBoostingRegressor(columns=COLUMNS, n_estimators=2, **bounds)
    model, grid, target = {
        "numbers": (numbers, {"C": [0.1, 1.0, 10.0]}, "y"),
        "curves": (LOGISTIC, {"C": [0.1, 1.0, 10.0]}, "y"),
        "regression": (regression, {"alpha": [None, 0.1, 1.0]}, "t"),
        "trees": (trees, {"learning_rate": [0.1, 0.2, 0.3]}, "t"),
    }[name]
    source = counting(frame, tmp_path / "t", target=target)
    DPGridSearchCV(model, grid, method="composition", **given).fit(source)
    assert encoded == [N * 7 // 10, N]  # the part of the candidates, then all


OTHERS = {
    "steps": (
        make_pipeline(TableEncoder(COLUMNS), DPLogisticRegression(classes=[0, 1])),
        {"tableencoder__n_knots": [3, 5, 3]},
    ),
    # Which centres its rows, or does not.
    "solvers": (LOGISTIC, {"solver": ["auto", "noisy_gd", "auto"]}),
}


@pytest.mark.long
@pytest.mark.parametrize("name", OTHERS)
def test_candidates_of_other_encodings_have_rows_of_their_own(
    name, tmp_path, encoded, keeps
):
    (model, grid), found = OTHERS[name], []
    given = {"epsilon": 3.0, "random_state": 5, "method": "composition"}
    for n_bytes in (2**30, 0):
        keeps(n_bytes)
        source = counting(places.numbers(), tmp_path / "t")
        search = DPGridSearchCV(model, grid, **given).fit(source)
        best = search.best_estimator_
        last = best[-1] if name == "steps" else best
        found.append(str(search.cv_results_).encode() + last.coef_.tobytes())
        encoded.append(0)
    assert found[0] == found[1]
    of_kept = encoded[: encoded.index(0)]
    assert of_kept == [N * 7 // 10] * 3 + [N]


# Readings of a table that does not fit, as the guide states them: of a fit, and of a
# search by composition, whose fits have less budget and take fewer steps.
LARGE = {LOGISTIC: (15, 31), TREES: (1, 12)}


@pytest.mark.long
@pytest.mark.parametrize("model", GRIDS, ids=["linear", "trees"])
def test_ten_candidates_share_a_pass_for_their_scores(model, tmp_path, keeps):
    keeps(0)
    source = counting(places.numbers(), tmp_path / "t")
    found = counted(lambda: fitted(model, source))
    of_search = counted(lambda: searched(model, source))
    assert (found, of_search) == LARGE[model]
    model = fitted(model, source)
    assert counted(lambda: private_score(model, source, epsilon=1.0)) == 1


@pytest.mark.long
def test_a_fit_without_noise_reads_once(tmp_path, keeps):
    source = counting(places.numbers(), tmp_path / "t")
    found = []
    for n_bytes in (2**30, 0):
        keeps(n_bytes)
        READS.clear()
        found.append((fitted(LOGISTIC, source, np.inf).coef_.tobytes(), len(READS)))
    (kept, n_kept), (anew, n_anew) = found
    assert kept == anew
    assert n_anew > 10 * n_kept == 10


# ------------------------------------------------------------------- the same bits

WORDS = ["up", "down"]
MIXED = {**COLUMNS, "word": WORDS, "flag": Boolean()}


def mixed(n=N):
    """Numbers, texts, truth values; some cells are missing or not declared."""
    frame = places.numbers(n)
    frame["flag"] = frame["a"] > 0
    frame["label"] = np.where(frame["y"] == 1, "ill", "well")
    frame.loc[::11, "word"] = "elsewhere, and a longer text"
    frame.loc[::7, "word"] = None
    frame.loc[::13, "b"] = np.nan
    frame.loc[::17, "label"] = "unknown"
    return frame


def in_a_table(frame, **facts):
    connection = duckdb.connect()
    connection.register("given", frame)
    columns = "key INT PRIMARY KEY, a DOUBLE, b DOUBLE, c DOUBLE, "
    columns += "word VARCHAR, flag BOOLEAN, label VARCHAR"
    connection.execute(f"CREATE TABLE records ({columns})")
    connection.execute(
        "INSERT INTO records SELECT key, a, b, c, word, flag, label FROM given"
    )
    return CountingTable(connection, "records", record_id="key", **facts)


@pytest.mark.long
@pytest.mark.parametrize(
    ("place", "method"),
    covering(
        itertools.product(["files", "database"], ["composition", "random_stopping"])
    ),
)
def test_kept_or_not_a_search_has_the_same_bits(place, method, tmp_path, keeps):
    model = DPLogisticRegression(classes=["ill", "well"], columns=MIXED)
    facts = {"target": "label", "n_samples": N, "features": list(MIXED)}
    facts["batch_size"] = 97
    given = {"epsilon": 3.0, "random_state": 5, "method": method}
    found = []
    for n_bytes in (2**30, 0):
        keeps(n_bytes)
        if place == "files":
            source = counting(mixed(), tmp_path / str(n_bytes), **facts)
        else:
            source = in_a_table(mixed(), where="c < 0.5", **facts)
        READS.clear()
        search = DPGridSearchCV(model, {"C": [0.01, 1.0, 100.0]}, **given).fit(source)
        assert (len(READS) <= 2) == (n_bytes > 0)
        best = search.best_estimator_
        found.append((best.coef_.tobytes(), best.intercept_.tobytes()))
        found[-1] += (str(search.cv_results_), search.best_score_)
    assert found[0] == found[1]


@pytest.mark.long
@pytest.mark.parametrize("order", ["fixed", "none"])
def test_kept_or_not_a_search_of_users_has_the_same_bits(order, tmp_path, keeps):
    frame, found = table(many=[MOST + 300]), []
    model = clone(LOGISTIC)
    given = {"privacy_unit": "user", "epsilon": 200.0, "random_state": 1}
    for n_bytes in (2**30, 2000, 0):
        keeps(n_bytes)
        facts = {"batch_size": 300, **facts_of(frame, groups="name")}
        if order == "none":
            source = places.in_database(frame, **facts)
        else:
            source = places.in_files(frame, tmp_path / str(n_bytes), **facts)
        search = DPGridSearchCV(model, {"C": [0.1, None]}, **given).fit(source)
        found.append((search.best_estimator_.coef_.tobytes(), search.best_score_))
    assert len(set(found)) == 1


# -------------------------------------------------- scores of several models at once


class Says(ClassifierMixin, BaseEstimator):
    """Predicts by one column, spoils what it is given, and may refuse rows."""

    classes_ = np.array([0, 1])

    def __init__(self, name="a", refuses=False):
        self.name, self.refuses = name, refuses
        self.feature_names_in_ = np.array(FEATURES, dtype=object)

    def predict(self, X):
        own = X[self.name].to_numpy(copy=True)
        X[:] = 0.0
        if self.refuses and (own > 0.4).any():
            raise ValueError
        return (own > 0).astype(int)


@pytest.mark.parametrize("groups", [None, "id"])
@pytest.mark.parametrize("scoring", ["accuracy", "balanced_accuracy"])
def test_scores_of_several_models_are_those_of_each(groups, scoring, tmp_path):
    frame = table()
    frame.loc[::9, "b"] = np.nan
    facts = {} if groups is None else facts_of(frame)
    source = counting(frame, tmp_path / "t", batch_size=50, **facts)
    of_some = clone(LOGISTIC).set_params(columns={"a": (-2, 2), "c": (-2, 2)})
    known = frame.dropna()
    trained = [clone(LOGISTIC).fit(known[FEATURES], known["y"])]
    trained.append(of_some.fit(known[["a", "c"]], known["y"]))
    models = [Says("a"), trained[0], Says("b", refuses=True), trained[1], Says("b")]
    scorer, scores = resolve_scoring(scoring, models[0]), SourceScores(source)
    each = [source.during(lambda m=m: scores.statistic(scorer, m)) for m in models]
    READS.clear()
    found = source.during(lambda: scores.statistics(scorer, models))
    assert [own.tobytes() for own in found] == [own.tobytes() for own in each]
    # As many as there are ways to read the cells, and one of the users' ids.
    assert len(READS) == 3 + (groups is not None)


# ------------------------------------------------------------------ secret trials


def test_how_often_a_table_is_read_tells_no_number_of_trials(
    tmp_path, monkeypatch, keeps
):
    def read_for(count):
        monkeypatch.setattr(NoiseSource, "weighted_index", lambda self, law: count)
        return counted(lambda: searched(TREES, source, "random_stopping"))

    source = counting(places.numbers(), tmp_path / "t")
    assert read_for(1) == read_for(4) == 1
    keeps(0)  # the twin: what the guide says of tables that do not fit
    assert read_for(1) < read_for(4)


# ------------------------------------------------------ what decides is declared


def readings(tmp_path, words):
    """Readings of a search, for tables whose texts are long, missing, or equal."""
    found = []
    for number, word in enumerate(words):
        frame = places.numbers().assign(word=word)
        columns = {**COLUMNS, "word": WORDS}
        facts = {"features": [*FEATURES, "word"], "batch_size": 97}
        source = counting(frame, tmp_path / str(number), **facts)
        model = clone(TREES).set_params(columns=columns)
        search = DPGridSearchCV(model, {"learning_rate": [0.1, 0.2]}, random_state=0)
        found.append(counted(lambda search=search, source=source: search.fit(source)))
    return found


# Bytes of three doubles, a number of a text, a label, and one more for each row.
OF_ROW = 3 * 8 + 4 + 8 + 1


@pytest.mark.long
def test_no_cell_decides_whether_cells_are_kept(tmp_path, keeps, monkeypatch):
    several = [f"{i} {'x' * 300}" for i in range(N)]
    words = ["up", several, None]
    words[2] = pd.Series([None] * N, dtype="string")
    keeps(N * OF_ROW)
    assert readings(tmp_path, words) == [1, 1, 1]
    keeps(N * OF_ROW - 1)
    assert set(readings(tmp_path, words)) == {3}
    # The twin: by what they take.
    keeps(N * OF_ROW)
    monkeypatch.setattr(KeptCells, "_room_for", lambda self, names: Room(N * OF_ROW))
    assert len(set(readings(tmp_path, words))) > 1


def test_cells_of_unbounded_size_are_not_kept():
    types = {"text": pa.string(), "list": pa.list_(pa.int8()), "date": pa.date32()}
    cells = KeptCells(pa.schema(list(types.items())), (), 10, False, Room(2**30))
    kept = [cells._room_for((name,)) for name in types]
    assert kept == [UNLIMITED, NO_ROOM, UNLIMITED]


# ---------------------------------------------------------------- one pass, by itself


def batches(names):
    READS.append(names)
    columns = {"a": [1, 2], "b": ["x", "x"], "c": [0.5, 0.25]}
    yield RowBatch(pa.record_batch({name: columns[name] for name in names}), None)


def test_columns_are_read_together_with_those_that_are_kept():
    schema = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.float64())])
    cells = KeptCells(schema, ("a",), 2, False, Room(2**30))
    asked = [("b",), ("a", "b"), ("c", "a"), ("b",), ("c", "b", "a")]
    for names in asked:
        for batch in cells.passed(names, "", batches):
            assert tuple(batch.columns.schema.names) == names
            assert batch.columns.column(0).to_pylist() == (
                next(batches(names)).columns.column(0).to_pylist()
            )
            READS.pop()
    assert READS == [("b", "a"), ("c", "a", "b")]
    # Another order is another reading, and a pass that stops early keeps nothing.
    next(cells.passed(("b",), "by key", batches))
    for _ in range(2):
        list(cells.passed(("b",), "by key", batches))
    assert len(READS) == 4


# ------------------------------------------------------------------- after a search


class Watched(KeptCells):
    made: ClassVar[weakref.WeakSet[Watched]] = weakref.WeakSet()

    def __init__(self, *given):
        super().__init__(*given)
        self.made.add(self)


@pytest.mark.long
def test_no_cell_outlives_a_search_or_goes_with_its_model(tmp_path, monkeypatch):
    monkeypatch.setattr(_session, "KeptCells", Watched)
    source = counting(places.numbers(), tmp_path / "t")
    found = searched(TREES, source)
    assert b"skdp.io" not in pickle.dumps(found.best_estimator_)
    gc.collect()
    assert not Watched.made
    fit, n_kept = DPGradientBoostingClassifier.fit, []
    READS.clear()

    def fails(self, X, *given):
        if READS:  # in the second trial
            n_kept.append(len(Watched.made))
            raise OSError
        return fit(self, X, *given)

    monkeypatch.setattr(DPGradientBoostingClassifier, "fit", fails)
    with pytest.raises(SourceError) as told:
        searched(TREES, source)
    assert n_kept == [1], "cells were kept when it failed"
    gc.collect()
    assert not Watched.made, "an error holds cells"
    assert told.value.__context__ is None


def test_files_that_change_during_a_search_end_it(tmp_path):
    source = counting(places.numbers(), tmp_path / "t")
    fit = DPGradientBoostingClassifier.fit

    def changes(self, X, *given):
        found = fit(self, X, *given)
        if READS:
            places.write(places.numbers(seed=1), tmp_path / "t", 2)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DPGradientBoostingClassifier, "fit", changes)
        with pytest.raises(SourceError):
            searched(TREES, source)


def test_a_failed_pass_ends_the_reading_of_kept_cells_too(tmp_path):
    source = counting(places.numbers(), tmp_path / "t")

    def fails_in_between():
        source.keep_cells()
        list(source.rows(source.reading()))
        (session,) = source._reads
        session._is_broken = True
        return list(source.rows(source.reading()))

    with pytest.raises(SourceError):
        source.during(fails_in_between)


def test_regressions_are_searched_alike(tmp_path, keeps):
    """Scores of numbers, too, and R² of which a search wants three sums."""
    frame, found = places.numbers(), []
    model = DPLinearRegression(columns=COLUMNS, target_bounds=(0, 1))
    for n_bytes in (2**30, 0):
        keeps(n_bytes)
        source = counting(frame, tmp_path / "t", target="t")
        given = {"scoring": "r2", "epsilon": 4.0, "random_state": 0}
        search = DPGridSearchCV(model, {"alpha": [None, 0.1]}, **given).fit(source)
        found.append(search.best_estimator_.coef_.tobytes())
        found[-1] += str(search.cv_results_).encode()
    assert found[0] == found[1]
