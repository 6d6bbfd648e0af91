"""Sums of workers: counted once, whatever is retried, lost, told twice or changed."""

from __future__ import annotations

import io
import os
import pickle
import time
import warnings
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import cloudpickle
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from dask import dataframe, delayed
from sklearn.base import clone

from skdp import (
    BudgetLedger,
    DPGradientBoostingClassifier,
    DPLogisticRegression,
    DPMLPClassifier,
)
from skdp.exceptions import READ_FAILED, SourceError
from skdp.io import DaskSource, _parts
from skdp.io._parts import FrameRows, Piece, WorkerPart, received, sent
from skdp.io._rows import StreamRows
from skdp.io.engines import _dask
from skdp.io.engines._dask import DaskParts, _divided
from skdp.losses import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.tables._memory import MemorySource
from skdp.tables._source import NO_ROOM
from tests.gradients import exact_sum
from tests.io import places
from tests.io.cluster import client, heal, kill
from tests.io.places import (
    COLUMNS,
    FEATURES,
    N,
    in_partitions,
    numbers,
    on_workers,
    write,
)
from tests.io.test_failures import SECRET, ledger, told
from tests.io.test_same_bits import LABELS, released

SEEDED = {"solver": "noisy_gd", "solver_params": {"n_steps": 6}, **LABELS}


def model(**given):
    return DPLogisticRegression(1.0, **{**SEEDED, **given})


def private(**given):
    """One that a ledger books."""
    return model(random_state=None, **given)


def here(frame=None):
    """What a fit in memory releases."""
    frame = numbers() if frame is None else frame
    return released(model().fit(frame[FEATURES], frame["y"]))


def are_same(one, other):
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))


@pytest.fixture
def keeps_nothing(monkeypatch):
    """Workers read at every pass."""
    places.keeps(monkeypatch, 0)


@pytest.fixture
def mortal():
    """Workers may be killed."""
    heal()
    yield
    heal()


# ------------------------------------------------------------------------- same bits


@pytest.mark.parametrize("asked", ["gradients", "network"])
def test_rows_stay_where_they_are(asked, tmp_path, monkeypatch):
    """Sums come to the client, and no rows."""
    one = model()
    if asked == "network":
        one = DPMLPClassifier(1.0, solver="noisy_gd", **LABELS)
    own = released(clone(one).fit(numbers()[FEATURES], numbers()["y"]))
    source = on_workers(numbers(), tmp_path / "table")

    def scan(self, names):
        raise AssertionError

    monkeypatch.setattr(DaskSource, "_scan", scan)
    assert are_same(released(one.fit(source)), own)


