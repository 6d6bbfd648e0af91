"""Rules about the source that a machine can hold: where things may come from."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import skdp

PACKAGE = Path(skdp.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
ENTROPY = ("random", "secrets", "urandom", "default_rng", "RandomState", "Philox")


def names_used(tree):
    """Every imported module part and attribute name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from alias.name.split(".")
        elif isinstance(node, ast.ImportFrom):
            yield from (node.module or "").split(".")
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute):
            yield node.attr


@pytest.fixture(scope="module")
def trees():
    """Every module, parsed once, by its path in the package."""
    return {path.relative_to(PACKAGE): ast.parse(path.read_text()) for path in FILES}


def entropy_used(tree):
    return sorted(set(names_used(tree)) & set(ENTROPY))


def test_entropy_enters_in_one_place(trees):
    found = {path for path, tree in trees.items() if entropy_used(tree)}
    # Centres of k-means are drawn from a public seed, which is the same in every fit.
    public = Path("cluster/_k_means.py")
    assert found == {Path("privacy/noise/_rounding.py"), public}
    assert entropy_used(trees[public]) == ["RandomState", "random"]


def test_broken_twin_with_its_own_generator_is_found():
    twin = "import numpy as np\nx = np.random.default_rng(0).normal()"
    assert entropy_used(ast.parse(twin)) == ["default_rng", "random"]


def private_names_of_scikit_learn(tree):
    """Imports from scikit-learn with a leading underscore anywhere."""
    return [
        node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("sklearn")
        and any(
            part.startswith("_")
            for part in [*node.module.split("."), *(name.name for name in node.names)]
        )
    ]


def test_only_public_names_of_scikit_learn(trees):
    found = {
        path for path, tree in trees.items() if private_names_of_scikit_learn(tree)
    }
    assert found == set()


@pytest.mark.parametrize(
    "twin",
    [
        "from sklearn.utils._set_output import f",
        "from sklearn.base import _fit_context",
    ],
)
def test_broken_twin_with_a_private_name_is_found(twin):
    assert private_names_of_scikit_learn(ast.parse(twin))


# From the lightest on: what is loaded after a step was loaded by it or before it.
STEPS = {
    "nothing": "import skdp",
    "accounting": "from skdp.privacy import calibrate, epsilon_of",
    "transformers": "import skdp.preprocessing",
    "models": "import skdp.linear_model",
    "fits": (
        "import numpy, warnings; warnings.simplefilter('ignore'); "
        "skdp.DPLogisticRegression(classes=[0, 1]).fit(numpy.eye(4), [0, 1, 0, 1])"
    ),
    "sources": "import skdp; skdp.SqlSource",
    "engines": "skdp.DaskSource",
}


@pytest.fixture(scope="module")
def loaded():
    """Modules that are loaded after each of the steps, in one process."""
    shown = "; print(*sys.modules)\n"
    code = "import sys\n" + shown.join([*STEPS.values(), ""])
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    lines = [set(line.split()) for line in result.stdout.splitlines()]
    return dict(zip(STEPS, lines, strict=True))


def test_import_is_lazy(loaded):
    assert not loaded["nothing"] & {"numpy", "scipy", "sklearn", "pandas"}


def solvers_of(modules):
    return sorted(name for name in modules if name.startswith("skdp.solvers"))


def test_transformers_know_no_solver(loaded):
    assert "skdp.preprocessing" in loaded["transformers"]
    assert solvers_of(loaded["transformers"]) == []


def engines_of(modules):
    return sorted(name for name in modules if name.startswith("skdp.io.engines"))


def test_fits_and_sources_load_no_engine(loaded):
    assert "skdp.solvers._exact" in loaded["fits"]
    assert "skdp.io._sql" in loaded["sources"]
    for step in ("fits", "sources"):
        assert engines_of(loaded[step]) == []


def test_broken_twin_that_loads_an_engine_is_found(loaded):
    assert "skdp.io.engines._dask" in engines_of(loaded["engines"])


def test_accounting_path_imports_nothing_heavy(loaded):
    heavy = {"dp_accounting", "sklearn", "pandas", "numba", "torch", "scipy.optimize"}
    assert "skdp.privacy.accounting._calibrate" in loaded["accounting"]
    assert not loaded["accounting"] & heavy


def test_public_names_exist_and_unknown_ones_do_not():
    for name in skdp.__all__:
        assert getattr(skdp, name) is not None
    assert set(skdp.__all__) <= set(dir(skdp))
    with pytest.raises(AttributeError, match="no attribute 'Missing'"):
        skdp.Missing  # noqa: B018 - the access is what is tested


@pytest.mark.parametrize(
    ("room", "public"),
    [
        ("tables", set()),
        ("sums", set()),
        ("solvers", {"SOLVERS"}),
    ],
)
def test_private_rooms_offer_no_more_than_their_registry(room, public):
    module = importlib.import_module(f"skdp.{room}")
    assert {name for name in vars(module) if not name.startswith("_")} == public


def test_every_public_class_and_function_is_documented():
    for name in skdp.__all__:
        if name != "__version__":
            assert "Parameters" in getattr(skdp, name).__doc__ or "Remedy" in (
                getattr(skdp, name).__doc__
            ), name
