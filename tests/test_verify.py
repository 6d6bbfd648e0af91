"""The verifier stands alone, agrees with skdp on records of all kinds, and rejects."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
import pickle
import shutil
import sqlite3
import subprocess
import sys
import warnings
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from skdp import (
    BudgetLedger,
    DPGridSearchCV,
    DPLinearSVC,
    DPLogisticRegression,
    DPRandomizedSearchCV,
    private_score,
)
from skdp.__main__ import main as skdp_command
from skdp.privacy import (
    BoundedRangeEvent,
    Budget,
    ComposedEvent,
    EpsilonDeltaEvent,
    GaussianEvent,
    LaplaceEvent,
    ObjectiveEvent,
    ParallelEvent,
    PoissonGaussianEvent,
    PureEvent,
    SelectionEvent,
    epsilon_of,
)
from skdp.privacy.accounting._codec import event_to_dict
from tests.contract.test_record_schema import ESTIMATORS, record_of
from tests.decomposition.ratings import low_rank_ratings
from tests.decomposition.test_matrix_factorization import BY_USER, PRIVATE
from tests.imports import imported
from tests.wide import covering

ROOT = Path(__file__).parents[1]
FILE = ROOT / "tools" / "verify.py"
STORED = ROOT / "tests" / "stored" / "1.0"
spec = importlib.util.spec_from_file_location("verify", FILE)
verify = importlib.util.module_from_spec(spec)
spec.loader.exec_module(verify)

GAUSSIAN = GaussianEvent(30.0, 20)
LAW = ("negative_binomial", 2.0, 13)
EVENTS = {
    "gaussian": GaussianEvent(4.0, 3),
    "many gaussians": ComposedEvent((GaussianEvent(9.0, 40), GaussianEvent(3.0))),
    "laplace": LaplaceEvent(10.0, 50),
    "pure": PureEvent(0.1, 30),
    "bounded range": BoundedRangeEvent(0.2, 50),
    "black boxes": EpsilonDeltaEvent(0.3, 1e-8, 5),
    "samples, zero_out": PoissonGaussianEvent(1.0, 0.01, 1000),
    "samples, replace_one": PoissonGaussianEvent(1.0, 0.01, 1000, "replace_one"),
    "samples beside noise": ComposedEvent(
        (PoissonGaussianEvent(2.0, 0.02, 200, "replace_one"), GAUSSIAN)
    ),
    "objective": ObjectiveEvent(5.0, 0.2, curvature=0.3),
    "objective, replace_one": ObjectiveEvent(5.0, 0.2, 1, 2, curvature=0.3),
    "objective of outputs": ObjectiveEvent(5.0, 0.2, 1, 2, outputs=5),
    "objective of many corners": ObjectiveEvent(4.5, 0.0, 10, 45),
    "objective beside noise": ComposedEvent(
        (ObjectiveEvent(5.0, 0.2, curvature=0.3), GAUSSIAN)
    ),
    "all kinds of noise": ComposedEvent(
        (LaplaceEvent(9.0, 4), PureEvent(0.1), BoundedRangeEvent(0.1, 3), GAUSSIAN)
    ),
    "search": SelectionEvent(GaussianEvent(4.0), *LAW),
    "search of poisson": SelectionEvent(GaussianEvent(4.0), "poisson", 5.0, 20),
    "search of shape": SelectionEvent(GaussianEvent(4.0), *LAW, shape=0.0),
    "pure search": SelectionEvent(PureEvent(0.2), *LAW),
    "search beside noise": ComposedEvent(
        (SelectionEvent(GaussianEvent(4.0), *LAW), GAUSSIAN)
    ),
    "disjoint sets": ParallelEvent((GaussianEvent(4.0), LaplaceEvent(3.0))),
    "disjoint sets beside noise": ComposedEvent(
        (ParallelEvent((GaussianEvent(4.0), GaussianEvent(9.0))), GAUSSIAN)
    ),
}
# The verifier may find less: it composes pure noise exactly, skdp by sums.
CLOSE = 2e-3


def relation_of(event):
    """The relation of an event; other events than samples are right under both."""
    return "replace_one" if '"replace_one"' in json.dumps(event) else "zero_out"


def recomputed(event, delta):
    found = verify.worlds(event, relation_of(event))
    return max(verify.cost(world, delta)[0] for world in found)


def statement(event, epsilon, delta):
    return {
        "estimator": "E",
        "unit": "record",
        "adjacency": relation_of(event),
        "is_private": True,
        "epsilon": epsilon,
        "delta": delta,
        "event": event,
    }


def test_one_source_that_imports_the_standard_library_and_numpy():
    source = FILE.read_text()
    assert source == (ROOT / "skdp" / "_verify.py").read_text()
    names = {name.partition(".")[0] for name in imported(source)}
    assert names - {"numpy"} <= sys.stdlib_module_names


def test_it_runs_where_skdp_cannot_be_imported(tmp_path):
    shutil.copy(FILE, tmp_path)
    record = json.dumps(statement(event_to_dict(PureEvent(1.0)), 1.0, 0.0))
    (tmp_path / "record.json").write_text(record)
    code = (
        "import sys; sys.modules['skdp'] = None; import verify; "
        f"sys.exit(verify.main(['record.json', {str(STORED / 'study.db')!r}]))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("  holds\n") == 2


@pytest.mark.parametrize("delta", [1e-5, 1e-10])
@pytest.mark.parametrize("name", EVENTS)
def test_it_confirms_the_epsilon_of_every_event(name, delta):
    event = EVENTS[name]
    found, of_skdp = recomputed(event_to_dict(event), delta), epsilon_of(event, delta)
    assert found <= of_skdp * (1 + verify.COARSE)
    if np.isfinite(of_skdp):
        assert found > of_skdp * 0.7


# Exact hockey sticks at e >= 0, of events whose grid is not needed.
CURVES = {
    "gaussian": ({"mu": 0.1, "count": 50}, lambda e: verify.gaussian(0.5**0.5, e)),
    "laplace": ({"epsilon": 0.7}, lambda e: -np.expm1(np.minimum(e - 0.7, 0) / 2)),
    "pure": (
        {"epsilon": 0.7},
        lambda e: np.exp(0.7) * -np.expm1(np.minimum(e - 0.7, 0)) / (1 + np.exp(0.7)),
    ),
    "bounded_range": (
        {"epsilon": 0.7},
        lambda e: np.expm1(np.minimum(e - 0.7, 0) / 2) ** 2 / -np.expm1(-0.7),
    ),
}


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("kind", CURVES)
def test_its_grid_bounds_exact_curves_closely_from_above(kind, back):
    values, curve = CURVES[kind]
    e, least = np.linspace(0, 4, 300), 1e-10
    world = [verify.LeafEvent(kind=kind, **values)]
    found, exact = verify.in_order(world, least, back)(e), curve(e)
    assert (found >= exact * (1 - 1e-9)).all()  # but for rounding
    # Where a curve of a largest loss ends, the grid has one cell of its own.
    is_clear = (exact > 0.01 * exact[0]) | (kind == "gaussian")
    assert (found <= exact * 1.005 + least)[is_clear].all()
    # The twin has a little less noise.
    stronger = {name: x * 1.02 for name, x in values.items() if name != "count"}
    twin = [verify.LeafEvent(kind=kind, **values | stronger)]
    found = verify.in_order(twin, least, back)(e)
    assert not (found <= exact * 1.005 + least)[is_clear].all()


@pytest.mark.parametrize("name", ["gaussian", "laplace", "samples, zero_out", "search"])
def test_it_finds_the_epsilon_of_tight_accounting(name):
    found = recomputed(event_to_dict(EVENTS[name]), 1e-5)
    assert found == pytest.approx(epsilon_of(EVENTS[name], 1e-5), rel=CLOSE)


@pytest.mark.long
@pytest.mark.parametrize("name", EVENTS)
def test_broken_twin_that_states_one_percent_too_little_is_rejected(name):
    event = event_to_dict(EVENTS[name])
    found = recomputed(event, 1e-5)
    assert verify.check_record(statement(event, found, 1e-5))[0]
    assert not verify.check_record(statement(event, 0.99 * found, 1e-5))[0]


def test_broken_twin_without_an_event_is_rejected():
    parts = [event_to_dict(GaussianEvent(9.0, 4)), event_to_dict(LaplaceEvent(20.0))]
    whole = {"event": "composed", "parts": parts}
    stated = recomputed(whole, 1e-6)
    assert verify.check_record(statement(whole, stated, 1e-6))[0]
    for part in parts:
        is_true, lines = verify.check_record(statement(part, stated, 1e-6))
        assert not is_true
        assert "one may be missing" in lines[-1]


SEARCH = SelectionEvent(GaussianEvent(4.0), *LAW)
G, P = event_to_dict(GaussianEvent(1.0)), event_to_dict(PureEvent(5.0))
OBJECTIVE = event_to_dict(ObjectiveEvent(5.0, 0.2)) | {"outputs": 1}


def composed(*parts):
    return {"event": "composed", "parts": list(parts)}


@pytest.mark.parametrize("search", [SEARCH, EVENTS["pure search"]])
def test_equal_searches_are_counted_each(search):
    one = event_to_dict(search)
    several = recomputed(composed(*[one] * 5), 1e-5)
    assert several > 2 * recomputed(one, 1e-5)
    exact = epsilon_of(ComposedEvent((search,) * 5), 1e-5)
    assert several == pytest.approx(exact, rel=0.05)


FORGED = [
    G | {"mu": 0.01},
    G | {"sampling_rate": 0.001},
    G | {"count": 0},
    G | {"count": True},
    G | {"count": 1.5},
    G | {"noise_multiplier": math.nan},
    G | {"noise_multiplier": "9"},
    P | {"epsilon": -4.9},
    composed(G | {"count": 100}, G | {"count": -100}),
    composed(P, {"event": "parallel", "parts": []}),
    event_to_dict(SEARCH) | {"trial": event_to_dict(LaplaceEvent(9.0))},
    event_to_dict(EpsilonDeltaEvent(0.1, 1e-3)) | {"delta": -1e-3},
    event_to_dict(SEARCH) | {"most": 10**7},
    {"event": "gaussian", "noise_multiplier": 1.0},
    {"event": ["gaussian"]},
    [],
    # Theorems on curvature and on several outputs are for few corners.
    OBJECTIVE | {"corners": 1000, "curvature": 0.3},
    OBJECTIVE | {"corners": 1000, "outputs": 5},
    OBJECTIVE | {"curvature": 0.3, "outputs": 5},
    event_to_dict(SEARCH) | {"shape": 50.0},
]


@pytest.mark.parametrize("event", FORGED)
def test_an_event_that_skdp_would_not_write_is_not_checked(event, tmp_path, capsys):
    path = tmp_path / "forged.json"
    path.write_text(json.dumps(statement(event, 40.0, 1e-6)))
    assert verify.main([str(path)]) == 2
    assert "cannot be checked" in capsys.readouterr().out


WRONG = [
    {"epsilon": math.nan},
    {"epsilon": "nan"},
    {"epsilon": -1.0},
    {"epsilon": True},
    {"delta": 2.0},
    {"delta": 1e-300},
    {"is_private": "yes"},
    {"is_private": None},
    {"adjacency": "none"},
    {"adjacency": ["zero_out"]},
    {"schema": 2},
]


@pytest.mark.parametrize("change", WRONG)
def test_a_statement_that_skdp_would_not_write_is_not_checked(change, tmp_path):
    path = tmp_path / "forged.json"
    path.write_text(json.dumps(statement(G, 40.0, 1e-6) | change))
    assert verify.main([str(path)]) == 2


def test_a_name_that_is_twice_in_a_statement_is_not_checked(tmp_path):
    text = json.dumps(statement(G, recomputed(G, 1e-6), 1e-6))
    for name, first in (("fine", "{"), ("forged", '{"epsilon": 0.001, ')):
        (tmp_path / name).write_text(first + text[1:])
    assert verify.main([str(tmp_path / "fine")]) == 0
    assert verify.main([str(tmp_path / "forged")]) == 2


def test_noise_without_delta_has_no_finite_epsilon():
    box = event_to_dict(EpsilonDeltaEvent(0.1, 1e-6))
    assert recomputed(G, 0.0) == math.inf
    assert recomputed(composed(G, box), 1e-6) == math.inf
    assert not verify.check_record(statement(G, 38.9, 0.0))[0]


def test_a_release_that_is_not_private_states_no_epsilon():
    stated = statement(G, 5.0, 1e-6) | {"is_private": False}
    assert not verify.check_record(stated)[0]


@pytest.mark.parametrize("relation", ["replace_one", "user", "rating_value"])
def test_a_sample_under_the_weaker_relation_is_not_taken_for_another(relation):
    event = event_to_dict(EVENTS["samples, zero_out"])
    with pytest.raises(ValueError, match="adjacency of an event"):
        verify.check_record(statement(event, 9.0, 1e-6) | {"adjacency": relation})


def test_losses_too_large_to_compose_are_not_cut_off():
    # The mean loss is in the thousands; exponentials of doubles end near 700.
    event = event_to_dict(PoissonGaussianEvent(0.05, 0.5, 30))
    assert recomputed(event, 1e-6) == math.inf
    assert not verify.check_record(statement(event, 650.0, 1e-6))[0]
    large = composed(event_to_dict(LaplaceEvent(1e-3, 5)), G)
    assert recomputed(large, 1e-6) > 5000


@pytest.mark.long
@pytest.mark.parametrize(
    ("sigma", "rate", "delta"),
    covering(
        [(0.6, 1e-4, 1e-8), (0.4, 1e-4, 1e-7), (0.381, 1.57e-4, 1e-6)],
        lambda cell: ("little noise",),
    ),
)
def test_one_sample_of_little_noise_costs_what_skdp_says(sigma, rate, delta):
    event = PoissonGaussianEvent(sigma, rate, 1)
    found = recomputed(event_to_dict(event), delta)
    assert found == pytest.approx(epsilon_of(event, delta), rel=CLOSE)


def confirmed(record):
    is_true, lines = verify.check_record(json.loads(record.to_json()))
    assert is_true, lines


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_it_confirms_the_record_of_every_estimator(name):
    confirmed(record_of(name))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", [PRIVATE, BY_USER], ids=["value", "user"])
def test_it_confirms_the_record_of_a_factorisation(model):
    confirmed(model.fit(*low_rank_ratings()).privacy_)


def stored_records():
    for path in sorted(STORED.glob("*.pickle")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = pickle.loads(path.read_bytes())
        record = getattr(found, "privacy_", getattr(found, "privacy", None))
        if record is not None:
            yield path.name, record


def test_it_confirms_all_records_that_a_release_stored():
    records = dict(stored_records())
    assert len(records) >= 35
    for record in records.values():
        confirmed(record)


# ------------------------------------------------------------------------------ Ledgers

X = np.random.default_rng(0).uniform(-0.5, 0.5, size=(400, 3))
Y = (X[:, 0] > 0).astype(int)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A ledger with releases of several kinds, and the records."""
    path = str(tmp_path_factory.mktemp("verify") / "study.db")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ledger = BudgetLedger(path, epsilon=30.0, delta=1e-4, reserve_epsilon=10)
        given = {"classes": [0, 1], "epsilon": 1.0, "delta": 1e-6, "ledger": ledger}
        models = [
            DPLogisticRegression(**given).fit(X, Y),
            DPLinearSVC(**given).fit(X, Y),
        ]
        for solver in ("objective_perturbation", "noisy_sgd"):
            models.append(DPLogisticRegression(**given, solver=solver).fit(X, Y))
        inner = DPLogisticRegression(classes=[0, 1])
        ledgered = {"epsilon": 2.0, "delta": 1e-6, "ledger": ledger}
        for search in (DPGridSearchCV, DPRandomizedSearchCV):
            for method in ("composition", "random_stopping"):
                one = search(inner, {"C": [0.1, 1.0]}, method=method, **ledgered)
                models.append(one.fit(X, Y))
        score = private_score(models[0], X, Y, epsilon=0.5, ledger=ledger)
    return path, [model.privacy_ for model in models] + [score.privacy]


