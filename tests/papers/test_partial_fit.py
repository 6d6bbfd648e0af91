"""`partial_fit`: one stream, paid once, whose private state goes nowhere."""

from __future__ import annotations

import copy
import gc
import itertools
import multiprocessing
import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from skdp import (
    BudgetLedger,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPRobustClassifier,
    Federation,
    ParquetSource,
)
from skdp.audit._exact import Replay, told_apart
from skdp.exceptions import Refused, SourceError, StreamOverError
from skdp.papers._streams import Stream, stream_of
from skdp.privacy.release._answers import Answers, PartSums
from skdp.privacy.release._door import audited_by

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdp.exceptions.SeededNoiseWarning"),
    pytest.mark.filterwarnings("ignore::skdp.exceptions.NoiseDominatesWarning"),
    pytest.mark.filterwarnings("ignore::skdp.exceptions.LargeDeltaWarning"),
]
N, K = 120, 4
SIZE = N // K


def table(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, (X[:, 0] + X[:, 1] > 0).astype(int)


def stream(kind=DPLogisticRegression, **more):
    own = {"target_bounds": (-1, 1)} if kind is DPLinearRegression else {}
    own = own or {"classes": [0, 1]}
    own |= {"solver_params": {"n_parts": K}} | more
    return kind(epsilon=5.0, delta=1e-5, solver="ftrl", **own)


def given(model, X, y, sizes=(SIZE,) * K):
    ends = np.cumsum((0, *sizes))
    for start, end in itertools.pairwise(ends):
        model.partial_fit(X[start:end], None if y is None else y[start:end])
    return model


KINDS = [DPLogisticRegression, DPLinearSVC, DPRobustClassifier, DPLinearRegression]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["array", "float32", "csr"])
def test_parts_one_by_one_and_a_table_are_the_same_bits(kind, form):
    X, y = table()
    X = {"array": X, "float32": X.astype(np.float32), "csr": csr_array(X)}[form]
    whole = stream(kind, random_state=3).fit(X, y)
    parts = given(stream(kind, random_state=3), X, y)
    assert whole.coef_.tobytes() == parts.coef_.tobytes()
    assert whole.coef_.dtype == parts.coef_.dtype
    assert np.array_equal(whole.intercept_, parts.intercept_)
    assert whole.privacy_ == parts.privacy_


def test_the_same_for_declared_columns():
    X, y = table()
    frame = pd.DataFrame(X, columns=list("abc"))
    columns = {name: (-1.0, 1.0) for name in frame}
    whole = stream(columns=columns, random_state=3).fit(frame, y)
    parts = given(stream(columns=columns, random_state=3), frame, y)
    assert whole.coef_.tobytes() == parts.coef_.tobytes()
    assert np.array_equal(whole.predict(frame), parts.predict(frame))


def test_parts_may_be_smaller_than_the_first_and_not_larger():
    X, y = table()
    model = given(stream(), X, y, (50, 3, 20))
    before = model.coef_.copy()
    with pytest.raises(ValueError, match="at most as many records as the first one"):
        model.partial_fit(X[:51], y[:51])
    assert np.array_equal(model.coef_, before)
    model.partial_fit(X[:50], y[:50])
    assert not np.array_equal(model.coef_, before)


@pytest.mark.parametrize("declared", [None, [0, 1]])
@pytest.mark.parametrize("how", ["argument", "parameter"])
def test_a_later_part_cannot_bring_other_labels(declared, how):
    # A label beyond those declared would have a residual beyond its bound.
    X, y = table()
    model = stream(classes=declared).partial_fit(X[:SIZE], y[:SIZE], classes=[0, 1])
    classes = np.arange(100)
    named = {"classes": classes} if how == "argument" else {}
    if how == "parameter":
        model.set_params(classes=classes)
    with pytest.raises(ValueError, match=r"(declared at its|among those) "):
        model.partial_fit(X[:SIZE], np.full(SIZE, 99), **named)
    model.set_params(classes=declared)
    model.partial_fit(X[:SIZE], y[:SIZE], classes=[1, 0])


CHANGES = {
    "epsilon": np.inf,
    "target_bounds": (-1000, 1000),
    "fit_intercept": False,
    "adjacency": "zero_out",
    "data_norm": 2.0,
    "solver_params": {"n_parts": 9},
}


@pytest.mark.parametrize("name", CHANGES)
def test_parameters_stay_while_a_stream_goes_on(name):
    X, y = table()
    model = stream(DPLinearRegression).partial_fit(X[:SIZE], y[:SIZE])
    own, before = getattr(model, name), model.coef_.copy()
    with pytest.raises(ValueError, match=f"'{name}' parameter must stay"):
        model.set_params(**{name: CHANGES[name]}).partial_fit(X[:SIZE], y[:SIZE])
    assert np.array_equal(model.coef_, before)
    model.set_params(**{name: own}, verbose=0).partial_fit(X[:SIZE], y[:SIZE])


