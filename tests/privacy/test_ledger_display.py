"""The picture of a ledger shows what its books say."""

from __future__ import annotations

import numpy as np
import pytest

from skdp._show import Display
from skdp.exceptions import LedgerError
from skdp.privacy import (
    Budget,
    GaussianEvent,
    NonPrivateEvent,
    PureEvent,
)
from tests.problems import make_ledger

pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


def spend(ledger, event, label):
    budget = Budget(1.0, 1e-7)
    ledger.commit(event, label=label, budget=budget, adjacency="replace_one")


@pytest.fixture
def ledger(tmp_path):
    books = make_ledger(tmp_path, dataset="ward")
    spend(books, GaussianEvent(3.0, 1), "first")
    spend(books, PureEvent(0.5), "second(C=1)")
    spend(books, GaussianEvent(3.0, 1), "third")
    return books


@pytest.mark.parametrize("over", ["fit", "time"])
def test_the_line_is_the_running_total(ledger, over):
    before = ledger.to_frame()
    shown = ledger.plot(over=over)
    assert isinstance(shown, Display)
    np.testing.assert_array_equal(shown.line_.get_ydata(), before["epsilon_total"])
    assert shown.line_.get_ydata()[-1] == ledger.spent().epsilon
    cap = {tuple(line.get_ydata()) for line in shown.ax_.lines}
    assert (10.0, 10.0) in cap
    for words in ("ward", "replace_one", "one record", "delta 1e-06"):
        assert words in shown.ax_.get_title()
    assert len(ledger.spends()) == 3
    shown.figure_.canvas.draw()


@pytest.mark.parametrize("over", ["fit", "time"])
def test_empty_and_infinite_books_are_drawn(tmp_path, over):
    books = make_ledger(tmp_path, allow_nonprivate=True)
    books.plot(over=over).figure_.canvas.draw()
    spend(books, NonPrivateEvent(), "exact")
    shown = books.plot(over=over)
    shown.figure_.canvas.draw()
    assert np.isinf(shown.line_.get_ydata()[-1])


def test_bad_input(ledger, tmp_path):
    with pytest.raises(ValueError, match="'over'"):
        ledger.plot(over="year")
    (tmp_path / "ledger.db").write_text("no database, but a text that is long enough")
    with pytest.raises(LedgerError):
        ledger.plot()
