"""A key is in all of its places; nothing in solver_params can touch privacy."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from skdp.ensemble import BOOSTERS
from skdp.neural_network import NETWORK_SOLVERS
from skdp.solvers import SOLVERS
from tests.problems import SOLVER_PARAMS

ROOT = Path(__file__).parents[2]
PAPERS = {key for key in SOLVERS if SOLVERS[key].__module__.startswith("skdp.papers.")}
FORBIDDEN = (
    "sigma",
    "noise",
    "sensitiv",
    "random",
    "seed",
    "sampl",
    "epsilon",
    "delta",
)


@pytest.mark.parametrize("key", SOLVERS)
def test_one_key_in_all_places(key):
    assert SOLVERS[key].key == key
    room = "papers" if key in PAPERS else "solvers"
    assert SOLVERS[key].__module__.startswith(f"skdp.{room}._")
    for place in (
        f"tests/{room}/test_{key}.py",
        f"docs/{room}/{key}.md",
        f"docs/proofs/{key}.md",
        f"benchmarks/configs/{key}.toml",
    ):
        assert (ROOT / place).is_file(), place
    assert key in SOLVER_PARAMS


@pytest.mark.parametrize("key", BOOSTERS)
def test_one_key_in_all_places_of_boosted_trees(key):
    assert BOOSTERS[key].key == key
    assert BOOSTERS[key].__module__ == "skdp.ensemble._boosting"
    for place in (
        f"tests/ensemble/test_{key}.py",
        f"docs/solvers/{key}.md",
        f"docs/proofs/{key}.md",
    ):
        assert (ROOT / place).is_file(), place


@pytest.mark.parametrize("key", NETWORK_SOLVERS)
def test_one_key_in_all_places_of_networks(key):
    assert NETWORK_SOLVERS[key].key == key
    assert NETWORK_SOLVERS[key].__module__ == "skdp.neural_network._solvers"
    for place in (
        f"tests/neural_network/test_{key}.py",
        f"docs/solvers/{key}.md",
        "docs/proofs/networks.md",
    ):
        assert (ROOT / place).is_file(), place
    assert "networks" in (ROOT / f"docs/solvers/{key}.md").read_text()


KINDS = [*SOLVERS.values(), *BOOSTERS.values(), *NETWORK_SOLVERS.values()]


@pytest.mark.parametrize("kind", KINDS)
def test_no_parameter_touches_noise_or_randomness(kind):
    names = [field.name for field in fields(kind)]
    for name in (*names, *kind.given_checks):
        assert not any(word in name for word in FORBIDDEN)


def test_registry_is_sorted_the_annex_last():
    for table in (BOOSTERS, NETWORK_SOLVERS):
        assert list(table) == sorted(table)
    house = [key for key in SOLVERS if key not in PAPERS]
    assert list(SOLVERS) == [*sorted(house), *sorted(PAPERS)]
