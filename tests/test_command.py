"""``skdp``: plans, descriptions, ledgers, reports and letters from a terminal."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from skdp import BudgetLedger
from skdp.__main__ import main
from skdp.columns import from_toml
from skdp.io._csv import read_csv

COLUMNS = """
age = {low = 0, high = 100}
job = ["office", "field"]
"""


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(0, 100, 500)})
    frame["job"] = rng.choice(["office", "field"], 500)
    frame["job"] = frame["job"].astype("category")
    frame["unused"] = 1.0
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "columns.toml").write_text(COLUMNS)
    BudgetLedger(str(tmp_path / "study.db"), epsilon=1.5, delta=1e-6)
    return tmp_path


def describing(folder, name="t.csv", **more):
    given = {"ledger": folder / "study.db", "epsilon": 1.0} | more
    options = [word for key, value in given.items() for word in (f"--{key}", value)]
    return ["describe", folder / name, folder / "columns.toml", *options]


def run(words):
    return main([str(word) for word in words])


def test_a_plan_says_solver_and_noise(capsys):
    assert run(["plan", 2000, 30, "--epsilon", 0.5]) == 0
    assert "(0.5, 1e-06) under replace_one" in capsys.readouterr().out


def test_a_plan_that_cannot_be_is_refused_in_words(capsys):
    assert run(["plan", 2000, 30, "--epsilon", -1]) == 1
    assert "epsilon" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_table_is_described_and_charged(table, name, capsys):
    assert run(describing(table, name)) == 0
    shown = capsys.readouterr().out
    assert "age" in shown
    assert "unused" not in shown
    assert len(BudgetLedger.open(str(table / "study.db")).spends()) == 1


def test_what_the_cap_does_not_allow_is_refused(table, capsys):
    assert run(describing(table)) == 0
    assert run(describing(table)) == 1
    assert "refuses" in capsys.readouterr().err
    assert len(BudgetLedger.open(str(table / "study.db")).spends()) == 1


def test_a_declared_column_that_is_not_there_is_refused_in_words(table, capsys):
    declared = COLUMNS + "nobody = {low = 0, high = 1}\n"
    (table / "columns.toml").write_text(declared, encoding="utf-8")
    assert run(describing(table)) == 1
    assert "nobody" in capsys.readouterr().err
    assert not len(BudgetLedger.open(str(table / "study.db")).spends())


def test_no_ledger_is_made_by_a_mistyped_name(table, capsys):
    assert run(describing(table, ledger=table / "other.db")) == 1
    assert not (table / "other.db").exists()
    assert capsys.readouterr().err


def test_a_report_of_the_command_is_checked_by_the_command(table, capsys):
    run(describing(table))
    capsys.readouterr()
    assert run(["ledger", table / "study.db"]) == 0
    assert "1 release costs epsilon 1 at" in capsys.readouterr().out
    assert run(["report", "--json", table / "study.db"]) == 0
    signed = capsys.readouterr().out
    (table / "report.json").write_text(signed)
    assert run(["check", table / "report.json"]) == 0
    assert "t.csv" not in signed
    (table / "report.json").write_text(signed.replace(": 1.5", ": 2.5"))
    assert run(["check", table / "report.json"]) == 1


def test_an_unknown_command_is_refused():
    with pytest.raises(SystemExit):
        run(["fit", "x"])


COMMANDS = ("plan", "template", "describe", "ledger", "report", "check", "letter")


def test_help_lists_every_command_under_its_own_name(capsys):
    with pytest.raises(SystemExit):
        run(["--help"])
    listed = capsys.readouterr().out
    for name in COMMANDS:
        assert f"\n    {name} " in listed
        with pytest.raises(SystemExit):
            run([name, "--help"])
        assert capsys.readouterr().out.startswith(f"usage: skdp {name} ")
    assert "skdp.federated" in listed.replace("\n", " ")


BLANKS = {
    "t.csv": ["age = ...", "job = ...", "unused = ..."],
    "t.parquet": [
        "age = {low = ..., high = ...}",
        "job = [...]",
        "unused = {low = ..., high = ...}",
    ],
}


@pytest.mark.parametrize("name", BLANKS)
def test_a_template_has_names_and_types_and_is_refused_until_it_is_filled_in(
    table, name, capsys
):
    assert run(["template", table / name]) == 0
    blank = capsys.readouterr().out
    head, _, lines = blank.partition("\n\n")
    assert lines.splitlines() == BLANKS[name]
    (table / "columns.toml").write_text(blank)
    assert run(describing(table)) == 1
    assert "Fill in each '...'" in capsys.readouterr().err
    (table / "columns.toml").write_text(head + COLUMNS)
    assert run(describing(table)) == 0


def test_a_template_reads_no_cell(table):
    with (table / "t.csv").open("a") as file:
        file.write('"a cell that does not end')
    assert run(["template", table / "t.csv"]) == 0
    with pytest.raises(ValueError, match="quoted cell"):  # the broken twin
        read_csv(table / "t.csv", from_toml(COLUMNS))


def test_a_letter_has_blanks_only_for_what_no_ledger_knows(table, capsys):
    run(describing(table))
    before = (table / "study.db").read_bytes()
    capsys.readouterr()
    (table / "key").write_text("0123456789abcdef")
    for key, how in (([], "(sealed, sha256)"), (["--key", table / "key"], "(signed,")):
        assert run(["letter", table / "study.db", *key]) == 0
        letter = capsys.readouterr().out
        assert how in letter
    assert (table / "study.db").read_bytes() == before
    assert "{" not in letter
    assert "1. 2" in letter
    assert "`describe`, epsilon 1, delta 1e-06; total 1\n" in letter
    assert "epsilon 1.5, delta 1e-06, for all results together" in letter
    blanks = set(re.findall("‹(.*?)›", letter))
    assert blanks == {
        "data protection officer",
        "name, institution",
        "name",  # of the data set, which this ledger does not have
        "why the results are needed, and what allows it",
        "nothing",
        "none",
        "names",
        "number",
        "place, date",
        "name, signature",
    }


@pytest.mark.parametrize("cell", ["", "secret", "9" * 400])
def test_a_cell_of_a_csv_decides_nothing_but_its_own_record(table, cell, capsys):
    with (table / "t.csv").open("a") as file:
        file.write(f"{cell},{cell},1.0,too,many\n")
    assert run(describing(table)) == 0
    told = capsys.readouterr()
    assert "secret" not in told.out + told.err
    assert "missing" in told.out
