"""Private steps of users: as of records where each has one row; ids; pipelines."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skdp import (
    DPPCA,
    BudgetLedger,
    DPLogisticRegression,
    DPQuantileClipper,
    DPSimpleImputer,
    DPStandardScaler,
    privacy_report,
)

N_USERS = 400
RNG = np.random.default_rng(0)
N_ROWS = RNG.integers(1, 5, N_USERS)
IDS = np.repeat(np.arange(N_USERS), N_ROWS)
X = RNG.normal(size=(len(IDS), 2))
Y = (X[:, 0] > 0).astype(int)
STEPS = {
    "scaler": DPStandardScaler(bounds=(-3, 3), random_state=0),
    "imputer": DPSimpleImputer(bounds=(-3, 3), random_state=0),
    "clipper": DPQuantileClipper(bounds=(-3, 3), random_state=0),
    "pca": DPPCA(data_norm=3.0, random_state=0),
}
OUTPUTS = {
    "scaler": ("mean_", "scale_"),
    "imputer": ("statistics_",),
    "clipper": ("low_", "high_"),
    "pca": ("explained_variance_", "mean_"),
}

every_step = pytest.mark.parametrize("name", STEPS)
quiet = pytest.mark.filterwarnings("ignore")


def of_users(name, **params):
    return clone(STEPS[name]).set_params(privacy_unit="user", **params)


def outputs(name, step):
    return np.concatenate([getattr(step, each) for each in OUTPUTS[name]])


@quiet
@every_step
def test_users_of_one_row_are_records(name):
    """But for what rounding of shares is charged."""
    step = of_users(name).fit(X, groups=np.arange(len(X)))
    plain = clone(STEPS[name]).fit(X)
    assert outputs(name, step) == pytest.approx(outputs(name, plain), abs=2e-3)
    assert step.privacy_.sensitivity == plain.privacy_.sensitivity


@quiet
@every_step
def test_no_order_of_rows_changes_a_bit(name):
    order = RNG.permutation(len(X))
    step = of_users(name).fit(X, groups=IDS)
    again = of_users(name).fit(X[order], groups=IDS[order])
    assert outputs(name, step).tobytes() == outputs(name, again).tobytes()
    assert step.privacy_.n_samples == N_USERS
    assert (step.privacy_.adjacency, step.privacy_.unit) == ("replace_user", "user")
    assert "number of records" not in step.privacy_.assumed_public


@quiet
@every_step
def test_without_noise_each_row_weighs_its_share(name):
    """A user's rows three times over change nothing; nor does a user of no share."""
    once = of_users(name, epsilon=math.inf).fit(X, groups=IDS)
    often = np.repeat(np.arange(len(X)), 1 + 2 * (IDS % 3 == 0))
    again = of_users(name, epsilon=math.inf).fit(X[often], groups=IDS[often])
    assert outputs(name, again) == pytest.approx(outputs(name, once), abs=1e-4)
    if name != "clipper":
        twin = clone(STEPS[name]).set_params(epsilon=math.inf).fit(X[often])
        assert outputs(name, twin) != pytest.approx(outputs(name, once), abs=1e-4)


def test_without_noise_components_are_those_of_weighted_moments():
    shares = 1 / N_ROWS[IDS]
    step = of_users("pca", epsilon=math.inf).fit(X, groups=IDS)
    expected = np.cov(X.T, aweights=shares, ddof=0) * N_USERS / (N_USERS - 1)
    assert step.explained_variance_ == pytest.approx(np.linalg.eigvalsh(expected)[::-1])
    scaler = of_users("scaler", epsilon=math.inf).fit(X, groups=IDS)
    assert scaler.mean_ == pytest.approx(shares @ X / N_USERS)


@every_step
def test_ids_are_asked_for_and_refused(name):
    with pytest.raises(ValueError, match=r"groups=ids.*set_fit_request\(groups=True\)"):
        of_users(name).fit(X)
    with pytest.raises(ValueError, match="must be None with privacy_unit='record'"):
        clone(STEPS[name]).fit(X, groups=IDS)
    with pytest.raises(TypeError, match="all integers or all strings"):
        of_users(name).fit(X, groups=IDS.astype(float))


@quiet
def test_a_pipeline_of_users(tmp_path):
    books = BudgetLedger(
        tmp_path / "users.db", epsilon=2, delta=1e-6, adjacency="replace_user",
        unit="user",
    )  # fmt: skip
    facts = {"privacy_unit": "user", "ledger": books, "epsilon": 0.5}
    scaler = DPStandardScaler(bounds=(-3, 3), **facts)
    model = DPLogisticRegression(classes=[0, 1], solver="noisy_gd", **facts)
    pipeline = make_pipeline(scaler, model)
    planned = privacy_report(pipeline)
    assert planned.adjacency == "replace_user"
    assert planned.is_private
    ids = pd.Series(IDS)
    pipeline.fit(X, Y, dpstandardscaler__groups=ids, dplogisticregression__groups=ids)
    assert [step.privacy_.n_samples for _, step in pipeline.steps] == [N_USERS] * 2
    assert len(books.spends()) == 2
    assert privacy_report(pipeline).epsilon < 1
    with pytest.raises(ValueError, match="must have the ids of users"):
        pipeline.fit(X, Y, dpstandardscaler__groups=ids)
