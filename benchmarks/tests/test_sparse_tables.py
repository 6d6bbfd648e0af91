"""The tables of sparse models: their lines, a tiny run, an oracle and a search."""

from __future__ import annotations

import bz2
import math
import tomllib

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

from benchmarks import _published, _sparse_tables, _sparse_tasks
from benchmarks import _sparse_data as texts
from benchmarks.__main__ import main
from benchmarks._line import FIRST_TUNING_RUN, Line
from benchmarks._sparse_design import Design
from benchmarks._sparse_tasks import SyntheticTask, TextTask
from skdp.solvers import SOLVERS

CONFIG = """
title = "small"
experiment = "sparse.synthetic"
runs = 5
tuning_runs = 2
plot = { x = "epsilon", y = "relative error", metric = "relative error" }
table = { by = ["adjacency"], across = "epsilon", metrics = ["relative error"] }
[parameters]
kinds = ["signs"]
settings = [[300, 20, 2]]
epsilon = [50.0, 1000.0]
adjacency = ["replace_one"]
solvers = ["iht"]
oracle = { iht = { n_steps = [1, 3], step_size = [1.0] } }
thesis = ["DP-IGHT, clipped, exact"]
"""


@pytest.fixture
def kept(monkeypatch):
    """The frame that would be written, without plot and Parquet file."""
    frames = []
    monkeypatch.setattr(_published, "_require", lambda *packages: None)
    monkeypatch.setattr(_published, "_plot", lambda *arguments: None)
    monkeypatch.setattr(
        pd.DataFrame, "to_parquet", lambda frame, path, index: frames.append(frame)
    )
    return frames


def test_a_section_runs_tunes_and_prints_its_table(kept, tmp_path, monkeypatch, capsys):
    (tmp_path / "small.toml").write_text(CONFIG)
    monkeypatch.setattr(_published, "SPARSE", tmp_path)
    results = tmp_path / "kept"
    asked = ["sparse", "--section", "small", "--quick", "--results", str(results)]
    assert main(asked) == 0
    frame = kept[0].set_index(["method", "epsilon"])
    assert (frame["runs"] == 2).all()
    constant = frame.loc[("constant", math.inf)]
    assert constant["relative error"] == 1
    assert frame.loc[("skdp iht", 50.0), "private"] == "yes"
    oracle = frame.loc[("skdp iht, oracle", 1000.0)]
    assert oracle["relative error"] < 0.3
    assert "n_steps=" in oracle["note"]
    assert oracle["private"] == "not private"
    printed = capsys.readouterr().out
    assert "| adjacency | method | epsilon 50 | epsilon 1000 |" in printed
    assert "| none | constant | 1.000 ± 0.000 | 1.000 ± 0.000 |" in printed
    # A second time nothing is measured.
    monkeypatch.setattr(SyntheticTask, "table", lambda task, run: pytest.fail("again"))
    assert main(asked) == 0
    assert kept[1].equals(kept[0])


def test_the_oracle_tunes_on_other_runs_than_are_reported():
    seen = []

    def measure(runs, size):
        seen.extend((run, size) for run in runs)
        return [(abs(size - 2.0), 0.0) for _ in runs]

    line = Line(
        place={"epsilon": 1.0},
        method="x",
        claimed=1.0,
        true=1.0,
        measure=measure,
        metrics=("error", "other"),
        grid=({"size": 1.0}, {"size": 2.0}, {"size": 3.0}),
    )
    kept = _published.Results(path=_published.Path("unused.json"))
    kept.save = lambda: None
    oracle = range(FIRST_TUNING_RUN, FIRST_TUNING_RUN + 2)
    line, values = _published._measured(line, range(3), oracle, kept, "stamp")
    assert values == [[0.0, 0.0]] * 3
    reported = [pair for pair in seen if pair[0] < FIRST_TUNING_RUN]
    assert reported == [(run, 2.0) for run in range(3)]
    assert len(seen) == 3 + 3 * 2
    assert line.note == "size=2"


def lines(**given):
    facts = {"kinds": ["rows"], "settings": [[60, 30, 2]], "epsilon": [1.0]}
    return list(
        _sparse_tables.synthetic(**(facts | {"adjacency": ["zero_out"]} | given))
    )


