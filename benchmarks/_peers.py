"""Everything that is measured in one cell of the table: ours, peers, references.

A peer is asked only under the adjacency that it guarantees. diffprivlib's is
replace_one with delta = 0; that also holds for any delta > 0. Opacus accounts for
adding or removing a record and takes the number of records as public, which makes it
a peer of zero_out.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

import skdp
from benchmarks._references import NoisyGradientDescent, ObjectivePerturbation
from skdp.linear_model import DPLogisticRegression


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The guarantee that a row of the table is measured under.

    Parameters
    ----------
    dataset : str
    adjacency : {"replace_one", "zero_out", "none"}
    epsilon : float
    pure : bool
        Whether delta is 0; it is 1 / n_train^2 otherwise.
    """

    dataset: str
    adjacency: str
    epsilon: float
    pure: bool = False

    @property
    def key(self) -> str:
        """Name of the cell in the results file."""
        delta = "0" if self.pure else "n^-2"
        return f"{self.dataset} {self.adjacency} epsilon={self.epsilon:g} delta={delta}"

    def delta(self, n_train: int) -> float:
        """Delta of the cell for a training set of this size."""
        return 0.0 if self.pure else 1 / n_train**2


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a model is built from: the guarantee, public facts and a seed.

    `rows` is the limit on the records of the data set, if the table states one.
    """

    cell: Cell
    n_train: int
    classes: tuple[int, ...]
    seed: int = 0
    rows: int | None = None

    @property
    def delta(self) -> float:
        """Delta of this cell at this size."""
        return self.cell.delta(self.n_train)


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """One method, and how to ask it.

    Parameters
    ----------
    name : str
        In the table and in the results file.
    stamp : callable
        Versions a result depends on, or None if the method is not installed. A stored
        result with another stamp is measured again.
    build : callable
        Unfitted model from a `Job` and the tuned settings.
    asked_as : callable
        The cell whose guarantee the method gives for this one, or None.
    grid : str or None
        Name of the grid of settings in the configuration that an oracle tunes over.
    private : bool
        Whether ours is judged against it.
    """

    name: str
    stamp: Callable[[], str | None]
    build: Callable[[Job, Mapping[str, Any]], Any]
    asked_as: Callable[[Cell, int], Cell | None]
    grid: str | None = None
    private: bool = True


def versions_of(*packages: str) -> str | None:
    """Installed versions of the packages, or None if one is missing."""
    try:
        return ", ".join(f"{package} {version(package)}" for package in packages)
    except PackageNotFoundError:
        return None


@lru_cache
def source_stamp() -> str:
    """Fingerprint of skdp's source; an older state's results are not ours."""
    package = Path(skdp.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode())
        digest.update(path.read_bytes())
    return f"skdp {digest.hexdigest()[:12]}"


def _ours(job: Job, settings: Mapping[str, Any]) -> Any:
    return DPLogisticRegression(
        job.cell.epsilon,
        delta=job.delta,
        adjacency=job.cell.adjacency,
        classes=job.classes,
    )


def _diffprivlib(job: Job, settings: Mapping[str, Any]) -> Any:
    from diffprivlib.models import LogisticRegression as Peer

    # n_jobs stays None: with two jobs all classes would get the same noise.
    return Peer(
        epsilon=job.cell.epsilon,
        data_norm=1.0,
        max_iter=200,
        random_state=job.seed,
        **settings,
    )


def _opacus(job: Job, settings: Mapping[str, Any]) -> Any:
    return OpacusLinear(
        job.cell.epsilon, delta=job.delta, random_state=job.seed, **settings
    )


def _noisy_descent(job: Job, settings: Mapping[str, Any]) -> Any:
    return NoisyGradientDescent(
        job.cell.epsilon,
        delta=job.delta,
        adjacency=job.cell.adjacency,
        random_state=job.seed,
        **settings,
    )


def _objective_perturbation(job: Job, settings: Mapping[str, Any]) -> Any:
    return ObjectivePerturbation(
        job.cell.epsilon,
        delta=job.delta,
        adjacency=job.cell.adjacency,
        random_state=job.seed,
        **settings,
    )


def _not_private(job: Job, settings: Mapping[str, Any]) -> Any:
    return LogisticRegression(C=100.0, max_iter=200)


def _pure_replace_one(cell: Cell, n_classes: int) -> Cell | None:
    return replace(cell, pure=True) if cell.adjacency == "replace_one" else None


OURS = Contestant(
    name="skdp, defaults",
    stamp=source_stamp,
    build=_ours,
    asked_as=lambda cell, n_classes: cell,
)

PEERS = (
    Contestant(
        name="diffprivlib, defaults (delta 0)",
        stamp=lambda: versions_of("diffprivlib", "scikit-learn"),
        build=_diffprivlib,
        asked_as=_pure_replace_one,
    ),
    Contestant(
        name="diffprivlib, tuned C (delta 0)",
        stamp=lambda: versions_of("diffprivlib", "scikit-learn"),
        build=_diffprivlib,
        asked_as=_pure_replace_one,
        grid="diffprivlib",
    ),
    Contestant(
        name="Opacus, tuned (add/remove)",
        stamp=lambda: versions_of("opacus", "torch"),
        build=_opacus,
        asked_as=lambda cell, n_classes: (
            cell if cell.adjacency == "zero_out" and not cell.pure else None
        ),
        grid="opacus",
    ),
    Contestant(
        name="reference: noisy gradient descent, tuned",
        stamp=lambda: "1",
        build=_noisy_descent,
        asked_as=lambda cell, n_classes: None if cell.pure else cell,
        grid="noisy_gradient_descent",
    ),
    Contestant(
        name="reference: objective perturbation, tuned",
        stamp=lambda: "1",
        build=_objective_perturbation,
        asked_as=lambda cell, n_classes: cell if n_classes == 2 else None,
        grid="objective_perturbation",
    ),
    Contestant(
        name="scikit-learn, not private",
        stamp=lambda: versions_of("scikit-learn"),
        build=_not_private,
        private=False,
        asked_as=lambda cell, n_classes: Cell(
            dataset=cell.dataset, adjacency="none", epsilon=math.inf
        ),
    ),
)


class OpacusLinear(ClassifierMixin, BaseEstimator):
    """A linear model trained by Opacus: Poisson batches, clipping, PRV accountant.

    Parameters
    ----------
    epsilon, delta : float
        For adding or removing a record.
    learning_rate : float
    clip : float
        Bound on the norm of a record's gradient.
    batch_size, epochs : int
    random_state : int
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-6,
        learning_rate: float = 1.0,
        clip: float = 1.0,
        batch_size: int = 64,
        epochs: int = 20,
        random_state: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.learning_rate = learning_rate
        self.clip = clip
        self.batch_size = batch_size
        self.epochs = epochs
        self.random_state = random_state

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Train for a fixed number of epochs."""
        import torch
        from opacus import PrivacyEngine

        torch.manual_seed(self.random_state)
        self.classes_ = np.unique(y)
        binary = len(self.classes_) == 2
        rows = torch.tensor(X, dtype=torch.float32)
        labels = torch.tensor(np.searchsorted(self.classes_, y))
        loader = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(rows, labels), batch_size=self.batch_size
        )
        n_steps = self.epochs * len(loader)
        model = torch.nn.Linear(X.shape[1], 1 if binary else len(self.classes_))
        torch.nn.init.zeros_(model.weight)
        torch.nn.init.zeros_(model.bias)
        # Opacus samples each record with probability 1 / number of batches.
        model, optimizer, loader = PrivacyEngine(accountant="prv").make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=self.learning_rate),
            data_loader=loader,
            noise_multiplier=_opacus_noise(
                self.epsilon, self.delta, 1 / len(loader), n_steps
            ),
            max_grad_norm=self.clip,
        )
        loss = torch.nn.functional.cross_entropy
        for _ in range(self.epochs):
            for batch, wanted in loader:
                optimizer.zero_grad()
                raw = model(batch)
                if binary:
                    raw = torch.hstack([torch.zeros_like(raw), raw])
                loss(raw, wanted).backward()
                optimizer.step()
        linear = next(model.children())
        self.coef_ = linear.weight.detach().numpy().astype(float)
        self.intercept_ = linear.bias.detach().numpy().astype(float)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Probabilities of the labels."""
        raw = X @ self.coef_.T + self.intercept_
        if raw.shape[1] == 1:
            raw = np.hstack([np.zeros_like(raw), raw])
        raw = np.exp(raw - raw.max(axis=1, keepdims=True))
        return raw / raw.sum(axis=1, keepdims=True)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The most probable labels."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


@lru_cache
def _opacus_noise(epsilon: float, delta: float, rate: float, steps: int) -> float:
    from opacus.accountants.utils import get_noise_multiplier

    return get_noise_multiplier(
        target_epsilon=epsilon,
        target_delta=delta,
        sample_rate=rate,
        steps=steps,
        accountant="prv",
    )
