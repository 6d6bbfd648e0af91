"""A model of every family, scikit-learn's beside it, and another private library's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.linear_model import (
    GammaRegressor,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
    Ridge,
)
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from skdp import (
    DPPCA,
    DPGammaRegressor,
    DPGradientBoostingClassifier,
    DPGradientBoostingRegressor,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPMLPClassifier,
    DPPoissonRegressor,
    DPQuantileRegressor,
    DPStandardScaler,
    describe,
)
from skdp.columns import Range

SHAPES = ((1000, 50), (10_000, 50), (100_000, 50), (20_000, 1000), (1_000_000, 50))
_WITHIN = Range(-0.5, 0.5)
_TREES, _COMPONENTS = 100, 10


@dataclass(frozen=True)
class Family:
    """A model of skdp, scikit-learn's, and a private one of another library.

    Parameters
    ----------
    ours, beside : callable
        Make models of n rows of d columns.
    target : {"labels", "numbers", "counts", ""}
    peer : tuple of str and callable or None
        A package, and what makes its model.
    slow, peer_slow : tuple of tuple of int
        Shapes that take minutes with `beside`, if there is no peer, or with the peer.
    """

    ours: Callable[[int, int], Any]
    beside: Callable[[int, int], Any]
    target: str
    peer: tuple[str, Callable[[int, int], Any]] | None = None
    slow: tuple[tuple[int, int], ...] = ()
    peer_slow: tuple[tuple[int, int], ...] = ()


def _diffprivlib(name: str, **params: Any) -> tuple[str, Callable[[int, int], Any]]:
    def make(n: int, d: int) -> Any:
        return getattr(import_module("diffprivlib.models"), name)(**params)

    return "diffprivlib", make


def _samples_of_network(n: int, d: int) -> dict[str, Any]:
    """How often ours samples rows, and how many."""
    # With fewer rows the default is a constant.
    ours = DPMLPClassifier(classes=[0, 1]).forecast(max(n, 1000), d).solver_params
    return {**ours, "batch_size": min(ours["batch_size"], n)}


def _network_beside(n: int, d: int) -> Any:
    """As many rows seen as ours sees."""
    ours = _samples_of_network(n, d)
    n_passes = max(1, round(ours["n_steps"] * ours["batch_size"] / n))
    return MLPClassifier(
        (32,), activation="tanh", solver="sgd", batch_size=ours["batch_size"],
        max_iter=n_passes, tol=0, n_iter_no_change=n_passes,
    )  # fmt: skip


class _Opacus:
    """The same network by Opacus: as many steps, with samples as large."""

    def __init__(self, n: int, d: int) -> None:
        self._params = _samples_of_network(n, d)

    def fit(self, X: np.ndarray, y: np.ndarray) -> None:
        import torch
        from opacus import PrivacyEngine
        from torch.utils.data import DataLoader, TensorDataset

        n, d = X.shape
        n_steps, size = self._params["n_steps"], self._params["batch_size"]
        rows = TensorDataset(torch.tensor(X, dtype=torch.float32), torch.tensor(y))
        model = torch.nn.Sequential(
            torch.nn.Linear(d, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2)
        )
        model, steps, samples = PrivacyEngine().make_private_with_epsilon(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
            data_loader=DataLoader(rows, batch_size=size),
            target_epsilon=1.0,
            target_delta=1e-6,
            epochs=max(1, round(n_steps * size / n)),
            max_grad_norm=self._params["gradient_clip"],
        )
        loss, done = torch.nn.CrossEntropyLoss(), 0
        while done < n_steps:
            for some, labels in samples:
                steps.zero_grad()
                loss(model(some), labels).backward()
                steps.step()
                done += 1
                if done == n_steps:
                    break


class _Described:
    """A table described, by pandas or by skdp."""

    def __init__(self, is_private: bool) -> None:
        self._is_private = is_private

    def fit(self, X: np.ndarray) -> Any:
        if self._is_private:
            return describe(X, _WITHIN)
        return pd.DataFrame(X).describe()

    def __repr__(self) -> str:
        return "describe of pandas"


_TWO: dict[str, Any] = {"classes": [0, 1]}
_COUNTS: dict[str, Any] = {"target_bounds": (0.5, 10.5)}
FAMILIES: dict[str, Family] = {
    "logistic": Family(
        lambda n, d: DPLogisticRegression(**_TWO),
        lambda n, d: LogisticRegression(C=100, max_iter=1000),
        "labels",
        _diffprivlib("LogisticRegression", data_norm=3.0),
    ),
    "support vectors": Family(
        lambda n, d: DPLinearSVC(**_TWO),
        lambda n, d: LinearSVC(),
        "labels",
        slow=SHAPES[4:],
    ),
    "linear": Family(
        lambda n, d: DPLinearRegression(target_bounds=(-1, 1)),
        lambda n, d: Ridge(),
        "numbers",
        _diffprivlib("LinearRegression", bounds_X=(-1, 1), bounds_y=(-1, 1)),
    ),
    "Poisson": Family(
        lambda n, d: DPPoissonRegressor(**_COUNTS),
        lambda n, d: PoissonRegressor(alpha=1e-3),
        "counts",
    ),
    "gamma": Family(
        lambda n, d: DPGammaRegressor(**_COUNTS),
        lambda n, d: GammaRegressor(alpha=1e-3),
        "counts",
    ),
    "quantile": Family(
        lambda n, d: DPQuantileRegressor(**_COUNTS),
        lambda n, d: QuantileRegressor(alpha=0, solver="highs"),
        "counts",
        slow=SHAPES[2:],
    ),
    "boosting, labels": Family(
        lambda n, d: DPGradientBoostingClassifier(
            columns=_WITHIN, n_estimators=_TREES, **_TWO
        ),
        lambda n, d: HistGradientBoostingClassifier(
            max_iter=_TREES, early_stopping=False
        ),
        "labels",
    ),
    "boosting, numbers": Family(
        lambda n, d: DPGradientBoostingRegressor(
            columns=_WITHIN, n_estimators=_TREES, target_bounds=(-1, 1)
        ),
        lambda n, d: HistGradientBoostingRegressor(
            max_iter=_TREES, early_stopping=False
        ),
        "numbers",
    ),
    "network": Family(
        lambda n, d: DPMLPClassifier(**_TWO),
        _network_beside,
        "labels",
        ("opacus", _Opacus),
        peer_slow=SHAPES[2:],
    ),
    "components": Family(
        lambda n, d: DPPCA(n_components=_COMPONENTS, data_norm=3.0),
        lambda n, d: PCA(_COMPONENTS),
        "",
        _diffprivlib("PCA", n_components=_COMPONENTS, data_norm=3.0, bounds=(-1, 1)),
        peer_slow=SHAPES[3:4],
    ),
    "scaler": Family(
        lambda n, d: DPStandardScaler(bounds=(-0.5, 0.5)),
        lambda n, d: StandardScaler(),
        "",
        _diffprivlib("StandardScaler", bounds=(-0.5, 0.5)),
    ),
    "description": Family(
        lambda n, d: _Described(True), lambda n, d: _Described(False), ""
    ),
}