def test_every_solver_that_selects_has_a_line_and_so_has_the_constant():
    methods = [line.method for line in lines()]
    expected = [key for key, solver in SOLVERS.items() if solver.is_sparse]
    assert methods[:2] == ["constant", "IGHT, not private"]
    assert methods[2:] == ["skdp auto", *(f"skdp {key}" for key in expected)]
    deltas = {line.delta for line in lines() if line.private}
    assert deltas == {1 / 60**2}


def test_methods_of_the_thesis_are_for_replace_one_only():
    both = lines(adjacency=["replace_one", "zero_out"], thesis=["Frank-Wolfe"])
    (line,) = [line for line in both if line.method == "Frank-Wolfe"]
    assert line.adjacency == line.place["adjacency"] == "replace_one"
    assert not line.private


def test_a_search_pays_for_its_choice():
    (line,) = [
        line
        for line in lines(
            settings=[[400, 20, 2]],
            kinds=["signs"],
            epsilon=[100.0],
            search={"iht": {"n_steps": [1, 2], "step_size": [1.0]}},
        )
        if "search" in line.method
    ]
    assert line.private
    search = line.measure.args[1]()
    assert search.epsilon == 100.0
    assert len(search.param_grid["solver_params"]) == 2
    assert search.estimator.epsilon == 1.0  # the search hands its budget out
    ((error, _),) = line.measure([0])
    assert math.isfinite(error)


def test_refusals_of_private_methods_are_rows_and_others_are_raised():
    kept = _published.Results(path=_published.Path("unused.json"))
    kept.save = lambda: None
    for line in lines(solvers=["no such"], search={"none": {"n_steps": [1]}}):
        if not line.private:
            continue
        line, values = _published._measured(line, range(2), range(1), kept, "s")
        assert values == []
        assert "solver" in line.refusal

    def fails(runs):
        raise ValueError("broken")

    broken = _published.Line(place={}, method="x", claimed=1.0, true=1.0, measure=fails)
    with pytest.raises(ValueError, match="broken"):
        _published._measured(broken, range(2), range(1), kept, "s")


# ----------------------------------------------------------------------------- text


@pytest.fixture
def words(monkeypatch):
    """Ten words, of which the first tells the label."""
    rng = np.random.default_rng(0)
    X = (rng.uniform(size=(500, 10)) < 0.3).astype(np.float32)
    norms = np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1)
    y = X[:, 0].astype(float)
    rows = csr_matrix(X / norms)
    data = texts.Parts(rows[:400], y[:400], rows[400:], y[400:])
    monkeypatch.setitem(texts.PUBLISHED, "words", lambda n_features: data)
    _sparse_tasks._parts.cache_clear()
    yield data
    _sparse_tasks._parts.cache_clear()


def task(**given):
    facts = {"data": "words", "labels": True, "s": 2, "data_norm": 1.0}
    return TextTask(**(facts | {"feature_bound": None} | given))


def test_text_tasks_score_what_they_should(words):
    accuracy, loss, f1, error = task().of_constant(0)
    share = 1 - words.y_test.mean()
    assert accuracy == pytest.approx(share)
    assert error == pytest.approx(1 - share)
    assert loss == pytest.approx(0.6, abs=0.1)
    assert f1 == 0
    best = task().not_private(0)
    assert best[0] > 0.97
    stars = task(labels=False, target_bounds=(0.0, 1.0))
    assert stars.of_constant(0)[0] == pytest.approx(0, abs=0.05)
    assert stars.not_private(0)[0] > 0.5
    perfect = np.where(np.arange(10) == 0, 50.0, 0.0)
    found = task().of_weights(perfect, 0)
    assert (found[0], found[2], found[3]) == (1, 1, 0)
    assert found[1] > 0.3  # without an intercept the others are at one half


def test_an_oracle_never_sees_the_test_part(words):
    tuned = task().parts(FIRST_TUNING_RUN)
    assert tuned.X_train.shape[0] + tuned.X_test.shape[0] == 400
    assert (task().parts(0).X_test != words.X_test).nnz == 0
    rows = tuned.X_test.toarray()
    assert rows == pytest.approx(words.X_train.toarray()[4::5])


