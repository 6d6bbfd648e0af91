"""What compiles the kernels still works, and every index of a kernel is checked."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

import skdp
from skdp import DPLogisticRegression, DPMatrixFactorization, DPSparseLogisticRegression
from skdp._compiled import compiled, compiled_exactly
from skdp._input import check_indexable, encode_labels
from skdp.decomposition._ratings import declared_ids, found_ids
from skdp.ensemble._trees import BinnedColumn
from skdp.io._external import applied
from skdp.io._reading import Labels
from skdp.io._rows import StreamRows
from skdp.preprocessing import _blocks
from skdp.preprocessing._cells import Cells
from tests.kernels import JOBS

ROOMS = ("decomposition", "papers", "sums")


@pytest.mark.filterwarnings("ignore")
def test_every_job_works_and_together_they_reach_all_rooms_with_kernels():
    for job in JOBS:
        job()
    compiled = {name for name in sys.modules if name.endswith("_kernel")}
    assert {name.rpartition(".")[0] for name in compiled} >= {
        f"skdp.{room}" for room in ROOMS
    }


def test_exact_code_stays_exact_whoever_calls_it_first():
    """A callee that says nothing of fast arithmetic is compiled as its caller is."""

    @compiled_exactly
    def shared(number, width):
        return number * (0.5 / width) + 0.5

    @compiled
    def fast(numbers, width):
        total = 0.0
        for number in numbers:
            total += shared(number, width)
        return total

    @compiled_exactly
    def exact(numbers, width, found):
        for i in range(len(numbers)):
            found[i] = shared(numbers[i], width)

    numbers = np.random.default_rng(0).uniform(-1, 1, 20_000)
    found = np.empty(len(numbers))
    fast(numbers, 0.05)
    exact(numbers, 0.05, found)
    assert np.array_equal(found, numbers * (0.5 / 0.05) + 0.5)


# --------------------------------------------------- where indices of kernels come from

# Compiled loops read and write wherever an index leads, so that an index must be
# checked where it enters, once for each block of rows.
CELLS = "skdp.preprocessing._blocks.encoded"  # codes of declared cells
SPARSE = "skdp._input.canonical_csr"  # places in CSR, from users and other libraries
IDS = "skdp.decomposition._ratings"  # of users and items, as places among known ones
LABELS = "skdp._input.encode_labels, skdp.io._reading.Labels"
MADE = "by skdp from what is checked: sorted, or written by another kernel"
PUBLIC = "numbers of rows and columns, releases, and what is drawn without records"

KERNELS = {
    "tables._coded_kernel": {
        "add_entries": {"codes": CELLS, "starts": PUBLIC},
        "pack_cells": {"states": CELLS, "part_of": PUBLIC},
        "look_up_cells": {"cells": MADE, "starts": PUBLIC},
    },
    "sums._gradient_kernel": {
        "_look_up": {"codes": CELLS, "starts": PUBLIC},
        "_add_to_codes": {"codes": CELLS, "starts": PUBLIC},
        "_add_to_cells": {"cells": MADE, "starts": PUBLIC},
    },
    "sums._leaves_kernel": {
        "find_leaves": {
            "codes": CELLS,
            **dict.fromkeys(("depth", "feature", "last", "starts"), PUBLIC),
        },
        "add_values": {"leaves": MADE},
        "_add_of_one": {"leaves": MADE},
        "_add_of_labels": {"leaves": MADE, "last": PUBLIC},
        "_add_softmax": {"leaves": MADE, "last": PUBLIC},
        "_lost_of_softmax": {"y": LABELS},
    },
    "decomposition._user_sums_kernel": {
        "add_counts": {"others": IDS, "starts": MADE},
        "add_sums": {"others": IDS, "starts": MADE},
        "add_pairs": {"others": IDS, "starts": MADE, "own": MADE, "places": PUBLIC},
    },
    "decomposition._user_rows_kernel": {
        "solve_block": {"others": IDS, "starts": MADE},
    },
    "decomposition._plain_kernel": {
        "add_products": {"n": PUBLIC},
        "solve_ridge_rows": {"others": IDS, "starts": MADE},
        "visit": {"users": IDS, "items": IDS},
        "add_rows": {"indices": IDS},
        "sum_rows": {"others": IDS, "starts": MADE},
        "solve_posterior_rows": {"others": IDS, "starts": MADE, "biases": PUBLIC},
    },
    "papers._hamsi_kernel": {
        "_add_penalty": {"row": PUBLIC},
        # In the compiler's own terms, which the walk below does not read.
        "first_pass": {"others": IDS, "starts": MADE, "places": MADE},
        "second_pass": {"others": IDS, "starts": MADE},
        "_first_free": {"start": PUBLIC},
        "_is_free": {"color": MADE},
        "colors_of": {"items": IDS, "starts": MADE, "room": MADE, "seed": PUBLIC},
    },
    "papers._bolt_on_kernel": {
        "dense_pass": dict.fromkeys(("batch_size", "order", "span"), PUBLIC),
        "sparse_pass": {
            "columns": SPARSE,
            "starts": SPARSE,
            **dict.fromkeys(("batch_size", "order", "span"), PUBLIC),
        },
    },
    "papers._frank_wolfe_kernel": {
        "move_candidate": {
            "j": SPARSE,
            **dict.fromkeys(("before", "first", "order", "place", "starts"), MADE),
        },
        "add_to_score": {"j": PUBLIC},
        "add_by_rows": {"columns": SPARSE, "starts_of_rows": SPARSE},
        "add_by_columns": {"rows": MADE, "starts_of_columns": MADE},
    },
    # Without an index but those of their own loops.
    "losses._kernel": {},
}


def feeding(node, reached):
    """Which arguments of a function an expression is made of, but for their shapes."""
    is_length = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "len"
    if is_length or (isinstance(node, ast.Attribute) and node.attr == "shape"):
        return set()
    found = set(reached.get(node.id, ())) if isinstance(node, ast.Name) else set()
    return found.union(*(feeding(n, reached) for n in ast.iter_child_nodes(node)))


def assigned(node, arguments):
    """Targets of an assignment or a loop, each with what it is made of."""
    if isinstance(node, ast.AugAssign):
        return [(node.target, node.value)]
    if isinstance(node, ast.For):
        is_range = isinstance(node.iter, ast.Call)
        parts = node.iter.args if is_range else [node.iter]
        # A loop from a number to another has these for its bounds.
        return [
            (node.target, part)
            for part in parts
            if not (is_range and getattr(part, "id", "") in arguments)
        ]
    found = []
    for target in node.targets if isinstance(node, ast.Assign) else ():
        several = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
        found += (
            list(zip(target.elts, node.value.elts, strict=True))
            if several
            else [(target, node.value)]
        )
    return found


def index_arguments(function):
    """Arguments of which a number, or one made of it, is an index within a function."""
    arguments = {argument.arg for argument in function.args.args}
    reached = {name: {name} for name in arguments}
    for _ in range(4):  # until nothing is added, whatever the order of statements
        for node in ast.walk(function):
            for target, value in assigned(node, arguments):
                for name in ast.walk(target):
                    if isinstance(getattr(name, "ctx", None), ast.Store):
                        if isinstance(name, ast.Name):
                            own = reached.setdefault(name.id, set())
                            own |= feeding(value, reached)
    slices = [n.slice for n in ast.walk(function) if isinstance(n, ast.Subscript)]
    return set().union(*(feeding(place, reached) for place in slices)) & arguments


def compiled_functions(tree):
    """Functions of a module that are compiled, as decorated or by a call."""
    names = {"compiled", "compiled_exactly"}
    by_call = {
        argument.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in names
        for argument in node.args
        if isinstance(argument, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            decorators = {getattr(own, "id", "") for own in node.decorator_list}
            if decorators & names or node.name in by_call:
                yield node


def kernels_found(root):
    """Of each module that compiles anything, its kernels and their indices."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if path.name == "_compiled.py" or "compiled" not in text:
            continue
        tree = ast.parse(text)
        kernels = {own.name: index_arguments(own) for own in compiled_functions(tree)}
        if kernels:
            found[".".join(path.relative_to(root).with_suffix("").parts)] = kernels
    return found


