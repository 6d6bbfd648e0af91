"""``skdp``: plans, books, reports and descriptions from a terminal."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skdp import BudgetLedger
from skdp.__main__ import main
from skdp.columns import to_json

COLUMNS = {"age": (0, 100), "job": ["office", "field"]}


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(0, 100, 500)})
    frame["job"] = rng.choice(COLUMNS["job"], 500)
    frame["unused"] = 1.0
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "columns.json").write_text(to_json(COLUMNS))
    BudgetLedger(str(tmp_path / "study.db"), epsilon=1.5, delta=1e-6)
    return tmp_path


def describing(folder, name="t.csv", **more):
    given = {"ledger": folder / "study.db", "epsilon": 1.0} | more
    options = [word for key, value in given.items() for word in (f"--{key}", value)]
    return ["describe", folder / name, folder / "columns.json", *options]


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
    declared = COLUMNS | {"nobody": (0, 1)}
    (table / "columns.json").write_text(to_json(declared), encoding="utf-8")
    assert run(describing(table)) == 1
    assert "nobody" in capsys.readouterr().err
    assert not len(BudgetLedger.open(str(table / "study.db")).spends())


def test_no_ledger_is_made_by_a_mistyped_name(table, capsys):
    assert run(describing(table, ledger=table / "other.db")) == 1
    assert not (table / "other.db").exists()
    assert capsys.readouterr().err


def test_tables_and_reports_are_those_of_the_ledger(table, capsys):
    run(describing(table))
    capsys.readouterr()
    assert run(["books", table / "study.db"]) == 0
    assert "in 1 releases" in capsys.readouterr().out
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


@pytest.mark.parametrize("cell", ["", "secret", "9" * 400])
def test_a_cell_of_a_csv_decides_nothing_but_its_own_record(table, cell, capsys):
    with (table / "t.csv").open("a") as file:
        file.write(f"{cell},{cell},1.0,too,many\n")
    assert run(describing(table)) == 0
    told = capsys.readouterr()
    assert "secret" not in told.out + told.err
    assert "missing" in told.out