def test_text_lines_have_all_baselines(words):
    facts = {"data": "words", "labels": True, "data_norm": 1.0, "s": 2}
    found = list(
        _sparse_tables.text(
            task=facts,
            n_train=400,
            epsilon=[1000.0],
            adjacency=["replace_one"],
            solvers=["iht"],
            few_runs={"skdp, all features": 1, "skdp iht": 3},
            thesis=["DP-IGHT, clipped, exact"],
            table="2.3",
        )
    )
    methods = [line.method for line in found]
    assert methods == [
        "constant",
        "L1 logistic regression, not private",
        "skdp iht",
        "DP-IGHT, clipped, exact",
        "skdp, all features",
    ]
    assert found[1].note == "printed for IGHT: 0.0625"
    assert found[-1].most_runs == 1
    assert found[2].most_runs == 3
    assert found[3].most_runs is None
    (dense,) = found[-1].measure([0])
    assert dense[0] > 0.9
    (sparse,) = found[2].measure([0])
    assert 0 <= sparse[0] <= 1


def test_designs_have_public_bounds():
    made = SyntheticTask(Design(n=60, d=30, s=2, kind="rows"))
    low, high = made.target_bounds
    assert -low == high == 3 * made.design.deviation
    labels = SyntheticTask(Design(n=60, d=30, s=2, kind="rows", labels=True))
    assert labels.target_bounds is None


# ------------------------------------------------------------- the thesis's tables


def svmlight_lines(n, labels, rng):
    """Rows of five of forty columns, in svmlight form."""
    lines = []
    for _ in range(n):
        columns = np.sort(rng.choice(np.arange(1, 41), 5, replace=False))
        target = 2 * (1 in columns) - 1 if labels else -3 - float(2 in columns)
        lines.append(f"{target} " + " ".join(f"{column}:0.4" for column in columns))
    return "\n".join(lines).encode() + b"\n"


FILES = {
    "e2006": ("e2006_tfidf", "E2006.train.bz2", "E2006.test.bz2"),
    "rcv1": ("rcv1", "rcv1_train.binary.bz2", "rcv1_test.binary.bz2"),
}


@pytest.mark.parametrize("table", ["2_2", "2_3", "3_2", "3_3"])
def test_tables_of_the_thesis_run_where_their_files_are(table, tmp_path, monkeypatch):
    config = tomllib.loads(
        (_published.PUBLISHED / f"sparse_table_{table}.toml").read_text()
    )
    given = config["parameters"]
    folder, *files = FILES[given["task"]["data"]]
    (tmp_path / folder).mkdir()
    rng = np.random.default_rng(0)
    for name, n in zip(files, (120, 60), strict=True):
        content = svmlight_lines(n, given["task"]["labels"], rng)
        (tmp_path / folder / name).write_bytes(bz2.compress(content))
    monkeypatch.setenv("SKDP_DATA_HOME", str(tmp_path))
    _sparse_tasks._parts.cache_clear()
    # All but the sizes and the number of epsilons is the configuration's own.
    small = {"s": 3, "file_features": 40, "n_features": 30, "n_train": 100}
    given["task"] |= {key: small[key] for key in small if key in given["task"]}
    found = list(_sparse_tables.text(**given))
    first = min(given["epsilon"])
    assert {line.place["epsilon"] for line in found} == {*given["epsilon"], math.inf}
    for line in found:
        if line.place["epsilon"] not in (first, math.inf):
            continue
        settings = line.grid[0] if line.grid else {}
        (values,) = line.measure([0], **settings)
        assert all(map(math.isfinite, values))
        printed = line.method not in ("constant", "skdp auto")
        assert line.note.startswith("printed") == printed
    _sparse_tasks._parts.cache_clear()


def test_tables_of_the_thesis_are_refused_without_their_files(
    kept, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("SKDP_DATA_HOME", str(tmp_path))
    _sparse_tasks._parts.cache_clear()
    _published.run("sparse_table_2_3", folder=tmp_path)
    assert "refused: no folder 'rcv1'" in capsys.readouterr().out
    assert not kept