def not_listed(found):
    """Kernels with indices that the list says nothing of."""
    return {
        f"{module}.{name}": indices - set(KERNELS.get(module, {}).get(name, ()))
        for module, kernels in found.items()
        for name, indices in kernels.items()
        if indices - set(KERNELS.get(module, {}).get(name, ()))
    }


def test_every_index_of_a_kernel_is_listed_with_its_border():
    found = kernels_found(Path(skdp.__file__).parent)
    assert set(found) == set(KERNELS)
    assert not_listed(found) == {}
    for module, kernels in KERNELS.items():
        assert set(kernels) <= set(found[module]), module


def test_a_kernel_that_is_not_listed_is_found(tmp_path):
    folder = tmp_path / "sums"
    folder.mkdir()
    text = """
@compiled
def add(values, places, sums):
    for i in range(len(places)):
        own = places[i] + 1
        sums[own] += values[i]
"""
    (folder / "_new_kernel.py").write_text(text)
    assert not_listed(kernels_found(tmp_path)) == {"sums._new_kernel.add": {"places"}}


def test_nothing_is_compiled_but_by_the_two_decorators():
    root = Path(skdp.__file__).parent
    for path in root.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.name != "_compiled.py":
            assert "njit" not in text
            assert "vectorize(" not in text.replace("np.vectorize(", "")


# ------------------------------------------------------- hostile numbers at each border

HOSTILE = [-1, -(2**31), -(2**63), 2**31 - 1, 2**63 - 1, 255, 256]


class Block:
    """A block of three states, whose states are whatever it is given."""

    parts = (3,)

    def __init__(self, states, shares):
        self._found = np.asarray(states)[:, None], np.asarray(shares)[:, None]

    def shares(self, cells):
        return self._found


CELL = Cells("number", np.zeros(2), np.zeros(2, dtype=bool))


