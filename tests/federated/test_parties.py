"""Parties in processes and threads, and what becomes of a fit if one errs."""

from __future__ import annotations

import socket
import time

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="extra of several owners")

from skdp import (
    BudgetLedger,
    DPLogisticRegression,
    DPMLPClassifier,
)
from skdp.exceptions import BudgetExceeded, Refused, SourceError
from skdp.federated import FederationPlan, Key, PlanParty, _remote, _wire, coordinate
from skdp.federated.__main__ import main
from skdp.federated._wire import Frame, Kind
from tests.federated.owned import model
from tests.federated.parties import PATIENCE, Running, changed, setting

SAMPLED = {"solver": "noisy_sgd", "solver_params": {"batch_size": 50}}


@pytest.fixture
def three(tmp_path):
    return setting(tmp_path)


def fitted(three, plans=None, patience=PATIENCE):
    """Outcomes of the coordinator and of three parties, in threads."""
    plans = plans or [three.plan] * 3
    runs = [Running(lambda i=i: three.serve(i, plans[i], patience)) for i in range(3)]
    hub = Running(lambda: coordinate(three.plan, three.hub, patience=patience))
    return hub, runs


def test_the_coordinator_sees_the_noisy_sum_and_uniform_words_only(three, monkeypatch):
    seen = []
    unmasked = _remote.unmasked

    def watched(messages):
        seen.append(messages)
        return unmasked(messages)

    monkeypatch.setattr(_remote, "unmasked", watched)
    hub, parties = fitted(three)
    hub.outcome()
    [one.outcome() for one in parties]
    words = np.frombuffer(b"".join(b"".join(one) for one in seen), dtype="<u8")
    assert len(seen) == 8
    assert len(np.unique(words)) == len(words)
    # Of 96 words, that so few have either leading bit: probability below 1e-9.
    assert 18 < int((words >> np.uint64(63)).sum()) < 78
    # Small next to 2^63, as sums with their noise are; each share alone is not.
    assert all(np.abs(unmasked(one)).max() < 2**50 for one in seen)


# ------------------------------------------------------------------------ consent


def test_a_plan_comes_back_from_its_file_and_no_changed_one_does(three, tmp_path):
    path = tmp_path / "plan.json"
    three.plan.save(path)
    again = FederationPlan.load(path)
    assert again == three.plan
    assert again.digest == three.plan.digest
    assert str(again).startswith("Plan ")
    path.write_text(path.read_text().replace('"n_honest": 2', '"n_honest": 3'))
    with pytest.raises(ValueError, match=r"n_honest|must be a plan"):
        FederationPlan.load(path)
    path.write_text("{}")
    with pytest.raises(ValueError, match="must be a plan"):
        FederationPlan.load(path)


def test_what_a_plan_asks_is_shown(three, tmp_path, capsys):
    three.plan.save(tmp_path / "plan.json")
    assert main(["show", str(tmp_path / "plan.json")]) == 0
    told = capsys.readouterr().out
    for word in ("u (300), v (1), w (599)", "2 of them trusted", "8 rounds"):
        assert word in told
    assert "charges epsilon 1 and delta 1e-06 to its ledger under replace_one" in told
    assert main(["show", str(tmp_path / "none.json")]) == 1
    assert main(["keygen", str(tmp_path / "a.key")]) == 0
    assert Key.load(tmp_path / "a.key").public.hex() in capsys.readouterr().out


@pytest.mark.parametrize(
    "change",
    [
        {"n_honest": 3},
        {"sizes": (4, 0)},
        {"sizes": ("4",)},
        {"coordinator_key": b"k" * 32, "parties": 2},
    ],
)
def test_plans_that_bind_nobody_are_refused(three, change):
    if "parties" in change:
        change["parties"] = (three.plan.parties[0],) * 3
    with pytest.raises(ValueError, match=r"n_honest|plan"):
        changed(three.plan, **change)


