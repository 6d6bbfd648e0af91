"""`partial_fit`: one stream, paid once, whose private state goes nowhere."""

from __future__ import annotations

import copy
import gc
import multiprocessing
import os
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

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
from skdp.exceptions import BudgetExceeded, Refused, SourceError, StreamOverError
from skdp.papers._streams import Stream, stream_of
from skdp.privacy.release._answers import Answers, PartSums
from skdp.privacy.release._door import audited_by
from tests.papers import problem

pytestmark = pytest.mark.filterwarnings("ignore")
N, K = 120, 4
SIZE = N // K
X, Y = problem.table(N)
FIRST = X[:SIZE], Y[:SIZE]


def stream(kind=DPLogisticRegression, **more):
    own = {"target_bounds": (-1, 1)} if kind is DPLinearRegression else {}
    own = own or {"classes": [0, 1]}
    own |= {"solver_params": {"n_parts": K}} | more
    return kind(epsilon=5.0, delta=1e-5, solver="ftrl", **own)


def given(model, rows=X, y=Y):
    for k in range(K):
        part = slice(k * SIZE, (k + 1) * SIZE)
        model.partial_fit(rows[part], y[part])
    return model


@pytest.fixture
def begun():
    return stream().partial_fit(*FIRST)


FRAME = pd.DataFrame(X, columns=list("abc"))
COLUMNS = {"columns": {name: (-1.0, 1.0) for name in FRAME}}
WEIGHTED = {"class_weight": {1: 5.0}}


@pytest.mark.parametrize(
    ("kind", "rows", "params"),
    [
        (DPLogisticRegression, X, {}),
        (DPLogisticRegression, FRAME, COLUMNS),
        (DPLogisticRegression, X, WEIGHTED),
        (DPLinearSVC, X.astype(np.float32), {}),
        (DPRobustClassifier, csr_array(X), {}),
        (DPLinearRegression, csr_array(X.astype(np.float32)), {}),
    ],
)
def test_parts_one_by_one_and_a_table_are_the_same_bits(kind, rows, params):
    whole = stream(kind, random_state=3, **params).fit(rows, Y)
    parts = given(stream(kind, random_state=3, **params), rows)
    assert whole.coef_.tobytes() == parts.coef_.tobytes()
    assert whole.coef_.dtype == parts.coef_.dtype
    assert np.array_equal(whole.intercept_, parts.intercept_)
    assert np.array_equal(whole.predict(rows), parts.predict(rows))
    assert whole.privacy_ == parts.privacy_
    assert "that no record is in two parts" in parts.privacy_.assumed_public


def test_parts_may_be_smaller_than_the_first_and_not_larger(begun):
    before = begun.partial_fit(X[:3], Y[:3]).coef_.copy()
    with pytest.raises(ValueError, match="at most as many records as the first one"):
        begun.partial_fit(X[: SIZE + 1], Y[: SIZE + 1])
    assert np.array_equal(begun.coef_, before)
    assert not np.array_equal(begun.partial_fit(*FIRST).coef_, before)


def test_labels_are_declared_with_the_first_part_and_stay():
    """A label beyond those declared would have a residual beyond its bound."""
    model = stream(classes=None)
    with pytest.raises(ValueError, match="must be declared for a stream"):
        model.partial_fit(*FIRST)
    with pytest.raises(ValueError, match="must be finite for partial_fit"):
        stream().set_params(epsilon=np.inf).partial_fit(*FIRST)
    assert stream_of(model) is None
    model.partial_fit(*FIRST, classes=[0, 1])
    wrong = X[:SIZE], np.full(SIZE, 99)
    for own, named in ((None, {"classes": np.arange(100)}), (np.arange(100), {})):
        with pytest.raises(ValueError, match=r"(declared with its|among those) "):
            model.set_params(classes=own).partial_fit(*wrong, **named)
    model.set_params(classes=None).partial_fit(*FIRST, classes=[1, 0])
    assert model.classes_.tolist() == [0, 1]


CHANGES = {
    "epsilon": np.inf,
    "target_bounds": (-1000, 1000),
    "fit_intercept": False,
    "adjacency": "zero_out",
    "data_norm": 2.0,
    "solver_params": {"n_parts": 9},
    "ledger": None,
}


