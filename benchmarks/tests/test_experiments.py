"""Every benchmark yields valid lines, and one small cell of each kind is measured."""

from __future__ import annotations

import warnings
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import (
    _families,
    _tables,
    boosting,
    clusters,
    declared,
    default,
    edges,
    intervals,
    peers,
    sources,
    sparse,
    speed,
    tabular,
    users,
)
from benchmarks.__main__ import benchmarks
from benchmarks._models import MODELS, REFERENCES, Facts, metrics_of, scored
from benchmarks._results import versions_of
from skdp.columns import Categories, Range

ALL = {name: each for group in benchmarks().values() for name, each in group.items()}
# Their lines read a table, or another package, before they are measured.
READS = ("planted_bugs", "acceleration", "hard_edges", "installed_size", "bolt_on")


@pytest.fixture(autouse=True)
def no_data(tmp_path, monkeypatch):
    monkeypatch.setenv("SKDP_DATA_HOME", str(tmp_path))
    for cached in (
        default.training_rows,
        declared._loaded,
        peers._loaded,
        peers._parts,
    ):
        cached.cache_clear()
    _tables.table.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", [name for name in ALL if not name.startswith(READS)])
def test_lines_are_valid(name):
    """Of tables that are not at hand there are none."""
    columns, metrics, seen = set(), set(), set()
    try:
        for line in ALL[name].lines():
            columns.add(tuple(line.place))
            metrics.add(line.metrics)
            where = (str(line.place), line.method, line.adjacency)
            assert where not in seen
            seen.add(where)
            assert (line.measure is None) == bool(
                line.refusal or "printed" in line.method
            )
            assert line.true is None or line.true > 0
            assert line.judge is None or ALL[name].judged
    except _tables.MissingData:
        return
    assert not columns or len(columns) == len(metrics) == 1


