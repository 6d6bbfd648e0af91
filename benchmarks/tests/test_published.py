"""The runner of published tables: resuming, refusals, files, and what it needs."""

from __future__ import annotations

import inspect
import json
import math
import re
import tomllib
from pathlib import Path

import pandas as pd
import pytest

from benchmarks import _published
from benchmarks.__main__ import main
from benchmarks._data import MissingData
from benchmarks._line import Line
from benchmarks._published import PUBLISHED, SPARSE, names

CONFIG = """
title = "Toy"
experiment = "toy"
runs = 4
plot = { x = "T", y = "error", panel = "noise", y_scale = "log" }
[parameters]
T = [1, 10]
"""


class Toy:
    """An experiment that remembers which runs of which line were measured."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[int]]] = []
        self.fails_at = ""

    def __call__(self, *, T: list[int]):
        for count in T:
            yield self.line("good", count, epsilon=1.0)
            yield self.line("bad", count, epsilon=1.4)
            yield Line(
                place={"noise": "none", "T": count},
                method="none",
                claimed=1.0,
                true=math.nan,
                measure=None,
                refusal="it has no guarantee",
            )

    def line(self, method: str, count: int, *, epsilon: float) -> Line:
        def measure(runs):
            where = f"{method} {count}"
            if where == self.fails_at:
                raise KeyboardInterrupt
            self.asked.append((where, list(runs)))
            return [count + run for run in runs]

        place = {"noise": "exact" if epsilon == 1 else "printed", "T": count}
        return Line(
            place=place, method=method, claimed=1.0, true=epsilon, measure=measure
        )


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A toy experiment, and a function that runs it."""
    experiment = Toy()

    def as_function(**parameters):
        return experiment(**parameters)

    (tmp_path / "toy.toml").write_text(CONFIG)
    monkeypatch.setattr(_published, "EXPERIMENTS", {"toy": as_function})
    monkeypatch.setattr(_published, "_require", lambda *packages: None)
    monkeypatch.setattr(
        pd.DataFrame,
        "to_parquet",
        lambda frame, path, index: setattr(experiment, "frame", frame),
    )
    monkeypatch.setattr(_published, "_plot", lambda *arguments: None)
    experiment.folder = tmp_path / "kept"

    def run(**options):
        _published.run("toy", folder=experiment.folder, configs=tmp_path, **options)

    experiment.run = run
    return experiment


def test_every_row_says_what_it_costs_and_whether_it_is_private(toy, capsys):
    toy.run()
    first = toy.frame.iloc[0].to_dict()
    assert first == {
        "noise": "exact",
        "T": 1,
        "method": "good",
        "claimed epsilon": 1.0,
        "true epsilon": 1.0,
        "delta": 0.0,
        "adjacency": "replace_one",
        "private": "not private",
        "mean": 2.5,
        "standard error": pytest.approx(math.sqrt(5 / 12)),
        "runs": 4,
        "note": "",
    }
    assert toy.frame["true epsilon"].tolist()[:2] == [1.0, 1.4]
    shown = capsys.readouterr()
    assert shown.out.count("| not private |") == 6
    assert "toy: line 6" in shown.err


def test_a_refused_line_has_its_reason_and_no_value(toy, capsys):
    toy.run()
    refused = toy.frame[toy.frame["method"] == "none"]
    assert (refused["note"] == "refused: it has no guarantee").all()
    assert refused["mean"].isna().all()
    assert (refused["runs"] == 0).all()
    assert "it has no guarantee" in capsys.readouterr().out


def test_an_interrupted_run_goes_on_line_by_line(toy):
    toy.fails_at = "good 10"
    with pytest.raises(KeyboardInterrupt):
        toy.run()
    assert [where for where, _ in toy.asked] == ["good 1", "bad 1"]
    toy.fails_at = ""
    toy.run()
    assert [where for where, _ in toy.asked[2:]] == ["good 10", "bad 10"]
    stored = json.loads((toy.folder / "toy.json").read_text())
    assert len(stored) == 4


def test_fewer_runs_first_and_the_rest_later(toy):
    toy.run(runs=2)
    assert toy.asked[0] == ("good 1", [0, 1])
    assert toy.frame["runs"].tolist()[:2] == [2, 2]
    toy.asked.clear()
    toy.run()
    assert toy.asked[0] == ("good 1", [2, 3])
    toy.run(runs=100)
    assert toy.frame["runs"].max() == 4


def test_other_parameters_are_measured_again(toy, tmp_path):
    toy.run()
    (tmp_path / "toy.toml").write_text(CONFIG.replace("[1, 10]", "[1, 10, 20]"))
    toy.asked.clear()
    toy.run()
    assert [where for where, _ in toy.asked][:2] == ["good 1", "bad 1"]


@pytest.fixture
def sources(tmp_path):
    """A module of experiments, the folder of papers below it, and its tests."""
    texts = {
        name: tmp_path / name
        for name in ("tables.py", "_papers/method.py", "tests/test_tables.py")
    }
    for path in texts.values():
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    return texts


def stamp_of_experiment_in(path):
    found = {}
    exec(compile("def experiment(): ...", path, "exec"), found)
    return _published._stamp(found["experiment"], {})