@pytest.mark.parametrize(
    ("model", "error"),
    [
        (model(random_state=0), ValueError),
        (DPMLPClassifier(1.0, classes=[0, 1], **SAMPLED), Refused),
        (DPLogisticRegression(1.0, classes=np.array([0, 1])), ValueError),
    ],
)
def test_what_cannot_be_planned_is_refused(model, error, tmp_path):
    with pytest.raises(error):
        setting(tmp_path, model)


def test_a_plan_that_was_changed_after_approval_is_refused(three):
    other = changed(three.plan, n_honest=1)
    hub, parties = fitted(three, [three.plan, three.plan, other], patience=2.0)
    for one in (hub, *parties):
        with pytest.raises(SourceError):
            one.outcome()
    assert [three.ledger(i).spends() for i in range(3)] == [[]] * 3


def test_a_full_ledger_takes_no_part(three):
    BudgetLedger(three.folder / "1.db", epsilon=0.5, delta=1e-3)
    # And nothing is charged: the others wait for all before they charge their ledgers.
    hub, parties = fitted(three, patience=2.0)
    with pytest.raises(BudgetExceeded):
        parties[1].outcome()
    for one in (hub, parties[0], parties[2]):
        with pytest.raises(SourceError, match=r"connect in time|answer in time"):
            one.outcome()
    assert [three.ledger(i).spends() for i in range(3)] == [[]] * 3


def test_a_party_that_lies_about_n_or_columns_is_refused_by_its_own_side(three):
    with pytest.raises(ValueError, match="as many rows"):
        three.serve(0, data=three.data(1))
    party = three.plan.parties[0]
    lied = PlanParty(party.name, party.n_samples + 1, party.key)
    with pytest.raises(ValueError, match="as many rows"):
        three.serve(0, changed(three.plan, parties=(lied, *three.plan.parties[1:])))
    with pytest.raises(ValueError, match="key"):
        three.serve(0, key=Key.new())
    assert three.ledger(0).spends() == []


# --------------------------------------------------------------------- what goes wrong


def test_a_party_that_is_cut_off_sends_the_same_bytes_and_the_fit_goes_on(
    three, monkeypatch
):
    sent = []
    exchanged = _wire.OwnerConnection._exchanged

    def cut(self, frame):
        if self._number == 1:
            sent.append(frame)
            if len(sent) in (3, 6):
                # Once before the share is sent, once before its total is heard.
                wire = self._connected()
                if len(sent) == 6:
                    wire.sendall(frame.packed(self._wire_key))
                    time.sleep(0.3)
                self._drop()
                raise OSError
        return exchanged(self, frame)

    monkeypatch.setattr(_wire.OwnerConnection, "_exchanged", cut)
    hub, parties = fitted(three)
    coefs = {one.outcome().coef_.tobytes() for one in (hub, *parties)}
    assert len(coefs) == 1
    assert len(sent) == 8 + 2
    by_round = {}
    for frame in sent:
        by_round.setdefault(frame.round_number, set()).add(frame.content)
    assert all(len(contents) == 1 for contents in by_round.values())
    assert [len(three.ledger(i).spends()) for i in range(3)] == [1, 1, 1]


def test_a_party_that_disappears_ends_the_fit_for_all(three, monkeypatch):
    exchanged = _wire.OwnerConnection._exchanged

    def gone(self, frame):
        if self._number == 1 and frame.round_number == 4:
            raise SourceError("gone")
        return exchanged(self, frame)

    monkeypatch.setattr(_wire.OwnerConnection, "_exchanged", gone)
    hub, parties = fitted(three, patience=6.0)
    for one in (hub, *parties):
        with pytest.raises(SourceError, match="stays charged"):
            one.outcome()
    assert [len(three.ledger(i).spends()) for i in range(3)] == [1, 1, 1]


def test_a_party_that_answers_a_round_twice_ends_the_fit(three, monkeypatch):
    exchanged = _wire.OwnerConnection._exchanged

    def twice(self, frame):
        if self._number == 1 and frame.round_number == 4:
            words = bytes(len(frame.content) - 32)
            other = Frame(Kind.SHARE, 1, 4, frame.content[:32] + words)
            wire = self._connected()
            wire.sendall(other.packed(self._wire_key))
        return exchanged(self, frame)

    monkeypatch.setattr(_wire.OwnerConnection, "_exchanged", twice)
    hub, parties = fitted(three, patience=6.0)
    with pytest.raises(SourceError):
        hub.outcome()
    for one in parties:
        one.join(20)


