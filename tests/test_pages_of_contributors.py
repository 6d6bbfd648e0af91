"""Pages on losses, sources and estimators: their examples run, with planted bugs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest

from skdp.exceptions import SourceError
from tests.bugs.bug import ROOT

PAGES = ("adding_a_loss", "adding_a_source", "adding_an_estimator")


def page(name):
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def blocks_of(text, language="python"):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


@pytest.fixture
def module_of(monkeypatch):
    """All blocks of Python of a page as one module, which pickles can name."""

    def made(text):
        module = ModuleType("page")
        monkeypatch.setitem(sys.modules, "page", module)
        for code in blocks_of(text):
            exec(compile(code, "page", "exec"), vars(module))
        return module

    return made


def changed(text, old, new):
    assert text.count(old) == 1
    return text.replace(old, new)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_short(name):
    words = re.sub(r"^```.*?^```$", "", page(name), flags=re.DOTALL | re.MULTILINE)
    assert len(words.split()) <= 500


# A loss --------------------------------------------------------------------------


def with_the_loss(folder, text):
    """A copy of the project with the changes that the page asks for."""
    for room in ("skdp", "tests"):
        shutil.copytree(
            ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / "pyproject.toml", folder)
    (loss,) = blocks_of(text)
    losses = folder / "skdp/losses/_regression.py"
    losses.write_text(losses.read_text() + "\n\n" + loss)
    for diff in blocks_of(text, "diff"):
        head, *lines = diff.splitlines()
        path = folder / head.removeprefix("--- ")
        old = "".join(f"{line[1:]}\n" for line in lines if line[0] in " -")
        new = "".join(f"{line[1:]}\n" for line in lines if line[0] in " +")
        source = path.read_text()
        if path.is_relative_to(folder / "tests"):
            name = "from skdp.losses._regression import ExpectileLoss\n"
            source = source.replace("from skdp.losses", f"{name}from skdp.losses", 1)
        path.write_text(changed(source, old, new))
    return folder


def outcome_of(folder):
    """The exit code of the tests of losses in a copy, and their output."""
    options = ("-q", "-n", "0", "-p", "no:cacheprovider", "-k", "Expectile")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "tests/losses"],
        cwd=folder,
        # What a compiled loop computes is what its source computes in the interpreter.
        env=os.environ | {"PYTHONPATH": str(folder), "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.long
def test_the_loss_of_the_page_passes_the_outcome_of(tmp_path):
    code, output = outcome_of(with_the_loss(tmp_path, page("adding_a_loss")))
    assert code == 0, output
    assert int(re.search(r"(\d+) passed", output)[1]) >= 12


@pytest.mark.long
def test_a_bound_without_its_weight_is_found(tmp_path):
    text = page("adding_a_loss")
    bug = changed(text, "return self.smoothness * min", "return (1 - self.level) * min")
    code, output = outcome_of(with_the_loss(tmp_path, bug))
    assert code == 1, output
    assert "test_search_never_exceeds_the_bound_and_comes_close" in output


# A source ------------------------------------------------------------------------


def test_the_source_of_the_page_reads_what_is_in_memory(module_of, tmp_path):
    module = module_of(page("adding_a_source"))
    module.test_files_give_the_bits_of_memory_and_no_cell_makes_them_fail(tmp_path)


def test_a_source_that_leaves_out_rows_is_found(module_of, tmp_path):
    rows = "rows = np.array(array[start : start + self.batch_size])\n"
    only = "                rows = rows[np.isfinite(rows).all(axis=1)]\n"
    module = module_of(changed(page("adding_a_source"), rows, rows + only))
    with pytest.raises(SourceError):
        module.test_files_give_the_bits_of_memory_and_no_cell_makes_them_fail(tmp_path)


# An estimator --------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("params", [{}, {"epsilon": np.inf}, {"delta": 0}])
def test_the_estimator_of_the_page_keeps_the_contract(module_of, params):
    module_of(page("adding_an_estimator")).test_scikit_learn_accepts_it(params)


def test_the_estimator_of_the_page_is_near_and_bounded(module_of, tmp_path):
    module = module_of(page("adding_an_estimator"))
    module.test_the_mean_is_near_and_the_ledger_has_it(tmp_path)
    module.test_a_target_adds_no_more_than_its_bound()


def test_targets_that_are_not_clipped_are_found(module_of):
    clip = "np.clip(block.y, -1, 1)"
    module = module_of(changed(page("adding_an_estimator"), clip, "1.0 * block.y"))
    with pytest.raises(AssertionError):
        module.test_a_target_adds_no_more_than_its_bound()


@pytest.mark.filterwarnings("ignore")
def test_an_estimator_that_changes_a_parameter_is_found(module_of):
    checked = "budget = self._check_privacy_params()\n"
    bug = f"{checked}        self.target_bounds = (-1, 1)\n"
    module = module_of(changed(page("adding_an_estimator"), checked, bug))
    with pytest.raises(ExceptionGroup) as caught:
        module.test_scikit_learn_accepts_it({})
    names = {note for error in caught.value.exceptions for note in error.__notes__}
    assert "in check_estimators_overwrite_params" in names
