"""Nobody outside the door holds records and entropy together; few go inside.

Some rules held by the source's text, and one by watching frames as they run.
"""

from __future__ import annotations

import ast
import sys
from functools import cache, partial
from pathlib import Path
from types import CellType, FunctionType, MethodType

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import skdp
from skdp import (
    DPPCA,
    DPCalibratedClassifier,
    DPGridSearchCV,
    DPKMeans,
    DPLogisticRegression,
    DPMatrixFactorization,
    DPMLPClassifier,
    DPQuantileClipper,
    DPSimpleImputer,
    DPStandardScaler,
    DPTunedThresholdClassifier,
    Federation,
    describe,
    private_score,
    propose_ranges,
)
from skdp.columns import Range
from skdp.decomposition._ratings import Ratings, RatingSource
from skdp.federated._federation import LocalOwners
from skdp.io._parts import WorkerPart
from skdp.model_selection._methods import METHODS
from skdp.privacy.noise._noise import NoiseSource
from skdp.privacy.noise._rounding import SeededEntropy, SystemEntropy
from skdp.privacy.release._door import Door
from skdp.privacy.release._plan import DrawsOf
from skdp.tables._centred import CentredMatrix, CentredSource
from skdp.tables._memory import MemorySource
from skdp.tables._source import Block
from skdp.tables._views import Bucket, ColumnsOf, ConstantColumn, EntriesClipped
from tests.imports import sources
from tests.problems import CASES, case_id, run_case
from tests.wide import part_of

PACKAGE = Path(skdp.__file__).parent
# The door, and the room of noise behind it.
DOOR = {
    "skdp.privacy.release._answers",
    "skdp.privacy.release._door",
    "skdp.privacy.release._shared",
}
NOISE = {
    "skdp.privacy.noise._rounding",
    "skdp.privacy.noise._laws",
    "skdp.privacy.noise._noise",
    "skdp.privacy.noise._selection",
}
# Who writes down what a fit would release, for an audit: nothing of it is released.
AUDIT = {"skdp.audit._exact"}
# Who computes within the walls, and why it cannot ask for sums.
INSIDE = {
    "skdp.papers._bolt_on": "visits records one by one in a secret order",
    "skdp.papers._frank_wolfe": "integer scores that follow from all records at once",
    "skdp.papers._last_iterate": "a path of which only the end is released",
    "skdp.solvers._objective_perturbation": "a minimiser with a certificate",
    "skdp.papers._output_perturbation": "a minimiser with a certificate",
}
# Whose plans declare a cost of their own, and why lines may cost less than alone.
DECLARED = {
    "skdp.model_selection._methods": "scores and fits of a search, charged together",
    "skdp.papers._last_iterate": "a path of which only the end is released",
    "skdp.solvers._objective_perturbation": "a tilt that leaves within a minimiser",
}
# Where the seam keeps records, entropy and its count: no one else's business.
KEPT = ("_buckets", "_entropy", "_exact", "_grant", "_left", "_noise", "_reader")
KEPT += ("_opened", "_source")
# What gives answers without a commit.
MADE = ("Grant", "LocalAnswers")
# They hold entropy, and show no noise of it; tests derive doors of their own.
WALLS = (Door, DrawsOf)
ENTROPY = (NoiseSource, SeededEntropy, SystemEntropy)
RECORDS = (
    Block,
    Bucket,
    CentredMatrix,
    CentredSource,
    ColumnsOf,
    ConstantColumn,
    EntriesClipped,
    LocalOwners,
    MemorySource,
    WorkerPart,
    RatingSource,
    Ratings,
)


@cache
def parsed(text):
    return ast.parse(text)


def who_names(name, modules):
    """Modules in which an attribute or a name is used."""
    found = set()
    for module, text in modules.items():
        for node in ast.walk(parsed(text)):
            named = getattr(node, "attr", None) or getattr(node, "id", None)
            if named == name or (
                isinstance(node, ast.alias) and node.name.endswith(name)
            ):
                found.add(module)
    return found