def test_parameters_changed_in_place_are_noticed():
    X, y = table()
    bounds = [-1.0, 1.0]
    model = stream(DPLinearRegression, target_bounds=bounds)
    model.partial_fit(X[:SIZE], y[:SIZE])
    bounds[1] = 50.0
    with pytest.raises(ValueError, match="'target_bounds' parameter must stay"):
        model.partial_fit(X[:SIZE], y[:SIZE])


@pytest.mark.parametrize("bad", ["features", "nan", "length", "no target"])
def test_bad_parts_lose_nothing(bad):
    X, y = table()
    model, other = stream(random_state=1), stream(random_state=1)
    wrong = {
        "features": (X[:SIZE, :2], y[:SIZE]),
        "nan": (np.full((SIZE, 3), np.nan), y[:SIZE]),
        "length": (X[:SIZE], y[: SIZE - 1]),
        "no target": (X[:SIZE], None),
    }[bad]
    model.partial_fit(X[:SIZE], y[:SIZE])
    with pytest.raises(ValueError, match=r"features|NaN|inconsistent|column|None"):
        model.partial_fit(*wrong)
    for k in range(1, K):
        rows = slice(k * SIZE, (k + 1) * SIZE)
        model.partial_fit(X[rows], y[rows])
    assert np.array_equal(model.coef_, given(other, X, y).coef_)


# The stream --------------------------------------------------------------------------

