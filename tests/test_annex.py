"""The house stands without the annex, and finds in it what users name."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

import skdp
from skdp import _configured
from skdp._configured import Registry
from skdp.decomposition._plain import FACTORIZERS
from skdp.io._sql import ENGINES
from skdp.linear_model._base import STREAMS
from skdp.losses._objective import LAYERS
from skdp.model_selection import METHODS
from skdp.neural_network import Convolution
from skdp.papers._accelerated import HeavyBall
from skdp.solvers import SOLVERS
from skdp.solvers._base import Solver
from skdp.solvers._descent import _RELEASES, NoisyGD
from tests.imports import graph, sources

PACKAGE = Path(skdp.__file__).parent
REGISTRIES = (FACTORIZERS, LAYERS, METHODS, SOLVERS, STREAMS, _RELEASES)


def is_of_papers(name):
    return name.split(".")[:2] == ["skdp", "papers"]


def ties(modules):
    """Modules of the house, and those of the annex that they import."""
    return {
        (name, target)
        for name, targets in graph(modules).items()
        for target in targets
        if is_of_papers(target) and not is_of_papers(name)
    }


def test_nothing_in_the_house_imports_the_annex():
    modules = sources(PACKAGE)
    assert sum(map(is_of_papers, modules)) > 10
    assert ties(modules) == set()


@pytest.mark.parametrize(
    "twin",
    [
        "from skdp.papers._momentum import SRM",
        "def f():\n    import skdp.papers._momentum",
        "def f():\n    from skdp import papers",
    ],
)
def test_broken_twin_that_imports_the_annex_is_found(twin):
    modules = {
        "skdp": "",
        "skdp.papers": "",
        "skdp.papers._momentum": "",
        "skdp.a": twin,
    }
    assert [name for name, _ in ties(modules)] == ["skdp.a"]


# Prints which modules of the annex were loaded by what ran before.
_LOADED = """
import sys
print(sorted(name for name in sys.modules if name.startswith("skdp.papers")))
"""
_FITS = """
import importlib
from pathlib import Path
import numpy as np
import skdp
root = Path(skdp.__file__).parent.parent
for path in sorted(root.glob("skdp/**/*.py")):
    parts = path.relative_to(root).with_suffix("").parts
    if parts[1] != "papers" and parts[-1] != "__main__":
        importlib.import_module(".".join(parts).removesuffix(".__init__"))
rng = np.random.default_rng(0)
X, y = rng.uniform(-1, 1, (200, 3)), rng.integers(0, 2, 200)
for delta in (1e-6, 0.0):
    model = skdp.DPLogisticRegression(1.0, delta=delta, classes=[0, 1])
    model.fit(X, y).predict(X)
skdp.DPLinearRegression(1.0, target_bounds=(0, 1), solver="nesterov").fit(X, y)
skdp.DPMLPClassifier(1.0, classes=[0, 1]).fit(X, y).predict(X)
hasattr(model, "partial_fit")
"""


def loaded(script):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script + _LOADED],
        cwd=PACKAGE.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()[-1]


@pytest.mark.long
def test_importing_the_house_and_fitting_by_default_loads_none_of_the_annex():
    assert loaded(_FITS) == "[]"


@pytest.mark.long
def test_broken_twin_that_names_a_solver_of_the_annex_loads_it():
    named = 'from skdp.solvers import SOLVERS\nSOLVERS["heavy_ball"]'
    assert "skdp.papers._accelerated" in loaded(named)


# ------------------------------------------------------------------------- registries


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda own: own.group)
def test_every_key_is_found_and_those_of_the_annex_are_last(registry):
    is_last = [is_of_papers(registry[key].__module__) for key in registry]
    assert any(is_last)
    assert is_last == sorted(is_last)
    assert len(registry) == len(list(registry)) == len(set(registry))


def test_all_kinds_are_of_the_table_that_pyproject_names():
    lines = (PACKAGE / "papers" / "entry_points.txt").read_text().splitlines()
    groups = {line.strip("[]") for line in lines if line.startswith("[")}
    assert groups == {registry.group for registry in (*REGISTRIES, ENGINES)}
    pyproject = (PACKAGE.parent / "pyproject.toml").read_text()
    assert 'entry-points = { file = "skdp/papers/entry_points.txt" }' in pyproject


def test_kinds_are_found_without_metadata_and_beside_stale_ones(monkeypatch):
    for stale in ([], [EntryPoint("srm", "skdp.solvers._srm:SRM", "skdp.solvers")]):
        monkeypatch.setattr(_configured, "entry_points", lambda group, own=stale: own)
        registry = Registry("skdp.solvers", {"noisy_gd": NoisyGD})
        assert set(SOLVERS) > set(registry) > {"heavy_ball", "srm"}
        assert registry["heavy_ball"] is HeavyBall
        assert registry["srm"].__module__ == "skdp.papers._momentum"


def test_entry_points_of_others_add_kinds_and_replace_none(monkeypatch):
    theirs = [
        EntryPoint("noisy_gd", "nowhere:Nothing", "skdp.solvers"),
        EntryPoint("a_first", "skdp.papers._momentum:SRM", "skdp.solvers"),
    ]
    monkeypatch.setattr(_configured, "entry_points", lambda group: theirs)
    registry = Registry("skdp.solvers", {"noisy_gd": NoisyGD})
    assert registry["noisy_gd"] is NoisyGD
    assert list(registry)[:2] == ["noisy_gd", "a_first"]
    assert registry["a_first"].key == "srm"


def test_a_kind_that_is_registered_is_named_as_all_others_are(monkeypatch):
    class Halved(NoisyGD):
        key = "halved"

    monkeypatch.setattr(SOLVERS, "_kinds", dict(SOLVERS._kinds))
    assert "halved" not in SOLVERS
    SOLVERS.register("halved", Halved)
    X, y = np.random.default_rng(0).uniform(-1, 1, (100, 2)), np.arange(100) % 2
    model = skdp.DPLogisticRegression(5.0, classes=[0, 1], solver="halved").fit(X, y)
    assert model.privacy_.solver == "halved"


@pytest.mark.parametrize("key", ["nothing", None, ["srm"], 3])
def test_errors_name_the_annex_last(key):
    model = skdp.DPLogisticRegression(float("inf"), classes=[0, 1], solver=key)
    with pytest.raises(ValueError, match=r"one of \['auto', 'adassp'.*'two_stage'\]"):
        model.fit(np.eye(2), [0, 1])


def test_layers_are_found_in_the_room_of_networks():
    from skdp.neural_network import Convolution as found

    assert found is Convolution
    with pytest.raises(AttributeError, match="no attribute 'Pooling'"):
        _ = skdp.neural_network.Pooling


def test_kinds_are_what_their_registry_is_of():
    assert all(issubclass(kind, Solver) for kind in SOLVERS.values())
    assert _RELEASES["last"].key == NoisyGD.key