def made_up(n=300):
    """A declared table of two columns with labels that the first one explains."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, n)
    X = pd.DataFrame({"x": x, "kind": rng.choice(["a", "b"], n)})
    y = (x + 0.2 * rng.normal(size=n) > 0).astype(int)
    known = {"x": Range(-1, 1), "kind": Categories(["a", "b"])}
    held = np.arange(n) % 5 == 0
    return _tables.Declared(known, [0, 1], None, {}), _tables.Table(X, y, held)


@pytest.fixture
def table(monkeypatch):
    """Every declared table is the made-up one."""
    known, found = made_up()
    for module in (_tables, default, declared, boosting, tabular):
        for name, value in (("declared", known), ("table", found)):
            if hasattr(module, name) and not isinstance(getattr(module, name), tuple):
                monkeypatch.setattr(module, name, lambda _, value=value: value)
    return known


def first(name, **given):
    """The values of the first line that is measured, for one run."""
    lines = (line for line in ALL[name].lines(**given) if line.measure)
    return np.array(list(next(lines).measure([0])), dtype=float).ravel()


@pytest.mark.parametrize("name", ["default", "default_permuted", "default_ceiling"])
def test_defaults_of_a_made_up_table(name, table):
    values = first(name)
    assert np.isfinite(values).all()
    assert len(values) == len(next(iter(ALL[name].lines())).metrics)


@pytest.mark.parametrize("name", ["default", "as_encoded", "boosted", *REFERENCES])
def test_models_of_a_made_up_table(name, table):
    parts = _tables.parts("any", 0, "report")
    facts = Facts(table, 5.0, 1e-3, "zero_out", 0)
    model = REFERENCES[name](table) if name in REFERENCES else MODELS[name](facts)
    found = dict(zip(metrics_of(table), scored(model, parts, table), strict=True))
    assert 0.3 < found["accuracy"] <= 1
    assert found["AUC"] == 0.5 if name == "constant" else found["AUC"] > 0.6


@pytest.mark.parametrize("name", tabular.MODELS)
def test_models_and_rivals_of_a_made_up_table(name, table):
    model = tabular.MODELS[name]
    if versions_of(*model.packages) is None:
        pytest.skip(f"{model.packages} not installed")
    if not model.suits(table):
        return
    relation = (*model.adjacencies, "")[0]
    settings = model.grid[-1] if model.grid else {}
    tuning, report = tabular._measured(
        "any", model, relation, 50.0, [1000, 0], **settings
    )
    assert len(tuning) == len(report) == len(tabular.METRICS)
    assert np.isfinite(report).all()


def test_cells_are_positions_and_places(table):
    X = made_up()[1].X.assign(kind="neither")
    rows, ends, is_listed = tabular.cells(table, X)
    assert rows[:, 0] == pytest.approx(X["x"])
    assert set(rows[:, 1]) == {2.0}
    assert ends.tolist() == [[-1, 0], [1, 2]]
    assert is_listed.tolist() == [False, True]


def test_ours_are_counted_beside_rivals_and_later_rows_replace_earlier_ones():
    def rows(boosting, linear, rival):
        values = {
            tabular.BOOSTING: boosting,
            tabular.LINEAR: linear,
            tabular.TUNED: rival,
        }
        frame = pd.DataFrame(
            [
                ("adult", "zero_out", 1.0, method, value, 0.002)
                for method, value in values.items()
            ],
            columns=[*tabular._KEY, tabular._SCORE, tabular._ERROR],
        )
        return frame.set_index(tabular._KEY)

    ahead, behind = rows(0.32, 0.30, 0.31), rows(0.32, 0.34, 0.31)
    counts = "\n".join(tabular.counted(ahead))
    assert f"better of both | {tabular.TUNED} | 1 | 0 | 0 |" in counts
    assert f"| boosting | {tabular.TUNED} | 0 | 0 | 1 |" in counts
    both = tabular.merged([ahead, behind])
    assert len(both) == 3
    assert f"better of both | {tabular.TUNED} | 0 | 0 | 1 |" in "\n".join(
        tabular.counted(both)
    )
    assert "| adult | 1 | **0.320** | 0.340 |" not in tabular.rendered(both)
    assert "| adult | 1 | 0.320 | 0.340 |  |  | **0.310** |" in tabular.rendered(both)
    # An error as large as the gain decides nothing.
    assert tabular.verdict(0.01, 0.006) == "even"


def test_the_page_shows_what_is_saved():
    assert tabular.rendered(tabular.read(tabular.SAVED)) in tabular.PAGE.read_text()


def test_parts_to_settle_by_never_touch_the_test_part(table):
    settle, report = (_tables.parts("any", 1, part) for part in ("settle", "report"))
    rows = [set(part["x"]) for part in (settle.X_train, settle.X, report.X)]
    assert not rows[0] & rows[1]
    assert not (rows[0] | rows[1]) & rows[2]
    assert len(_tables.parts("any", 1, "settle", 10).y_train) == 10


@pytest.mark.parametrize("name", [*_tables.DECLARED])
def test_declarations_name_their_sources(name):
    known = _tables.declared(name)
    assert {"table", "target"} <= set(known.notes)
    assert (known.classes is None) != (known.target_bounds is None)
    assert set(known.names) <= set(known.notes)


@pytest.mark.parametrize(
    ("gains", "said"),
    [([0.01, 0.011], "won"), ([-0.01, -0.011], "lost"), ([0.1, -0.1], "even")],
)
def test_verdicts_of_paired_gains(gains, said):
    assert peers.verdict(np.array(gains)) == said
    assert peers.verdict(np.array(gains[:1])) == "one seed only"


def test_ours_and_a_reference_see_the_same_splits(monkeypatch):
    monkeypatch.setattr(peers, "DATA", {"breast_cancer": peers.DATA["breast_cancer"]})
    lines = [line for line in peers.contest() if line.place["epsilon"] == 2.0]
    ours, reference = (
        next(line for line in lines if line.method.startswith(name))
        for name in ("skdp", "reference: noisy")
    )
    assert reference.rival == ours.method
    values = [np.array(list(ours.measure([0, 1])))]
    values.append(np.array(list(reference.measure([0, 1], **reference.grid[0]))))
    assert all(each.shape == (2, 3) and each[:, 0].min() > 0.5 for each in values)
    assert "accuracy" in reference.judge(*values[::-1])
    assert peers.tally([(ours, values[0]), (reference, values[1])])
    # The oracle's seeds are apart from those that are reported.
    (tuned,) = reference.measure([1000], **reference.grid[0])
    (seed_100,) = peers._measured(
        peers.PEERS[4],
        peers.Cell("breast_cancer", "replace_one", 2.0, False),
        [100],
        **reference.grid[0],
    )
    assert tuned[:2] == seed_100[:2]


def test_an_excess_beyond_what_is_allowed_is_marked():
    lost = np.array([[0.9, 0.7, 0.8], [0.91, 0.7, 0.8]])
    assert "MISSED" in edges._excess(0.01, lost, None)
    assert "MISSED" not in edges._excess(0.3, lost, None)
    assert "MISSED" in default._excesses(lost[:, [0, 1, 2, 2]], None)


def test_a_hostile_cell_and_a_hard_edge():
    cell = edges.Cell(200, 5, 1.0)
    loss, intercept, free = edges.losses(cell, edges.DEFAULTS["logistic, columns"], 0)
    assert free == pytest.approx(np.log(2))
    assert loss < 1
    assert intercept < 1
    weights, constant, best = edges._both_losses(
        edges.DPLogisticRegression, "few", (1.0, 1e-6), 0
    )
    assert best <= constant + 1e-9
    assert np.isfinite(weights)


def test_constants_are_chosen_without_the_table_that_is_left_out():
    moved = default._named((("_NOISE", 0.5),))
    losses = {
        (name, default._named(values)): 1.0
        for name in "abc"
        for values in ((), *default._moves())
    }
    losses["a", moved] = 0.1
    assert default.chosen_by_others(losses, "a") == ()
    assert default.chosen_by_others(losses, "b") == (("_NOISE", 0.5),)


def test_stated_bands_are_compared_with_those_that_are_seen():
    rng, one = np.random.default_rng(0), np.ones(500)
    # Fits that kept other shares of their trees have other means and other noise.
    kept = [1.0, 0.5] * 20
    fits = [
        boosting.Entries(share * rng.normal(size=500) + 9 * share, share * one, one)
        for share in kept
    ]
    names = dict(zip(boosting._METRICS, boosting.compared(fits, kept), strict=True))
    assert names["0.5"] == pytest.approx(1, abs=0.05) == names["codes 0.5"]
    within = names["within 1"], names["2"]
    assert within == pytest.approx([0.683, 0.954], abs=0.02)
    twin = [each._replace(noise=each.noise / 2) for each in fits]
    assert boosting.compared(twin, kept)[4] > 1.8


def test_coverage_is_that_of_the_coefficients():
    held, width = intervals.covered(intervals.sample(2000, 2, 0), 8.0, "zero_out")
    assert 0 <= held <= 1
    assert width > 1
    shown = intervals._summary(
        np.array([[1.5, 1, 0, np.nan], [np.inf, 1, 1, np.nan]]), 0
    )
    assert shown == "given 50 %, holds 50.0 ± 0.0 %, least 0.0 %, width 1.50"


def test_two_calls_take_turns():
    order = []
    pair = (lambda: order.append("a")), (lambda: order.append("b"))
    (times,) = speed.in_turn(lambda: pair, [0])
    assert order == ["a", "b", "a", "b"]
    named = dict(zip(speed.METRICS, times, strict=True))
    assert named["ratio"] == named["s"] / named["beside s"]
    assert np.isnan(named["peer s"])


def test_peak_memory_is_what_a_call_takes():
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("needs Linux: nothing else forgets the peak of a process")
    _, taken = speed.measured(lambda: np.ones(10_000_000).sum())
    _, nothing = speed.measured(lambda: None)
    assert 75 < taken < 100
    assert nothing < 5


@pytest.mark.parametrize("what", _families.FAMILIES)
def test_families_have_models_of_both_libraries(what):
    family = _families.FAMILIES[what]
    makers = [family.ours, family.beside]
    for call in speed._of_family(family.target, makers, 60, 12):
        call()


def test_a_billion_rows_are_simulated_from_measured_costs():
    def line(place, rows, worker, client, messages):
        values = [0.1, 0.1, worker, client, messages, messages * 3.0, messages]
        where = {"place": place, "rows": rows, "n": 1_000_000}
        return clusters._line(**where, opened=None), np.array([values])

    lines = [
        line(clusters._ONE, clusters._KEPT, 0.05, 0.022, 2),
        line(clusters._TWO, "4 parts", 0.0, 0.02 + 4 * 0.001, 4),
        line(clusters._TWO, "200 parts", 0.0, 0.02 + 200 * 0.001, 200),
    ]
    costs = clusters.costs_of(lines, clusters._KEPT)
    assert costs.row == pytest.approx(50e-9)
    assert (costs.fixed, costs.message) == pytest.approx((0.02, 0.001))
    assert costs.sent == pytest.approx(4000)
    assert costs.rows(1e9, 100) == pytest.approx(0.5)
    assert costs.tree(200) < costs.flat(200)
    assert clusters.costs_of(lines, clusters._ANEW) is None
    assert "| 100 | 0.5 |" in "\n".join(clusters.simulated(lines))


def test_what_a_source_moves_is_counted(tmp_path):
    pytest.importorskip("pyarrow")
    with ExitStack() as stack:
        (source,) = clusters._in_parquet(3000, 0, stack)
        moved = clusters.counted(source)
        source.during(lambda: list(source.rows(source.reading())))
    assert moved.back == pytest.approx(3000 * (20 * 4 + 2), rel=0.02)


def test_the_plain_epoch_has_the_gradients_of_the_exact_one():
    exact, plain = speed._epochs(300, 1, np.float64)
    (total,) = exact()
    assert total.shape == (784 * 128 + 128 + 128 * 10 + 10,)
    assert [each.shape for each in plain()] == [(784, 128), (128, 10)]


@pytest.mark.parametrize("kind", ["Parquet", "memory"])
def test_a_pass_over_a_source_takes_time(kind):
    pytest.importorskip("pyarrow")
    (values,) = sources._passes(kind, 3000, (0, None), [0])
    assert len(values) == 3
    assert values[1] > 0


def test_persons_are_dealt_all_their_rows():
    n = 400
    X = pd.DataFrame({name: 1000 + np.arange(n) for name in users._OF_A_PERSON})

    class Data:
        X_train, y_train = X, 1000 + np.arange(n)

    rows = users.dealt(Data, 50, alike=True, seed=0)
    assert len(np.unique(rows.ids)) == 50
    assert np.bincount(rows.ids).max() <= 5
    assert np.array_equal(rows.X["age"].to_numpy(), rows.y)
    # Neighbours after sorting: rows of a person are alike.
    for own in np.unique(rows.ids):
        assert np.ptp(rows.y[rows.ids == own]) < 5


def test_a_sparse_design_is_what_it_says():
    design = sparse.Design(200, 50, 5, "rows")
    sample = design.sample(3)
    assert np.count_nonzero(sample.weights) == 5
    assert np.linalg.norm(sample.X, axis=1).max() <= design.data_norm * (1 + 1e-6)
    task = sparse.SyntheticTask(design)
    assert task.of_constant(3) == (1.0, 0.0)
    assert task.not_private(3)[0] < 0.5
    lines = list(
        sparse.lines(
            task,
            200,
            [("replace_one", 8.0)],
            solvers=("auto",),
            delta=0.01,
            thesis=tuple(sparse.METHODS),
        )
    )
    assert [line.private for line in lines] == [False, False, True, *[False] * 4]
    for line in lines[2:]:
        settings = line.grid[0] if line.grid else {}
        (found,) = line.measure([0], **settings)
        assert len(found) == 2
    clipped = {line.method: line.true for line in lines[3:]}
    assert clipped["DP-IGHT, clipped, exact"] == pytest.approx(8.0, abs=1e-3)
    assert clipped["DP-IGHT, clipped, theorem 2.5.2"] > 8.0
    assert replace(lines[2], grid=()).claimed == 8.0
