"""What goes wrong while a source is read ends in one message, and tells no cause."""

from __future__ import annotations

import contextlib
import itertools
import pickle
import traceback
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from skdp import BudgetLedger, DPGradientBoostingClassifier, DPLogisticRegression
from skdp.exceptions import READ_FAILED, SourceError
from skdp.io import ParquetSource, SqlSource
from skdp.io._session import _INTERRUPTED
from tests.io import places
from tests.io.places import (
    COLUMNS,
    DATABASES,
    FEATURES,
    N,
    database,
    in_files,
    numbers,
    read,
    write,
)

SECRET = "4242.4242"


def ledger(tmp_path):
    return BudgetLedger(tmp_path / "books.db", epsilon=10.0, delta=1e-3)


@pytest.fixture(autouse=True)
def is_too_large_to_keep(monkeypatch):
    places.keeps(monkeypatch, 0)


def model(**given):
    steps = {"solver": "noisy_gd", "solver_params": {"n_steps": 4}}
    return DPLogisticRegression(epsilon=1.0, classes=[0, 1], **steps, **given)


class Spied(ParquetSource):
    """A source in which something happens at some pass."""

    pass_number = 0
    when = 2

    def _scan(self, names):
        self.pass_number += 1
        parts = list(super()._scan(names))
        if self.pass_number == self.when:
            parts = self.spoil(parts)
        yield from parts

    def spoil(self, parts):
        return parts


class AnswersTwice(Spied):
    def spoil(self, parts):
        return parts + parts


class SendsAPartAgain(Spied):
    def spoil(self, parts):
        return [*parts, parts[0]]


class LosesAPart(Spied):
    def spoil(self, parts):
        return parts[1:]


class Fails(Spied):
    def spoil(self, parts):
        raise RuntimeError(f"the value {SECRET} in row 17 of {len(parts)}")


class LosesItsMemory(Spied):
    def spoil(self, parts):
        raise MemoryError(SECRET)


class IsTouched(Spied):
    """A file is written anew, with the same rows, between two passes."""

    def spoil(self, parts):
        write(numbers(), self.folder, 3)
        return parts


SPOILT = [AnswersTwice, SendsAPartAgain, LosesAPart, Fails, LosesItsMemory, IsTouched]


def spied(kind, tmp_path, when=2):
    folder = write(numbers(), tmp_path / "table", 3)
    source = kind(folder, target="y", n_samples=N, features=FEATURES)
    source.when, source.folder = when, folder
    return source


def told(error):
    """All that an error shows, and what hangs on it."""
    parts = ["".join(traceback.format_exception(error))]
    while error is not None:
        parts.append(repr(error.args))
        error = error.__context__ or error.__cause__
    return "".join(parts)


@pytest.mark.parametrize("kind", SPOILT)
@pytest.mark.parametrize("when", [1, 4])
def test_one_message_whatever_happened(kind, when, tmp_path):
    books = ledger(tmp_path)
    asked = model(ledger=books)
    with pytest.raises(SourceError) as caught:
        asked.fit(spied(kind, tmp_path, when))
    assert caught.value.args == (READ_FAILED,)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    assert SECRET not in told(caught.value)
    assert len(books.spends()) == 1  # what was committed stays
    assert not hasattr(asked, "coef_")


def test_an_interrupt_says_what_stays_charged(tmp_path):
    class Interrupted(Spied):
        def spoil(self, parts):
            raise KeyboardInterrupt(SECRET)

    books = ledger(tmp_path)
    with pytest.raises(KeyboardInterrupt) as caught:
        model(ledger=books).fit(spied(Interrupted, tmp_path))
    assert caught.value.args == (_INTERRUPTED,)
    assert caught.value.__context__ is None
    assert len(books.spends()) == 1


def test_data_that_changed_before_a_fit_are_refused_for_nothing(tmp_path):
    books, source = ledger(tmp_path), spied(Spied, tmp_path)
    write(numbers(seed=1), tmp_path / "table", 3)
    with pytest.raises(ValueError, match="Make the source anew"):
        model(ledger=books).fit(source)
    assert books.spends() == []


@pytest.mark.parametrize("n_samples", [N - 1, N + 1])
def test_a_wrong_number_of_records_is_refused_for_nothing(n_samples, tmp_path):
    books, folder = ledger(tmp_path), write(numbers(), tmp_path / "table", 2)
    in_sql = SqlSource(database(numbers()), "records", target="y", n_samples=n_samples)
    files = ParquetSource(folder, target="y", n_samples=n_samples)
    for source in (files, in_sql):
        with pytest.raises(ValueError, match="'n_samples' must be their number") as e:
            model(ledger=books, columns=None).fit(source)
        assert str(N) not in str(e.value)
    assert books.spends() == []


def test_rows_that_fail_to_convert_are_null_records(tmp_path):
    frame = numbers()
    frame["typed"] = frame["a"].astype(str)
    frame.loc[5, "typed"] = SECRET + "x"
    source = SqlSource(
        database(frame),
        "records",
        target="y",
        n_samples=N,
        features={"typed": "CAST(typed AS DOUBLE)"},
    )
    _, present, _ = read(source)
    assert np.flatnonzero(~present).tolist() == [5]
    model().fit(source)