def test_a_party_that_answers_another_question_ends_the_fit(three, monkeypatch):
    added = _wire.OwnerConnection.added

    def other(self, statement, share):
        is_odd = self._number == 1 and self._round == 3
        return added(self, b"t" * 32 if is_odd else statement, share)

    summed, unmasked = [], _remote.unmasked
    monkeypatch.setattr(
        _remote, "unmasked", lambda found: summed.append(found) or unmasked(found)
    )
    monkeypatch.setattr(_wire.OwnerConnection, "added", other)
    hub, parties = fitted(three, patience=6.0)
    for one in (hub, *parties):
        with pytest.raises(SourceError):
            one.outcome()
    assert len(summed) == 3  # and not those of the fourth round


GARBAGE = {
    "nothing": b"",
    "text": b"GET / HTTP/1.1\r\n\r\n" * 40,
    "a long message": b"\xff\xff\xff\xff" + bytes(100),
    "a short message": b"\x00\x00\x00\x01\x00",
    "a stranger": Frame(Kind.HELLO, 0, 0, bytes(32)).packed(b"k" * 32),
    "nobody": Frame(Kind.HELLO, 999, 0, bytes(32)).packed(b"k" * 32),
    "a share of a stranger": Frame(Kind.SHARE, 1, 1, bytes(64)).packed(b"k" * 32),
    "an end by a stranger": Frame(Kind.BYE, 1, 1, b"").packed(b"k" * 32),
}


def test_garbage_and_strangers_are_dropped_and_the_fit_goes_on(three):
    hub = Running(lambda: coordinate(three.plan, three.hub, patience=PATIENCE))
    wires = []
    for content in GARBAGE.values():
        for _ in range(100):
            try:
                wire = socket.create_connection(three.plan.address, timeout=5)
                break
            except OSError:
                time.sleep(0.05)
        wire.sendall(content)
        wires.append(wire)
    parties = [Running(lambda i=i: three.serve(i)) for i in range(3)]
    coefs = {one.outcome().coef_.tobytes() for one in (hub, *parties)}
    for wire in wires:
        wire.close()
    assert len(coefs) == 1


def test_messages_that_are_replayed_or_changed_prove_nothing(three, monkeypatch):
    """Each message that a party sends is sent three more times, one of them changed."""
    exchanged = _wire.OwnerConnection._exchanged
    replayed = []

    def noisy(self, frame):
        packed = frame.packed(self._wire_key)
        changed = packed[:-1] + bytes([packed[-1] ^ 1])
        replayed.append(packed)
        stranger = socket.create_connection(three.plan.address, timeout=5)
        stranger.sendall(replayed[0] + packed)
        stranger.close()
        other = socket.create_connection(three.plan.address, timeout=5)
        other.sendall(changed)
        other.close()
        return exchanged(self, frame)

    monkeypatch.setattr(_wire.OwnerConnection, "_exchanged", noisy)
    hub, parties = fitted(three)
    coefs = {one.outcome().coef_.tobytes() for one in (hub, *parties)}
    assert len(coefs) == 1


def test_a_coordinator_with_another_key_gets_nobody(three):
    with pytest.raises(ValueError, match="coordinator"):
        coordinate(three.plan, Key.new(), patience=1.0)


def test_a_total_by_a_stranger_is_not_believed(three, monkeypatch):
    def strange(self, number):
        frame = Frame(Kind.TOTAL, number, self._ended, self._total)
        self._send(number, frame.packed(b"k" * 32))

    monkeypatch.setattr(_remote.Hub, "_send_total", strange)
    hub, parties = fitted(three, patience=2.0)
    for one in (*parties, hub):
        with pytest.raises(SourceError):
            one.outcome()
