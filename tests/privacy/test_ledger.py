"""The books: one file that survives everything and believes nothing forged."""

from __future__ import annotations

import copy
import gc
import math
import os
import pickle
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import skdp
from skdp import BoundedScaler, DPLogisticRegression
from skdp.exceptions import BudgetExceeded, LedgerError, NewLedgerWarning
from skdp.privacy import (
    Budget,
    BudgetLedger,
    ComposedEvent,
    EpsilonDeltaEvent,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    ObjectiveEvent,
    ParallelEvent,
    PoissonGaussianEvent,
    PureEvent,
    SelectionEvent,
    epsilon_of,
)
from skdp.privacy.__main__ import main
from skdp.privacy.accounting._gaussian import gaussian_epsilon, gaussian_mu, pure_mu
from skdp.privacy.ledger import _ledger, _store
from skdp.privacy.ledger._filter import FilterState
from skdp.privacy.noise._noise import NoiseSource
from tests.problems import make_ledger

ROOT = str(Path(skdp.__file__).parents[1])
VALUES = {"epsilon": 10.0, "delta": 1e-6}
ASKED = Budget(1.0, 1e-6)
EVENT = GaussianEvent(20.0, 3)

X = np.random.default_rng(0).normal(size=(60, 3))
Y = (X[:, 0] > 0).astype(int)


def spend(ledger, event=EVENT, label="test"):
    ledger.commit(event, adjacency=ledger.adjacency, budget=ASKED, label=label)


def model(**changes):
    values = {"solver": "noisy_gd", "solver_params": {"n_steps": 3}, "classes": [0, 1]}
    return DPLogisticRegression(**values | changes)


def cap_for(n_fits, epsilon=1.0):
    """A cap that admits `n_fits` Gaussian fits at `epsilon`, and not one more."""
    mu = math.sqrt(n_fits + 0.5) * gaussian_mu(epsilon, 1e-6)
    return gaussian_epsilon(mu, 1e-6)


def start_python(program, *arguments, **options):
    """Another process with skdp on its path."""
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": ROOT},
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


def run_python(program, *arguments):
    with start_python(program, *arguments) as process:
        answer = process.communicate(timeout=60)[0]
    assert process.returncode == 0
    return answer


@pytest.fixture
def ledger(tmp_path):
    return make_ledger(tmp_path)


@pytest.fixture
def used(ledger):
    """A ledger with three spends of three kinds."""
    spend(ledger, label="first")
    spend(ledger, PureEvent(0.25), label="second")
    spend(ledger, ComposedEvent((EVENT, PureEvent(0.1))), label="third")
    return ledger


# Opening -------------------------------------------------------------------------


def test_same_values_reopen(used):
    again = BudgetLedger(used.path, **VALUES)
    assert again == used
    assert [s.label for s in again.spends()] == ["first", "second", "third"]


def test_numbers_of_another_type_reopen(used):
    again = BudgetLedger(
        Path(used.path), epsilon=np.float64(10), delta=np.float64(1e-6)
    )
    assert again == used
    assert BudgetLedger(used.path, epsilon=10, delta=1e-6) == used


CHANGES = [
    {"epsilon": 11.0},
    {"delta": 1e-7},
    {"delta": 0.0},
    {"adjacency": "zero_out"},
    {"unit": "patient"},
    {"dataset": "other"},
    {"allow_nonprivate": True},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: next(iter(c)))
def test_other_values_are_refused(used, change):
    before = Path(used.path).read_bytes()
    with pytest.raises(LedgerError) as caught:
        BudgetLedger(used.path, **VALUES | change)
    for words in (used.path, "was made with epsilon=10.0", "Open it with the same"):
        assert words in str(caught.value)
    name = next(iter(change))
    assert f"{name}=" in str(caught.value)
    assert Path(used.path).read_bytes() == before


WRONG = [
    ({"epsilon": 0.0}, "epsilon"),
    ({"epsilon": math.inf}, "epsilon"),
    ({"epsilon": math.nan}, "epsilon"),
    ({"epsilon": "1"}, "epsilon"),
    ({"delta": 1.0}, "delta"),
    ({"delta": -1e-9}, "delta"),
    ({"adjacency": "add_remove"}, "adjacency"),
    ({"adjacency": None}, "adjacency"),
    ({"unit": 1}, "unit"),
    ({"unit": None}, "unit"),
    ({"dataset": b"x"}, "dataset"),
    ({"allow_nonprivate": 1}, "allow_nonprivate"),
]


@pytest.mark.parametrize(("change", "name"), WRONG)
def test_wrong_values_are_refused_and_no_file_is_made(tmp_path, change, name):
    with pytest.raises((TypeError, ValueError), match=f"{name}.*must be"):
        make_ledger(tmp_path, **change)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "path", [":memory:", "file:x.db", "file::memory:?cache=shared"]
)
def test_ledger_in_memory_is_refused(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="name of a file"):
        BudgetLedger(path, **VALUES)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["", None, 3, b"x.db"])
def test_path_that_is_none_is_refused(path):
    with pytest.raises(TypeError, match="name of a file"):
        BudgetLedger(path, **VALUES)


def test_folder_must_exist(tmp_path):
    with pytest.raises(LedgerError, match="folder of the ledger must exist"):
        BudgetLedger(tmp_path / "missing" / "ledger.db", **VALUES)


def test_folder_is_no_ledger(tmp_path):
    with pytest.raises(LedgerError, match="cannot be read"):
        BudgetLedger(tmp_path, **VALUES)


def test_relative_path_survives_a_change_of_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = BudgetLedger("study.db", **VALUES)
    (tmp_path / "remote").mkdir()
    monkeypatch.chdir(tmp_path / "remote")
    spend(ledger)
    assert ledger.path == str(tmp_path / "study.db")
    assert list((tmp_path / "remote").iterdir()) == []


@pytest.mark.parametrize("name", ["a b.db", "100%25?x#y.db", "日本.db", "it's.db"])
def test_any_file_name_will_do(tmp_path, name):
    ledger = BudgetLedger(tmp_path / name, dataset="日本 'x'", unit="Fall", **VALUES)
    spend(ledger, label="größer")
    assert BudgetLedger.open(tmp_path / name) == ledger
    assert ledger.spends()[0].label == "größer"
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_open_ledger_finds_the_values(tmp_path):
    made = make_ledger(
        tmp_path, unit="visit", dataset="ward 7", adjacency="zero_out", delta=0.0
    )
    assert BudgetLedger.open(made.path) == made


def test_open_ledger_makes_no_file(tmp_path):
    with pytest.raises(LedgerError, match=r"no such file.*epsilon="):
        BudgetLedger.open(tmp_path / "none.db")
    assert list(tmp_path.iterdir()) == []


def test_a_created_ledger_says_that_it_is_new(ledger):
    assert "): new, nothing is spent; epsilon 10 is left for one more fit" in repr(
        ledger
    )
    spend(ledger)
    assert "new" not in repr(ledger).partition("):")[2]


def test_a_second_ledger_for_the_same_data_warns_before_it_is_made(tmp_path):
    def create(name, dataset):
        return BudgetLedger(tmp_path / name, dataset=dataset, **VALUES)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        create("study.db", "ward 7")
        create("study.db", "ward 7")  # is opened
        create("other.db", "ward 8")
        create("unlabelled.db", "")
        for name, dataset in (("studdy.db", "ward 7"), ("unlabeled.db", "")):
            with pytest.raises(NewLedgerWarning, match=r"open\(path\)") as caught:
                create(name, dataset)
            assert not (tmp_path / name).exists()
            named = "study.db" if dataset else "unlabelled.db"
            assert f"already has ['{named}']" in str(caught.value)
    with pytest.warns(NewLedgerWarning) as told:
        create("studdy.db", "ward 7")
    assert told[0].filename == __file__