def test_each_worker_keeps_as_much_as_one_machine(tmp_path, monkeypatch):
    """Half of a table is kept on each of two workers where one would not keep it."""
    source = on_workers(numbers(), tmp_path / "table")
    rows = StreamRows(source, source.reading(), lambda found: found, 3)
    objective = LinearObjective(
        loss=LogisticLoss(),
        n_samples=N,
        n_features=3,
        data_norm=1.0,
        alpha=0.0,
        adjacency="zero_out",
    )

    def keeps():
        stream = rows.with_targets(None)
        facts = received(sent(source), lambda *told: told)
        assert facts[-3:] == (stream.facts.n_partitions, source.memory, source.disk)
        return exact_sum(stream, objective)._room != NO_ROOM

    places.keeps(monkeypatch, 4 * 3 * N // 2)
    assert source.during(keeps)
    places.keeps(monkeypatch, 4 * 3 * N // 2 - 1)
    assert not source.during(keeps)
    places.keeps(monkeypatch, 4 * 3 * N // 2)
    monkeypatch.setattr(DaskParts, "n_workers", 1)
    assert not source.during(keeps)


def test_words_and_categories_of_a_frame():
    frame = numbers()
    frame["word"] = frame["word"].astype("category")
    asked = DPLogisticRegression(
        1.0, columns={"a": (-2, 2), "word": ["down", "up"]}, **LABELS
    )
    own = released(asked.fit(frame[["a", "word"]], frame["y"]))
    for known in (frame, frame.assign(word=frame["word"].astype(object))):
        source = in_partitions(known, features=["a", "word"])
        assert are_same(released(asked.fit(source)), own)


# -------------------------------------------------------------------------- failures


class Spoilt(DaskSource):
    """A source of which something happens to the answers of some question."""

    when = 4

    def spoil(self, how):
        gathered = self._parts._gathered
        n_calls, before = 0, []

        def spoilt(futures):
            nonlocal n_calls
            n_calls += 1
            found = gathered(futures)
            if n_calls == self.when:
                found = how(found, before)
            before[:] = found
            return found

        self._parts._gathered = spoilt
        return self


def changed(answer):
    return replace(answer, state=b"other")


HOWS = {
    "told twice": lambda found, before: [*found, found[0]],
    "one in the place of another": lambda found, before: [found[0], *found[:-1]],
    "lost": lambda found, before: found[1:],
    "failed": lambda found, before: [None, *found[1:]],
    "of another question": lambda found, before: [before[0], *found[1:]],
    "of another part": lambda found, before: [*found, replace(found[0], number=99)],
    "changed": lambda found, before: [changed(found[0]), *found[1:]],
    "of fewer rows": lambda found, before: [
        replace(found[0], n_rows=found[0].n_rows - 1),
        *found[1:],
    ],
}


@pytest.mark.parametrize("how", HOWS)
def test_no_part_counts_twice_or_not_at_all(how, tmp_path):
    books, folder = ledger(tmp_path), write(numbers(), tmp_path / "table", 4)
    source = Spoilt(str(folder), client(), target="y", n_samples=N, features=FEATURES)
    with pytest.raises(SourceError) as caught:
        private(ledger=books).fit(source.spoil(HOWS[how]))
    assert caught.value.args == (READ_FAILED,)
    assert caught.value.__context__ is None
    assert len(books.spends()) == 1


def killed_once(source):
    """Kill the worker of the first part when all parts have been asked once more."""
    parts, n_calls = source._parts, 0
    gathered = parts._gathered

    def killing(futures):
        nonlocal n_calls
        n_calls += 1
        if n_calls == 4:
            ((worker, *_),) = client().who_has([parts._parts[0]]).values()
            kill(worker)
        return gathered(futures)

    parts._gathered = killing
    return source


def slowly():
    """Answers take their time, so that a pass is not over when it ends."""
    from skdp.io import _parts

    state = _parts.FileRows.state

    def slow(self):
        time.sleep(0.05)
        return state(self)

    _parts.FileRows.state = slow


def test_a_worker_that_is_killed_in_a_pass(
    tmp_path, keeps_nothing, mortal, monkeypatch
):
    """The other one takes its parts: the right sums, and one booking."""
    frame, books, sums = numbers(), ledger(tmp_path), DaskSource.sums
    records = MemorySource(frame[FEATURES].to_numpy(), frame["y"].to_numpy(float))
    n_right = 0

    def compared(self, query, source, rows):
        nonlocal n_right
        found = sums(self, query, source, rows)
        expected = query.whole_sums(query.open(records), rows)
        n_right += all(
            np.array_equal(one.value(), other.value())
            for one, other in zip(found, expected, strict=True)
        )
        return found

    monkeypatch.setattr(DaskSource, "sums", compared)
    source = killed_once(on_workers(frame, tmp_path / "table"))
    client().run(slowly)
    private(ledger=books).fit(source)
    assert n_right == 6
    assert len(books.spends()) == 1


def killed_at(source, when, n_workers):
    """Kill workers when all parts have been asked for the `when`-th time."""
    parts, n_calls = source._parts, 0
    gathered = parts._gathered

    def killing(futures):
        nonlocal n_calls
        n_calls += 1
        if n_calls == when:
            for worker in list(client().nthreads())[:n_workers]:
                kill(worker)
        return gathered(futures)

    parts._gathered = killing
    return source


@pytest.mark.parametrize("n_workers", [1, 2])
@pytest.mark.parametrize("form", ["files", "frame"])
def test_workers_that_kept_rows_are_killed(form, n_workers, tmp_path, mortal):
    """Other processes read their parts again: the same bits, and nothing stays."""
    frame, books = numbers(), ledger(tmp_path)

    def source():
        if form == "files":
            made = on_workers(frame, tmp_path / "table")
        else:
            made = in_partitions(frame)
        return killed_at(made, 4, n_workers)

    assert are_same(released(model().fit(source())), here())
    heal()
    private(ledger=books).fit(source())
    assert len(books.spends()) == 1
    heal()
    for _ in range(100):  # what is released is forgotten a moment later
        left = [key for keys in client().has_what().values() for key in keys]
        if not any("skdp-" in key for key in left):
            break
        time.sleep(0.05)
    assert not any("skdp-" in key for key in left)


def dies(part, question, request, sent):
    """A task that ends its worker, whichever that is."""
    if question == 4:
        os._exit(1)
    return _parts.answered(part, question, request, sent)


def test_a_pass_that_kills_every_worker_ends_the_fit(tmp_path, mortal, monkeypatch):
    """Dask gives a task up after a few workers; nothing is told of its records."""
    books, source = ledger(tmp_path), on_workers(numbers(), tmp_path / "table")
    monkeypatch.setattr(_dask, "answered", dies)
    with pytest.raises(SourceError) as caught:
        private(ledger=books).fit(source)
    assert caught.value.args == (READ_FAILED,)
    assert caught.value.__context__ is None
    assert len(books.spends()) == 1


def frame_of(make, n_parts=4):
    """A data frame of Dask whose partitions `make` makes when they are wanted."""
    rows = np.array_split(np.arange(N), n_parts)
    parts = [delayed(make)(int(own[0]), int(own[-1]) + 1) for own in rows]
    meta = numbers(10).astype({"word": "object"})
    return dataframe.from_delayed(parts, meta=meta, verify_meta=False)


def same_rows(first, last):
    return numbers().iloc[first:last].astype({"word": "object"})


def other_rows(first, last):
    """Not the same on another worker."""
    frame = same_rows(first, last)
    frame["a"] += os.getpid() % 1000 / 1000
    return frame


FACTS = {"target": "y", "n_samples": N, "features": FEATURES}


def test_partitions_that_are_not_the_same_again_end_the_fit(tmp_path, mortal):
    """Two data sets are never in one model."""
    books = ledger(tmp_path)
    source = DaskSource(frame_of(other_rows), client(), **FACTS)
    with pytest.raises(SourceError) as caught:
        private(ledger=books).fit(killed_once(source))
    assert caught.value.args == (READ_FAILED,)
    assert len(books.spends()) == 1


def test_files_that_change_between_passes_end_the_fit(tmp_path):
    source = on_workers(numbers(), tmp_path / "table")
    gathered, n_calls = source._parts._gathered, 0

    def touch(futures):
        nonlocal n_calls
        n_calls += 1
        if n_calls == 4:
            write(numbers(seed=1), tmp_path / "table", 4)
        return gathered(futures)

    source._parts._gathered = touch
    with pytest.raises(SourceError) as caught:
        model().fit(source)
    assert caught.value.args == (READ_FAILED,)


def test_no_log_of_a_worker_tells_what_went_wrong(tmp_path):
    # Other tests share the workers, and what fails there leaves SECRET in their logs.
    secret = 5151.5151

    def fails(n_passes):
        from skdp.io import _parts

        def batches(self, *asked):
            raise RuntimeError(f"the value {secret} in row 17")

        _parts.FileRows.kept = _parts.FileRows.batches
        _parts.FileRows.batches = batches

    def mended():
        from skdp.io import _parts

        _parts.FileRows.batches = _parts.FileRows.kept

    books = ledger(tmp_path)
    source = on_workers(numbers(), tmp_path / "table")
    client().run(fails, 1)
    try:
        with pytest.raises(SourceError) as caught:
            private(ledger=books).fit(source)
        assert caught.value.args == (READ_FAILED,)
        assert str(secret) not in told(caught.value)
        assert str(secret) not in str(client().get_worker_logs())
        assert str(secret) not in str(client().get_scheduler_logs())
    finally:
        client().run(mended)
    assert len(books.spends()) == 1


# -------------------------------------------------------- what is refused for nothing


@pytest.mark.parametrize("n_samples", [N - 1, N + 1])
def test_a_wrong_number_of_records(n_samples, tmp_path):
    books = ledger(tmp_path)
    for source in (
        on_workers(numbers(), tmp_path / "table", n_samples=n_samples),
        in_partitions(numbers(), n_samples=n_samples),
    ):
        with pytest.raises(ValueError, match="must be their number of rows"):
            private(ledger=books).fit(source)
    assert books.spends() == []


def fails(first, last):
    raise ValueError(f"the value {SECRET}")


def test_what_is_not_as_said(tmp_path):
    folder = write(numbers(), tmp_path / "table", 2)
    with pytest.raises(TypeError, match="must be a Client of"):
        DaskSource(str(folder), "tcp://127.0.0.1:8786", **FACTS)
    with pytest.raises(ValueError, match="at least one Parquet file"):
        DaskSource(str(tmp_path / "nowhere"), client(), **FACTS)
    frame = pd.DataFrame({0: [1.0], "y": [1]})
    with pytest.raises(ValueError, match="names that are strings"):
        DaskSource(dataframe.from_pandas(frame, npartitions=1), client(), **FACTS)
    source = DaskSource(frame_of(fails), client(), **FACTS)
    with pytest.raises(ValueError, match="Make the source anew") as caught:
        model().fit(source)
    assert SECRET not in told(caught.value)


def test_nobody_waits_for_workers_that_do_not_come(tmp_path, monkeypatch):
    from skdp.io.engines import _dask

    monkeypatch.setattr(_dask, "_PATIENCE", 0.1)
    parts = on_workers(numbers(), tmp_path / "table")._parts
    parts._client = SimpleNamespace(nthreads=dict)
    slow = client().submit(time.sleep, 2, pure=False)
    with pytest.raises(SourceError):
        parts._gathered([slow])
    with pytest.raises(ValueError, match="scheduler with workers"), parts.connected():
        pass


# --------------------------------------------------------------- scores, predictions


@pytest.mark.parametrize("kind", ["files", "frame"])
def test_scores_and_predictions_come_in_order(kind, tmp_path):
    frame = numbers()
    asked = model().fit(frame[FEATURES], frame["y"])
    is_frame = kind == "frame"
    source = in_partitions(frame) if is_frame else on_workers(frame, tmp_path / "t")
    assert source.shape == (N, 3)
    assert asked.score(source) == asked.score(frame[FEATURES], frame["y"])
    expected = asked.predict(frame[FEATURES])
    assert np.array_equal(asked.predict(source), expected)
    path = tmp_path / "predictions.parquet"
    source.predict_to(asked, path, keys=["key"])
    found = pd.read_parquet(path)
    assert np.array_equal(found["key"], frame["key"])
    assert np.array_equal(found["prediction"], expected)


# ------------------------------------------------------------------ what is sent


def test_tables_and_ledgers_are_not_sent(tmp_path):
    source = on_workers(numbers(), tmp_path / "table")
    books = BudgetLedger(tmp_path / "books.db", epsilon=1.0, delta=1e-6)
    message = sent((source, books, [1, 2]))
    table, nothing, rest = received(message, lambda *facts: facts)
    assert table[:5] == ("y", source.batch_size, (), 1, source.memory)
    assert (nothing, rest) == (None, [1, 2])
    # Nobody else reads it.
    with pytest.raises(pickle.UnpicklingError):
        pickle.Unpickler(io.BytesIO(message)).load()


def test_a_part_moves_without_what_it_keeps():
    import pyarrow as pa

    frame = numbers()[FEATURES]
    schema = pa.Schema.from_pandas(frame, preserve_index=False)
    part = WorkerPart(3, FrameRows(frame, schema))
    part._reader = 1, "what is kept"
    moved = pickle.loads(pickle.dumps(part))
    assert moved.number == 3
    assert moved._reader == (None, None)
    assert moved.rows.state() == part.rows.state()
    frame.iloc[0, 0] += 1e-9
    assert FrameRows(frame, schema).state() != part.rows.state()


@pytest.mark.parametrize("sizes", [[5], [1, 1, 1, 1], [100, 1, 1], [0, 3], [7] * 23])
@pytest.mark.parametrize("n_parts", [1, 2, 4, 50])
def test_parts_have_every_piece_once(sizes, n_parts):
    pieces = [Piece(None, (i,), size) for i, size in enumerate(sizes)]
    parts = list(_divided(pieces, n_parts))
    assert [piece for part in parts for piece in part] == pieces
    assert all(parts)
    assert len(parts) <= n_parts


# ------------------------------------------------- parts that move, are empty, or odd


def words_of(frame):
    """A slice of a frame with text, whose buffers hold other rows too."""
    words = frame.assign(word=frame["word"].astype("string"))
    table = pa.Table.from_pandas(words, preserve_index=False)
    arrow = {name: pd.ArrowDtype(table.schema.field(name).type) for name in words}
    return words.astype(arrow).iloc[100:200], table.schema


def test_a_part_with_text_is_the_same_when_it_moves():
    rows = FrameRows(*words_of(numbers()))
    assert pickle.loads(pickle.dumps(rows)).state() == rows.state()
    other, schema = words_of(numbers().assign(word="up"))
    assert FrameRows(other, schema).state() != rows.state()


class Sliced(FrameRows):
    """Buffers as they are, with what a slice leaves out."""

    @property
    def _table(self):
        return pa.Table.from_pandas(self._frame, self._schema).combine_chunks()


def test_twin_that_reads_whole_buffers_is_found():
    rows = Sliced(*words_of(numbers()))
    assert pickle.loads(pickle.dumps(rows)).state() != rows.state()


@pytest.mark.parametrize("cell", [5, "up", None, object])
def test_a_cell_of_another_type_is_missing(cell):
    frame = numbers()
    frame["word"] = frame["word"].astype(object)
    schema = pa.Schema.from_pandas(frame, preserve_index=False)
    frame.loc[17, "word"] = cell
    frame["y"] = frame["y"].astype(object)
    frame.loc[18, "y"], frame.loc[19, "y"] = "no", 1.5
    with pytest.raises(pa.ArrowException):  # the broken twin: all cells at once
        pa.Table.from_pandas(frame, schema)
    rows = FrameRows(frame, schema)
    (table,) = rows.batches(("word", "y"), N)
    found = table.to_pandas()
    assert pd.isna(found["y"][18])
    assert found["y"][19] == 1.0  # as it would be read without the other
    own = numbers()["y"].drop([18, 19])
    assert found["y"].drop([18, 19]).tolist() == own.tolist()
    assert pd.isna(found["word"][17]) or found["word"][17] == cell
    others = found["word"].drop(17).tolist()
    assert others == numbers()["word"].drop(17).tolist()


def test_parts_without_rows_add_nothing(tmp_path):
    frame = numbers()
    parts = dataframe.from_pandas(frame, npartitions=4)
    none = parts.partitions[[0]]
    parts = dataframe.concat([parts, none[none["a"] > 99]])
    write(frame, tmp_path / "table", 3)
    frame.iloc[:0].to_parquet(tmp_path / "table" / "9.parquet")
    trees = DPGradientBoostingClassifier(10.0, columns=COLUMNS, **LABELS)
    trees.set_params(n_estimators=3, random_state=0)
    own = trees.fit(frame[FEATURES], frame["y"]).decision_function(frame[FEATURES])
    given = {"target": "y", "n_samples": N, "features": FEATURES}
    for records in (parts, str(tmp_path / "table")):
        source = DaskSource(records, client(), **given)
        found = trees.fit(source).decision_function(frame[FEATURES])
        np.testing.assert_array_equal(found, own)
        assert are_same(released(model().fit(source)), here())


def test_nothing_is_said_of_the_size_of_a_sample(tmp_path, monkeypatch):
    source = on_workers(numbers(), tmp_path / "table")
    sizes = source._parts._client.map

    def told(*given, **named):
        warnings.warn("Sending large graph of 11.45 MiB", UserWarning, stacklevel=2)
        return sizes(*given, **named)

    def n_told():
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("always")
            model().fit(source)
        return sum("large graph" in str(one.message) for one in shown)

    monkeypatch.setattr(source._parts._client, "map", told)
    assert n_told() == 0
    monkeypatch.setattr(_dask, "no_warnings", nullcontext)  # the broken twin
    assert n_told() > 0


def test_ledgers_and_records_stay_at_home(tmp_path):
    books = ledger(tmp_path)
    fitted = model(ledger=books, random_state=None).fit(
        numbers()[FEATURES], numbers()["y"]
    )
    assert str(tmp_path).encode() not in sent((fitted, fitted.privacy_))
    assert str(tmp_path).encode() in cloudpickle.dumps(fitted)  # the broken twin
