"""The table of peers: pairing, tuning, verdicts, resuming, and what is not there."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from benchmarks import _contest
from benchmarks.__main__ import main
from benchmarks._contest import Choice, cells, verdict
from benchmarks._data import load, split
from benchmarks._peers import OURS, PEERS, Cell, Contestant, Job, source_stamp

CONFIG = """
title = "small"
seeds = 3
tuning_seeds = 2
first_tuning_seed = 100
[grids.strength]
C = [1e-6, 1.0, -1.0]
[datasets.breast_cancer.seeds]
"slow" = 1
[[cells]]
dataset = "breast_cancer"
adjacency = "zero_out"
epsilon = 1.0
target = 0.5
[[cells]]
dataset = "adult"
adjacency = "zero_out"
epsilon = 1.0
"""


EIGHT = "a9a adult breast_cancer covertype digits kddcup99 mnist w8a"


class Asked:
    """Builds scikit-learn models and remembers for which seeds and settings."""

    def __init__(self) -> None:
        self.jobs: list[tuple[int, dict[str, float]]] = []

    def __call__(self, job: Job, settings: dict[str, float]) -> LogisticRegression:
        self.jobs.append((job.seed, dict(settings)))
        if settings.get("C", 1.0) < 0:
            raise ValueError("no such strength")
        return LogisticRegression(**settings)


def contestant(name: str, build: object, *, stamp: str | None = "1", grid=None):
    return Contestant(
        name=name,
        stamp=lambda: stamp,
        build=build,
        asked_as=lambda cell, n_classes: cell,
        grid=grid,
    )


@pytest.fixture
def contest(tmp_path, monkeypatch):
    """A function that runs the small table with the given contestants."""
    (tmp_path / "small.toml").write_text(CONFIG)
    monkeypatch.setenv("SKDP_DATA_HOME", str(tmp_path))

    def run(mine: Contestant, *peers: Contestant, **choice: object) -> None:
        monkeypatch.setattr(_contest, "OURS", mine)
        monkeypatch.setattr(_contest, "PEERS", peers)
        results, config = tmp_path / "kept" / "peers.json", tmp_path / "small.toml"
        _contest.run(Choice(results=results, config=config, **choice))

    run.folder = tmp_path / "kept"
    return run


@pytest.mark.parametrize(
    ("gains", "expected"),
    [
        ([-0.003, -0.003, -0.003], "lost"),
        ([-0.0019, -0.0019], "even"),
        ([0.003, 0.003, 0.003], "won"),
        ([-0.03, -0.01, 0.01], "even"),  # within three standard errors
        ([-0.5], "one seed only"),
    ],
)
def test_a_cell_is_lost_below_the_larger_of_two_bars(gains, expected):
    assert verdict(gains) == expected


def test_same_splits_for_all_and_a_verdict_from_paired_gains(contest, capsys):
    ours, weak = Asked(), Asked()
    contest(
        contestant("ours", ours), contestant("weak", lambda j, s: weak(j, {"C": 1e-6}))
    )
    lines = capsys.readouterr().out.splitlines()
    assert (
        [seed for seed, _ in ours.jobs] == [seed for seed, _ in weak.jobs] == [0, 1, 2]
    )
    (row,) = [line for line in lines if "| weak |" in line]
    assert row.count("| won |") == 2
    X, y = load("breast_cancer")
    gains = []
    for seed in range(3):
        a, b, c, d = split(X, y, seed)
        accuracy = [LogisticRegression(C=C).fit(a, b).score(c, d) for C in (1, 1e-6)]
        gains.append(accuracy[0] - accuracy[1])
    assert f"{np.mean(gains):+.4f} ± {np.std(gains, ddof=1) / 3**0.5:.4f}" in row
    assert any("| fixed target | 0.5000 |" in line and "won" in line for line in lines)
    assert any("adult | refused" in line and "data.md" in line for line in lines)
    assert (contest.folder / "peers.md").read_text().splitlines() == lines


def test_lost_cells_are_listed_at_the_end(contest, capsys):
    contest(
        contestant("ours", lambda j, s: LogisticRegression(C=1e-6)),
        contestant("strong", Asked()),
    )
    end = capsys.readouterr().out.split("Verdicts:")[1]
    where = "breast_cancer zero_out epsilon=1 delta=n^-2, accuracy, against strong"
    assert f"- lost: {where}" in end
    assert "accuracy, against" in end
    assert "over 1 cells" in end


def test_stored_scores_are_printed_without_measuring(contest, capsys):
    mine, peer = contestant("skdp", Asked()), contestant("peer", Asked())
    contest(mine, peer)
    measured = capsys.readouterr().out
    asked = Asked()
    contest(contestant("skdp", asked), peer, ours=False, peers=False)
    assert asked.jobs == []
    assert capsys.readouterr().out == measured


def test_an_oracle_tunes_on_other_seeds_and_once(contest, capsys):
    tuned = Asked()
    peer = contestant("tuned", tuned, grid="strength")
    contest(contestant("ours", Asked()), peer)
    tried = [job for job in tuned.jobs if job[0] >= 100]
    assert len(tried) == 6  # three strengths, two seeds; one refuses
    assert tuned.jobs[6:] == [(seed, {"C": 1.0}) for seed in range(3)]
    assert "tuned: C=1 |" in capsys.readouterr().out
    tuned.jobs.clear()
    contest(contestant("ours", Asked()), peer)
    assert tuned.jobs == []


def test_an_interrupted_run_goes_on_where_it_stopped(contest):
    class Interrupted(Asked):
        def __call__(self, job, settings):
            if job.seed == 2:
                raise KeyboardInterrupt
            return super().__call__(job, settings)

    ours, peer = Asked(), Asked()
    with pytest.raises(KeyboardInterrupt):
        contest(contestant("ours", ours), contestant("peer", Interrupted()))
    assert len(ours.jobs) == 3
    contest(contestant("ours", ours), contestant("peer", peer))
    assert len(ours.jobs) == 3
    assert peer.jobs == [(2, {})]


def test_a_slow_method_has_fewer_seeds_and_no_verdict_from_one(contest, capsys):
    slow = Asked()
    contest(contestant("ours", Asked()), contestant("slow", slow))
    assert slow.jobs == [(0, {})]
    (row,) = [line for line in capsys.readouterr().out.splitlines() if "| slow" in line]
    assert row.count("| one seed only |") == 2


def test_results_of_another_version_are_measured_again(contest):
    ours = Asked()
    contest(contestant("ours", ours), contestant("peer", Asked()))
    contest(contestant("ours", ours, stamp="2"), contestant("peer", Asked()))
    assert len(ours.jobs) == 6


def test_only_ours_takes_the_peers_as_stored_even_if_not_installed(contest, capsys):
    contest(contestant("ours", Asked()), contestant("peer", Asked()), ours=False)
    assert "| ours | not measured |" in capsys.readouterr().out
    peer = Asked()
    contest(
        contestant("ours", Asked()), contestant("peer", peer, stamp=None), peers=False
    )
    (row,) = [line for line in capsys.readouterr().out.splitlines() if "| peer" in line]
    assert "| even |" in row
    assert peer.jobs == []


def test_missing_and_failing_peers_are_reported(contest, capsys):
    def broken(job, settings):
        raise RuntimeError("out of\nmemory")

    contest(
        contestant("ours", lambda j, s: OURS.build(replace_pure(j), s)),
        contestant("absent", Asked(), stamp=None),
        contestant("broken", broken),
    )
    out = capsys.readouterr().out
    assert "| absent | not installed |" in out
    assert "| broken | refused: RuntimeError: out of memory |" in out


def replace_pure(job: Job) -> Job:
    return replace(job, cell=replace(job.cell, pure=True))


def test_a_guarantee_is_only_compared_with_its_like():
    peers = {peer.name: peer for peer in PEERS}
    pure = Cell(dataset="adult", adjacency="replace_one", epsilon=1.0, pure=True)
    other = replace(pure, adjacency="zero_out", pure=False)
    library = peers["diffprivlib, tuned C (delta 0)"]
    assert library.asked_as(replace(pure, pure=False), 2) == pure
    assert library.asked_as(other, 2) is None
    opacus = peers["Opacus, tuned (add/remove)"]
    assert opacus.asked_as(pure, 2) is None
    assert opacus.asked_as(other, 2) == other
    for peer in PEERS:
        asked = peer.asked_as(other, 10)
        assert asked is None or not peer.private or asked == other


def test_ours_has_every_default_and_the_cells_guarantee():
    cell = Cell(dataset="adult", adjacency="zero_out", epsilon=0.5)
    job = Job(cell=cell, n_train=500, classes=(0, 1), seed=7)
    given = OURS.build(job, {}).get_params()
    changed = {
        name
        for name, value in type(OURS.build(job, {}))().get_params().items()
        if given[name] != value
    }
    assert changed == {"epsilon", "delta", "adjacency", "classes"}
    assert given["delta"] == 4e-6
    assert OURS.stamp() == source_stamp()


def test_the_published_table_names_methods_and_grids_that_exist():
    config = tomllib.loads(Choice().config.read_text())
    names = {peer.name for peer in PEERS}
    grids = {peer.grid for peer in PEERS if peer.grid}
    assert set(config["grids"]) == grids
    for own in config["datasets"].values():
        assert set(own) <= {"tuning_seeds", "grids", "seeds", "like", "rows"}
        assert own.get("like", "adult") in config["datasets"]
        assert set(own.get("grids", {})) <= grids
        assert set(own.get("seeds", {})) <= names
    rows = config["cells"]
    assert set(config["datasets"]) <= {row["dataset"] for row in rows}
    for row in rows:
        assert set(row) <= {"dataset", "adjacency", "epsilon", "pure", "target"}


def test_the_published_table_has_every_cell_once():
    measured = [cell for cell, _ in cells(tomllib.loads(Choice().config.read_text()))]
    assert len({cell.key for cell in measured}) == len(measured)
    assert set(measured) >= {
        Cell(dataset=name, adjacency=adjacency, epsilon=epsilon, pure=pure)
        for name in EIGHT.split()
        for adjacency in ("replace_one", "zero_out")
        for epsilon in (0.05, 0.1, 0.5, 1.0, 2.0)
        for pure in (False, True)
    }


def test_a_limit_on_the_records_is_stated_and_stamped(contest, capsys):
    config = CONFIG.replace(
        "[datasets.breast_cancer.seeds]", "[datasets.breast_cancer]\nrows = 100"
    ).replace('"slow" = 1', "")
    (contest.folder.parent / "small.toml").write_text(config)
    contest(contestant("ours", Asked()), datasets=("breast_cancer",))
    assert "| breast_cancer (100 records) | zero_out" in capsys.readouterr().out
    stored = json.loads((contest.folder / "peers.json").read_text())
    entry = stored["breast_cancer zero_out epsilon=1 delta=n^-2"]["ours"]
    assert entry["stamp"] == "1, 100 rows"
    assert len(load("breast_cancer", 100)[1]) == 100


def test_a_data_set_may_be_treated_like_another(contest):
    config = CONFIG + "[datasets.other]\nlike = 'breast_cancer'\nrows = 3"
    table = _contest._Table(Choice(), tomllib.loads(config))
    assert table.own("other")["seeds"] == {"slow": 1}
    assert table.own("other")["rows"] == 3
    assert table.own("absent") == {}


def test_the_command_passes_its_filters_on(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(_contest, "run", seen.append)
    file = tmp_path / "a.json"
    main(["peers", "--dataset", "adult", "--ours-only", "--results", str(file)])
    assert seen == [Choice(datasets=("adult",), peers=False, results=file)]
    with pytest.raises(SystemExit):
        main(["peers", "--ours-only", "--peers-only"])
    with pytest.raises(SystemExit):
        main(["peers", "--dataset", "adlut"])


def test_the_results_file_is_readable_json(contest):
    contest(contestant("ours", Asked()))
    stored = json.loads((contest.folder / "peers.json").read_text())
    entry = stored["breast_cancer zero_out epsilon=1 delta=n^-2"]["ours"]
    assert entry["stamp"] == "1"
    assert set(entry["scores"]) == {"0", "1", "2"}
