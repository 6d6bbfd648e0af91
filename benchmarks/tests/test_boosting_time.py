"""The clock of boosting: as many trees for all, and a line for each."""

from __future__ import annotations

from benchmarks import boosting_time


def test_every_model_has_a_line_and_its_ratio(capsys):
    facts = ["--rows", "2000", "--columns", "3", "--trees", "4", "--rounds", "1"]
    boosting_time.main(facts)
    first, *told = capsys.readouterr().out.splitlines()
    assert [line.startswith("  ") for line in told] == [True] * 4 + [False] * 4
    assert all(", of all processors " in line for line in told[:4])
    ours, *others = told[4:]
    assert first.startswith("2000 x 3, 4 trees, threads: ")
    assert ours.startswith("skdp, ")
    assert ours.endswith(" 1.00 (1.00 to 1.00)")
    assert [line.split(":")[0] for line in others] == [
        "skdp, from a constant",
        "HistGradientBoosting, 31 leaves",
        "HistGradientBoosting, 8 leaves",
    ]


def test_all_have_as_many_trees():
    X, y = boosting_time.table(500, 3)
    assert boosting_time.theirs(7).fit(X, y).n_iter_ == 7
    fitted = boosting_time.ours(7).fit(X, y)
    assert fitted.privacy_.solver_params["n_estimators"] == 7


def test_the_clock_takes_turns():
    calls = []
    fits = {name: lambda name=name: calls.append(name) for name in "ab"}
    assert [len(seconds) for seconds in boosting_time.in_turn(fits, 3)] == [2, 2, 2]
    assert calls == ["a", "b"] * 3
