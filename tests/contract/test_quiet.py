"""No warning leaves after a commit, in whatever thread, and skdp's own name the caller.

Each promise with the silence that once broke it.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import skdp._quiet
from skdp import DPGridSearchCV, DPLogisticRegression, private_score
from skdp._quiet import _filtered, _Shared, no_warnings, warn
from skdp.exceptions import LargeDeltaWarning, PublicLabelsWarning
from skdp.model_selection import _scorer_sums
from skdp.privacy.noise._noise import NoiseSource
from skdp.privacy.release import _answers

LETTERS = np.random.default_rng(0).choice(["a", "b", "c"], size=(60, 1)).astype(object)
IS_A = (LETTERS[:, 0] == "a").astype(int)


@contextmanager
def of_the_main_thread_only():
    """The twin: what once stood in place of `no_warnings`."""
    with np.errstate(all="ignore"):
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield


@pytest.fixture
def with_the_twin(monkeypatch):
    for module in (skdp._quiet, _scorer_sums, _answers):
        monkeypatch.setattr(module, "no_warnings", of_the_main_thread_only)


def in_a_thread(task):
    thread = threading.Thread(target=task)
    thread.start()
    thread.join()


@contextmanager
def everything_shown():
    """The list of warnings that anybody sees, in whatever thread."""
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        yield shown


def shown_by_scoring(X, run):
    model = make_pipeline(
        OneHotEncoder(handle_unknown="ignore", drop="first"),
        LogisticRegression(solver="liblinear"),
    ).fit(LETTERS, IS_A)
    with everything_shown() as shown:
        run(lambda: private_score(model, X, IS_A, epsilon=0.1, delta=0.0))
    return len(shown)


def one_letter_is_unknown():
    changed = LETTERS.copy()
    changed[17, 0] = "z"
    return changed


@pytest.mark.parametrize("run", [in_a_thread, lambda task: task()])
def test_scores_warn_of_no_record(run):
    assert shown_by_scoring(LETTERS, run) == 0
    assert shown_by_scoring(one_letter_is_unknown(), run) == 0


@pytest.mark.usefixtures("with_the_twin")
def test_twin_that_leaves_threads_alone_shows_one_record():
    assert shown_by_scoring(LETTERS, in_a_thread) == 0
    assert shown_by_scoring(one_letter_is_unknown(), in_a_thread) > 0


def shown_by_searching(monkeypatch, run):
    """How many warnings a search shows for different secret numbers of trials."""
    rng, counts = np.random.default_rng(0), []
    X = rng.normal(size=(60, 2))
    search = DPGridSearchCV(
        DPLogisticRegression(classes=[0, 1], data_norm=3.0, solver="noisy_gd"),
        {"C": [0.1, 1.0]},
        epsilon=2.0,
        delta=0.05,
        method="random_stopping",
    )
    for n_trials in (1, 3):
        draw = lambda noise, weights, n=n_trials: n  # noqa: E731 - bound now
        monkeypatch.setattr(NoiseSource, "weighted_index", draw)
        with everything_shown() as shown:
            run(lambda: search.fit(X, (X[:, 0] > 0).astype(int)))
        counts.append(len(shown))
    return counts


@pytest.mark.parametrize("run", [in_a_thread, lambda task: task()])
def test_warnings_do_not_count_secret_trials(run, monkeypatch):
    one, three = shown_by_searching(monkeypatch, run)
    assert one == three == 1  # that of the search itself, before the commit


def test_own_warnings_are_silent_whatever_others_do_to_the_filters():
    """What the known weakness leaves: a warning that is not of skdp."""
    with everything_shown() as shown, no_warnings():
        in_a_thread(lambda: warnings.simplefilter("always"))
        warn("of a trial")
        assert not shown
        warnings.warn("of somebody else", UserWarning, stacklevel=1)
    assert len(shown) == 1


def fork_while_held(shared, *, hold):
    """The end of a child that enters a silence whose lock a thread of the parent had.

    A child that waits for ever is killed by its alarm.
    """
    held, may_go = threading.Event(), threading.Event()

    def keep():
        with shared.lock:
            held.set()
            may_go.wait(hold)

    thread = threading.Thread(target=keep)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(2)
        with shared:
            os._exit(0)
    may_go.set()
    thread.join()
    return os.waitpid(child, 0)[1]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_copies_no_lock_that_is_held():
    assert fork_while_held(skdp._quiet._NO_WARNINGS, hold=0.2) == 0
    assert fork_while_held(skdp._quiet._NO_OUTPUT, hold=0.2) == 0
    unregistered = _Shared(_filtered)
    assert fork_while_held(unregistered, hold=0.2) == signal.SIGALRM


X = np.random.default_rng(0).normal(size=(60, 2)) / 10
Y = (X[:, 0] > 0).astype(int)
MODEL = DPLogisticRegression(classes=[0, 1]).fit(X, Y)
CALLS = {
    "labels": (lambda: DPLogisticRegression().fit(X, Y), PublicLabelsWarning),
    "fit": (lambda: DPLogisticRegression(delta=0.1).fit(X, Y), LargeDeltaWarning),
    "score": (
        lambda: private_score(MODEL, X, Y, epsilon=1e-6, delta=0.5),
        LargeDeltaWarning,
    ),
    "search": (
        lambda: DPGridSearchCV(DPLogisticRegression(), {}, delta=0.1).fit(X, Y),
        PublicLabelsWarning,
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_warning_points_at_the_line_that_led_to_it(call):
    work, kind = CALLS[call]
    with everything_shown() as shown:
        work()
    places = {found.filename for found in shown if found.category is kind}
    assert places == {__file__}


# -------------------------------------------------- what others' code prints and logs


class Loud(ClassifierMixin, BaseEstimator):
    """Prints, logs and counts each call, and fails for a row that is above 9."""

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X):
        print("called")
        print("called", file=sys.stderr)
        logging.getLogger("loud").warning("called")
        if (np.asarray(X) > 9).any():
            raise SystemExit("above 9")
        return np.zeros(len(X), dtype=int)


def lines_of_scores(capfd, caplog, *, n_rows, largest):
    """Printed and logged lines of a private score of users with so many rows."""
    rows, labels = np.ones((n_rows, 1)), np.zeros(n_rows, dtype=int)
    rows[-1] = largest
    ids = np.minimum(np.arange(n_rows), 9)
    caplog.clear()
    private_score(
        Loud().fit(rows, labels),
        rows,
        labels,
        groups=ids,
        privacy_unit="user",
        epsilon=1.0,
        delta=0,
    )
    found = capfd.readouterr()
    return found.out.count("called"), found.err.count("called"), len(caplog.records)


CASES = [{"n_rows": 10, "largest": 1}, {"n_rows": 400, "largest": 10}]


def test_nothing_that_a_scored_model_prints_or_logs_is_seen(capfd, caplog):
    for case in CASES:
        assert lines_of_scores(capfd, caplog, **case) == (0, 0, 0)
    print("seen")
    logging.getLogger("loud").warning("seen")
    assert capfd.readouterr().out == "seen\n"
    assert len(caplog.records) == 1


def test_twin_that_silences_warnings_alone_shows_the_number_of_calls(
    capfd, caplog, monkeypatch
):
    monkeypatch.setattr(_scorer_sums, "silence", no_warnings)
    seen = [lines_of_scores(capfd, caplog, **case) for case in CASES]
    assert min(seen[0]) > 0
    assert seen[0] != seen[1]
