"""Nothing but the fits of an audit is answered by its auditor, however it ends."""

from __future__ import annotations

import contextvars
import sys
import threading

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from skdp import BudgetLedger, DPLogisticRegression, DPStandardScaler
from skdp.audit import audit_estimator, audit_one_run, membership_inference
from skdp.audit._exact import NullRecord, Replay
from skdp.audit._neighbours import Neighbours
from skdp.audit._runs import FitJob
from skdp.privacy import GaussianEvent
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.release._door import Door, audited, audited_by, auditor_now
from skdp.tables._memory import MemorySource

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
X /= np.linalg.norm(X, axis=1, keepdims=True)
Y = (X[:, 0] > 0).astype(int)


def logistic(**given):
    facts = {"delta": 1e-5, "classes": [0, 1], "solver": "noisy_gd"}
    return DPLogisticRegression(1.0, **facts | given)


class Nothing(BaseEstimator):
    def fit(self, X, y=None):
        return self


# Where it ends ------------------------------------------------------------------------


def test_a_copy_of_the_context_outlives_no_audit():
    kept = audited(Replay(0), contextvars.copy_context)
    with audited_by(Replay(0)):
        other = contextvars.copy_context()
    assert kept.run(auditor_now) is None
    assert other.run(auditor_now) is None
    # With noise of a replay both would be the same.
    models = [kept.run(logistic().fit, X, Y) for _ in range(2)]
    assert not np.array_equal(models[0].coef_, models[1].coef_)


def test_an_error_ends_an_audit():
    for error in (ValueError, KeyboardInterrupt, SystemExit, GeneratorExit):

        def fails(error=error):
            raise error

        with pytest.raises(error):
            audited(Replay(0), fails)
        assert auditor_now() is None


def interrupted(number):
    """Whether an interrupt at such an instruction was, and who audits afterwards."""
    counted = [0]

    def trace(frame, event, _):
        if not frame.f_code.co_filename.endswith(("_door.py", "contextlib.py")):
            return trace
        frame.f_trace_opcodes = True
        if event == "opcode":
            counted[0] += 1
            if counted[0] == number:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        FitJob(Nothing(), Neighbours(X, Y, X, Y, "", 0)).fitted(1)
    # While it is known, its frames are: so in an interactive session.
    except KeyboardInterrupt:
        return True, auditor_now()
    finally:
        sys.settrace(before)
    return False, auditor_now()


def test_an_interrupt_at_any_instruction_leaves_no_auditor():
    number = 0
    while True:
        number += 1
        was, left = contextvars.copy_context().run(interrupted, number)
        assert left is None, number
        if not was:
            break
    assert number > 20


# Doors --------------------------------------------------------------------------------


class Ready:
    def event(self, multiplier, relation):
        return GaussianEvent(multiplier)


def door():
    return Door(
        Budget(1.0, 1e-5), adjacency="replace_one", ledger=None, random_state=None
    )


def test_a_door_is_of_the_audit_that_it_was_opened_in():
    source = MemorySource(np.zeros((1, 1)), np.zeros(1))
    with pytest.raises(ValueError, match="within the audit"):
        audited(Replay(0), door).commit(Ready(), source, label="")
    plain = door()
    with pytest.raises(ValueError, match="within the audit"):
        audited(Replay(0), lambda: plain.commit(Ready(), source, label=""))


def test_a_stream_is_of_the_audit_that_it_was_begun_in():
    model = DPLogisticRegression(
        1.0,
        delta=1e-5,
        classes=[0, 1],
        solver="ftrl",
        solver_params={"n_parts": 2},
    )
    audited(Replay(0), lambda: model.partial_fit(X, Y))
    with pytest.raises(ValueError, match="within the audit"):
        model.partial_fit(X, Y)


# Caches and books ---------------------------------------------------------------------


def test_ledgers_in_a_grid_are_found_before_they_are_spent(tmp_path):
    ledger = BudgetLedger(tmp_path / "study.db", epsilon=30.0, delta=1e-2)
    grid = {"ledger": [ledger], "classes": [[0, 1]]}
    search = GridSearchCV(logistic(), grid, cv=2, error_score="raise")
    with pytest.raises(ValueError, match="must have no ledger"):
        audit_estimator(search, X, Y, epsilon=2.0, n_runs=40)
    with pytest.raises(ValueError, match="must have no ledger"):
        audit_one_run(search, X, Y, n_canaries=5, delta=1e-5, random_state=0)
    fitted = GridSearchCV(logistic(), {"classes": [[0, 1]]}, cv=2).fit(X, Y)
    fitted.param_grid = grid
    half = (X[:30], Y[:30]), (X[30:], Y[30:])
    with pytest.raises(ValueError, match="must have no ledger"):
        membership_inference(fitted, *half, n_shadows=4)
    assert ledger.spends() == []


def test_coins_without_a_seed_are_not_those_of_numpy(monkeypatch):
    fits = []
    monkeypatch.setattr(
        Nothing, "fit", lambda self, X, y: fits.append(np.array(y)) or self
    )
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        audit_one_run(
            Nothing(),
            X,
            Y,
            n_canaries=60,
            adjacency="replace_one",
            score=lambda model, pairs: np.arange(60.0),
        )
    assert not np.array_equal(*fits)


def test_a_thread_with_a_copy_of_the_context_is_not_audited():
    found = []

    def work():
        context = contextvars.copy_context()
        thread = threading.Thread(target=lambda: found.append(context.run(auditor_now)))
        thread.start()
        thread.join()
        return auditor_now()

    auditor = NullRecord()
    assert audited(auditor, work) is auditor
    assert found == [None]


def test_a_cache_hides_no_null_record(tmp_path):
    scaler = DPStandardScaler(1.0, delta=1e-5, bounds=(-1, 1), adjacency="zero_out")
    last = logistic(adjacency="zero_out")
    model = Pipeline([("scale", scaler), ("predict", last)], memory=str(tmp_path))
    result = audit_estimator(model, X, Y, access="transcript")
    assert result.epsilon_lower_bound > 0.5
    assert result.parts["line 0.0"][0] > 0
