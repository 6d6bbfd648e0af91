"""Adult with up to five rows a person: what protecting persons costs.

Run ``python -m benchmarks.users`` at the root of a checkout. Prints tables of
``docs/users.md``; with ``--model sparse``, ``trees`` or ``network`` those of others.

The training rows are dealt to persons of 1 to 5 rows, either at random or so that rows
of a person are alike (neighbours after sorting by what a person hardly changes). Ways
to protect a person, at the same epsilon and number of persons:

- *first row*: one row a person, which is record level;
- *mean*: all rows, ``privacy_unit="user"``;
- *five slots*: all rows as records, at a fifth of mu, which is what a sum of up to five
  rows a person costs (group privacy, exact for Gaussian noise).

Accuracy and log-loss on the official test records, which are not private.

``--search`` compares searches over the strength of the penalty instead: of first rows
as records, of persons in memory, and of persons in a file, whose parts have numbers of
persons that nobody knows.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss

from skdp import (
    DPGradientBoostingClassifier,
    DPGridSearchCV,
    DPLogisticRegression,
    DPMLPClassifier,
    DPSparseLogisticRegression,
    ParquetSource,
)
from skdp._arrays import IntArray
from skdp.datasets import ADULT_BOUNDS, ADULT_CATEGORIES, Dataset, load_adult
from skdp.privacy.accounting._gaussian import gaussian_epsilon, gaussian_mu

MOST_ROWS = 5
PERSONS = (1000, 3000, 10_000)
DELTA = 1e-6
COLUMNS = ADULT_BOUNDS | ADULT_CATEGORIES
STRENGTHS = (1e-3, 1e-2, None)
_OF_A_PERSON = ["sex", "race", "education-num", "occupation", "relationship", "age"]


@dataclass(frozen=True)
class Persons:
    """Rows of some persons."""

    X: pd.DataFrame
    y: np.ndarray
    ids: IntArray

    @property
    def firsts(self) -> IntArray:
        """The place of everybody's first row."""
        return np.unique(self.ids, return_index=True)[1]


def dealt(data: Dataset, n_persons: int, *, alike: bool, seed: int) -> Persons:
    """Persons of 1 to 5 training rows each."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(data.y_train))
    if alike:
        own = data.X_train.iloc[order][_OF_A_PERSON]
        order = order[np.lexsort([own[c].astype(str) for c in _OF_A_PERSON[::-1]])]
    sizes = rng.integers(1, MOST_ROWS + 1, len(order))
    ids = np.repeat(np.arange(len(order)), sizes)[: len(order)]
    # The last one may have fewer rows than were drawn.
    chosen = np.isin(ids, rng.permutation(ids[-1])[:n_persons])
    rows = order[chosen]
    return Persons(data.X_train.iloc[rows], data.y_train[rows], ids[chosen])


Model = (
    DPLogisticRegression
    | DPSparseLogisticRegression
    | DPGradientBoostingClassifier
    | DPMLPClassifier
)
MODELS: dict[str, type[Model]] = {
    "logistic": DPLogisticRegression,
    "sparse": DPSparseLogisticRegression,
    "trees": DPGradientBoostingClassifier,
    "network": DPMLPClassifier,
}


@dataclass(frozen=True)
class Setting:
    """What all ways to protect a person have in common."""

    kind: type[Model]
    epsilon: float
    adjacency: str


def _model(setting: Setting, epsilon: float, unit: str = "record") -> Model:
    return setting.kind(
        epsilon,
        delta=DELTA,
        adjacency=setting.adjacency,
        privacy_unit=unit,
        columns=COLUMNS,
        classes=[0, 1],
    )


def by_first_row(rows: Persons, setting: Setting) -> Model:
    """One row a person."""
    first = rows.firsts
    own = _model(setting, setting.epsilon)
    return own.fit(rows.X.iloc[first], rows.y[first])


def by_mean(rows: Persons, setting: Setting) -> Model:
    """All rows, each person once."""
    own = _model(setting, setting.epsilon, "user")
    return own.fit(rows.X, rows.y, groups=rows.ids)


def by_slots(rows: Persons, setting: Setting) -> Model:
    """All rows as records, protected as a group of five."""
    mu = gaussian_mu(setting.epsilon, DELTA) / MOST_ROWS
    return _model(setting, gaussian_epsilon(mu, DELTA)).fit(rows.X, rows.y)


def _search(setting: Setting, unit: str) -> DPGridSearchCV:
    return DPGridSearchCV(
        setting.kind(columns=COLUMNS, classes=[0, 1]),
        {"C": STRENGTHS},
        epsilon=setting.epsilon,
        delta=DELTA,
        adjacency=setting.adjacency,
        privacy_unit=unit,
    )


def searched_first_rows(rows: Persons, setting: Setting) -> DPGridSearchCV:
    """One row a person, and a search of records."""
    first = rows.firsts
    return _search(setting, "record").fit(rows.X.iloc[first], rows.y[first])


def searched(rows: Persons, setting: Setting) -> DPGridSearchCV:
    """All rows, and a search of persons."""
    return _search(setting, "user").fit(rows.X, rows.y, groups=rows.ids)


def searched_in_a_file(rows: Persons, setting: Setting) -> DPGridSearchCV:
    """All rows, and a search of persons of a source."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        rows.X.assign(above=rows.y, person=rows.ids).to_parquet(path, index=False)
        source = ParquetSource(
            path,
            target="above",
            groups="person",
            n_samples=len(rows.firsts),
        )
        return _search(setting, "user").fit(source)


