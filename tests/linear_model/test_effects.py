"""What columns add to a prediction: centred by released shares, with its noise."""

from __future__ import annotations

import itertools
import math

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from skdp import DPLinearRegression, DPLogisticRegression, DPPoissonRegressor
from skdp.columns import Categories, Range
from tests.wide import covering

matplotlib.use("Agg")

JOBS = ["office", "field", "none", "never"]  # no record has the last
COLUMNS = {"age": Range(17, 90), "gain": Range(0, 99, log=True, missing=True)}
COLUMNS |= {"job": Categories(JOBS)}


def table(n=4000, seed=0, *, is_dependent=False):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"age": rng.triangular(17, 30, 90, n)})
    X["gain"] = np.where(rng.uniform(size=n) < 0.2, np.nan, rng.exponential(9, n))
    X["job"] = rng.choice(JOBS[:3], n, p=[0.7, 0.2, 0.1])
    if is_dependent:
        X["gain"] = 0.1 * (X["age"] - 17) + rng.exponential(1, n)
    raw = (X["age"] - 40) / 15 + 1.5 * (X["job"] == "field")
    return X, raw.to_numpy(), rng


def classifier(X, raw, rng, **given):
    y = (rng.logistic(size=len(X)) < raw) * 1
    model = DPLogisticRegression(1.0, columns=COLUMNS, classes=[0, 1], **given)
    return model.fit(X, y)


def test_effects_and_the_constant_add_up_to_the_decision():
    X, raw, rng = table()
    model = classifier(X, raw, rng)
    effects = model.effects()
    knots = effects["age"]["at"].to_numpy(float)
    rows = pd.DataFrame({"age": knots, "gain": np.nan, "job": "field"})
    rows = rows.assign(gain=rows["gain"].astype(float))
    added = effects["age"]["effect"].to_numpy()
    gain, job = effects["gain"], effects["job"].set_index("value")
    added = added + gain["effect"].iloc[-1] + job.loc["field", "effect"]
    constant = model.intercept_[0] + (model.coef_ @ model.center_)[0]
    # Longer rows are clipped, and their effects with them.
    model.row_norm_ = 1e9
    assert np.allclose(model.decision_function(rows), constant + added)


def weighted_means(effects):
    return [table["share"] @ table["effect"] for table in effects.values()]


@pytest.mark.filterwarnings("ignore::skdp.exceptions.SeededNoiseWarning")
def test_a_value_without_records_moves_no_other():
    X, raw, rng = table()
    # A mean effect may be near 0 by chance.
    model = classifier(X, raw, rng, random_state=0)
    effects = model.effects()
    assert np.allclose(weighted_means(effects), 0, atol=1e-9)
    jobs = effects["job"].set_index("value")
    assert jobs.loc["never", "share"] < 0.03
    assert jobs.loc["never", "noise"] > 1.5 * jobs.loc["office", "noise"]
    # The twin centres over all values alike.
    apart = jobs["effect"] - jobs["effect"].mean()
    assert abs(jobs["share"] @ apart) > 1e-3


def effects_of(model, name):
    tables = model.effects().values()
    return np.concatenate([table[name].to_numpy(float) for table in tables])


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "is_dependent"),
    covering(
        itertools.product([DPLogisticRegression, DPLinearRegression], [False, True])
    ),
)
def test_refits_vary_by_the_stated_noise(kind, is_dependent):
    X, raw, rng = table(3000, is_dependent=is_dependent)
    y = raw + rng.normal(size=len(X))
    given = {"target_bounds": (-5, 5)}
    if kind is DPLogisticRegression:
        y, given = (rng.logistic(size=len(X)) < raw) * 1, {"classes": [0, 1]}
    fits = [kind(1.0, columns=COLUMNS, **given).fit(X, y) for _ in range(40)]
    seen = np.std([effects_of(model, "effect") for model in fits], axis=0)
    noise, shares = (
        np.sqrt(np.mean([effects_of(model, name) ** 2 for model in fits], axis=0))
        for name in ("noise", "share")
    )

    # Four repetitions gave .86 to 1.05 with independent columns and 1.10 to 1.32 with
    # dependent ones, with a deviation of .03.
    low, high = (0.75, 1.7) if is_dependent else (0.67, 1.3)

    def is_fair(stated):
        return low < np.sqrt(shares @ seen**2 / (shares @ stated**2)) < high

    assert is_fair(noise)
    assert not is_fair(noise / 2)
    assert not is_fair(2 * noise)


def test_noise_is_nan_where_it_is_not_known():
    X, raw, rng = table(1000)
    named = classifier(X, raw, rng, solver="noisy_gd").effects()["job"]
    assert named[["noise", "share"]].isna().all(axis=None)
    assert abs(named["effect"].mean()) < 1e-12
    model = DPLogisticRegression(math.inf, columns=COLUMNS, classes=[0, 1])
    exact = model.fit(X, (raw > 0) * 1).effects()["job"]
    assert (exact["noise"] == 0).all()
    assert abs(exact["share"].iloc[0] - np.mean(X["job"] == "office")) < 0.01


def test_pictures_name_their_unit_and_leave_out_no_declared_value():
    X, raw, rng = table()
    display = classifier(X, raw, rng).plot_effects()
    by_title = {ax.get_title(): ax for ax in display.axes_}
    assert set(by_title) == set(COLUMNS)
    assert by_title["age"].get_ylabel() == "log-odds of 1"
    assert by_title["gain"].get_xscale() == "symlog"
    assert by_title["gain"].get_legend() is not None  # the line of missing values
    ticks = [text.get_text() for text in by_title["job"].get_yticklabels()]
    assert [text.split()[0] for text in ticks] == JOBS
    plt.close(display.figure_)
    counts = DPPoissonRegressor(1.0, columns=COLUMNS, target_bounds=(0, 9))
    display = counts.fit(X, rng.poisson(2, len(X))).plot_effects(["age"])
    assert display.ax_.get_ylabel() == "log of the mean"
    display = counts.plot_effects([("age", "job")])
    assert display.ax_.texts[0].get_text() == "no interaction kept"
    with pytest.raises(ValueError, match="must name columns with an effect"):
        counts.plot_effects(["wings"])
    plt.close("all")
