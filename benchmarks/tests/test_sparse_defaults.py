"""The measurements behind sparse defaults, on small stand-ins."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from benchmarks import _sparse_defaults
from benchmarks._sparse_data import Parts
from benchmarks._sparse_design import Design


def test_rows_are_printed_for_settings(monkeypatch, capsys):
    design = Design(n=60, d=12, s=2, kind="signs")
    monkeypatch.setattr(_sparse_defaults, "DESIGN", design)
    monkeypatch.setattr(_sparse_defaults, "SEEDS", range(2))
    budget = {"epsilon": 5.0, "adjacency": "zero_out"}
    _sparse_defaults._synthetic(budget, "two_stage", {"selection": "gaussian"})
    cells = capsys.readouterr().out.split("|")
    assert [cells[i].strip() for i in (1, 2, 3, 4)] == [
        "signs",
        "zero_out",
        "5.0",
        "two_stage",
    ]
    assert float(cells[6].split("±")[0]) > 0


def test_public_rows_are_neither_trained_on_nor_judged_by(monkeypatch, capsys):
    n = 25_000
    X = csr_matrix((np.ones(n), (np.arange(n), np.arange(n) % 5)), shape=(n, 5))
    data = Parts(X, np.arange(n) % 2.0, X[:1], np.zeros(1))
    monkeypatch.setattr(_sparse_defaults, "imdb", lambda *_: data)
    monkeypatch.setattr(_sparse_defaults, "TEXT_SEEDS", range(1))
    _sparse_defaults._parts.cache_clear()
    X_train, y_train, public, X_judge, y_judge = _sparse_defaults._parts(0)
    assert (X_train.shape[0], public.shape[0], X_judge.shape[0]) == (
        15_000,
        5_000,
        5_000,
    )
    assert len(y_train) == 15_000
    assert len(y_judge) == 5_000
    params = {"teacher": "noisy_gd", "public_rows": None}
    _sparse_defaults._text(1.0, 2, "knowledge_transfer", params)
    assert "given" in capsys.readouterr().out
    _sparse_defaults._parts.cache_clear()