Way = Callable[[Persons, Setting], Model | DPGridSearchCV]
WAYS: dict[str, Way] = {
    "first row": by_first_row,
    "mean": by_mean,
    "five slots": by_slots,
}
SEARCHES: dict[str, Way] = {
    "mean, no search": by_mean,
    "search of first rows": searched_first_rows,
    "search of persons": searched,
    "the same of a file": searched_in_a_file,
}


def scores(
    data: Dataset, way: Way, rows: Persons, setting: Setting
) -> tuple[float, float]:
    """Test accuracy and log-loss of one fit."""
    model = way(rows, setting)
    loss = log_loss(data.y_test, model.predict_proba(data.X_test))
    return float(model.score(data.X_test, data.y_test)), float(loss)


def cell(found: list[tuple[float, float]]) -> str:
    """Mean accuracy with its standard error, and mean log-loss."""
    accuracy, loss = map(statistics.mean, zip(*found, strict=True))
    error = statistics.stdev(one for one, _ in found) / len(found) ** 0.5
    return f"{accuracy:.4f} ± {error:.4f}, {loss:.4f}"


def main() -> None:
    """Print a line for each cell: accuracy and log-loss of each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--model", choices=MODELS, default="logistic")
    parser.add_argument("--persons", type=int, nargs="+", default=PERSONS)
    parser.add_argument("--search", action="store_true")
    options = parser.parse_args()
    data = load_adult()
    if data.name != "adult":
        raise SystemExit("Adult is not there; see docs/data.md.")
    warnings.simplefilter("ignore")
    print(f"epsilon {options.epsilon:g}, {options.repeats} fits; accuracy, log-loss")
    ways = SEARCHES if options.search else WAYS
    print("| rows | persons | adjacency | " + " | ".join(ways) + " |")
    for alike in (False, True):
        for n_persons in options.persons:
            for adjacency in ("replace_one", "zero_out"):
                setting = Setting(MODELS[options.model], options.epsilon, adjacency)
                cells = []
                for way in ways.values():
                    found = [
                        scores(
                            data,
                            way,
                            dealt(data, n_persons, alike=alike, seed=seed),
                            setting,
                        )
                        for seed in range(options.repeats)
                    ]
                    cells.append(cell(found))
                name = "alike" if alike else "at random"
                line = [name, f"{n_persons:,}", adjacency, *cells]
                print("| " + " | ".join(line) + " |", flush=True)


if __name__ == "__main__":
    main()
