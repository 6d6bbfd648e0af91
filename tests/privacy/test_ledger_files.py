"""Forged, truncated and foreign files: refused, and left as they are."""

from __future__ import annotations

import copy
import os
import pickle
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from skdp.__main__ import main
from skdp.exceptions import LedgerError
from skdp.privacy import BudgetLedger, GaussianEvent
from skdp.privacy.ledger import _store
from tests.privacy.books import VALUES, X, Y, model, spend
from tests.problems import make_ledger


def by_sql(*statements):
    def damage(path):
        with closing(sqlite3.connect(path)) as connection:
            for statement in statements:
                connection.execute(statement)
            connection.commit()

    return damage


def by_bytes(change):
    return lambda path: path.write_bytes(change(path.read_bytes()))


def foreign_database(path):
    path.unlink()
    by_sql("CREATE TABLE books (epsilon REAL)")(path)


CHEAPER = "UPDATE spends SET event = replace(event, '20.0', '99.0'){} WHERE id = 1"
ADDED = (
    "INSERT INTO spends SELECT 4, committed_at, label, epsilon, delta, event, "
    "charge FROM spends WHERE id = 1"
)
CARRIED = "CREATE TABLE carried (after INTEGER, balance TEXT)"
SQL = {
    "event made cheaper": (CHEAPER.format(""),),
    "event and label": (CHEAPER.format(", label = 'x'"),),
    "event that is no JSON": ("UPDATE spends SET event = '{' WHERE id = 1",),
    "event of bytes": ("UPDATE spends SET event = X'FF00' WHERE id = 1",),
    "time": ("UPDATE spends SET committed_at = 'yesterday' WHERE id = 1",),
    "epsilon asked": ("UPDATE spends SET epsilon = 0.5 WHERE id = 1",),
    "first row deleted": ("DELETE FROM spends WHERE id = 1",),
    "last row deleted and the count": (
        "DELETE FROM spends WHERE id = 3",
        "UPDATE books SET spends = 2",
    ),
    "all rows deleted": ("DELETE FROM spends", "UPDATE books SET spends = 0"),
    "row added": (ADDED,),
    "row added and the count": (ADDED, "UPDATE books SET spends = 4"),
    "rows exchanged": tuple(
        f"UPDATE spends SET id = {new} WHERE id = {old}"
        for old, new in ((1, 9), (2, 1), (9, 2))
    ),
    "count": ("UPDATE books SET spends = 2",),
    "digest": ("UPDATE books SET head = 'x'",),
    "larger cap": ("UPDATE books SET epsilon = 100.0",),
    "second books": ("INSERT INTO books SELECT * FROM books",),
    "no books": ("DELETE FROM books",),
    "no table of spends": ("DROP TABLE spends",),
    "no table of books": ("DROP TABLE books",),
    "another column": ("ALTER TABLE spends ADD COLUMN refund REAL",),
    "newer schema": ("PRAGMA user_version=3",),
    "older schema": ("PRAGMA user_version=1",),
    "charge": (
        "UPDATE spends SET charge = "
        """'{"delta": 0.0, "epsilon": 0.0, "mu_squared": 1e-9}' WHERE id = 1""",
    ),
    "last charge removed": ("UPDATE spends SET charge = NULL WHERE id = 3",),
    "another set-aside": ("UPDATE books SET reserve_delta = 0.0",),
    "no set-asides": ("UPDATE books SET reserve_epsilon = NULL, reserve_delta = NULL",),
    "carried over": (CARRIED, "INSERT INTO carried VALUES (3, '{}')"),
    "trigger": (
        "CREATE TRIGGER t AFTER INSERT ON spends BEGIN UPDATE books SET spends=9; END",
    ),
    "view": ("CREATE VIEW v AS SELECT * FROM spends",),
    "index": ("CREATE INDEX i ON spends (label)",),
    "other application": ("PRAGMA application_id=7",),
    # At these a reader may stumble before it compares the digests.
    "epsilon of text": ("UPDATE spends SET epsilon = 'x' WHERE id = 1",),
    "event nested without end": (
        f"UPDATE spends SET event = '{'[' * 100_000}' WHERE id = 1",
    ),
    "number too large": (
        """UPDATE spends SET event = '{"event": "gaussian", "count": 1, """
        f""""noise_multiplier": 1{"0" * 400}}}' WHERE id = 1""",
    ),
    "adjacency unknown": ("UPDATE books SET adjacency = 'none'",),
    "unit of bytes": ("UPDATE books SET unit = X'FF'",),
}
DAMAGE = {name: by_sql(*statements) for name, statements in SQL.items()} | {
    "empty": by_bytes(lambda content: b""),
    "50 bytes": by_bytes(lambda content: content[:50]),
    "half": by_bytes(lambda content: content[: len(content) // 2]),
    "one page": by_bytes(lambda content: content[:4096]),
    "a byte missing": by_bytes(lambda content: content[:-1]),
    "zeros inside": by_bytes(lambda content: content[:4096] + bytes(8192)),
    "text file": by_bytes(lambda content: b"epsilon,delta\n" * 50),
    "other database": foreign_database,
}
USES = (
    lambda ledger: BudgetLedger(ledger.path, **VALUES),
    lambda ledger: BudgetLedger.open(ledger.path),
    spend,
    lambda ledger: model(ledger=ledger).fit(X, Y),
    BudgetLedger.spends,
    BudgetLedger.spent,
    BudgetLedger.to_frame,
)
REMEDIES = ("restore", "Restore", "choose another path", "same values", "Use the")


def refused_and_untouched(ledger, capsys):
    """Use a bad file in every way; each must say LedgerError and change nothing."""
    path = Path(ledger.path)
    before = path.read_bytes()
    for use in USES:
        with pytest.raises(LedgerError) as caught:
            use(ledger)
        assert ledger.path in str(caught.value)
        assert any(remedy in str(caught.value) for remedy in REMEDIES)
    assert "unreadable" in repr(ledger)
    for name in ("ledger", "report", "letter"):
        assert main([name, ledger.path]) == 1
        told = capsys.readouterr()
        assert (told.out, ledger.path in told.err) == ("", True)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_file_is_refused_and_left_untouched(used, damage, capsys):
    damage(Path(used.path))
    refused_and_untouched(used, capsys)


def test_broken_twin_without_digests_believes_a_forgery(used, monkeypatch):
    monkeypatch.setattr(_store, "_next_link", lambda link, row: link)
    path = Path(used.path).with_name("undigested.db")
    twin = BudgetLedger(path, **VALUES)
    spend(twin, label="first")
    cost = twin.spent().epsilon
    DAMAGE["charge"](path)
    assert twin.spent().epsilon < cost  # what the digests prevent


def test_commit_that_a_trigger_takes_back_is_noticed(used, monkeypatch, capsys):
    with closing(sqlite3.connect(used.path)) as connection:
        n, head = connection.execute("SELECT spends, head FROM books").fetchone()
        connection.execute(
            "CREATE TRIGGER t AFTER UPDATE OF head ON books BEGIN "
            f"DELETE FROM spends WHERE id > {n}; "
            f"UPDATE books SET spends = {n}, head = '{head}'; END"
        )
        connection.commit()
    refused_and_untouched(used, capsys)
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
    '{"is_void": true, "epsilon": 0.0}',
    '{"delta": 0.0, "epsilon": 0.0}',
    '{"delta": 0.0, "epsilon": -1.0, "mu_squared": 0.0}',
    '{"delta": 0.0, "epsilon": NaN, "mu_squared": 0.0}',
    '{"delta": 0.0, "epsilon": "0", "mu_squared": 0.0}',
    '{"delta": 0.0, "epsilon": 0.0, "mu_squared": 0.0, "more": 0.0}',
]


@pytest.mark.parametrize("text", NO_CHARGES)
def test_charge_without_its_form_is_refused_under_any_digest(
    ledger, text, monkeypatch, capsys
):
    with monkeypatch.context() as patch:
        patch.setattr(_store, "_charge_text", lambda charge: text)
        spend(ledger)
    refused_and_untouched(ledger, capsys)


def test_file_with_a_log_of_another_program_is_left_alone(used):
    """SQLite would fold a write-ahead log into the file as soon as it reads it."""
    path = Path(used.path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("UPDATE books SET spends = 2")
        connection.commit()
        files = {file: file.read_bytes() for file in path.parent.iterdir()}
        assert len(files) == 3
        for use in USES:
            with pytest.raises(LedgerError, match="write-ahead log"):
                use(used)
        assert {file: file.read_bytes() for file in path.parent.iterdir()} == files


def test_missing_file_is_never_started_anew_under_a_used_handle(used, monkeypatch):
    os.unlink(used.path)
    for handle in (used, copy.deepcopy(used), pickle.loads(pickle.dumps(used))):
        with pytest.raises(LedgerError, match="never creates it again"):
            spend(handle)
        with pytest.raises(LedgerError, match="never creates it again"):
            model(ledger=handle).fit(X, Y)
        assert "unreadable" in repr(handle)
    monkeypatch.setattr(os.path, "isfile", lambda path: True)  # it vanishes meanwhile
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


def test_without_hard_links_the_first_ledger_stands(tmp_path, monkeypatch):
    """Found in review: a rename replaced books that already had spends."""
    real, calls = os.link, []

    def no_links(draft, path):
        calls.append(path)
        if len(calls) > 1:
            return real(draft, path)
        spend(make_ledger(tmp_path), GaussianEvent(5.0))  # another process is faster
        raise OSError("no hard links here")

    monkeypatch.setattr(os, "link", no_links)
    assert len(make_ledger(tmp_path).spends()) == 1
    monkeypatch.setattr(
        os, "link", lambda draft, path: (_ for _ in ()).throw(OSError())
    )
    (tmp_path / "new").mkdir()
    assert make_ledger(tmp_path / "new").spends() == []
