"""The runner: resuming, oracles, rivals, refusals, and the command line."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks._results import fingerprint
from benchmarks._runner import Benchmark, Line, MissingData, line, pair, run


class Toy:
    """An experiment that remembers which runs of which line were measured."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.fails_at = ("", -1)

    def score(self, name: str, run: int, step: float = 0.0) -> float:
        if (name, run) == self.fails_at:
            raise KeyboardInterrupt
        self.asked.append((name, run))
        return run + step

    def lines(self, sizes: int = 2, kind: str = "a"):
        for size in range(sizes):
            name = f"good {size}"
            place = {"kind": kind, "size": size}
            yield line(place, name, lambda r, n=name: self.score(n, r), claimed=1.0)
            yield Line(place=place, method="none", measure=None, refusal="no guarantee")


@pytest.fixture
def toy():
    return Toy()


def table(toy, folder, capsys, lines=None, **how):
    """The printed table, and what was measured."""
    given = {key: how.pop(key) for key in ("runs", "only", "given") if key in how}
    benchmark = Benchmark("toy", "a toy", lines or toy.lines, runs=4, **how)
    measured = run(benchmark, folder=folder, **given)
    return capsys.readouterr().out, measured


def test_a_table_says_how_it_was_made_and_what_lines_cost(toy, tmp_path, capsys):
    out, measured = table(toy, tmp_path, capsys, claims=True)
    for word in ("# commit: ", "# date: 20", "# machine: ", "# seeds: 0 to 3"):
        assert word in out
    rows = [row for row in out.splitlines() if row.startswith("|")]
    assert rows[0].split(" | ")[2:6] == [
        "method",
        "claimed epsilon",
        "true epsilon",
        "delta",
    ]
    assert "| 1 | 1 |" in rows[2]
    assert "refused: no guarantee" in rows[3]
    assert np.array_equal(measured[0][1][:, 0], [0, 1, 2, 3])
    text = (tmp_path / "toy.csv").read_text()
    assert text.startswith("# command: python -m benchmarks toy --runs 4")
    assert "kind,size,method" in text


def test_an_interrupted_table_resumes_where_it_stopped(toy, tmp_path, capsys):
    toy.fails_at = ("good 1", 2)
    with pytest.raises(KeyboardInterrupt):
        table(toy, tmp_path, capsys)
    toy.asked.clear()
    toy.fails_at = ("", -1)
    table(toy, tmp_path, capsys)
    assert toy.asked == [("good 1", 2), ("good 1", 3)]
    toy.asked.clear()
    table(toy, tmp_path, capsys)
    assert toy.asked == []


def test_fewer_runs_first_and_the_rest_later(toy, tmp_path, capsys):
    table(toy, tmp_path, capsys, runs=1)
    assert toy.asked == [("good 0", 0), ("good 1", 0)]
    toy.asked.clear()
    table(toy, tmp_path, capsys)
    assert toy.asked[:3] == [("good 0", 1), ("good 0", 2), ("good 0", 3)]


def test_other_settings_are_measured_again_and_only_what_is_wanted(
    toy, tmp_path, capsys
):
    table(toy, tmp_path, capsys, runs=1)
    toy.asked.clear()
    table(toy, tmp_path, capsys, runs=1, given={"sizes": 1})
    assert toy.asked == [("good 0", 0)]
    toy.asked.clear()
    table(toy, tmp_path / "other", capsys, only="size 1, good")
    assert {name for name, _ in toy.asked} == {"good 1"}


def test_times_are_not_kept(toy, tmp_path, capsys):
    for _ in range(2):
        table(toy, tmp_path, capsys, runs=1, keeps=False)
    assert toy.asked.count(("good 0", 0)) == 2
    assert not (tmp_path / "toy.json").exists()


def test_an_oracle_tunes_on_runs_that_are_not_reported(toy, tmp_path, capsys):
    def lines():
        grid = ({"step": 5.0}, {"step": -1.0}, {"step": 2.0})

        def score(r, step):
            return toy.score("tuned", r, step)

        yield line({"at": 0}, "lowest", score, grid=grid, private=True)
        yield line({"at": 0}, "highest", score, grid=grid, better="higher")

    out, measured = table(toy, tmp_path, capsys, lines, claims=True, tuning_runs=2)
    assert [values[0, 0] for _, values in measured] == [-1, 5]
    assert "step=-1" in out
    # An oracle makes a release none.
    assert "| yes |" not in out
    assert {run for _, run in toy.asked} == {0, 1, 2, 3, 1000, 1001}


