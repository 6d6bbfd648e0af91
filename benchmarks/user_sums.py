"""What a person's rows add up to: their mean, or their sum clipped as one vector.

Run ``python -m benchmarks.user_sums`` at the root of a checkout. Prints a table of
``docs/users.md``.

Persons of 1 to 5 rows of Adult, as `benchmarks.users` deals them. All ways go through
one prototype of `noisy_gd`, in floating point, with rows that are encoded once, the
defaults' rules for steps, and one mu; they differ in what a person adds to a query:

- *mean*: the mean of the gradients of all rows, as ``privacy_unit="user"``;
- *sum, c*: their sum, clipped as one vector to what c records may add. With c = 5 no
  sum is clipped, which is five slots; with c = 1 noise is that of the mean, or up to
  twice as much under replace_one;
- *first row*: the gradient of one row.

Sums are counted as so many records as persons add on average at most, as if the mean
of min(rows, c) were public: that favours them. Scores are those of the official test
records, which are not private. The prototype draws seeded noise: nothing here is
private.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.metrics import log_loss

from benchmarks.users import COLUMNS, DELTA, MOST_ROWS, PERSONS, Persons, cell, dealt
from skdp._arrays import FloatArray, IntArray
from skdp._fit import Progress
from skdp._users import Users
from skdp.datasets import load_adult
from skdp.io._table import Table
from skdp.linear_model._rows import encoder_of, knots_within
from skdp.losses import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget
from skdp.privacy.accounting._gaussian import gaussian_mu
from skdp.privacy.release._answers import Released
from skdp.solvers._descent import NoisyGD
from skdp.sums._gradient import LinearGradient

ROOT = math.sqrt(MOST_ROWS)
# By name: the most records that a person may add, None for means.
WAYS: dict[str, float | None] = {
    "first row": None,
    "mean": None,
    "sum, 1/2": 0.5,
    "sum, 1": 1.0,
    "sum, 2": 2.0,
    "sum, √5": ROOT,
    "sum, 5": float(MOST_ROWS),
}


@dataclass(frozen=True)
class Encoded:
    """Rows of norm at most 1, with the number of the person whose each is.

    `products` are those of a person's rows with each other, of shape (n_persons,
    MOST_ROWS, MOST_ROWS), 0 where there are fewer rows; `places` are where in these
    rows are.
    """

    X: csr_array
    y: FloatArray
    persons: IntArray
    places: IntArray
    products: FloatArray

    @classmethod
    def of(cls, X: csr_array, y: FloatArray, persons: IntArray) -> Encoded:
        """Rows of persons one after the other, counted from 0."""
        starts = np.searchsorted(persons, np.arange(persons[-1] + 1))
        places = np.arange(len(persons)) - starts[persons]
        products = np.zeros((len(starts), MOST_ROWS, MOST_ROWS))
        for first in range(MOST_ROWS):
            for second in range(MOST_ROWS):
                own = np.flatnonzero(places == first)
                far = starts[persons[own]] + second
                is_there = far < len(persons)
                own, far = own[is_there], far[is_there]
                own, far = own[same := persons[own] == persons[far]], far[same]
                product = X[own].multiply(X[far]).sum(axis=1)
                products[persons[own], first, second] = np.ravel(product)
        return cls(X, y, persons, places, products)

    @property
    def sizes(self) -> IntArray:
        """How many rows persons have."""
        return np.bincount(self.persons)

    @property
    def firsts(self) -> Encoded:
        """One row of each."""
        own = self.places == 0
        return Encoded.of(self.X[own], self.y[own], self.persons[own])


@dataclass
class PersonAnswers:
    """Answers to a descent, each with Gaussian noise; a prototype of `Answers`."""

    rows: Encoded
    residual_clip: float
    most: float | None
    adjacency: str
    multiplier: float
    rng: np.random.Generator
    noise_scale: float = 0.0

    def ask(self, query: LinearGradient, line: int = 0) -> Released:
        """The sum over persons of what each adds, in records."""
        bound, rows = query.bound(), self.rows
        objective, d = query.family.objective, rows.X.shape[1]
        raw = rows.X @ query.weights[:d]
        raw += objective.intercept_value * query.weights[d]
        residual = objective.loss.residual(rows.y, raw)
        residual = np.clip(residual, -self.residual_clip, self.residual_clip)
        constant = query.family.intercept_weight * objective.intercept_value
        residual *= self._shares(residual, constant, bound.zero_out)[rows.persons]
        exact = np.vstack([rows.X.T @ residual, constant * residual.sum(axis=0)])
        sigma = self.multiplier * self._sensitivity(bound)
        noisy = exact + sigma * self.rng.normal(size=exact.shape)
        return Released(noisy, sigma, sigma)

    def _shares(
        self, residual: FloatArray, constant: float, record: float
    ) -> FloatArray:
        """With which the rows of each person count."""
        rows = self.rows
        if self.most is None:
            return 1 / rows.sizes[:, None]
        padded = np.zeros(rows.products.shape[:2])
        padded[rows.persons, rows.places] = residual[:, 0]
        squares = np.einsum("ui,uij,uj->u", padded, rows.products, padded)
        squares += (constant * padded.sum(axis=1)) ** 2
        largest = self.most * record
        lengths = np.sqrt(np.maximum(squares, 0.0))
        return (largest / np.maximum(lengths, largest) / self.most)[:, None]

    def _sensitivity(self, bound: Any) -> float:
        """Of persons' parts over `most`, exchanged for none or for any others."""
        if self.adjacency == "zero_out":
            return float(bound.zero_out)
        if self.most is None:
            return float(max(bound.replace_one, bound.zero_out))
        # A ball, or as many rows as there may be, whichever is the smaller one.
        ball, of_rows = 2 * bound.zero_out, MOST_ROWS / self.most * bound.replace_one
        return float(min(ball, of_rows))