@pytest.mark.parametrize("changed", ["tables.py", "_papers/method.py"])
def test_other_code_is_measured_again_that_of_the_papers_too(sources, changed):
    before = stamp_of_experiment_in(sources["tables.py"])
    sources[changed].write_text("STEP = 2")
    assert stamp_of_experiment_in(sources["tables.py"]) != before


def test_values_do_not_depend_on_tests(sources):
    before = stamp_of_experiment_in(sources["tables.py"])
    sources["tests/test_tables.py"].write_text("STEP = 2")
    assert stamp_of_experiment_in(sources["tables.py"]) == before


def test_missing_data_are_refused(toy, monkeypatch, capsys):
    def without_data(**parameters):
        raise MissingData("no folder 'mnist' (see docs/data.md)")
        yield

    monkeypatch.setattr(_published, "EXPERIMENTS", {"toy": without_data})
    toy.run()
    assert "refused: no folder 'mnist'" in capsys.readouterr().out


def test_a_missing_extra_is_named_before_anything_is_measured(toy, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(_published, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="pyarrow, which the 'bench' extra has"):
        main(["acceleration"])


def test_parquet_and_plot_are_written(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    pytest.importorskip("matplotlib")
    (tmp_path / "toy.toml").write_text(CONFIG)
    experiment = Toy()
    monkeypatch.setattr(
        _published, "EXPERIMENTS", {"toy": lambda **facts: experiment(**facts)}
    )
    _published.run("toy", folder=tmp_path / "kept", configs=tmp_path)
    frame = pd.read_parquet(tmp_path / "kept" / "toy.parquet")
    assert frame["T"].tolist() == [1, 1, 1, 10, 10, 10]
    assert frame["private"].unique().tolist() == ["not private"]
    text = (tmp_path / "kept" / "toy.csv").read_text()
    assert text.startswith("# command: python -m benchmarks toy --runs ")
    again = pd.read_csv(tmp_path / "kept" / "toy.csv", comment="#")
    assert again["mean"].tolist() == pytest.approx(frame["mean"].tolist(), nan_ok=True)
    picture = (tmp_path / "kept" / "toy.png").read_bytes()
    assert picture.startswith(b"\x89PNG")


SAVED = Path(_published.__file__).parent / "saved"
PAGE = SAVED.parents[1] / "docs" / "notebook" / "replications.md"
NAMES = sorted(path.stem for path in SAVED.glob("*.csv"))


def of_the_page(text, names):
    """Cells with an error, by the saved table that is named last before a table."""
    found = {name: [] for name in names}
    told, is_old = None, False
    for line in text.splitlines():
        if line.startswith("|"):
            is_old = True
            if told:
                found[told] += re.findall(r"[-+\d.e]+ ± [-+\d.e]+", line)
        elif line:
            told, is_old = None if is_old else told, False
            named = [word for word in re.findall(r"\w+", line) if word in names]
            told = named[-1] if named else told
    return found


@pytest.mark.parametrize("name", NAMES)
def test_saved_tables_say_how_they_were_made_and_are_those_of_the_page(name):
    path = SAVED / f"{name}.csv"
    told = dict(
        line.removeprefix("# ").split(": ", 1)
        for line in path.read_text().splitlines()
        if line.startswith("# ")
    )
    assert {"command", "seeds", "versions", "date"} == set(told)
    assert re.search(rf"[ .]{name} ", told["command"])
    saved = {
        f"{row['mean']:.3g} ± {row['standard error']:.3g}"
        for row in pd.read_csv(path, comment="#").to_dict("records")
    }
    shown = of_the_page(PAGE.read_text(), NAMES)[name]
    assert len(shown) >= 6
    assert set(shown) <= saved


def test_another_number_on_the_page_is_found():
    text = "The table (`toy`, 3 runs):\n\n| a | 1 ± 0.1 | 2.5e-05 ± 1 |\n\nRest.\n"
    assert of_the_page(text + "\n| b | 7 ± 7 |", ["toy"]) == {
        "toy": ["1 ± 0.1", "2.5e-05 ± 1"]
    }


@pytest.mark.parametrize(
    ("folder", "name"),
    [(folder, name) for folder in (PUBLISHED, SPARSE) for name in names(folder)],
)
def test_configurations_ask_for_what_there_is(folder, name):
    config = tomllib.loads((folder / f"{name}.toml").read_text())
    experiment = _published.EXPERIMENTS[config["experiment"]]
    inspect.signature(experiment).bind(**config["parameters"])
    assert REQUIRED <= set(config) <= REQUIRED | {"table", "tuning_runs"}
    assert {"x", "y"} <= set(config["plot"]) <= {"x", "y", "panel", *OPTIONAL}
    assert config["runs"] >= 5


REQUIRED = {"title", "experiment", "runs", "plot", "parameters"}
OPTIONAL = ("x_scale", "y_scale", "metric")


def test_the_command_passes_its_options_on(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(
        _published, "run", lambda name, **options: seen.append((name, options))
    )
    main(["bolt_on_convex", "--runs", "2", "--results", str(tmp_path)])
    assert seen == [("bolt_on_convex", {"runs": 2, "folder": tmp_path})]


def test_no_runs_are_refused(capsys):
    with pytest.raises(SystemExit):
        main(["bolt_on_convex", "--runs", "0"])
    assert "must be at least 1" in capsys.readouterr().err
