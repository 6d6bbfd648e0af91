"""Planted bugs are found at default settings, and what has none passes.

A true promise is refuted with probability below 1e-6, if seeds change no law and scores
that look Gaussian are; both hold of these estimators.
"""

from __future__ import annotations

import numpy as np
import pytest

from skdp.audit import audit_estimator
from skdp.privacy.accounting._gaussian import gaussian_mu
from skdp.privacy.accounting._relations import OF_USERS
from tests.planted import records, users

# Kind of the finding, and for users the relation.
KINDS = {
    "BareIntercept": "noiseless",
    "FewSeeds": "repeats",
    "FloatNoise": "low_bits",
    "HalfNoise": "epsilon",
    "NormForSquare": "epsilon",
    "SharedNoise": "noiseless",
}
OF_BUG = {
    "MergedIds": ("zero_out_user", "epsilon"),
    "OneRowMore": ("replace_user", "epsilon"),
    "PresentUsers": ("replace_user", "noiseless"),
    "RowsAsRecords": ("replace_user", "epsilon"),
}
SOUND = [("NoisySums", None), ("NoisyCorrelations", None)]
SOUND += [("NoisyUserSums", relation) for relation in OF_USERS]
CLAIM = {"epsilon": 1.0, "delta": 1e-5}


def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    # Some of the ids are alike in single precision.
    ids = 2**24 + np.append(np.arange(100), rng.integers(0, 100, 100))
    return X, (X[:, 0] > 0).astype(int), ids


def audited(name, relation=None, **params):
    X, y, ids = table()
    if relation is not None:
        model = getattr(users, name)(adjacency=relation, **params)
        given = {"groups": ids, "adjacency": relation}
        return audit_estimator(model, 3 * X, y, **CLAIM, **given)
    model = getattr(records, name)()
    targets = 3 * X[:, 0] if hasattr(model, "target_bounds") else y
    return audit_estimator(model, X, targets, **CLAIM)


def test_all_are_tested():
    sound = {name for name, _ in SOUND}
    assert sound | {*KINDS, *OF_BUG} == {*records.__all__, *users.__all__}


slow = pytest.mark.slow


@pytest.mark.parametrize(
    "name",
    [
        # One of each kind of finding; the others once a release.
        *("FewSeeds", "FloatNoise", "HalfNoise", "SharedNoise"),
        *(
            pytest.param(name, marks=slow)
            for name in ("BareIntercept", "NormForSquare", *OF_BUG)
        ),
    ],
)
def test_a_bug_is_found(name):
    relation, kind = OF_BUG.get(name, (None, KINDS.get(name)))
    # Two rows for one are twice as much; three for two are missed now and then.
    params = {"most_rows": 1} if name == "OneRowMore" else {}
    # Now and then scores do not look Gaussian that are, or a few fits choose a pair
    # that shows less: nearly always the first try is enough.
    for _ in range(5):
        result = audited(name, relation, **params)
        if not result.passed:
            break
    assert kind in {x.kind for x in result.findings if x.refutes}


@pytest.mark.parametrize(
    ("name", "relation"),
    [SOUND[0], *(pytest.param(*each, marks=slow) for each in SOUND[1:])],
)
def test_what_has_no_bug_passes(name, relation):
    result = audited(name, relation)
    assert result.passed
    assert not result.findings
    assert result.claimed.adjacency == (relation or "replace_one")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "relation"), SOUND)
def test_what_has_no_bug_passes_again_and_again(name, relation):
    """And the bound at 95 percent is beyond the truth in few of them."""
    results = [audited(name, relation) for _ in range(50)]
    assert all(result.passed for result in results)
    # Of 50, more than ten with probability below 1e-4.
    assert sum(result.epsilon_lower_bound > 1 for result in results) <= 10


def test_sums_have_the_noise_that_they_should():
    X, y, _ = table()
    one, other = (records.NoisySums(random_state=s).fit(X, y) for s in (0, 1))
    noise = np.column_stack([one.coef_ - other.coef_, one.intercept_])[:, :-1]
    sigma = 2 / gaussian_mu(1.0, 1e-5) / len(X)
    assert 0.4 < np.std(noise) / (sigma * np.sqrt(2)) < 2.0
    quiet = records.NoisySums(epsilon=1e6, delta=0.5, data_norm=1.0).fit(X, y)
    assert quiet.score(X, y) > 0.6
