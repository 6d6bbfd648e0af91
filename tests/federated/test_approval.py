"""What owners approve, and what a rehearsal leaves: nothing that could be mistaken."""

from __future__ import annotations

import threading

import pytest

from skdp import BudgetLedger, DPGradientBoostingClassifier, DPMLPClassifier
from skdp.exceptions import Refused
from skdp.federated import PlanParty, serve
from skdp.privacy.release._door import Door, asking, is_rehearsing, owners_now
from tests.federated.owned import federation, model
from tests.federated.parties import changed, setting
from tests.io.places import COLUMNS

pytest.importorskip("cryptography")
KEY = bytes(range(32))


@pytest.mark.parametrize(
    "name", ["", "x" * 65, "clinic\x1b[2K\x1b[1G", "clinic\nParameters: {}", 7]
)
def test_names_that_could_show_other_text_are_refused(name):
    """Found in review: an escape sequence hid what an owner was to approve."""
    with pytest.raises(ValueError, match="printable"):
        PlanParty(name, 10, KEY)


@pytest.mark.parametrize("ledger", [None, "books.db"])
def test_nobody_takes_part_without_a_ledger(ledger, tmp_path):
    own = setting(tmp_path)
    with pytest.raises(TypeError, match="must be a BudgetLedger"):
        serve(own.plan, own.keys[0], own.data(0), ledger)


BOOSTING = DPGradientBoostingClassifier(
    1.0, columns=COLUMNS, classes=[0, 1], n_estimators=5, init="constant"
)
NETWORK = DPMLPClassifier(1.0, classes=[0, 1], solver="noisy_gd")


@pytest.mark.parametrize("one", [BOOSTING, NETWORK])
def test_what_each_would_draw_by_itself_is_refused_in_a_plan(
    one, tmp_path, monkeypatch
):
    """Trees and first weights are of the plan's seed.

    Found in review, after all had charged: each process drew other trees.
    """
    own = setting(tmp_path, one)
    assert own.plan.sizes
    monkeypatch.setattr(
        Door, "public_seed", lambda self: int(self.draws.integers(2**32, 1)[0])
    )
    (tmp_path / "again").mkdir()
    with pytest.raises(Refused, match="same queries for all"):
        setting(tmp_path / "again", one)


@pytest.mark.parametrize(
    "change", [{"seed": 7}, {"questions": bytes(32)}, {"questions": b""}]
)
def test_other_questions_than_were_planned_are_refused_before_the_charge(
    change, tmp_path
):
    own = setting(tmp_path, BOOSTING)
    with pytest.raises(Refused, match="rounds and the questions"):
        own.serve(0, changed(own.plan, **change))
    assert own.ledger(0).spends() == []


def test_a_rehearsal_is_no_release(tmp_path):
    books = BudgetLedger(tmp_path / "books.db", epsilon=5.0, delta=1e-3)
    found = federation().rehearse(model(ledger=books)).privacy_
    assert (found.is_private, found.ledger, found.risk) == (False, "", "")
    assert "NOT a private release. A rehearsal" in found.statement()
    assert books.spends() == []


def test_rehearsals_of_two_threads_leave_nothing_behind():
    """Broken twin: one flag for all threads stays up when they overlap."""
    source, inside, over = federation(), threading.Event(), threading.Event()

    def other():
        with asking(source.owners, rehearses=True):
            inside.set()
            over.wait(10)

    thread = threading.Thread(target=other)
    with asking(source.owners, rehearses=True):
        thread.start()
        inside.wait(10)
    assert not is_rehearsing()
    assert owners_now() is None
    fitted = model().fit(source)
    over.set()
    thread.join()
    assert not is_rehearsing()
    assert fitted.privacy_.is_private
    assert source.traffic.n_rounds == 8