@pytest.mark.filterwarnings("ignore:A source should have room")
def test_another_connection_changes_nothing_of_a_fit(tmp_path):
    """One transaction: what others commit meanwhile is not seen."""
    frame = numbers()
    connection = database(frame)

    class Meddled(SqlSource):
        def _scan(self, names):
            yield from super()._scan(names)
            connection.execute("UPDATE records SET a = 1e9")

    seeded = {"solver": "noisy_gd", "random_state": 0}
    facts = {"target": "y", "n_samples": N, "features": FEATURES}
    asked = DPLogisticRegression(1.0, classes=[0, 1], **seeded)
    honest = asked.fit(SqlSource(database(frame), "records", **facts)).coef_
    meddled = asked.fit(Meddled(connection, "records", **facts)).coef_
    assert np.array_equal(meddled, honest)
    later = asked.fit(SqlSource(connection, "records", **facts)).coef_
    assert not np.allclose(later, honest)


def test_who_catches_a_failure_reads_nothing_more(tmp_path):
    source = spied(Fails, tmp_path, 1)

    def rows():
        return list(source.rows(source.reading()))

    def twice():
        with contextlib.suppress(RuntimeError):
            rows()
        return rows()

    with pytest.raises(SourceError):
        source.during(twice)


def test_readings_outside_of_a_fit_tell_no_cause(tmp_path):
    with pytest.raises(SourceError) as caught:
        read(spied(Fails, tmp_path, 1))
    assert caught.value.args == (READ_FAILED,)
    assert SECRET not in told(caught.value)


def test_no_frame_of_the_error_holds_the_first_one(tmp_path):
    with pytest.raises(SourceError) as caught:
        model().fit(spied(Fails, tmp_path))
    step = caught.value.__traceback__
    while step is not None:
        if "skdp" in step.tb_frame.f_code.co_filename:
            held = step.tb_frame.f_locals.values()
            assert not any(SECRET in repr(value) for value in held)
        step = step.tb_next


def test_one_thread_at_a_time(tmp_path):
    source = in_files(numbers(), tmp_path / "t")

    def meanwhile():
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: model().fit(source)).exception()

    problem = source.during(meanwhile)
    assert "one estimator at a time" in str(problem)


# ------------------------------------------------------------------- nothing is stored


@pytest.mark.parametrize("place", ["files", "DuckDB", "PostgreSQL"])
def test_fitted_models_carry_no_source(place, tmp_path):
    frame = numbers()
    facts = {"target": "y", "n_samples": N, "features": FEATURES, "columns": COLUMNS}
    if place == "files":
        source = ParquetSource(write(frame, tmp_path / "t"), **facts)
    else:
        source = SqlSource(DATABASES[place](frame), "records", **facts)
    fits = [
        DPLogisticRegression(1.0, classes=[0, 1]).fit(source),
        DPGradientBoostingClassifier(1.0, classes=[0, 1]).fit(source),
    ]
    for fitted in fits:
        stored = pickle.dumps(fitted)
        assert b"skdp.io" not in stored
        record = fitted.privacy_.to_json()
        for secret in secrets_of(source):
            assert secret not in record
            assert secret.encode() not in stored
        assert "as checked by" in record
        assert fitted.columns is None
    with pytest.raises(TypeError, match="not in memory"):
        pickle.dumps(source)


def secrets_of(source):
    """What a snapshot compares, in digits."""
    if isinstance(source, SqlSource):
        return [str(id(source._engine._connection))]
    states = source._snapshot.states
    found = [str(part) for size, time, _ in states for part in (size, time)]
    return found + [end.hex() for _, _, end in states]


# -------------------------------------------------------------------------- progress


def test_progress_shows_public_numbers_only(tmp_path, capsys, monkeypatch):
    frame = numbers()
    frame.loc[::3, "a"] = np.nan
    holed, whole = tmp_path / "holed", tmp_path / "whole"
    shown = []
    for rows, folder in ((frame, holed), (numbers(), whole)):
        ticks = itertools.count(0.0, 12.0)  # a clock that nothing slows
        monkeypatch.setattr("skdp.io._session.monotonic", lambda own=ticks: next(own))
        model(verbose=True).fit(in_files(rows, folder, n_files=3))
        shown.append(capsys.readouterr().out.splitlines())
    assert shown[0] == shown[1]
    assert shown[0][0].endswith(
        f"pass 1: 300 of {N} rows, 24 s left in this pass at 25 rows a second"
    )
    # Without `verbose` in the first pass only.
    model(verbose=None).fit(in_files(numbers(), whole, n_files=3))
    said = capsys.readouterr()
    assert said.out == ""
    lines = said.err.splitlines()
    assert lines
    assert all("] pass 1: " in line for line in lines)
    model(verbose=0).fit(in_files(numbers(), whole, n_files=3))
    assert capsys.readouterr() == ("", "")
