"""Tables as they come, with columns that were declared from documentation.

``configs/declared/<name>.json`` is what `skdp.columns.to_json` writes, and in addition
the classes or the bounds of the target and, as notes, where each declaration is from.
No declaration was read from the records.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_digits

from benchmarks._data import data_folder
from benchmarks._regression import read_numbers
from skdp import columns
from skdp.columns import Boolean
from skdp.datasets import load_adult

DECLARATIONS = Path(__file__).parent / "configs" / "declared"
_TEST_SEED, _KDD_SEED, _GENERATOR_SEED = 0, 0, 8300
_KDD_ROWS = 60_000


@dataclass(frozen=True)
class Declared:
    """What is known of a table without its records.

    Parameters
    ----------
    columns : dict or Declaration
        As `skdp.columns.from_json` returns it.
    classes : list or None
        Labels that may occur; None if the target is a number.
    target_bounds : tuple of two floats or None
        In units of the target; None if it is a label.
    notes : dict
        The source of each declaration, by column; that of all under "table", that of
        the target under "target".
    """

    columns: Any
    classes: list[int] | None
    target_bounds: tuple[float, float] | None
    notes: dict[str, str]

    @property
    def names(self) -> list[str]:
        """Names of declared columns; none if one declaration serves all."""
        return list(self.columns) if isinstance(self.columns, dict) else []


@dataclass(frozen=True, eq=False)
class Table:
    """Records, targets and which records are the test part.

    Parameters
    ----------
    X : DataFrame or ndarray
    y : ndarray of shape (n_samples,)
    is_test : ndarray of bool of shape (n_samples,)
    """

    X: Any
    y: np.ndarray
    is_test: np.ndarray


def declared(name: str) -> Declared:
    """The declarations of a table."""
    text = (DECLARATIONS / f"{name}.json").read_text(encoding="utf-8")
    stored = json.loads(text)
    ends = stored.get("target_bounds")
    bounds = None if ends is None else (float(ends[0]), float(ends[1]))
    known = columns.from_json(text)
    return Declared(known, stored.get("classes"), bounds, stored["notes"])


@lru_cache(maxsize=2)
def table(name: str) -> Table:
    """All records of a table; Adult has its official test part, others a random fifth.

    Raises
    ------
    MissingData
        If the data set is not in SKDP_DATA_HOME.
    """
    return _LOADERS[name]()


def _randomly_split(X: Any, y: Any) -> Table:
    is_test = np.zeros(len(X), dtype=bool)
    order = np.random.default_rng(_TEST_SEED).permutation(len(X))
    is_test[order[: len(X) // 5]] = True
    return Table(X, np.asarray(y), is_test)


def _adult() -> Table:
    data_folder("adult")  # refused here: load_adult would let other data stand in
    data = load_adult()
    is_test = np.repeat([False, True], [len(data.X_train), len(data.X_test)])
    X = pd.concat([data.X_train, data.X_test], ignore_index=True)
    return Table(X, np.concatenate([data.y_train, data.y_test]), is_test)


def _covertype_types() -> Table:
    """Columns of 0 and 1 put together again, as two lists of categories."""
    with np.load(data_folder("covertype_93k") / "covertype_93k.npz") as file:
        numbers, bits, y = file["X_num"], file["X_bin"], file["y"]
    *names, area, soil = declared("covertype_types").names
    X = pd.DataFrame(numbers, columns=names)
    X[area], X[soil] = bits[:, :4].argmax(axis=1) + 1, bits[:, 4:].argmax(axis=1) + 1
    return _randomly_split(X, y.astype(int))


def _covertype() -> Table:
    """Lodgepole pine or not."""
    types = _covertype_types()
    return replace(types, y=(types.y == 2).astype(int))


def _kddcup99() -> Table:
    """A random part of the published ten per cent; attack or not."""
    known = declared("kddcup99")
    file = data_folder("kddcup99") / "kddcup.data_10_percent.gz"
    frame = pd.read_csv(file, header=None, names=[*known.names, "label"])
    rng = np.random.default_rng(_KDD_SEED)
    frame = frame.iloc[rng.choice(len(frame), _KDD_ROWS, replace=False)]
    frame = frame.reset_index(drop=True)
    y = (frame.pop("label") != "normal.").astype(int)
    for name, each in known.columns.items():
        if isinstance(each, Boolean):
            frame[name] = frame[name] != 0
    return _randomly_split(frame, y)


def _last_column(name: str, values: np.ndarray) -> Table:
    X = pd.DataFrame(values[:, :-1], columns=declared(name).names)
    return _randomly_split(X, values[:, -1])


def _wine_quality_white() -> Table:
    values = read_numbers("wine_quality/winequality-white.csv.gz", ",")
    return _last_column("wine_quality_white", values)


def _breast_cancer() -> Table:
    return _randomly_split(*load_breast_cancer(return_X_y=True, as_frame=True))


def _digits() -> Table:
    return _randomly_split(*load_digits(return_X_y=True))


def _digits_odd() -> Table:
    X, digit = load_digits(return_X_y=True)
    return _randomly_split(X, digit % 2)


def _rare() -> Table:
    """About 2 % positive, heavy tails, many small regions."""
    rng, n = np.random.default_rng(_GENERATOR_SEED), 9_000
    amounts, scores = rng.lognormal(5, 1.5, (n, 4)), rng.standard_normal((n, 8))
    region = np.minimum(rng.geometric(0.2, n) - 1, 19)
    kind = rng.choice(3, n, p=[0.7, 0.25, 0.05])
    raw = 0.9 * scores[:, 0] - 0.6 * scores[:, 1] + 0.3 * scores[:, 2] ** 2
    raw += 0.5 * (np.log1p(amounts[:, 0]) - 5) + 0.8 * (region > 9) + 0.9 * (kind == 2)
    y = rng.random(n) < expit(raw - 5.1)
    X = np.hstack([amounts, scores])
    frame = pd.DataFrame(X, columns=declared("rare").names[:12])
    frame["region"], frame["kind"] = (
        [f"r{i}" for i in region],
        np.array(list("abc"))[kind],
    )
    return _randomly_split(frame, y.astype(int))


def _noisy() -> Table:
    """A weak signal of a few columns, half of it curved."""
    rng, n = np.random.default_rng(_GENERATOR_SEED), 21_000
    X, group = rng.standard_normal((n, 10)), rng.choice(30, n)
    raw = 0.25 * X[:, 0] - 0.2 * X[:, 1] + 0.15 * (X[:, 2] ** 2 - 1)
    raw += 0.2 * np.sin(2 * X[:, 3]) + 0.2 * rng.standard_normal(30)[group]
    frame = pd.DataFrame(X, columns=declared("noisy").names[:10])
    frame["group"] = [f"g{i}" for i in group]
    return _randomly_split(frame, (rng.random(n) < expit(raw)).astype(int))


def _three_of_26() -> Table:
    """A slope, a kink and a step; 23 columns do not matter."""
    rng, n = np.random.default_rng(_GENERATOR_SEED), 12_000
    X = rng.uniform(-1, 1, (n, 26))
    y = 1.2 * X[:, 3] + np.abs(X[:, 11]) - 0.5 + 0.4 * np.sign(X[:, 20] - 0.3)
    y += 0.7 * rng.standard_normal(n)
    frame = pd.DataFrame(X, columns=declared("three_of_26").names)
    return _randomly_split(frame, np.clip(y, -5, 5))


_LOADERS: dict[str, Callable[[], Table]] = {
    "adult": _adult,
    "breast_cancer": _breast_cancer,
    "ccpp": lambda: _last_column("ccpp", read_numbers("ccpp/ccpp.txt.gz")),
    "covertype": _covertype,
    "covertype_types": _covertype_types,
    "digits": _digits,
    "digits_odd": _digits_odd,
    "kddcup99": _kddcup99,
    "noisy": _noisy,
    "protein_casp": lambda: _last_column(
        "protein_casp", read_numbers("protein_casp/casp.txt.gz")
    ),
    "rare": _rare,
    "three_of_26": _three_of_26,
    "wine_quality_white": _wine_quality_white,
}
NAMES = tuple(_LOADERS)