COPIES = {
    "copy": copy.copy,
    "deep copy": copy.deepcopy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_no_copy_goes_on(copied):
    X, y = table()
    model = stream().partial_fit(X[:SIZE], y[:SIZE])
    other = copied(model)
    assert np.array_equal(other.predict(X), model.predict(X))
    with pytest.raises(StreamOverError, match="no stream to go on with"):
        other.partial_fit(X[:SIZE], y[:SIZE])
    model.partial_fit(X[SIZE : 2 * SIZE], y[SIZE : 2 * SIZE])


def test_a_stream_ends_with_its_last_part():
    X, y = table()
    model = given(stream(), X, y)
    with pytest.raises(StreamOverError, match="one more than n_parts=4"):
        model.partial_fit(X[:SIZE], y[:SIZE])


def test_owners_can_neither_begin_a_stream_nor_go_on_with_one():
    X, y = table()
    owned = [(X[k : k + 10], y[k : k + 10]) for k in (0, 10, 20)]
    federation = Federation.simulated(owned, n_honest=2)
    model = stream()
    with pytest.raises(Refused):
        model.partial_fit(federation)
    model.partial_fit(X[:SIZE], y[:SIZE])
    with pytest.raises(Refused, match="must be of one owner"):
        model.partial_fit(federation)
    model.partial_fit(X[:SIZE], y[:SIZE])


def _goes_on(model, X, y, answer):
    try:
        model.partial_fit(X, y)
    except StreamOverError:
        answer.put("refused")
    else:
        answer.put("went on")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_process_does_not_go_on():
    X, y = table()
    model, context = stream().partial_fit(X[:SIZE], y[:SIZE]), None
    context = multiprocessing.get_context("fork")
    answer = context.SimpleQueue()
    child = context.Process(target=_goes_on, args=(model, X[:5], y[:5], answer))
    child.start()
    child.join()
    assert answer.get() == "refused"
    model.partial_fit(X[:5], y[:5])


def test_a_part_that_is_cut_short_ends_the_stream(monkeypatch):
    X, y = table()
    model = stream().partial_fit(X[:SIZE], y[:SIZE])
    before = model.coef_.copy()

    def interrupted(*facts):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("skdp.privacy.release._answers.PartSums.weighted", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X[:SIZE], y[:SIZE])
    assert np.array_equal(model.coef_, before)
    with pytest.raises(StreamOverError, match="cut short"):
        model.partial_fit(X[:SIZE], y[:SIZE])


def spoiled(monkeypatch, path, model):
    """Give a part whose file changes when all of it has been answered about."""
    frame = pd.DataFrame(table()[0][:SIZE], columns=list("abc")).assign(y=0.5)
    frame.to_parquet(path)
    answers = PartSums.weighted

    def changes(*facts):
        found = answers(*facts)
        os.utime(path, (1, 1))
        return found

    part = ParquetSource(path, target="y", n_samples=SIZE)
    with monkeypatch.context() as patch:
        patch.setattr(PartSums, "weighted", changes)
        with pytest.raises(SourceError, match="changed meanwhile"):
            model.partial_fit(part)
    return ParquetSource(path, target="y", n_samples=SIZE)


def test_a_later_part_whose_answer_is_lost_cannot_be_given_again(monkeypatch, tmp_path):
    X, y = table()
    first = pd.DataFrame(X[:SIZE], columns=list("abc"))
    model = stream(DPLinearRegression).partial_fit(first, y[:SIZE])
    before = model.coef_.copy()
    part = spoiled(monkeypatch, tmp_path / "part.parquet", model)
    assert np.array_equal(model.coef_, before)
    with pytest.raises(StreamOverError, match="cut short"):
        model.partial_fit(part)


def test_a_bad_part_beside_good_ones_loses_nothing():
    X, y = table()
    model = stream(solver_params={"n_parts": 12}).partial_fit(X[:10], y[:10])
    with ThreadPoolExecutor(8) as pool:
        bad = [pool.submit(model.partial_fit, X[:10, :2], y[:10]) for _ in range(20)]
        good = [pool.submit(model.partial_fit, X[:10], y[:10]) for _ in range(10)]
    assert all(isinstance(b.exception(), ValueError) for b in bad)
    assert not any(g.exception() for g in good)
    assert stream_of(model).n_taken == 11


# What is private ---------------------------------------------------------------------


def holds_what_is_private(model):
    """Whether answers, or a stream, are to be found from a model's attributes."""
    seen, left = set(), [vars(model)]
    while left:
        each = left.pop()
        if id(each) in seen or isinstance(each, type):
            continue
        seen.add(id(each))
        if isinstance(each, (Stream, Answers)):
            return True
        if type(each).__module__ not in ("builtins", "skdp.privacy.release._record"):
            continue
        left += gc.get_referents(each)
    return False


def test_nothing_private_is_in_attributes_pickles_or_reports():
    X, y = table()
    model = stream()
    for k in range(K - 1):
        rows = slice(k * SIZE, (k + 1) * SIZE)
        model.partial_fit(X[rows], y[rows])
        assert not holds_what_is_private(model)
        live = stream_of(model)
        held = live.answers._part_sums[0]._exact
        assert held
        stored = pickle.dumps(model) + model._repr_html_().encode()
        assert not any(each.tobytes() in stored for each in held)


def test_broken_twin_that_keeps_them_is_caught(monkeypatch):
    X, y = table()
    model = stream().partial_fit(X[:SIZE], y[:SIZE])
    model._parts = [{"stream": stream_of(model)}]
    assert holds_what_is_private(model)
    del model._parts
    # Without the refusal of answers to be copied, sums are in the pickle.
    held = stream_of(model).answers._part_sums[0]._exact
    assert any(each.tobytes() in pickle.dumps(list(held)) for each in held)


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_neighbouring_streams_are_told_apart_by_no_more_than_is_booked(
    adjacency,
):
    X, y = table()
    for part in range(K):
        other, row = y.copy(), part * SIZE
        other[row] = 1 - y[row]
        near = X.copy()
        if adjacency == "zero_out":
            other[row], near[row] = y[row], 0.0
        first = heard(adjacency, X, y, None)
        second = heard(adjacency, near, other, first)
        pairs = zip(first.asked, second.asked, strict=True)
        found = sum(told_apart(a, b) for a, b in pairs)
        share = found / first.asked[0].share.cost
        assert share <= 1
        if part == 0 and adjacency == "replace_one":
            assert share > 0.5
        # What the first parts' records add goes on in all later answers.
        if part == 0:
            last = told_apart(first.asked[-1], second.asked[-1])
            assert last > 0


def heard(adjacency, X, y, before):
    noise = Replay(0, heard=before)
    with audited_by(noise):
        given(stream(adjacency=adjacency, fit_intercept=False), X, y)
    return noise


# Books -------------------------------------------------------------------------------


def test_the_first_part_books_the_stream_and_each_later_one_itself(tmp_path):
    X, y = table()
    path = tmp_path / "books.db"
    ledger = BudgetLedger(path, epsilon=6.0, delta=1e-4)
    model = stream(ledger=ledger)
    assert ledger.spends() == []
    model.partial_fit(X[:SIZE], y[:SIZE])
    first = ledger.spent()
    for _ in range(1, K):
        model.partial_fit(X[:SIZE], y[:SIZE])
        assert ledger.spent() == first
    labels = [spend.label for spend in ledger.spends(verify=True)]
    name = labels[1].split()[-1]
    assert labels[0] == "DPLogisticRegression(solver='ftrl'): 4 parts of a stream"
    assert labels[1:] == [
        f"DPLogisticRegression: part {k} of 4 of {name}" for k in (2, 3, 4)
    ]
    assert first.epsilon <= 5.0
