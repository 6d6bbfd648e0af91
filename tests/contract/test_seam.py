"""Nobody outside the door holds records and entropy together; few go inside.

Two rules held by the source's text, and one by watching frames as they run.
"""

from __future__ import annotations

import ast
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import skdp
from skdp import (
    DPPCA,
    DPGridSearchCV,
    DPLogisticRegression,
    DPQuantileClipper,
    DPSimpleImputer,
    DPStandardScaler,
    private_score,
)
from skdp.data import Block, Bucket, MemorySource
from skdp.data._views import ColumnsOf, ConstantColumn, EntriesClipped
from skdp.decomposition._rating_source import RatingSource
from skdp.decomposition._ratings import Ratings
from skdp.model_selection._registry import METHODS
from skdp.privacy._door import Door
from skdp.privacy._draws import DrawsOf
from skdp.privacy._entropy import SeededEntropy, SystemEntropy
from skdp.privacy._noise import NoiseSource
from tests.imports import sources
from tests.problems import CASES, case_id, run_case

PACKAGE = Path(skdp.__file__).parent
# The door, and the room of noise behind it.
DOOR = {"skdp.privacy._answers", "skdp.privacy._door"}
NOISE = {
    "skdp.privacy._entropy",
    "skdp.privacy._laws",
    "skdp.privacy._noise",
    "skdp.privacy._rounding",
    "skdp.privacy._selection",
}
# Who computes within the walls, and why it cannot ask for sums.
INSIDE = {
    "skdp.solvers._bolt_on": "visits records one by one in a secret order",
    "skdp.solvers._frank_wolfe": "integer scores that follow from all records at once",
    "skdp.solvers._last_iterate": "a path of which only the end is released",
    "skdp.solvers._objective_perturbation": "a minimiser with a certificate",
    "skdp.solvers._output_perturbation": "a minimiser with a certificate",
}
# They hold entropy, and show no noise of it; tests derive doors of their own.
WALLS = (Door, DrawsOf)
ENTROPY = (NoiseSource, SeededEntropy, SystemEntropy)
RECORDS = (
    Block,
    Bucket,
    ColumnsOf,
    ConstantColumn,
    EntriesClipped,
    MemorySource,
    RatingSource,
    Ratings,
)


def who_names(name, modules):
    """Modules in which an attribute or a name is used."""
    found = set()
    for module, text in modules.items():
        for node in ast.walk(ast.parse(text)):
            named = getattr(node, "attr", None) or getattr(node, "id", None)
            if named == name or (
                isinstance(node, ast.alias) and node.name.endswith(name)
            ):
                found.add(module)
    return found


def test_only_the_door_can_add_noise():
    assert who_names("NoiseSource", sources(PACKAGE)) <= DOOR | NOISE


def callers_of_inside(modules):
    """Modules that call ``something.inside(...)``."""
    return {
        module
        for module, text in modules.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "inside"
    }


def test_only_those_listed_go_inside():
    assert callers_of_inside(sources(PACKAGE)) == set(INSIDE)


def test_broken_twins_of_the_texts_are_found():
    twin = {
        "skdp.solvers._twin": "from skdp.privacy._noise import NoiseSource\n"
        "x = answers.inside(y)"
    }
    assert who_names("NoiseSource", twin) == {"skdp.solvers._twin"}
    assert callers_of_inside(twin) == {"skdp.solvers._twin"}


def within_reach(values):
    """Objects, and what they hold unless they are of the door."""
    for value in values:
        yield value
        is_door = isinstance(value, WALLS) or type(value).__module__ in DOOR
        if is_door or not hasattr(value, "__dict__"):
            continue
        if type(value).__module__.startswith(("skdp", "tests")):
            yield from vars(value).values()


def is_of(value, tables):
    """Whether an array shows memory of one of the tables."""
    if not isinstance(value, np.ndarray) or value.dtype == object:
        return False
    return any(np.may_share_memory(value, table) for table in tables)


def holds_both(values, tables=()):
    held = list(within_reach(values))
    if not any(isinstance(value, ENTROPY) for value in held):
        return False
    return any(isinstance(value, RECORDS) or is_of(value, tables) for value in held)


class FrameSpy:
    """Looks at every frame of skdp, or of a twin, as it returns."""

    def __init__(self, watched="skdp", tables=()):
        self.found, self.seen, self._watched = set(), 0, watched
        self._tables = tables

    def __enter__(self):
        self._before = sys.getprofile()
        sys.setprofile(self._look)
        return self

    def __exit__(self, *_):
        sys.setprofile(self._before)

    def _look(self, frame, event, _):
        module = frame.f_globals.get("__name__", "")
        if event != "return" or not module.startswith(self._watched):
            return
        if module in DOOR:
            return
        self.seen += 1
        if holds_both(list(frame.f_locals.values()), self._tables):
            self.found.add(f"{module}.{frame.f_code.co_name}")


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_no_frame_outside_the_door_holds_records_and_entropy(case):
    with FrameSpy() as spy:
        run_case(case)
    assert spy.found == set()
    assert spy.seen > 10


def table(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(60, 3))
    return X, (X[:, 0] > 0).astype(int)


def searched(method):
    model = DPLogisticRegression(classes=[0, 1])
    grid = {"C": [0.1, 1.0]}
    return DPGridSearchCV(model, grid, method=method, scoring="accuracy", delta=1e-6)


FITS = {
    "scaler": lambda X, y: DPStandardScaler(bounds=(-1, 1)).fit(X),
    "imputer": lambda X, y: DPSimpleImputer(bounds=(-1, 1)).fit(X),
    "clipper": lambda X, y: DPQuantileClipper(bounds=(-1, 1)).fit(X),
    "pca": lambda X, y: DPPCA(2).fit(X),
    "score": lambda X, y: private_score(
        LogisticRegression().fit(*table(1)), X, y, epsilon=1.0
    ),
    **{
        method: partial(lambda method, X, y: searched(method).fit(X, y), method)
        for method in METHODS
    },
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FITS)
def test_no_frame_of_other_fits_holds_their_table_and_entropy(name):
    X, y = table()
    with FrameSpy(tables=(X, y)) as spy:
        FITS[name](X, y)
    assert spy.found == set()
    assert spy.seen > 10


def a_twin_that_holds_both(source, noise):
    rows = next(iter(source.blocks()))
    return noise.gaussian(rows.X[0], sensitivity=1.0, noise_multiplier=1.0)


def test_broken_twin_that_holds_both_is_found():
    source = MemorySource(np.ones((3, 2)), np.zeros(3))
    with FrameSpy(__name__) as spy:
        a_twin_that_holds_both(source, NoiseSource(0))
    assert spy.found == {f"{__name__}.a_twin_that_holds_both"}


def a_twin_that_holds_a_table(X, noise):
    rows = X[:2]
    return rows, noise


def test_broken_twin_that_holds_a_view_of_the_table_is_found():
    X, _ = table()
    with FrameSpy(__name__, tables=(X,)) as spy:
        a_twin_that_holds_a_table(X, NoiseSource(0))
    assert spy.found == {f"{__name__}.a_twin_that_holds_a_table"}


def test_broken_twin_that_holds_both_in_an_object_is_found():
    class Twin:
        def __init__(self, source, noise):
            self._source, self._noise = source, noise

    with FrameSpy(__name__) as spy:
        Twin(MemorySource(np.ones((3, 2)), np.zeros(3)), NoiseSource(0))
    assert len(spy.found) == 1
