"""skdp with every default against diffprivlib, Opacus and references.

Every method of a place sees the same splits, the same delta (1 / n_train^2, or 0) and
the same kind of neighbours. Peers and references are tuned by an oracle: on other
splits, by test accuracy, at no cost in privacy. A peer is asked only under the relation
that it guarantees: diffprivlib's is replace_one with delta = 0, which also holds for
any delta > 0; Opacus accounts for adding or removing a record and takes the number of
records as public, which makes it a peer of zero_out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

import skdp
from benchmarks._models import Facts, of_rows, plain_logistic, scored
from benchmarks._references import NoisyGradientDescent, ObjectivePerturbation
from benchmarks._results import fingerprint, versions_of
from benchmarks._runner import (
    FIRST_TUNING_RUN,
    Line,
    Measured,
    at_hand,
    benchmark,
    mean_and_error,
    pair,
)
from benchmarks._tables import rows, split

METRICS = ("accuracy", "log-loss", "s")
_EPSILONS = (0.05, 0.1, 0.5, 1.0, 2.0)
_FIRST_TUNING_SEED = 100
OURS, PLAIN = "skdp, defaults", "scikit-learn, not private"
# What a peer can be tuned over on MNIST is short: accuracies that ours should reach.
_TARGETS = {
    ("zero_out", 0.1): 0.866,
    ("zero_out", 0.3): 0.877,
    ("replace_one", 0.1): 0.846,
    ("replace_one", 0.3): 0.872,
}


@dataclass(frozen=True)
class Data:
    """How a data set is used."""

    grids: dict[str, dict[str, list[float]]]  # others are those of `_GRIDS`
    tuning_runs: int = 2  # fewer where scores vary less from split to split
    rows: int | None = None  # at most so many records
    few_runs: int | None = None  # of peers whose fits take half a minute and more


_DESCENT = {"n_steps": [30, 100, 300], "step_size": [2.0, 8.0], "clip": [1.0]}
_LARGE = {"batch_size": [1024], "epochs": [8]}
_GRIDS: dict[str, dict[str, list[float]]] = {
    "diffprivlib": {"C": [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]},
    "opacus": {
        "learning_rate": [1.0, 4.0, 16.0],
        "clip": [0.3, 1.0],
        "batch_size": [64],
        "epochs": [20],
    },
    "descent": {
        "n_steps": [10, 30, 100, 300],
        "step_size": [0.5, 2.0, 8.0],
        "clip": [1.0],
    },
    "perturbation": {"regularisation": [0.1, 0.3, 1, 3, 10, 30, 100, 300]},
}
_ADULT: dict[str, dict[str, list[float]]] = {
    "opacus": {"learning_rate": [1.0, 4.0, 16.0], "clip": [0.3, 1.0], **_LARGE},
    "descent": _DESCENT,
    "perturbation": {"regularisation": [0.3, 1, 3, 10, 30, 100, 300]},
    "diffprivlib": {"C": [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0]},
}
DATA: dict[str, Data] = {
    "breast_cancer": Data({}, tuning_runs=10),
    "digits": Data(
        {"descent": _DESCENT | {"step_size": [1.0, 2.0, 4.0, 8.0], "clip": [0.5, 1.0]}},
        tuning_runs=4,
    ),
    "adult": Data(_ADULT),
    "a9a": Data(_ADULT),
    "w8a": Data(_ADULT),
    "covertype": Data(
        _ADULT
        | {
            "opacus": {"learning_rate": [4.0, 16.0], "clip": [0.3, 1.0], **_LARGE},
            "diffprivlib": {"C": [0.003, 0.01, 0.03, 0.1, 0.3, 1.0]},
        }
    ),
    # 40,000 of 494,021 connections, always the same random ones.
    "kddcup99": Data(_ADULT, rows=40_000),
    "mnist": Data(
        {
            "descent": {"n_steps": [100], "step_size": [4.0, 16.0], "clip": [1.0]},
            "diffprivlib": {"C": [1e-5, 1e-4, 0.001, 0.01, 0.1]},
            "opacus": {"learning_rate": [1.0, 4.0], "clip": [1.0], **_LARGE},
        },
        tuning_runs=1,
        few_runs=3,
    ),
}


@dataclass(frozen=True)
class Cell:
    """The guarantee that a place is measured under; a `pure` one has delta = 0."""

    data: str
    adjacency: str
    epsilon: float
    pure: bool


def cells(name: str) -> Iterator[Cell]:
    """All places of a data set."""
    for adjacency, pure, epsilon in product(
        ("replace_one", "zero_out"), (False, True), _EPSILONS
    ):
        yield Cell(name, adjacency, epsilon, pure)
    if name == "mnist":
        yield Cell(name, "zero_out", 0.3, False)
        yield Cell(name, "replace_one", 0.3, False)
        yield Cell(name, "replace_one", 0.3, True)


Settings = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Peer:
    """One method, and how to ask it."""

    name: str
    stamp: Callable[[], str | None]  # versions, or None if it is not installed
    build: Callable[..., Any]  # from facts, a seed and settings
    asked: Callable[[Cell, int], bool]  # in a cell with so many classes
    grid: str = ""
    is_pure: bool = False  # whether it ignores delta


def _ours(facts: Facts, seed: int) -> Any:
    return facts.dense()


def _diffprivlib(facts: Facts, seed: int, **settings: float) -> Any:
    from diffprivlib.models import LogisticRegression

    # n_jobs stays None: with two jobs all classes would get the same noise.
    return LogisticRegression(
        epsilon=facts.epsilon,
        data_norm=1.0,
        max_iter=200,
        random_state=seed,
        **settings,
    )


def _opacus(facts: Facts, seed: int, **settings: Any) -> Any:
    return OpacusLinear(facts.epsilon, delta=facts.delta, random_state=seed, **settings)


def _reference(
    kind: Callable[..., Any], facts: Facts, seed: int, **settings: Any
) -> Any:
    budget = {"delta": facts.delta, "adjacency": facts.adjacency}
    return kind(facts.epsilon, random_state=seed, **budget, **settings)


def _is_replaced(cell: Cell, n_classes: int) -> bool:
    return cell.adjacency == "replace_one"


_DIFFPRIVLIB = {
    "stamp": lambda: versions_of("diffprivlib", "scikit-learn"),
    "build": _diffprivlib,
    "asked": _is_replaced,
    "is_pure": True,
}
PEERS = (
    Peer(
        OURS,
        lambda: f"skdp {fingerprint(Path(skdp.__file__).parent)}",
        _ours,
        lambda cell, n: True,
    ),
    Peer("diffprivlib, defaults (delta 0)", **_DIFFPRIVLIB),
    Peer("diffprivlib, tuned C (delta 0)", grid="diffprivlib", **_DIFFPRIVLIB),
    Peer(
        "Opacus, tuned (add/remove)",
        lambda: versions_of("opacus", "torch"),
        _opacus,
        lambda cell, n: cell.adjacency == "zero_out" and not cell.pure,
        grid="opacus",
    ),
    Peer(
        "reference: noisy gradient descent, tuned",
        lambda: "1",
        partial(_reference, NoisyGradientDescent),
        lambda cell, n: not cell.pure,
        grid="descent",
    ),
    Peer(
        "reference: objective perturbation, tuned",
        lambda: "1",
        partial(_reference, ObjectivePerturbation),
        lambda cell, n: n == 2,
        grid="perturbation",
    ),
    Peer(
        PLAIN,
        lambda: versions_of("scikit-learn"),
        lambda facts, seed: plain_logistic(),
        lambda cell, n: True,
    ),
)


@benchmark("peers", runs=10, judged=True, closing=lambda found: tally(found))
def contest(ours: bool = True, peers: bool = True) -> Iterator[Line]:
    """Every default of skdp against diffprivlib, Opacus and references."""
    for name in at_hand(DATA, _loaded):
        data, (_, y) = DATA[name], _loaded(name)
        n_train = len(y) - len(y) // 5
        for cell in cells(name):
            for peer in PEERS:
                if peer.asked(cell, len(np.unique(y))):
                    is_measured = ours if peer.name == OURS else peers
                    yield _line(peer, cell, data, n_train, is_measured)


def _line(peer: Peer, cell: Cell, data: Data, n_train: int, is_measured: bool) -> Line:
    delta = 0.0 if cell.pure else 1 / n_train**2
    grid = peer.grid and (data.grids.get(peer.grid) or _GRIDS[peer.grid])
    most = data.few_runs if peer.name != OURS else None
    if peer.name == PLAIN and cell.data == "mnist":
        most = 1
    stamp = peer.stamp() if is_measured else None
    if stamp is not None and data.rows is not None:
        stamp += f", {data.rows} rows"  # another limit is measured again
    target = None if cell.pure else _TARGETS.get((cell.adjacency, cell.epsilon))
    is_target = peer.name == OURS and cell.data == "mnist" and target is not None
    judge: Any = partial(_against_target, target) if is_target else _gains
    if peer.name == PLAIN:
        judge = None  # a ceiling, and no rival
    return Line(
        place={
            "data": cell.data,
            "adjacency": cell.adjacency,
            "epsilon": cell.epsilon,
            "delta": delta,
        },
        method=peer.name,
        measure=partial(_measured, peer, cell),
        metrics=METRICS,
        private=peer.name == OURS,
        most_runs=most,
        grid=tuple(_settings(grid)) if grid else (),
        better="higher",
        tuning_runs=data.tuning_runs,
        stamp=stamp,
        judge=judge,
        rival="" if peer.name == OURS else OURS,
        note=f"target {target}" if is_target else "",
    )


def _settings(grid: dict[str, list[float]]) -> Iterator[dict[str, float]]:
    for values in product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def _measured(
    peer: Peer, cell: Cell, runs: Iterable[int], **settings: float
) -> Iterator[list[float]]:
    # What does not depend on delta, or on anything, is measured once.
    if peer.is_pure:
        cell = Cell(cell.data, cell.adjacency, cell.epsilon, True)
    if peer.name == PLAIN:
        cell = Cell(cell.data, "", np.inf, False)
    for run in runs:
        seed = run
        if run >= FIRST_TUNING_RUN:
            seed = run - FIRST_TUNING_RUN + _FIRST_TUNING_SEED
        fit = _fresh if peer.name == OURS else _once
        yield fit(peer, cell, seed, tuple(settings.items()))


def _fresh(peer: Peer, cell: Cell, seed: int, settings: Settings) -> list[float]:
    part = _parts(cell.data, seed)
    delta = 0.0 if cell.pure else 1 / len(part[1]) ** 2
    known = of_rows(_loaded(cell.data)[1])
    facts = Facts(known, cell.epsilon, delta, cell.adjacency)
    try:
        loss, accuracy, _, seconds = scored(
            peer.build(facts, seed, **dict(settings)), part, known
        )
    except ValueError:
        raise
    except Exception as error:  # a peer may fail in any way; the table goes on
        raise ValueError(f"{type(error).__name__}: {error}") from error
    return [accuracy, loss, seconds]


_once = cache(_fresh)


@lru_cache(maxsize=1)  # the places of one data set follow each other
def _loaded(name: str) -> tuple[np.ndarray, np.ndarray]:
    return rows(name, DATA[name].rows)


@lru_cache(maxsize=2)
def _parts(name: str, seed: int) -> tuple[np.ndarray, ...]:
    return split(*_loaded(name), seed)


def verdict(gains: np.ndarray) -> str:
    """Won, lost or even, from paired gains of ours over a peer.

    A place is lost if the mean is below -max(0.002, 3 standard errors).
    """
    mean, error = mean_and_error(gains)
    if np.isnan(error):
        return "one seed only"
    bar = max(0.002, 3 * error)
    return "lost" if mean < -bar else "won" if mean > bar else "even"


def _gains(theirs: np.ndarray, ours: np.ndarray | None) -> str:
    """By how much ours is better, in accuracy and in log-loss."""
    if ours is None or not len(ours):
        return ""
    n = min(len(theirs), len(ours))
    said = []
    for number, sign in ((0, 1), (1, -1)):
        gains = sign * (ours[:n, number] - theirs[:n, number])
        said.append(f"{METRICS[number]} {pair(gains, '+.4f')} {verdict(gains)}")
    return "; ".join(said)


def _against_target(target: float, ours: np.ndarray, _: Any) -> str:
    gains = ours[:, 0] - target
    return f"accuracy {pair(gains, '+.4f')} {verdict(gains)}"


def tally(measured: list[Measured]) -> Iterator[str]:
    """How many verdicts of each kind, mean gains by rival, and all that are lost."""
    ours = {str(line.place): each for line, each in measured if line.method == OURS}
    counts: Counter[str] = Counter()
    gains: dict[tuple[str, str], list[float]] = {}
    lost = []
    for line, theirs in measured:
        own = ours.get(str(line.place))
        if line.method in (OURS, PLAIN) or own is None or not len(theirs):
            continue
        n = min(len(theirs), len(own))
        for number, sign in ((0, 1), (1, -1)):
            gain = sign * (own[:n, number] - theirs[:n, number])
            counts[verdict(gain)] += 1
            metric = METRICS[number]
            gains.setdefault((line.method, metric), []).append(float(gain.mean()))
            if verdict(gain) == "lost":
                lost.append(f"lost: {line.place}, {metric}, against {line.method}")
    yield "Verdicts: " + ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items()))
    for (rival, metric), values in sorted(gains.items()):
        mean = float(np.mean(values))
        yield f"{metric}, against {rival}: {mean:+.4f} over {len(values)} places"
    yield from lost


class OpacusLinear(ClassifierMixin, BaseEstimator):
    """A linear model trained by Opacus: Poisson batches, clipping, PRV accountant."""

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
