"""A table of mixed columns, in many forms, and what is wrong with some of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skdp.columns import Boolean, Categories, Dates, Range

DECLARED = {
    "age": Range(17, 90, missing=True),
    "gain": Range(0, 99_999, log=True),
    "sex": ["Female", "Male"],
    "code": Categories([1, 2, 3], missing=True),
    "is_in": Boolean(missing=True),
    "day": Dates("2020-01-01", "2024-12-31", parts=["month", "weekday"], missing=True),
}


def frame(n=60, seed=0):
    rng = np.random.default_rng(seed)
    days = np.datetime64("2019-06-01") + rng.integers(0, 2500, n)
    table = pd.DataFrame(
        {
            "age": rng.uniform(0, 120, n),
            "gain": rng.exponential(1e4, n),
            "sex": rng.choice(["Female", "Male", "?"], n),
            "code": rng.integers(1, 5, n).astype(float),
            "is_in": pd.array(rng.random(n) < 0.5, dtype="boolean"),
            "day": days.astype("datetime64[us]"),
        }
    )
    for name in ("age", "code", "is_in", "day"):
        table.loc[rng.random(n) < 0.3, name] = None
    return table


def as_nullable(X):
    return X.convert_dtypes().astype({"code": "Int64"})


def as_categorical(X):
    return X.astype({"sex": "category", "code": "category", "is_in": "category"})


def as_objects(X):
    X = X.astype(object)
    X["code"] = [None if pd.isna(c) else int(c) for c in X["code"]]
    X["day"] = [None if pd.isna(d) else d.date() for d in X["day"]]
    return X


def as_arrow(X):
    pytest.importorskip("pyarrow")
    return X.convert_dtypes(dtype_backend="pyarrow")


def as_arrow_dates(X):
    pytest.importorskip("pyarrow")
    return X.assign(day=X["day"].astype("date32[pyarrow]"))


def as_polars(X):
    pl = pytest.importorskip("polars")
    return pl.DataFrame(
        {
            "age": pl.Series(X["age"].to_numpy()),
            "gain": pl.Series(X["gain"].to_numpy()),
            "sex": pl.Series(X["sex"].tolist(), dtype=pl.Categorical),
            "code": [None if pd.isna(c) else int(c) for c in X["code"]],
            "is_in": [None if pd.isna(c) else bool(c) for c in X["is_in"]],
            "day": [None if pd.isna(d) else d.date() for d in X["day"]],
        }
    )


def as_polars_datetimes(X):
    pl = pytest.importorskip("polars")
    return as_polars(X).with_columns(
        pl.col("day").cast(pl.Datetime("ms")),
        pl.col("sex").cast(pl.Enum(["?", "Male", "Female"])),
        pl.col("code").cast(pl.UInt8),
    )


FORMS = [
    as_nullable,
    as_categorical,
    as_objects,
    as_arrow,
    as_arrow_dates,
    as_polars,
    as_polars_datetimes,
]

# What a table may not be, and what is said of it.
REFUSED = [
    (lambda X: X.rename(columns={"age": "years"}), "Pass all declared columns"),
    (lambda X: X.drop(columns="age"), r"none named \['age'\]"),
    (lambda X: X.assign(extra=1), "remainder='drop'"),
    (
        lambda X: X.assign(gain=np.nan),
        r"'gain' must have no missing.*Declare Range\(..., missing=True\)",
    ),
    (lambda X: X.assign(sex=None), r"'sex' must have no missing.*Declare Categories\("),
    (lambda X: X.assign(sex=1), "'sex' must hold strings"),
    (lambda X: X.assign(sex=pd.Categorical([1] * len(X))), "'sex' must hold str"),
    (lambda X: X.assign(code="1"), "'code' must hold numbers"),
    (lambda X: X.assign(code=X["code"].astype(str)), "'code' must hold numbers"),
    (lambda X: X.assign(age=True), "'age' must hold numbers"),
    (lambda X: X.assign(is_in=1), "'is_in' must hold truth values"),
    (lambda X: X.assign(day="2020-01-01"), "'day' must hold dates"),
    (lambda X: X.assign(day=X["day"].dt.tz_localize("UTC")), "with a time zone"),
    (lambda X: X.assign(age=1j), "'age' must hold numbers"),
    (lambda X: X.assign(sex=[1, *["a"] * (len(X) - 1)]), "of several types"),
    (lambda X: X.iloc[:0], "minimum of 1"),
    (lambda X: pd.concat([X, X], axis=1), "more than once"),
    (lambda X: X.to_numpy(), "data frame"),
]