@pytest.mark.parametrize("name", CHANGES)
def test_parameters_stay_while_a_stream_goes_on(name, tmp_path):
    """Changed in place, too."""
    books = BudgetLedger(tmp_path / "books.db", epsilon=6.0, delta=1e-4)
    ledger, bounds = (books if name == "ledger" else None), [-1.0, 1.0]
    model = stream(DPLinearRegression, target_bounds=bounds, ledger=ledger)
    own, before = getattr(model, name), model.partial_fit(*FIRST).coef_.copy()
    with pytest.raises(ValueError, match=f"'{name}' parameter must stay"):
        model.set_params(**{name: CHANGES[name]}).partial_fit(*FIRST)
    assert np.array_equal(model.coef_, before)
    model.set_params(**{name: own}, verbose=0).partial_fit(*FIRST)
    bounds[1] = 50.0
    with pytest.raises(ValueError, match="'target_bounds' parameter must stay"):
        model.partial_fit(*FIRST)


@pytest.mark.parametrize(
    "wrong",
    [
        (X[:SIZE, :2], Y[:SIZE]),
        (np.full((SIZE, 3), np.nan), Y[:SIZE]),
        (X[:SIZE], Y[: SIZE - 1]),
        (X[:SIZE], None),
    ],
)
def test_bad_parts_lose_nothing(wrong):
    model = stream(random_state=1).partial_fit(*FIRST)
    with pytest.raises(ValueError, match=r"features|NaN|inconsistent|column|None"):
        model.partial_fit(*wrong)
    for k in range(1, K):
        rows = slice(k * SIZE, (k + 1) * SIZE)
        model.partial_fit(X[rows], Y[rows])
    assert np.array_equal(model.coef_, given(stream(random_state=1)).coef_)
    with pytest.raises(StreamOverError, match="one more than n_parts=4"):
        model.partial_fit(*FIRST)


# The stream --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))],
)
def test_no_copy_goes_on(copied, begun):
    other = copied(begun)
    assert np.array_equal(other.predict(X), begun.predict(X))
    for fitted in (other, stream().fit(X, Y)):
        with pytest.raises(StreamOverError, match="no stream to go on with"):
            fitted.partial_fit(*FIRST)
    with pytest.raises(TypeError, match="must stay where"):
        copied(stream_of(begun))
    begun.partial_fit(*FIRST)


def test_owners_can_neither_begin_a_stream_nor_go_on_with_one():
    owned = [(X[k : k + 10], Y[k : k + 10]) for k in (0, 10, 20)]
    federation, model = Federation.simulated(owned, n_honest=2), stream()
    with pytest.raises(Refused):
        model.partial_fit(federation)
    model.partial_fit(*FIRST)
    with pytest.raises(Refused, match="must be of one owner"):
        model.partial_fit(federation)
    model.partial_fit(*FIRST)


def _goes_on(model, answer):
    try:
        model.partial_fit(*FIRST)
    except StreamOverError:
        answer.put("refused")
    else:
        answer.put("went on")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_does_not_go_on(begun):
    context = multiprocessing.get_context("fork")
    answer = context.SimpleQueue()
    child = context.Process(target=_goes_on, args=(begun, answer))
    child.start()
    child.join()
    assert answer.get() == "refused"
    begun.partial_fit(*FIRST)


def test_a_part_that_is_cut_short_ends_the_stream(monkeypatch, begun):
    before = begun.coef_.copy()

    def interrupted(*facts):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(PartSums, "weighted", interrupted)
        with pytest.raises(KeyboardInterrupt):
            begun.partial_fit(*FIRST)
    assert np.array_equal(begun.coef_, before)
    with pytest.raises(StreamOverError, match="cut short"):
        begun.partial_fit(*FIRST)


