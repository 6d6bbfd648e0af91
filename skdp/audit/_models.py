"""Parameters of estimators, and rows of tables, as audits need them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import clone

from skdp._arrays import IntArray
from skdp.pipeline._walk import fitted_to_users
from skdp.privacy.ledger._ledger import BudgetLedger
from skdp.privacy.release._door import Auditor, audited

# --------------------------------------------- Parameters inside pipelines and searches


def named(estimator: Any, name: str) -> dict[str, Any]:
    """A parameter where it is set, of the estimator and its steps, by full name."""
    return {
        key: value
        for key, value in estimator.get_params(deep=True).items()
        if key.rpartition("__")[2] == name and value is not None
    }


def deep_value(estimator: Any, name: str) -> Any:
    """The first value of a parameter that is set; None if there is none."""
    return next(iter(named(estimator, name).values()), None)


def refuse_ledgers(estimator: Any) -> None:
    """Raise if any part of the estimator has a ledger.

    Raises
    ------
    ValueError
    """
    values = estimator.get_params(deep=True).values()
    if any(isinstance(value, BudgetLedger) for value in values):
        raise ValueError(
            "What is audited must have no ledger: an audit fits many times, shows the "
            "data to its reader, and would spend the budget of the data that the "
            "ledger is for. Got one. Set ledger=None and use synthetic data, or data "
            "that are given up for it."
        )


def fresh(estimator: Any) -> Any:
    """A copy without caches of fits.

    A cache would pass fits of an audit, whose noise is known, to other fits, and would
    hide from a pipeline that a record is null.
    """
    copy = clone(estimator)
    caches = named(copy, "memory")
    return copy.set_params(**dict.fromkeys(caches)) if caches else copy


def fitted(model: Any, X: Any, y: Any, auditor: Auditor, ids: Any = None) -> Any:
    """The model, fitted without a ledger; with ids, to the rows of users.

    Raises
    ------
    ValueError
        If the fit meets a ledger that parameters do not show.
    """

    def fit() -> Any:
        if ids is not None:
            return fitted_to_users(model, X, y, ids)
        return model.fit(X) if y is None else model.fit(X, y)

    return audited(auditor, fit)


def seeded(estimator: Any, seed: int) -> Any:
    """A copy whose noise follows from a seed.

    Raises
    ------
    ValueError
        If it has no parameter for a seed.
    """
    names = _of_steps(estimator, "random_state")
    if not names:
        raise ValueError("The estimator has no random_state.")
    return fresh(estimator).set_params(**dict.fromkeys(names, seed))


def can_be_seeded(estimator: Any) -> bool:
    """Whether `seeded` can set a seed."""
    return bool(_of_steps(estimator, "random_state"))


def louder(estimator: Any, times: float) -> Any:
    """A copy with this many times the budget; None if it has no budget."""
    params = estimator.get_params(deep=True)
    found = {
        name: params[name] * times
        for name in _of_steps(estimator, "epsilon")
        if isinstance(params[name], (int, float))
    }
    return clone(estimator).set_params(**found) if found else None


def _of_steps(estimator: Any, name: str) -> list[str]:
    """A parameter of the estimator itself, or else of the steps of a pipeline."""
    params = estimator.get_params(deep=True)
    if name in params:
        return [name]
    steps = {step for step, _ in getattr(estimator, "steps", ())}
    return [
        key
        for key in params
        if key.rpartition("__")[2] == name and key.rpartition("__")[0] in steps
    ]


# ----------------------------------------------------------------------- Rows of tables


def taken(table: Any, places: IntArray) -> Any:
    """Rows of a data frame, series, CSR matrix or array, in the order of `places`.

    Of no table, None.
    """
    if table is None:
        return None
    return table.iloc[places] if hasattr(table, "iloc") else table[places]


def stacked(tables: list[Any]) -> Any:
    """Tables of the same kind, one below another; None if there are none."""
    if any(table is None for table in tables):
        return None
    if all(hasattr(table, "iloc") for table in tables):
        return pd.concat(tables, ignore_index=True)
    if any(sparse.issparse(table) for table in tables):
        return sparse.vstack(tables, format="csr")
    return np.concatenate([np.asarray(table) for table in tables])


def as_table(table: Any) -> Any:
    """A table whose rows can be taken: lists become arrays."""
    return table if hasattr(table, "shape") else np.asarray(table)