def test_only_the_door_can_add_noise():
    assert who_names("NoiseSource", sources(PACKAGE)) <= DOOR | NOISE | AUDIT


def callers_of_inside(modules):
    """Modules that call ``something.inside(...)``."""
    return {
        module
        for module, text in modules.items()
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "inside"
    }


def test_only_those_listed_go_inside():
    assert callers_of_inside(sources(PACKAGE)) == set(INSIDE)


def calls_of_commit(modules):
    """Modules that call ``commit`` of something that may be a door, once a call.

    Ledgers commit events, and connections to databases commit what was written.
    """
    return [
        module
        for module, text in modules.items()
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "commit"
        and getattr(node.func.value, "attr", "") not in ("_ledger", "ledger")
        and getattr(node.func.value, "id", "") != "connection"
    ]


def test_one_function_commits_plans():
    assert calls_of_commit(sources(PACKAGE)) == ["skdp._fit"]


def test_broken_twin_that_commits_a_second_plan_is_found():
    modules = sources(PACKAGE) | {
        "skdp.solvers._twin": "answers = door.commit(plan, source, label='twin')"
    }
    assert sorted(calls_of_commit(modules)) == ["skdp._fit", "skdp.solvers._twin"]
    text = (PACKAGE / "_fit.py").read_text()
    twice = {"skdp._fit": f"{text}\nself._open().commit(plan, source, label='')"}
    assert calls_of_commit(twice) == ["skdp._fit", "skdp._fit"]


def who_declares(modules):
    """Modules that make a plan of an event of their own."""
    return {
        module
        for module, text in modules.items()
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.Call)
        and (
            any(keyword.arg == "declared" for keyword in node.keywords)
            or (getattr(node.func, "id", "") == "Plan" and len(node.args) > 1)
        )
    }


def test_only_those_listed_declare_a_cost_of_their_own():
    assert who_declares(sources(PACKAGE)) == set(DECLARED)


def who_reaches(modules):
    """Modules that take what the seam keeps from an object not their own."""
    found = set()
    for module, text in modules.items():
        for node in ast.walk(parsed(text)):
            is_theirs = (
                isinstance(node, ast.Attribute)
                and node.attr in KEPT
                and getattr(node.value, "id", "") != "self"
            )
            if is_theirs or (isinstance(node, ast.Constant) and node.value in KEPT):
                found.add(module)
    return found


def test_nobody_reaches_through_the_walls():
    assert who_reaches(sources(PACKAGE)) == set()


@pytest.mark.parametrize("name", MADE)
def test_only_the_door_gives_answers(name):
    assert who_names(name, sources(PACKAGE)) <= DOOR | AUDIT


TWINS = {
    "noise": ("from skdp.privacy.noise._noise import NoiseSource", "NoiseSource"),
    "inside": ("x = answers.inside(y)", callers_of_inside),
    "declared": ("x = Plan(lines, event)", who_declares),
    "declared later": ("x = replace(plan, declared=event)", who_declares),
    "reached": ("x = answers._noise.gaussian(y)", who_reaches),
    "reached by name": ("x = getattr(job.draws, '_noise')", who_reaches),
    "made": ("from skdp.privacy.release._answers import LocalAnswers", "LocalAnswers"),
}


@pytest.mark.parametrize("twin", TWINS)
def test_broken_twins_of_the_texts_are_found(twin):
    text, rule = TWINS[twin]
    find = partial(who_names, rule) if isinstance(rule, str) else rule
    assert find({"skdp.solvers._twin": text}) == {"skdp.solvers._twin"}
    assert find({"skdp.solvers._twin": "x = 1"}) == set()


EMPTY_CELL = CellType()
# How many steps away from a frame's variables an object is looked for.
_FAR = 3