@pytest.mark.parametrize("is_first", [False, True])
def test_a_part_whose_answer_is_lost_cannot_be_given_again(
    is_first, monkeypatch, tmp_path
):
    """Its file changes when all of it has been answered about."""
    path, answers = tmp_path / "part.parquet", PartSums.weighted
    FRAME[:SIZE].assign(y=0.5).to_parquet(path)
    ledger = BudgetLedger(tmp_path / "books.db", epsilon=6.0, delta=1e-4)
    model = stream(DPLinearRegression, ledger=ledger)
    if not is_first:
        model.partial_fit(FRAME[:SIZE], Y[:SIZE])

    def changes(*facts):
        found = answers(*facts)
        os.utime(path, (1, 1))
        return found

    part = ParquetSource(path, target="y", n_samples=SIZE)
    with monkeypatch.context() as patch:
        patch.setattr(PartSums, "weighted", changes)
        with pytest.raises(SourceError, match="changed meanwhile"):
            model.partial_fit(part)
    part = ParquetSource(path, target="y", n_samples=SIZE)
    # A first part would be another stream, which is paid for once more.
    kind = BudgetExceeded if is_first else StreamOverError
    with pytest.raises(kind):
        model.partial_fit(part)


def test_a_bad_part_beside_good_ones_loses_nothing():
    model = stream(solver_params={"n_parts": 12}).partial_fit(X[:10], Y[:10])
    with ThreadPoolExecutor(8) as pool:
        bad = [pool.submit(model.partial_fit, X[:10, :2], Y[:10]) for _ in range(20)]
        good = [pool.submit(model.partial_fit, X[:10], Y[:10]) for _ in range(13)]
    assert all(isinstance(b.exception(), ValueError) for b in bad)
    over = [g for g in good if isinstance(g.exception(), StreamOverError)]
    assert len(over) == 2
    assert stream_of(model).n_taken == 12


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
        if type(each).__module__ in ("builtins", "skdp.privacy.release._record"):
            left += gc.get_referents(each)
    return False


def test_nothing_private_is_in_attributes_pickles_or_reports(begun):
    begun.partial_fit(*FIRST)
    assert not holds_what_is_private(begun)
    held = stream_of(begun).answers._part_sums[0]._exact
    assert held
    stored = pickle.dumps(begun) + begun._repr_html_().encode()
    assert not any(each.tobytes() in stored for each in held)
    # Broken twins: a model that keeps them, and answers that can be copied.
    assert any(each.tobytes() in pickle.dumps(list(held)) for each in held)
    begun._parts = [{"stream": stream_of(begun)}]
    assert holds_what_is_private(begun)
    del begun._parts, held


def test_streams_are_forgotten_with_their_models():
    model = stream().partial_fit(*FIRST)
    held = weakref.ref(stream_of(model).answers)
    del model
    gc.collect()
    assert held() is None


def heard(adjacency, rows, y, before):
    noise = Replay(0, heard=before)
    with audited_by(noise):
        given(stream(adjacency=adjacency, fit_intercept=False), rows, y)
    return noise


@problem.by_adjacency
@pytest.mark.parametrize("part", [0, 1, K - 1])
def test_neighbouring_streams_are_told_apart_by_no_more_than_is_charged(
    adjacency, part
):
    other, near, row = Y.copy(), X.copy(), part * SIZE
    if adjacency == "zero_out":
        near[row] = 0.0
    else:
        other[row] = 1 - Y[row]
    first = heard(adjacency, X, Y, None)
    second = heard(adjacency, near, other, first)
    apart = [told_apart(*both) for both in zip(first.asked, second.asked, strict=True)]
    share = sum(apart) / first.asked[0].share.cost
    assert share <= 1
    if part == 0:
        assert share > 0.5 or adjacency == "zero_out"
        # What the first parts' records add goes on in all later answers.
        assert apart[-1] > 0


# Books -------------------------------------------------------------------------------


def test_the_first_part_charges_the_stream_and_each_later_one_itself(tmp_path):
    ledger = BudgetLedger(tmp_path / "books.db", epsilon=6.0, delta=1e-4)
    model = stream(ledger=ledger).partial_fit(*FIRST)
    first = ledger.spent()
    assert first.epsilon <= 5.0
    # A clone is another stream, which costs as much; so is a fit, and ends none.
    for refused in (clone(model).partial_fit, model.fit):
        with pytest.raises(BudgetExceeded):
            refused(X, Y)
    for _ in range(1, K):
        model.partial_fit(*FIRST)
        assert ledger.spent() == first
    labels = [spend.label for spend in ledger.spends(verify=True)]
    name = labels[1].split()[-1]
    assert labels[0] == "DPLogisticRegression(solver='ftrl'): 4 parts of a stream"
    later = [f"DPLogisticRegression: part {k} of 4 of {name}" for k in (2, 3, 4)]
    assert labels[1:] == later
