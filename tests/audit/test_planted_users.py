"""Planted bugs of users are found at default settings, and what has none passes.

A true promise is refuted with probability below 1e-6, if seeds change no law and scores
that look Gaussian are; both hold of these estimators.
"""

from __future__ import annotations

import numpy as np
import pytest

from skdp.audit import audit_estimator
from skdp.privacy.accounting._relations import OF_USERS
from tests.planted import users

KINDS = {
    "MergedIds": ("zero_out_user", "epsilon"),
    "OneRowMore": ("replace_user", "epsilon"),
    "PresentUsers": ("replace_user", "noiseless"),
    "RowsAsRecords": ("replace_user", "epsilon"),
}


def audited(name, relation, **params):
    """Two hundred rows of a hundred users, some of whose ids a single rounds alike."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    ids = 2**24 + np.append(np.arange(100), rng.integers(0, 100, 100))
    model = getattr(users, name)(adjacency=relation, **params)
    facts = {"epsilon": 1.0, "delta": 1e-5, "adjacency": relation}
    return audit_estimator(model, X, (X[:, 0] > 0).astype(int), groups=ids, **facts)


def test_all_are_tested():
    assert {"NoisyUserSums", *KINDS} == set(users.__all__)


@pytest.mark.parametrize("name", KINDS)
def test_a_bug_is_found(name):
    relation, kind = KINDS[name]
    # Two rows for one are twice as much; three for two are missed now and then.
    params = {"most_rows": 1} if name == "OneRowMore" else {}
    # Of ids that merge, a few fits now and then choose a pair that shows less: five
    # tries, of which nearly always the first is enough.
    for _ in range(5):
        result = audited(name, relation, **params)
        if not result.passed:
            break
    assert not result.passed
    assert kind in {x.kind for x in result.findings if x.refutes}


@pytest.mark.parametrize("relation", OF_USERS)
def test_what_has_no_bug_passes(relation):
    result = audited("NoisyUserSums", relation)
    assert result.passed
    assert not result.findings
    assert result.claimed.adjacency == relation


@pytest.mark.slow
@pytest.mark.parametrize("relation", OF_USERS)
def test_what_has_no_bug_passes_again_and_again(relation):
    """And the bound at 95 percent is beyond the truth in few of them."""
    results = [audited("NoisyUserSums", relation) for _ in range(50)]
    assert all(result.passed for result in results)
    # Of 50, more than ten with probability below 1e-4.
    assert sum(result.epsilon_lower_bound > 1 for result in results) <= 10


def test_only_relations_of_users_are_promised():
    model = users.NoisyUserSums(adjacency="replace_one")
    with pytest.raises(ValueError, match="'adjacency'"):
        model.fit(np.eye(2), [0, 1], ["a", "b"])
