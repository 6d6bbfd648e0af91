"""The recorder of seeded outcomes: the same each time, and it sees a changed bit."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tests.outcomes.__main__ as command
from skdp.decomposition._plain import FACTORIZERS
from skdp.decomposition._registry import PRIVATE_FORMS
from skdp.ensemble import BOOSTERS
from skdp.model_selection import METHODS, SCORINGS
from skdp.neural_network import NETWORK_SOLVERS
from skdp.solvers import SOLVERS
from tests.outcomes import (
    boosted,
    factorizers,
    linear,
    networks,
    scores,
    searches,
    solver_params,
)
from tests.outcomes.catalogue import catalogue
from tests.outcomes.outcome import Outcome, Released, difference, digest, run

ROOT = Path(__file__).parents[1]
# One of each family; quick ones.
HANDFUL = (
    "solver/noisy_gd/logistic/replace_one/delta",
    "solver/noisy_gd/logistic/replace_one/pure",
    "solver/two_stage/squared/zero_out/pure",
    "setting/csr/bolt_on/softmax/zero_out/pure",
    "params/objective_perturbation/spherical/hinge/replace_one/delta",
    "exact/squared/plain/intercept=True",
    "transformer/pca/plain/replace_one/delta",
    "transformer/simple_imputer/missing/zero_out/pure",
    "score/accuracy/logistic/plain/zero_out/delta",
    "search/composition/default/replace_one/delta",
    "pipeline/scaled/replace_one/delta",
    "ledger/steps/delta",
    "boosted/newton_boosting/logistic/monotone/zero_out",
    "networks/softmax/filters",
)
EVERY = {outcome.key: outcome for outcome in catalogue()}


@pytest.fixture(scope="module")
def before():
    return run(EVERY[key] for key in HANDFUL)


def changed(outcome, change):
    """An outcome whose released values or facts are changed."""
    return Outcome(outcome.key, lambda: change(outcome.make()))


def next_number(value):
    """The first number inside, moved by one, or by one unit in the last place."""
    if isinstance(value, dict):
        name = next(iter(value))
        return value | {name: next_number(value[name])}
    if isinstance(value, list):
        return [next_number(value[0]), *value[1:]]
    moved = np.array(value)
    is_real = moved.dtype.kind == "f"
    first = moved.flat[0]
    moved.flat[0] = np.nextafter(first, np.inf) if is_real else first + 1
    return moved


def test_keys_are_unique():
    assert len(EVERY) == sum(1 for _ in catalogue())
    assert set(HANDFUL) <= set(EVERY)


def test_every_registered_key_has_outcomes():
    assert {*linear.DENSE, *linear.SPARSE} == set(SOLVERS)
    assert set(solver_params.VARIANTS) == set(SOLVERS)
    assert set(boosted.KEYS) == set(BOOSTERS)
    assert set(networks.KEYS) == set(NETWORK_SOLVERS)
    assert set(factorizers.KEYS) == set(FACTORIZERS)
    assert set(factorizers.PRIVATE) == {unit for _, unit in PRIVATE_FORMS}
    assert set(scores.SCORINGS) == set(SCORINGS)
    assert set(searches.METHODS) == {"auto", *METHODS}


def test_the_same_in_another_order(before):
    after = run(EVERY[key] for key in reversed(HANDFUL))
    assert before == after
    assert [key for key in HANDFUL if "refused" in before[key]] == [HANDFUL[1]]


@pytest.mark.long
def test_the_same_in_another_process(before, tmp_path):
    file, keys = tmp_path / "before.json", "solver/noisy_gd/logistic/replace_one/*"
    given = [sys.executable, "-m", "tests.outcomes", "record", file, "--keys", keys]
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    subprocess.run(given, check=True, cwd=ROOT, env=environment, capture_output=True)
    found = json.loads(file.read_text())["outcomes"]
    assert found == {key: before[key] for key in HANDFUL[:2]}


def test_the_same_with_more_jobs():
    key = "factorizer/plain/sgd/three_factors/f8"
    assert run(catalogue(n_jobs=2), key) == run([EVERY[key]])


@pytest.mark.parametrize("key", [HANDFUL[0], HANDFUL[6], HANDFUL[8], HANDFUL[9]])
def test_one_bit_is_reported(before, key):
    def one_bit(released):
        return Released(next_number(released.values), released.facts)

    after = before | run([changed(EVERY[key], one_bit)])
    assert difference(before, after).changed == {key: ["values"]}


@pytest.mark.parametrize("key", [HANDFUL[0], HANDFUL[6], HANDFUL[11]])
def test_another_record_is_reported(before, key):
    def other_facts(released):
        return Released(released.values, [released.facts])

    after = before | run([changed(EVERY[key], other_facts)])
    assert difference(before, after).changed == {key: ["record"]}


def test_an_error_is_reported(before):
    def broken(released):
        raise AttributeError("a helper that is gone")

    after = before | run([changed(EVERY[HANDFUL[0]], broken)])
    parts = ["record", "refused", "values"]
    assert difference(before, after).changed == {HANDFUL[0]: parts}


def test_missing_fails_and_new_does_not(before):
    less = {key: before[key] for key in HANDFUL[1:]}
    assert difference(before, less).missing == [HANDFUL[0]]
    assert difference(before, less).is_failure
    assert difference(less, before).new == [HANDFUL[0]]
    assert not difference(less, before).is_failure


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0.0, -0.0),
        (np.zeros(2), np.zeros(2, dtype=np.float32)),
        (np.zeros((2, 1)), np.zeros(2)),
        ({"a": 1.0}, {"b": 1.0}),
        ([["a"], "b"], [["a", "b"]]),
        (["a", "b"], ["a'b"]),
        (None, "None"),
        (1, 1.0),
    ],
)
def test_digests_differ(one, other):
    assert digest(one) != digest(other)


def test_command_line(tmp_path, capsys, monkeypatch):
    few = [EVERY[key] for key in HANDFUL[:3]]
    monkeypatch.setattr(command, "catalogue", lambda n_jobs: iter(few))
    file = str(tmp_path / "before.json")
    assert command.main(["record", file]) == 0
    assert command.main(["compare", file, "--verbose"]) == 0
    assert "0 differ, 0 missing, 0 new" in capsys.readouterr().out
    few[0] = changed(few[0], lambda x: Released(next_number(x.values), x.facts))
    assert command.main(["compare", file]) == 1
    assert f"differs: {HANDFUL[0]} (values)" in capsys.readouterr().out
    assert command.main(["compare", file, "--keys", "solver/two_stage/*"]) == 0
    few[:] = few[1:]
    assert command.main(["compare", file]) == 1
    assert f"missing: {HANDFUL[0]}" in capsys.readouterr().out
