"""Size and latency of fitted models and of their exports."""

from __future__ import annotations

import pickle
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np

from benchmarks._models import quietly_fitted
from benchmarks._runner import Line, at_hand, benchmark, line
from benchmarks._tables import adult, declared, parts
from skdp import (
    DPGradientBoostingClassifier,
    DPLogisticRegression,
    DPMLPClassifier,
    TableEncoder,
)

_SEED, _ROWS = 0, 10_000
# As many calls as take a moment together.
_CALLS = {1: 50, _ROWS: 3}


def _models() -> dict[str, Any]:
    """Unfitted models of Adult; the last one can become a pipeline."""
    given = declared("adult")
    common = {"epsilon": 1.0, "classes": given.classes, "random_state": _SEED}
    whole = {"columns": given.columns, **common}
    lines = TableEncoder(given.columns, numeric="linear")
    return {
        "logistic regression": DPLogisticRegression(**whole),
        "boosted trees": DPGradientBoostingClassifier(**whole),
        "network": DPMLPClassifier(**whole),
        "network of lines": DPMLPClassifier(columns=lines, **common),
    }


def _fitted(name: str) -> tuple[Any, Any]:
    """A model of Adult, and many rows."""
    known = parts("adult", _SEED, "report")
    return quietly_fitted(_models()[name], known.X_train, known.y_train), known.X


Form = Callable[[Any, Any], tuple[Any, int, Any]]


def _as_pickle(model: Any, X: Any) -> tuple[Any, int, Any]:
    """The model itself, where skdp is installed."""
    return model, len(pickle.dumps(model)), X


def _as_file(model: Any, X: Any) -> tuple[Any, int, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "exported.py"
        model.export_predictor(path)
        return run_path(str(path))["model"], path.stat().st_size, X


def _as_pipeline(model: Any, X: Any) -> tuple[Any, int, Any]:
    pipeline = model.export_sklearn()
    return pipeline, len(pickle.dumps(pipeline)), X


class _Session:
    """A model in ONNX as an object with `predict_proba`."""

    def __init__(self, text: bytes) -> None:
        from onnxruntime import InferenceSession

        self._session = InferenceSession(text)

    def predict_proba(self, X: dict[str, np.ndarray]) -> Any:
        # skl2onnx changes names that are no identifiers.
        names = [each.name for each in self._session.get_inputs()]
        return self._session.run(None, dict(zip(names, X.values(), strict=True)))[-1]


def _as_onnx(model: Any, X: Any) -> tuple[Any, int, Any]:
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import DoubleTensorType, StringTensorType

    used = list(model.feature_names_in_)
    is_text = {name: X[name].dtype.kind not in "biuf" for name in used}
    types = [
        (n, (StringTensorType if is_text[n] else DoubleTensorType)([None, 1]))
        for n in used
    ]
    options = {"zipmap": False}
    onnx = to_onnx(model.export_sklearn(), initial_types=types, options=options)
    text = onnx.SerializeToString()
    feed = {n: X[[n]].to_numpy(object if is_text[n] else np.float64) for n in used}
    return _Session(text), len(text), feed


FORMS: dict[str, Form] = {
    "skdp": _as_pickle,
    "Python file": _as_file,
    "pipeline": _as_pipeline,
    "ONNX": _as_onnx,
}
# What leaves as a pipeline, and in ONNX.
_HAVE = {"pipeline": {"logistic regression", "network", "network of lines"}}
_HAVE["ONNX"] = {"network of lines"}


def _measured(name: str, form: str, run: int) -> tuple[float, ...]:
    """Kilobytes, and milliseconds of CPU for one row and for many."""
    model, X = _fitted(name)
    made, size, X = FORMS[form](model, X)
    spent = []
    for n_rows, n_calls in _CALLS.items():
        some = {k: v[:n_rows] for k, v in X.items()} if form == "ONNX" else X[:n_rows]
        made.predict_proba(some)
        start = time.process_time()
        for _ in range(n_calls):
            made.predict_proba(some)
        spent.append(1000 * (time.process_time() - start) / n_calls)
    return size / 1000, *spent


@benchmark("exports", runs=3, keeps=False)
def exports() -> Iterator[Line]:
    """Size of models of Adult and of their exports, and CPU time of predictions."""
    metrics = "kB", "ms for 1 row", f"ms for {_ROWS:,} rows"
    for _ in at_hand(["adult"], lambda name: adult()):
        for name in _models():
            for form in FORMS:
                if name in _HAVE.get(form, {name}):
                    score = partial(_measured, name, form)
                    yield line({"model": name}, form, score, metrics)