def test_a_solver_may_refuse_and_a_method_of_a_paper_may_not(toy, tmp_path, capsys):
    def lines(private):
        def score(run):
            raise ValueError("n is\ntoo small")

        yield line({"at": 0}, "one", score, private=private)

    out, _ = table(toy, tmp_path, capsys, lambda: lines(True))
    assert "refused: n is too small" in out
    with pytest.raises(ValueError, match="too small"):
        table(toy, tmp_path, capsys, lambda: lines(False))


def test_tables_that_are_not_there_are_refused(toy, tmp_path, capsys):
    def lines():
        def score(run):
            raise MissingData("no folder 'x'")

        yield line({"at": 0}, "one", score)
        raise MissingData("nor this one")

    out, _ = table(toy, tmp_path, capsys, lines)
    assert "refused: no folder 'x'" in out
    assert "refused: nor this one" in out


def test_gains_are_those_over_a_rival_of_the_same_runs(toy, tmp_path, capsys):
    def judge(values, rival):
        return "none" if rival is None else pair(values[:, 0] - rival[:, 0], "+.1f")

    def later(step, r):
        return r**2 + step

    def lines():
        for at, step in ((0, 1.0), (1, 2.0)):
            yield line({"at": at}, "first", lambda r: float(r**2))
            score = partial(later, step)
            yield line({"at": at}, "second", score, judge=judge, rival="first")

    out, _ = table(toy, tmp_path, capsys, lines, judged=True, only="second")
    assert "+1.0 ± 0.0" in out
    assert "+2.0 ± 0.0" in out


def test_what_is_not_installed_is_taken_from_the_file(toy, tmp_path, capsys):
    def lines(stamp):
        yield line({"at": 0}, "peer", lambda r: toy.score("peer", r), stamp=stamp)

    out, _ = table(toy, tmp_path, capsys, lambda: lines(None))
    assert "refused: not installed" in out
    table(toy, tmp_path, capsys, lambda: lines("peer 1.0"))
    toy.asked.clear()
    _, measured = table(toy, tmp_path, capsys, lambda: lines(None))
    assert toy.asked == []
    assert len(measured[0][1]) == 4
    table(toy, tmp_path, capsys, lambda: lines("peer 2.0"))
    assert len(toy.asked) == 4


def test_a_stamp_follows_the_code_and_not_its_tests(tmp_path):
    for name in ("a.py", "deep/b.py", "tests/c.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x = 1")
    first = fingerprint(tmp_path)
    (tmp_path / "tests" / "c.py").write_text("x = 2")
    assert fingerprint(tmp_path) == first
    (tmp_path / "deep" / "b.py").write_text("x = 2")
    assert fingerprint(tmp_path) != first


def test_all_names_are_listed_and_unknown_ones_are_not_run(capsys):
    assert command.main([]) == 0
    out = capsys.readouterr().out
    for name in ("speed", "peers", "default", "acceleration", "bolt_on_convex"):
        assert f"\n  {name} " in out
    with pytest.raises(SystemExit):
        command.main(["nothing"])
    assert "unknown name 'nothing'" in capsys.readouterr().err


def test_settings_have_the_kinds_of_their_defaults(toy):
    benchmark = Benchmark("toy", "a toy", toy.lines)
    assert command.settings_of(benchmark, ["sizes=3", "kind=b"]) == {
        "sizes": 3,
        "kind": "b",
    }
    with pytest.raises(SystemExit, match="toy takes"):
        command.settings_of(benchmark, ["colour=red"])


def test_a_setting_that_is_true_or_false_takes_nothing_else():
    def lines(permuted=False):
        return iter(())

    benchmark = Benchmark("toy", "a toy", lines)
    assert command.settings_of(benchmark, ["permuted=True"]) == {"permuted": True}
    with pytest.raises(SystemExit, match="permuted must be True or False"):
        command.settings_of(benchmark, ["permuted=1"])
