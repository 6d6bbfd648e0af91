"""Rules about the source that a machine can hold: where things may come from."""

from __future__ import annotations

import ast
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


def entropy_used(source):
    return sorted(set(names_used(ast.parse(source))) & set(ENTROPY))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_entropy_enters_in_one_place(path):
    if path.name == "_entropy.py":
        return
    assert entropy_used(path.read_text()) == []


def test_broken_twin_with_its_own_generator_is_found():
    twin = "import numpy as np\nx = np.random.default_rng(0).normal()"
    assert entropy_used(twin) == ["default_rng", "random"]


def noise_used(source):
    """Whether a module gets at noise without asking."""
    names = {"_noise", "NoiseSource", "LocalAnswers"}
    return sorted(set(names_used(ast.parse(source))) & names)


@pytest.mark.parametrize(
    "package", ["linear_model", "preprocessing", "model_selection"]
)
def test_noise_is_had_by_asking(package):
    for path in sorted((PACKAGE / package).glob("*.py")):
        assert noise_used(path.read_text()) == [], path.name


def test_broken_twin_with_a_noise_source_is_found():
    twin = "from skdp.privacy._noise import NoiseSource\nx = NoiseSource(None)"
    assert noise_used(twin) == ["NoiseSource", "_noise"]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_only_public_names_of_scikit_learn(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            "sklearn"
        ):
            parts = [*node.module.split("."), *(alias.name for alias in node.names)]
            assert not any(part.startswith("_") for part in parts)


def loaded_after(statement):
    code = f"import sys; {statement}; print(' '.join(sys.modules))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return set(result.stdout.split())


def test_import_is_lazy():
    assert not loaded_after("import skdp") & {"numpy", "scipy", "sklearn", "pandas"}


def solvers_of(modules):
    return sorted(name for name in modules if name.startswith("skdp.solvers"))


def test_transformers_know_no_solver():
    assert solvers_of(loaded_after("import skdp.preprocessing")) == []


def test_broken_twin_that_loads_a_solver_is_found():
    twin = "import skdp.preprocessing, skdp.linear_model"
    assert "skdp.solvers._noisy_gd" in solvers_of(loaded_after(twin))


def test_accounting_path_imports_nothing_heavy():
    loaded = loaded_after("from skdp.privacy import calibrate, epsilon_of")
    heavy = {"dp_accounting", "sklearn", "pandas", "numba", "torch", "scipy.optimize"}
    assert not loaded & heavy


def test_public_names_exist_and_unknown_ones_do_not():
    for name in skdp.__all__:
        assert getattr(skdp, name) is not None
    assert set(skdp.__all__) <= set(dir(skdp))
    with pytest.raises(AttributeError, match="no attribute 'Missing'"):
        skdp.Missing  # noqa: B018 - the access is what is tested


def test_every_public_class_and_function_is_documented():
    for name in skdp.__all__:
        if name != "__version__":
            assert "Parameters" in getattr(skdp, name).__doc__ or "Remedy" in (
                getattr(skdp, name).__doc__
            ), name