def test_of_many_ledgers_the_likeliest_ones_are_named(tmp_path):
    names = [*(f"{letter}{i}.db" for letter in "ab" for i in range(10)), "study.db"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NewLedgerWarning)
        for name in names:
            BudgetLedger(tmp_path / name, **VALUES)
    with pytest.warns(NewLedgerWarning) as told:
        BudgetLedger(tmp_path / "studdy.db", **VALUES)
    (said,) = (str(warning.message) for warning in told)
    assert "already has ['study.db', " in said
    assert "] and 18 more, also for a data set" in said
    assert sum(name in said for name in names) == 3


def test_other_files_of_the_folder_are_left_alone(tmp_path, recwarn):
    """Foreign, empty, damaged and busy ones, folders and databases."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_bytes(b"not a database " * 512)
    (tmp_path / "empty").touch()
    with closing(sqlite3.connect(tmp_path / "foreign.db")) as connection:
        connection.execute("CREATE TABLE books (dataset TEXT)")
        connection.execute("INSERT INTO books VALUES ('')")
        connection.commit()
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    # What another process that creates the same ledger has not named yet.
    (tmp_path / "remote").mkdir()
    made = BudgetLedger(tmp_path / "remote" / "study.db", **VALUES)
    Path(made.path).rename(tmp_path / f"{_store._DRAFT}abc")
    before = {path: path.stat() for path in tmp_path.iterdir() if path.exists()}
    warnings.simplefilter("always")
    BudgetLedger(tmp_path / "study.db", **VALUES)
    assert not recwarn.list
    assert {path: path.stat().st_mtime_ns for path in before} == {
        path: stat.st_mtime_ns for path, stat in before.items()
    }


# Handles -------------------------------------------------------------------------

COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda ledger: pickle.loads(pickle.dumps(ledger)),
    "clone": lambda ledger: clone(model(ledger=ledger)).ledger,
    "clone of a clone": lambda ledger: clone(clone(model(ledger=ledger))).ledger,
}


@pytest.mark.parametrize("make_copy", COPIES.values(), ids=COPIES)
def test_copies_are_equal_handles_on_the_same_books(used, make_copy):
    other = make_copy(used)
    assert other == used
    assert hash(other) == hash(used)
    assert vars(other) == vars(used)
    spend(other, label="by the copy")
    assert [s.label for s in used.spends()] == [s.label for s in other.spends()]
    assert len(used.spends()) == 4


def test_different_handles_differ(tmp_path):
    (tmp_path / "a").mkdir()
    first = make_ledger(tmp_path)
    second = make_ledger(tmp_path / "a")
    assert first != second
    assert first != "ledger"
    assert len({first, second, copy.copy(first)}) == 2


def test_fitting_changes_neither_parameters_nor_hashes(ledger):
    estimator = model(ledger=ledger)
    before = hash(ledger), joblib.hash(ledger), joblib.hash(estimator.get_params())
    estimator.fit(X, Y)
    after = hash(ledger), joblib.hash(ledger), joblib.hash(estimator.get_params())
    assert before == after
    assert estimator.ledger is ledger
    assert len(ledger.spends()) == 1


def test_handle_holds_only_its_values(used):
    assert all(isinstance(value, (str, float, bool)) for value in vars(used).values())


# Spending ------------------------------------------------------------------------


def test_spends_are_written_down_exactly(ledger):
    spend(ledger, label="one")
    model(epsilon=0.5, delta=1e-7, ledger=ledger).fit(X, Y)
    first, second = ledger.spends()
    assert (first.id, first.label, first.event) == (1, "one", EVENT)
    assert (second.epsilon, second.delta) == (0.5, 1e-7)
    assert second.label == "DPLogisticRegression(solver='noisy_gd')"
    assert second.event.count == 3
    assert second.committed_at.endswith("+00:00")


@pytest.mark.parametrize("delta", [1e-6, 1e-9])
def test_spent_is_the_composed_epsilon(tmp_path, delta):
    ledger = make_ledger(tmp_path, delta=delta)
    assert ledger.spent().epsilon == 0.0
    for _ in range(10):
        spend(ledger, GaussianEvent(8.0))
    together = epsilon_of(GaussianEvent(8.0, 10), delta)
    assert math.isclose(ledger.spent().epsilon, together)
    assert ledger.spent().delta == delta


def test_ten_fits_at_epsilon_1_cost_far_less_than_10(ledger):
    for _ in range(10):
        model(ledger=ledger).fit(X, Y)
    assert 3.0 < ledger.spent().epsilon < 4.0


def test_remaining_is_accepted_and_a_bit_more_is_not(ledger):
    for _ in range(2):
        model(epsilon=2.0, ledger=ledger).fit(X, Y)
    left = ledger.remaining().epsilon
    assert ledger.remaining().delta == ledger.delta
    with pytest.raises(BudgetExceeded):
        model(epsilon=1.01 * left, ledger=ledger).fit(X, Y)
    model(epsilon=left, ledger=ledger).fit(X, Y)
    assert ledger.remaining().epsilon < 0.1
    assert ledger.spent().epsilon <= ledger.epsilon


def test_one_fit_may_use_the_whole_cap(tmp_path):
    ledger = make_ledger(tmp_path, epsilon=1.0)
    model(ledger=ledger).fit(X, Y)
    with pytest.raises(BudgetExceeded):
        model(epsilon=0.01, ledger=ledger).fit(X, Y)


def test_three_pure_tenths_fit_a_cap_of_three_tenths(tmp_path):
    ledger = make_ledger(tmp_path, epsilon=0.3, delta=0.0)
    for _ in range(3):
        spend(ledger, PureEvent(0.1))
    with pytest.raises(BudgetExceeded):
        spend(ledger, PureEvent(1e-6))


def test_parts_of_another_adjacency_are_refused_however_deep(ledger, monkeypatch):
    part = PoissonGaussianEvent(1.0, 0.01, 1000, adjacency="zero_out")
    search = ParallelEvent((GaussianEvent(3.0), ParallelEvent((part,))))
    for event in (part, ComposedEvent((part,)), search, ComposedEvent((search,))):
        with pytest.raises(ValueError, match="must be declared for adjacency"):
            spend(ledger, event)
    assert ledger.spends() == []
    # The twin looks at leaves only.
    monkeypatch.setattr(_ledger, "_leaves_within", lambda event: event.leaves)
    spend(ledger, search)
    own = replace(part, adjacency="replace_one")
    assert epsilon_of(own, 1e-6) > 1.8 * ledger.spent().epsilon


def refusal(ledger, event, delta=0.0):
    asked = Budget(0.5, delta)
    with pytest.raises(BudgetExceeded) as caught:
        ledger.commit(event, adjacency=ledger.adjacency, budget=asked, label="a score")
    return str(caught.value)


def test_refusal_says_what_a_pure_release_counts_as(tmp_path):
    ledger = make_ledger(tmp_path, epsilon=3.0)
    spend(ledger, GaussianEvent(1 / gaussian_mu(1.0, 1e-6)))
    text = refusal(ledger, PureEvent(0.5))
    found = re.search(
        r"counts as mu=(\S+)\. The remaining mu=(\S+) allows one more fit of at most "
        r"epsilon=(\S+), delta=1e-06 with Gaussian noise, or of at most epsilon=(\S+) "
        r"if it is pure; of the amount set aside, epsilon=0 and delta=5e-07 are left\.",
        text,
    )
    counts, left, gaussian, pure = map(float, found.groups())
    assert counts == float(f"{pure_mu(0.5):.4g}")
    assert counts > left
    assert gaussian > 0.5 > pure  # the figure that once stood alone, and the true one
    state = ledger._state(ledger._books.read())
    for event, is_admitted in (
        (GaussianEvent(1 / (0.999 * left)), True),
        (GaussianEvent(1 / (1.001 * left)), False),
        (PureEvent(0.999 * pure), True),
        (PureEvent(1.001 * pure), False),
        (PureEvent(gaussian), False),
    ):
        assert (state.charged(event).exhausted() is None) == is_admitted
    pure_only = BudgetLedger(tmp_path / "pure.db", **VALUES)
    assert "mu=" not in refusal(pure_only, PureEvent(11.0))


def test_refusal_of_objective_perturbation_says_what_it_counts_as(tmp_path):
    ledger = make_ledger(tmp_path, epsilon=3.0)
    spend(ledger, GaussianEvent(1 / gaussian_mu(1.0, 1e-6)))
    event = ObjectiveEvent(4.0, 0.5)
    text = refusal(ledger, event, delta=1e-6)
    assert f"it counts as mu={math.sqrt(event.gdp_mu_squared):.4g}. The rem" in text


HINT = r"with reserve_epsilon=(\S+) and reserve_delta=(\S+) would have had room"
SEARCH = SelectionEvent(GaussianEvent(20.0), "negative_binomial", 3.0, 30, 0.0)


def admits(path, reserve, events, delta):
    """Whether a new ledger with these set-asides takes all events."""
    ledger = BudgetLedger(path, **VALUES | {"epsilon": 3.0}, **reserve)
    try:
        for event in events:
            asked = Budget(0.5, delta)
            ledger.commit(event, adjacency="replace_one", budget=asked, label="x")
    except BudgetExceeded:
        return False
    return True


@pytest.mark.parametrize("event", [PureEvent(0.6), SEARCH, ObjectiveEvent(4.0, 0.3)])
def test_refusal_names_the_set_aside_that_would_have_sufficed(tmp_path, event):
    ledger = make_ledger(tmp_path, epsilon=3.0)
    fit = GaussianEvent(1 / gaussian_mu(1.0, 1e-6))
    spend(ledger, fit)
    found = re.search(HINT, refusal(ledger, event, 2e-7))
    reserve = dict(
        zip(
            ("reserve_epsilon", "reserve_delta"),
            map(float, found.groups()),
            strict=True,
        )
    )
    assert 0 < reserve["reserve_epsilon"] < 3
    warnings.simplefilter("ignore", NewLedgerWarning)
    assert admits(tmp_path / "told", reserve, [fit, event], 2e-7)
    # The twin: half of it.
    less = reserve | {"reserve_epsilon": reserve["reserve_epsilon"] / 2}
    assert not admits(tmp_path / "less", less, [fit, event], 2e-7)


def test_refusal_names_no_set_aside_if_none_suffices(tmp_path):
    ledger = make_ledger(tmp_path, epsilon=3.0)
    spend(ledger, GaussianEvent(1 / gaussian_mu(2.5, 1e-6)))
    assert re.search(HINT, refusal(ledger, PureEvent(1.0))) is None


def test_refusal_says_epsilon(tmp_path):
    ledger = make_ledger(tmp_path, epsilon=1.0)
    with pytest.raises(BudgetExceeded) as caught:
        spend(ledger, GaussianEvent(1.0), label="a greedy fit")
    assert (caught.value.ledger, caught.value.exhausted) == (ledger.path, "epsilon")
    for words in (ledger.path, "a greedy fit", "epsilon ran out", "at most epsilon=1,"):
        assert words in str(caught.value)
    assert ledger.spends() == []


def test_refusal_says_delta(tmp_path):
    ledger = make_ledger(tmp_path, delta=0.0)
    with pytest.raises(BudgetExceeded, match="delta ran out") as caught:
        model(ledger=ledger).fit(X, Y)
    assert caught.value.exhausted == "delta"
    assert ledger.spends() == []


def test_books_say_that_delta_is_spent_while_epsilon_is_left(tmp_path, capsys):
    ledger = BudgetLedger(tmp_path / "squares.db", **VALUES)
    spend(ledger)
    assert "is left for one more fit with Gaussian noise, or " in repr(ledger)
    ledger = BudgetLedger(tmp_path / "box.db", **VALUES)
    spend(ledger, EpsilonDeltaEvent(1.0, 1e-6))
    assert "epsilon 9 at delta=0 is left for one more fit with any" in repr(ledger)
    with pytest.raises(BudgetExceeded, match=r"delta ran out.*epsilon=9, delta=0\."):
        spend(ledger)
    assert main([ledger.path]) == 0
    assert "epsilon 9, delta 0 for one more release" in capsys.readouterr().out


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_refusal_survives_pickling(tmp_path, protocol):
    with pytest.raises(BudgetExceeded) as caught:
        spend(make_ledger(tmp_path, epsilon=0.1), GaussianEvent(1.0))
    error = pickle.loads(pickle.dumps(caught.value, protocol))
    assert type(error) is BudgetExceeded
    assert str(error) == str(caught.value)
    assert (error.ledger, error.exhausted) == (caught.value.ledger, "epsilon")


def test_refused_fit_leaves_file_and_estimator_as_they_were(tmp_path):
    ledger = make_ledger(tmp_path, epsilon=1.5)
    estimator = model(ledger=ledger).fit(X, Y)
    book, coef = Path(ledger.path).read_bytes(), estimator.coef_
    with pytest.raises(BudgetExceeded):
        estimator.set_params(epsilon=1.4).fit(X, Y)
    assert Path(ledger.path).read_bytes() == book
    assert estimator.coef_ is coef


def test_input_that_is_refused_costs_nothing(ledger):
    wrong = [(np.full_like(X, np.nan), Y), (X[:1], Y), (X, Y + 1), (X[:, :0], Y)]
    for rows, labels in wrong:
        with pytest.raises(ValueError, match=r"NaN|inconsistent|labels|0 feature"):
            model(ledger=ledger).fit(rows, labels)
    assert ledger.spends() == []


@pytest.mark.parametrize("error", [RuntimeError("noise"), KeyboardInterrupt()])
def test_spend_is_never_refunded(ledger, monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(NoiseSource, "gaussian", fail)
    with pytest.raises(type(error)):
        model(ledger=ledger).fit(X, Y)
    gc.collect()
    assert len(ledger.spends()) == 1
    assert not hasattr(ledger, "refund")


def test_fit_under_another_adjacency_is_refused(ledger):
    with pytest.raises(ValueError, match=r"adjacency='replace_one'.*'zero_out'"):
        model(adjacency="zero_out", ledger=ledger).fit(X, Y)
    with pytest.raises(ValueError, match="one ledger for each adjacency"):
        ledger.commit(EVENT, adjacency="zero_out", budget=ASKED, label="x")
    assert ledger.spends() == []


def test_fit_for_another_unit_is_refused(tmp_path):
    ledger = make_ledger(tmp_path, unit="patient")
    with pytest.raises(ValueError, match=r"unit must be 'record'.*'patient'"):
        model(ledger=ledger).fit(X, Y)
    assert ledger.spends() == []


@pytest.mark.parametrize("wrong", ["study.db", 1.0, object()])
def test_what_is_no_ledger_is_refused(wrong):
    with pytest.raises(TypeError, match="None or a BudgetLedger"):
        model(ledger=wrong).fit(X, Y)


NOT_PRIVATE = [
    {"random_state": 0},
    {"epsilon": math.inf, "solver": "auto", "solver_params": None},
]


@pytest.mark.parametrize("change", NOT_PRIVATE, ids=["seed", "infinite"])
def test_fit_that_is_not_private_is_refused_by_default(ledger, change):
    with pytest.raises(ValueError, match="allow_nonprivate=True"):
        model(ledger=ledger, **change).fit(X, Y)
    with pytest.raises(ValueError, match="accepts only private fits"):
        spend(ledger, NonPrivateEvent())
    assert ledger.spends() == []


@pytest.mark.parametrize("change", NOT_PRIVATE, ids=["seed", "infinite"])
def test_fit_that_is_not_private_makes_the_total_infinite(tmp_path, change):
    ledger = make_ledger(tmp_path, allow_nonprivate=True)
    model(ledger=ledger).fit(X, Y)
    model(ledger=ledger, **change).fit(X, Y)
    model(ledger=ledger).fit(X, Y)
    assert ledger.spends()[1].event == NonPrivateEvent()
    assert ledger.spent().epsilon == math.inf
    assert ledger.remaining().epsilon == 0.0
    assert ledger.to_frame()["epsilon_total"].tolist()[1:] == [math.inf, math.inf]
    assert BudgetLedger.open(ledger.path).spent().epsilon == math.inf


def test_nonprivate_part_of_an_event_is_not_overlooked(ledger):
    with pytest.raises(ValueError, match="accepts only private fits"):
        spend(ledger, ComposedEvent((EVENT, NonPrivateEvent())))


@pytest.mark.parametrize("kind", [np.int64, np.int32])
def test_steps_from_a_numpy_grid_can_be_booked(ledger, kind):
    model(ledger=ledger, solver_params={"n_steps": kind(3)}).fit(X, Y)
    assert ledger.spends()[0].event.count == 3


# Processes -----------------------------------------------------------------------

READ = """
import sys
from skdp.privacy import BudgetLedger
ledger = BudgetLedger.open(sys.argv[1])
print(len(ledger.spends()), repr(ledger.spent().epsilon))
"""


def test_spends_survive_a_restart(used):
    count, epsilon = run_python(READ, used.path).split()
    assert (int(count), float(epsilon)) == (3, used.spent().epsilon)


MANY = """
import os, sys, time
from skdp.exceptions import BudgetExceeded
from skdp.privacy import Budget, BudgetLedger, GaussianEvent
path, multiplier = sys.argv[1], float(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
ledger = BudgetLedger(path, epsilon=3.0, delta=1e-6)  # all at once, only one creates
accepted = 0
for i in range(25):
    try:
        ledger.commit(GaussianEvent(multiplier), adjacency="replace_one",
                      budget=Budget(0.1, 1e-6), label=f"{os.getpid()} {i}")
        accepted += 1
    except BudgetExceeded:
        pass
print(accepted)
"""


def test_eight_processes_never_pass_the_cap(tmp_path):
    path, cap = tmp_path / "ledger.db", Budget(3.0, 1e-6)
    event = GaussianEvent(math.sqrt(150.5) / gaussian_mu(3.0, 5e-7))
    state, allowed = FilterState.of(cap).charged(event), 0
    while state.exhausted() is None:
        state, allowed = state.charged(event), allowed + 1
    processes = [
        start_python(MANY, path, event.noise_multiplier, stdin=subprocess.PIPE)
        for _ in range(8)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    answers = []
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        answers.append(int(process.communicate(timeout=60)[0]))
    ledger = BudgetLedger.open(path)
    assert sum(answers) == allowed == len(ledger.spends()) == 150
    assert len({spend.label for spend in ledger.spends()}) == allowed
    assert ledger.spent().epsilon <= 3.0
    assert [file.name for file in tmp_path.iterdir()] == ["ledger.db"]


BARRIER = threading.Barrier(2)
honest_verdict = FilterState.exhausted


class LooseLedger(BudgetLedger):
    """Broken twin: looks first and writes later, in two transactions."""

    def commit(self, event, **facts):
        state = self._state(self._books.read())
        if honest_verdict(state.charged(event)):
            raise BudgetExceeded("no", ledger=self.path, exhausted="epsilon")
        BARRIER.wait(timeout=20)
        super().commit(event, **facts)


def accepted_by_two_threads(kind, path):
    """How many of two spends at once pass a cap that has room for one."""
    ledger, event = kind(path, epsilon=1.0, delta=1e-6), GaussianEvent(5.0)
    outcomes = []

    def work():
        try:
            spend(copy.deepcopy(ledger), event)
            outcomes.append(1)
        except BudgetExceeded:
            outcomes.append(0)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 2
    assert sum(outcomes) == len(BudgetLedger.open(path).spends())
    return sum(outcomes)


def test_two_threads_never_pass_the_cap_and_the_twin_does(tmp_path, monkeypatch):
    assert accepted_by_two_threads(BudgetLedger, tmp_path / "ledger.db") == 1
    monkeypatch.setattr(FilterState, "exhausted", lambda state: None)
    assert accepted_by_two_threads(LooseLedger, tmp_path / "loose.db") == 2


COMMIT = """
import sys
from skdp.privacy import Budget, BudgetLedger, GaussianEvent
ledger = BudgetLedger.open(sys.argv[1])
print("ready", flush=True)
ledger.commit(GaussianEvent(50.0), adjacency="replace_one", budget=Budget(1.0, 1e-6),
              label="child")
"""


def labels_of_two_writers(ledger, monkeypatch, in_between=lambda: None):
    """Let another process commit while a commit of ours is under way.

    Returns whether it was kept out until ours was done, and the labels on the books.
    """
    kept_out = []

    def paused(state):
        if children:
            return honest_verdict(state)
        in_between()
        children.append(start_python(COMMIT, ledger.path))
        assert children[0].stdout.readline() == "ready\n"
        try:
            children[0].wait(timeout=1)
            kept_out.append(False)
        except subprocess.TimeoutExpired:
            kept_out.append(True)
        return honest_verdict(state)

    children = []
    monkeypatch.setattr(FilterState, "exhausted", paused)  # asked by `commit` only
    spend(ledger, label="parent")
    children[0].communicate(timeout=60)
    return kept_out, sorted(spend.label for spend in ledger.spends())


def test_a_commit_keeps_other_processes_out(ledger, monkeypatch):
    kept_out, labels = labels_of_two_writers(ledger, monkeypatch)
    assert kept_out == [True]
    assert labels == ["child", "parent"]


def test_reading_in_another_thread_does_not_let_other_processes_in(ledger, monkeypatch):
    def read():
        thread = threading.Thread(target=ledger.remaining)
        thread.start()
        thread.join()

    kept_out, labels = labels_of_two_writers(ledger, monkeypatch, read)
    assert kept_out == [True]
    assert labels == ["child", "parent"]


ENDLESS = """
import sys
import numpy as np
from skdp import BudgetLedger, DPLogisticRegression
X = np.random.default_rng(0).normal(size=(200, 3))
DPLogisticRegression(
    solver="noisy_gd", solver_params={"n_steps": 1_000_000}, classes=[0, 1],
    ledger=BudgetLedger.open(sys.argv[1]),
).fit(X, X[:, 0] > 0)
print("done")
"""


def test_killed_fit_stays_on_the_books(ledger):
    with start_python(ENDLESS, ledger.path) as process:
        end = time.monotonic() + 60
        while not ledger.spends() and time.monotonic() < end:
            time.sleep(0.05)
        process.kill()
        assert process.stdout.read() == ""
    assert process.returncode == -signal.SIGKILL
    (one,) = BudgetLedger(ledger.path, **VALUES).spends()
    assert one.event.count == 1_000_000
    assert math.isclose(ledger.spent().epsilon, 1.0, rel_tol=1e-3)
    spend(ledger)


HALF_WRITTEN = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size=1")  # so that pages reach the file early
connection.execute("BEGIN IMMEDIATE")
for i in range(4, 100):
    row = (i, "now", "x" * 3000, 1.0, 1e-6, "{}", "{}")
    connection.execute("INSERT INTO spends VALUES (?, ?, ?, ?, ?, ?, ?)", row)
os.kill(os.getpid(), signal.SIGKILL)
"""


def leave_half_written(ledger):
    """Kill a writer in the middle of its transaction, with pages in the file."""
    before = Path(ledger.path).read_bytes()
    with start_python(HALF_WRITTEN, ledger.path) as process:
        process.communicate(timeout=60)
    assert os.path.exists(ledger.path + "-journal")
    assert Path(ledger.path).read_bytes() != before
    return before


def test_half_written_transaction_of_a_killed_process_is_undone(used):
    before = leave_half_written(used)
    assert [s.label for s in used.spends()] == ["first", "second", "third"]
    assert Path(used.path).read_bytes() == before
    spend(used)
    assert len(BudgetLedger(used.path, **VALUES).spends()) == 4


def test_open_ledger_undoes_a_half_written_transaction_too(used):
    leave_half_written(used)
    assert len(BudgetLedger.open(used.path).spends()) == 3


# Forged, truncated and foreign files ---------------------------------------------


def damage_by_sql(*statements):
    def damage(path):
        with closing(sqlite3.connect(path)) as connection:
            for statement in statements:
                connection.execute(statement)
            connection.commit()

    return damage


def damage_by_bytes(change):
    return lambda path: path.write_bytes(change(path.read_bytes()))


def foreign_database(path):
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE books (epsilon REAL)")
        connection.commit()


CHEAPER = (
    "UPDATE spends SET event = replace(event, '20.0', '99.0'){} WHERE label = 'first'"
)
FORGED = {
    "event made cheaper": damage_by_sql(CHEAPER.format("")),
    "event and label": damage_by_sql(CHEAPER.format(", label = 'x'")),
    "event of an unknown class": damage_by_sql(
        """UPDATE spends SET event = '{"event": "os.system"}' WHERE id = 2"""
    ),
    "event that is no JSON": damage_by_sql(
        "UPDATE spends SET event = '{' WHERE id = 1"
    ),
    "event of bytes": damage_by_sql("UPDATE spends SET event = X'FF00' WHERE id = 1"),
    "time": damage_by_sql("UPDATE spends SET committed_at = 'yesterday' WHERE id = 1"),
    "epsilon asked": damage_by_sql("UPDATE spends SET epsilon = 0.5 WHERE id = 1"),
    "first row deleted": damage_by_sql("DELETE FROM spends WHERE id = 1"),
    "last row deleted": damage_by_sql("DELETE FROM spends WHERE id = 3"),
    "last row deleted and the count": damage_by_sql(
        "DELETE FROM spends WHERE id = 3", "UPDATE books SET spends = 2"
    ),
    "all rows deleted": damage_by_sql(
        "DELETE FROM spends", "UPDATE books SET spends = 0"
    ),
    "row added": damage_by_sql(
        "INSERT INTO spends SELECT 4, committed_at, label, epsilon, delta, event, "
        "charge FROM spends WHERE id = 1"
    ),
    "row added and the count": damage_by_sql(
        "INSERT INTO spends SELECT 4, committed_at, label, epsilon, delta, event, "
        "charge FROM spends WHERE id = 1",
        "UPDATE books SET spends = 4",
    ),
    "rows exchanged": damage_by_sql(
        "UPDATE spends SET id = 9 WHERE id = 1",
        "UPDATE spends SET id = 1 WHERE id = 2",
        "UPDATE spends SET id = 2 WHERE id = 9",
    ),
    "count": damage_by_sql("UPDATE books SET spends = 2"),
    "digest": damage_by_sql("UPDATE books SET head = 'x'"),
    "larger cap": damage_by_sql("UPDATE books SET epsilon = 100.0"),
    "second books": damage_by_sql("INSERT INTO books SELECT * FROM books"),
    "no books": damage_by_sql("DELETE FROM books"),
    "no table of spends": damage_by_sql("DROP TABLE spends"),
    "no table of books": damage_by_sql("DROP TABLE books"),
    "another column": damage_by_sql("ALTER TABLE spends ADD COLUMN refund REAL"),
    "empty": damage_by_bytes(lambda content: b""),
    "50 bytes": damage_by_bytes(lambda content: content[:50]),
    "100 bytes": damage_by_bytes(lambda content: content[:100]),
    "half": damage_by_bytes(lambda content: content[: len(content) // 2]),
    "one page": damage_by_bytes(lambda content: content[:4096]),
    "a page missing": damage_by_bytes(lambda content: content[:-4096]),
    "a byte missing": damage_by_bytes(lambda content: content[:-1]),
    "zeros inside": damage_by_bytes(lambda content: content[:4096] + bytes(8192)),
    "text file": damage_by_bytes(lambda content: b"epsilon,delta\n" * 50),
    "other database": foreign_database,
    "newer schema": damage_by_sql("PRAGMA user_version=3"),
    "older schema": damage_by_sql("PRAGMA user_version=1"),
    "charge": damage_by_sql(
        "UPDATE spends SET charge = "
        """'{"delta": 0.0, "epsilon": 0.0, "mu_squared": 1e-9}' WHERE id = 1"""
    ),
    "charge removed": damage_by_sql("UPDATE spends SET charge = NULL WHERE id = 1"),
    "last charge removed": damage_by_sql(
        "UPDATE spends SET charge = NULL WHERE id = 3"
    ),
    "another set-aside": damage_by_sql("UPDATE books SET reserve_delta = 0.0"),
    "no set-asides": damage_by_sql(
        "UPDATE books SET reserve_epsilon = NULL, reserve_delta = NULL"
    ),
    "carried over": damage_by_sql(
        "CREATE TABLE carried (after INTEGER, balance TEXT)",
        "INSERT INTO carried VALUES (3, '{}')",
    ),
    "trigger": damage_by_sql(
        "CREATE TRIGGER t AFTER INSERT ON spends BEGIN UPDATE books SET spends=9; END"
    ),
    "view": damage_by_sql("CREATE VIEW v AS SELECT * FROM spends"),
    "index": damage_by_sql("CREATE INDEX i ON spends (label)"),
    "another table": damage_by_sql("CREATE TABLE notes (note TEXT)"),
    "other application": damage_by_sql("PRAGMA application_id=7"),
}
# Damage at which a reader may stumble before it compares the digests.
STUMBLES = {
    "epsilon of text": damage_by_sql("UPDATE spends SET epsilon = 'x' WHERE id = 1"),
    "event nested without end": damage_by_sql(
        f"UPDATE spends SET event = '{'[' * 100_000}' WHERE id = 1"
    ),
    "number too large": damage_by_sql(
        """UPDATE spends SET event = '{"event": "gaussian", "count": 1, """
        f""""noise_multiplier": 1{"0" * 400}}}' WHERE id = 1"""
    ),
    "adjacency unknown": damage_by_sql("UPDATE books SET adjacency = 'none'"),
    "unit of bytes": damage_by_sql("UPDATE books SET unit = X'FF'"),
    "cap of text": damage_by_sql("UPDATE books SET epsilon = 'x'"),
}
USES = {
    "open": lambda ledger: BudgetLedger(ledger.path, **VALUES),
    "open by name": lambda ledger: BudgetLedger.open(ledger.path),
    "commit": spend,
    "fit": lambda ledger: model(ledger=ledger).fit(X, Y),
    "spends": BudgetLedger.spends,
    "spent": BudgetLedger.spent,
    "remaining": BudgetLedger.remaining,
    "to_frame": BudgetLedger.to_frame,
}


def refused_and_untouched(ledger):
    """Use a bad file in every way; each must say LedgerError and change nothing."""
    path = Path(ledger.path)
    before = path.read_bytes()
    for use in USES.values():
        with pytest.raises(LedgerError) as caught:
            use(ledger)
        message = str(caught.value)
        assert ledger.path in message
        remedies = (
            "restore",
            "Restore",
            "choose another path",
            "same values",
            "Use the",
        )
        assert any(remedy in message for remedy in remedies)
    assert "unreadable" in repr(ledger)
    assert main([ledger.path]) == 1
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("damage", FORGED.values(), ids=FORGED)
def test_damaged_file_is_refused_and_left_untouched(used, damage):
    damage(Path(used.path))
    refused_and_untouched(used)


@pytest.mark.parametrize("damage", STUMBLES.values(), ids=STUMBLES)
def test_nonsense_in_a_file_is_refused_like_other_damage(used, damage):
    damage(Path(used.path))
    refused_and_untouched(used)


def test_broken_twin_without_digests_believes_a_forgery(used, monkeypatch):
    monkeypatch.setattr(_store, "_next_link", lambda link, row: link)
    path = Path(used.path).with_name("undigested.db")
    twin = BudgetLedger(path, **VALUES)
    spend(twin, label="first")
    cost = twin.spent().epsilon
    FORGED["charge"](path)
    assert twin.spent().epsilon < cost  # what the digests prevent


def undone(path):
    """A trigger that takes back every commit."""
    with closing(sqlite3.connect(path)) as connection:
        n, head = connection.execute("SELECT spends, head FROM books").fetchone()
        connection.execute(
            "CREATE TRIGGER t AFTER UPDATE OF head ON books BEGIN "
            f"DELETE FROM spends WHERE id > {n}; "
            f"UPDATE books SET spends = {n}, head = '{head}'; END"
        )
        connection.commit()


def test_commit_that_a_trigger_takes_back_is_noticed(used, monkeypatch):
    undone(used.path)
    refused_and_untouched(used)
    # The second guard, without the first; and the twin without both.
    monkeypatch.setattr(_store, "_holds_more", lambda connection: False)
    before = Path(used.path).read_bytes()
    with pytest.raises(LedgerError, match="does not contain what was written"):
        spend(used)
    assert Path(used.path).read_bytes() == before
    monkeypatch.setattr(_store.Writer, "_check_written", lambda *_: None)
    spend(used)
    assert len(used.spends()) == 3


NO_CHARGES = [
    "{",
    "[]",
    "{}",
    '{"is_void": false}',
    '{"is_void": true, "epsilon": 0.0}',
    '{"delta": 0.0, "epsilon": 0.0}',
    '{"delta": 0.0, "epsilon": -1.0, "mu_squared": 0.0}',
    '{"delta": 0.0, "epsilon": NaN, "mu_squared": 0.0}',
    '{"delta": 0.0, "epsilon": "0", "mu_squared": 0.0}',
    '{"delta": 0.0, "epsilon": null, "mu_squared": 0.0}',
    '{"delta": 0.0, "epsilon": 0.0, "mu_squared": 0.0, "more": 0.0}',
]


@pytest.mark.parametrize("text", NO_CHARGES)
def test_charge_without_its_form_is_refused_under_any_digest(ledger, text, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(_store, "_charge_text", lambda charge: text)
        spend(ledger)
    refused_and_untouched(ledger)


def test_file_with_a_log_of_another_program_is_left_alone(used):
    """SQLite would fold a write-ahead log into the file as soon as it reads it."""
    path = Path(used.path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("UPDATE books SET spends = 2")
        connection.commit()
        files = {file: file.read_bytes() for file in path.parent.iterdir()}
        assert len(files) == 3
        for use in USES.values():
            with pytest.raises(LedgerError, match="write-ahead log"):
                use(used)
        assert "unreadable" in repr(used)
        assert {file: file.read_bytes() for file in path.parent.iterdir()} == files


def test_newer_schema_is_named(used):
    FORGED["newer schema"](Path(used.path))
    with pytest.raises(LedgerError, match=r"schema version 2. Got version 3"):
        used.spends()


def test_missing_file_is_never_started_anew_under_a_used_handle(used):
    os.unlink(used.path)
    for handle in (used, copy.deepcopy(used), pickle.loads(pickle.dumps(used))):
        with pytest.raises(LedgerError, match="never creates it again"):
            spend(handle)
        with pytest.raises(LedgerError, match="never creates it again"):
            model(ledger=handle).fit(X, Y)
        assert "unreadable" in repr(handle)
    assert not os.path.exists(used.path)


def test_file_that_vanishes_while_it_is_opened_is_not_started_anew(used, monkeypatch):
    os.unlink(used.path)
    monkeypatch.setattr(os.path, "isfile", lambda path: True)
    with pytest.raises(LedgerError, match="unable to open"):
        spend(used)
    assert not os.path.exists(used.path)


@pytest.mark.parametrize("error", [RuntimeError("half"), KeyboardInterrupt()])
def test_commit_that_fails_half_way_changes_nothing(used, monkeypatch, error):
    def link(previous, row):
        if row[2] == "interrupted":  # its row has been inserted by now
            raise error
        return next_link(previous, row)

    next_link = _store._next_link
    monkeypatch.setattr(_store, "_next_link", link)
    before = Path(used.path).read_bytes()
    with pytest.raises(type(error)):
        spend(used, label="interrupted")
    assert Path(used.path).read_bytes() == before
    spend(used, label="fourth")
    assert [s.label for s in used.spends()] == ["first", "second", "third", "fourth"]


# scikit-learn --------------------------------------------------------------------


def test_pipeline_keeps_the_books(ledger):
    pipeline = make_pipeline(BoundedScaler(bounds=(-4, 4)), model(ledger=ledger))
    pipeline.fit(X, Y)
    clone(pipeline).fit(X, Y)
    assert len(ledger.spends()) == 2


def test_cross_validation_spends_once_per_fold(ledger):
    scores = cross_val_score(model(ledger=ledger), X, Y, cv=3)
    assert scores.shape == (3,)
    assert len(ledger.spends()) == 3


def test_parallel_search_keeps_one_set_of_books(ledger):
    search = GridSearchCV(
        model(ledger=ledger), {"epsilon": [0.1, 0.2]}, cv=2, n_jobs=2
    ).fit(X, Y)
    asked = sorted(spend.epsilon for spend in ledger.spends()[:4])
    assert asked == [0.1, 0.1, 0.2, 0.2]
    assert len(ledger.spends()) == 5
    assert ledger.spends()[4].epsilon == search.best_params_["epsilon"]
    assert search.best_estimator_.ledger == ledger


def search(ledger, **options):
    return GridSearchCV(
        model(ledger=ledger), {"fit_intercept": [True, False]}, cv=2, **options
    )


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_search_raises_the_refusal_when_asked_to(tmp_path, n_jobs):
    ledger = make_ledger(tmp_path, epsilon=cap_for(2))
    with pytest.raises(BudgetExceeded) as caught:
        search(ledger, error_score="raise", n_jobs=n_jobs).fit(X, Y)
    assert (caught.value.ledger, caught.value.exhausted) == (ledger.path, "epsilon")
    assert len(ledger.spends()) == 2


def test_refused_refit_is_not_lost(tmp_path):
    ledger = make_ledger(tmp_path, epsilon=cap_for(4))
    with pytest.raises(BudgetExceeded, match="epsilon ran out"):
        search(ledger).fit(X, Y)
    assert len(ledger.spends()) == 4


def test_refused_folds_without_refit_are_named_in_the_warning(tmp_path):
    ledger = make_ledger(tmp_path, epsilon=cap_for(3))
    with (
        pytest.warns(FitFailedWarning, match=r"BudgetExceeded") as caught,
        pytest.warns(UserWarning, match="non-finite"),
    ):
        found = search(ledger, refit=False).fit(X, Y)
    (text,) = (
        str(warning.message)
        for warning in caught.list
        if warning.category is FitFailedWarning
    )
    assert ledger.path in text
    assert "epsilon ran out" in text
    assert np.isnan(found.cv_results_["mean_test_score"]).tolist() == [False, True]
    assert len(ledger.spends()) == 3


def test_search_that_may_fit_nothing_names_the_ledger(tmp_path):
    ledger = make_ledger(tmp_path, epsilon=0.5)
    with pytest.raises(ValueError, match="All the 4 fits failed") as caught:
        search(ledger).fit(X, Y)
    assert ledger.path in str(caught.value)
    assert ledger.spends() == []


# Reading the books ---------------------------------------------------------------

COLUMNS = ["id", "committed_at", "label", "epsilon", "delta", "event"]
COLUMNS += ["epsilon_alone", "epsilon_total"]
COLUMNS += ["charged_epsilon", "charged_delta", "charged_mu"]


def test_frame_has_a_row_per_fit_and_running_totals(used):
    frame = used.to_frame()
    assert frame.columns.tolist() == COLUMNS
    assert frame["id"].tolist() == [1, 2, 3]
    assert frame["label"].tolist() == ["first", "second", "third"]
    assert frame["event"][1] == '{"count": 1, "epsilon": 0.25, "event": "pure"}'
    alone = [epsilon_of(spend.event, 1e-6) for spend in used.spends()]
    assert frame["epsilon_alone"].tolist() == alone
    assert frame["epsilon_total"].is_monotonic_increasing
    assert frame["epsilon_total"].iloc[-1] == used.spent().epsilon


def test_frame_of_empty_books_has_the_columns(ledger):
    assert ledger.to_frame().columns.tolist() == COLUMNS
    assert len(ledger.to_frame()) == 0


def test_repr_says_what_is_spent_left_and_not_covered(tmp_path):
    ledger = make_ledger(tmp_path, dataset="ward 7", unit="visit", delta=1e-8)
    spend(ledger)
    text = repr(ledger)
    for words in (ledger.path, "epsilon=10", "delta=1e-08", "'visit'", "'ward 7'"):
        assert words in text
    for words in (
        f"1 releases have spent epsilon {ledger.spent().epsilon:.4g}",
        f"epsilon {ledger.remaining().epsilon:.4g} is left for one more",
        "only releases made with it, no raw scores",
    ):
        assert words in text
    assert "replace_one" in text
    assert "allow_nonprivate" not in text
    assert "allow_nonprivate=True" in repr(
        BudgetLedger(tmp_path / "b.db", allow_nonprivate=True, **VALUES)
    )


def test_what_is_left_names_the_noise_it_holds_for(tmp_path, capsys):
    ledger = BudgetLedger(tmp_path / "study.db", **VALUES)
    for event in (PureEvent(1.0), None):
        left = ledger.remaining()
        assert (left.noise, left.pure_epsilon) == ("any", left.epsilon)
        assert "is left for one more fit with any noise" in repr(ledger)
        assert "one more fit, with any noise, may cost" in refusal(
            ledger, PureEvent(11.0)
        )
        if event is not None:
            spend(ledger, event)
    spend(ledger)
    left = ledger.remaining()
    assert left.noise == "gaussian"
    assert left.pure_epsilon < left.epsilon
    assert f"epsilon {left.epsilon:.4g} is left for one more fit with G" in repr(ledger)
    assert f"or {left.pure_epsilon:.4g} for a pure fit" in repr(ledger)
    assert main([ledger.path]) == 0
    told = capsys.readouterr().out
    assert "with Gaussian noise,\n" in told
    assert f"or epsilon {left.pure_epsilon:.4g} for a pure one" in told
    # Each number is what it says: accepted, and a bit more is not.
    state = ledger._state(ledger._books.read())
    assert state.charged(PureEvent(left.pure_epsilon)).exhausted() is None
    assert state.charged(PureEvent(left.epsilon)).exhausted() == "epsilon"


def test_html_shows_cap_gauge_and_what_is_left(tmp_path):
    ledger = BudgetLedger(tmp_path / "a<b.db", dataset="<ward>", **VALUES)
    assert "width:0%" in ledger._repr_html_()
    spend(ledger, PureEvent(4.0))
    text = ledger._repr_html_()
    for words in ("a&lt;b.db", "&lt;ward&gt;", "width:40%", "6 is left for one more"):
        assert words in text
    assert "<ward>" not in text
    Path(ledger.path).unlink()
    text = ledger._repr_html_()
    assert "unreadable" in text
    assert "width:" not in text


def test_command_prints_the_books(used, capsys):
    assert main([used.path]) == 0
    text = capsys.readouterr().out
    for words in (
        used.path,
        "epsilon 10, delta 1e-06",
        f"epsilon {used.spent().epsilon:.4g} in 3 releases",
        f"epsilon {used.remaining().epsilon:.4g}, delta 1e-06 for one more release",
        "unit record",
        "(no label)",
        "replace_one",
        "scores and choices made from them are not",
        "second",
    ):
        assert words in text


def test_command_prints_empty_books(ledger, capsys):
    assert main([ledger.path]) == 0
    assert "epsilon 0 in 0 releases" in capsys.readouterr().out


def test_command_runs_as_a_module(used):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "skdp.privacy", used.path],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": ROOT},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "in 3 releases" in done.stdout


@pytest.mark.parametrize("content", [None, b"", b"not a ledger\n" * 20])
def test_command_fails_for_what_is_no_ledger(tmp_path, capsys, content):
    path = tmp_path / "foreign.db"
    if content is not None:
        path.write_bytes(content)
    assert main([str(path)]) == 1
    told = capsys.readouterr()
    assert str(path) in told.err
    assert told.out == ""
    assert path.exists() == (content is not None)


def test_without_hard_links_the_first_ledger_stands(tmp_path, monkeypatch):
    """Found in review: a rename replaced books that already had spends."""

    def no_links(draft, path):
        first = make_ledger(tmp_path)  # another process is faster
        first.commit(
            GaussianEvent(5.0),
            adjacency="replace_one",
            budget=Budget(1.0, 1e-6),
            label="first",
        )
        raise OSError("no hard links here")

    real = os.link
    calls = []

    def link(draft, path):
        calls.append(path)
        return no_links(draft, path) if len(calls) == 1 else real(draft, path)

    monkeypatch.setattr(os, "link", link)
    assert len(make_ledger(tmp_path).spends()) == 1
    monkeypatch.setattr(
        os, "link", lambda draft, path: (_ for _ in ()).throw(OSError())
    )
    (tmp_path / "new").mkdir()
    assert make_ledger(tmp_path / "new").spends() == []


def test_sampled_fits_come_before_and_after_gaussian_ones(tmp_path):
    ledger = BudgetLedger(
        tmp_path / "books.db", epsilon=3.0, delta=1e-6, adjacency="zero_out"
    )
    budget = Budget(1.0, 2e-7)
    sampled = PoissonGaussianEvent(3.0, 0.01, 100)

    def commit(event):
        ledger.commit(event, adjacency="zero_out", budget=budget, label="a fit")

    with pytest.raises(ValueError, match="declared for adjacency"):
        commit(PoissonGaussianEvent(3.0, 0.01, 100, "replace_one"))
    commit(sampled)
    assert ledger.spent().epsilon <= epsilon_of(sampled, 2e-7)
    assert 9e-7 < ledger.remaining().delta < 1e-6
    commit(GaussianEvent(20.0))
    commit(sampled)
    commit(ObjectiveEvent(30.0, 0.001))
    commit(LaplaceEvent(50.0))
    frame = ledger.to_frame()
    assert len(frame) == len(ledger.spends()) == 5
    first, third = frame.loc[[0, 2]].to_numpy()[:, -3:]
    assert (first == third).all()  # whatever came between
    assert 0 < frame["charged_delta"].sum() < 1e-7


# Set-asides and charges ----------------------------------------------------------


WRONG_RESERVES = [
    ({"reserve_epsilon": 10.1}, "reserve_epsilon"),
    ({"reserve_epsilon": -0.1}, "reserve_epsilon"),
    ({"reserve_delta": 1.1e-6}, "reserve_delta"),
    ({"reserve_delta": "half"}, "reserve_delta"),
    ({"delta": 0.0, "reserve_delta": 1e-9}, "reserve_delta"),
]


@pytest.mark.parametrize(("change", "name"), WRONG_RESERVES)
def test_wrong_set_asides_are_refused_and_no_file_is_made(tmp_path, change, name):
    with pytest.raises((TypeError, ValueError), match=f"{name}.*must be"):
        make_ledger(tmp_path, **change)
    assert list(tmp_path.iterdir()) == []


def test_set_asides_are_terms_of_the_ledger(tmp_path):
    ledger = make_ledger(tmp_path, reserve_epsilon=2.0, reserve_delta=1e-7)
    assert BudgetLedger.open(ledger.path) == ledger
    assert "reserve_epsilon=2, reserve_delta=1e-07)" in repr(ledger)
    with pytest.raises(LedgerError, match=r"made with.*reserve_epsilon=2\.0"):
        BudgetLedger(ledger.path, **VALUES)
    assert "reserve" not in repr(BudgetLedger(tmp_path / "b.db", dataset="b", **VALUES))


def test_what_remains_by_kind_is_admitted_and_hardly_more(tmp_path):
    ledger = make_ledger(tmp_path, reserve_epsilon=2.0, reserve_delta=4e-7)
    spend(ledger)
    for kind, event in (
        ("gaussian", lambda e, d: GaussianEvent(1 / gaussian_mu(e, d))),
        ("pure", lambda e, d: PureEvent(e)),
        ("any", EpsilonDeltaEvent),
    ):
        left = ledger.remaining(kind)
        assert left.noise == kind
        assert ledger.admits([(event(left.epsilon, left.delta), 0.0)])
        if kind != "any":  # a black box could still be charged a mu
            more = event(1.01 * left.epsilon, left.delta)
            assert not ledger.admits([(more, 0.0)])
    assert (ledger.remaining("any").epsilon, ledger.remaining("any").delta) == (2, 4e-7)
    assert ledger.remaining() == ledger.remaining("gaussian")
    with pytest.raises(ValueError, match="'kind' parameter must be"):
        ledger.remaining("sampled")
    assert len(ledger.spends()) == 1


def test_audit_finds_what_was_charged_less(tmp_path, monkeypatch):
    ledger = make_ledger(tmp_path, reserve_epsilon=1.0)
    sampled = PoissonGaussianEvent(4.0, 0.01, 100, "replace_one")
    for event in (PureEvent(0.1), sampled, EVENT, ObjectiveEvent(9.0, 0.05), sampled):
        spend(ledger, event)
    assert len(ledger.spends(verify=True)) == 5
    honest = FilterState.charge_of

    def half(state, event, delta=0.0):
        return honest(state, event, delta).times(0.5)

    monkeypatch.setattr(FilterState, "charge_of", half)
    spend(ledger, sampled, label="cheap")
    monkeypatch.setattr(FilterState, "charge_of", honest)
    assert len(ledger.spends()) == 6
    with pytest.raises(LedgerError, match="Got entry 6, cheap, charged less"):
        ledger.spends(verify=True)


def test_audit_accepts_any_way_to_charge(tmp_path, monkeypatch):
    """A tighter accountant may prefer another way than the one that was booked."""
    ledger = make_ledger(tmp_path, reserve_epsilon=1.0)
    spend(ledger, EVENT)
    honest = FilterState.charge_of

    def last(state, event, delta=0.0):
        return list(state.ways(event, delta))[-1]

    monkeypatch.setattr(FilterState, "charge_of", last)
    spend(ledger, PureEvent(0.1))
    monkeypatch.setattr(FilterState, "charge_of", honest)
    state = ledger._state(ledger._books.read())
    assert ledger.spends()[1].charge != state.charge_of(PureEvent(0.1))
    assert len(ledger.spends(verify=True)) == 2


def test_command_verifies_charges(used, capsys, monkeypatch):
    assert main([used.path, "--verify"]) == 0
    told = capsys.readouterr().out
    for words in (
        "set aside  epsilon 0, delta 5e-07",
        "epsilon 0, delta 5e-07 for",
        "verified   every release",
    ):
        assert words in told
    honest = FilterState.ways
    monkeypatch.setattr(
        FilterState,
        "ways",
        lambda *facts: (way.times(2.0) for way in honest(*facts)),
    )
    assert main([used.path]) == 0
    assert main([used.path, "--verify"]) == 1
    assert "Got entry 1, first, charged less" in capsys.readouterr().err


def test_audit_finds_what_passed_the_cap(tmp_path, monkeypatch):
    ledger = make_ledger(tmp_path, epsilon=1.0)
    monkeypatch.setattr(FilterState, "exhausted", lambda state: None)
    spend(ledger, PureEvent(2.0))
    monkeypatch.setattr(FilterState, "exhausted", honest_verdict)
    with pytest.raises(LedgerError, match="Got entry 1"):
        ledger.spends(verify=True)


NO_ACCOUNTANT = """
import sys
from skdp.privacy import Budget, BudgetLedger, GaussianEvent
def refuse(text):
    raise AssertionError("an event was read")
import skdp.privacy.ledger._store as books
books.event_from_json = refuse
ledger = BudgetLedger.open(sys.argv[1])
ledger.commit(GaussianEvent(1e4), adjacency="replace_one", budget=Budget(0.1, 1e-6),
              label="more")
print(repr(ledger), ledger.remaining("pure"))
assert not any(name.startswith("dp_accounting") for name in sys.modules)
try:
    ledger.spends()
except AssertionError:
    print("twin")  # reading them all is what is not done above
"""


def test_charges_are_read_and_not_found_again(tmp_path):
    ledger = make_ledger(tmp_path)
    for z in (4.0, 5.0):
        spend(ledger, PoissonGaussianEvent(z, 0.01, 100, "replace_one"))
    told = run_python(NO_ACCOUNTANT, ledger.path)
    assert "3 releases" in told
    assert told.endswith("twin\n")


KILLED = """
import sys
from skdp.privacy import Budget, BudgetLedger, GaussianEvent, PureEvent
ledger = BudgetLedger.open(sys.argv[1])
for i in range(100_000):
    event = PureEvent(1e-5) if i % 2 else GaussianEvent(1e3)
    ledger.commit(event, adjacency="replace_one", budget=Budget(1e-3, 1e-6), label="x")
    print(i, flush=True)
"""


def test_killed_writers_lose_no_spend_that_they_were_told_of(tmp_path):
    ledger, told = make_ledger(tmp_path), 0
    for _ in range(4):
        with start_python(KILLED, ledger.path) as process:
            for _ in range(6):
                told += bool(process.stdout.readline())
            process.kill()
            told += len(process.stdout.read().split())
    booked = len(ledger.spends(verify=True))
    assert told <= booked <= told + 4
    spend(ledger)


@pytest.mark.slow
def test_eight_processes_of_two_hundred_spends_of_all_kinds(tmp_path):
    path = tmp_path / "ledger.db"
    ledger = BudgetLedger(path, epsilon=3.0, delta=1e-6, reserve_epsilon=0.5)
    processes = [start_python(MIXED, path, turn) for turn in range(8)]
    answers = [int(p.communicate(timeout=300)[0]) for p in processes]
    assert sum(answers) == len(ledger.spends(verify=True)) < 1600
    state = ledger._state(ledger._books.read())
    assert state.exhausted() is None
    assert state.room.epsilon < 0.01


MIXED = """
import sys
from skdp.exceptions import BudgetExceeded
from skdp.privacy import (
    Budget, BudgetLedger, EpsilonDeltaEvent, GaussianEvent, PureEvent
)
ledger, accepted = BudgetLedger.open(sys.argv[1]), 0
kinds = [GaussianEvent(50.0), PureEvent(0.005), EpsilonDeltaEvent(0.002, 1e-9)]
for i in range(200):
    try:
        ledger.commit(kinds[(i + int(sys.argv[2])) % 3], adjacency="replace_one",
                      budget=Budget(0.1, 1e-6), label=f"{sys.argv[2]} {i}")
        accepted += 1
    except BudgetExceeded:
        pass
print(accepted)
"""