MIXED = [
    GaussianEvent(10.0, 2),
    LaplaceEvent(10.0, 20),
    SelectionEvent(PureEvent(0.1), *LAW),
]


@pytest.mark.parametrize("noise", MIXED)
def test_it_confirms_the_charge_of_samples_beside_other_events(tmp_path, noise):
    sample = PoissonGaussianEvent(2.0, 0.02, 200, "replace_one")
    path = str(tmp_path / "study.db")
    ledger = BudgetLedger(path, epsilon=40.0, delta=1e-4)
    given = {"adjacency": "replace_one", "budget": Budget(1.0, 1e-6), "label": "x"}
    ledger.commit(ComposedEvent((sample, noise)), **given)
    is_true, lines = verify.check_ledger(path)
    assert is_true, lines
    less = "json_replace(charge, '$.mu_squared', json_extract(charge, '$.mu_squared')"
    forged = [f"UPDATE spends SET charge = {less} * 0.98)"]
    assert not changed((path,), tmp_path, forged)[0]


def test_it_confirms_a_ledger_and_the_records_of_its_releases(study):
    path, records = study
    is_true, lines = verify.check_ledger(path)
    assert is_true, lines
    for record in records:
        confirmed(record)


def changed(study, folder, statements, is_chained=True):
    """A copy of the ledger after some SQL, and whether it is confirmed.

    With `is_chained` a forger computes the chain of digests anew.
    """
    path = folder / "forged.db"
    shutil.copy(study[0], path)
    with closing(sqlite3.connect(path)) as file:
        for one in statements:
            file.execute(one)
        (terms,) = file.execute("SELECT * FROM books")
        link = hashlib.sha256(repr((*terms[:6], *terms[8:])).encode()).hexdigest()
        rows = file.execute("SELECT * FROM spends ORDER BY id").fetchall()
        for row in rows:
            link = hashlib.sha256((link + repr(row)).encode()).hexdigest()
        if is_chained:
            file.execute("UPDATE books SET head = ?, spends = ?", (link, len(rows)))
        file.commit()
    return verify.check_ledger(str(path))