def held_by(value):
    """What can be had of an object by plain means; nothing of the door."""
    if isinstance(value, WALLS) or type(value).__module__ in DOOR:
        return []
    if isinstance(value, (tuple, list, set, frozenset)):
        return list(value)[:20]
    if isinstance(value, dict):
        return list(value.values())[:20]
    if isinstance(value, MethodType):
        return [value.__self__]
    if isinstance(value, FunctionType):
        cells = value.__closure__ or ()
        return [cell.cell_contents for cell in cells if cell != EMPTY_CELL]
    if isinstance(value, partial):
        return [value.func, *value.args, *value.keywords.values()]
    is_own = type(value).__module__.startswith(("skdp", "tests"))
    return list(vars(value).values()) if is_own and hasattr(value, "__dict__") else []


def within_reach(values):
    """Objects, what they hold, and what that holds, each once."""
    seen = {}
    for _ in range(_FAR + 1):
        values = [value for value in values if id(value) not in seen]
        seen |= {id(value): value for value in values}
        values = [held for value in values for held in held_by(value)]
    return seen.values()


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


@pytest.mark.parametrize(
    "case",
    part_of(CASES, lambda case: ((case.key, case.mode), case.loss_name), case_id),
)
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


def centred():
    return DPLogisticRegression(20.0, columns=Range(-1, 1), classes=[0, 1], delta=1e-6)


def network(params):
    facts = {"classes": [0, 1], "solver": "noisy_sgd", "solver_params": params}
    return DPMLPClassifier(hidden_layer_sizes=3, delta=1e-6, **facts)


def factorised(X, unit):
    pairs = np.array([(u, i) for u in range(len(X)) for i in range(X.shape[1])])
    model = DPMatrixFactorization(
        privacy_unit=unit,
        rating_bounds=(-1, 1),
        n_users=len(X),
        item_ids=[0, 1, 2],
        delta=1e-6,
        max_ratings=3 if unit == "user" else None,
    )
    return model.fit(pairs, X.ravel())


FITS = {
    "scaler": lambda X, y: DPStandardScaler(bounds=(-1, 1)).fit(X),
    "imputer": lambda X, y: DPSimpleImputer(bounds=(-1, 1)).fit(X),
    "clipper": lambda X, y: DPQuantileClipper(bounds=(-1, 1)).fit(X),
    "pca": lambda X, y: DPPCA(n_components=2).fit(X),
    "clusters": lambda X, y: DPKMeans(n_clusters=3, bounds=(-1, 1)).fit(X),
    "centred": lambda X, y: centred().fit(X, y),
    "network": lambda X, y: network({"n_steps": 3}).fit(X, y),
    "sampled network": lambda X, y: network({"batch_size": 9}).fit(X, y),
    "ratings": lambda X, y: factorised(X, "rating_value"),
    "users": lambda X, y: factorised(X, "user"),
    "owners": lambda X, y: DPLogisticRegression(classes=[0, 1], delta=1e-6).fit(
        Federation.simulated([(X[:20], y[:20]), (X[20:], y[20:])])
    ),
    "description of users": lambda X, y: describe(
        X, Range(-9, 9), privacy_unit="user", groups=np.arange(len(X)) // 2
    ),
    "description": lambda X, y: describe(X, Range(-9, 9), crosses=[("x0", "x1")]),
    "ranges": lambda X, y: propose_ranges(X),
    "calibrated": lambda X, y: DPCalibratedClassifier(
        DPLogisticRegression(classes=[0, 1])
    ).fit(X, y),
    "threshold": lambda X, y: DPTunedThresholdClassifier(
        DPLogisticRegression(classes=[0, 1])
    ).fit(X, y),
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


def a_twin_that_hides_both(noise, act):
    return [noise.gaussian], act


def test_broken_twin_that_holds_both_in_what_it_can_call_is_found():
    source, noise = MemorySource(np.ones((3, 2)), np.zeros(3)), NoiseSource(0)
    for act in (partial(len, source), lambda: source, {"records": (source,)}):
        with FrameSpy(__name__) as spy:
            a_twin_that_hides_both(noise, act)
        assert f"{__name__}.a_twin_that_hides_both" in spy.found