def fitted(
    rows: Encoded, way: str, budget: Budget, adjacency: str, seed: int
) -> FloatArray:
    """Weights, the intercept's last, times what stands in its column."""
    rows = rows.firsts if way == "first row" else rows
    most, n_persons = WAYS[way], len(rows.sizes)
    counted = 1.0 if most is None else np.minimum(rows.sizes, most).mean() / most
    objective = LinearObjective(
        loss=LogisticLoss(),
        n_samples=round(n_persons * counted),
        n_features=rows.X.shape[1],
        data_norm=1.0,
        adjacency="zero_out" if adjacency == "zero_out" else "replace_one",
    )
    solver = NoisyGD.planned({}, objective, budget)
    multiplier = math.sqrt(solver.n_steps) / gaussian_mu(budget.epsilon, budget.delta)
    answers: Any = PersonAnswers(
        rows, solver.residual_clip, most, adjacency, multiplier,
        np.random.default_rng(seed),
    )  # fmt: skip
    found = solver.run(answers, objective, Progress())
    return found.weights[:, 0]


def encoded(rows: Persons, tests: Any, budget: Budget, adjacency: str) -> Any:
    """Rows of persons and of tests, as a model of users encodes them."""
    encoder = encoder_of(COLUMNS)
    users = Users.of(rows.ids, len(rows.ids))
    knots = knots_within(budget, adjacency, users)
    encoding, cells = encoder._fit(Table.of(rows.X), knots)
    order = np.argsort(rows.ids, kind="stable")
    X = encoding.rows(cells, is_sparse=True)[order]
    own = Encoded.of(X, rows.y[order].astype(float), users.codes[order])
    return own, encoder._rows(tests, is_sparse=True)


def scores(
    data: Any, rows: Persons, budget: Budget, adjacency: str, seed: int
) -> Iterator[tuple[float, float]]:
    """Test accuracy and log-loss of each way."""
    own, X = encoded(rows, data.X_test, budget, adjacency)
    for way in WAYS:
        weights = fitted(own, way, budget, adjacency, seed)
        chance = expit(X @ weights[:-1] + weights[-1])
        accuracy = np.mean((chance > 0.5) == data.y_test)
        yield float(accuracy), float(log_loss(data.y_test, chance))


def main() -> None:
    """Print a line for each cell: accuracy and log-loss of each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--epsilon", type=float, default=1.0)
    options = parser.parse_args()
    budget = Budget(options.epsilon, DELTA)
    data = load_adult()
    if data.name != "adult":
        raise SystemExit("Adult is not there; see docs/data.md.")
    print("| rows | persons | adjacency | " + " | ".join(WAYS) + " |")
    for alike in (False, True):
        for n_persons in PERSONS:
            for adjacency in ("replace_one", "zero_out"):
                found = [
                    list(
                        scores(
                            data,
                            dealt(data, n_persons, alike=alike, seed=seed),
                            budget,
                            adjacency,
                            seed,
                        )
                    )
                    for seed in range(options.repeats)
                ]
                cells = [cell(list(own)) for own in zip(*found, strict=True)]
                name = "alike" if alike else "at random"
                line = [name, f"{n_persons:,}", adjacency, *cells]
                print("| " + " | ".join(line) + " |", flush=True)


if __name__ == "__main__":
    main()
