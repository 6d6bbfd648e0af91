"""Seeded releases are equal bit for bit wherever a table lies: fits, scores, searches.

One matrix, of records and of users: each release is made from memory, from files and
from a database, which differ in batches, files, threads and the order of rows. What
engines of `skdp.io.engines` read is compared with the same bits in `engines/`.
"""

from __future__ import annotations

import functools
import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skdp import (
    DPPCA,
    BoundedScaler,
    DPCalibratedClassifier,
    DPCategoricalNB,
    DPConformalClassifier,
    DPConformalRegressor,
    DPDiscreteTimeSurvival,
    DPGradientBoostingClassifier,
    DPGradientBoostingRegressor,
    DPGridSearchCV,
    DPKMeans,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPMLPClassifier,
    DPMLPRegressor,
    DPPoissonRegressor,
    DPQuantileClipper,
    DPQuantileRegressor,
    DPSimpleImputer,
    DPSparseLogisticRegression,
    DPStandardScaler,
    DPTunedThresholdClassifier,
    TableEncoder,
    describe,
    private_evaluation,
    private_score,
    propose_ranges,
)
from tests.io import places
from tests.io.places import COLUMNS, FEATURES, N, kept, numbers
from tests.io.users import GD, N_USERS, fitted_here, shuffled, table
from tests.wide import covering

SEED = {"random_state": 0}
LABELS = {"classes": [0, 1], **SEED}
BOUNDS = {"target_bounds": (0, 1), **SEED}
STEP = {"bounds": (-2, 2), **SEED}
PLAIN = DPLogisticRegression(1.0, **GD, **LABELS)
MODELS = {
    "noisy_gd": (PLAIN, "y"),
    "three labels": (DPLogisticRegression(1.0, classes=[0, 1, 2], **GD, **SEED), "y"),
    "nesterov": (DPLogisticRegression(1.0, solver="nesterov", **LABELS), "y"),
    "svc": (DPLinearSVC(1.0, **GD, **LABELS), "y"),
    "centred": (DPLogisticRegression(20.0, columns=COLUMNS, **LABELS), "y"),
    "centred counts": (DPPoissonRegressor(20.0, columns=COLUMNS, **BOUNDS), "t"),
    "survival": (
        DPDiscreteTimeSurvival(20.0, horizon=0.7, columns=COLUMNS, **SEED),
        "t",
    ),
    "one-hot": (
        DPLogisticRegression(
            1.0, columns=TableEncoder(COLUMNS, numeric="bins"), **GD, **LABELS
        ),
        "y",
    ),
    "regression": (DPLinearRegression(1.0, columns=COLUMNS, **BOUNDS), "t"),
    "quantile model": (DPQuantileRegressor(1.0, **GD, **BOUNDS), "t"),
    "moments": (DPLinearRegression(1.0, solver="adassp", **BOUNDS), "t"),
    "sparse": (DPSparseLogisticRegression(1.0, **LABELS), "y"),
    "boosting": (
        DPGradientBoostingClassifier(1.0, columns=COLUMNS, n_estimators=5, **LABELS),
        "y",
    ),
    "boosted regression": (
        DPGradientBoostingRegressor(1.0, columns=COLUMNS, n_estimators=5, **BOUNDS),
        "t",
    ),
    "naive Bayes": (DPCategoricalNB(1.0, columns=COLUMNS, **LABELS), "y"),
    "network": (DPMLPClassifier(1.0, columns=COLUMNS, **GD, **LABELS), "y"),
    "network of numbers": (DPMLPRegressor(1.0, **GD, **BOUNDS), "t"),
    "standard": (
        make_pipeline(BoundedScaler((-2, 2)), DPStandardScaler(**STEP), PLAIN),
        "y",
    ),
    "quantiles": (
        make_pipeline(DPSimpleImputer(**STEP), DPQuantileClipper(**STEP), PLAIN),
        "y",
    ),
    "clusters": (make_pipeline(DPKMeans(n_clusters=3, **STEP), PLAIN), "y"),
    "components": (make_pipeline(DPPCA(n_components=2, **SEED), PLAIN), "y"),
}


