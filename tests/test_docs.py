"""Documentation that diffs well, and that names only what there is."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import skdp
from skdp._configured import Registry
from skdp.exceptions import SourceError
from skdp.io import _sql
from skdp.losses import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget
from tests.imports import graph, sources
from tests.prose import misplaced, reflowed, sentences
from tests.sums import contributions, test_adder

ROOT = Path(__file__).parents[1]
PACKAGE = Path(skdp.__file__).parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_one_sentence_a_line(page):
    lines = misplaced(page.read_text())
    assert not lines, f"{page.name}: paragraphs at lines {lines}: python -m tests.prose"


def test_sentences_are_told_from_abbreviations_code_and_formulas():
    text = (
        "See e.g. Theorem 2. It holds for `a. B` and $x. Y$. `z` too (why?). The end."
    )
    assert sentences(text) == [
        "See e.g. Theorem 2.",
        "It holds for `a. B` and $x. Y$.",
        "`z` too (why?).",
        "The end.",
    ]


def test_broken_twins_are_found():
    assert misplaced("One sentence. And another.\n") == [1]
    assert misplaced("A sentence that is\nwrapped.\n") == [1]
    assert misplaced("- a list. Is free\n  to wrap.\n\n| a. B | c |\n") == []


def test_reflowing_changes_no_word():
    for page in PAGES:
        text = page.read_text()
        assert reflowed(text).split() == text.split()


# ------------------------------------------------------- files, modules and names

# Files of other projects, which pages quote.
FOREIGN = {"privacy/bolt_on/optimizers.py"}
# `Name`, `Name` and `Name` in `skdp/module.py`
NAMED = re.compile(r"((?:`[\w.]+`(?:,| and)? )+)in `(skdp/[\w/]+\.py)`")


def gone(line):
    """Files, modules and names in backticks that are not there.

    A file has its whole path, or stands after another file of its folder.
    """
    folders = set()
    for word in " ".join(re.findall(r"`([^`]+)`", line)).split():
        if re.fullmatch(r"[\w./-]*\w\.py", word) and word not in FOREIGN:
            places = [Path(word)] if "/" in word else [own / word for own in folders]
            if not any((ROOT / place).is_file() for place in places):
                yield word
            folders |= {place.parent for place in places}
        elif re.fullmatch(r"(skdp|tests|benchmarks)(\.\w+)+", word):
            if not (is_module(word) or is_in_module(*word.rsplit(".", 1))):
                yield word
    for names, module in NAMED.findall(line):
        text = (ROOT / module).read_text() if (ROOT / module).is_file() else ""
        for name in re.findall(r"`([\w.]+)`", names):
            own = re.escape(name.rpartition(".")[2])
            if not re.search(rf"(?m)^ *(?:def |class )?{own}\b *[(:=\[]", text):
                yield f"{name} in {module}"


def is_module(name):
    place = ROOT / name.replace(".", "/")
    # A folder that left may still hold compiled files.
    return place.with_suffix(".py").is_file() or any(place.glob("*.py"))


def is_in_module(holder, name):
    return is_module(holder) and hasattr(importlib.import_module(holder), name)


# The changelog names what there was.
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name != "CHANGELOG.md"],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_pages_name_files_modules_and_names_that_are_there(page):
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [(i, each) for i, line in enumerate(lines, 1) for each in gone(line)] == []


@pytest.mark.parametrize(
    "twin",
    [
        "The bound: `skdp/queries/_gradient.py`.",
        "The bound: `sums/_gradient.py`.",
        "The bound: `_gradient.py`.",
        "The plan: `skdp/privacy/release/_plan.py`, `_gradient.py`.",
        "Run `python -m benchmarks.nothing`, or `python benchmarks/nothing.py`.",
        "A table is `skdp.data`.",
        "A table is `skdp.tables._memory.Table`.",
        "`Plan` and `Door` in `skdp/privacy/release/_plan.py`.",
    ],
)
def test_broken_twin_of_a_page_that_names_nothing_is_found(twin):
    assert list(gone(twin))


def test_lines_that_name_what_there_is_pass():
    line = "`Plan` and `Line` in `skdp/privacy/release/_plan.py`, `_door.py`"
    assert list(gone(f"{line}; `python -m tests.prose`, `skdp.io.SqlSource`")) == []


def gone_from(source):
    """Files that comments or docstrings of a module name, and that are not there."""
    files = re.findall(r"(?:skdp|tests|benchmarks|docs)/[\w./-]+\.(?:py|md)\b", source)
    return [file for file in files if not (ROOT / file).is_file()]


def test_modules_name_files_that_are_there():
    modules = sources(PACKAGE) | sources(ROOT / "benchmarks")
    found = {name: gone_from(source) for name, source in modules.items()}
    assert {name: files for name, files in found.items() if files} == {}


def test_broken_twin_of_a_module_that_names_no_file_is_found():
    assert gone_from("# Lemma 1 of ``docs/proofs/nothing.md``.")
    assert gone_from("# As in `skdp/queries/_gradient.py`.")


# ------------------------------------------------------------- rooms, and a new solver


def climbs(drawn, arrows):
    """Imports of a folder from one that is drawn above it, or is not drawn."""
    floors = re.findall(r"^(\w+)/", drawn, re.MULTILINE)
    height = {room: -floors.index(room) for room in floors}
    for name, targets in arrows.items():
        for target in targets:
            one, other = (each.split(".")[1:2] for each in (name, target))
            if one == other or not (PACKAGE / "/".join(other)).is_dir():
                continue
            if (PACKAGE / "/".join(one)).is_dir() and one != ["papers"]:
                if not height[one[0]] > height[other[0]]:
                    yield name, target


DRAWN = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_rooms_import_from_rooms_that_are_drawn_below():
    arrows = graph(sources(PACKAGE))
    arrows = {name: found - {"skdp"} for name, found in arrows.items() if "." in name}
    assert list(climbs(DRAWN, arrows)) == []


def test_broken_twin_of_a_room_that_climbs_is_found():
    twin = {"skdp.sums._exact": {"skdp.solvers._base"}}
    assert len(list(climbs(DRAWN, twin))) == 1


def blocks_of_code(page):
    return re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def run_blocks(page, monkeypatch):
    """Each block of Python as a module."""
    for i, code in enumerate(blocks_of_code(page)):
        module = ModuleType(f"block_{i}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(code, module.__name__, "exec"), module.__dict__)
        yield module


def test_the_solver_of_the_page_is_what_it_says(monkeypatch):
    page = (ROOT / "docs" / "adding_a_solver.md").read_text(encoding="utf-8")
    blocks = run_blocks(page, monkeypatch)
    solver = next(blocks)
    place = "skdp.solvers._descent.PlainGD"
    monkeypatch.setattr(place, solver.PlainGD, raising=False)
    next(blocks).test_without_noise_a_run_is_gradient_descent()
    facts = {"n_samples": 9, "n_features": 2, "data_norm": 1.0}
    objective = LinearObjective(loss=LogisticLoss(), adjacency="zero_out", **facts)
    planned = solver.PlainGD.planned({"n_steps": 3}, objective, Budget(1.0, 1e-6))
    assert [line.times for line in planned.plan(objective).lines] == [3]
    # A row of norm 1 and its intercept, times a residual of at most 1.
    assert 1.4142 < planned.sensitivity(objective) < 1.4143


def test_the_query_of_the_page_keeps_the_lemmas_of_the_adder():
    page = (ROOT / "docs" / "adding_a_query.md").read_text(encoding="utf-8")
    space = {**vars(contributions), "EXAMPLES": {}}
    for code in blocks_of_code(page):
        exec(compile(code, "adding_a_query", "exec", dont_inherit=True), space)
    example = space["EXAMPLES"]["cubes"]
    assert test_adder.adds_up_in_any_order(example)
    assert test_adder.nulls_add_nothing(example)
    assert 0.9 < max(test_adder.largest_moves(example)) <= 1


def test_broken_twin_of_a_solver_that_steps_too_far_fails_its_test(monkeypatch):
    page = (ROOT / "docs" / "adding_a_solver.md").read_text(encoding="utf-8")
    far = page.replace("np.full(self.n_steps, self", "np.full(self.n_steps, 2 * self")
    blocks = run_blocks(far, monkeypatch)
    place = "skdp.solvers._descent.PlainGD"
    monkeypatch.setattr(place, next(blocks).PlainGD, raising=False)
    with pytest.raises(AssertionError):
        next(blocks).test_without_noise_a_run_is_gradient_descent()


def test_broken_twin_of_a_page_with_a_module_that_left_is_found(monkeypatch):
    page = (ROOT / "docs" / "adding_a_solver.md").read_text(encoding="utf-8")
    with pytest.raises(ModuleNotFoundError):
        list(run_blocks(page.replace("skdp.sums.", "skdp.queries."), monkeypatch))


def test_the_engine_of_the_page_reads_what_is_in_memory(monkeypatch, tmp_path):
    monkeypatch.setattr(_sql, "ENGINES", Registry("none", {}))
    page = (ROOT / "docs" / "adding_an_engine.md").read_text(encoding="utf-8")
    lines = "".join(blocks_of_code(page)).splitlines()
    assert sum(map(bool, lines)) <= 150
    engine, test = run_blocks(page, monkeypatch)
    assert _sql.ENGINES["sqlite3"] is engine.SQLite
    test.test_sqlite_gives_the_bits_of_memory_and_no_cell_makes_it_fail(tmp_path)


def test_broken_twin_of_an_engine_that_reads_cells_as_stored_is_found(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(_sql, "ENGINES", Registry("none", {}))
    page = (ROOT / "docs" / "adding_an_engine.md").read_text(encoding="utf-8")
    filtered = "CASE WHEN typeof({text}) = 'integer' THEN {text} END"
    assert filtered in page
    _, test = run_blocks(page.replace(filtered, "{text}"), monkeypatch)
    with pytest.raises(SourceError):
        test.test_sqlite_gives_the_bits_of_memory_and_no_cell_makes_it_fail(tmp_path)
