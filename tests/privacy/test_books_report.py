"""A report says what a ledger holds, changes nothing, and shows what was changed."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from skdp.__main__ import main
from skdp._show import Display
from skdp.audit import membership_risk
from skdp.privacy import (
    BudgetLedger,
    GaussianEvent,
    NonPrivateEvent,
    epsilon_of,
)
from skdp.privacy.ledger import _report, _store
from skdp.privacy.ledger._letter import as_letter
from skdp.privacy.ledger._report import check_report, report_on
from tests.privacy.books import leave_half_written, spend
from tests.problems import make_ledger

STORED = Path(__file__).parents[1] / "stored"
KEY = b"0123456789abcdef"


def test_report_says_what_the_ledger_holds(used, capsys):
    assert main(["report", used.path]) == 0
    text = capsys.readouterr().out
    alone = epsilon_of(GaussianEvent(20.0, 3), used.delta)
    left = used.remaining()
    for words in (
        used.path,
        "unit record",
        "replace_one: one record is replaced by any other",
        "cap           epsilon 10, delta 1e-06",
        "reserve       epsilon 0, delta 5e-07",
        *(f"{one.committed_at}  {one.label}" for one in used.spends()),
        f"With Gaussian noise: it costs epsilon {alone:.4g} at delta 1e-06 by itself",
        "With Gaussian noise and a pure mechanism",
        f"epsilon {used.spent().epsilon:.4g} together with all releases before it.",
        f"up to epsilon {left.epsilon:.4g}, delta {left.delta:g} with Gaussian noise",
        f"(epsilon {left.pure_epsilon:.4g} if it is pure); all releases together then",
        "the guarantee is the cap",
        "Raw scores",
        "sealed, sha256",
        "does not prove who made the report",
    ):
        assert words in text


def test_report_in_json_can_be_charged_again(used, capsys):
    assert main(["report", "--json", used.path]) == 0
    text = capsys.readouterr().out
    told = json.loads(text, parse_constant=pytest.fail)["report"]
    assert told == report_on(used.path)["report"] == check_report(text)
    assert [one["label"] for one in told["releases"]] == ["first", "second", "third"]
    assert told["releases"][1]["event"]["epsilon"] == 0.25
    assert told["head"] == used._store.read().head


def test_report_on_what_is_not_private(tmp_path, capsys):
    ledger = make_ledger(tmp_path, allow_nonprivate=True)
    spend(ledger, NonPrivateEvent(), "seeded")
    spend(ledger, GaussianEvent(20.0), "later")
    assert main(["report", ledger.path]) == 0
    text = capsys.readouterr().out
    assert "it is not private" in text
    assert text.count("no finite epsilon") == 2


def test_report_on_a_stored_ledger(tmp_path):
    path = tmp_path / "study.db"
    shutil.copy(STORED / "1.0" / "study.db", path)
    before = path.read_bytes()
    told = report_on(str(path))["report"]
    assert path.read_bytes() == before
    assert told["releases"]


# The file ------------------------------------------------------------------------


def seen_of(path):
    """What a write of any kind would change."""
    facts = os.stat(path)
    folder = sorted(os.listdir(os.path.dirname(path)))
    return Path(path).read_bytes(), facts.st_mtime_ns, facts.st_ino, folder


def modes_used(monkeypatch, command):
    """How SQLite was asked to open files."""
    asked, real = [], sqlite3.connect

    def connect(name, **options):
        asked.append(name.rpartition("mode=")[2])
        return real(name, **options)

    monkeypatch.setattr(_store.sqlite3, "connect", connect)
    assert main(command) == 0
    return set(asked)


def test_report_changes_nothing(used, capsys):
    before = seen_of(used.path)
    for command in (["report", used.path], ["report", used.path, "--json"]):
        assert main(command) == 0
        assert seen_of(used.path) == before


def test_file_is_opened_for_reading_only(used, monkeypatch, capsys):
    assert modes_used(monkeypatch, ["report", used.path]) == {"ro"}


def test_broken_twin_that_opens_for_writing_is_found(used, monkeypatch, capsys):
    real = _store._connect
    monkeypatch.setattr(_store, "_connect", lambda path, read_only: real(path, False))
    assert modes_used(monkeypatch, ["report", used.path]) == {"rw"}


def test_a_ledger_that_is_read_only_takes_no_spend(used):
    books = _store.SpendStore(used.path, used._store.terms, read_only=True)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        books._connection().execute("UPDATE books SET head = ''")


def test_what_a_killed_writer_left_is_left_alone(used, capsys):
    leave_half_written(used)
    before = seen_of(used.path)
    assert main(["report", used.path]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert "BudgetLedger.open" in told.err
    assert seen_of(used.path) == before
    assert len(BudgetLedger.open(used.path).spends()) == 3
    assert main(["report", used.path]) == 0


# The signature -------------------------------------------------------------------


def changed(signed):
    """A report whose first release is said to be cheaper."""
    told = json.loads(json.dumps(signed))
    told["report"]["releases"][0]["event"]["noise_multiplier"] = 99.0
    return told


def is_taken(signed, key=None):
    try:
        check_report(json.dumps(signed), key)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("key", [None, KEY])
def test_what_was_changed_is_found(used, key):
    signed = report_on(used.path, key)
    assert is_taken(signed, key)
    assert not is_taken(changed(signed), key)
    for name in signed["report"]:
        assert not is_taken(signed | {"report": signed["report"] | {name: None}}, key)


def test_broken_twin_that_signs_the_head_alone_is_found(used, monkeypatch):
    honest = _report._signature
    monkeypatch.setattr(
        _report, "_signature", lambda told, key: honest(told["head"], key)
    )
    assert is_taken(changed(report_on(used.path)))


def test_only_the_key_makes_what_the_key_checks(used):
    signed = report_on(used.path, KEY)
    assert not is_taken(signed, KEY[::-1])
    assert not is_taken(signed)  # by anybody
    again = changed(signed)
    forged = _report._signature(again["report"], None)
    assert is_taken(again | {"signature": forged})  # as it says of itself
    assert not is_taken(again | {"signature": forged}, KEY)
    named = forged | {"algorithm": "hmac-sha256"}
    assert not is_taken(again | {"signature": named}, KEY)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"report": {}}', '"report"', "1"])
def test_what_is_no_report_is_refused(text):
    with pytest.raises(ValueError, match="A report must be the JSON text"):
        check_report(text)


def test_command_checks_a_report(used, tmp_path, capsys):
    key, file = tmp_path / "key", tmp_path / "report.json"
    key.write_bytes(KEY + b"\n")
    assert main(["report", used.path, "--json", "--key", str(key)]) == 0
    file.write_text(capsys.readouterr().out)
    assert main(["check", str(file), "--key", str(key)]) == 0
    text = capsys.readouterr().out
    assert "unchanged: 3 releases" in text
    assert "not signed" not in text
    assert main(["check", str(file)]) == 1
    file.write_text(file.read_text().replace('"second"', '"other"'))
    assert main(["check", str(file), "--key", str(key)]) == 1
    assert "another digest" in capsys.readouterr().err
    assert main(["check", str(tmp_path / "none.json")]) == 1
    file.write_text(json.dumps(report_on(used.path)))
    assert main(["check", str(file)]) == 0
    assert "sealed, not signed" in capsys.readouterr().out


def test_a_short_key_is_refused(used, tmp_path, capsys):
    key = tmp_path / "key"
    key.write_bytes(b"short")
    assert main(["report", used.path, "--key", str(key)]) == 1
    assert "at least 16 bytes. Got 5." in capsys.readouterr().err


# The picture ---------------------------------------------------------------------


@pytest.mark.parametrize("over", ["fit", "time"])
def test_the_line_is_the_running_total(used, over):
    pytest.importorskip("matplotlib")
    before = used.to_frame()
    shown = used.plot(over=over)
    assert isinstance(shown, Display)
    np.testing.assert_array_equal(shown.line_.get_ydata(), before["epsilon_total"])
    assert shown.line_.get_ydata()[-1] == used.spent().epsilon
    cap = {tuple(line.get_ydata()) for line in shown.ax_.lines}
    assert (10.0, 10.0) in cap
    for words in ("replace_one", "one record", "delta 1e-06"):
        assert words in shown.ax_.get_title()
    assert len(used.spends()) == 3
    shown.figure_.canvas.draw()


@pytest.mark.parametrize("over", ["fit", "time"])
def test_empty_and_infinite_ledgers_are_drawn(tmp_path, over):
    pytest.importorskip("matplotlib")
    books = make_ledger(tmp_path, allow_nonprivate=True)
    books.plot(over=over).figure_.canvas.draw()
    spend(books, NonPrivateEvent(), "exact")
    shown = books.plot(over=over)
    shown.figure_.canvas.draw()
    assert np.isinf(shown.line_.get_ydata()[-1])


def test_the_time_of_a_picture_is_of_fits_or_of_clocks(used):
    with pytest.raises(ValueError, match="'over'"):
        used.plot(over="year")


# The letter ----------------------------------------------------------------------


def test_a_letter_promises_the_cap_and_says_what_the_releases_cost(used):
    signed = report_on(used.path)
    letter = as_letter(signed)
    for words in (
        "Suppose that one record is replaced by any other; the number of records is",
        "epsilon 10, delta 1e-06, for all results together",
        f"Total so far: 3 releases together cost epsilon {used.spent().epsilon:.4g} at",
        "the guarantee is the cap",
        "it is that of a group of k",
        signed["signature"]["digest"],
        used._store.read().head,
        *(f"`{one.label}`, epsilon 1, delta 1e-06" for one in used.spends()),
    ):
        assert words in letter
    assert "{" not in letter
    capped, so_far = map(float, re.findall(r"wins at most (\S+) %", letter))
    assert 0 <= capped - 100 * membership_risk(ledger=used).accuracy() < 0.1
    assert 100 * membership_risk(used.to_event()).accuracy() <= so_far < capped


def test_a_letter_of_users_and_of_an_empty_ledger(tmp_path):
    ledger = make_ledger(tmp_path, adjacency="replace_user", unit="user")
    letter = as_letter(report_on(ledger.path))
    assert "Nothing so far." in letter
    assert "all rows of one user are replaced" in letter
    assert "A user is ‹one person" in letter
    assert "group of k" not in letter


def test_no_letter_promises_what_a_release_broke(tmp_path, capsys):
    ledger = make_ledger(tmp_path, allow_nonprivate=True)
    spend(ledger, label="private")
    spend(ledger, NonPrivateEvent(), "seeded")
    assert main(["letter", ledger.path]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Got release 2, which is not" in shown.err