def continuing(name):
    """A model that continues one of these, which was fitted to other rows."""
    model, target = MODELS[name]
    frame = numbers(seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = clone(model).fit(frame[FEATURES], frame[target])
    return clone(model).set_params(init=given), target


CONTINUED = "centred", "regression", "boosting", "network"
MODELS |= {f"{name}, continued": continuing(name) for name in CONTINUED}


def released(model):
    """All numbers that a fit released."""
    last = model[-1] if hasattr(model, "steps") else model
    found = [getattr(last, "coef_", None), getattr(last, "intercept_", None)]
    if not hasattr(last, "coef_"):
        found = [last._raw(numbers()[FEATURES])]
    return [np.asarray(part) for part in found]


def bits(numbers):
    return b"".join(np.asarray(part).tobytes() for part in numbers)


def fit(model):
    """A fit, as a release; ids of users go to every step that takes them."""
    return lambda X, y=None, ids=None, **given: bits(
        released(fitted_here(model, X, y, ids, **given))
    )


@functools.cache
def scored():
    """Models that are scored: of names, and of numbers."""
    frame = numbers()
    one = clone(PLAIN).fit(frame[FEATURES], frame["y"])
    other = DPLogisticRegression(0.1, columns=COLUMNS, **LABELS)
    regression = DPLinearRegression(1.0, columns=COLUMNS, **BOUNDS)
    return (
        one,
        other.fit(frame[FEATURES], frame["y"]),
        regression.fit(frame[FEATURES], frame["t"]),
    )


def score(scoring, which=0):
    def release(X, y=None, ids=None, **given):
        facts = {"epsilon": 1.0, "groups": ids, "scoring": scoring, **SEED, **given}
        return repr(private_score(scored()[which], X, y, **facts).value)

    return release


def evaluation(X, y=None, ids=None, **given):
    found = private_evaluation(
        scored()[1], X, y, epsilon=1.0, groups=ids, **SEED, **given
    )
    return found.counts.tobytes()


def comparison(X, y=None, ids=None, **given):
    found = private_evaluation(
        scored()[:2], X, y, epsilon=1.0, groups=ids, **SEED, **given
    )
    return repr((found.first_only, found.second_only))


def conformal(kind, which):
    def release(X, y=None, ids=None, **given):
        found = kind(scored()[which], **SEED, **given).fit(X, y, ids)
        return bits([found.counts_, found.quantile_])

    return release


def description(X, y=None, ids=None, **given):
    facts = {"epsilon": 1.0, "groups": ids, "crosses": [("a", "b")], **SEED, **given}
    found = describe(X, COLUMNS, **facts).to_frame()
    return found.select_dtypes("number").to_numpy().tobytes()


def proposal(X, y=None, ids=None, **given):
    found = propose_ranges(X, epsilon=1.0, groups=ids, **SEED, **given)
    return bits(found.released.values())


def search(model):
    """A search, or a model with held-out records: predictions and the choice."""

    def release(X, y=None, ids=None, **given):
        groups = {} if ids is None else {"groups": ids}
        found = clone(model).set_params(**given).fit(X, y, **groups)
        raw = found.predict_proba(numbers()[FEATURES])
        return bits([raw, found.best_score_]) + repr(found.best_params_).encode()

    return release


QUICK = DPLogisticRegression(classes=[0, 1], columns=COLUMNS, solver="noisy_gd")
GRID = {"C": [0.1, 1.0]}
ASKED = {"epsilon": 5.0, **SEED}
TREES = DPGradientBoostingClassifier(columns=COLUMNS, classes=[0, 1], n_estimators=2)
STOPPING = {"method": "random_stopping", "method_params": {"mean_trials": 2.0}}
PIPED = make_pipeline(
    TableEncoder(COLUMNS, n_knots=5),
    DPStandardScaler(bounds=(-2, 2)),
    DPLogisticRegression(classes=[0, 1], solver="noisy_gd"),
)
SEARCHES = {
    "search": DPGridSearchCV(QUICK, GRID, **ASKED),
    "search of pipelines": DPGridSearchCV(
        PIPED, {"dplogisticregression__C": [0.1, 1.0]}, **STOPPING, **ASKED
    ),
    "search of trees": DPGridSearchCV(TREES, {"learning_rate": [0.1, 0.5]}, **ASKED),
    "threshold": DPTunedThresholdClassifier(QUICK, **ASKED),
    "calibrated": DPCalibratedClassifier(QUICK, **ASKED),
}
OTHERS = {
    "score": (score("neg_log_loss"), "y"),
    "accuracy": (score("accuracy", 1), "y"),
    "r2": (score("r2", 2), "t"),
    "evaluation": (evaluation, "y"),
    "comparison": (comparison, "y"),
    "intervals": (conformal(DPConformalRegressor, 2), "t"),
    "sets": (conformal(DPConformalClassifier, 1), "y"),
    "description": (description, "y"),
    "ranges": (proposal, "y"),
    **{name: (search(model), "y") for name, model in SEARCHES.items()},
}
RECORDS = {
    name: (fit(model), target) for name, (model, target) in MODELS.items()
} | OTHERS
# Of users: clipped sums beside, and no solver that has no bound for them.
NOT_OF_USERS = ("quantile model", "moments")
SUMS = {"solver": "noisy_gd", "solver_params": {"n_steps": 4, "user_clip": 0.5}}
CLIPPED = DPLogisticRegression(1.0, **SUMS, **LABELS)
USERS = {name: each for name, each in RECORDS.items() if name not in NOT_OF_USERS}
USERS |= {"clipped sums": (fit(CLIPPED), "y")}
BY_UNIT = {"record": RECORDS, "user": USERS}


# ------------------------------------------------------------------------------- places


def turned(frame, path, **facts):
    """Row groups in another order; of users any order of rows."""
    if "groups" in facts:
        frame = shuffled(frame)
    return places.in_files(frame, path, n_files=3, batch_size=64, **facts)


PLACES = {
    "one file": places.in_files,
    "small batches": turned,
    "DuckDB": lambda frame, path, **facts: places.in_database(shuffled(frame), **facts),
    "two threads": lambda frame, path, **facts: places.in_database(
        frame, threads=2, batch_size=100, **facts
    ),
}
FILES, DATABASES = ("one file", "small batches"), ("DuckDB", "two threads")


def frame_of(unit):
    return numbers() if unit == "record" else table()


def facts_of(unit, what):
    """What is said of the table to a source, and to a release."""
    target = BY_UNIT[unit][what][1]
    if unit == "record":
        return {"target": target}, {}
    groups = "name" if len(what) % 2 else "id"
    users = {"groups": groups, "n_samples": N_USERS}
    return {"target": target, **users}, {"privacy_unit": "user"}


@functools.cache
def in_memory(unit, what):
    """What is released of a table in memory."""
    frame = frame_of(unit)
    release, target = BY_UNIT[unit][what]
    facts, given = facts_of(unit, what)
    ids = frame[facts["groups"]] if unit == "user" else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return release(frame[FEATURES], frame[target], ids, **given)


def cells():
    """Each release from files and from a database, which take turns."""
    for unit, asked in BY_UNIT.items():
        for number, what in enumerate(asked):
            if what not in SEARCHES:
                yield unit, what, FILES[number % 2]
                yield unit, what, DATABASES[number // 2 % 2]
                continue
            yield unit, what, "small batches"
            # Records are divided by their places, which those of a table may change.
            if unit == "user":
                yield unit, what, DATABASES[number % 2]


@pytest.fixture(scope="module")
def source_in(tmp_path_factory):
    """Sources of the tables, each of which is made once."""
    with kept() as once:

        def find(place, unit, facts):
            path = (
                tmp_path_factory.getbasetemp()
                / f"bits {unit} {place} {sorted(facts.items())}"
            )
            return once(PLACES[place], frame_of(unit), path, **facts)

        yield find


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("unit", "what", "place"), covering(cells()))
def test_releases_have_the_bits_of_memory(unit, what, place, source_in):
    facts, given = facts_of(unit, what)
    release, source = BY_UNIT[unit][what][0], source_in(place, unit, facts)
    if unit == "user" and what in SEARCHES:
        # By their ids, in memory by a secret order.
        expected = release(source_in("one file", unit, facts), **given)
    else:
        expected = in_memory(unit, what)
    assert release(source, **given) == expected


def test_every_release_is_made_of_records_and_users_everywhere():
    found = set(cells())
    assert {unit for unit, *_ in found} == set(BY_UNIT)
    for unit, place in product(BY_UNIT, PLACES):
        here = {what for u, what, where in found if (u, where) == (unit, place)}
        assert len(here) > 8
        assert here & set(MODELS)
        assert here & set(OTHERS)


@pytest.mark.filterwarnings("ignore")
def test_broken_twin_with_other_bits_is_found(source_in, monkeypatch):
    """Rows in single precision, which no one would see in rounded numbers."""
    numbers_of = places.numbers
    facts, given = facts_of("record", "noisy_gd")
    frame = numbers_of().astype(dict.fromkeys(FEATURES, np.float32))
    source = places.in_database(frame, **facts)
    assert RECORDS["noisy_gd"][0](source, **given) != in_memory("record", "noisy_gd")


def test_users_without_rows_are_declared(source_in):
    """They count as those in memory whom a categorical declares."""
    frame, more = table(), {"privacy_unit": "user"}
    declared = pd.CategoricalDtype(range(2**53 - 5, 2**53 + N_USERS))
    for what in ("noisy_gd", "accuracy", "comparison", "description"):
        release, target = USERS[what]
        ids = frame["id"].astype(declared)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            here = release(frame[FEATURES], frame[target], ids, **more)
            facts = {"target": target, "groups": "id", "n_samples": N_USERS + 5}
            for place in ("one file", "DuckDB"):
                assert release(source_in(place, "user", facts), **more) == here
    assert N > len(frame) > N_USERS