def test_broken_twin_of_a_ledger_without_a_line_is_rejected(study, tmp_path):
    dropped = ["DELETE FROM spends WHERE id = 2"]
    is_true, lines = changed(study, tmp_path, dropped, is_chained=False)
    assert not is_true
    assert "the chain of digests is broken" in lines[-1]


@pytest.mark.parametrize("number", covering([1, 3, 6, 9], lambda number: (number > 5,)))
def test_broken_twin_that_charges_too_little_is_rejected(study, tmp_path, number):
    field = "$.mu_squared"
    with closing(sqlite3.connect(study[0])) as file:
        query = "SELECT charge FROM spends WHERE id = ?"
        charge = json.loads(file.execute(query, (number,)).fetchone()[0])
    if charge["mu_squared"] == 0:
        field = "$.epsilon"
    less = (
        f"UPDATE spends SET charge = json_replace(charge, '{field}', 0.98 * "
        f"json_extract(charge, '{field}')) WHERE id = {number}"
    )
    assert changed(study, tmp_path, [])[0]
    is_true, lines = changed(study, tmp_path, [less])
    assert not is_true
    assert f"release {number} is charged too little" in lines[-1]


@pytest.mark.parametrize("less", ["-4.5", "NaN", "1e999"])
def test_a_charge_out_of_range_is_refused(study, tmp_path, less):
    charge = f'{{"epsilon": {less}, "delta": 0.0, "mu_squared": 0.0}}'
    with pytest.raises(ValueError, match=r"out of range|is no number"):
        changed(study, tmp_path, [f"UPDATE spends SET charge = '{charge}' WHERE id=1"])


def test_broken_twin_with_a_lower_cap_is_rejected(study, tmp_path):
    is_true, lines = changed(study, tmp_path, ["UPDATE books SET epsilon = 1.5"])
    assert not is_true
    assert "exceed" in lines[-1]


# ------------------------------------------------------------------------------ Command


def test_exit_status_of_the_command(study, tmp_path, capsys):
    path, records = study
    good, bad, strange = (tmp_path / f"{i}.json" for i in range(3))
    good.write_text(records[0].to_json())
    values = json.loads(records[0].to_json())
    bad.write_text(json.dumps(values | {"epsilon": 0.99 * values["epsilon"]}))
    strange.write_text(json.dumps(values | {"event": {"event": "zcdp", "rho": 1.0}}))
    assert skdp_command(["verify", path, str(good)]) == 0
    assert "recomputed" in capsys.readouterr().out
    assert skdp_command(["verify", str(bad), str(good)]) == 1
    assert "DOES NOT HOLD" in capsys.readouterr().out
    assert skdp_command(["verify", str(strange)]) == 2
    assert "'zcdp' is unknown" in capsys.readouterr().out
    assert skdp_command(["verify", str(tmp_path / "absent.json")]) == 2
    assert verify.main([]) == 2