@pytest.mark.parametrize("state", HOSTILE)
def test_a_state_that_a_block_does_not_have_adds_nothing(state):
    block = Block(np.array([1, state], dtype=np.int64), [1.0, 1.0])
    states, shares = _blocks.encoded(block, CELL)
    assert states.tolist() == [[1], [0]]
    assert shares.tolist() == [[1.0], [0.0]]
    column = BinnedColumn("x", 0, block, False, False, False)
    assert (column.codes(CELL) < column.n_bins).all()


@pytest.mark.parametrize("share", [np.nan, np.inf, -np.inf, -1e-300, 1 + 1e-15])
def test_a_share_that_is_none_adds_nothing(share):
    _, shares = _blocks.encoded(Block([1, 2], [1.0, share]), CELL)
    assert shares.tolist() == [[1.0], [0.0]]


def with_index(rows, number):
    """CSR with one index that leads anywhere."""
    rows.indices = rows.indices.astype(np.int64)
    rows.indices[1] = number
    rows.indptr = rows.indptr.astype(np.int64)
    return rows


MODELS = {
    "linear": DPLogisticRegression(classes=[0, 1]),
    "permuted": DPLogisticRegression(
        classes=[0, 1], solver="bolt_on", solver_params={"n_passes": 1}
    ),
    "vertices": DPSparseLogisticRegression(classes=[0, 1], solver="frank_wolfe"),
}


@pytest.mark.parametrize("number", [*HOSTILE, 3])
@pytest.mark.parametrize("name", MODELS)
def test_sparse_rows_that_lead_elsewhere_are_refused(name, number):
    rows, y = with_index(csr_array(np.eye(40, 3)), number), np.arange(40) % 2
    with pytest.raises(ValueError, match="A sparse X must"):
        MODELS[name].fit(rows, y)
    with pytest.raises(ValueError, match="A sparse X must"):
        check_indexable(rows, y)


@pytest.mark.parametrize("end", [-1, 2**62, 41])
def test_ends_of_rows_that_lead_elsewhere_are_refused(end):
    rows = csr_array(np.eye(40, 3))
    rows.indptr = rows.indptr.astype(np.int64)
    rows.indptr[2] = end
    with pytest.raises(ValueError, match="A sparse X must"):
        MODELS["linear"].fit(rows, np.arange(40) % 2)


@pytest.mark.parametrize("number", [-1, 2**62])
def test_a_fitted_model_refuses_sparse_rows_that_lead_elsewhere(number):
    rows, y = csr_array(np.eye(40, 3)), np.arange(40) % 2
    model = DPLogisticRegression(classes=[0, 1]).fit(rows, y)
    with pytest.raises(ValueError, match="A sparse X must"):
        model.predict(with_index(rows.copy(), number))


def test_rows_of_a_source_that_lead_elsewhere_are_null_records():
    """Whatever made them of the source's columns."""

    def encode(rows):
        found = csr_array(np.full((len(rows), 2), 0.1))
        return with_index(found, 2**40) if (np.asarray(rows) > 0.5).any() else found

    rows = StreamRows(None, None, encode, 2, np.dtype(np.float64), shown=None)
    given = np.array([[0.1], [0.9], [0.2]])
    made, is_present = applied(rows.encoded, given, np.ones(3, dtype=bool), None)
    assert is_present.tolist() == [True, False, True]
    assert made.indices.max() < 2


@pytest.mark.parametrize("number", HOSTILE)
def test_ids_become_places_among_known_ones(number):
    known = declared_ids("item_ids", range(5), "items")
    column = np.array([1, number], dtype=np.int64)
    assert known.codes(column).tolist() == [1, -1]
    ids, codes = found_ids(column, "users")
    assert sorted(codes.tolist()) == [0, 1] == list(range(len(ids)))
    facts = {"n_users": 3, "item_ids": range(5)}
    model = DPMatrixFactorization(epsilon=1.0, rating_bounds=(1, 5), **facts)
    pairs = np.array([[0, 0], [1, 1], [2, number]])
    with pytest.raises(ValueError, match="item_ids"):
        model.fit(pairs, [1.0, 2.0, 3.0])


@pytest.mark.parametrize("number", [*HOSTILE, np.nan, np.inf, -np.inf, 0.5])
def test_labels_become_places_among_declared_ones(number):
    classes = np.array([0, 1, 2])
    codes, is_known = Labels(classes)(pa.array([1.0, float(number)]))
    assert codes.tolist() == [1, 0]
    assert is_known.tolist() == [True, False]
    model = DPLogisticRegression(classes=[0, 1, 2])
    with pytest.raises(ValueError, match="labels"):
        encode_labels(model, np.zeros((2, 1)), np.array([1.0, number]))


def test_broken_twin_without_the_border_has_codes_beyond_their_table(monkeypatch):
    monkeypatch.setattr(_blocks, "encoded", lambda block, cells: block.shares(cells))
    column = BinnedColumn("x", 0, Block([1, 250], [1.0, 1.0]), False, False, False)
    assert column.codes(CELL).max() >= column.n_bins
